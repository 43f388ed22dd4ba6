//! The distribution of one latency: exact count, sum, least and largest, quantiles within 0.1 %.
//!
//! Quantiles come from an HDR histogram of three significant digits: its buckets are at most
//! 0.1 % wide and the upper edge is reported, so a quantile is never too low and at most 0.1 %
//! above the true one. All counting is on integers: the same latencies give the same answer in
//! any order.

use hdrhistogram::Histogram;
use iotrace_model::{LatencySummary, Nanos, Quantiles, Stage};

use crate::source::Row;

/// Significant digits of the quantiles.
const DIGITS: u8 = 3;
/// Buckets in a doubling that those digits take.
const HALF: u64 = 1024;
/// Log buckets in a doubling.
const BUCKETS: f64 = 8.0;

/// The latency of a stage; `None` where one of its ends was not seen.
pub(crate) fn latency(row: &Row, stage: Stage) -> Option<i64> {
    let (from, to) = match stage {
        Stage::Q2I => (row.queue, row.insert),
        Stage::I2D => (row.insert, row.issue),
        Stage::Q2D => (row.queue, row.issue),
        Stage::D2C => (row.issue, row.complete),
        Stage::Q2C => (row.queue, row.complete),
    };
    Some(to? - from?)
}

/// Counts latencies, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    /// How often each bucket of the HDR histogram was hit.
    counts: Vec<u64>,
    count: u64,
    sum: i128,
    min: i64,
    max: i64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: Vec::new(), count: 0, sum: 0, min: i64::MAX, max: i64::MIN }
    }
}

impl Latencies {
    /// Adds one latency; one below zero, which `source` never lets through, counts as zero.
    pub(crate) fn record(&mut self, nanos: i64) {
        self.count += 1;
        self.sum += i128::from(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        let bucket = bucket_of(u64::try_from(nanos).unwrap_or(0));
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// Adds all of another one.
    pub(crate) fn merge(&mut self, other: &Latencies) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum in nanoseconds.
    pub(crate) fn sum(&self) -> i128 {
        self.sum
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        if self.count() == 0 {
            return LatencySummary::default();
        }
        let histogram = self.histogram();
        LatencySummary {
            count: self.count(),
            mean_ns: self.mean(),
            min: Nanos(self.min),
            max: Nanos(self.max),
            quantiles: self.quantiles_in(&histogram),
            histogram: buckets(&histogram),
        }
    }

    /// Each only when 10/(1 − q) latencies or more stand behind it.
    pub(crate) fn quantiles(&self) -> Quantiles {
        self.quantiles_in(&self.histogram())
    }

    fn quantiles_in(&self, histogram: &Histogram<u64>) -> Quantiles {
        let quantile = |quantile: f64, fewest: u64| {
            (self.count >= fewest).then(|| {
                let value = histogram.value_at_quantile(quantile);
                Nanos(i64::try_from(value).unwrap_or(i64::MAX).clamp(self.min, self.max))
            })
        };
        Quantiles {
            p50: quantile(0.5, 20),
            p90: quantile(0.9, 100),
            p95: quantile(0.95, 200),
            p99: quantile(0.99, 1_000),
            p999: quantile(0.999, 10_000),
            p9999: quantile(0.9999, 100_000),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    fn mean(&self) -> f64 {
        self.sum as f64 / self.count() as f64
    }

    fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new(DIGITS).expect("3 is one of the allowed digits");
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = least_of(bucket);
            histogram.record_n(value, *count).expect("the histogram grows to any value");
        }
        histogram
    }
}

/// The bucket of a value in an HDR histogram of three digits: below 2048 each value has its own,
/// above that every doubling has 1024. Counting here and filling the histogram once costs a third
/// of recording each value there.
#[expect(clippy::cast_possible_truncation, reason = "there are less than 2^16 buckets")]
fn bucket_of(value: u64) -> usize {
    let shift = (value | (2 * HALF - 1)).ilog2() - HALF.ilog2();
    (u64::from(shift) * HALF + (value >> shift)) as usize
}

/// The least value of a bucket.
fn least_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / HALF).saturating_sub(1);
    (bucket - shift * HALF) << shift
}

