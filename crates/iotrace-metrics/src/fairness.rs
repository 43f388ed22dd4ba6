//! Reads against writes: who got what while both wanted something, and who had to wait.
//!
//! A class wants something from the queue event (the issue, where no queue event was seen) of its
//! first outstanding request to the completion of its last. Only complete requests take part.

use iotrace_model::{Fairness, Nanos, Op, Quantiles, Starvation};

use crate::life::Life;

/// Both classes over the replay.
#[derive(Clone, Debug)]
pub(crate) struct Rivals {
    /// Up to when the replay has come.
    now: i64,
    reads: Class,
    writes: Class,
    shared_time: i64,
    /// Whether both wanted something in the stretch of time that ends now.
    shared: bool,
}

/// One class.
#[derive(Clone, Debug, Default)]
struct Class {
    outstanding: u64,
    /// Since when it has had something outstanding without a completion.
    since: i64,
    completed: u64,
    /// Completions of the other class at `since`.
    others_at_since: u64,
    shared_bytes: u64,
    longest: Starvation,
}

impl Rivals {
    /// Nothing is wanted yet at the start of the span.
    pub(crate) fn new(from: i64) -> Self {
        let [reads, writes] = [Class::default(), Class::default()];
        Self { now: from, reads, writes, shared_time: 0, shared: false }
    }

