//! What needs no order: counts and latencies of one device.

use std::collections::BTreeMap;

use iotrace_model::{
    DeviceFacts, DeviceId, DeviceSummary, Nanos, Op, OpSummary, Quantiles, Stage, Status,
};

use crate::by_op::ByOp;
use crate::latency::{Latencies, latency};
use crate::life::{Life, Lives};
use crate::ncq::{self, Observed};
use crate::outline::Outline;
use crate::reordering::Overtakes;
use crate::source::Row;
use crate::sweep::Swept;

/// The counts of one device, and what its replay needs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) outline: Outline,
    pub(crate) span: Nanos,
    pub(crate) lives: Lives,
    left_out: BTreeMap<Status, u64>,
    ops: ByOp<OpTally>,
    observed: Observed,
    overtakes: Overtakes,
    pub(crate) backwards: u64,
    pub(crate) first_backwards: Option<Nanos>,
}

#[derive(Debug, Default)]
struct OpTally {
    requests: u64,
    bytes: u64,
    errors: u64,
    merges: u64,
    requeues: u64,
    /// In the order of `Stage::ALL`.
    stages: [Latencies; Stage::ALL.len()],
}

impl OpTally {
    fn stage(&self, wanted: Stage) -> impl Iterator<Item = &Latencies> {
        let stages = Stage::ALL.into_iter().zip(&self.stages);
        stages.filter(move |(stage, _)| *stage == wanted).map(|(_, latencies)| latencies)
    }
}

impl Tally {
    /// Returns what the row is for the second pass; `None` when it does not count.
    pub(crate) fn push(&mut self, row: &Row) -> Option<Life> {
        let Some(life) = Life::of(row) else {
            *self.left_out.entry(row.status).or_default() += 1;
            return None;
        };
        if row.backwards {
            self.backwards += 1;
            self.first_backwards = self.first_backwards.or(row.complete.map(Nanos));
        }
        self.outline.push(life);
        self.overtakes.push(row);
        let op = self.ops.entry(row.op, OpTally::default);
        op.requests += 1;
        op.bytes = op.bytes.saturating_add(row.length_bytes);
        op.errors += u64::from(row.failed);
        op.merges += u64::from(row.merges);
        op.requeues += u64::from(row.requeues);
        for (stage, latencies) in Stage::ALL.into_iter().zip(&mut op.stages) {
            if let Some(latency) = latency(row, stage) {
                latencies.record(latency);
            }
        }
        if matches!(row.op, Op::Read | Op::Write)
            && let Some(queued) = row.queued_command
        {
            self.observed.commands += 1;
            self.observed.queued += u64::from(queued);
        }
        Some(life)
    }

    /// Quantiles of a latency over all operations together.
    pub(crate) fn quantiles_of_all(&self, stage: Stage) -> Quantiles {
        let mut all = Latencies::default();
        self.ops.values().flat_map(|op| op.stage(stage)).for_each(|one| all.merge(one));
        all.quantiles()
    }

    fn quantiles_of(&self, op: Op, stage: Stage) -> Quantiles {
        let latencies = self.ops.get(op).and_then(|op| op.stage(stage).next());
        latencies.map_or_else(Quantiles::default, Latencies::quantiles)
    }

    /// `swept` is `None` without a complete row.
    pub(crate) fn summary(
        self,
        device: DeviceId,
        facts: Option<&DeviceFacts>,
        swept: Option<Swept>,
    ) -> DeviceSummary {
        let name = facts.filter(|facts| !facts.name.is_empty());
        let mut summary = DeviceSummary {
            device,
            name: name.map_or_else(|| device.to_string(), |facts| facts.name.clone()),
            span: self.span,
            requests: self.ops.values().map(|op| op.requests).sum(),
            bytes: self.ops.values().fold(0, |sum: u64, op| sum.saturating_add(op.bytes)),
            left_out: self.left_out.iter().map(|(status, count)| (*status, *count)).collect(),
            ops: self.ops.iter().map(|(op, tally)| tally.summary(op, self.span)).collect(),
            ..DeviceSummary::default()
        };
        if let Some(swept) = swept {
            summary.little = self.little(swept.in_flight.mean);
            let [reads, writes] = [Op::Read, Op::Write].map(|op| self.quantiles_of(op, Stage::Q2C));
            summary.fairness = swept.rivals.fairness(reads, writes);
            summary.in_flight = swept.in_flight;
            summary.queued = swept.queued;
            summary.scheduled = swept.scheduled;
            summary.series = swept.series;
        }
        summary.reordering = self.overtakes.summary(&summary.in_flight.share);
        let observed = Observed {
            max_in_flight: summary.in_flight.max,
            overtaken: summary.reordering.overtaken,
            time_above_one: summary.reordering.time_above_one,
            ..self.observed
        };
        summary.ncq = ncq::evidence(facts, observed);
        summary
    }

