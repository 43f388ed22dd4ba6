//! The numbers of runs, as metrics computes and reports print them.
//!
//! Floats appear here because these are statistics; everything counted or timed stays whole.
//! `None` always means "not seen" or "too few to say", never zero.

use crate::{BttSummary, Comparison, DeviceId, Ledger, Nanos, Op, Status};

/// Everything `iotrace analyze` knows of one dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The runs in the order of the plan, warm-up runs left out.
    pub runs: Vec<RunSummary>,
    /// Baseline against candidate, for each factor of the plan with two values.
    pub comparisons: Vec<Comparison>,
}

/// The settings that vary in a plan, such as `ncq=on`, in the plan's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Configuration {
    /// Key and value as in the folder names.
    pub settings: Vec<(String, String)>,
}

impl Configuration {
    /// `ncq=on scheduler=none`, or `default` when nothing varies.
    pub fn label(&self) -> String {
        if self.settings.is_empty() {
            return "default".to_owned();
        }
        let words: Vec<_> =
            self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        words.join(" ")
    }
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSummary {
    /// Its configuration.
    pub configuration: Configuration,
    /// Its repetition, from 0.
    pub repetition: u32,
    /// Its folder, relative to the dataset.
    pub folder: String,
    /// Wall time of the workload.
    pub duration: Nanos,
    /// Exit code of the workload; `None` when it was killed or not run by us.
    pub exit_code: Option<i32>,
    /// One summary for each device that had requests, ordered by number.
    pub devices: Vec<DeviceSummary>,
    /// What was lost or left out while capturing and pairing.
    pub ledger: Ledger,
    /// btt's figures; `None` unless they were asked for.
    pub btt: Option<BttSummary>,
}

/// One device in one run. Rates are over `span`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceSummary {
    /// The device.
    pub device: DeviceId,
    /// Its kernel name, such as `sda`; the number where the name is not known.
    pub name: String,
    /// First queue (or issue) to last completion among the complete requests.
    pub span: Nanos,
    /// Rows with status complete: the only ones behind latencies and rates.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows left out of the statistics, by status, only those that occur.
    pub left_out: Vec<(Status, u64)>,
    /// By operation, only those that occur, ordered as in `Op::ALL`.
    pub ops: Vec<OpSummary>,
    /// Issued and not complete.
    pub in_flight: DepthSummary,
    /// Queued and not complete.
    pub queued: DepthSummary,
    /// Inserted and not issued; `None` when nothing was inserted.
    pub scheduled: Option<DepthSummary>,
    /// Little's law: completions per second × mean D2C ÷ mean in-flight depth; 1 in theory.
    pub little: Option<f64>,
    /// Reordering by the drive.
    pub reordering: Reordering,
    /// Reads against writes; `None` unless both occur.
    pub fairness: Option<Fairness>,
    /// Whether NCQ was configured, used and observed.
    pub ncq: NcqEvidence,
    /// Depth and throughput over time.
    pub series: TimeSeries,
}

/// One operation on one device in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct OpSummary {
    /// The operation.
    pub op: Op,
    /// Complete requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, completed with an error.
    pub errors: u64,
    /// Complete requests per second of the device's span.
    pub iops: f64,
    /// Bytes per second of the device's span.
    pub bytes_per_second: f64,
    /// Bios merged into other requests.
    pub merges: u64,
    /// Times a request was handed back.
    pub requeues: u64,
    /// Latencies by stage, in the order of `Stage::ALL`.
    pub latencies: Vec<(Stage, LatencySummary)>,
}

/// A stretch of a request's life, named as by btt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Queue to insert: queue latency.
    Q2I,
    /// Insert to issue: dispatch latency.
    I2D,
    /// Queue to issue: waiting.
    Q2D,
    /// Issue to completion: completion latency.
    D2C,
    /// Queue to completion: total latency.
    Q2C,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Stage; 5] = [Stage::Q2I, Stage::I2D, Stage::Q2D, Stage::D2C, Stage::Q2C];

    /// The short name, as in btt: `Q2I`.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Q2I => "Q2I",
            Stage::I2D => "I2D",
            Stage::Q2D => "Q2D",
            Stage::D2C => "D2C",
            Stage::Q2C => "Q2C",
        }
    }

    /// The plain words: `queue latency`.
    pub const fn words(self) -> &'static str {
        match self {
            Stage::Q2I => "queue latency",
            Stage::I2D => "dispatch latency",
            Stage::Q2D => "waiting",
            Stage::D2C => "completion latency",
            Stage::Q2C => "total latency",
        }
    }
}

