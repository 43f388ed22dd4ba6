//! Depth and throughput in at most 240 equal steps of time.

use iotrace_model::{Nanos, Op, TimeSeries};

use crate::by_op::ByOp;

/// Most steps of a series.
const STEPS: i64 = 240;

/// Equal steps over a span of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    from: i64,
    to: i64,
    step: i64,
    count: usize,
}

impl Steps {
    pub(crate) fn new(from: i64, to: i64) -> Self {
        let length = (to - from).max(1);
        let step = round_step(length);
        let whole = length / step + i64::from(length % step != 0);
        Self { from, to, step, count: usize::try_from(whole).unwrap_or(1) }
    }

    pub(crate) fn areas(self) -> Areas {
        Areas { steps: self, at: At::default(), open: 0, sums: vec![0; self.count] }
    }

    pub(crate) fn bytes(self) -> Bytes {
        Bytes { steps: self, at: At::default(), sums: ByOp::default() }
    }

    fn start_of(self, place: usize) -> i64 {
        self.from + self.step * i64::try_from(place).unwrap_or(0)
    }

    /// The length of a step; the last one may be cut short by the end of the span.
    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    fn width(self, place: usize) -> f64 {
        (self.to - self.start_of(place)).clamp(1, self.step) as f64
    }
}

/// The step of the last time asked for: the next time most often lies in the same one.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    place: usize,
    /// Its first time and the one after its last; equal before any was asked for.
    from: i64,
    to: i64,
}

impl At {
    fn find(&mut self, steps: Steps, time: i64) -> usize {
        if time < self.from || time >= self.to {
            self.place = usize::try_from((time - steps.from) / steps.step).unwrap_or(0);
            self.from = steps.start_of(self.place);
            self.to = steps.start_of(self.place + 1);
        }
        self.place
    }
}

/// A depth summed up over time in each step.
#[derive(Debug)]
pub(crate) struct Areas {
    steps: Steps,
    at: At,
    /// Depth × nanoseconds of the step at `at` that are not in `sums` yet.
    open: i128,
    sums: Vec<i128>,
}

impl Areas {
    /// The start of the span.
    pub(crate) fn from(&self) -> i64 {
        self.steps.from
    }

    /// A depth lasts from one time to another.
    #[inline]
    pub(crate) fn advance(&mut self, from: i64, to: i64, depth: i64) {
        if self.at.from <= from && to <= self.at.to {
            self.open += i128::from(to - from) * i128::from(depth);
        } else {
            self.advance_further(from, to, depth);
        }
    }

    fn advance_further(&mut self, from: i64, to: i64, depth: i64) {
        let mut now = from.max(self.steps.from);
        let to = to.min(self.steps.to);
        while now < to {
            self.close();
            self.at.find(self.steps, now);
            let end = self.at.to.min(to);
            self.open = i128::from(end - now) * i128::from(depth);
            now = end;
        }
    }

    /// Adds what was summed up of the present step.
    fn close(&mut self) {
        if let Some(sum) = self.sums.get_mut(self.at.place) {
            *sum += std::mem::take(&mut self.open);
        }
    }

    /// Depth × nanoseconds over all steps.
    pub(crate) fn total(&self) -> i128 {
        self.sums.iter().sum::<i128>() + self.open
    }

    /// The time-weighted mean of each step.
    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    pub(crate) fn means(&self) -> Vec<f64> {
        let open = |place| if place == self.at.place { self.open } else { 0 };
        let sums = self.sums.iter().enumerate();
        sums.map(|(place, sum)| (sum + open(place)) as f64 / self.steps.width(place)).collect()
    }
}

/// Bytes completed in each step.
#[derive(Debug)]
pub(crate) struct Bytes {
    steps: Steps,
    at: At,
    sums: ByOp<Vec<u64>>,
}

impl Bytes {
    /// A request completes. What completes at the very end belongs to the last step.
    pub(crate) fn complete(&mut self, time: i64, op: Op, bytes: u64) {
        let last = self.steps.count - 1;
        let place = self.at.find(self.steps, time).min(last);
        if let Some(sum) = self.sums.entry(op, || vec![0; last + 1]).get_mut(place) {
            *sum = sum.saturating_add(bytes);
        }
    }

    /// The series of these bytes and two depths.
    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    pub(crate) fn series(&self, in_flight: Vec<f64>, queued: Vec<f64>) -> TimeSeries {
        let rate = |bytes: &[u64]| -> Vec<f64> {
            let rates = bytes.iter().enumerate();
            rates.map(|(place, sum)| *sum as f64 * 1e9 / self.steps.width(place)).collect()
        };
        TimeSeries {
            start: Nanos(self.steps.from),
            step: Nanos(self.steps.step),
            in_flight,
            queued,
            bytes_per_second: self.sums.iter().map(|(op, bytes)| (op, rate(bytes))).collect(),
        }
    }
}

/// The smallest of 1, 2, 5 × 10^k nanoseconds that needs at most `STEPS` steps.
fn round_step(length: i64) -> i64 {
    let mut decade = 1_i64;
    loop {
        for factor in [1, 2, 5] {
            let step = decade * factor;
            if length.div_euclid(step) + i64::from(length % step != 0) <= STEPS {
                return step;
            }
        }
        decade *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        assert_eq!(round_step(1), 1);
        assert_eq!(round_step(240), 1);
        assert_eq!(round_step(241), 2);
        // 5 s in 240 steps are 20.8 ms: the next round one is 50 ms, 100 steps.
        assert_eq!(round_step(5_000_000_000), 50_000_000);
        assert_eq!(round_step(i64::MAX), 50_000_000_000_000_000);
    }

    #[test]
    fn what_lasts_over_several_steps_is_shared_out() {
        // 485 ns in steps of 5 ns: 97 steps.
        let steps = Steps::new(1000, 1485);
        let (mut in_flight, mut queued, mut bytes) = (steps.areas(), steps.areas(), steps.bytes());
        in_flight.advance(1003, 1012, 2);
        queued.advance(1003, 1012, 3);
        bytes.complete(1012, Op::Write, 10);
        bytes.complete(1485, Op::Read, 20);
        let series = bytes.series(in_flight.means(), queued.means());
        assert_eq!((series.start, series.step), (Nanos(1000), Nanos(5)));
        assert_eq!(series.in_flight.len(), 97);
        // 2 ns, 5 ns and 2 ns of 5 at depth 2.
        assert_eq!(series.in_flight[..4], [0.8, 2.0, 0.8, 0.0]);
        assert_eq!(series.queued[..4], [1.2, 3.0, 1.2, 0.0]);
        let [(Op::Read, reads), (Op::Write, writes)] = &series.bytes_per_second[..] else {
            panic!("{:?}", series.bytes_per_second)
        };
        // 20 bytes in the last 5 ns, 10 bytes in the third step.
        assert_eq!((reads[96], writes[2]), (4e9, 2e9));
    }

    #[test]
    fn the_last_step_may_be_short() {
        // 481 ns: 96 steps of 5 ns and one of 1 ns.
        let steps = Steps::new(0, 481);
        let (mut depth, mut bytes) = (steps.areas(), steps.bytes());
        depth.advance(0, 481, 1);
        bytes.complete(481, Op::Read, 3);
        let series = bytes.series(depth.means(), depth.means());
        assert_eq!(series.in_flight, vec![1.0; 97]);
        assert_eq!(series.bytes_per_second[0].1[96..], [3e9]);
    }
}
