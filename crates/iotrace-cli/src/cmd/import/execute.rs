//! Reads traces and writes their runs.
//!
//! A thread reads and decodes while this one pairs events to requests; the tables are encoded on
//! threads of their own. What was read before an error is kept.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, bail};
use iotrace_dataset::{RunDocument, RunEntry};
use iotrace_model::{Configuration, Item, Ledger};
use iotrace_parse::{About, Progress, Reader, Trace};

use crate::exit::Exit;
use crate::progress::Line;
use crate::tables::{Filled, Tables};

use super::Import;
use super::document::{self, Parts};

/// Batches on their way from the reader.
const BATCHES: usize = 64;

/// What the reading thread hands over.
enum Message {
    Items(Vec<Item>),
    /// A capture ends here.
    Ended(Box<Section>, Next),
}

/// How the trace goes on behind a capture.
enum Next {
    Another,
    End,
    /// It cannot be read on.
    Failed(iotrace_parse::Error),
}

/// What is known of a capture at its end.
#[derive(Default)]
pub(super) struct Section {
    pub(super) about: About,
    pub(super) ledger: Ledger,
    pub(super) records_read: u64,
}

/// One run that was written.
pub(super) struct Done {
    pub(super) entry: RunEntry,
    pub(super) document: RunDocument,
    pub(super) ledger: Ledger,
    /// Why its data are incomplete, beside losses.
    pub(super) reasons: Vec<String>,
}

pub(super) fn execute(mut plan: Import) -> anyhow::Result<Exit> {
    iotrace_dataset::create(&plan.output)?;
    let mut done = Vec::new();
    let mut empty = Vec::new();
    for trace in std::mem::take(&mut plan.traces) {
        let name = trace.files.join(", ");
        let before = done.len();
        if let Err(error) = import(&plan, trace, &mut done) {
            remove_if_empty(&plan.output, &done)?;
            return Err(error);
        }
        if done.len() == before {
            empty.push(name);
        }
    }
    if done.is_empty() {
        remove_if_empty(&plan.output, &done)?;
        bail!(
            "no block events in {}: record with blktrace, or with perf or ftrace and the events \
             block:*",
            empty.join(", ")
        );
    }
    for name in empty {
        plan.talk.warn(&format!("no block events in {name}"));
    }
    finish(&plan, &done)
}

/// A folder without a run would only be in the way.
fn remove_if_empty(output: &Path, done: &[Done]) -> anyhow::Result<()> {
    if !done.is_empty() {
        return Ok(());
    }
    std::fs::remove_dir_all(output).with_context(|| format!("cannot remove {}", output.display()))
}

/// Writes a run for every capture of a trace.
fn import(plan: &Import, trace: Trace, done: &mut Vec<Done>) -> anyhow::Result<()> {
    let Trace { mut reader, format, files, bytes } = trace;
    let line = Line::new(plan.talk, &files.join(", "));
    std::thread::scope(|scope| {
        let (to_us, messages) = sync_channel(BATCHES);
        let (to_reader, used) = sync_channel(BATCHES);
        std::thread::Builder::new()
            .name("read".to_owned())
            .spawn_scoped(scope, move || read(reader.as_mut(), &to_us, &used))
            .context("cannot start a thread")?;
        let mut run = None;
        let mut seen = 0;
        for message in messages {
            let (section, next) = match message {
                Message::Items(items) => {
                    if !items.is_empty() {
                        let open = match &mut run {
                            Some(open) => open,
                            None => run.insert(Open::new(plan, done.len())?),
                        };
                        open.tables.push(&items)?;
                    }
                    seen += items.len() as u64;
                    line.count(seen);
                    // The reader may be done already and not want it back.
                    drop(to_reader.try_send(items));
                    continue;
                }
                Message::Ended(section, next) => (*section, next),
            };
            let failure = match next {
                Next::Another | Next::End => None,
                Next::Failed(error) => Some(error),
            };
            let Some(Open { tables, relative, folder }) = run.take() else {
                failure.map_or(Ok(()), Err)?;
                continue;
            };
            let filled = tables.finish()?;
            if filled.events == 0 {
                std::fs::remove_dir_all(&folder)
                    .with_context(|| format!("cannot remove {}", folder.display()))?;
                failure.map_or(Ok(()), Err)?;
                continue;
            }
            let parts = Parts { format, files: &files, bytes, section, filled, failure };
            done.push(write_run(plan, &relative, &folder, parts, done.len())?);
        }
        Ok(())
    })
}

/// A run whose tables are being filled.
struct Open {
    tables: Tables,
    relative: PathBuf,
    folder: PathBuf,
}

