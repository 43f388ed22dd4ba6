//! `iotrace record`: what was typed, and the checked plan made of it.
//!
//! Everything that can be refused is refused here, before the first setting is changed.

mod decode;
mod document;
mod execute;
mod order;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgAction, ValueEnum};
use iotrace_capture::{Identifiers, RunAs, Target, find_device};
use iotrace_model::Ledger;

use crate::exit::Exit;
use crate::talk::Talk;

use self::order::{Factor, Key};

/// Where changes of device settings are journalled.
pub(crate) const JOURNAL: &str = "/var/lib/iotrace/journal";

/// Arguments of `iotrace record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs: Linux 4.1 or later with block tracepoints, and root or CAP_PERFMON with a readable tracefs;
changing settings needs root. The command itself runs as the user who called sudo.
Costs: about 1 microsecond of CPU per event, four to six events per request, 16 MiB of locked
memory per CPU. Ring buffers that overflow are counted as loss, never passed over in silence.
Limits: passthrough commands have no sector; a partition's flushes belong to the whole disk.
Exit codes: 0 done, 1 failed, 2 bad usage, 3 data are incomplete, 4 the command failed.

Example: sudo iotrace record -o ncq.iotrace --device sda --ncq on,off --repeat 3 -- fio job.fio")]
pub(crate) struct Args {
    /// Dataset to write, a folder that must not exist
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Disk, partition, dm, md or loop device: path, name or major:minor; may be repeated
    #[arg(short, long = "device", value_name = "DEV", required = true, action = ArgAction::Append)]
    devices: Vec<String>,
    /// Where events come from
    #[arg(long, value_enum, default_value_t = Source::Auto)]
    source: Source,
    /// Run with NCQ on, off or both; the first value is the baseline
    #[arg(long, value_name = "on,off", value_delimiter = ',')]
    ncq: Vec<Switch>,
    /// Run at these depths of the device queue (its attribute `queue_depth`)
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    queue_depth: Vec<u32>,
    /// Run with these schedulers
    #[arg(long, value_name = "S,…", value_delimiter = ',')]
    scheduler: Vec<String>,
    /// Run with the drive's write cache on, off or both
    #[arg(long, value_name = "on,off", value_delimiter = ',')]
    write_cache: Vec<Switch>,
    /// Measured runs of every configuration; three or more allow a verdict
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Runs of every configuration before the measured ones, kept apart
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u32,
    /// Pause after a change of settings, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    settle: u64,
    /// Ring buffer for each CPU, in KiB, rounded up to a power of two
    #[arg(long, value_name = "KIB", default_value_t = 16384)]
    ring_size: u64,
    /// Most memory for the raw capture while the output lies on a traced device, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory_limit: u64,
    /// Keep the raw capture of each run (capture.perf, readable by perf script)
    #[arg(long)]
    keep_raw: bool,
    /// User to run the command as [default: the user who called sudo]
    #[arg(long, value_name = "USER")]
    run_as: Option<String>,
    /// Keep serial numbers, host name and paths of backing files
    #[arg(long)]
    with_identifiers: bool,
    /// Events that may be lost before the exit code becomes 3
    #[arg(long, value_name = "EVENTS", default_value_t = 0)]
    max_loss: u64,
    /// Folder of the journal of changed settings
    #[arg(long, value_name = "DIR", default_value = JOURNAL, env = "IOTRACE_JOURNAL", hide = true)]
    journal: PathBuf,
    /// Say nothing but errors and warnings, and do not show the command's output
    #[arg(short, long)]
    quiet: bool,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Source {
    /// The best that works here
    Auto,
    /// Block tracepoints through `perf_event_open`
    Perf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Switch {
    const fn word(self) -> &'static str {
        match self {
            Switch::On => "on",
            Switch::Off => "off",
        }
    }
}

/// What is to be done, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    output: PathBuf,
    targets: Vec<Target>,
    factors: Vec<Factor>,
    repeat: u32,
    warmup: u32,
    settle: Duration,
    ring_pages_exp: u8,
    /// Most bytes of raw capture, when it stays in memory because the output is on a traced device.
    memory_limit: Option<u64>,
    keep_raw: bool,
    run_as: Option<RunAs>,
    identifiers: Identifiers,
    max_loss: u64,
    journal: PathBuf,
    talk: Talk,
    command: Vec<OsString>,
}

