//! A dataset's folder: made, finished, opened, and refused for a stated reason.

#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

use std::path::{Path, PathBuf};

use iotrace_dataset::{
    Dataset, DeviceDocument, Error, LedgerEntryDocument, Manifest, RUN_SCHEMA, RunDocument,
    RunEntry, checksum, create, finish, ledger_from_documents, ledger_to_documents, run_folder,
    write_json,
};
use iotrace_model::{
    AtaPort, Cause, Configuration, Cpu, DeviceFacts, DeviceId, Facts, Ledger, Nanos, Sector,
};

#[test]
fn a_finished_dataset_opens_with_its_runs_and_checksums() {
    let (_folder, root) = fresh();
    create(&root).unwrap();
    let runs = [run(&root, "on", 0, true), run(&root, "on", 0, false), run(&root, "off", 0, false)];
    finish(&root, Manifest { runs: runs.to_vec(), ..Manifest::default() }).unwrap();
    let dataset = Dataset::open(&root).unwrap();
    let folders: Vec<_> = dataset.runs.iter().map(|run| run.folder.display().to_string()).collect();
    let expected = ["warmup/ncq=on/rep=0", "runs/ncq=on/rep=0", "runs/ncq=off/rep=0"];
    assert_eq!(folders, expected);
    assert_eq!(dataset.runs[2].document.configuration, configuration("off").settings);
    let mut files: Vec<_> = expected.iter().map(|folder| format!("{folder}/run.json")).collect();
    files.sort();
    assert!(dataset.manifest.checksums.keys().eq(&files));
    for (file, sum) in &dataset.manifest.checksums {
        assert_eq!(checksum(&root.join(file)).unwrap(), *sum);
    }
    let left: Vec<_> = std::fs::read_dir(&root).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_dataset_is_never_overwritten() {
    let (_folder, root) = fresh();
    create(&root).unwrap();
    let error = create(&root).unwrap_err();
    assert!(matches!(&error, Error::OutputExists { path } if *path == root), "{error:?}");
}

#[test]
fn what_is_no_dataset_is_told_apart_from_what_is_unfinished() {
    let (_folder, root) = fresh();
    let name = root.display();
    check_refused(&root, &format!("there is no directory {name}"));
    create(&root).unwrap();
    check_refused(
        &root,
        &format!("{name} is no dataset: it has neither manifest.json nor a folder of runs"),
    );
    let unfinished = |count: usize| {
        format!(
            "{name} is unfinished: it has no manifest.json and {count} finished runs; its recorder \
             was stopped; finish it with iotrace import --recover {name}"
        )
    };
    run(&root, "on", 0, true);
    check_refused(&root, &unfinished(0));
    run(&root, "on", 0, false);
    run(&root, "off", 0, false);
    std::fs::create_dir_all(root.join("runs/ncq=on/rep=1")).unwrap();
    check_refused(&root, &unfinished(2));
}

#[test]
fn a_version_that_cannot_be_read_is_named() {
    let (_folder, root) = fresh();
    create(&root).unwrap();
    let entry = run(&root, "on", 0, false);
    let document = RunDocument { schema: "iotrace/run/2".to_owned(), ..RunDocument::default() };
    let path = root.join(&entry.folder).join("run.json");
    write_json(&path, &document).unwrap();
    finish(&root, Manifest { runs: vec![entry], ..Manifest::default() }).unwrap();
    let error = |path: &Path, found: &str, expected: &str| {
        format!(
            "{} has schema {found:?}, this version reads {expected:?}; use the iotrace that \
             wrote it",
            path.display()
        )
    };
    check_refused(&root, &error(&path, "iotrace/run/2", "iotrace/run/1"));
    let path = root.join("manifest.json");
    std::fs::write(&path, r#"{"schema": "iotrace/manifest/9", "runs": 1}"#).unwrap();
    check_refused(&root, &error(&path, "iotrace/manifest/9", "iotrace/manifest/1"));
    std::fs::write(&path, "[]").unwrap();
    check_refused(&root, &error(&path, "none", "iotrace/manifest/1"));
    std::fs::write(&path, "{").unwrap();
    check_refused(&root, &format!("{} does not follow its schema", path.display()));
}

#[test]
fn a_manifest_cannot_point_outside_of_its_dataset() {
    for folder in ["../elsewhere", "/etc", "runs/../../x"] {
        let (_folder, root) = fresh();
        create(&root).unwrap();
        let entry = RunEntry { folder: folder.to_owned(), ..RunEntry::default() };
        finish(&root, Manifest { runs: vec![entry], ..Manifest::default() }).unwrap();
        let manifest = root.join("manifest.json");
        let manifest = manifest.display();
        check_refused(
            &root,
            &format!("{manifest} names the folder {folder:?}, which is not inside the dataset"),
        );
    }
}

#[test]
fn a_run_document_with_keys_of_a_later_version_is_read() {
    let mut value = serde_json::to_value(RunDocument::default()).unwrap();
    value["later"] = 1.into();
    value.as_object_mut().unwrap().remove("run_as");
    let document: RunDocument = serde_json::from_value(value).unwrap();
    assert_eq!(document, RunDocument::default());
}

#[test]
fn a_ledger_survives_its_document() {
    let mut ledger = Ledger::default();
    ledger.add(Cause::KernelLost, Some(Cpu(1)), Some(Nanos(-5)), 3);
    ledger.add(Cause::KernelLost, Some(Cpu(1)), Some(Nanos(9)), 4);
    ledger.add(Cause::Unfinished, None, None, 2);
    let documents = ledger_to_documents(&ledger);
    assert_eq!(ledger_from_documents(&documents), ledger);
    let mut value = serde_json::to_value(&documents[0]).unwrap();
    value["cause"] = "invented".into();
    let error = serde_json::from_value::<LedgerEntryDocument>(value).unwrap_err();
    assert_eq!(error.to_string(), "\"invented\" is no cause of a loss");
}

#[test]
fn a_device_survives_its_document() {
    let mut facts = Facts::default();
    facts.set("scheduler", Some("none"));
    facts.set("model", Some("drive"));
    let device = DeviceFacts {
        device: DeviceId { major: 8, minor: 16 },
        name: "sdb".to_owned(),
        range: Some((Sector(2048), Sector(4096))),
        is_ata: true,
        ata_port: Some(AtaPort { port: 2, device: 0 }),
        queue_depth: Some(32),
        facts,
        only_named: false,
    };
    let text = serde_json::to_string(&DeviceDocument::from(&device)).unwrap();
    let document: DeviceDocument = serde_json::from_str(&text).unwrap();
    assert_eq!(DeviceFacts::from(&document), device);
    let broken = text.replace("8:16", "sdb");
    let error = serde_json::from_str::<DeviceDocument>(&broken).unwrap_err();
    assert!(error.to_string().starts_with("\"sdb\" is not major:minor"), "{error}");
}

/// A dataset path that does not exist yet, in a folder that removes itself.
fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t.iotrace");
    (folder, root)
}

fn configuration(ncq: &str) -> Configuration {
    Configuration { settings: vec![("ncq".to_owned(), ncq.to_owned())] }
}

/// Puts the document of a run in place.
#[track_caller]
fn run(root: &Path, ncq: &str, repetition: u32, warmup: bool) -> RunEntry {
    let configuration = configuration(ncq);
    let folder = run_folder(&configuration, repetition, warmup);
    std::fs::create_dir_all(root.join(&folder)).unwrap();
    let document = RunDocument {
        schema: RUN_SCHEMA.to_owned(),
        configuration: configuration.settings.clone(),
        repetition,
        warmup,
        ..RunDocument::default()
    };
    write_json(&root.join(&folder).join("run.json"), &document).unwrap();
    RunEntry {
        folder: folder.display().to_string(),
        configuration: configuration.settings,
        repetition,
        warmup,
        exit_code: Some(0),
    }
}

#[track_caller]
fn check_refused(root: &Path, expected: &str) {
    assert_eq!(Dataset::open(root).unwrap_err().to_string(), expected);
}
