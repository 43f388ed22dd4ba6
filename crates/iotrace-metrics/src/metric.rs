//! The compared metrics of one run, read out of its summary.

use iotrace_model::{
    DeviceId, DeviceSummary, Metric, Nanos, Op, OpSummary, Quantiles, RunSummary, Stage,
};

use crate::bootstrap::RunSample;

/// A metric of one run, `op` `None` for all operations together; `None` unless it is a positive
/// number. Latencies have quantiles or nothing.
#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
pub(crate) fn value(
    (run, sample): &(RunSummary, RunSample),
    device: DeviceId,
    op: Option<Op>,
    metric: Metric,
) -> Option<f64> {
    let summary = run.devices.iter().find(|summary| summary.device == device)?;
    let quantile = |stage, of: fn(&Quantiles) -> Option<Nanos>| {
        let quantiles = match op {
            Some(op) => of_op(summary, op, stage),
            None => of_all(sample, device, stage),
        };
        of(&quantiles?).map(|Nanos(nanos)| nanos as f64)
    };
    let value = match metric {
        Metric::Throughput => sum(summary, op, |op| op.bytes_per_second),
        Metric::Iops => sum(summary, op, |op| op.iops),
        Metric::InFlight => summary.in_flight.mean,
        Metric::D2cP50 => quantile(Stage::D2C, |quantiles| quantiles.p50)?,
        Metric::D2cP99 => quantile(Stage::D2C, |quantiles| quantiles.p99)?,
        Metric::Q2cP50 => quantile(Stage::Q2C, |quantiles| quantiles.p50)?,
        Metric::Q2cP99 => quantile(Stage::Q2C, |quantiles| quantiles.p99)?,
    };
    (value > 0.0 && value.is_finite()).then_some(value)
}

/// By how much the logarithm of a metric may be off because of how it was counted: quantiles are
/// rounded up by at most 0.1 %.
pub(crate) fn resolution(metric: Metric) -> f64 {
    match metric {
        Metric::Throughput | Metric::Iops | Metric::InFlight => 0.0,
        Metric::D2cP50 | Metric::D2cP99 | Metric::Q2cP50 | Metric::Q2cP99 => 0.001_f64.ln_1p(),
    }
}

fn sum(summary: &DeviceSummary, op: Option<Op>, of: fn(&OpSummary) -> f64) -> f64 {
    summary.ops.iter().filter(|one| op.is_none_or(|op| one.op == op)).map(of).sum()
}

fn of_op(summary: &DeviceSummary, op: Op, stage: Stage) -> Option<Quantiles> {
    let latencies = &summary.ops.iter().find(|one| one.op == op)?.latencies;
    latencies.iter().find(|(other, _)| *other == stage).map(|(_, latency)| latency.quantiles)
}

fn of_all(sample: &RunSample, device: DeviceId, stage: Stage) -> Option<Quantiles> {
    let quantiles = &sample.device(device)?.quantiles;
    quantiles.iter().find(|(other, _)| *other == stage).map(|(_, quantiles)| *quantiles)
}
