//! Traces from elsewhere: what happens where events of a kind are not in them.

#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

use iotrace_dataset::RequestWriter;
use iotrace_metrics::{RunInput, summarize_run};
use iotrace_model::{
    Comm, Configuration, Cpu, DeviceFacts, DeviceId, DeviceSummary, Flags, Ledger, Nanos,
    NcqVerdict, Op, Request, RunSummary, Sector, Stamp, Status,
};

const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

/// Queue, issue and completion, where seen.
fn request(status: Status, op: Op, times: [Option<i64>; 3]) -> Request {
    let [queue, issue, complete] =
        times.map(|time| time.map(|time| Stamp { time: Nanos(time), cpu: Cpu(0) }));
    Request {
        request: 0,
        device: DISK,
        op,
        flags: Flags::default(),
        sector: Some(Sector(8)),
        length_bytes: 4096,
        pid: 0,
        comm: Comm::default(),
        cgroup: None,
        io_priority: None,
        queue,
        get: None,
        insert: None,
        issue,
        complete,
        bios: u32::from(queue.is_some()),
        front_merges: 0,
        back_merges: 0,
        requeues: 0,
        splits: 0,
        parent: None,
        in_flight_at_issue: None,
        queued_at_queue: None,
        overtook: None,
        overtaken: issue.map(|_| 0),
        seek_sectors: None,
        tag: None,
        protocol: None,
        error: complete.map(|_| 0),
        status,
        merged_bios: Vec::new(),
    }
}

/// Sums up as an import does: no exit code, and nothing known of the device but its number.
fn summarize(requests: &[Request]) -> RunSummary {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    let mut writer = RequestWriter::create(&path, &[]).unwrap();
    writer.write(requests).unwrap();
    writer.finish().unwrap();
    let (run, _) = summarize_run(&RunInput {
        requests: &path,
        configuration: Configuration::default(),
        repetition: 0,
        folder: "runs/rep=0".to_owned(),
        duration: Nanos(1_000),
        exit_code: None,
        devices: &[DeviceFacts { device: DISK, ..DeviceFacts::default() }],
        ledger: Ledger::default(),
    })
    .unwrap();
    run
}

/// How many requests have Q2I, I2D, Q2D, D2C and Q2C.
fn counts(device: &DeviceSummary) -> Vec<u64> {
    let latencies = device.ops.iter().flat_map(|op| &op.latencies);
    latencies.map(|(_, latency)| latency.count).collect()
}

#[test]
fn without_queue_events_the_driver_is_still_measured() {
    let complete =
        |issue, complete| request(Status::Complete, Op::Read, [None, Some(issue), Some(complete)]);
    let run = summarize(&[complete(10, 50), complete(30, 110)]);
    let [disk] = &run.devices[..] else { panic!("{:?}", run.devices) };
    assert_eq!((disk.name.as_str(), disk.requests, disk.span), ("8:0", 2, Nanos(100)));
    assert_eq!(counts(disk), [0, 0, 0, 2, 0]);
    // 20 ns at 1, 20 at 2, 60 at 1.
    assert!((disk.in_flight.mean - 1.2).abs() < 1e-12);
    assert_eq!((disk.in_flight.max, disk.queued.max), (2, 0));
    assert!((disk.little.unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(disk.reordering.requests, 2);
}

#[test]
fn without_issues_the_layer_above_is_still_measured() {
    let complete =
        |op, queue, complete| request(Status::Complete, op, [Some(queue), None, Some(complete)]);
    let run = summarize(&[complete(Op::Read, 0, 50), complete(Op::Write, 25, 100)]);
    let [disk] = &run.devices[..] else { panic!("{:?}", run.devices) };
    assert_eq!(counts(disk), [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    assert_eq!((disk.in_flight.max, disk.queued.max), (0, 2));
    assert!((disk.queued.mean - 1.25).abs() < 1e-12);
    assert_eq!((disk.little, disk.reordering.requests), (None, 0));
    assert_eq!(disk.fairness.as_ref().unwrap().shared_time, Nanos(25));
    assert_eq!(disk.ncq.verdict, NcqVerdict::DepthLimit);
}

#[test]
fn completions_alone_are_counted_and_nothing_is_measured() {
    let complete = |time| request(Status::StartedBefore, Op::Read, [None, None, Some(time)]);
    let run = summarize(&[complete(10), complete(20)]);
    let [disk] = &run.devices[..] else { panic!("{:?}", run.devices) };
    assert_eq!((disk.requests, disk.span, disk.ops.len()), (0, Nanos(0), 0));
    assert_eq!(disk.left_out, [(Status::StartedBefore, 2)]);
    assert_eq!((disk.in_flight.max, disk.little), (0, None));
}

#[test]
fn a_complete_row_with_nothing_but_its_completion_has_no_latency() {
    let run = summarize(&[request(Status::Complete, Op::Flush, [None, None, Some(70)])]);
    let [disk] = &run.devices[..] else { panic!("{:?}", run.devices) };
    assert_eq!((disk.requests, disk.span), (1, Nanos(0)));
    assert_eq!(counts(disk), [0; 5]);
}
