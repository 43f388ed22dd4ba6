//! One run in `iotrace/report/1`: devices, operations, latencies, series and the ledger.

use iotrace_model::{self as model, Cpu, NcqVerdict, Status};
use serde::Serialize;

use crate::json::{Configuration, finite};
use crate::json_btt::Btt;

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    configuration: Configuration,
    repetition: u32,
    folder: String,
    duration_ns: i64,
    exit_code: Option<i32>,
    lost_events: u64,
    incomplete: bool,
    ledger: Vec<LedgerEntry>,
    devices: Vec<DeviceNumbers>,
    btt: Option<Btt>,
}

impl From<&model::RunSummary> for Run {
    fn from(from: &model::RunSummary) -> Self {
        Self {
            configuration: Configuration::from(&from.configuration),
            repetition: from.repetition,
            folder: from.folder.clone(),
            duration_ns: from.duration.0,
            exit_code: from.exit_code,
            lost_events: from.ledger.lost(),
            incomplete: from.ledger.is_incomplete(),
            ledger: from.ledger.entries().map(LedgerEntry::from).collect(),
            devices: from.devices.iter().map(DeviceNumbers::from).collect(),
            btt: from.btt.as_ref().map(Btt::from),
        }
    }
}

#[derive(Debug, Serialize)]
struct LedgerEntry {
    cause: &'static str,
    severity: &'static str,
    cpu: Option<u32>,
    count: u64,
    occasions: u64,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
}

impl From<(model::Cause, Option<Cpu>, model::Entry)> for LedgerEntry {
    fn from((cause, cpu, entry): (model::Cause, Option<Cpu>, model::Entry)) -> Self {
        Self {
            cause: cause.name(),
            severity: cause.severity().name(),
            cpu: cpu.map(|Cpu(cpu)| cpu),
            count: entry.count,
            occasions: entry.occasions,
            first_ns: entry.first.map(|time| time.0),
            last_ns: entry.last.map(|time| time.0),
        }
    }
}

#[derive(Debug, Serialize)]
struct DeviceNumbers {
    device: String,
    name: String,
    span_ns: i64,
    requests: u64,
    bytes: u64,
    left_out: Vec<LeftOut>,
    ops: Vec<OpNumbers>,
    in_flight: Depth,
    queued: Depth,
    scheduled: Option<Depth>,
    little: Option<f64>,
    reordering: Reordering,
    fairness: Option<Fairness>,
    ncq: Ncq,
    series: Series,
}

impl From<&model::DeviceSummary> for DeviceNumbers {
    fn from(from: &model::DeviceSummary) -> Self {
        Self {
            device: from.device.to_string(),
            name: from.name.clone(),
            span_ns: from.span.0,
            requests: from.requests,
            bytes: from.bytes,
            left_out: from
                .left_out
                .iter()
                .map(|&(status, requests)| LeftOut { status: Status::name(status), requests })
                .collect(),
            ops: from.ops.iter().map(OpNumbers::from).collect(),
            in_flight: Depth::from(&from.in_flight),
            queued: Depth::from(&from.queued),
            scheduled: from.scheduled.as_ref().map(Depth::from),
            little: from.little.and_then(finite),
            reordering: Reordering::from(&from.reordering),
            fairness: from.fairness.as_ref().map(Fairness::from),
            ncq: Ncq::from(&from.ncq),
            series: Series::from(&from.series),
        }
    }
}

#[derive(Debug, Serialize)]
struct LeftOut {
    status: &'static str,
    requests: u64,
}

#[derive(Debug, Serialize)]
struct OpNumbers {
    op: &'static str,
    requests: u64,
    bytes: u64,
    errors: u64,
    iops: Option<f64>,
    bytes_per_second: Option<f64>,
    merges: u64,
    requeues: u64,
    latencies: Vec<Latency>,
}

