//! btt's figures as the program writes them for a committed dataset.

use std::path::Path;

use crate::support::{check_exit, iotrace, run};

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
