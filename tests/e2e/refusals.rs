//! Every failure that a user will meet has one clear message with the remedy.

use std::path::Path;

use crate::support::{check_exit, fresh, iotrace, privileged, run};

#[track_caller]
fn check(arguments: &[&str], code: i32, words: &[&str]) {
    let (_folder, dataset) = fresh();
    let output = run(iotrace().arg("record").arg("-o").arg(&dataset).args(arguments));
    check_exit(&output, code);
    let stderr = String::from_utf8_lossy(&output.stderr);
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
    }
    assert!(!dataset.exists(), "a refused command left {}", dataset.display());
}

#[test]
fn a_device_that_does_not_exist_is_named() {
    check(&["--device", "/dev/no-such-disk", "--", "true"], 1, &["/dev/no-such-disk"]);
}

#[test]
fn a_file_is_no_device() {
    check(&["--device", env!("CARGO_MANIFEST_DIR"), "--", "true"], 1, &["not a block device"]);
}

#[test]
fn a_command_is_required() {
    check(&["--device", "sda"], 2, &["Usage"]);
}

#[test]
fn the_same_knob_is_not_turned_twice() {
    check(&["--device", "x", "--ncq", "on,on", "--", "true"], 1, &["x"]);
}

#[test]
fn ncq_on_a_loop_device_is_refused_with_what_to_use_instead() {
    if !privileged() {
        return;
    }
    let device = crate::support::Loop::new("none");
    check(&["--device", &device.path, "--ncq", "on,off", "--", "true"], 1, &["NCQ", "depth"]);
}

#[test]
fn a_command_that_is_not_there_is_named() {
    if !privileged() {
        return;
    }
    let device = crate::support::Loop::new("none");
    let (_folder, dataset) = fresh();
    let output = run(iotrace()
        .args(["record", "--device", &device.path, "-o"])
        .arg(&dataset)
        .args(["--", "no-such-command"]));
    check_exit(&output, 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-command"));
    assert!(!dataset.exists());
}

#[test]
fn an_existing_output_is_never_overwritten() {
    if !privileged() {
        return;
    }
    let device = crate::support::Loop::new("none");
    let (folder, _) = fresh();
    let output = run(iotrace()
        .args(["record", "--device", &device.path, "-o"])
        .arg(folder.path())
        .args(["--", "true"]));
    check_exit(&output, 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("exists"));
}

#[test]
fn a_folder_that_is_no_dataset_is_named() {
    let (folder, dataset) = fresh();
    let output = run(iotrace().arg("analyze").arg(&dataset));
    check_exit(&output, 1);
    let output = run(iotrace().arg("analyze").arg(folder.path()));
    check_exit(&output, 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("manifest.json"));
}

#[test]
fn btt_without_events_says_what_to_do() {
    let (_folder, dataset) = fresh();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/loop-schedulers");
    let manifest = std::fs::read_to_string(source.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    for name in manifest["checksums"].as_object().unwrap().keys().map(String::as_str) {
        if !name.ends_with("events.parquet") {
            let target = dataset.join(name);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(source.join(name), target).unwrap();
        }
    }
    std::fs::copy(source.join("manifest.json"), dataset.join("manifest.json")).unwrap();
    check_exit(&run(iotrace().arg("analyze").arg(&dataset)), 0);
    let output = run(iotrace().args(["analyze", "--btt"]).arg(&dataset));
    check_exit(&output, 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("events.parquet: not there"), "{said}");
    assert!(said.contains("import again without --no-events"), "{said}");
}