    /// Completions per second × mean D2C ÷ mean in-flight depth.
    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    fn little(&self, depth: f64) -> Option<f64> {
        let d2c = self.ops.values().flat_map(|op| op.stage(Stage::D2C));
        let (count, sum) =
            d2c.fold((0, 0), |(count, sum), one| (count + one.count(), sum + one.sum()));
        let mean = sum as f64 / count as f64;
        (count > 0 && depth > 0.0).then(|| rate(count, self.span) * mean / 1e9 / depth)
    }
}

impl OpTally {
    fn summary(&self, op: Op, span: Nanos) -> OpSummary {
        let stages = Stage::ALL.into_iter().zip(&self.stages);
        OpSummary {
            op,
            requests: self.requests,
            bytes: self.bytes,
            errors: self.errors,
            iops: rate(self.requests, span),
            bytes_per_second: rate(self.bytes, span),
            merges: self.merges,
            requeues: self.requeues,
            latencies: stages.map(|(stage, times)| (stage, times.summary())).collect(),
        }
    }
}

/// Per second of a span; 0 for a span of no length.
#[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
fn rate(count: u64, span: Nanos) -> f64 {
    if span.0 > 0 { count as f64 * 1e9 / span.0 as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::row;
    use crate::sweep::Sweep;

    fn summary(rows: &[Row]) -> DeviceSummary {
        let mut tally = Tally::default();
        for row in rows {
            tally.push(row);
        }
        let outline = std::mem::take(&mut tally.outline);
        let (from, to) = outline.span().unwrap();
        tally.span = Nanos(to - from);
        let mut sweep = Sweep::new(&outline).unwrap();
        rows.iter().filter_map(Life::of).for_each(|life| sweep.push(&life));
        tally.summary(DeviceId { major: 8, minor: 0 }, None, Some(sweep.finish()))
    }

    #[test]
    fn littles_law_holds_to_the_last_digit() {
        let rows =
            [row(Op::Read, 0, 20, 40), row(Op::Read, 0, 10, 100), row(Op::Write, 50, 60, 130)];
        let summary = summary(&rows);
        // D2C 20 + 90 + 70 = 180 ns in 130 ns: a mean depth of 180/130.
        assert!((summary.in_flight.mean - 180.0 / 130.0).abs() < 1e-12);
        assert!((summary.little.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!((summary.requests, summary.bytes, summary.span), (3, 1536, Nanos(130)));
        // One request in 130 ns.
        assert!((summary.ops[1].iops - 1e9 / 130.0).abs() < 1e-3);
        assert!((summary.ops[1].bytes_per_second - 512e9 / 130.0).abs() < 1e-3);
    }

    #[test]
    fn rows_without_a_completion_are_counted_apart() {
        let lost = Row { status: Status::Lost, ..row(Op::Read, 0, 1, 2) };
        let open = Row { status: Status::Unfinished, complete: None, ..lost };
        let summary = summary(&[lost, row(Op::Read, 10, 10, 20), open, open]);
        assert_eq!((summary.requests, summary.span), (1, Nanos(10)));
        assert_eq!(summary.left_out, [(Status::Unfinished, 2), (Status::Lost, 1)]);
    }

    #[test]
    fn counts_are_those_of_the_op() {
        let merged = Row { merges: 3, requeues: 1, ..row(Op::Write, 0, 0, 10) };
        let failed = Row { failed: true, ..row(Op::Write, 0, 0, 10) };
        let summary = summary(&[merged, failed, row(Op::Read, 0, 0, 10)]);
        let write = &summary.ops[1];
        assert_eq!((write.op, write.requests, write.bytes), (Op::Write, 2, 1024));
        assert_eq!((write.errors, write.merges, write.requeues), (1, 3, 1));
        assert_eq!((summary.ops[0].op, summary.ops[0].errors), (Op::Read, 0));
    }

    #[test]
    fn a_stage_counts_only_where_both_ends_were_seen() {
        let inserted = Row { insert: Some(4), ..row(Op::Read, 0, 10, 30) };
        let summary = summary(&[inserted, Row { queue: None, ..row(Op::Read, 0, 20, 90) }]);
        let found = |wanted: Stage| {
            let mut latencies = summary.ops[0].latencies.iter();
            let (_, found) = latencies.find(|(stage, _)| *stage == wanted).unwrap();
            (found.count, found.mean_ns)
        };
        assert_eq!(found(Stage::Q2I), (1, 4.0));
        assert_eq!(found(Stage::I2D), (1, 6.0));
        assert_eq!(found(Stage::Q2D), (1, 10.0));
        // (20 + 70) / 2.
        assert_eq!(found(Stage::D2C), (2, 45.0));
        assert_eq!(found(Stage::Q2C), (1, 30.0));
    }

    #[test]
    fn commands_are_those_of_reads_and_writes() {
        let command = |op, queued| Row { queued_command: queued, ..row(op, 0, 0, 10) };
        let ncq = summary(&[
            command(Op::Read, Some(true)),
            command(Op::Write, Some(false)),
            command(Op::Flush, Some(false)),
            command(Op::Read, None),
        ])
        .ncq;
        assert_eq!((ncq.commands, ncq.queued_commands, ncq.max_in_flight), (Some(2), Some(1), 4));
    }
}
