//! Runs sorted by configuration and device, the rows of nearly every table.
//!
//! A `Group` holds one or more runs of one configuration on one device. A cell of a group
//! is a range over its runs, never a mean of them; a group of one run gives plain values.

use std::collections::BTreeSet;

use iotrace_model::{
    DeviceId, DeviceSummary, LatencySummary, Nanos, Op, OpSummary, RunSummary, Stage, Summary,
};

use crate::document::Column;
use crate::number;

/// Every run, in two groupings.
#[derive(Debug)]
pub(crate) struct Groups<'a> {
    /// Labels of the configurations, in the order in which they first ran.
    pub(crate) labels: Vec<String>,
    /// One group for each configuration and device.
    pub(crate) merged: Vec<Group<'a>>,
    /// One group for each run and device, ordered by configuration.
    pub(crate) single: Vec<Group<'a>>,
    /// Whether rows must name the device.
    several_devices: bool,
}

/// Some runs of one configuration on one device.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// Place of the configuration in `labels`.
    pub(crate) side: usize,
    /// Its label.
    pub(crate) label: String,
    /// The device.
    pub(crate) device: DeviceId,
    /// Its name.
    pub(crate) name: &'a str,
    /// The repetition, where the group is one run by purpose.
    repetition: Option<u32>,
    /// The device in each run; never empty.
    pub(crate) members: Vec<(&'a RunSummary, &'a DeviceSummary)>,
}

/// How configurations are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    /// By their settings.
    Full,
    /// By their settings, or all by number (`#1`) where one would be too wide for a column.
    Short,
}

/// The widest label that `Labels::Short` keeps.
const SHORT_LABEL: usize = 12;

impl<'a> Groups<'a> {
    /// Sorts the runs of a summary.
    pub(crate) fn of(summary: &'a Summary, form: Labels) -> Self {
        let mut labels: Vec<String> = Vec::new();
        for run in &summary.runs {
            let label = run.configuration.label();
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let devices: BTreeSet<DeviceId> =
            summary.runs.iter().flat_map(|run| &run.devices).map(|device| device.device).collect();
        let mut merged = Vec::new();
        let mut single = Vec::new();
        let full = labels.clone();
        if form == Labels::Short && full.iter().any(|label| label.chars().count() > SHORT_LABEL) {
            labels = (1..=full.len()).map(|number| format!("#{number}")).collect();
        }
        for (side, (label, full)) in labels.iter().zip(&full).enumerate() {
            for &id in &devices {
                let members: Vec<_> = members(summary, full, id).collect();
                let group = |repetition, members: Vec<(&'a RunSummary, &'a DeviceSummary)>| {
                    let name = members.first().map_or("", |(_, device)| device.name.as_str());
                    Group { side, label: label.clone(), device: id, name, repetition, members }
                };
                single.extend(
                    members
                        .iter()
                        .map(|&(run, device)| group(Some(run.repetition), vec![(run, device)])),
                );
                if !members.is_empty() {
                    merged.push(group(None, members));
                }
            }
        }
        Self { labels, merged, single, several_devices: devices.len() > 1 }
    }

    /// The columns that name a row of `rows`: configuration, run, device.
    pub(crate) fn key_columns(&self, rows: &[Group<'_>]) -> Vec<Column> {
        let mut columns = vec![Column::key("configuration")];
        if rows.iter().any(|group| group.repetition.is_some()) {
            columns.push(Column::key("run"));
        }
        if self.several_devices {
            columns.push(Column::key("device"));
        }
        columns
    }

    /// The cells of those columns.
    pub(crate) fn key_cells(&self, group: &Group<'_>) -> Vec<String> {
        let mut cells = vec![group.label.clone()];
        cells.extend(group.repetition.map(|repetition| number::count(repetition.into())));
        if self.several_devices {
            cells.push(group.name.to_owned());
        }
        cells
    }
}

fn members<'a>(
    summary: &'a Summary,
    label: &str,
    id: DeviceId,
) -> impl Iterator<Item = (&'a RunSummary, &'a DeviceSummary)> {
    summary
        .runs
        .iter()
        .filter(move |run| run.configuration.label() == label)
        .flat_map(|run| run.devices.iter().map(move |device| (run, device)))
        .filter(move |(_, device)| device.device == id)
}

impl<'a> Group<'a> {
    /// The operations that occur, in the order of `Op::ALL`.
    pub(crate) fn ops(&self) -> Vec<Op> {
        let occurs = |op: &Op| self.op_summaries(*op).next().is_some();
        Op::ALL.into_iter().filter(occurs).collect()
    }

    /// One operation in each run that has it.
    pub(crate) fn op_summaries(&self, op: Op) -> impl Iterator<Item = &'a OpSummary> {
        self.members.iter().flat_map(|(_, device)| &device.ops).filter(move |one| one.op == op)
    }

    /// One latency of one operation in each run that has it.
    pub(crate) fn latencies(
        &self,
        op: Op,
        stage: Stage,
    ) -> impl Iterator<Item = &'a LatencySummary> {
        self.op_summaries(op).filter_map(move |one| latency(one, stage))
    }

    /// A cell: the range of a value over the runs.
    pub(crate) fn range(
        &self,
        form: fn(f64, f64) -> String,
        value: impl Fn(&DeviceSummary) -> Option<f64>,
    ) -> String {
        range(self.members.iter().filter_map(|(_, device)| value(device)), form)
    }

    /// A cell: the range of a value of one operation.
    pub(crate) fn op_range(
        &self,
        op: Op,
        form: fn(f64, f64) -> String,
        value: impl Fn(&OpSummary) -> Option<f64>,
    ) -> String {
        range(self.op_summaries(op).filter_map(value), form)
    }

    /// A cell: the range of a quantile; `too few` where a latency has none.
    pub(crate) fn quantile(
        &self,
        op: Op,
        stage: Stage,
        quantile: impl Fn(&LatencySummary) -> Option<Nanos>,
    ) -> String {
        let mut latencies = self.latencies(op, stage).peekable();
        if latencies.peek().is_none() {
            return number::MISSING.to_owned();
        }
        let mut values = Vec::new();
        for latency in latencies {
            match quantile(latency) {
                Some(time) => values.push(number::float_ns(time)),
                None => return "too few".to_owned(),
            }
        }
        range(values.into_iter(), number::duration_range)
    }
}

/// One latency of an operation; `None` when no request has it.
pub(crate) fn latency(op: &OpSummary, stage: Stage) -> Option<&LatencySummary> {
    let found = op.latencies.iter().find(|(name, _)| *name == stage);
    found.map(|(_, latency)| latency).filter(|latency| latency.count > 0)
}

/// A dash without values, one value, or the smallest and the largest.
fn range(values: impl Iterator<Item = f64>, form: fn(f64, f64) -> String) -> String {
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    low.zip(high).map_or_else(|| number::MISSING.to_owned(), |(low, high)| form(low, high))
}
