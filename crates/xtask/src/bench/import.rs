//! Importing and analysing beside `blkparse` and `btt`, and beside `perf script`.
//!
//! Both read the same files from memory and write into memory. blkparse prints nothing (`-O`) and
//! writes the merged dump that btt reads: the cheapest way to btt's tables.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::measure::{Cost, measure};
use super::{generate, median};
use crate::loop_device::{Loop, call, memory_folder};

/// Arguments of `cargo xtask bench import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Times that each side runs
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Requests of the trace, five events each
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Passes of fio over 64 MiB in requests of 4 KiB, recorded by perf; 0 leaves this part out
    #[arg(long, default_value_t = 36)]
    perf_loops: u32,
}

impl Default for Args {
    fn default() -> Self {
        Self { rounds: 5, requests: 1_000_000, perf_loops: 36 }
    }
}

/// Runs all parts.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    for program in ["blkparse", "btt", "/usr/bin/time"] {
        if !crate::vm::is_installed(program) {
            println!("skipped: {program} is missing (apt-get install blktrace time)");
            return Ok(());
        }
    }
    let program = crate::vm::build_program()?;
    let out = tempfile::tempdir_in(memory_folder()).context("cannot make a temporary folder")?;
    beside_btt(args, &program, out.path())?;
    if args.perf_loops > 0 {
        beside_perf_script(args, &program, out.path())?;
    }
    Ok(())
}

fn beside_btt(args: &Args, program: &Path, out: &Path) -> anyhow::Result<()> {
    generate::blktrace(out, args.requests)?;
    let events = 5 * args.requests;
    println!("blktrace pair: {events} events of {} requests, 2 CPUs", args.requests);
    let (program, folder) = (program.display(), out.display());
    let dataset = out.join("bench.iotrace");
    let peer = format!(
        "blkparse -q -i {folder}/sda -d {folder}/dump -O; btt -i {folder}/dump -o {folder}/btt"
    );
    let ours = format!(
        "{program} import -q -o {0} {folder}/sda; {program} analyze -q {0}",
        dataset.display()
    );
    let requests_only = ours.replace("import -q", "import -q --no-events");
    let sides = [("blkparse + btt", peer), ("iotrace", ours), ("--no-events", requests_only)];
    let mut costs: [Vec<Cost>; 3] = Default::default();
    println!("round  side              wall s   CPU s  memory MiB");
    for round in 0..args.rounds {
        for turn in 0..sides.len() {
            // Another side comes first in every round.
            let place = (turn + usize::try_from(round)?) % sides.len();
            let (name, script) = &sides[place];
            forget(&dataset)?;
            let mut cost = Cost::default();
            for step in script.split("; ") {
                cost = cost.then(measure(&format!("env -C {folder} {step}"), &[])?);
            }
            print_line(round, name, cost);
            if place == 1 {
                sizes(&dataset)?;
            }
            costs[place].push(cost);
        }
    }
    let [peer, whole, requests] = costs;
    ratios("import + analyze", &peer, &whole);
    ratios("import --no-events + analyze", &peer, &requests);
    decoding(out)?;
    for name in ["sda.blktrace.0", "sda.blktrace.1", "dump"] {
        std::fs::remove_file(out.join(name))?;
    }
    forget(&dataset)
}

/// Removes a dataset, where there is one.
fn forget(dataset: &Path) -> anyhow::Result<()> {
    if dataset.exists() {
        std::fs::remove_dir_all(dataset)?;
    }
    Ok(())
}

fn print_line(round: u32, name: &str, cost: Cost) {
    let Cost { wall, cpu, memory } = cost;
    println!("{:>5}  {name:<16}  {wall:>6.2}  {cpu:>6.2}  {memory:>10.0}", round + 1);
}

fn ratios(what: &str, theirs: &[Cost], ours: &[Cost]) {
    let ratio = |of: fn(&Cost) -> f64| {
        median(theirs.iter().map(of).collect()) / median(ours.iter().map(of).collect())
    };
    println!(
        "{what}: {:.1} times as fast (wall), {:.1} times (CPU), {:.2} of the memory",
        ratio(|cost| cost.wall),
        ratio(|cost| cost.cpu),
        1.0 / ratio(|cost| cost.memory),
    );
}

