//! A real kernel, a loop device and fio: every request is accounted for.

use iotrace_model::{Nanos, Op, Status};

use crate::support::{
    Loop, check_exit, complete, fio_total, fresh, has, iotrace, privileged, record_whole, requests,
    run,
};

#[test]
fn with_a_scheduler_every_request_of_fio_is_there_and_its_stages_add_up() {
    check("mq-deadline");
}

#[test]
fn without_a_scheduler_every_request_of_fio_is_there_and_its_stages_add_up() {
    check("none");
}

#[track_caller]
fn check(scheduler: &str) {
    if !privileged() || !has("fio") {
        return;
    }
    let device = Loop::new(scheduler);
    let Some((_folder, dataset)) = record_whole(&["--device", &device.path], &device.fio(2)) else {
        return;
    };
    let folder = dataset.join("runs/rep=0");
    let rows = requests(&folder);
    assert_eq!(complete(&rows, Op::Read), fio_total(&folder.join("workload.stdout"), "read"));
    assert_eq!(complete(&rows, Op::Write), fio_total(&folder.join("workload.stdout"), "write"));
    for row in rows.iter().filter(|row| row.status == Status::Complete) {
        let (q2d, d2c, q2c) = (row.q2d().unwrap(), row.d2c().unwrap(), row.q2c().unwrap());
        assert_eq!(Nanos(q2d.0 + d2c.0), q2c);
        assert!(q2d.0 >= 0 && d2c.0 > 0, "{row:?}");
        if row.insert.is_some() {
            assert_eq!(Nanos(row.q2i().unwrap().0 + row.i2d().unwrap().0), q2d);
        }
    }
    let output = run(iotrace().arg("analyze").arg("--json").arg(&dataset));
    check_exit(&output, 0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let little = report["runs"][0]["devices"][0]["little"].as_f64().unwrap();
    assert!((little - 1.0).abs() < 0.01, "Little's law: {little}");
    for name in ["report.html", "report.md", "report.json"] {
        assert!(dataset.join(name).is_file(), "{name}");
    }
}

#[test]
fn every_fsync_is_a_flush_that_completes() {
    if !privileged() || !has("fio") {
        return;
    }
    let device = Loop::new("mq-deadline");
    let mut job = device.fio(1);
    job.retain(|word| !word.starts_with("--rw") && word != "--time_based");
    job.extend(["--rw=write", "--fsync=16", "--number_ios=640"].map(str::to_owned));
    let Some((_folder, dataset)) = record_whole(&["--device", &device.path], &job) else { return };
    let folder = dataset.join("runs/rep=0");
    let rows = requests(&folder);
    // Each is an empty bio, beside the drive's flush that serves it.
    let bios = rows.iter().filter(|row| row.op == Op::Flush && row.bios == 1).count();
    assert_eq!(bios, fio_total(&folder.join("workload.stdout"), "sync"));
    assert!(rows.iter().all(|row| row.status == Status::Complete), "an unfinished request");
}

#[test]
fn the_command_that_fails_gives_exit_code_4_and_a_dataset() {
    if !privileged() {
        return;
    }
    let device = Loop::new("none");
    let (_folder, dataset) = fresh();
    let output = run(iotrace()
        .args(["record", "--quiet", "--device", &device.path, "-o"])
        .arg(&dataset)
        .args(["--", "sh", "-c", "echo out; echo err >&2; exit 7"]));
    check_exit(&output, 4);
    let folder = dataset.join("runs/rep=0");
    assert_eq!(std::fs::read_to_string(folder.join("workload.stdout")).unwrap(), "out\n");
    assert_eq!(std::fs::read_to_string(folder.join("workload.stderr")).unwrap(), "err\n");
    let run: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["exit_code"], 7);
    assert!(dataset.join("manifest.json").is_file());
}
