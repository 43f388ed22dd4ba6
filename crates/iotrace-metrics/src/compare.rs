//! Baseline against candidate, run by run.
//!
//! Runs of the same repetition are paired, so that a drift of the machine cancels. With three
//! pairs or more the paired log-ratios decide (`difference`); with fewer, or where the runs are
//! copies of each other, there is only the bootstrap inside the runs, which never decides.
//!
//! The primary metric is throughput of all operations together and has a 95 % interval. All
//! others share one error of 5 % by Bonferroni, as do the primaries of several devices.

use std::collections::BTreeSet;

use iotrace_model::{
    Comparison, Configuration, DeviceId, Difference, Evidence, Metric, Op, RunSummary, Verdict,
};
use statrs::statistics::Statistics;

use crate::bootstrap::{self, RunSample, Seed};
use crate::difference::{self, FEWEST_PAIRS};
use crate::metric::{resolution, value};
use crate::notes::{self, Situation};

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Seed of the bootstrap: the same seed and runs give the same intervals.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { seed: 0x0010_77ac }
    }
}

/// The runs of one side, by repetition.
pub(crate) type Side<'a> = Vec<&'a (RunSummary, RunSample)>;

/// Compares, for each setting that varies, its first value with each other one, once for each
/// combination of the other settings. Runs come in the order of the plan.
pub fn compare(runs: &[(RunSummary, RunSample)], options: &CompareOptions) -> Vec<Comparison> {
    let mut configurations: Vec<&Configuration> = Vec::new();
    for (run, _) in runs {
        if !configurations.contains(&&run.configuration) {
            configurations.push(&run.configuration);
        }
    }
    let Some(first) = configurations.first() else { return Vec::new() };
    let mut comparisons = Vec::new();
    for (place, (factor, first_value)) in first.settings.iter().enumerate() {
        let has_first_value = |one: &&&Configuration| {
            one.settings.get(place).is_some_and(|(_, value)| value == first_value)
        };
        for baseline in configurations.iter().filter(has_first_value) {
            for candidate in &configurations {
                if only_difference(baseline, candidate) == Some(place) {
                    let sides = Sides {
                        baseline: side(runs, baseline),
                        candidate: side(runs, candidate),
                        seed: options.seed,
                    };
                    comparisons.push(sides.compare(factor.clone()));
                }
            }
        }
    }
    comparisons
}

/// The place of the one setting in which two configurations differ.
fn only_difference(a: &Configuration, b: &Configuration) -> Option<usize> {
    if a.settings.len() != b.settings.len() {
        return None;
    }
    let pairs = a.settings.iter().zip(&b.settings);
    if pairs.clone().any(|((a, _), (b, _))| a != b) {
        return None;
    }
    let mut different = pairs.enumerate().filter(|(_, (a, b))| a != b).map(|(place, _)| place);
    let first = different.next()?;
    different.next().is_none().then_some(first)
}

fn side<'a>(runs: &'a [(RunSummary, RunSample)], configuration: &Configuration) -> Side<'a> {
    let mut side: Side<'a> =
        runs.iter().filter(|(run, _)| run.configuration == *configuration).collect();
    side.sort_by_key(|(run, _)| run.repetition);
    side
}

struct Sides<'a> {
    baseline: Side<'a>,
    candidate: Side<'a>,
    seed: u64,
}

/// A difference and the paired log-ratios behind it.
struct Measured {
    difference: Difference,
    logs: Vec<f64>,
}

impl Measured {
    fn is_primary(&self) -> bool {
        self.difference.op.is_none() && Metric::ALL.first() == Some(&self.difference.metric)
    }
}

