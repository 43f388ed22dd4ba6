//! Which numbers a trace cannot give, because the events behind them are not in it.
//!
//! An imported trace may hold completions only, or no queue events, or none of the driver. A
//! table then has gaps; the reader is told why, once for each device.

use std::collections::BTreeMap;

use iotrace_model::{DeviceSummary, Op, Stage, Status, Summary};

use crate::number;

/// One sentence for each gap, by device in the order of the runs.
pub(crate) fn lines(summary: &Summary) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    let devices = || summary.runs.iter().flat_map(|run| &run.devices);
    for device in devices() {
        if !names.contains(&device.name.as_str()) {
            names.push(&device.name);
        }
    }
    let of = |name: &str| -> Vec<&DeviceSummary> {
        devices().filter(|device| device.name == name).collect()
    };
    names.iter().flat_map(|name| of_device(name, &of(name))).collect()
}

/// The same device in all runs.
fn of_device(name: &str, runs: &[&DeviceSummary]) -> Vec<String> {
    if runs.iter().all(|device| device.requests == 0) {
        return nothing_complete(name, runs).into_iter().collect();
    }
    let mut lines = Vec::new();
    if is_never_seen(runs, Stage::D2C) {
        lines.push(format!(
            "{name}: no issue of a request was seen, so completion latency, in-flight depth and \
             reordering are missing"
        ));
    }
    if is_never_seen(runs, Stage::Q2C) {
        lines.push(format!(
            "{name}: no queue event of a request was seen, so waiting, total latency and queue \
             depth are missing"
        ));
    }
    lines
}

fn nothing_complete(name: &str, runs: &[&DeviceSummary]) -> Option<String> {
    let mut counts: BTreeMap<Status, u64> = BTreeMap::new();
    for (status, count) in runs.iter().flat_map(|device| &device.left_out) {
        *counts.entry(*status).or_default() += count;
    }
    let words: Vec<String> = counts
        .iter()
        .map(|(status, count)| format!("{} {}", number::count(*count), words(*status)))
        .collect();
    let requests: u64 = counts.values().sum();
    (requests > 0).then(|| {
        format!(
            "{name}: nothing could be measured, none of the {} requests was seen whole: {}",
            number::count(requests),
            words.join(", ")
        )
    })
}

const fn words(status: Status) -> &'static str {
    match status {
        Status::Complete => "without a completion",
        Status::Unfinished => "not completed",
        Status::StartedBefore => "with no beginning in the trace",
        Status::Ambiguous => "ambiguous",
        Status::Lost => "with lost events",
    }
}

/// Whether reads and writes never have a stage; false where there are neither.
fn is_never_seen(runs: &[&DeviceSummary], wanted: Stage) -> bool {
    let ops = || {
        let ops = runs.iter().flat_map(|device| &device.ops);
        ops.filter(|op| matches!(op.op, Op::Read | Op::Write))
    };
    let mut latencies = ops().flat_map(|op| &op.latencies);
    ops().next().is_some()
        && latencies.all(|(stage, latency)| *stage != wanted || latency.count == 0)
}
