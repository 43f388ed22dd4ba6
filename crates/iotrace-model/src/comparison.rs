//! Two configurations of one factor, set side by side.
//!
//! The unit of replication is the run. Every difference is a ratio candidate ÷ baseline;
//! swapping the sides inverts it exactly.

use crate::{Configuration, DeviceId, Op};

/// Baseline against candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The factor that differs, such as `ncq`.
    pub factor: String,
    /// The first side: the first value given.
    pub baseline: Configuration,
    /// The other side.
    pub candidate: Configuration,
    /// The differences, the primary metric first.
    pub differences: Vec<Difference>,
    /// What else differed between the sides and other warnings, one sentence each.
    pub notes: Vec<String>,
}

/// One metric on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Which device.
    pub device: DeviceId,
    /// Which operation; `None` for all together.
    pub op: Option<Op>,
    /// Which metric.
    pub metric: Metric,
    /// Geometric mean over the baseline's runs, in the metric's unit.
    pub baseline: f64,
    /// Geometric mean over the candidate's runs.
    pub candidate: f64,
    /// Runs behind the baseline.
    pub baseline_runs: u32,
    /// Runs behind the candidate.
    pub candidate_runs: u32,
    /// Candidate ÷ baseline.
    pub ratio: f64,
    /// 95 % interval of the ratio; `None` when there is nothing to compute one from.
    pub interval: Option<Interval>,
    /// What the interval rests on.
    pub evidence: Evidence,
    /// Relative margin of equivalence, such as 0.03.
    pub margin: f64,
    /// The outcome.
    pub verdict: Verdict,
    /// About how many more runs a side would decide, when undecided and that can be said.
    pub runs_needed: Option<u32>,
}

/// A 95 % interval of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What an interval rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Paired runs: good for a verdict.
    BetweenRuns {
        /// Pairs of runs.
        pairs: u32,
    },
    /// Moving-block bootstrap inside one run a side: says nothing about other runs.
    WithinRun,
    /// Nothing: fewer than two runs and too few requests.
    None,
}

/// Three outcomes, never two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies outside the margin.
    Different,
    /// The interval lies inside the margin.
    Equivalent,
    /// Neither: no difference shown, no equality shown.
    Undecided,
}

impl Verdict {
    /// The word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Different => "different",
            Verdict::Equivalent => "equivalent",
            Verdict::Undecided => "undecided",
        }
    }
}

/// A metric that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Bytes per second.
    Throughput,
    /// Requests per second.
    Iops,
    /// Median D2C, nanoseconds.
    D2cP50,
    /// 99 % D2C, nanoseconds.
    D2cP99,
    /// Median Q2C, nanoseconds.
    Q2cP50,
    /// 99 % Q2C, nanoseconds.
    Q2cP99,
    /// Mean in-flight depth.
    InFlight,
}

impl Metric {
    /// Every metric; the first is the primary one.
    pub const ALL: [Metric; 7] = [
        Metric::Throughput,
        Metric::Iops,
        Metric::Q2cP50,
        Metric::Q2cP99,
        Metric::D2cP50,
        Metric::D2cP99,
        Metric::InFlight,
    ];

    /// The words in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Iops => "IOPS",
            Metric::D2cP50 => "D2C p50",
            Metric::D2cP99 => "D2C p99",
            Metric::Q2cP50 => "Q2C p50",
            Metric::Q2cP99 => "Q2C p99",
            Metric::InFlight => "in-flight depth",
        }
    }

    /// Default margin of equivalence: 3 % for rates and depth, 5 % for latencies.
    pub const fn margin(self) -> f64 {
        match self {
            Metric::Throughput | Metric::Iops | Metric::InFlight => 0.03,
            Metric::D2cP50 | Metric::D2cP99 | Metric::Q2cP50 | Metric::Q2cP99 => 0.05,
        }
    }
}
