//! `iotrace import --recover`: finishes the dataset of a recorder that was killed.
//!
//! Runs with a `run.json` are whole. Of the one that was under way, the raw capture is read like any
//! other file. What cannot be recovered is named in the manifest, and half a table is removed,
//! because it would stop every reader of `runs/**`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use iotrace_dataset::{
    CaptureDocument, DRAFT, FactorDocument, MANIFEST_SCHEMA, Manifest, PlanDocument, Remains,
    RunDocument, RunEntry, ledger_from_documents, ledger_to_documents,
};
use iotrace_model::{DeviceFacts, Ledger, Nanos};

use crate::cmd::record::{decode, loss_sentence, run_as, warn_of_loss};
use crate::exit::Exit;
use crate::talk::Talk;

/// The raw capture of a run.
const RAW: &str = "capture.perf";

/// Finishes the dataset in `root`.
pub(super) fn recover(root: &Path, talk: Talk) -> anyhow::Result<Exit> {
    let mut runs = Vec::new();
    let mut incomplete = Vec::new();
    for remains in iotrace_dataset::remains(root)? {
        let folder = remains.folder.display().to_string();
        if let Some(document) = remains.document {
            runs.push((folder, document));
            continue;
        }
        match recover_run(root, &remains, talk) {
            Ok(document) => {
                incomplete.push(format!("{folder} was recovered after its recorder was stopped"));
                runs.push((folder, document));
            }
            Err(error) => {
                remove_tables(&root.join(&remains.folder))?;
                talk.warn(&format!("{folder} cannot be recovered: {error:#}"));
                incomplete.push(format!("{folder} could not be recovered: {error:#}"));
            }
        }
    }
    if runs.is_empty() {
        bail!("nothing in {} can be recovered; remove it and record again", root.display());
    }
    let mut ledger = Ledger::default();
    for (_, run) in &runs {
        ledger.merge(&ledger_from_documents(&run.ledger));
    }
    incomplete.push("the recorder was stopped before the end of the plan".to_owned());
    if ledger.lost() > 0 {
        incomplete.push(loss_sentence(&ledger));
    }
    iotrace_dataset::finish(root, manifest(&runs, &ledger, incomplete))?;
    iotrace_capture::give_to(root, run_as(None)?.as_ref())?;
    talk.say(&format!("dataset: {}, {} runs", root.display(), runs.len()));
    Ok(Exit::Incomplete)
}

/// Makes the tables and the document of a run from its raw capture.
fn recover_run(root: &Path, remains: &Remains, talk: Talk) -> anyhow::Result<RunDocument> {
    let folder = root.join(&remains.folder);
    let raw = folder.join(RAW);
    let draft = remains.draft.clone();
    let in_memory = draft.as_ref().is_some_and(|draft| draft.capture.in_memory);
    if in_memory && !raw.exists() {
        bail!("its raw capture was in memory, because the output lay on a traced device");
    }
    let draft = draft.with_context(|| format!("{} is missing", folder.join(DRAFT).display()))?;
    let file = File::open(&raw).with_context(|| format!("cannot read {}", raw.display()))?;
    let bytes = file.metadata().map_or(0, |file| file.len());
    remove_tables(&folder)?;
    let devices: Vec<DeviceFacts> = draft.devices.iter().map(DeviceFacts::from).collect();
    let origin = Nanos(draft.clock_origin_ns);
    let metadata = metadata(&draft);
    let name = raw.display().to_string();
    let decoded = decode(file, &name, origin, &devices, &[], &folder, &metadata)?;
    warn_of_loss(talk, &decoded.ledger, &remains.folder);
    let document = RunDocument {
        interrupted: true,
        wall_ns: decoded.filled.last.map_or(0, |last| last.0),
        capture: CaptureDocument {
            records_read: decoded.records_read,
            events: decoded.filled.events,
            bytes,
            ..draft.capture
        },
        ledger: ledger_to_documents(&decoded.ledger),
        rows: decoded.filled.rows(),
        ..draft
    };
    iotrace_dataset::write_json(&folder.join("run.json"), &document)?;
    remove(&folder.join(DRAFT))?;
    Ok(document)
}

/// What a table says of itself, as in a recording that was not stopped.
fn metadata(run: &RunDocument) -> Vec<(String, String)> {
    let mut pairs = vec![
        ("iotrace.tool_version".to_owned(), run.tool_version.clone()),
        ("iotrace.clock".to_owned(), run.clock.clone()),
        ("iotrace.clock_origin_ns".to_owned(), run.clock_origin_ns.to_string()),
        ("iotrace.repetition".to_owned(), run.repetition.to_string()),
        ("iotrace.command".to_owned(), run.command.join(" ")),
    ];
    let settings = run.configuration.iter();
    pairs.extend(settings.map(|(key, value)| (format!("iotrace.setting.{key}"), value.clone())));
    pairs
}

fn remove_tables(folder: &Path) -> anyhow::Result<()> {
    remove(&folder.join("events.parquet"))?;
    remove(&folder.join("requests.parquet"))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The manifest of what is there; the plan beyond it is not known.
fn manifest(runs: &[(String, RunDocument)], ledger: &Ledger, incomplete: Vec<String>) -> Manifest {
    let first = runs.first().map(|(_, run)| run.clone()).unwrap_or_default();
    let mut values: BTreeMap<usize, FactorDocument> = BTreeMap::new();
    for (_, run) in runs {
        for (place, (key, value)) in run.configuration.iter().enumerate() {
            let factor = values.entry(place).or_default();
            factor.key.clone_from(key);
            if !factor.values.contains(value) {
                factor.values.push(value.clone());
            }
        }
    }
    let most = |warmup| {
        let repetitions = runs.iter().filter(|(_, run)| run.warmup == warmup);
        repetitions.map(|(_, run)| run.repetition + 1).max().unwrap_or(0)
    };
    Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: crate::cmd::timestamp(Nanos(first.started_realtime_ns)),
        incomplete,
        plan: PlanDocument {
            command: first.command,
            factors: values.into_values().collect(),
            repeat: most(false),
            warmup: most(true),
            settle_ms: first.settle_ms,
            order: runs.iter().map(|(folder, _)| folder.clone()).collect(),
        },
        runs: runs
            .iter()
            .map(|(folder, run)| RunEntry {
                folder: folder.clone(),
                configuration: run.configuration.clone(),
                repetition: run.repetition,
                warmup: run.warmup,
                exit_code: run.exit_code,
            })
            .collect(),
        host: first.host,
        devices: first.devices,
        ledger: ledger_to_documents(ledger),
        ..Manifest::default()
    }
}