/// Upper edges 2^(k/8) and counts, only buckets that hold something. A latency within 0.1 %
/// below an edge may be counted above it.
#[expect(clippy::cast_precision_loss, reason = "53 bits place a latency well enough")]
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates at the largest time")]
fn buckets(histogram: &Histogram<u64>) -> Vec<(Nanos, u64)> {
    let mut buckets: Vec<(Nanos, u64)> = Vec::new();
    for value in histogram.iter_recorded() {
        let nanos = value.value_iterated_to().max(1) as f64;
        let step = (nanos.log2() * BUCKETS).ceil();
        let edge = Nanos((step / BUCKETS).exp2().ceil() as i64);
        match buckets.last_mut() {
            Some((last, count)) if *last == edge => *count += value.count_at_value(),
            _ => buckets.push((edge, value.count_at_value())),
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn latencies(nanos: impl IntoIterator<Item = i64>) -> Latencies {
        let mut latencies = Latencies::default();
        nanos.into_iter().for_each(|nanos| latencies.record(nanos));
        latencies
    }

    #[test]
    fn a_quantile_needs_enough_behind_it() {
        let quantiles = latencies((1..=100).map(|step| step * 1000)).quantiles();
        // p50: the 50th of 100, 50 000, in the bucket from 49 984 to 50 015 (width 32).
        assert_eq!(quantiles.p50, Some(Nanos(50_015)));
        // p90: the 90th, 90 000, in the bucket from 89 984 to 90 047 (width 64).
        assert_eq!(quantiles.p90, Some(Nanos(90_047)));
        // p95 needs 200.
        assert_eq!((quantiles.p95, quantiles.p99), (None, None));
        assert_eq!(latencies(1..=19).quantiles(), Quantiles::default());
        // The 10th of 20; below 2048 ns every value has a bucket of its own.
        assert_eq!(latencies(1..=20).quantiles().p50, Some(Nanos(10)));
        assert_eq!(latencies(1..=1000).quantiles().p99, Some(Nanos(990)));
    }

    #[test]
    fn count_mean_and_ends_are_exact() {
        let summary = latencies((1..=100).map(|step| step * 1000)).summary();
        assert_eq!((summary.min, summary.max, summary.count), (Nanos(1000), Nanos(100_000), 100));
        // (1 + … + 100) / 100 = 50.5 µs.
        assert!((summary.mean_ns - 50_500.0).abs() < 1e-9);
    }

    #[test]
    fn buckets_hold_every_latency_once() {
        let buckets = latencies([1, 2, 2, 1000, 1_000_000]).summary().histogram;
        // 1000 = 2^9.966: the edge is 2^(80/8) = 1024; 10^6 = 2^19.93: 2^(160/8) = 2^20.
        let expected = [(Nanos(1), 1), (Nanos(2), 2), (Nanos(1024), 1), (Nanos(1 << 20), 1)];
        assert_eq!(buckets, expected);
    }

    #[test]
    fn nothing_recorded_says_nothing() {
        assert_eq!(Latencies::default().summary(), LatencySummary::default());
    }

    proptest! {
        #[test]
        fn a_bucket_is_one_of_the_histogram(nanos in 0..i64::MAX, shift in 0..63_u32) {
            let value = u64::try_from(nanos >> shift).unwrap();
            let mut histogram: Histogram<u64> = Histogram::new(DIGITS).unwrap();
            histogram.record(value).unwrap();
            let least = least_of(bucket_of(value));
            prop_assert_eq!(bucket_of(least), bucket_of(value));
            prop_assert_eq!(histogram.lowest_equivalent(value), least);
        }

        #[test]
        fn the_median_is_never_low_and_at_most_a_thousandth_high(
            mut nanos in prop::collection::vec(0..1_i64 << 40, 20..200),
        ) {
            let Some(Nanos(median)) = latencies(nanos.iter().copied()).quantiles().p50 else {
                return Err(TestCaseError::fail("20 are enough"));
            };
            nanos.sort_unstable();
            let exact = nanos[nanos.len().div_ceil(2) - 1];
            prop_assert!(exact <= median && median - exact <= exact / 1000);
        }

        #[test]
        fn merging_equals_recording_all(a: Vec<u32>, b: Vec<u32>) {
            let mut merged = latencies(a.iter().map(|nanos| i64::from(*nanos)));
            merged.merge(&latencies(b.iter().map(|nanos| i64::from(*nanos))));
            let all = latencies(a.iter().chain(&b).map(|nanos| i64::from(*nanos)));
            prop_assert_eq!(merged.summary(), all.summary());
        }
    }
}
