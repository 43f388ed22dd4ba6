//! Runs a plan: settings, capture, workload, tables, documents, and everything put back.
//!
//! The journal is dropped last on every path, and dropping it restores the settings.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use iotrace_capture::{
    Capture, Counters, Finished, Journal, Recorder, RecorderOptions, Show, Signal, Workload,
    device_facts, realtime_now,
};
use iotrace_dataset::RunEntry;
use iotrace_model::{Cause, Configuration, DeviceFacts, Ledger, Nanos};

use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::progress::Line;

use super::Plan;
use super::decode::decode;
use super::document::{self, Parts};
use super::order::{Step, change, steps};

/// How often the workload is looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often the progress line is drawn anew.
const DRAW: Duration = Duration::from_millis(200);
/// How long the capture waits, after the workload, for its last requests.
const DRAIN: Duration = Duration::from_millis(500);
/// How long an interrupted workload has before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// One run as the manifest will list it, with what the end of the plan needs of it.
struct Done {
    entry: RunEntry,
    ledger: Ledger,
    lost: u64,
    interrupted: bool,
}

pub(super) fn execute(plan: &Plan) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::listen()?;
    for setting in iotrace_capture::restore(&plan.journal)? {
        plan.talk.warn(&format!("an earlier run left this changed: {setting}"));
    }
    probe(plan)?;
    let mut journal = Journal::new(&plan.journal);
    iotrace_dataset::create(&plan.output)?;
    let created = realtime_now();
    let mut done = Vec::new();
    let result = run_all(plan, &interrupt, &mut journal, &mut done);
    for setting in journal.undo() {
        if !setting.is_done() {
            plan.talk.warn(&setting.to_string());
        }
    }
    if let Err(error) = result {
        keep_what_is_good(plan, created, &done, &error)?;
        return Err(error);
    }
    finish(plan, created, &done, None)?;
    Ok(verdict(plan, &done))
}

/// Opens and closes a capture, so that what the kernel refuses is known before anything is made.
fn probe(plan: &Plan) -> anyhow::Result<()> {
    let sink = iotrace_capture::memory_file("iotrace-probe")?;
    Recorder::start(&plan.targets, &options(plan), sink)?.stop()?;
    Ok(())
}

fn options(plan: &Plan) -> RecorderOptions {
    RecorderOptions { ring_pages_exp: plan.ring_pages_exp, limit_bytes: plan.memory_limit }
}

/// After an error: finished runs become a dataset that says what stopped it; a command that could
/// not be started leaves nothing.
fn keep_what_is_good(
    plan: &Plan,
    created: Nanos,
    done: &[Done],
    error: &anyhow::Error,
) -> anyhow::Result<()> {
    use iotrace_capture::Error;
    if !done.is_empty() {
        return finish(plan, created, done, Some(format!("stopped by an error: {error:#}")));
    }
    if let Some(Error::CommandNotFound { .. } | Error::Spawn { .. }) = error.downcast_ref() {
        std::fs::remove_dir_all(&plan.output)
            .with_context(|| format!("cannot remove {}", plan.output.display()))?;
    }
    Ok(())
}

fn run_all(
    plan: &Plan,
    interrupt: &Interrupt,
    journal: &mut Journal,
    done: &mut Vec<Done>,
) -> anyhow::Result<()> {
    let all = steps(&plan.factors, plan.repeat, plan.warmup);
    let total = all.len();
    for (order, step) in all.iter().enumerate() {
        if interrupt.count() > 0 {
            break;
        }
        let configuration = step.configuration(&plan.factors);
        let kind = if step.warmup { "warm-up " } else { "" };
        let label = format!(
            "{kind}run {} of {total}: {}, repetition {}",
            order + 1,
            configuration.label(),
            step.repetition
        );
        if total > 1 {
            plan.talk.say(&label);
        }
        apply(plan, step, journal)?;
        done.push(run_one(plan, step, &configuration, order, interrupt, &label)?);
    }
    Ok(())
}