impl From<&model::OpSummary> for OpNumbers {
    fn from(from: &model::OpSummary) -> Self {
        Self {
            op: from.op.name(),
            requests: from.requests,
            bytes: from.bytes,
            errors: from.errors,
            iops: finite(from.iops),
            bytes_per_second: finite(from.bytes_per_second),
            merges: from.merges,
            requeues: from.requeues,
            latencies: from.latencies.iter().map(Latency::from).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Latency {
    stage: &'static str,
    count: u64,
    mean_ns: Option<f64>,
    min_ns: i64,
    max_ns: i64,
    p50_ns: Option<i64>,
    p90_ns: Option<i64>,
    p95_ns: Option<i64>,
    p99_ns: Option<i64>,
    p999_ns: Option<i64>,
    p9999_ns: Option<i64>,
    histogram: Vec<Bucket>,
}

#[derive(Debug, Serialize)]
struct Bucket {
    up_to_ns: i64,
    count: u64,
}

impl From<&(model::Stage, model::LatencySummary)> for Latency {
    fn from((stage, from): &(model::Stage, model::LatencySummary)) -> Self {
        let quantiles = from.quantiles;
        let ns = |time: Option<model::Nanos>| time.map(|time| time.0);
        let bucket = |&(edge, count): &(model::Nanos, u64)| Bucket { up_to_ns: edge.0, count };
        Self {
            stage: stage.name(),
            count: from.count,
            mean_ns: finite(from.mean_ns),
            min_ns: from.min.0,
            max_ns: from.max.0,
            p50_ns: ns(quantiles.p50),
            p90_ns: ns(quantiles.p90),
            p95_ns: ns(quantiles.p95),
            p99_ns: ns(quantiles.p99),
            p999_ns: ns(quantiles.p999),
            p9999_ns: ns(quantiles.p9999),
            histogram: from.histogram.iter().map(bucket).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Depth {
    mean: Option<f64>,
    max: u32,
    share: Vec<Option<f64>>,
}

impl From<&model::DepthSummary> for Depth {
    fn from(from: &model::DepthSummary) -> Self {
        Self { mean: finite(from.mean), max: from.max, share: all_finite(&from.share) }
    }
}

#[derive(Debug, Serialize)]
struct Reordering {
    requests: u64,
    overtaken: u64,
    most_overtaken: u32,
    by_op: Vec<ReorderingByOp>,
    time_above_one: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ReorderingByOp {
    op: &'static str,
    requests: u64,
    overtaken: u64,
}

impl From<&model::Reordering> for Reordering {
    fn from(from: &model::Reordering) -> Self {
        let by_op = |&(op, requests, overtaken): &(model::Op, u64, u64)| ReorderingByOp {
            op: op.name(),
            requests,
            overtaken,
        };
        Self {
            requests: from.requests,
            overtaken: from.overtaken,
            most_overtaken: from.most_overtaken,
            by_op: from.by_op.iter().map(by_op).collect(),
            time_above_one: finite(from.time_above_one),
        }
    }
}

#[derive(Debug, Serialize)]
struct Fairness {
    shared_time_ns: i64,
    read_share: Option<f64>,
    jain: Option<f64>,
    latency_ratio_p50: Option<f64>,
    latency_ratio_p99: Option<f64>,
    read_starvation: Starvation,
    write_starvation: Starvation,
}

impl From<&model::Fairness> for Fairness {
    fn from(from: &model::Fairness) -> Self {
        Self {
            shared_time_ns: from.shared_time.0,
            read_share: finite(from.read_share),
            jain: finite(from.jain),
            latency_ratio_p50: from.latency_ratio_p50.and_then(finite),
            latency_ratio_p99: from.latency_ratio_p99.and_then(finite),
            read_starvation: Starvation::from(from.read_starvation),
            write_starvation: Starvation::from(from.write_starvation),
        }
    }
}

#[derive(Debug, Serialize)]
struct Starvation {
    from_ns: i64,
    length_ns: i64,
    others_completed: u64,
}

impl From<model::Starvation> for Starvation {
    fn from(from: model::Starvation) -> Self {
        Self {
            from_ns: from.from.0,
            length_ns: from.length.0,
            others_completed: from.others_completed,
        }
    }
}

#[derive(Debug, Serialize)]
struct Ncq {
    is_ata: Option<bool>,
    queue_depth: Option<u32>,
    commands: Option<u64>,
    queued_commands: Option<u64>,
    max_in_flight: u32,
    overtaken: u64,
    verdict: &'static str,
    rests_on: String,
}

impl From<&model::NcqEvidence> for Ncq {
    fn from(from: &model::NcqEvidence) -> Self {
        Self {
            is_ata: from.is_ata,
            queue_depth: from.queue_depth,
            commands: from.commands,
            queued_commands: from.queued_commands,
            max_in_flight: from.max_in_flight,
            overtaken: from.overtaken,
            verdict: match from.verdict {
                NcqVerdict::Used => "used",
                NcqVerdict::ConfiguredNotUsed => "configured_not_used",
                NcqVerdict::Off => "off",
                NcqVerdict::DepthLimit => "depth_limit",
                NcqVerdict::Unknown => "unknown",
            },
            rests_on: from.rests_on.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Series {
    start_ns: i64,
    step_ns: i64,
    in_flight: Vec<Option<f64>>,
    queued: Vec<Option<f64>>,
    bytes_per_second: Vec<OpSeries>,
}

#[derive(Debug, Serialize)]
struct OpSeries {
    op: &'static str,
    values: Vec<Option<f64>>,
}

impl From<&model::TimeSeries> for Series {
    fn from(from: &model::TimeSeries) -> Self {
        let by_op = |(op, values): &(model::Op, Vec<f64>)| OpSeries {
            op: op.name(),
            values: all_finite(values),
        };
        Self {
            start_ns: from.start.0,
            step_ns: from.step.0,
            in_flight: all_finite(&from.in_flight),
            queued: all_finite(&from.queued),
            bytes_per_second: from.bytes_per_second.iter().map(by_op).collect(),
        }
    }
}

fn all_finite(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(finite).collect()
}