/// The distribution of one latency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencySummary {
    /// Requests that have it.
    pub count: u64,
    /// Arithmetic mean in nanoseconds, exact sum over count; 0 when count is 0.
    pub mean_ns: f64,
    /// Exact smallest.
    pub min: Nanos,
    /// Exact largest.
    pub max: Nanos,
    /// Quantiles, at most 0.1 % above the true ones.
    pub quantiles: Quantiles,
    /// Upper edge of each non-empty logarithmic bucket and its count, ascending; 8 a doubling.
    pub histogram: Vec<(Nanos, u64)>,
}

/// Quantiles of a latency; `None` when fewer than 10/(1 − q) requests stand behind one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<Nanos>,
    /// 90 %.
    pub p90: Option<Nanos>,
    /// 95 %.
    pub p95: Option<Nanos>,
    /// 99 %.
    pub p99: Option<Nanos>,
    /// 99.9 %.
    pub p999: Option<Nanos>,
    /// 99.99 %.
    pub p9999: Option<Nanos>,
}

/// A depth over the device's span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DepthSummary {
    /// Time-weighted mean.
    pub mean: f64,
    /// Largest.
    pub max: u32,
    /// Share of time at each depth from 0 to `max`; sums to 1.
    pub share: Vec<f64>,
}

/// How far the drive completed requests in another order than they were issued in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reordering {
    /// Requests considered: issue and completion both seen.
    pub requests: u64,
    /// Of these, overtaken at least once.
    pub overtaken: u64,
    /// The most overtakes that one request suffered.
    pub most_overtaken: u32,
    /// Requests and overtaken requests by operation.
    pub by_op: Vec<(Op, u64, u64)>,
    /// Share of the span in which more than one request was in flight.
    pub time_above_one: f64,
}

/// Reads against writes, while both have requests outstanding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fairness {
    /// Time in which both had requests outstanding.
    pub shared_time: Nanos,
    /// Share of the reads in the bytes completed in that time.
    pub read_share: f64,
    /// Jain's index of the two throughputs in that time: 0.5 (one gets all) to 1 (equal).
    pub jain: f64,
    /// Median total latency of reads ÷ that of writes.
    pub latency_ratio_p50: Option<f64>,
    /// 99 % total latency of reads ÷ that of writes.
    pub latency_ratio_p99: Option<f64>,
    /// Reads: the longest stretch with one outstanding and none completed.
    pub read_starvation: Starvation,
    /// The same for writes.
    pub write_starvation: Starvation,
}

/// The longest stretch in which a class had a request outstanding and none completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starvation {
    /// When it began.
    pub from: Nanos,
    /// How long it was.
    pub length: Nanos,
    /// Requests of the other class completed meanwhile.
    pub others_completed: u64,
}

/// The three kinds of evidence on NCQ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NcqEvidence {
    /// Whether the device is an ATA disk driven by libata: only there is the knob NCQ.
    pub is_ata: Option<bool>,
    /// Configured: `queue_depth` as read back during the run.
    pub queue_depth: Option<u32>,
    /// Used: read and write commands seen at the driver; `None` without driver events.
    pub commands: Option<u64>,
    /// Used: of these, under an NCQ protocol.
    pub queued_commands: Option<u64>,
    /// Observed: most requests in flight.
    pub max_in_flight: u32,
    /// Observed: requests overtaken.
    pub overtaken: u64,
    /// The verdict.
    pub verdict: NcqVerdict,
    /// What it rests on, in one sentence.
    pub rests_on: String,
}

/// Whether NCQ was at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NcqVerdict {
    /// Commands went out under an NCQ protocol.
    Used,
    /// Configured, but no command used it.
    ConfiguredNotUsed,
    /// Switched off, and nothing speaks against it.
    Off,
    /// No NCQ here: the same knob only limits the depth.
    DepthLimit,
    /// The evidence does not decide.
    #[default]
    Unknown,
}

impl NcqVerdict {
    /// The words in reports.
    pub const fn words(self) -> &'static str {
        match self {
            NcqVerdict::Used => "NCQ was used",
            NcqVerdict::ConfiguredNotUsed => "NCQ is configured but was not used",
            NcqVerdict::Off => "NCQ was off",
            NcqVerdict::DepthLimit => "no NCQ here: the knob only limits the depth",
            NcqVerdict::Unknown => "the evidence does not decide whether NCQ was used",
        }
    }
}

/// Depth and throughput in equal steps of time from the start of the span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeSeries {
    /// Time of the start of the first step, since the start of the run.
    pub start: Nanos,
    /// Length of a step; chosen so that there are at most 240.
    pub step: Nanos,
    /// Time-weighted mean in-flight depth of each step.
    pub in_flight: Vec<f64>,
    /// Time-weighted mean queue depth of each step.
    pub queued: Vec<f64>,
    /// Bytes per second completed in each step, by operation.
    pub bytes_per_second: Vec<(Op, Vec<f64>)>,
}