/// Gives every device the settings of a step, and lets it settle if anything changed.
fn apply(plan: &Plan, step: &Step, journal: &mut Journal) -> anyhow::Result<()> {
    let mut changed = false;
    for target in &plan.targets {
        for (key, value) in &step.settings {
            changed |= journal.apply(&change(*key, value, target)?)?.changed;
        }
    }
    if changed {
        std::thread::sleep(plan.settle);
    }
    Ok(())
}

fn run_one(
    plan: &Plan,
    step: &Step,
    configuration: &Configuration,
    order: usize,
    interrupt: &Interrupt,
    label: &str,
) -> anyhow::Result<Done> {
    let relative = iotrace_dataset::run_folder(configuration, step.repetition, step.warmup);
    let folder = plan.output.join(&relative);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let devices: Vec<DeviceFacts> =
        plan.targets.iter().map(|target| device_facts(target, plan.identifiers)).collect();
    let raw = folder.join("capture.perf");
    let before = Counters::read(&plan.targets);
    let recorder = Recorder::start(&plan.targets, &options(plan), sink(plan, &raw)?)?;
    let started_realtime = realtime_now();
    let ran = run_workload(plan, &folder, &recorder, interrupt, label);
    let capture = recorder.stop()?;
    let counters = Counters::read(&plan.targets).since(&before);
    let finished = ran?;
    let metadata = metadata(plan, step, &capture);
    let handle = capture.file.try_clone().context("cannot read the raw capture again")?;
    let decoded = decode(
        handle,
        &raw.display().to_string(),
        capture.started,
        &devices,
        &capture.gaps,
        &folder,
        &metadata,
    )?;
    keep_or_remove(plan, &capture, &raw)?;
    let interrupted = interrupt.count() > 0;
    let mut ledger = capture.ledger.clone();
    merge_decoded(&mut ledger, &decoded.ledger);
    let document = document::run(&Parts {
        plan,
        step,
        configuration,
        order,
        started_realtime,
        devices: &devices,
        counters: &counters,
        capture: &capture,
        finished: &finished,
        decoded: &decoded,
        ledger: &ledger,
        interrupted,
    });
    iotrace_dataset::write_json(&folder.join("run.json"), &document)?;
    super::warn_of_loss(plan.talk, &ledger, &relative);
    Ok(Done {
        entry: RunEntry {
            folder: relative.display().to_string(),
            configuration: document.configuration.clone(),
            repetition: step.repetition,
            warmup: step.warmup,
            exit_code: finished.exit_code,
        },
        lost: ledger.lost(),
        ledger,
        interrupted,
    })
}

/// The raw capture goes to the run's folder, or to memory while that lies on a traced device.
fn sink(plan: &Plan, raw: &Path) -> anyhow::Result<File> {
    if plan.memory_limit.is_some() {
        return Ok(iotrace_capture::memory_file("iotrace-capture")?);
    }
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(raw)
        .with_context(|| format!("cannot create {}", raw.display()))
}

fn run_workload(
    plan: &Plan,
    folder: &Path,
    recorder: &Recorder,
    interrupt: &Interrupt,
    label: &str,
) -> anyhow::Result<Finished> {
    let create = |name: &str| {
        let path: PathBuf = folder.join(name);
        File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))
    };
    let show = match plan.talk {
        crate::talk::Talk::Normal => Show::Show,
        crate::talk::Talk::Quiet => Show::Quiet,
    };
    let line = Line::new(plan.talk, label);
    let mut workload = Workload::spawn(
        &plan.command,
        plan.run_as.as_ref(),
        create("workload.stdout")?,
        create("workload.stderr")?,
        show,
    )?;
    let mut drawn = Instant::now();
    let mut interrupted: Option<Instant> = None;
    let finished = loop {
        if let Some(finished) = workload.try_wait()? {
            break finished;
        }
        match interrupted {
            // A capture that failed, by a full disk say, has no use for the rest of the workload.
            None if interrupt.count() > 0 || recorder.has_failed() => {
                workload.signal(Signal::Interrupt);
                interrupted = Some(Instant::now());
            }
            Some(since) if interrupt.count() > 1 || since.elapsed() > PATIENCE => {
                workload.signal(Signal::Kill);
            }
            Some(_) | None => {}
        }
        if drawn.elapsed() >= DRAW {
            line.show(&recorder.progress());
            drawn = Instant::now();
        }
        std::thread::sleep(TICK);
    };
    let ended = Instant::now();
    while recorder.progress().in_flight > 0 && ended.elapsed() < DRAIN {
        std::thread::sleep(TICK);
    }
    Ok(finished)
}