impl Sides<'_> {
    fn compare(&self, factor: String) -> Comparison {
        let mut measured = Vec::new();
        let mut copies = BTreeSet::new();
        for device in self.devices() {
            let of_device = self.measure_device(device);
            // Runs that differ by nothing at all repeat nothing.
            if of_device.iter().any(|one| one.is_primary() && are_copies(&one.logs)) {
                copies.insert(device);
            }
            measured.extend(of_device);
        }
        let primaries = measured.iter().filter(|one| one.is_primary()).count();
        let secondaries = measured.len() - primaries;
        for one in &mut measured {
            let family = if one.is_primary() { primaries } else { secondaries };
            let Measured { difference, logs } = one;
            if logs.len() >= FEWEST_PAIRS && !copies.contains(&difference.device) {
                difference::judge(difference, logs, family, resolution(difference.metric));
            } else {
                self.look_inside(difference);
            }
        }
        let configuration = |side: &Side<'_>| {
            side.first().map(|(run, _)| run.configuration.clone()).unwrap_or_default()
        };
        let situation = Situation {
            pairs: self.pairs(),
            secondaries,
            primaries,
            has_copies: !copies.is_empty(),
        };
        Comparison {
            factor,
            baseline: configuration(&self.baseline),
            candidate: configuration(&self.candidate),
            differences: measured.into_iter().map(|one| one.difference).collect(),
            notes: notes::notes(&self.baseline, &self.candidate, situation),
        }
    }

    /// Devices that both sides have.
    fn devices(&self) -> BTreeSet<DeviceId> {
        let of = |side: &Side<'_>| -> BTreeSet<DeviceId> {
            side.iter().flat_map(|(run, _)| &run.devices).map(|device| device.device).collect()
        };
        of(&self.baseline).intersection(&of(&self.candidate)).copied().collect()
    }

    /// All operations together, then reads and writes, unless one op is all there is.
    fn measure_device(&self, device: DeviceId) -> Vec<Measured> {
        let runs = self.baseline.iter().chain(&self.candidate);
        let ops: BTreeSet<Op> = runs
            .flat_map(|(run, _)| &run.devices)
            .filter(|summary| summary.device == device)
            .flat_map(|summary| &summary.ops)
            .map(|op| op.op)
            .collect();
        let alone =
            [Op::Read, Op::Write].into_iter().filter(|op| ops.len() > 1 && ops.contains(op));
        let mut measured = Vec::new();
        for op in std::iter::once(None).chain(alone.map(Some)) {
            let metrics = Metric::ALL.into_iter();
            // The depth is that of all operations.
            let metrics = metrics.filter(|metric| op.is_none() || *metric != Metric::InFlight);
            measured.extend(metrics.filter_map(|metric| self.measure(device, op, metric)));
        }
        measured
    }

    /// `None` where the metric is missing on a side.
    fn measure(&self, device: DeviceId, op: Option<Op>, metric: Metric) -> Option<Measured> {
        let values = |side: &Side<'_>| -> Vec<(u32, f64)> {
            let value = |one: &&(RunSummary, RunSample)| {
                Some((one.0.repetition, value(one, device, op, metric)?))
            };
            side.iter().filter_map(value).collect()
        };
        let (mut baseline, mut candidate) = (values(&self.baseline), values(&self.candidate));
        let pairs = pair(&baseline, &candidate);
        if pairs.len() >= FEWEST_PAIRS {
            baseline = pairs.iter().map(|(repetition, value, _)| (*repetition, *value)).collect();
            candidate = pairs.iter().map(|(repetition, _, value)| (*repetition, *value)).collect();
        }
        if baseline.is_empty() || candidate.is_empty() {
            return None;
        }
        let mean = |values: &[(u32, f64)]| values.iter().map(|(_, value)| *value).geometric_mean();
        let count = |values: &[(u32, f64)]| u32::try_from(values.len()).unwrap_or(u32::MAX);
        let (low, high) = (mean(&baseline), mean(&candidate));
        let difference = Difference {
            device,
            op,
            metric,
            baseline: low,
            candidate: high,
            baseline_runs: count(&baseline),
            candidate_runs: count(&candidate),
            ratio: high / low,
            interval: None,
            evidence: Evidence::None,
            margin: metric.margin(),
            verdict: Verdict::Undecided,
            runs_needed: None,
        };
        // A difference of logarithms, which swapping the sides negates to the last bit.
        let logs = pairs.iter().map(|(_, low, high)| high.ln() - low.ln()).collect();
        Some(Measured { difference, logs })
    }

    fn look_inside(&self, difference: &mut Difference) {
        let draws = |side: &Side<'_>| -> Vec<Vec<f64>> {
            let draw = |(run, sample): &&(RunSummary, RunSample)| {
                let seed = Seed::of_run(self.seed, &run.configuration, run.repetition);
                let blocks = &sample.device(difference.device)?.blocks;
                blocks.draw(difference.op, difference.metric, seed)
            };
            side.iter().filter_map(draw).collect()
        };
        difference.interval = bootstrap::ratio(&draws(&self.baseline), &draws(&self.candidate));
        if difference.interval.is_some() {
            difference.evidence = Evidence::WithinRun;
        }
    }

    /// Repetitions that both sides have.
    fn pairs(&self) -> usize {
        let repetitions = |side: &Side<'_>| -> BTreeSet<u32> {
            side.iter().map(|(run, _)| run.repetition).collect()
        };
        repetitions(&self.baseline).intersection(&repetitions(&self.candidate)).count()
    }
}

