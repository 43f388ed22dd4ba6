//! The figures of btt, as it prints them for a blktrace capture.
//!
//! Names and order are btt's, so that a reader who knows it can compare line by line. Times and
//! counts stay whole; only what btt itself prints as a fraction is a float.

use crate::{DeviceId, Nanos};

/// What btt says of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BttSummary {
    /// "All Devices": the stages that have samples, in the order of `BttStage::ALL`.
    pub stages: Vec<BttTime>,
    /// One for each device that has any figure, ordered by number.
    pub devices: Vec<BttDevice>,
    /// "Device Overhead" of all devices that have one; `None` when none has.
    pub overhead: Option<BttOverhead>,
    /// "Device Merge Information" of all devices; `None` unless at least two have it.
    pub merges: Option<BttMerges>,
    /// How these figures differ from btt's and what btt is silent about, one sentence each.
    pub notes: Vec<String>,
}

/// A stretch between two events, by btt's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BttStage {
    /// Queue to the next queue on any device, where the later one is on a remapping device.
    Q2Qdm,
    /// Queue on a remapping device to the remap.
    Q2Adm,
    /// Queue to completion of a remapping device.
    Q2Cdm,
    /// Queue to the next queue on any device.
    Q2Q,
    /// Queue to the remap.
    Q2A,
    /// Queue to the allocation of a request.
    Q2G,
    /// Waiting for a free request.
    S2G,
    /// Allocation to insert.
    G2I,
    /// Queue to merge.
    Q2M,
    /// Insert to issue.
    I2D,
    /// Merge to issue.
    M2D,
    /// Last issue to completion.
    D2C,
    /// Queue to completion.
    Q2C,
}

impl BttStage {
    /// Every stage in the order in which btt prints them.
    pub const ALL: [BttStage; 13] = [
        BttStage::Q2Qdm,
        BttStage::Q2Adm,
        BttStage::Q2Cdm,
        BttStage::Q2Q,
        BttStage::Q2A,
        BttStage::Q2G,
        BttStage::S2G,
        BttStage::G2I,
        BttStage::Q2M,
        BttStage::I2D,
        BttStage::M2D,
        BttStage::D2C,
        BttStage::Q2C,
    ];

    /// btt's name.
    pub const fn name(self) -> &'static str {
        match self {
            BttStage::Q2Qdm => "Q2Qdm",
            BttStage::Q2Adm => "Q2Adm",
            BttStage::Q2Cdm => "Q2Cdm",
            BttStage::Q2Q => "Q2Q",
            BttStage::Q2A => "Q2A",
            BttStage::Q2G => "Q2G",
            BttStage::S2G => "S2G",
            BttStage::G2I => "G2I",
            BttStage::Q2M => "Q2M",
            BttStage::I2D => "I2D",
            BttStage::M2D => "M2D",
            BttStage::D2C => "D2C",
            BttStage::Q2C => "Q2C",
        }
    }
}

/// One line of "All Devices": samples are bios, not requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BttTime {
    /// The stage.
    pub stage: BttStage,
    /// Samples, at least 1.
    pub count: u64,
    /// Shortest, at least 1 ns: btt takes a time that is not positive for 1 ns.
    pub min: Nanos,
    /// Longest.
    pub max: Nanos,
    /// Sum of all samples; saturates.
    pub total: Nanos,
}

/// One device; a part is `None` where btt prints no row for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BttDevice {
    /// The device.
    pub device: DeviceId,
    /// "Device Overhead": needs a completed bio on a device that does not remap.
    pub overhead: Option<BttOverhead>,
    /// "Device Merge Information": needs an issue.
    pub merges: Option<BttMerges>,
    /// "Device Q2Q Seek Information": needs a queue.
    pub queue_seeks: Option<BttSeeks>,
    /// "Device D2D Seek Information": needs an issue.
    pub issue_seeks: Option<BttSeeks>,
    /// "Plug Information": needs an unplug.
    pub plugs: Option<BttPlugs>,
    /// "Avg Reqs @ Q": mean of the bios queued, not merged and not issued at each queue event.
    /// `None` on a remapping device.
    pub requests_at_queue: Option<f64>,
}

/// Shares of the summed Q2C in percent; they need not add up to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BttOverhead {
    /// Of Q2G.
    pub q2g: f64,
    /// Of G2I.
    pub g2i: f64,
    /// Of Q2M.
    pub q2m: f64,
    /// Of I2D.
    pub i2d: f64,
    /// Of D2C.
    pub d2c: f64,
}

/// Queue events against issues, and the sizes of completions in sectors (btt's blocks).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BttMerges {
    /// `#Q`: queue and requeue events; at least `issued`, as in btt.
    pub queued: u64,
    /// `#D`: issue events.
    pub issued: u64,
    /// `#Q` ÷ `#D`.
    pub ratio: f64,
    /// `BLKmin`: sectors of the smallest completion; 0 without one.
    pub smallest: u64,
    /// `BLKavg`: total ÷ `#D`, rounded down.
    pub mean: u64,
    /// `BLKmax`: sectors of the largest completion.
    pub largest: u64,
    /// Sectors of all completions; saturates.
    pub total: u64,
}

/// Distances from the end of an I/O to the start of the next, in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BttSeeks {
    /// `NSEEKS`: I/Os, each with its distance from the one before or from sector 0.
    pub count: u64,
    /// `MEAN` of the absolute distances.
    pub mean: f64,
}

/// Plugging of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BttPlugs {
    /// `# Plugs`: ended by an unplug, or by the end of the trace.
    pub plugs: u64,
    /// `# Timer Us`: ended because the task slept.
    pub timer_unplugs: u64,
    /// `% Time Q Plugged`: of the time from the device's first event to its last.
    pub percent_plugged: f64,
}
