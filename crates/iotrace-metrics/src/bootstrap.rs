//! An interval from inside the runs, where there are too few runs to compare.
//!
//! A run is cut into blocks of time. A moving-block bootstrap (Künsch 1989), its blocks closed
//! to a circle (Politis and Romano 1992), draws stretches of neighbours, so that requests close
//! in time stay together. The interval says what these runs would show again under the same
//! conditions, nothing of other runs: it never decides.

use iotrace_model::{Configuration, DeviceFacts, DeviceId, Interval, Metric, Op, Quantiles, Stage};
use statrs::statistics::Statistics;

use crate::blocks::{BLOCKS, BUCKETS, Block, Blocks, FINENESS};

/// Neighbours drawn together.
const STRETCH: usize = 4;
/// Samples drawn.
const DRAWS: usize = 400;
/// Draws beyond each end of the interval: 2.5 %.
const TAIL: usize = DRAWS / 40;
/// Requests without which there is no interval.
const FEWEST_REQUESTS: u64 = 100;
/// What a comparison needs of a run besides its summary. Its size does not grow with the run.
#[derive(Clone, Debug, Default)]
pub struct RunSample {
    pub(crate) facts: Vec<DeviceFacts>,
    pub(crate) devices: Vec<(DeviceId, DeviceSample)>,
}

impl RunSample {
    pub(crate) fn new(facts: &[DeviceFacts]) -> Self {
        Self { facts: facts.to_vec(), devices: Vec::new() }
    }

    pub(crate) fn device(&self, wanted: DeviceId) -> Option<&DeviceSample> {
        self.devices.iter().find(|(device, _)| *device == wanted).map(|(_, sample)| sample)
    }
}

/// The same for one device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSample {
    /// Of all operations together.
    pub(crate) quantiles: [(Stage, Quantiles); 2],
    pub(crate) blocks: Blocks,
}

impl Blocks {
    /// Logarithms of a metric in samples drawn anew; `None` with too few requests, or where a
    /// sample may be zero.
    pub(crate) fn draw(&self, op: Option<Op>, metric: Metric, seed: Seed) -> Option<Vec<f64>> {
        let (_, blocks) = self.classes.iter().find(|(class, _)| *class == op)?;
        if blocks.iter().map(|block| block.requests).sum::<u64>() < FEWEST_REQUESTS {
            return None;
        }
        let mut random = SplitMix(seed.0);
        let draw = |_| {
            let mut drawn = Vec::with_capacity(BLOCKS);
            while drawn.len() < BLOCKS {
                let start = random.below(BLOCKS);
                drawn.extend(blocks.iter().cycle().skip(start).take(STRETCH));
            }
            let value = self.value(metric, &drawn)?;
            (value > 0.0).then(|| value.ln())
        };
        (0..DRAWS).map(draw).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    fn value(&self, metric: Metric, blocks: &[&Block]) -> Option<f64> {
        let seconds = (self.to - self.from).max(1) as f64 / 1e9;
        let sum = |of: fn(&Block) -> f64| blocks.iter().map(|block| of(block)).sum::<f64>();
        let d2c = || blocks.iter().flat_map(|block| block.d2c.iter().copied());
        let q2c = || blocks.iter().flat_map(|block| block.q2c.iter().copied());
        match metric {
            Metric::Throughput => Some(sum(|block| block.bytes as f64) / seconds),
            Metric::Iops => Some(sum(|block| block.requests as f64) / seconds),
            Metric::InFlight => Some(sum(|block| block.in_driver) / 1e9 / seconds),
            Metric::D2cP50 => quantile(d2c(), 0.5),
            Metric::D2cP99 => quantile(d2c(), 0.99),
            Metric::Q2cP50 => quantile(q2c(), 0.5),
            Metric::Q2cP99 => quantile(q2c(), 0.99),
        }
    }
}

/// Lower edge of the bucket that holds the quantile, in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn quantile(counts: impl Iterator<Item = (u16, u32)>, quantile: f64) -> Option<f64> {
    let mut totals = vec![0_u64; usize::from(BUCKETS)];
    for (bucket, count) in counts {
        if let Some(total) = totals.get_mut(usize::from(bucket)) {
            *total += u64::from(count);
        }
    }
    let rank = (totals.iter().sum::<u64>() as f64 * quantile).max(1.0);
    let mut seen = 0_u64;
    let bucket = (0..BUCKETS).zip(&totals).find(|(_, count)| {
        seen += **count;
        seen as f64 >= rank
    })?;
    Some((f64::from(bucket.0) / FINENESS).exp2())
}