impl Plan {
    pub(crate) fn new(args: Args) -> anyhow::Result<Self> {
        let targets = targets(&args.devices)?;
        let factors = order::factors(&[
            (Key::Ncq, args.ncq.iter().map(|switch| switch.word().to_owned()).collect()),
            (Key::QueueDepth, args.queue_depth.iter().map(u32::to_string).collect()),
            (Key::Scheduler, args.scheduler),
            (Key::WriteCache, args.write_cache.iter().map(|s| s.word().to_owned()).collect()),
        ])?;
        for factor in &factors {
            for target in &targets {
                factor.check(target)?;
            }
        }
        match args.source {
            Source::Auto | Source::Perf => {}
        }
        let folder = parent(&args.output);
        let on_traced = is_on_traced_device(&folder, &targets);
        let memory_limit = on_traced.then(|| args.memory_limit.saturating_mul(1 << 20));
        Ok(Self {
            ring_pages_exp: ring_pages_exp(args.ring_size)?,
            output: args.output,
            targets,
            factors,
            repeat: args.repeat,
            warmup: args.warmup,
            settle: Duration::from_millis(args.settle),
            memory_limit,
            keep_raw: args.keep_raw,
            run_as: run_as(args.run_as.as_deref())?,
            identifiers: if args.with_identifiers { Identifiers::Keep } else { Identifiers::Omit },
            max_loss: args.max_loss,
            journal: args.journal,
            talk: Talk::from_flag(args.quiet),
            command: args.command,
        })
    }

    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        execute::execute(&self)
    }
}

/// How a manifest names its losses among the reasons why it is incomplete.
pub(crate) fn loss_sentence(ledger: &Ledger) -> String {
    format!("{} events were lost", ledger.lost())
}

/// Tells of losses and broken input.
pub(crate) fn warn_of_loss(talk: Talk, ledger: &Ledger, folder: &std::path::Path) {
    for (cause, cpu, entry) in ledger.entries() {
        if cause.severity() > iotrace_model::Severity::Info {
            let place = cpu.map_or_else(String::new, |cpu| format!(" on CPU {}", cpu.0));
            let (folder, count) = (folder.display(), entry.count);
            talk.warn(&format!("{folder}: {count} events{place}: {}", cause.sentence()));
        }
    }
}

/// The devices that were named, each once, with the members of stacked ones behind them.
fn targets(names: &[String]) -> anyhow::Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::new();
    for name in names {
        let target = find_device(name)?;
        let members = target.members.clone();
        add(&mut targets, target);
        for member in members {
            add(&mut targets, find_device(&member.to_string())?);
        }
    }
    Ok(targets)
}

fn add(targets: &mut Vec<Target>, target: Target) {
    if !targets.iter().any(|other| other.device == target.device && other.range == target.range) {
        targets.push(target);
    }
}

/// The folder that a dataset goes into.
pub(crate) fn parent(output: &std::path::Path) -> PathBuf {
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// Whether writing the capture there would be traced itself. A file system without a block
/// device of its own (tmpfs, btrfs, NFS) counts as elsewhere.
fn is_on_traced_device(folder: &std::path::Path, targets: &[Target]) -> bool {
    iotrace_capture::device_of(folder)
        .and_then(|device| find_device(&device.to_string()).ok())
        .is_some_and(|home| {
            let below = home.members.iter().chain([&home.device]);
            below.into_iter().any(|device| targets.iter().any(|target| target.device == *device))
        })
}

/// The user who is to run the command and own what is written; `None` for the current one.
pub(crate) fn run_as(name: Option<&str>) -> anyhow::Result<Option<RunAs>> {
    if let Some(name) = name {
        return Ok(Some(RunAs::by_name(name)?));
    }
    match (std::env::var("SUDO_UID"), std::env::var("SUDO_GID")) {
        (Ok(uid), Ok(gid)) => {
            Ok(Some(RunAs::from_sudo(&uid, &gid).context("cannot tell who called sudo")?))
        }
        (Ok(_) | Err(_), Ok(_) | Err(_)) => Ok(None),
    }
}

/// The exponent of the smallest power of two of pages that holds `kib`.
fn ring_pages_exp(kib: u64) -> anyhow::Result<u8> {
    let page = iotrace_capture::page_size();
    let Some(bytes) = kib.checked_mul(1024).filter(|bytes| *bytes <= 1 << 34) else {
        bail!("--ring-size {kib} KiB is too large: at most 16 GiB");
    };
    let pages = bytes.div_ceil(page).max(1).next_power_of_two();
    Ok(u8::try_from(pages.ilog2()).unwrap_or(u8::MAX))
}
