//! Replays the requests of one device in the order of time: depths, series, fairness.
//!
//! Rows come about in the order of completion, what begins must be sorted in. Lives are gathered
//! until there are enough to be worth sorting; then everything is replayed that no unread row
//! can come before (`outline` says how that is known), and the rest waits for the next round.
//!
//! ```text
//! ──────────────┬────── reach ──────┬─ disorder ─┐
//!    replayed   │      waiting      │            │ latest completion read
//! ```
//!
//! The three depths and the rivals hang on different stamps and on nothing of each other, so each
//! merges two sorted streams of its own: what begins and what ends. `Service` has all that hangs
//! on the issue, `Demand` all that hangs on the queue event; they may run at the same time.
//!
//! At equal times a completion comes first. A stay of no length is no step at all.

mod by_time;
mod stream;

use iotrace_model::{DepthSummary, Op, TimeSeries};

use self::stream::{Ends, Stream, Timed};
use crate::depth::Depth;
use crate::fairness::Rivals;
use crate::life::Life;
use crate::outline::Outline;
use crate::series::{Bytes, Steps};

/// The replay.
#[derive(Debug)]
pub(crate) struct Sweep {
    service: Service,
    demand: Demand,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) in_flight: DepthSummary,
    pub(crate) queued: DepthSummary,
    pub(crate) scheduled: Option<DepthSummary>,
    pub(crate) series: TimeSeries,
    pub(crate) rivals: Rivals,
}

impl Sweep {
    /// `None` when the first pass saw no complete row.
    pub(crate) fn new(outline: &Outline) -> Option<Self> {
        let (from, to) = outline.span()?;
        let (steps, [one, other]) = (Steps::new(from, to), [(); 2].map(|()| Ends::new(outline)));
        let [in_flight, scheduled, queued] = [(); 3].map(|()| Depth::new(steps.areas()));
        let mut service = Service {
            ends: one,
            inserts: Stream::default(),
            issues: Stream::default(),
            in_flight,
            scheduled,
            saw_insert: false,
        };
        let mut demand = Demand {
            ends: other,
            wishes: Stream::default(),
            queued,
            rivals: Rivals::new(from),
            bytes: steps.bytes(),
        };
        for life in outline.longest() {
            service.begin(&life);
            demand.begin(&life);
        }
        service.inserts.keep_for_later();
        service.issues.keep_for_later();
        demand.wishes.keep_for_later();
        Some(Self { service, demand })
    }

    /// Takes the next complete row, of the same rows and in the same order as in the first pass.
    pub(crate) fn push(&mut self, life: &Life) {
        self.service.push(life);
        self.demand.push(life);
    }

    /// Both halves, to be given the same rows as one `push` would.
    pub(crate) fn halves(&mut self) -> (&mut Service, &mut Demand) {
        (&mut self.service, &mut self.demand)
    }

    pub(crate) fn finish(self) -> Swept {
        let Self { mut service, mut demand } = self;
        service.replay(i64::MAX);
        demand.replay(i64::MAX);
        let to = service.ends.to;
        for depth in [&mut service.in_flight, &mut service.scheduled, &mut demand.queued] {
            depth.advance(to);
        }
        Swept {
            in_flight: service.in_flight.summary(),
            queued: demand.queued.summary(),
            scheduled: service.saw_insert.then(|| service.scheduled.summary()),
            series: demand.bytes.series(service.in_flight.steps(), demand.queued.steps()),
            rivals: demand.rivals,
        }
    }
}

/// In the scheduler, and in the driver.
#[derive(Debug)]
pub(crate) struct Service {
    ends: Ends,
    inserts: Stream<i64>,
    issues: Stream<Issue>,
    in_flight: Depth,
    scheduled: Depth,
    saw_insert: bool,
}

/// An issue that ends a stay in the scheduler, begins one in the driver, or both.
#[derive(Clone, Copy, Debug)]
struct Issue {
    time: i64,
    was_scheduled: bool,
    is_in_flight: bool,
}

impl Timed for Issue {
    fn time(&self) -> i64 {
        self.time
    }
}

impl Service {
    /// Takes the next complete row.
    pub(crate) fn push(&mut self, life: &Life) {
        self.saw_insert |= life.insert().is_some();
        if life.length() <= self.ends.reach {
            self.begin(life);
        }
        if let Some(settled) = self.ends.push(life) {
            self.replay(settled);
            self.ends.wait(self.issues.waiting.len());
        }
    }

