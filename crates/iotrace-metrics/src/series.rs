//! Depth and throughput in at most 240 equal steps of time.

use std::collections::BTreeMap;

use iotrace_model::{Nanos, Op, TimeSeries};

/// Most steps of a series.
const STEPS: i64 = 240;

/// Sums for each step of a span of time.
#[derive(Debug)]
pub(crate) struct Series {
    from: i64,
    to: i64,
    step: i64,
    /// Depth × nanoseconds in each step.
    in_flight: Vec<i128>,
    queued: Vec<i128>,
    /// Bytes completed in each step.
    bytes: BTreeMap<Op, Vec<u64>>,
}

impl Series {
    pub(crate) fn new(from: i64, to: i64) -> Self {
        let length = (to - from).max(1);
        let step = round_step(length);
        let whole = length / step + i64::from(length % step != 0);
        let steps = usize::try_from(whole).unwrap_or(1);
        Self {
            from,
            to,
            step,
            in_flight: vec![0; steps],
            queued: vec![0; steps],
            bytes: BTreeMap::new(),
        }
    }

    /// Both depths last from one time to another.
    pub(crate) fn advance(&mut self, from: i64, to: i64, in_flight: i64, queued: i64) {
        let mut now = from.max(self.from);
        let to = to.min(self.to);
        while now < to {
            let place = self.place(now);
            let end = self.start_of(place + 1).min(to);
            let elapsed = i128::from(end - now);
            for (sums, depth) in [(&mut self.in_flight, in_flight), (&mut self.queued, queued)] {
                if let Some(sum) = sums.get_mut(place) {
                    *sum += elapsed * i128::from(depth);
                }
            }
            now = end;
        }
    }

    /// A request completes. What completes at the very end belongs to the last step.
    pub(crate) fn complete(&mut self, time: i64, op: Op, bytes: u64) {
        let (place, steps) = (self.place(time), self.in_flight.len());
        let sums = self.bytes.entry(op).or_insert_with(|| vec![0; steps]);
        if let Some(sum) = sums.get_mut(place.min(steps - 1)) {
            *sum = sum.saturating_add(bytes);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    pub(crate) fn finish(self) -> TimeSeries {
        // The last step may be cut short by the end of the span.
        let width = |place: usize| (self.to - self.start_of(place)).clamp(1, self.step) as f64;
        let mean = |sums: &[i128]| -> Vec<f64> {
            sums.iter().enumerate().map(|(place, sum)| *sum as f64 / width(place)).collect()
        };
        let rate = |bytes: &[u64]| -> Vec<f64> {
            let rates = bytes.iter().enumerate();
            rates.map(|(place, bytes)| *bytes as f64 * 1e9 / width(place)).collect()
        };
        TimeSeries {
            start: Nanos(self.from),
            step: Nanos(self.step),
            in_flight: mean(&self.in_flight),
            queued: mean(&self.queued),
            bytes_per_second: self.bytes.iter().map(|(op, bytes)| (*op, rate(bytes))).collect(),
        }
    }

    fn place(&self, time: i64) -> usize {
        usize::try_from((time - self.from) / self.step).unwrap_or(0)
    }

    fn start_of(&self, place: usize) -> i64 {
        self.from + self.step * i64::try_from(place).unwrap_or(0)
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
        let mut series = Series::new(1000, 1485);
        series.advance(1003, 1012, 2, 3);
        series.complete(1012, Op::Write, 10);
        series.complete(1485, Op::Read, 20);
        let series = series.finish();
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
        let mut series = Series::new(0, 481);
        series.advance(0, 481, 1, 1);
        series.complete(481, Op::Read, 3);
        let series = series.finish();
        assert_eq!(series.in_flight, vec![1.0; 97]);
        assert_eq!(series.bytes_per_second[0].1[96..], [3e9]);
    }
}