/// Repetition and both values, by repetition.
fn pair(baseline: &[(u32, f64)], candidate: &[(u32, f64)]) -> Vec<(u32, f64, f64)> {
    let partner = |&(repetition, low): &(u32, f64)| {
        let (_, high) = candidate.iter().find(|(other, _)| *other == repetition)?;
        Some((repetition, low, *high))
    };
    baseline.iter().filter_map(partner).collect()
}

fn are_copies(logs: &[f64]) -> bool {
    logs.len() >= FEWEST_PAIRS
        && logs.windows(2).all(|two| matches!(two, [a, b] if a.total_cmp(b).is_eq()))
}

#[cfg(test)]
mod tests {
    use iotrace_model::{DeviceSummary, OpSummary};
    use proptest::prelude::*;

    use super::*;

    fn run(
        settings: &[(&str, &str)],
        repetition: u32,
        bytes_per_second: f64,
    ) -> (RunSummary, RunSample) {
        let op = OpSummary {
            op: Op::Read,
            requests: 1,
            bytes: 1,
            errors: 0,
            iops: bytes_per_second / 4096.0,
            bytes_per_second,
            merges: 0,
            requeues: 0,
            latencies: Vec::new(),
        };
        let device = DeviceSummary { ops: vec![op], ..DeviceSummary::default() };
        let settings =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let run = RunSummary {
            configuration: Configuration { settings },
            repetition,
            exit_code: Some(0),
            devices: vec![device],
            ..RunSummary::default()
        };
        (run, RunSample::default())
    }

    fn plan(on: &[f64], off: &[f64]) -> Vec<(RunSummary, RunSample)> {
        let pairs = (0..).zip(on.iter().zip(off));
        let runs = pairs.flat_map(|(repetition, (on, off))| {
            [run(&[("ncq", "on")], repetition, *on), run(&[("ncq", "off")], repetition, *off)]
        });
        runs.collect()
    }

    #[track_caller]
    fn comparison(on: &[f64], off: &[f64]) -> Comparison {
        let mut comparisons = compare(&plan(on, off), &CompareOptions::default());
        assert_eq!(comparisons.len(), 1);
        let comparison = comparisons.remove(0);
        assert_eq!(comparison.baseline.label(), "ncq=on");
        assert_eq!(comparison.candidate.label(), "ncq=off");
        comparison
    }

    #[track_caller]
    fn primary(on: &[f64], off: &[f64]) -> Difference {
        let primary = comparison(on, off).differences[0].clone();
        assert_eq!((primary.metric, primary.op), (Metric::Throughput, None));
        primary
    }

    #[test]
    fn three_outcomes() {
        let different = primary(&[100.0, 101.0, 99.0], &[50.0, 50.4, 49.6]);
        assert_eq!(different.verdict, Verdict::Different);
        let equivalent = primary(&[100.0, 101.0, 99.0, 100.0], &[100.1, 101.0, 99.2, 100.0]);
        assert_eq!(equivalent.verdict, Verdict::Equivalent);
        let undecided = primary(&[100.0, 90.0, 110.0], &[105.0, 115.0, 95.0]);
        assert_eq!(undecided.verdict, Verdict::Undecided);
        assert!(undecided.runs_needed.is_some());
    }

    #[test]
    fn values_are_geometric_means() {
        let difference = primary(&[10.0, 40.0], &[20.0, 80.0]);
        assert!((difference.baseline - 20.0).abs() < 1e-12);
        assert!((difference.candidate - 40.0).abs() < 1e-12);
        assert!((difference.ratio - 2.0).abs() < 1e-12);
        assert_eq!((difference.baseline_runs, difference.candidate_runs), (2, 2));
    }

