//! From a table as the dataset writes it to the summary of a run and a comparison.

#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

use std::path::Path;

use iotrace_dataset::RequestWriter;
use iotrace_metrics::{CompareOptions, Error, RunInput, RunSample, compare, summarize_run};
use iotrace_model::{
    Cause, Comm, Configuration, Cpu, DeviceFacts, DeviceId, Evidence, Flags, Ledger, Metric, Nanos,
    NcqVerdict, Op, Protocol, Request, RunSummary, Sector, Stage, Stamp, Status, Verdict,
};

const DISK: DeviceId = DeviceId { major: 8, minor: 0 };
const OTHER: DeviceId = DeviceId { major: 8, minor: 16 };

fn request(device: DeviceId, op: Op, [queue, issue, complete]: [i64; 3]) -> Request {
    let stamp = |time| Some(Stamp { time: Nanos(time), cpu: Cpu(0) });
    Request {
        request: 0,
        device,
        op,
        flags: Flags::default(),
        sector: Some(Sector(8)),
        length_bytes: 4096,
        pid: 1,
        comm: Comm::default(),
        cgroup: None,
        io_priority: None,
        queue: stamp(queue),
        get: None,
        insert: None,
        issue: stamp(issue),
        complete: stamp(complete),
        bios: 1,
        front_merges: 0,
        back_merges: 0,
        requeues: 0,
        splits: 0,
        parent: None,
        in_flight_at_issue: Some(0),
        queued_at_queue: Some(0),
        overtook: Some(0),
        overtaken: Some(0),
        seek_sectors: None,
        tag: None,
        protocol: None,
        error: Some(0),
        status: Status::Complete,
        merged_bios: Vec::new(),
    }
}

/// Writes the rows and sums them up as a run of `ncq=value`.
fn summarize(
    requests: &[Request],
    value: &str,
    repetition: u32,
) -> Result<(RunSummary, RunSample), Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    let mut writer = RequestWriter::create(&path, &[]).unwrap();
    writer.write(requests).unwrap();
    writer.finish().unwrap();
    summarize_table(&path, value, repetition)
}

fn summarize_table(
    requests: &Path,
    value: &str,
    repetition: u32,
) -> Result<(RunSummary, RunSample), Error> {
    let queue_depth = Some(if value == "on" { 32 } else { 1 });
    let disk = DeviceFacts {
        device: DISK,
        name: "sda".to_owned(),
        is_ata: true,
        queue_depth,
        ..DeviceFacts::default()
    };
    summarize_run(&RunInput {
        requests,
        configuration: Configuration { settings: vec![("ncq".to_owned(), value.to_owned())] },
        repetition,
        folder: format!("runs/ncq={value}/rep={repetition}"),
        duration: Nanos(1_000_000),
        exit_code: Some(0),
        devices: &[disk],
        ledger: Ledger::default(),
    })
}

#[test]
fn a_table_becomes_a_summary() {
    let requests = [
        Request {
            protocol: Some(Protocol::AtaNcq),
            overtaken: Some(0),
            back_merges: 2,
            ..request(DISK, Op::Read, [0, 10, 60])
        },
        Request {
            protocol: Some(Protocol::AtaNcq),
            overtaken: Some(1),
            error: Some(-5),
            ..request(DISK, Op::Write, [0, 0, 100])
        },
        request(OTHER, Op::Flush, [50, 50, 150]),
        Request { status: Status::Lost, issue: None, ..request(DISK, Op::Read, [0, 0, 170]) },
        Request {
            status: Status::Unfinished,
            complete: None,
            error: None,
            ..request(DISK, Op::Read, [20, 30, 0])
        },
    ];
    let (run, _) = summarize(&requests, "on", 2).unwrap();
    assert_eq!((run.repetition, run.folder.as_str()), (2, "runs/ncq=on/rep=2"));
    let [disk, other] = &run.devices[..] else { panic!("{:?}", run.devices) };
    assert_eq!((disk.name.as_str(), disk.requests, disk.span), ("sda", 2, Nanos(100)));
    assert_eq!(disk.left_out, [(Status::Unfinished, 1), (Status::Lost, 1)]);
    // 50 ns and 100 ns in 100 ns.
    assert!((disk.in_flight.mean - 1.5).abs() < 1e-12);
    assert!((disk.little.unwrap() - 1.0).abs() < 1e-12);
    let [read, write] = &disk.ops[..] else { panic!("{:?}", disk.ops) };
    assert_eq!((read.op, read.requests, read.merges, read.errors), (Op::Read, 1, 2, 0));
    assert_eq!((write.op, write.requests, write.bytes, write.errors), (Op::Write, 1, 4096, 1));
    let (stage, q2c) = &read.latencies[4];
    assert_eq!((*stage, q2c.count, q2c.min, q2c.max), (Stage::Q2C, 1, Nanos(60), Nanos(60)));
    assert_eq!((disk.reordering.requests, disk.reordering.overtaken), (2, 1));
    assert!((disk.reordering.time_above_one - 0.5).abs() < 1e-12);
    assert_eq!(disk.fairness.as_ref().unwrap().shared_time, Nanos(60));
    assert_eq!((disk.ncq.verdict, disk.ncq.queued_commands), (NcqVerdict::Used, Some(2)));
    assert_eq!((other.name.as_str(), other.requests, other.span), ("8:16", 1, Nanos(100)));
    assert_eq!(other.ncq.verdict, NcqVerdict::Unknown);
}

