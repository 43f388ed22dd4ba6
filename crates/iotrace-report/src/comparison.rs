//! Baseline against candidate, as tables and as the words of an outcome.
//!
//! A ratio never stands without its interval, and an interval never without what it rests on.

use iotrace_model::{Comparison, DeviceId, Difference, Evidence, Summary, Verdict};

use crate::document::{Column, Section, Table};
use crate::number;

/// The comparisons for a short output, at most `limit` rows each, all operations together first.
pub(crate) fn short(summary: &Summary, limit: usize) -> Vec<Section> {
    summary.comparisons.iter().map(|comparison| short_section(summary, comparison, limit)).collect()
}

/// The comparisons in full.
pub(crate) fn full(summary: &Summary) -> Vec<Section> {
    summary.comparisons.iter().map(|comparison| full_section(summary, comparison)).collect()
}

/// `throughput ×1.62 [1.55, 1.69], different (3 pairs of runs)`.
pub(crate) fn sentence(difference: &Difference) -> String {
    let mut text = format!(
        "{} {}, {} ({})",
        what(difference, None),
        ratio(difference),
        outcome(difference),
        evidence(difference.evidence),
    );
    if let (Verdict::Undecided, Some(runs)) = (difference.verdict, difference.runs_needed) {
        let runs = number::count(runs.into());
        text = format!("{text}; about {runs} more runs a side would decide");
    }
    text
}

/// The differences that answer first: the primary metric of each device.
pub(crate) fn primary(comparison: &Comparison) -> Vec<&Difference> {
    let Some(first) = comparison.differences.first() else { return Vec::new() };
    comparison
        .differences
        .iter()
        .filter(|other| other.metric == first.metric && other.op == first.op)
        .collect()
}

/// The name of a device in any run; its number where no run has it.
pub(crate) fn device_name(summary: &Summary, id: DeviceId) -> String {
    let mut devices = summary.runs.iter().flat_map(|run| &run.devices);
    devices.find(|device| device.device == id).map_or_else(|| id.to_string(), |d| d.name.clone())
}

fn short_section(summary: &Summary, comparison: &Comparison, limit: usize) -> Section {
    let several = several_devices(comparison);
    let mut differences: Vec<&Difference> = comparison.differences.iter().collect();
    differences.sort_by_key(|difference| difference.op.is_some());
    let left_out = differences.len().saturating_sub(limit);
    differences.truncate(limit);
    let common = differences.first().map(|difference| difference.evidence);
    let row = |difference: &&Difference| {
        let device = several.then(|| device_name(summary, difference.device));
        let verdict = match difference.evidence {
            ours if Some(ours) == common => outcome(difference).to_owned(),
            Evidence::BetweenRuns { .. } => {
                format!("{}, {}", outcome(difference), evidence(difference.evidence))
            }
            // No verdict on other runs rests on these.
            Evidence::WithinRun | Evidence::None => evidence(difference.evidence),
        };
        vec![
            what(difference, device),
            number::metric_change(difference.metric, difference.baseline, difference.candidate),
            ratio(difference),
            verdict,
        ]
    };
    let rows = differences.iter().map(row).collect();
    let columns = vec![
        Column::key("metric"),
        Column::number("baseline → candidate"),
        Column::text("ratio [95 %]"),
        Column::text("verdict"),
    ];
    let mut title = title(comparison);
    if let Some(common) = common {
        title = format!("{title}: {}", evidence(common));
    }
    let mut notes = comparison.notes.clone();
    if left_out > 0 {
        notes.push(format!("{left_out} more comparisons are in report.html."));
    }
    Section { title: title.clone(), notes, tables: vec![Table { title, columns, rows }] }
}

fn full_section(summary: &Summary, comparison: &Comparison) -> Section {
    let row = |difference: &Difference| {
        vec![
            difference.metric.name().to_owned(),
            device_name(summary, difference.device),
            difference.op.map_or("all", |op| op.name()).to_owned(),
            number::metric(difference.metric, difference.baseline),
            number::metric(difference.metric, difference.candidate),
            number::ratio(difference.ratio),
            difference.interval.map_or_else(|| number::MISSING.to_owned(), number::interval),
            evidence(difference.evidence),
            format!("{} / {}", difference.baseline_runs, difference.candidate_runs),
            number::margin(difference.margin),
            outcome(difference).to_owned(),
            difference
                .runs_needed
                .map_or_else(|| number::MISSING.to_owned(), |runs| number::count(runs.into())),
        ]
    };
    let columns = vec![
        Column::key("metric"),
        Column::text("device"),
        Column::text("op"),
        Column::number("baseline"),
        Column::number("candidate"),
        Column::number("ratio"),
        Column::number("95 % interval"),
        Column::text("rests on"),
        Column::number("runs"),
        Column::number("margin"),
        Column::text("verdict"),
        Column::number("more runs to decide"),
    ];
    let title = title(comparison);
    let table = Table {
        title: format!("{title}, the primary metric first"),
        columns,
        rows: comparison.differences.iter().map(row).collect(),
    };
    let mut notes = vec![
        "A ratio is candidate ÷ baseline. Different: its interval lies outside the margin. \
         Equivalent: inside. No difference shown: the interval holds ×1 and reaches beyond the \
         margin. Undecided: anything else."
            .to_owned(),
    ];
    notes.extend(comparison.notes.iter().cloned());
    Section { title, notes, tables: vec![table] }
}

fn title(comparison: &Comparison) -> String {
    let (baseline, candidate) = (comparison.baseline.label(), comparison.candidate.label());
    format!("{candidate} (candidate) against {baseline} (baseline)")
}

fn several_devices(comparison: &Comparison) -> bool {
    let first = comparison.differences.first().map(|difference| difference.device);
    comparison.differences.iter().any(|difference| Some(difference.device) != first)
}

fn what(difference: &Difference, device: Option<String>) -> String {
    let mut words: Vec<String> = device.into_iter().collect();
    words.extend(difference.op.map(|op| op.name().to_owned()));
    words.push(difference.metric.name().to_owned());
    words.join(" ")
}

fn ratio(difference: &Difference) -> String {
    let ratio = number::ratio(difference.ratio);
    match difference.interval {
        Some(interval) => format!("{ratio} {}", number::interval(interval)),
        None => format!("{ratio}, no interval"),
    }
}

/// The verdict in a word or three.
fn outcome(difference: &Difference) -> &'static str {
    let holds_one = difference.interval.is_some_and(|ends| ends.low <= 1.0 && 1.0 <= ends.high);
    match difference.verdict {
        Verdict::Undecided if holds_one => "no difference shown",
        Verdict::Different | Verdict::Equivalent | Verdict::Undecided => difference.verdict.word(),
    }
}

fn evidence(evidence: Evidence) -> String {
    match evidence {
        Evidence::BetweenRuns { pairs: 1 } => "1 pair of runs".to_owned(),
        Evidence::BetweenRuns { pairs } => format!("{} pairs of runs", number::count(pairs.into())),
        Evidence::WithinRun => "within this run only".to_owned(),
        Evidence::None => "too few runs and requests".to_owned(),
    }
}
