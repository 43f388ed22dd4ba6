//! The datasets of the repository: their checksums hold, and their reports are as committed.

use std::path::{Path, PathBuf};

use crate::support::{check_exit, iotrace, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn datasets() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("datasets")).unwrap();
    let mut folders: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

#[test]
fn every_file_of_a_dataset_has_the_checksum_of_its_manifest() {
    for dataset in datasets() {
        let manifest = std::fs::read(dataset.join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let checksums = manifest["checksums"].as_object().unwrap();
        assert!(checksums.keys().any(|name| name.ends_with("requests.parquet")));
        for (name, expected) in checksums {
            let found = iotrace_dataset::checksum(&dataset.join(name)).unwrap();
            assert_eq!(Some(found.as_str()), expected.as_str(), "{name}");
        }
    }
}

#[test]
fn the_reports_of_a_dataset_are_as_committed() {
    for dataset in datasets() {
        let folder = tempfile::tempdir().unwrap();
        let output = run(iotrace().arg("analyze").arg(&dataset).arg("--output").arg(folder.path()));
        check_exit(&output, 0);
        let name = dataset.file_name().unwrap().to_str().unwrap();
        let found = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
        let golden = root().join("reports").join(format!("{name}.md"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap();
        assert!(found == expected, "{} differs; see reports/README.md", golden.display());
    }
}
