//! A made-up summary with everything in it: NCQ on and off, three runs each, reads and
//! writes, one run with losses. All numbers follow from a few parameters of each run.

use iotrace_model::{
    Cause, Comparison, Configuration, Cpu, DepthSummary, DeviceId, DeviceSummary, Difference,
    Evidence, Fairness, Interval, LatencySummary, Ledger, Metric, Nanos, NcqEvidence, NcqVerdict,
    Op, OpSummary, Quantiles, Reordering, RunSummary, Stage, Starvation, Status, Summary,
    TimeSeries, Verdict,
};
use iotrace_report::Context;

mod btt;

pub(crate) use btt::btt;

const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
const SPAN_S: f64 = 30.0;
const STEPS: u32 = 200;

/// What distinguishes the runs.
struct Shape {
    ncq: bool,
    repetition: u32,
    /// Relative luck of the run.
    luck: f64,
}

/// The summary and its context.
pub(crate) fn example() -> (Summary, Context) {
    let lucks = [1.0, 1.02, 0.985];
    let mut runs = Vec::new();
    for (repetition, luck) in (0..).zip(lucks) {
        for ncq in [false, true] {
            runs.push(run(&Shape { ncq, repetition, luck }));
        }
    }
    let summary = Summary { runs, comparisons: vec![comparison()] };
    let context = Context {
        clock: "CLOCK_MONOTONIC".to_owned(),
        title: "sda-randrw.iotrace".to_owned(),
        command: "fio --name=randrw --filename=/dev/sda --rw=randrw --bs=4k --iodepth=32 \
                  --runtime=30 --direct=1 --ioengine=io_uring"
            .to_owned(),
        imported: Vec::new(),
        tool_version: "0.1.0".to_owned(),
        created: "2026-01-15T09:30:00Z".to_owned(),
        kernel: "6.18.2".to_owned(),
        devices: vec!["sda, EXAMPLE HD4000, 4.00 TB, scheduler none".to_owned()],
        warmups: 2,
        simulated: false,
        warnings: Vec::new(),
    };
    (summary, context)
}

fn run(shape: &Shape) -> RunSummary {
    let value = if shape.ncq { "on" } else { "off" };
    let lossy = shape.ncq && shape.repetition == 2;
    let mut ledger = Ledger::default();
    ledger.add(Cause::Unfinished, None, None, 2);
    if lossy {
        ledger.add(Cause::KernelLost, Some(Cpu(1)), Some(Nanos(12_100_000_000)), 100);
        ledger.add(Cause::KernelLost, Some(Cpu(1)), Some(Nanos(12_700_000_000)), 23);
    }
    RunSummary {
        configuration: configuration(shape.ncq),
        repetition: shape.repetition,
        folder: format!("runs/ncq={value}/rep={}", shape.repetition),
        duration: Nanos(30_412_000_000),
        exit_code: Some(0),
        devices: vec![device(shape, lossy)],
        ledger,
        btt: None,
    }
}

fn configuration(ncq: bool) -> Configuration {
    let value = if ncq { "on" } else { "off" };
    Configuration { settings: vec![("ncq".to_owned(), value.to_owned())] }
}

