//! Replays the requests of one device in the order of time: depths, series, fairness.
//!
//! Rows come about in the order of completion, what begins must be sorted in. A heap holds what
//! an unread row could still come before: the first pass has found by how much a completion may
//! be late (`disorder`) and how long a request lasts. One request that hangs for half a minute
//! must not keep half a minute of others in memory, so the first pass also keeps the longest
//! requests; their beginnings are in the heap from the start, and the heap's reach is that of the
//! longest among all others.
//!
//! ```text
//! ──────────────┬────── reach ──────┬─ disorder ─┐
//!    replayed   │          in the heap           │ latest completion read
//! ```
//!
//! At equal times a completion comes first and an issue next, so that requests back to back at
//! depth 1 never look like 2. A stay of no length is no step at all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iotrace_model::{DepthSummary, Op, TimeSeries};

use crate::depth::Depth;
use crate::fairness::Rivals;
use crate::series::Series;
use crate::source::Row;

/// How many of the longest requests are known before the replay.
const LONGEST_KEPT: usize = 1 << 14;

/// What the first pass finds out for the second, from the complete rows of one device.
#[derive(Debug)]
pub(crate) struct Outline {
    span: Option<(i64, i64)>,
    latest: i64,
    /// By how much a row's completion was before an earlier row's.
    disorder: i64,
    kept: usize,
    /// The longest lives, the shortest of them on top.
    longest: BinaryHeap<Reverse<(i64, Life)>>,
    /// Longest life that was not kept; every life longer than it is in `longest`.
    reach: i64,
}

impl Default for Outline {
    fn default() -> Self {
        Self::keeping(LONGEST_KEPT)
    }
}

impl Outline {
    fn keeping(kept: usize) -> Self {
        Self {
            span: None,
            latest: i64::MIN,
            disorder: 0,
            kept,
            longest: BinaryHeap::new(),
            reach: -1,
        }
    }

    /// Takes a row that has a completion.
    pub(crate) fn push(&mut self, row: &Row) {
        let Some(life) = Life::of(row) else { return };
        let (from, to) = self.span.unwrap_or((life.begin(), life.complete));
        self.span = Some((from.min(life.begin()), to.max(life.complete)));
        self.latest = self.latest.max(life.complete);
        self.disorder = self.disorder.max(self.latest - life.complete);
        if life.length() > self.reach {
            self.longest.push(Reverse((life.length(), life)));
            if self.longest.len() > self.kept
                && let Some(Reverse((length, _))) = self.longest.pop()
            {
                self.reach = self.reach.max(length);
            }
        }
    }

    /// First beginning and last completion; `None` without a complete row.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        self.span
    }
}

/// The times of a complete request, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Life {
    queue: Option<i64>,
    insert: Option<i64>,
    issue: Option<i64>,
    complete: i64,
    op: Op,
    bytes: u64,
}

impl Life {
    fn of(row: &Row) -> Option<Self> {
        let Row { queue, insert, issue, complete, op, length_bytes: bytes, .. } = *row;
        Some(Self { queue, insert, issue, complete: complete?, op, bytes })
    }

    fn begin(&self) -> i64 {
        self.queue.or(self.insert).or(self.issue).unwrap_or(self.complete)
    }

    fn length(&self) -> i64 {
        self.complete - self.begin()
    }

    /// Since when the layer above wants it.
    fn wanted(&self) -> Option<i64> {
        self.queue.or(self.issue)
    }

    fn beginnings(self) -> impl Iterator<Item = Step> {
        let step = move |time, kind| Step { time, kind, life: self };
        let queue = self.wanted().map(|time| step(time, Kind::Queue));
        let insert = self.insert.map(|time| step(time, Kind::Insert));
        let issue = self.issue.map(|time| step(time, Kind::Issue));
        [queue, insert, issue].into_iter().flatten()
    }

    /// Whether a stay from a time that was seen to another one has any length.
    fn stays(from: Option<i64>, to: Option<i64>) -> bool {
        from.zip(to).is_some_and(|(from, to)| from < to)
    }

    fn is_queued(&self) -> bool {
        Self::stays(self.queue, Some(self.complete))
    }

    fn is_scheduled(&self) -> bool {
        Self::stays(self.insert, self.issue)
    }

    fn is_in_flight(&self) -> bool {
        Self::stays(self.issue, Some(self.complete))
    }

    fn is_wanted(&self) -> bool {
        Self::stays(self.wanted(), Some(self.complete))
    }
}

/// What happens to a request, in the order at equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Complete,
    Issue,
    Queue,
    Insert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    time: i64,
    kind: Kind,
    life: Life,
}

