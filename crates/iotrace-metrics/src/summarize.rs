//! One run: its rows to a `RunSummary` and to the sample that a comparison needs.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use iotrace_model::{
    Cause, Configuration, DeviceFacts, DeviceId, DeviceSummary, Ledger, Nanos, Op, OpSummary,
    Quantiles, RunSummary, Stage, Status,
};

use crate::Error;
use crate::blocks::Filling;
use crate::bootstrap::{DeviceSample, RunSample};
use crate::by_op::ByOp;
use crate::latency::{Latencies, latency};
use crate::life::Life;
use crate::ncq::{self, Observed};
use crate::outline::Outline;
use crate::reordering::Overtakes;
use crate::source::{Row, for_each_block};
use crate::sweep::{Sweep, Swept};

/// Complete rows up to which the first pass keeps what the second needs: 50 MiB.
const KEPT: usize = 1 << 20;
/// Lives kept in one piece.
const CHUNK: usize = 1 << 13;

/// One run and what is known of it.
#[derive(Clone, Debug)]
pub struct RunInput<'a> {
    /// Its `requests.parquet`.
    pub requests: &'a Path,
    /// Its configuration.
    pub configuration: Configuration,
    /// Its repetition, from 0.
    pub repetition: u32,
    /// Its folder in the dataset.
    pub folder: String,
    /// Wall time of the workload.
    pub duration: Nanos,
    /// Exit code of the workload; `None` when it was killed or not run by us.
    pub exit_code: Option<i32>,
    /// The traced devices, settings as read back.
    pub devices: &'a [DeviceFacts],
    /// Losses while capturing and pairing.
    pub ledger: Ledger,
}

/// Sums a run up. Reads the table once, and once more if it has more than a million complete rows;
/// memory holds two slices of rows, the times of a million and, for each device, the requests of
/// about one long latency.
///
/// Only rows with status complete and a completion count; of these a latency or depth takes the
/// ones in which both of its ends were seen. The summary's ledger is the input's, and complete
/// rows with a stamp that runs backwards.
///
/// # Errors
/// When the table cannot be read, or holds what no version of iotrace writes.
pub fn summarize_run(input: &RunInput<'_>) -> Result<(RunSummary, RunSample), Error> {
    let mut tallies = Tallies::default();
    for_each_block(input.requests, |rows| tallies.push(rows))?;
    let mut replays = tallies.replays();
    if tallies.kept_all {
        replays.run(&tallies);
    } else {
        for_each_block(input.requests, |rows| replays.push(rows))?;
    }
    let mut ledger = input.ledger.clone();
    let mut devices = Vec::new();
    let mut sample = RunSample::new(input.devices);
    for (device, tally) in tallies.devices {
        if tally.backwards > 0 {
            ledger.add(Cause::TimeBackwards, None, tally.first_backwards, tally.backwards);
        }
        let facts = input.devices.iter().find(|facts| facts.device == device);
        let (sweep, blocks) = replays.devices.remove(&device).unzip();
        sample.devices.extend(blocks.map(Filling::finish).map(|blocks| {
            let quantiles =
                [Stage::Q2C, Stage::D2C].map(|stage| (stage, tally.quantiles_of_all(stage)));
            (device, DeviceSample { quantiles, blocks })
        }));
        devices.push(tally.summary(device, facts, sweep.map(Sweep::finish)));
    }
    let summary = RunSummary {
        configuration: input.configuration.clone(),
        repetition: input.repetition,
        folder: input.folder.clone(),
        duration: input.duration,
        exit_code: input.exit_code,
        devices,
        ledger,
    };
    Ok((summary, sample))
}

/// The first pass over the devices.
#[derive(Debug)]
struct Tallies {
    devices: BTreeMap<DeviceId, Tally>,
    /// Lives that may still be kept.
    room: usize,
    /// Whether the tallies hold every complete row.
    kept_all: bool,
}

impl Default for Tallies {
    fn default() -> Self {
        Self { devices: BTreeMap::new(), room: KEPT, kept_all: true }
    }
}

impl Tallies {
    fn push(&mut self, rows: &[Row]) {
        for rows in rows.chunk_by(|one, next| one.device == next.device) {
            let Some(Row { device, .. }) = rows.first() else { continue };
            let tally = self.devices.entry(*device).or_default();
            for row in rows {
                let Some(life) = tally.push(row) else { continue };
                if self.room > 0 {
                    self.room -= 1;
                    tally.lives.push(life);
                } else {
                    self.kept_all = false;
                }
            }
        }
        if !self.kept_all {
            self.devices.values_mut().for_each(|tally| tally.lives = Lives::default());
        }
    }