fn device(shape: &Shape, lossy: bool) -> DeviceSummary {
    let iops = if shape.ncq { 210.0 } else { 122.0 } * shape.luck;
    let reads = op(shape, Op::Read, iops * 0.7);
    let writes = op(shape, Op::Write, iops * 0.3);
    let requests = reads.requests + writes.requests;
    let deepest = if shape.ncq { 31 } else { 1 };
    let mut left_out = vec![(Status::Unfinished, 2)];
    if lossy {
        left_out.push((Status::Lost, 41));
    }
    let overtaken = if shape.ncq { requests * 2 / 3 } else { 0 };
    DeviceSummary {
        device: SDA,
        name: "sda".to_owned(),
        span: Nanos(30_000_000_000),
        requests,
        bytes: requests * 4096,
        left_out,
        in_flight: if shape.ncq { depth(deepest, 26.0, 3.0) } else { depth(deepest, 1.0, 0.62) },
        queued: depth(32, 31.0, 1.5),
        scheduled: None,
        little: Some(1.0 + 0.002 * shape.luck),
        reordering: Reordering {
            requests,
            overtaken,
            most_overtaken: if shape.ncq { 187 } else { 0 },
            by_op: vec![
                (Op::Read, reads.requests, overtaken * 7 / 10),
                (Op::Write, writes.requests, overtaken * 3 / 10),
            ],
            time_above_one: if shape.ncq { 0.998 } else { 0.0 },
        },
        fairness: Some(Fairness {
            shared_time: Nanos(29_870_000_000),
            read_share: 0.698,
            jain: 0.861,
            latency_ratio_p50: Some(1.31),
            latency_ratio_p99: Some(0.92),
            read_starvation: Starvation {
                from: Nanos(8_410_000_000),
                length: Nanos(if shape.ncq { 412_000_000 } else { 96_000_000 }),
                others_completed: 31,
            },
            write_starvation: Starvation {
                from: Nanos(21_030_000_000),
                length: Nanos(731_000_000),
                others_completed: 122,
            },
        }),
        ncq: ncq_evidence(shape, requests, overtaken),
        series: series(shape, iops),
        ops: vec![reads, writes],
    }
}

fn ncq_evidence(shape: &Shape, requests: u64, overtaken: u64) -> NcqEvidence {
    let queued = if shape.ncq { requests } else { 0 };
    NcqEvidence {
        is_ata: Some(true),
        queue_depth: Some(if shape.ncq { 32 } else { 1 }),
        commands: Some(requests),
        queued_commands: Some(queued),
        max_in_flight: if shape.ncq { 31 } else { 1 },
        overtaken,
        verdict: if shape.ncq { NcqVerdict::Used } else { NcqVerdict::Off },
        rests_on: format!(
            "{queued} of {requests} read and write commands went out under an NCQ protocol."
        ),
    }
}

fn op(shape: &Shape, op: Op, iops: f64) -> OpSummary {
    let requests = whole(iops * SPAN_S);
    let slower = if op == Op::Read { 1.25 } else { 1.0 };
    let (d2c, spread) = if shape.ncq { (110e6, 0.33) } else { (7.4e6, 0.16) };
    let q2c = if shape.ncq { 128e6 } else { 240e6 };
    let log = |stage, median: f64, spread| {
        (stage, latency(requests, median * slower / shape.luck, spread))
    };
    let mut latencies =
        [log(Stage::Q2D, q2c - d2c, 0.3), log(Stage::D2C, d2c, spread), log(Stage::Q2C, q2c, 0.28)];
    let [(_, waiting), (_, completion), (_, total)] = &mut latencies;
    completion.mean_ns = completion.mean_ns.min(total.mean_ns * 0.93);
    waiting.mean_ns = total.mean_ns - completion.mean_ns;
    OpSummary {
        op,
        requests,
        bytes: requests * 4096,
        errors: 0,
        iops,
        bytes_per_second: iops * 4096.0,
        merges: 0,
        requeues: 0,
        latencies: latencies.to_vec(),
    }
}

/// A bell on a logarithmic axis, `spread` decades wide.
fn latency(count: u64, median_ns: f64, spread: f64) -> LatencySummary {
    let weights: Vec<(f64, f64)> = (-80..=80_i32)
        .map(|step| {
            let decades = f64::from(step) * std::f64::consts::LOG10_2 / 8.0;
            (median_ns * 10_f64.powf(decades), (-(decades / spread).powi(2) / 2.0).exp())
        })
        .collect();
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let histogram: Vec<(Nanos, u64)> = weights
        .iter()
        .map(|(edge, weight)| (nanos(*edge), whole(weight / total * float(count))))
        .filter(|(_, count)| *count > 0)
        .collect();
    let seen: u64 = histogram.iter().map(|(_, count)| count).sum();
    let sum: f64 = histogram.iter().map(|(edge, count)| float_ns(*edge) * float(*count)).sum();
    let quantile = |share: f64| {
        let mut rank = 0;
        let enough = float(seen) * (1.0 - share) >= 10.0;
        let found = histogram.iter().find(|(_, count)| {
            rank += count;
            float(rank) >= share * float(seen)
        });
        found.filter(|_| enough).map(|(edge, _)| *edge)
    };
    LatencySummary {
        count,
        mean_ns: sum / float(seen),
        min: histogram.first().unwrap().0,
        max: histogram.last().unwrap().0,
        quantiles: Quantiles {
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
        },
        histogram,
    }
}

