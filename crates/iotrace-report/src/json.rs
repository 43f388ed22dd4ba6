//! The report as JSON for programs: every number of the summary, unrounded.
//!
//! The shape is the contract `schemas/report-1.json`. It has its own types, so that a change
//! of the model is not a change of the document. Times are whole nanoseconds; a float that
//! is not a number or infinite is null.

use iotrace_model::{self as model, Evidence, Summary};
use serde::Serialize;

use crate::Error;
use crate::document::Context;
use crate::json_run::Run;

/// The name and version of the shape.
const SCHEMA: &str = "iotrace/report/1";

/// Writes the document `iotrace/report/1`.
pub fn json(summary: &Summary, context: &Context) -> Result<String, Error> {
    let document = Document {
        schema: SCHEMA,
        tool: Tool { name: "iotrace", version: &context.tool_version },
        created: &context.created,
        clock: &context.clock,
        title: &context.title,
        command: &context.command,
        imported: &context.imported,
        kernel: &context.kernel,
        devices: &context.devices,
        warmups: context.warmups,
        simulated: context.simulated,
        warnings: &context.warnings,
        comparisons: summary.comparisons.iter().map(Comparison::from).collect(),
        runs: summary.runs.iter().map(Run::from).collect(),
    };
    let mut text =
        serde_json::to_string_pretty(&document).map_err(|source| Error::Json { source })?;
    text.push('\n');
    Ok(text)
}

/// The settings of a configuration in the plan's order, and how it is called.
#[derive(Debug, Serialize)]
pub(crate) struct Configuration {
    label: String,
    settings: Vec<Setting>,
}

/// A float that JSON can hold.
pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl From<&model::Configuration> for Configuration {
    fn from(from: &model::Configuration) -> Self {
        let setting =
            |(key, value): &(String, String)| Setting { key: key.clone(), value: value.clone() };
        Self { label: from.label(), settings: from.settings.iter().map(setting).collect() }
    }
}

#[derive(Debug, Serialize)]
struct Setting {
    key: String,
    value: String,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool: Tool<'a>,
    created: &'a str,
    clock: &'a str,
    title: &'a str,
    command: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    imported: &'a [String],
    kernel: &'a str,
    devices: &'a [String],
    warmups: u32,
    simulated: bool,
    warnings: &'a [String],
    comparisons: Vec<Comparison>,
    runs: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'static str,
    version: &'a str,
}

#[derive(Debug, Serialize)]
struct Comparison {
    factor: String,
    baseline: Configuration,
    candidate: Configuration,
    differences: Vec<Difference>,
    notes: Vec<String>,
}

impl From<&model::Comparison> for Comparison {
    fn from(from: &model::Comparison) -> Self {
        Self {
            factor: from.factor.clone(),
            baseline: Configuration::from(&from.baseline),
            candidate: Configuration::from(&from.candidate),
            differences: from.differences.iter().map(Difference::from).collect(),
            notes: from.notes.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Difference {
    device: String,
    op: Option<&'static str>,
    metric: &'static str,
    unit: &'static str,
    baseline: Option<f64>,
    candidate: Option<f64>,
    baseline_runs: u32,
    candidate_runs: u32,
    ratio: Option<f64>,
    interval_95: Option<Interval>,
    evidence: &'static str,
    pairs: Option<u32>,
    margin: Option<f64>,
    verdict: &'static str,
    runs_needed: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Interval {
    low: Option<f64>,
    high: Option<f64>,
}

impl From<&model::Difference> for Difference {
    fn from(from: &model::Difference) -> Self {
        let (metric, unit) = metric_words(from.metric);
        let (evidence, pairs) = match from.evidence {
            Evidence::BetweenRuns { pairs } => ("between_runs", Some(pairs)),
            Evidence::WithinRun => ("within_run", None),
            Evidence::None => ("none", None),
        };
        let interval =
            |ends: model::Interval| Interval { low: finite(ends.low), high: finite(ends.high) };
        Self {
            device: from.device.to_string(),
            op: from.op.map(model::Op::name),
            metric,
            unit,
            baseline: finite(from.baseline),
            candidate: finite(from.candidate),
            baseline_runs: from.baseline_runs,
            candidate_runs: from.candidate_runs,
            ratio: finite(from.ratio),
            interval_95: from.interval.map(interval),
            evidence,
            pairs,
            margin: finite(from.margin),
            verdict: from.verdict.word(),
            runs_needed: from.runs_needed,
        }
    }
}

const fn metric_words(metric: model::Metric) -> (&'static str, &'static str) {
    match metric {
        model::Metric::Throughput => ("throughput", "bytes_per_second"),
        model::Metric::Iops => ("iops", "requests_per_second"),
        model::Metric::D2cP50 => ("d2c_p50", "ns"),
        model::Metric::D2cP99 => ("d2c_p99", "ns"),
        model::Metric::Q2cP50 => ("q2c_p50", "ns"),
        model::Metric::Q2cP99 => ("q2c_p99", "ns"),
        model::Metric::InFlight => ("in_flight", "requests"),
    }
}