    fn begin(&mut self, life: &Life) {
        let (was_scheduled, is_in_flight) = (life.is_scheduled(), life.is_in_flight());
        if was_scheduled {
            self.inserts.waiting.extend(life.insert());
        }
        if was_scheduled || is_in_flight {
            let issue = |time| Issue { time, was_scheduled, is_in_flight };
            self.issues.waiting.extend(life.issue().map(issue));
        }
    }

    /// Replays everything before a time.
    fn replay(&mut self, before: i64) {
        let ends = self.ends.settle(before);
        let (inserts, issues) = (self.inserts.settle(before), self.issues.settle(before));
        let end = |life: &Life| life.is_in_flight().then_some(life.complete);
        let begin = |issue: &Issue| issue.is_in_flight.then_some(issue.time);
        self.in_flight.replay(
            self.issues.first(issues).iter().filter_map(begin),
            self.ends.first(ends).iter().filter_map(end),
        );
        let leave = |issue: &Issue| issue.was_scheduled.then_some(issue.time);
        self.scheduled.replay(
            self.inserts.first(inserts).iter().copied(),
            self.issues.first(issues).iter().filter_map(leave),
        );
        self.ends.lives.drain(..ends);
        self.inserts.waiting.drain(..inserts);
        self.issues.waiting.drain(..issues);
    }
}

/// What the layer above waits for, and gets.
#[derive(Debug)]
pub(crate) struct Demand {
    ends: Ends,
    wishes: Stream<Wish>,
    queued: Depth,
    rivals: Rivals,
    bytes: Bytes,
}

/// The queue event, or the issue where none was seen.
#[derive(Clone, Copy, Debug)]
struct Wish {
    time: i64,
    op: Op,
    is_queued: bool,
}

impl Timed for Wish {
    fn time(&self) -> i64 {
        self.time
    }
}

impl Demand {
    /// Takes the next complete row.
    pub(crate) fn push(&mut self, life: &Life) {
        self.bytes.complete(life.complete, life.op, life.bytes);
        if life.length() <= self.ends.reach {
            self.begin(life);
        }
        if let Some(settled) = self.ends.push(life) {
            self.replay(settled);
            self.ends.wait(self.wishes.waiting.len());
        }
    }

    fn begin(&mut self, life: &Life) {
        if life.is_wanted() {
            let wish = |time| Wish { time, op: life.op, is_queued: life.is_queued() };
            self.wishes.waiting.extend(life.wanted().map(wish));
        }
    }