    #[test]
    fn two_pairs_never_decide() {
        let difference = primary(&[100.0, 100.0], &[10.0, 10.1]);
        assert_eq!(difference.verdict, Verdict::Undecided);
        // Nothing to draw from, either.
        assert_eq!((difference.evidence, difference.interval), (Evidence::None, None));
    }

    #[test]
    fn a_run_without_partner_is_not_compared() {
        let mut runs = plan(&[100.0, 101.0, 99.0], &[100.0, 100.9, 99.2]);
        runs.push(run(&[("ncq", "off")], 3, 1.0));
        let comparison = compare(&runs, &CompareOptions::default()).remove(0);
        let difference = &comparison.differences[0];
        assert_eq!((difference.baseline_runs, difference.candidate_runs), (3, 3));
        assert_eq!(difference.verdict, Verdict::Equivalent);
        let note = "runs without a partner of the same repetition are not compared";
        assert!(comparison.notes.iter().any(|one| one == note));
    }

    #[test]
    fn a_dataset_against_itself_shows_no_difference() {
        let values = [100.0, 93.0, 107.0];
        for difference in comparison(&values, &values).differences {
            assert_eq!(difference.ratio.to_bits(), 1.0_f64.to_bits());
            assert_ne!(difference.verdict, Verdict::Different);
        }
    }

    #[test]
    fn copies_of_a_run_are_no_repetitions() {
        let comparison = comparison(&[100.0; 3], &[50.0; 3]);
        assert_eq!(comparison.differences[0].verdict, Verdict::Undecided);
        assert!(comparison.notes[0].starts_with("all 3 pairs of runs give the same ratio"));
    }

    #[test]
    fn an_op_that_is_all_there_is_is_not_told_twice() {
        let told: Vec<_> = comparison(&[1.0; 3], &[2.0; 3])
            .differences
            .iter()
            .map(|difference| (difference.op, difference.metric))
            .collect();
        assert_eq!(told, [(None, Metric::Throughput), (None, Metric::Iops)]);
    }

    #[test]
    fn each_factor_is_compared_within_the_others() {
        // Interleaved, so that no configuration but the first is a baseline by its place alone.
        let plan = [("on", "none"), ("off", "none"), ("off", "bfq"), ("on", "bfq"), ("x", "bfq")];
        let runs: Vec<_> = plan
            .iter()
            .map(|(ncq, scheduler)| run(&[("ncq", ncq), ("scheduler", scheduler)], 0, 1.0))
            .collect();
        let labels: Vec<_> = compare(&runs, &CompareOptions::default())
            .iter()
            .map(|one| {
                let (baseline, candidate) = (one.baseline.label(), one.candidate.label());
                format!("{}: {baseline} | {candidate}", one.factor)
            })
            .collect();
        let expected = [
            "ncq: ncq=on scheduler=none | ncq=off scheduler=none",
            "ncq: ncq=on scheduler=bfq | ncq=off scheduler=bfq",
            "ncq: ncq=on scheduler=bfq | ncq=x scheduler=bfq",
            "scheduler: ncq=on scheduler=none | ncq=on scheduler=bfq",
            "scheduler: ncq=off scheduler=none | ncq=off scheduler=bfq",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn nothing_varies_nothing_is_compared() {
        assert_eq!(compare(&[], &CompareOptions::default()), []);
        assert_eq!(compare(&[run(&[], 0, 1.0), run(&[], 1, 2.0)], &CompareOptions::default()), []);
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(
            on in prop::collection::vec(1.0..1e9_f64, 4),
            off in prop::collection::vec(1.0..1e9_f64, 4),
        ) {
            let (there, back) = (primary(&on, &off), primary(&off, &on));
            prop_assert!((there.ratio.ln() + back.ratio.ln()).abs() < 1e-9);
            let (a, b) = (there.interval.unwrap(), back.interval.unwrap());
            prop_assert!((a.low.ln() + b.high.ln()).abs() < 1e-9);
            prop_assert!((a.high.ln() + b.low.ln()).abs() < 1e-9);
            prop_assert_eq!((there.verdict, there.runs_needed), (back.verdict, back.runs_needed));
        }
    }
}
