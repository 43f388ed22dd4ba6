//! perf reads our capture, and counts what we count.

use std::process::Command;

use crate::support::{Loop, check_exit, has, privileged, record_whole, run};

/// Lines of `perf script` that name a tracepoint.
fn count(script: &str, event: &str) -> usize {
    script.lines().filter(|line| line.contains(event)).count()
}

#[test]
fn perf_prints_the_raw_capture_and_records_the_same_number_of_requests() {
    if !privileged() || !has("fio") || !has("perf") {
        return;
    }
    let device = Loop::new("mq-deadline");
    let number = std::fs::read_to_string(format!(
        "/sys/class/block/{}/dev",
        device.path.trim_start_matches("/dev/")
    ))
    .unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let kernel = (major.parse::<u32>().unwrap() << 20) | minor.parse::<u32>().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    let filter = format!("dev == {kernel}");
    // perf records inside our run: the workload is perf, its command the job.
    let mut job: Vec<String> = ["perf", "record", "--quiet", "-a", "-k", "mono", "-m", "16M"]
        .into_iter()
        .chain(["-e", "block:block_rq_issue", "--filter", &filter])
        .chain(["-e", "block:block_rq_complete", "--filter", &filter])
        .chain(["-o", data.to_str().unwrap(), "--"])
        .map(str::to_owned)
        .collect();
    job.extend(device.fio(1));
    let arguments = ["--keep-raw", "--device", &device.path];
    let Some((_folder, dataset)) = record_whole(&arguments, &job) else { return };
    let script = |path: &std::path::Path| {
        let output = run(Command::new("perf").arg("script").arg("-i").arg(path));
        check_exit(&output, 0);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (theirs, ours) = (script(&data), script(&dataset.join("runs/rep=0/capture.perf")));
    for event in ["block:block_rq_issue:", "block:block_rq_complete:"] {
        assert!(count(&ours, event) > 0, "perf prints no {event}");
        assert_eq!(count(&ours, event), count(&theirs, event), "{event}");
    }
}