/// Bytes of each row.
#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn sizes(dataset: &Path) -> anyhow::Result<()> {
    let run = dataset.join("runs/rep=0");
    let text = std::fs::read_to_string(run.join("run.json"))?;
    let document: serde_json::Value = serde_json::from_str(&text)?;
    for table in ["events", "requests"] {
        let rows = document["rows"][table].as_u64().unwrap_or(0).max(1);
        let bytes = run.join(format!("{table}.parquet")).metadata()?.len();
        println!("       {table}: {:.2} bytes a row", bytes as f64 / rows as f64);
    }
    Ok(())
}

/// Bare decoding on one core, and reading the same bytes.
fn decoding(folder: &Path) -> anyhow::Result<()> {
    let files = ["sda.blktrace.0", "sda.blktrace.1"].map(|name| folder.join(name));
    let mut cargo = Command::new("cargo");
    cargo.args([
        "bench",
        "--profile",
        "release",
        "-p",
        "iotrace-parse",
        "--bench",
        "blktrace",
        "--",
    ]);
    cargo.args(files).stderr(Stdio::null());
    let output = cargo.output().context("cannot run cargo bench")?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

fn beside_perf_script(args: &Args, program: &Path, out: &Path) -> anyhow::Result<()> {
    for program in ["fio", "perf"] {
        if !crate::vm::is_installed(program) {
            println!("skipped: {program} is missing (apt-get install fio linux-perf)");
            return Ok(());
        }
    }
    let device = Loop::attach(64 << 20)?;
    let data = out.join("perf.data");
    let job = format!(
        "fio --name=job --filename={} --direct=1 --rw=randrw --bs=4k --ioengine=libaio \
         --iodepth=32 --size=64m --loops={} --randseed=7 --output-format=terse --output=/dev/null",
        device.path, args.perf_loops
    );
    let number = std::fs::read_to_string(format!(
        "/sys/class/block/{}/dev",
        device.path.trim_start_matches("/dev/")
    ))?;
    let (major, minor) = number.trim().split_once(':').context("a device number")?;
    let kernel = (major.parse::<u32>()? << 20) | minor.parse::<u32>()?;
    let filter = format!("dev=={kernel}");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "-B", "-N", "-a", "-k", "mono", "-m", "16M"]);
    for name in ["bio_queue", "getrq", "rq_insert", "rq_issue", "rq_complete"] {
        record.args(["-e", &format!("block:block_{name}"), "--filter", &filter]);
    }
    call(record.arg("-o").arg(&data).arg("--").args(job.split_whitespace()))?;
    drop(device);
    let dataset = out.join("bench.iotrace");
    let theirs = format!("perf script -i {}", data.display());
    let ours =
        format!("{} import -q -o {} {}", program.display(), dataset.display(), data.display());
    let mut costs: [Vec<Cost>; 2] = Default::default();
    println!("perf.data of {} MiB", data.metadata()?.len() >> 20);
    println!("round  side              wall s   CPU s  memory MiB");
    for round in 0..args.rounds {
        for turn in 0..2 {
            let place = (turn + usize::try_from(round)?) % 2;
            forget(&dataset)?;
            let script = if place == 0 { &theirs } else { &ours };
            let cost = measure(script, &[3])?;
            print_line(round, ["perf script", "iotrace import"][place], cost);
            costs[place].push(cost);
        }
    }
    let text = std::fs::read_to_string(dataset.join("runs/rep=0/run.json"))?;
    let run: serde_json::Value = serde_json::from_str(&text)?;
    let Some(events) = run["capture"]["events"].as_u64() else { bail!("no events in {text}") };
    println!("{events} events");
    let [theirs, ours] = costs;
    ratios("import of perf.data", &theirs, &ours);
    Ok(())
}