    /// Replays everything before a time.
    fn replay(&mut self, before: i64) {
        let (ends, wishes) = (self.ends.settle(before), self.wishes.settle(before));
        let end = |life: &Life| life.is_queued().then_some(life.complete);
        let begin = |wish: &Wish| wish.is_queued.then_some(wish.time);
        let (all_ends, all_wishes) = (self.ends.first(ends), self.wishes.first(wishes));
        self.queued.replay(all_wishes.iter().filter_map(begin), all_ends.iter().filter_map(end));
        self.rivals.replay(all_wishes.iter().map(|wish| (wish.time, wish.op)), all_ends.iter());
        self.ends.lives.drain(..ends);
        self.wishes.waiting.drain(..wishes);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use iotrace_model::Nanos;
    use proptest::prelude::*;

    use super::stream::BATCH;
    use super::*;
    use crate::source::Row;
    use crate::source::tests::row;

    pub(crate) fn sweep(rows: &[Row]) -> Swept {
        sweep_keeping(usize::MAX, rows)
    }

    fn sweep_keeping(kept: usize, rows: &[Row]) -> Swept {
        let lives: Vec<Life> = rows.iter().filter_map(Life::of).collect();
        let mut outline = Outline::keeping(kept);
        for life in &lives {
            outline.push(*life);
        }
        let mut sweep = Sweep::new(&outline).unwrap();
        for life in &lives {
            sweep.push(life);
        }
        sweep.finish()
    }

    #[test]
    fn depth_is_weighted_with_time() {
        // In flight: 0 for 10 ns, 1 for 10, 2 for 20, 1 for 60: (10 + 40 + 60) / 100 = 1.1.
        let swept = sweep(&[row(Op::Read, 0, 20, 40), row(Op::Read, 0, 10, 100)]);
        assert!((swept.in_flight.mean - 1.1).abs() < 1e-12);
        assert_eq!(swept.in_flight.max, 2);
        assert_eq!(swept.in_flight.share, [0.1, 0.7, 0.2]);
        // Queued: 2 for 40 ns, 1 for 60: 1.4.
        assert!((swept.queued.mean - 1.4).abs() < 1e-12);
        assert_eq!(swept.queued.share, [0.0, 0.6, 0.4]);
        assert_eq!(swept.scheduled, None);
    }

    #[test]
    fn requests_back_to_back_never_overlap() {
        let insert = |row: Row| Row { insert: row.queue, ..row };
        let rows = [
            insert(row(Op::Read, 0, 20, 50)),
            insert(row(Op::Read, 20, 50, 80)),
            insert(row(Op::Read, 50, 80, 100)),
        ];
        let swept = sweep(&rows);
        assert_eq!((swept.in_flight.max, swept.in_flight.share), (1, vec![0.2, 0.8]));
        // One waits from 0 to 20, from 20 to 50 and from 50 to 80.
        let scheduled = swept.scheduled.unwrap();
        assert_eq!((scheduled.max, scheduled.share), (1, vec![0.2, 0.8]));
    }

    #[test]
    fn an_insert_issued_at_once_is_seen_and_takes_no_time() {
        let swept = sweep(&[Row { insert: Some(0), ..row(Op::Read, 0, 0, 50) }]);
        let expected = DepthSummary { mean: 0.0, max: 0, share: vec![1.0] };
        assert_eq!(swept.scheduled, Some(expected));
    }

    #[test]
    fn one_hanging_request_does_not_fill_the_memory() {
        let mut rows: Vec<Row> =
            (0..100_000).map(|at| row(Op::Read, at * 10, at * 10, at * 10 + 10)).collect();
        rows.push(row(Op::Write, 0, 0, 1_000_000));
        let lives: Vec<Life> = rows.iter().filter_map(Life::of).collect();
        let mut outline = Outline::keeping(4);
        for life in &lives {
            outline.push(*life);
        }
        let mut sweep = Sweep::new(&outline).unwrap();
        let mut most = 0;
        for life in &lives {
            sweep.push(life);
            let Sweep { service, demand } = &sweep;
            most = most.max(service.issues.waiting.len()).max(demand.wishes.waiting.len());
        }
        assert!(most < BATCH + 20, "{most} beginnings waited");
        let swept = sweep.finish();
        // The write is in flight all the time and one of the reads, too.
        assert_eq!(swept.in_flight.share, [0.0, 0.0, 1.0]);
    }

    #[test]
    fn throughput_lies_in_the_step_of_its_completion() {
        let series = sweep(&[row(Op::Write, 0, 0, 100), row(Op::Read, 0, 0, 480)]).series;
        // Steps of 2 ns; 512 bytes in one of them.
        assert_eq!(series.step, Nanos(2));
        let (op, rates) = &series.bytes_per_second[1];
        assert_eq!((*op, rates[50]), (Op::Write, 256e9));
    }

    fn any_row() -> impl Strategy<Value = Row> {
        (0..1000_i64, 0..50_i64, 0..50_i64, 0..500_i64, prop::bool::ANY, prop::bool::ANY).prop_map(
            |(queue, to_insert, to_issue, to_complete, is_read, is_inserted)| {
                let insert = queue + to_insert;
                let issue = insert + to_issue;
                let op = if is_read { Op::Read } else { Op::Write };
                let whole = row(op, queue, issue, issue + to_complete);
                Row { insert: is_inserted.then_some(insert), ..whole }
            },
        )
    }

    proptest! {
        #[test]
        fn neither_order_nor_memory_changes_the_result(
            rows in prop::collection::vec(any_row(), 1..60),
            kept in 0..20_usize,
        ) {
            let mut in_order = rows.clone();
            in_order.sort_by_key(|row| row.complete);
            let (one, two) = (sweep_keeping(kept, &in_order), sweep_keeping(usize::MAX, &rows));
            prop_assert_eq!(format!("{one:?}"), format!("{two:?}"));
        }

        #[test]
        fn depth_is_the_sum_of_stays_over_the_span(
            rows in prop::collection::vec(any_row(), 1..60),
        ) {
            let swept = sweep(&rows);
            let times = |of: fn(&Row) -> Option<i64>| rows.iter().filter_map(of);
            let end = times(|row| row.complete).max().unwrap();
            let span = end - times(|row| row.queue).min().unwrap();
            prop_assume!(span > 0);
            let stays = |from: fn(&Row) -> Option<i64>| -> i64 {
                rows.iter().map(|row| row.complete.unwrap() - from(row).unwrap()).sum()
            };
            let [in_flight, queued] = [stays(|row| row.issue), stays(|row| row.queue)]
                .map(|stay| f64::from(i32::try_from(stay).unwrap()));
            let span = f64::from(i32::try_from(span).unwrap());
            prop_assert!((swept.in_flight.mean - in_flight / span).abs() < 1e-9);
            prop_assert!((swept.queued.mean - queued / span).abs() < 1e-9);
            for depth in [&swept.in_flight, &swept.queued] {
                prop_assert!((depth.share.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}
