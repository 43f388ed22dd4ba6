//! btt's figures as the program writes them, for a committed dataset and beside btt itself.

use std::path::Path;
use std::process::Command;

use iotrace_testkit::beside;

use crate::support::{check_exit, has, iotrace, run};

#[test]
fn figures_of_btt_are_in_every_output_and_only_when_asked_for() {
    let dataset = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/loop-schedulers");
    let folder = tempfile::tempdir().unwrap();
    let analyze = |arguments: &[&str]| {
        let mut command = iotrace();
        command.arg("analyze").args(arguments).arg(&dataset).arg("--output").arg(folder.path());
        let output = run(&mut command);
        check_exit(&output, 0);
        let file = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&file("report.json")).unwrap();
        let screen = String::from_utf8(output.stdout).unwrap();
        (json, [screen, file("report.md"), file("report.html")])
    };
    let (plain, texts) = analyze(&[]);
    assert!(plain["runs"].as_array().unwrap().iter().all(|run| run["btt"].is_null()));
    assert!(texts.iter().all(|text| !text.contains("Device Overhead")));

    let (json, texts) = analyze(&["--btt"]);
    assert!(texts.iter().all(|text| text.contains("Device Overhead")));
    for run in json["runs"].as_array().unwrap() {
        let requests = &run["devices"][0]["requests"];
        let mut names = Vec::new();
        for line in run["btt"]["stages"].as_array().unwrap() {
            let name = line["stage"].as_str().unwrap();
            names.push(name);
            // One bio a request: every stage is sampled once for each, gaps one time less.
            let gaps = u64::from(name == "Q2Q");
            assert_eq!(line["count"].as_u64().unwrap() + gaps, requests.as_u64().unwrap());
        }
        let is_direct = run["configuration"]["label"] == "scheduler=none";
        let expected: &[_] = if is_direct {
            &["Q2Q", "Q2G", "D2C", "Q2C"]
        } else {
            &["Q2Q", "Q2G", "G2I", "I2D", "D2C", "Q2C"]
        };
        assert_eq!(names, expected);
    }
}

#[test]
fn the_table_of_all_devices_is_that_of_the_installed_btt() {
    if !has("blkparse") || !has("btt") {
        return;
    }
    for case in ["a_plain", "b_merge", "c_requeue", "f_flush", "g_gap", "i_error"] {
        let Some(golden) = beside(&format!("reference/golden/{case}")) else { return };
        check_beside_btt(&golden.join("sda"));
    }
    if let Some(real) = beside("corpus/samples/s04-sda-lvm-3.10-cpu0-only/sda") {
        check_beside_btt(&real);
    }
}

/// Imports blktrace's files and lets blkparse and btt read the same.
#[track_caller]
fn check_beside_btt(base: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let parsed = run(Command::new("blkparse")
        .args(["-q", "-O", "-d", "dump", "-i"])
        .arg(base)
        .current_dir(folder.path()));
    check_exit(&parsed, 0);
    let theirs = run(Command::new("btt").args(["-i", "dump"]).current_dir(folder.path()));
    check_exit(&theirs, 0);
    let dataset = folder.path().join("t.iotrace");
    let imported = run(iotrace().args(["import", "--quiet", "-o"]).arg(&dataset).arg(base));
    assert!(matches!(imported.status.code(), Some(0 | 3)), "{imported:?}");
    let ours = run(iotrace().args(["analyze", "--quiet", "--btt"]).arg(&dataset));
    assert!(matches!(ours.status.code(), Some(0 | 3)), "{ours:?}");
    let theirs = all_devices(&String::from_utf8_lossy(&theirs.stdout));
    assert!(theirs.len() > 2, "{}", base.display());
    assert_eq!(all_devices(&String::from_utf8_lossy(&ours.stdout)), theirs, "{}", base.display());
}

/// The rows of the first table: name, least, mean, most, count.
fn all_devices(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.contains("All Devices")).skip(1);
    let rows = lines.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let rows = rows.skip_while(|words| words.first().is_none_or(|word| word != "Q2Q"));
    rows.take_while(|words| words.len() == 5).collect()
}