fn keep_or_remove(plan: &Plan, capture: &Capture, raw: &Path) -> anyhow::Result<()> {
    if !plan.keep_raw {
        return match std::fs::remove_file(raw) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", raw.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        };
    }
    if plan.memory_limit.is_some() {
        use std::io::{Seek, SeekFrom};
        let mut from = capture.file.try_clone().context("cannot read the raw capture again")?;
        from.seek(SeekFrom::Start(0)).context("cannot read the raw capture again")?;
        let mut to =
            File::create_new(raw).with_context(|| format!("cannot create {}", raw.display()))?;
        std::io::copy(&mut from, &mut to)
            .with_context(|| format!("cannot write {}", raw.display()))?;
    }
    Ok(())
}

/// What a table says of itself in its Parquet key-values.
fn metadata(plan: &Plan, step: &Step, capture: &Capture) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("iotrace.tool_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("iotrace.clock".to_owned(), "CLOCK_MONOTONIC".to_owned()),
        ("iotrace.clock_origin_ns".to_owned(), capture.started.0.to_string()),
        ("iotrace.repetition".to_owned(), step.repetition.to_string()),
        ("iotrace.command".to_owned(), document::command(plan).join(" ")),
    ];
    for (key, value) in &step.settings {
        pairs.push((format!("iotrace.setting.{key}"), value.clone()));
    }
    pairs
}

/// The recorder and the parser both count what the kernel told of its losses; it counts once.
fn merge_decoded(ledger: &mut Ledger, decoded: &Ledger) {
    for (cause, cpu, entry) in decoded.entries().filter(|(cause, ..)| *cause != Cause::KernelLost) {
        ledger.add_entry(cause, cpu, entry);
    }
}

fn finish(
    plan: &Plan,
    created: Nanos,
    done: &[Done],
    stopped: Option<String>,
) -> anyhow::Result<()> {
    let mut ledger = Ledger::default();
    for run in done {
        ledger.merge(&run.ledger);
    }
    let planned = steps(&plan.factors, plan.repeat, plan.warmup).len();
    let mut incomplete: Vec<String> = stopped.into_iter().collect();
    let is_short = incomplete.is_empty() && done.len() < planned;
    if is_short || done.iter().any(|run| run.interrupted) {
        incomplete.push(format!("interrupted during run {} of {planned}", done.len()));
    }
    if ledger.lost() > 0 {
        incomplete.push(super::loss_sentence(&ledger));
    }
    let entries = done.iter().map(|run| run.entry.clone()).collect();
    let manifest = document::manifest(plan, created, entries, &ledger, incomplete);
    iotrace_dataset::finish(&plan.output, manifest)?;
    iotrace_capture::give_to(&plan.output, plan.run_as.as_ref())?;
    plan.talk.say(&format!("dataset: {}", plan.output.display()));
    Ok(())
}

fn verdict(plan: &Plan, done: &[Done]) -> Exit {
    let lost: u64 = done.iter().map(|run| run.lost).sum();
    let interrupted = done.iter().any(|run| run.interrupted);
    if interrupted || lost > plan.max_loss {
        return Exit::Incomplete;
    }
    if done.iter().any(|run| run.entry.exit_code != Some(0)) {
        return Exit::WorkloadFailed;
    }
    Exit::Done
}
