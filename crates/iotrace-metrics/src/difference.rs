//! One metric on both sides: ratio, interval, verdict.
//!
//! The unit of replication is the run. Each pair of runs gives one log-ratio; three or more give
//! Student's t interval, which decides. Everything is symmetric: swapping the sides negates every
//! log-ratio and so inverts ratio and interval.

use iotrace_model::{Difference, Evidence, Interval, Verdict};
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

/// Pairs of runs that a verdict needs.
pub(crate) const FEWEST_PAIRS: usize = 3;
/// More runs than this are no advice.
const MOST_RUNS: u32 = 1000;

/// Judges by the log-ratios of at least three pairs of runs. `family` is the number of intervals
/// that share the 5 % (Bonferroni); `resolution` is the least half width, in logarithms.
pub(crate) fn judge(difference: &mut Difference, logs: &[f64], family: usize, resolution: f64) {
    let spread = Spread { mean: logs.mean(), deviation: logs.std_dev(), family, resolution };
    let half = spread.half_width(logs.len());
    // Symmetric in logarithms, so that a ratio and its inverse fare alike.
    let margin = difference.margin.ln_1p();
    let distance = spread.mean.abs();
    difference.ratio = spread.mean.exp();
    difference.interval =
        Some(Interval { low: (spread.mean - half).exp(), high: (spread.mean + half).exp() });
    let pairs = u32::try_from(logs.len()).unwrap_or(u32::MAX);
    difference.evidence = Evidence::BetweenRuns { pairs };
    difference.verdict = if distance - half > margin {
        Verdict::Different
    } else if distance + half <= margin {
        Verdict::Equivalent
    } else {
        Verdict::Undecided
    };
    difference.runs_needed = match difference.verdict {
        Verdict::Undecided => spread.runs_needed(pairs, (distance - margin).abs()),
        Verdict::Different | Verdict::Equivalent => None,
    };
}

/// Log-ratios over pairs of runs.
struct Spread {
    mean: f64,
    deviation: f64,
    family: usize,
    resolution: f64,
}

impl Spread {
    /// Half the width of the two-sided 95 % interval, the 5 % shared by the family.
    fn half_width(&self, pairs: usize) -> f64 {
        let pairs = count_to_float(pairs);
        let tail = 0.025 / count_to_float(self.family.max(1));
        let student = StudentsT::new(0.0, 1.0, pairs - 1.0).expect("two pairs or more");
        let half = student.inverse_cdf(1.0 - tail) * self.deviation / pairs.sqrt();
        half.max(self.resolution)
    }

    /// How many more pairs would bring the half width below the distance to the margin, if mean
    /// and deviation stay as they are.
    fn runs_needed(&self, have: u32, distance: f64) -> Option<u32> {
        let is_enough = |pairs: u32| self.half_width(pairs as usize) < distance;
        let (mut too_few, mut enough) = (have, MOST_RUNS);
        if too_few >= enough || !is_enough(enough) {
            return None;
        }
        while enough - too_few > 1 {
            let middle = u32::midpoint(too_few, enough);
            if is_enough(middle) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        Some(enough - have)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs and metrics are small")]
fn count_to_float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use iotrace_model::{DeviceId, Metric};

    use super::*;

    fn judged(logs: &[f64], family: usize, resolution: f64) -> Difference {
        let mut difference = Difference {
            device: DeviceId::default(),
            op: None,
            metric: Metric::Throughput,
            baseline: 1.0,
            candidate: 1.0,
            baseline_runs: 3,
            candidate_runs: 3,
            ratio: 1.0,
            interval: None,
            evidence: Evidence::None,
            margin: 0.03,
            verdict: Verdict::Undecided,
            runs_needed: None,
        };
        judge(&mut difference, logs, family, resolution);
        difference
    }

    #[track_caller]
    fn check_interval(difference: &Difference, mean: f64, half: f64) {
        let Interval { low, high } = difference.interval.unwrap();
        assert!((difference.ratio.ln() - mean).abs() < 1e-12);
        assert!((low.ln() - (mean - half)).abs() < 1e-5, "{low}");
        assert!((high.ln() - (mean + half)).abs() < 1e-5, "{high}");
    }

    #[test]
    fn the_interval_is_that_of_students_t() {
        // Mean 0.2, s 0.1, t(2; 0.975) = 4.30265: half 0.430265 / √3 = 0.248414.
        let difference = judged(&[0.1, 0.2, 0.3], 1, 0.0);
        check_interval(&difference, 0.2, 0.248_414);
        assert_eq!(difference.evidence, Evidence::BetweenRuns { pairs: 3 });
    }

    #[test]
    fn a_family_shares_the_error() {
        // Five intervals: 0.5 % in each tail, t(2; 0.995) = 9.92484: half 0.573011.
        check_interval(&judged(&[0.1, 0.2, 0.3], 5, 0.0), 0.2, 0.573_011);
    }

    #[test]
    fn an_interval_is_never_finer_than_its_measure() {
        check_interval(&judged(&[0.01, 0.01, 0.01], 1, 0.001), 0.01, 0.001);
    }

    #[test]
    fn the_margin_is_symmetric_in_logarithms() {
        // ln 1.03 = 0.029559.
        let check = |mean: f64, verdict| {
            let logs = [mean - 1e-4, mean, mean + 1e-4];
            // s 1e-4: half 0.000248.
            assert_eq!(judged(&logs, 1, 0.0).verdict, verdict, "{mean}");
            assert_eq!(judged(&logs.map(|log| -log), 1, 0.0).verdict, verdict, "{mean}");
        };
        check(0.0, Verdict::Equivalent);
        check(0.0293, Verdict::Equivalent);
        check(0.0295, Verdict::Undecided);
        check(0.0297, Verdict::Undecided);
        check(0.0299, Verdict::Different);
    }

    #[test]
    fn more_runs_are_advised_only_where_they_can_decide() {
        // s 0.02, distance 0.2 − 0.029559: more than three runs are needed at s 0.1 only.
        let undecided = judged(&[0.1, 0.2, 0.3], 1, 0.0);
        // t(3; 0.975) 3.18245 · 0.1 / 2 = 0.159 < 0.170: one more is enough.
        assert_eq!((undecided.verdict, undecided.runs_needed), (Verdict::Undecided, Some(1)));
        assert_eq!(judged(&[0.19, 0.2, 0.21], 1, 0.0).runs_needed, None);
        // Exactly at the margin no number of runs decides.
        let edge = 0.03_f64.ln_1p();
        assert_eq!(judged(&[edge - 0.1, edge, edge + 0.1], 1, 0.0).runs_needed, None);
    }
}