/// The 95 % interval of candidate ÷ baseline, from the draws of each side's runs; `None` when a
/// side has none. The middle of the draws is that of the bootstrap, not exactly the ratio.
pub(crate) fn ratio(baseline: &[Vec<f64>], candidate: &[Vec<f64>]) -> Option<Interval> {
    if baseline.is_empty() || candidate.is_empty() {
        return None;
    }
    let mean =
        |runs: &[Vec<f64>], place: usize| runs.iter().filter_map(|run| run.get(place)).mean();
    let mut logs: Vec<f64> =
        (0..DRAWS).map(|place| mean(candidate, place) - mean(baseline, place)).collect();
    logs.sort_by(f64::total_cmp);
    Some(Interval { low: logs.get(TAIL)?.exp(), high: logs.get(DRAWS - 1 - TAIL)?.exp() })
}

/// Where a run's random numbers start: its own, whatever side of a comparison it is on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) fn of_run(seed: u64, configuration: &Configuration, repetition: u32) -> Self {
        let label = configuration.label();
        let words = label.bytes().map(u64::from).chain([u64::from(repetition)]);
        Self(words.fold(seed, |seed, word| SplitMix(seed ^ word).next()))
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::Filling;
    use crate::life::Life;
    use crate::source::tests::row;

    /// 100 ns each, one after the other, for a millisecond.
    fn steady() -> Blocks {
        let mut blocks = Filling::new(0, 1_000_000);
        for place in 0..10_000 {
            let row = row(Op::Read, place * 100, place * 100, place * 100 + 100);
            blocks.push(&Life::of(&row).unwrap());
        }
        blocks.finish()
    }

    fn draws(op: Option<Op>, metric: Metric, seed: u64) -> Option<Vec<f64>> {
        steady().draw(op, metric, Seed(seed))
    }

    #[test]
    fn a_steady_run_shows_its_values_again() {
        for (metric, expected, tolerance) in [
            (Metric::Iops, 1e7, 0.01),
            (Metric::Throughput, 512e7, 0.01),
            (Metric::InFlight, 1.0, 0.01),
            (Metric::D2cP99, 100.0, 0.011),
        ] {
            let draws = draws(None, metric, 1).unwrap();
            assert_eq!(draws.len(), DRAWS);
            for draw in draws {
                assert!((draw.exp() / expected - 1.0).abs() < tolerance, "{metric:?} {draw}");
            }
        }
        assert_eq!(draws(Some(Op::Read), Metric::Iops, 1), draws(None, Metric::Iops, 1));
        assert_eq!(draws(Some(Op::Write), Metric::Iops, 1), None);
    }

    #[test]
    fn swapping_the_sides_turns_the_interval_over() {
        let (one, two) =
            ([draws(None, Metric::Iops, 1).unwrap()], [draws(None, Metric::Iops, 2).unwrap()]);
        let (there, back) = (ratio(&one, &two).unwrap(), ratio(&two, &one).unwrap());
        assert!((there.low * back.high - 1.0).abs() < 1e-12);
        assert!((there.high * back.low - 1.0).abs() < 1e-12);
        assert!(there.low < 1.0 && there.high > 1.0 && there.high < 1.02);
        assert_eq!(ratio(&one, &[]), None);
    }

    #[test]
    fn a_quantile_is_the_bucket_of_its_rank() {
        // 2 of 4 lie in bucket 64 = 2 ns; the 4th lies in bucket 640 = 1024 ns.
        let counts = [(64, 2), (128, 1), (640, 1)];
        assert_eq!(quantile(counts.into_iter(), 0.5), Some(2.0));
        assert_eq!(quantile(counts.into_iter(), 0.75), Some(4.0));
        assert_eq!(quantile(counts.into_iter(), 0.99), Some(1024.0));
        assert_eq!(quantile(std::iter::empty(), 0.5), None);
    }

    #[test]
    fn random_numbers_are_those_of_the_paper() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut random = SplitMix(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_run_has_its_own_seed() {
        let configuration =
            |value: &str| Configuration { settings: vec![("ncq".to_owned(), value.to_owned())] };
        let seed = |value, repetition| Seed::of_run(7, &configuration(value), repetition).0;
        assert_eq!(seed("on", 0), seed("on", 0));
        assert_ne!(seed("on", 0), seed("on", 1));
        assert_ne!(seed("on", 0), seed("off", 0));
    }
}