    /// Lets requests be wanted and complete, each in the order of time; at equal times those
    /// that complete come first.
    pub(crate) fn replay<'a>(
        &mut self,
        wanted: impl Iterator<Item = (i64, Op)>,
        complete: impl Iterator<Item = &'a Life>,
    ) {
        let mut complete = complete.peekable();
        for (time, op) in wanted {
            while let Some(life) = complete.next_if(|life| life.complete <= time) {
                self.complete(life);
            }
            self.advance(time);
            self.begin(op, time);
        }
        for life in complete {
            self.complete(life);
        }
    }

    fn complete(&mut self, life: &Life) {
        self.advance(life.complete);
        self.end(life.op, life.complete, life.bytes, life.is_wanted());
    }

    /// Lets time pass; at equal times nothing passes and nothing changes.
    fn advance(&mut self, time: i64) {
        if time > self.now {
            self.shared = self.reads.outstanding > 0 && self.writes.outstanding > 0;
            if self.shared {
                self.shared_time += time - self.now;
            }
            self.now = time;
        }
    }

    /// A class wants one more request.
    fn begin(&mut self, op: Op, time: i64) {
        let Some((class, other)) = self.split(op) else { return };
        if class.outstanding == 0 {
            class.since = time;
            class.others_at_since = other.completed;
        }
        class.outstanding += 1;
    }

    /// A class gets one; `wanted` says whether it began before, in another moment.
    fn end(&mut self, op: Op, time: i64, bytes: u64, wanted: bool) {
        let shared = self.shared;
        let Some((class, other)) = self.split(op) else { return };
        let length = Nanos(time - class.since);
        if class.outstanding > 0 && length > class.longest.length {
            class.longest = Starvation {
                from: Nanos(class.since),
                length,
                others_completed: other.completed - class.others_at_since,
            };
        }
        if wanted {
            class.outstanding = class.outstanding.saturating_sub(1);
        }
        class.completed += 1;
        class.since = time;
        class.others_at_since = other.completed;
        if shared {
            class.shared_bytes = class.shared_bytes.saturating_add(bytes);
        }
    }

    /// `None` unless both classes wanted something at the same time. The quantiles are those of
    /// total latency.
    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    pub(crate) fn fairness(&self, reads: Quantiles, writes: Quantiles) -> Option<Fairness> {
        if self.shared_time == 0 {
            return None;
        }
        let (read, write) = (self.reads.shared_bytes as f64, self.writes.shared_bytes as f64);
        let squares = read * read + write * write;
        let ratio = |read: Option<Nanos>, write: Option<Nanos>| {
            let (read, write) = (read?.0 as f64, write?.0 as f64);
            (write > 0.0).then(|| read / write)
        };
        Some(Fairness {
            shared_time: Nanos(self.shared_time),
            // Where both got nothing, both got the same.
            read_share: if squares > 0.0 { read / (read + write) } else { 0.5 },
            // Jain, Chiu, Hawe 1984: (Σx)² / (n Σx²); the shared time cancels.
            jain: if squares > 0.0 { (read + write).powi(2) / (2.0 * squares) } else { 1.0 },
            latency_ratio_p50: ratio(reads.p50, writes.p50),
            latency_ratio_p99: ratio(reads.p99, writes.p99),
            read_starvation: self.reads.longest,
            write_starvation: self.writes.longest,
        })
    }

    /// The class of an operation and the other one; `None` for what is neither.
    fn split(&mut self, op: Op) -> Option<(&mut Class, &Class)> {
        match op {
            Op::Read => Some((&mut self.reads, &self.writes)),
            Op::Write => Some((&mut self.writes, &self.reads)),
            Op::Flush
            | Op::Discard
            | Op::SecureErase
            | Op::ZoneAppend
            | Op::ZoneManagement
            | Op::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Row;
    use crate::source::tests::row;
    use crate::sweep::tests::sweep;

    fn fairness(rows: &[Row]) -> Option<Fairness> {
        let quantiles = |nanos| Quantiles { p50: Some(Nanos(nanos)), ..Quantiles::default() };
        sweep(rows).rivals.fairness(quantiles(300), quantiles(100))
    }

    #[test]
    fn shares_count_only_while_both_wait() {
        // Both are outstanding from 10 to 60; in that time one read completes at 30 and one at
        // 60, no write: the write's end at 90 is alone.
        let rows = [row(Op::Read, 0, 0, 30), row(Op::Read, 5, 5, 60), row(Op::Write, 10, 10, 90)];
        let expected = Fairness {
            shared_time: Nanos(50),
            read_share: 1.0,
            // One of two gets all: 1² / (2 · 1²) = 0.5.
            jain: 0.5,
            latency_ratio_p50: Some(3.0),
            latency_ratio_p99: None,
            // Reads wait from 0 to 30 and from 30 to 60: the first of the longest counts.
            read_starvation: Starvation { from: Nanos(0), length: Nanos(30), others_completed: 0 },
            write_starvation: Starvation {
                from: Nanos(10),
                length: Nanos(80),
                others_completed: 2,
            },
        };
        assert_eq!(fairness(&rows), Some(expected));
    }

    #[test]
    fn what_completes_at_the_end_of_the_shared_time_counts_for_both() {
        let rows = [
            row(Op::Read, 0, 0, 50),
            Row { length_bytes: 1536, ..row(Op::Write, 0, 0, 50) },
            row(Op::Write, 50, 50, 90),
        ];
        let fairness = fairness(&rows).unwrap();
        // 512 of 2048 bytes; (1 + 3)² / (2 · (1 + 9)) = 0.8.
        assert_eq!((fairness.shared_time, fairness.read_share), (Nanos(50), 0.25));
        assert!((fairness.jain - 0.8).abs() < 1e-12);
    }

    #[test]
    fn an_idle_class_does_not_starve() {
        let rows = [
            row(Op::Read, 0, 0, 10),
            row(Op::Write, 0, 0, 500),
            row(Op::Read, 600, 600, 605),
            row(Op::Read, 700, 700, 700),
        ];
        let starvation = fairness(&rows).unwrap().read_starvation;
        assert_eq!((starvation.from, starvation.length), (Nanos(0), Nanos(10)));
    }

    #[test]
    fn without_a_queue_event_a_request_waits_from_its_issue() {
        let late = Row { queue: None, ..row(Op::Read, 0, 40, 60) };
        let fairness = fairness(&[row(Op::Write, 0, 0, 50), late]).unwrap();
        assert_eq!(fairness.shared_time, Nanos(10));
    }

    #[test]
    fn classes_that_never_met_have_nothing_to_compare() {
        assert_eq!(fairness(&[row(Op::Read, 0, 0, 30)]), None);
        assert_eq!(fairness(&[row(Op::Read, 0, 0, 30), row(Op::Write, 30, 30, 60)]), None);
    }
}
