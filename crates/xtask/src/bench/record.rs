//! What recording costs, beside `perf record` on the same job.
//!
//! Both record the same tracepoints of a loop device while fio does a fixed number of requests,
//! alternating, so that a drift of the machine hits both. Compared is CPU time per million
//! events: of perf's process, which has no child here, and of iotrace's capture thread. The CPU
//! time that iotrace spends afterwards on its tables is printed beside it; perf has no such step.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::median;
use crate::loop_device::{Loop, call, memory_folder};

/// The tracepoints that iotrace opens.
const EVENTS: [&str; 13] = [
    "bio_queue",
    "getrq",
    "bio_backmerge",
    "bio_frontmerge",
    "rq_merge",
    "rq_insert",
    "rq_issue",
    "rq_requeue",
    "rq_complete",
    "split",
    "bio_remap",
    "rq_remap",
    "bio_complete",
];

/// Arguments of `cargo xtask bench record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Times that each recorder runs
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Passes of fio over 256 MiB in requests of 4 KiB: 65536 requests, five events each
    #[arg(long, default_value_t = 16)]
    loops: u32,
}

impl Default for Args {
    fn default() -> Self {
        Self { rounds: 5, loops: 16 }
    }
}

/// What one run cost.
struct Cost {
    events: u64,
    lost: u64,
    cpu_seconds: f64,
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "events are far below 2^53")]
    fn per_million(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.events.max(1) as f64
    }
}

/// Runs both recorders in turn and prints their costs and the ratio of the medians.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    for program in ["fio", "perf"] {
        if !crate::vm::is_installed(program) {
            println!("skipped: {program} is missing (apt-get install fio linux-perf)");
            return Ok(());
        }
    }
    let program = crate::vm::build_program()?;
    let device = Loop::attach(256 << 20)?;
    let name = device.path.trim_start_matches("/dev/");
    std::fs::write(format!("/sys/block/{name}/queue/scheduler"), "mq-deadline")?;
    let job = format!(
        "fio --name=job --filename={} --direct=1 --rw=randrw --bs=4k --ioengine=libaio \
         --iodepth=32 --size=256m --loops={} --randseed=7 --output-format=terse",
        device.path, args.loops
    );
    // Both write into memory: what writing back to a disk costs depends on the moment.
    let out = tempfile::tempdir_in(memory_folder()).context("cannot make a temporary folder")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    println!("round  recorder  million events   lost  CPU s per million  tables CPU s per million");
    for round in 1..=args.rounds {
        // Forth and back, so that neither always comes first.
        for turn in 0..2 {
            if (round + turn) % 2 == 1 {
                let (cost, tables) = iotrace(&program, &device.path, &job, out.path())?;
                line(round, "iotrace", &cost, Some(tables));
                ours.push(cost.per_million());
            } else {
                let cost = perf(&device.path, &job, out.path())?;
                line(round, "perf", &cost, None);
                theirs.push(cost.per_million());
            }
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("median: iotrace {ours:.4}, perf {theirs:.4} CPU seconds per million events");
    println!("ratio iotrace ÷ perf: {:.2}", ours / theirs);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "events are far below 2^53")]
fn line(round: u32, recorder: &str, cost: &Cost, tables: Option<f64>) {
    let events = cost.events as f64 / 1e6;
    let tables = tables.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}"));
    let (lost, each) = (cost.lost, cost.per_million());
    println!("{round:>5}  {recorder:<8}  {events:>14.3}  {lost:>5}  {each:>17.4}  {tables:>24}");
}

/// The capture thread's CPU time, and the rest of the program's per million events.
#[expect(clippy::cast_precision_loss, reason = "times and counts are far below 2^53")]
fn iotrace(program: &Path, device: &str, job: &str, out: &Path) -> anyhow::Result<(Cost, f64)> {
    let dataset = out.join("bench.iotrace");
    if dataset.exists() {
        std::fs::remove_dir_all(&dataset)?;
    }
    let stat = out.join("time");
    // Exit code 3 says that something was lost, which the table shows.
    let script = format!(
        "TIMEFORMAT='%U %S'; {{ time {} record --quiet --device {device} -o {} -- {job}; }} 2> {}",
        program.display(),
        dataset.display(),
        stat.display()
    );
    Command::new("bash").arg("-c").arg(script).status().context("cannot run bash")?;
    let text = std::fs::read_to_string(dataset.join("runs/rep=0/run.json"))?;
    let run: serde_json::Value = serde_json::from_str(&text)?;
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    let events = number(&run["capture"]["events"]);
    let capture = number(&run["capture"]["cpu_ns"]) as f64 / 1e9;
    let ledger = run["ledger"].as_array().cloned().unwrap_or_default();
    let lost = ledger.iter().filter(|entry| entry["severity"] == "loss");
    let lost = lost.map(|entry| number(&entry["count"])).sum();
    let workload = number(&run["user_ns"]) + number(&run["system_ns"]);
    let whole = seconds(&std::fs::read_to_string(&stat)?) - workload as f64 / 1e9;
    let cost = Cost { events, lost, cpu_seconds: capture };
    Ok((cost, (whole - capture) * 1e6 / events.max(1) as f64))
}

fn perf(device: &str, job: &str, out: &Path) -> anyhow::Result<Cost> {
    let number = std::fs::read_to_string(format!(
        "/sys/class/block/{}/dev",
        device.trim_start_matches("/dev/")
    ))?;
    let (major, minor) = number.trim().split_once(':').context("a device number")?;
    let kernel = (major.parse::<u32>()? << 20) | minor.parse::<u32>()?;
    let data = out.join("perf.data");
    let stat = out.join("time");
    let mut events = String::new();
    for name in EVENTS {
        write!(events, " -e block:block_{name} --filter dev=={kernel}")?;
    }
    // Started beside the job and not around it, so that its CPU time is its own.
    let script = format!(
        "TIMEFORMAT='%U %S'; {{ time perf record --quiet -B -N -a -k mono -m 16M{events} -o {} \
         2> /dev/null; }} 2> {}",
        data.display(),
        stat.display()
    );
    let mut recorder = Command::new("bash").arg("-c").arg(script).stdin(Stdio::null()).spawn()?;
    wait_for(&data, &mut recorder)?;
    let done = call(Command::new("bash").arg("-c").arg(format!("{job} > /dev/null")));
    call(Command::new("pkill").args(["-INT", "-x", "perf"]))?;
    recorder.wait()?;
    done?;
    let report = Command::new("perf").args(["report", "--stats", "-i"]).arg(&data).output()?;
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let count = |name: &str| {
        let mut lines = report.lines().filter_map(|line| line.trim().strip_prefix(name));
        lines.find_map(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    Ok(Cost {
        events: count("SAMPLE events:"),
        lost: count("LOST events:"),
        cpu_seconds: seconds(&std::fs::read_to_string(&stat)?),
    })
}

/// Waits until perf has opened its events and written the head of its file.
fn wait_for(data: &Path, recorder: &mut Child) -> anyhow::Result<()> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if let Some(status) = recorder.try_wait()? {
            bail!("perf record ended with {status}");
        }
        if data.metadata().is_ok_and(|file| file.len() > 0) {
            std::thread::sleep(Duration::from_millis(500));
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("perf record does not start")
}

/// User and system time as bash prints them.
fn seconds(text: &str) -> f64 {
    let last = text.lines().last().unwrap_or_default();
    last.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).sum()
}
