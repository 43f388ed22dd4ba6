//! What is written down of an imported run: the same documents as of a recorded one.

use std::collections::BTreeMap;
use std::path::Path;

use iotrace_dataset::{
    CaptureDocument, ImportDocument, MANIFEST_SCHEMA, Manifest, MessageDocument, PlanDocument,
    RUN_SCHEMA, RunDocument, ledger_to_documents,
};
use iotrace_model::{Cause, DeviceFacts, DeviceId, Ledger, Nanos};
use iotrace_parse::{About, Error, Format};

use crate::tables::Filled;

use super::execute::{Done, Section};

/// Everything that goes into one run's document.
pub(super) struct Parts<'a> {
    pub(super) format: Format,
    pub(super) files: &'a [String],
    pub(super) bytes: u64,
    pub(super) section: Section,
    pub(super) filled: Filled,
    /// Why reading stopped before the end.
    pub(super) failure: Option<Error>,
}

/// What a table says of itself in its Parquet key-values.
pub(super) fn metadata(repetition: u32) -> Vec<(String, String)> {
    vec![
        ("iotrace.tool_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("iotrace.repetition".to_owned(), repetition.to_string()),
    ]
}

/// `run.json` of one run.
pub(super) fn run(
    parts: Parts<'_>,
    place: usize,
    ledger: &Ledger,
    reasons: &[String],
) -> RunDocument {
    let Parts { format, files, bytes, section, filled, .. } = parts;
    let Section { about, records_read, .. } = section;
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    let devices = devices(&filled, &about);
    let About { source, clock, origin, wall, messages, notes, .. } = about;
    let known = |time: Option<Nanos>| time.map_or(0, |time| time.0);
    let messages =
        messages.into_iter().map(|(time, text)| MessageDocument { time_ns: time.0, text });
    let missing = what_is_missing(&filled, ledger);
    RunDocument {
        schema: RUN_SCHEMA.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        repetition: place,
        order: place,
        clock: if clock.is_empty() { "unknown".to_owned() } else { clock },
        clock_origin_ns: known(origin),
        started_realtime_ns: known(wall),
        wall_ns: filled.last.zip(filled.first).map_or(0, |(last, first)| (last - first).0),
        devices: devices.iter().map(Into::into).collect(),
        capture: CaptureDocument {
            source,
            records_read,
            events: filled.events,
            bytes,
            ..CaptureDocument::default()
        },
        ledger: ledger_to_documents(ledger),
        rows: filled.rows(),
        imported: Some(ImportDocument {
            format: format.name().to_owned(),
            files: files.iter().map(|file| file_name(file)).collect(),
            notes: reasons.iter().cloned().chain(notes).chain(missing).collect(),
            messages: messages.collect(),
        }),
        ..RunDocument::default()
    }
}

/// `manifest.json`, still without checksums.
pub(super) fn manifest(done: &[Done], ledger: &Ledger, incomplete: Vec<String>) -> Manifest {
    let first = done.first().map(|run| &run.document);
    let wall = first.map(|run| run.started_realtime_ns).filter(|wall| *wall != 0);
    Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: wall.map_or_else(String::new, |wall| crate::cmd::timestamp(Nanos(wall))),
        simulated: false,
        incomplete,
        plan: PlanDocument {
            repeat: u32::try_from(done.len()).unwrap_or(u32::MAX),
            order: done.iter().map(|run| run.entry.folder.clone()).collect(),
            ..PlanDocument::default()
        },
        runs: done.iter().map(|run| run.entry.clone()).collect(),
        devices: first.map_or_else(Vec::new, |run| run.devices.clone()),
        ledger: ledger_to_documents(ledger),
        checksums: BTreeMap::new(),
        ..Manifest::default()
    }
}

/// The devices that had requests, by number; where the trace has no name, the number is the name.
fn devices(filled: &Filled, about: &About) -> Vec<DeviceFacts> {
    let name = |device: DeviceId| {
        let known = about.names.iter().find(|(known, _)| *known == device);
        known.map_or_else(|| device.to_string(), |(_, name)| name.clone())
    };
    let all = filled.devices.keys();
    all.map(|device| DeviceFacts { device: *device, name: name(*device), ..DeviceFacts::default() })
        .collect()
}

/// Events that were cut out of a text, and stages of which no event is in the trace.
fn what_is_missing(filled: &Filled, ledger: &Ledger) -> Vec<String> {
    let seen = filled.seen;
    let mut missing = Vec::new();
    let gaps = ledger.count(Cause::TextGap);
    if gaps > 0 {
        missing.push(format!("{gaps} events are missing: {}", Cause::TextGap.sentence()));
    }
    if seen.completions > 0 && seen.queues == 0 && seen.issues > 0 {
        missing.push("no queue events: only the time from issue to completion is known".to_owned());
    }
    if seen.completions > 0 && seen.issues == 0 && seen.queues > 0 {
        missing.push(
            "no issue events, as of a device that works on bios: only the time from queue to \
             completion is known"
                .to_owned(),
        );
    }
    missing
}

/// A file without its folder, which says more of its owner than of the trace.
fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}