impl Open {
    fn new(plan: &Import, place: usize) -> anyhow::Result<Self> {
        let repetition = u32::try_from(place).unwrap_or(u32::MAX);
        let relative = iotrace_dataset::run_folder(&Configuration::default(), repetition, false);
        let folder = plan.output.join(&relative);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let tables = Tables::create(&folder, &document::metadata(repetition), plan.events)?;
        Ok(Self { tables, relative, folder })
    }
}

/// Reads to the end, or until nobody listens any more.
fn read(reader: &mut dyn Reader, to_us: &SyncSender<Message>, used: &Receiver<Vec<Item>>) {
    let mut records = 0;
    loop {
        let mut items = used.try_recv().unwrap_or_default();
        items.clear();
        let next = match reader.next_batch(&mut items) {
            Ok(Progress::More) => None,
            Ok(Progress::Restart) => Some(Next::Another),
            Ok(Progress::End) => Some(Next::End),
            Err(error) => Some(Next::Failed(error)),
        };
        if to_us.send(Message::Items(items)).is_err() {
            return;
        }
        let Some(next) = next else { continue };
        let section = Section {
            about: reader.about(),
            ledger: reader.take_ledger(),
            records_read: reader.records().read - records,
        };
        records = reader.records().read;
        let more = matches!(next, Next::Another);
        if to_us.send(Message::Ended(Box::new(section), next)).is_err() || !more {
            return;
        }
    }
}

fn write_run(
    plan: &Import,
    relative: &Path,
    folder: &Path,
    parts: Parts<'_>,
    place: usize,
) -> anyhow::Result<Done> {
    let mut ledger = parts.section.ledger.clone();
    ledger.merge(&parts.filled.ledger);
    let mut reasons = reasons(&parts.filled);
    if let Some(error) = &parts.failure {
        reasons.push(format!("reading stopped: {}", chain(error)));
    }
    let document = document::run(parts, place, &ledger, &reasons);
    iotrace_dataset::write_json(&folder.join("run.json"), &document)?;
    for reason in &reasons {
        plan.talk.warn(&format!("{}: {reason}", relative.display()));
    }
    crate::cmd::record::warn_of_loss(plan.talk, &ledger, relative);
    let entry = RunEntry {
        folder: relative.display().to_string(),
        configuration: Vec::new(),
        repetition: document.repetition,
        warmup: false,
        exit_code: None,
    };
    Ok(Done { entry, document, ledger, reasons })
}

/// An error and what lies below it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        text.push_str(": ");
        text.push_str(&error.to_string());
        below = error.source();
    }
    text
}

/// What the trace lacks without which hardly anything can be said.
fn reasons(filled: &Filled) -> Vec<String> {
    let seen = filled.seen;
    let mut reasons = Vec::new();
    if seen.completions == 0 {
        reasons.push(
            "no completions were recorded, so there is no latency; perf needs -a, and blktrace no \
             filter that leaves them out"
                .to_owned(),
        );
    } else if seen.issues == 0 && seen.queues == 0 {
        reasons.push("completions only, so there is no latency".to_owned());
    }
    reasons
}

/// What was noticed, once each.
fn say_notes(plan: &Import, done: &[Done]) {
    let mut said = Vec::new();
    for run in done {
        let imported = run.document.imported.as_ref();
        for note in imported.iter().flat_map(|imported| &imported.notes) {
            if !said.contains(&note) && !run.reasons.contains(note) {
                plan.talk.say(&format!("{}: {note}", run.entry.folder));
                said.push(note);
            }
        }
    }
}

/// The manifest, and how the import ended.
fn finish(plan: &Import, done: &[Done]) -> anyhow::Result<Exit> {
    let mut ledger = Ledger::default();
    for run in done {
        ledger.merge(&run.ledger);
    }
    let mut incomplete = Vec::new();
    for run in done {
        let folder = &run.entry.folder;
        incomplete.extend(run.reasons.iter().map(|reason| format!("{folder}: {reason}")));
    }
    let is_incomplete = !incomplete.is_empty() || ledger.lost() > plan.max_loss;
    if ledger.lost() > 0 {
        incomplete.push(crate::cmd::record::loss_sentence(&ledger));
    }
    let manifest = document::manifest(done, &ledger, incomplete);
    iotrace_dataset::finish(&plan.output, manifest)?;
    iotrace_capture::give_to(&plan.output, plan.owner.as_ref())?;
    say_notes(plan, done);
    let count = |of: fn(&RunDocument) -> u64| done.iter().map(|run| of(&run.document)).sum::<u64>();
    plan.talk.say(&format!(
        "{} events, {} requests in {} {}",
        count(|run| run.capture.events),
        count(|run| run.rows.requests),
        done.len(),
        if done.len() == 1 { "run" } else { "runs" },
    ));
    plan.talk.say(&format!("dataset: {}", plan.output.display()));
    Ok(if is_incomplete { Exit::Incomplete } else { Exit::Done })
}