#[test]
fn a_stamp_that_runs_backwards_is_counted_and_gives_no_latency() {
    let requests = [request(DISK, Op::Read, [5, 99, 50]), request(DISK, Op::Read, [10, 20, 60])];
    let (run, _) = summarize(&requests, "on", 0).unwrap();
    assert_eq!(run.ledger.count(Cause::TimeBackwards), 1);
    let latencies = &run.devices[0].ops[0].latencies;
    let counts: Vec<_> = latencies.iter().map(|(_, latency)| latency.count).collect();
    // No insert; Q2D and D2C only of the second; Q2C of both.
    assert_eq!(counts, [0, 0, 1, 1, 2]);
}

#[test]
fn an_empty_table_has_no_devices() {
    let (run, _) = summarize(&[], "on", 0).unwrap();
    assert_eq!(run.devices, []);
}

#[test]
fn what_is_no_table_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.parquet");
    let error = summarize_table(&missing, "on", 0).err().unwrap();
    assert_eq!(error.to_string(), format!("cannot read {}", missing.display()));
    let broken = folder.path().join("broken.parquet");
    std::fs::write(&broken, "PAR1 or not").unwrap();
    let error = summarize_table(&broken, "on", 0).err().unwrap();
    assert!(matches!(&error, Error::Table { path, .. } if *path == broken.display().to_string()));
}

#[test]
fn a_time_that_is_none_is_an_error() {
    let requests = [request(DISK, Op::Read, [0, 1, 2]), request(DISK, Op::Read, [i64::MIN, 1, 2])];
    let error = summarize(&requests, "on", 0).err().unwrap();
    let Error::Value { row, column, value, .. } = error else { panic!("{error:?}") };
    assert_eq!((row, column, value), (1, "queue_ns", i64::MIN.to_string()));
}

/// One request after the other, each of about the given latency.
fn steady(latency: i64, count: i64) -> Vec<Request> {
    let request = |place: i64| {
        let (start, jitter) = (place * latency, place * 7919 % (latency / 10));
        request(DISK, Op::Read, [start, start, start + latency - jitter])
    };
    (0..count).map(request).collect()
}

#[test]
fn one_run_a_side_gives_intervals_within_the_run_that_decide_nothing() {
    let runs = [
        summarize(&steady(1000, 3000), "on", 0).unwrap(),
        summarize(&steady(2000, 3000), "off", 0).unwrap(),
    ];
    let comparisons = compare(&runs, &CompareOptions::default());
    let [comparison] = &comparisons[..] else { panic!("{comparisons:?}") };
    let metrics: Vec<_> = comparison.differences.iter().map(|one| (one.op, one.metric)).collect();
    assert_eq!(metrics, Metric::ALL.map(|metric| (None, metric)));
    for difference in &comparison.differences {
        assert_eq!(difference.evidence, Evidence::WithinRun);
        assert_eq!((difference.verdict, difference.runs_needed), (Verdict::Undecided, None));
        let interval = difference.interval.unwrap();
        let truth = match difference.metric {
            Metric::Throughput | Metric::Iops => 0.5,
            Metric::InFlight => 1.0,
            Metric::D2cP50 | Metric::D2cP99 | Metric::Q2cP50 | Metric::Q2cP99 => 2.0,
        };
        assert!((difference.ratio / truth - 1.0).abs() < 0.02, "{difference:?}");
        assert!((interval.low / truth - 1.0).abs() < 0.05, "{difference:?}");
        assert!((interval.high / truth - 1.0).abs() < 0.05, "{difference:?}");
    }
    let swapped: Vec<_> = runs.iter().rev().cloned().collect();
    let back = compare(&swapped, &CompareOptions::default());
    for (one, other) in comparison.differences.iter().zip(&back[0].differences) {
        let (there, back) = (one.interval.unwrap(), other.interval.unwrap());
        assert!((there.low * back.high - 1.0).abs() < 1e-12);
        assert!((one.ratio * other.ratio - 1.0).abs() < 1e-12);
    }
    assert!(
        comparison
            .notes
            .contains(&"queue_depth of sda: 32 on the baseline, 1 on the candidate".to_owned())
    );
}

#[test]
fn a_table_of_several_slices_is_read_whole() {
    let requests = steady(1000, 300_000);
    let (run, _) = summarize(&requests, "on", 0).unwrap();
    let disk = &run.devices[0];
    assert_eq!((disk.requests, disk.in_flight.max), (300_000, 1));
    assert!((disk.little.unwrap() - 1.0).abs() < 1e-9);
    assert!((disk.in_flight.share.iter().sum::<f64>() - 1.0).abs() < 1e-9);
}