    fn replays(&mut self) -> Replays {
        let mut devices = BTreeMap::new();
        for (device, tally) in &mut self.devices {
            let outline = std::mem::take(&mut tally.outline);
            if let Some((from, to)) = outline.span()
                && let Some(sweep) = Sweep::new(&outline)
            {
                tally.span = Nanos(to - from);
                devices.insert(*device, (sweep, Filling::new(from, to)));
            }
        }
        Replays { devices }
    }
}

/// The second pass.
#[derive(Debug)]
struct Replays {
    devices: BTreeMap<DeviceId, (Sweep, Filling)>,
}

impl Replays {
    /// From the lives that the first pass kept.
    fn run(&mut self, tallies: &Tallies) {
        thread::scope(|scope| {
            let mut services = Vec::new();
            let mut rest = Vec::new();
            for (device, (sweep, blocks)) in &mut self.devices {
                let Some(tally) = tallies.devices.get(device) else { continue };
                let (service, demand) = sweep.halves();
                services.push((service, &tally.lives));
                rest.push((demand, blocks, &tally.lives));
            }
            scope.spawn(move || {
                for (service, lives) in services {
                    lives.iter().for_each(|life| service.push(life));
                }
            });
            for (demand, blocks, lives) in rest {
                lives.iter().for_each(|life| demand.push(life));
                lives.iter().for_each(|life| blocks.push(life));
            }
        });
    }

    /// From the rows, read again.
    fn push(&mut self, rows: &[Row]) {
        for rows in rows.chunk_by(|one, next| one.device == next.device) {
            let Some(Row { device, .. }) = rows.first() else { continue };
            let Some((sweep, blocks)) = self.devices.get_mut(device) else { continue };
            for life in rows.iter().filter_map(Life::of) {
                sweep.push(&life);
                blocks.push(&life);
            }
        }
    }
}

/// Lives in the order of their rows. A full chunk is never moved.
#[derive(Debug, Default)]
struct Lives(Vec<Vec<Life>>);

impl Lives {
    fn push(&mut self, life: Life) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(life),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(life);
                self.0.push(chunk);
            }
            None => self.0.push(vec![life]),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Life> {
        self.0.iter().flatten()
    }
}

/// What needs no order: counts and latencies of one device.
#[derive(Debug, Default)]
struct Tally {
    outline: Outline,
    span: Nanos,
    lives: Lives,
    left_out: BTreeMap<Status, u64>,
    ops: ByOp<OpTally>,
    observed: Observed,
    overtakes: Overtakes,
    backwards: u64,
    first_backwards: Option<Nanos>,
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
    fn push(&mut self, row: &Row) -> Option<Life> {
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
    fn quantiles_of_all(&self, stage: Stage) -> Quantiles {
        let mut all = Latencies::default();
        self.ops.values().flat_map(|op| op.stage(stage)).for_each(|one| all.merge(one));
        all.quantiles()
    }

    fn quantiles_of(&self, op: Op, stage: Stage) -> Quantiles {
        let latencies = self.ops.get(op).and_then(|op| op.stage(stage).next());
        latencies.map_or_else(Quantiles::default, Latencies::quantiles)
    }

    fn summary(
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
    fn lives_that_were_kept_give_what_reading_again_gives() {
        let other = |row: Row| Row { device: DeviceId { major: 8, minor: 16 }, ..row };
        let rows: Vec<Row> = (0..20_000_i64)
            .map(|at| {
                let row = row(Op::Read, at * 10, at * 10 + 4, at * 10 + 5 + at * 7 % 90);
                if at % 3 == 0 { other(row) } else { row }
            })
            .collect();
        let pass = |room| {
            let mut tallies = Tallies { room, ..Tallies::default() };
            rows.chunks(1000).for_each(|rows| tallies.push(rows));
            let mut replays = tallies.replays();
            if tallies.kept_all {
                replays.run(&tallies);
            } else {
                assert!(tallies.devices.values().all(|tally| tally.lives.0.is_empty()));
                rows.chunks(300).for_each(|rows| replays.push(rows));
            }
            let swept: Vec<_> = replays
                .devices
                .into_values()
                .map(|(sweep, blocks)| format!("{:?} {:?}", sweep.finish(), blocks.finish()))
                .collect();
            (tallies.kept_all, swept)
        };
        let ((kept, one), (kept_less, two)) = (pass(20_000), pass(19_999));
        assert_eq!((kept, kept_less, one.len()), (true, false, 2));
        assert!(one == two);
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