/// The replay.
#[derive(Debug)]
pub(crate) struct Sweep {
    to: i64,
    reach: i64,
    disorder: i64,
    latest: i64,
    waiting: BinaryHeap<Reverse<Step>>,
    now: i64,
    in_flight: Depth,
    queued: Depth,
    scheduled: Depth,
    saw_insert: bool,
    series: Series,
    rivals: Rivals,
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
    pub(crate) fn new(outline: Outline) -> Option<Self> {
        let (from, to) = outline.span?;
        let reach = outline.reach;
        let known = outline.longest.into_iter().filter(|Reverse((length, _))| *length > reach);
        Some(Self {
            to,
            reach,
            disorder: outline.disorder,
            latest: i64::MIN,
            waiting: known.flat_map(|Reverse((_, life))| life.beginnings()).map(Reverse).collect(),
            now: from,
            in_flight: Depth::default(),
            queued: Depth::default(),
            scheduled: Depth::default(),
            saw_insert: false,
            series: Series::new(from, to),
            rivals: Rivals::default(),
        })
    }

    /// Takes the next complete row, of the same rows and in the same order as in the first pass.
    pub(crate) fn push(&mut self, row: &Row) {
        let Some(life) = Life::of(row) else { return };
        if life.length() <= self.reach {
            self.waiting.extend(life.beginnings().map(Reverse));
        }
        self.waiting.push(Reverse(Step { time: life.complete, kind: Kind::Complete, life }));
        self.latest = self.latest.max(life.complete);
        let settled = self.latest - self.disorder - self.reach.max(0);
        while let Some(Reverse(next)) = self.waiting.peek().copied()
            && next.time < settled
        {
            self.waiting.pop();
            self.apply(&next);
        }
    }

    pub(crate) fn finish(mut self) -> Swept {
        while let Some(Reverse(next)) = self.waiting.pop() {
            self.apply(&next);
        }
        self.advance(self.to);
        Swept {
            in_flight: self.in_flight.summary(),
            queued: self.queued.summary(),
            scheduled: self.saw_insert.then(|| self.scheduled.summary()),
            series: self.series.finish(),
            rivals: self.rivals,
        }
    }

    fn advance(&mut self, time: i64) {
        let elapsed = time - self.now;
        if elapsed <= 0 {
            return;
        }
        self.series.advance(self.now, time, self.in_flight.now(), self.queued.now());
        for depth in [&mut self.in_flight, &mut self.queued, &mut self.scheduled] {
            depth.advance(elapsed);
        }
        self.rivals.advance(elapsed);
        self.now = time;
    }

    fn apply(&mut self, Step { time, kind, life }: &Step) {
        self.advance(*time);
        match kind {
            Kind::Queue => {
                if life.is_queued() {
                    self.queued.enter();
                }
                if life.is_wanted() {
                    self.rivals.begin(life.op, *time);
                }
            }
            Kind::Insert => {
                self.saw_insert = true;
                if life.is_scheduled() {
                    self.scheduled.enter();
                }
            }
            Kind::Issue => {
                if life.is_scheduled() {
                    self.scheduled.leave();
                }
                if life.is_in_flight() {
                    self.in_flight.enter();
                }
            }
            Kind::Complete => {
                if life.is_in_flight() {
                    self.in_flight.leave();
                }
                if life.is_queued() {
                    self.queued.leave();
                }
                self.rivals.end(life.op, *time, life.bytes, life.is_wanted());
                self.series.complete(*time, life.op, life.bytes);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use iotrace_model::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::source::tests::row;

    pub(crate) fn sweep(rows: &[Row]) -> Swept {
        sweep_keeping(LONGEST_KEPT, rows)
    }

    fn sweep_keeping(kept: usize, rows: &[Row]) -> Swept {
        let mut outline = Outline::keeping(kept);
        for row in rows {
            outline.push(row);
        }
        let mut sweep = Sweep::new(outline).unwrap();
        for row in rows {
            sweep.push(row);
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
            (0..10_000).map(|at| row(Op::Read, at * 10, at * 10, at * 10 + 10)).collect();
        rows.push(row(Op::Write, 0, 0, 100_000));
        let mut outline = Outline::keeping(4);
        for row in &rows {
            outline.push(row);
        }
        let mut sweep = Sweep::new(outline).unwrap();
        let mut most = 0;
        for row in &rows {
            sweep.push(row);
            most = most.max(sweep.waiting.len());
        }
        assert!(most < 20, "{most} steps waited");
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