fn depth(max: u32, peak: f64, width: f64) -> DepthSummary {
    let weights: Vec<f64> =
        (0..=max).map(|depth| (-((f64::from(depth) - peak) / width).powi(2)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let share: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let mean = (0..).zip(&share).map(|(depth, share)| f64::from(depth) * share).sum();
    DepthSummary { mean, max, share }
}

fn series(shape: &Shape, iops: f64) -> TimeSeries {
    let wave = |step: u32, size: f64| {
        let place = f64::from(step) + 17.0 * shape.luck;
        1.0 + size * ((place / 9.0).sin() + (place / 2.3).cos()) / 2.0
    };
    let (mean, size) = if shape.ncq { (26.0, 0.12) } else { (0.93, 0.05) };
    let rate = |share: f64| {
        (0..STEPS).map(|step| iops * share * 4096.0 * wave(step, 0.2)).collect::<Vec<f64>>()
    };
    TimeSeries {
        start: Nanos(12_000_000),
        step: Nanos(150_000_000),
        in_flight: (0..STEPS).map(|step| mean * wave(step, size)).collect(),
        queued: (0..STEPS).map(|step| 31.0 * wave(step, 0.03)).collect(),
        bytes_per_second: vec![(Op::Read, rate(0.7)), (Op::Write, rate(0.3))],
    }
}

fn comparison() -> Comparison {
    use Verdict::{Different, Equivalent, Undecided};
    let difference = |metric: Metric, op, sides: (f64, f64), half: f64, verdict, more| {
        let ratio = sides.1 / sides.0;
        Difference {
            device: SDA,
            op,
            metric,
            baseline: sides.0,
            candidate: sides.1,
            baseline_runs: 3,
            candidate_runs: 3,
            ratio,
            interval: Some(Interval { low: ratio / (1.0 + half), high: ratio * (1.0 + half) }),
            evidence: Evidence::BetweenRuns { pairs: 3 },
            margin: metric.margin(),
            verdict,
            runs_needed: more,
        }
    };
    let mut differences = vec![
        difference(Metric::Throughput, None, (499_712.0, 860_160.0), 0.04, Different, None),
        difference(Metric::Iops, None, (122.0, 210.0), 0.04, Different, None),
        difference(Metric::InFlight, None, (0.93, 25.8), 0.02, Different, None),
        difference(Metric::Q2cP50, Some(Op::Read), (300e6, 160e6), 0.06, Different, None),
        difference(Metric::Q2cP99, Some(Op::Read), (1.31e9, 1.29e9), 0.09, Undecided, Some(4)),
        difference(Metric::D2cP50, Some(Op::Read), (9.25e6, 137e6), 0.05, Different, None),
        difference(Metric::D2cP99, Some(Op::Read), (23.1e6, 810e6), 0.11, Different, None),
        difference(Metric::Q2cP50, Some(Op::Write), (240e6, 243e6), 0.02, Equivalent, None),
        difference(Metric::Q2cP99, Some(Op::Write), (1.05e9, 1.12e9), 0.05, Undecided, Some(2)),
        difference(Metric::D2cP50, Some(Op::Write), (7.4e6, 110e6), 0.05, Different, None),
    ];
    differences.push(Difference {
        interval: Some(Interval { low: 0.71, high: 1.29 }),
        evidence: Evidence::WithinRun,
        ..difference(Metric::D2cP99, Some(Op::Write), (18.5e6, 19.1e6), 0.1, Undecided, None)
    });
    Comparison {
        factor: "ncq".to_owned(),
        baseline: configuration(false),
        candidate: configuration(true),
        differences,
        notes: vec!["Events were lost on the candidate’s side only.".to_owned()],
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[expect(clippy::cast_possible_truncation, reason = "below a minute")]
fn nanos(value: f64) -> Nanos {
    Nanos(value.round() as i64)
}

#[expect(clippy::cast_precision_loss, reason = "a made-up count is small")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "a made-up time is short")]
fn float_ns(Nanos(value): Nanos) -> f64 {
    value as f64
}
