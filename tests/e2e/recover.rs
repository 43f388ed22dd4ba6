//! `iotrace import --recover`: what a killed recorder leaves becomes a dataset.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Loop, check_exit, fresh, has, iotrace, privileged, requests, run};

#[test]
fn the_dataset_of_a_killed_recorder_is_finished() {
    if !privileged() || !has("fio") {
        return;
    }
    let device = Loop::new("mq-deadline");
    let (_folder, dataset) = fresh();
    let mut recorder = iotrace()
        .args(["record", "--quiet", "--device", &device.path, "-o"])
        .arg(&dataset)
        .arg("--")
        .args(device.fio(60))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let raw = dataset.join("runs/rep=0/capture.perf");
    let start = Instant::now();
    // Until some of the capture has reached the file.
    while raw.metadata().map_or(0, |file| file.len()) < 8 << 20 {
        assert!(start.elapsed() < Duration::from_mins(1), "nothing is captured");
        assert!(recorder.try_wait().unwrap().is_none(), "the recorder ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // The workload outlives its recorder.
    let workload = format!("filename={}", device.path);
    check_exit(&run(Command::new("pkill").args(["-KILL", "-f", &workload])), 0);

    let output = run(iotrace().arg("analyze").arg(&dataset));
    check_exit(&output, 1);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("finish it with iotrace import --recover"), "{stderr}");

    let output = run(iotrace().args(["import", "--recover"]).arg(&dataset));
    check_exit(&output, 3);
    let rows = requests(&dataset.join("runs/rep=0"));
    assert!(rows.len() > 10_000, "{} requests in 8 MiB of capture", rows.len());
    let manifest = std::fs::read_to_string(dataset.join("manifest.json")).unwrap();
    assert!(manifest.contains("runs/rep=0 was recovered after its recorder was stopped"));
    assert!(manifest.contains("--rw=randrw"), "the command is kept");
    assert!(!dataset.join("runs/rep=0/run.unfinished.json").exists());
    let output = run(iotrace().arg("analyze").arg(&dataset));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");

    let output = run(iotrace().args(["import", "--recover"]).arg(&dataset));
    check_exit(&output, 1);
}
