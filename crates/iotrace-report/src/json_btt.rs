//! btt's figures of a run in `iotrace/report/1`.

use iotrace_model as model;
use serde::Serialize;

use crate::json::finite;

/// The figures of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Btt {
    stages: Vec<Time>,
    devices: Vec<DeviceFigures>,
    overhead_percent: Option<Overhead>,
    merges: Option<Merges>,
    notes: Vec<String>,
}

impl From<&model::BttSummary> for Btt {
    fn from(from: &model::BttSummary) -> Self {
        Self {
            stages: from.stages.iter().map(Time::from).collect(),
            devices: from.devices.iter().map(DeviceFigures::from).collect(),
            overhead_percent: from.overhead.map(Overhead::from),
            merges: from.merges.map(Merges::from),
            notes: from.notes.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Time {
    stage: &'static str,
    count: u64,
    min_ns: i64,
    mean_ns: Option<f64>,
    max_ns: i64,
    total_ns: i64,
}

impl From<&model::BttTime> for Time {
    #[expect(clippy::cast_precision_loss, reason = "a mean of 53 bits is precise enough")]
    fn from(from: &model::BttTime) -> Self {
        Self {
            stage: from.stage.name(),
            count: from.count,
            min_ns: from.min.0,
            mean_ns: finite(from.total.0 as f64 / from.count as f64),
            max_ns: from.max.0,
            total_ns: from.total.0,
        }
    }
}

#[derive(Debug, Serialize)]
struct DeviceFigures {
    device: String,
    overhead_percent: Option<Overhead>,
    merges: Option<Merges>,
    q2q_seeks: Option<Seeks>,
    d2d_seeks: Option<Seeks>,
    plugs: Option<Plugging>,
    requests_at_queue: Option<f64>,
}

impl From<&model::BttDevice> for DeviceFigures {
    fn from(from: &model::BttDevice) -> Self {
        Self {
            device: from.device.to_string(),
            overhead_percent: from.overhead.map(Overhead::from),
            merges: from.merges.map(Merges::from),
            q2q_seeks: from.queue_seeks.map(Seeks::from),
            d2d_seeks: from.issue_seeks.map(Seeks::from),
            plugs: from.plugs.map(Plugging::from),
            requests_at_queue: from.requests_at_queue.and_then(finite),
        }
    }
}

#[derive(Debug, Serialize)]
struct Overhead {
    q2g: Option<f64>,
    g2i: Option<f64>,
    q2m: Option<f64>,
    i2d: Option<f64>,
    d2c: Option<f64>,
}

impl From<model::BttOverhead> for Overhead {
    fn from(from: model::BttOverhead) -> Self {
        Self {
            q2g: finite(from.q2g),
            g2i: finite(from.g2i),
            q2m: finite(from.q2m),
            i2d: finite(from.i2d),
            d2c: finite(from.d2c),
        }
    }
}

#[derive(Debug, Serialize)]
struct Merges {
    queued: u64,
    issued: u64,
    ratio: Option<f64>,
    smallest_sectors: u64,
    mean_sectors: u64,
    largest_sectors: u64,
    total_sectors: u64,
}

impl From<model::BttMerges> for Merges {
    fn from(from: model::BttMerges) -> Self {
        Self {
            queued: from.queued,
            issued: from.issued,
            ratio: finite(from.ratio),
            smallest_sectors: from.smallest,
            mean_sectors: from.mean,
            largest_sectors: from.largest,
            total_sectors: from.total,
        }
    }
}

#[derive(Debug, Serialize)]
struct Seeks {
    count: u64,
    mean_sectors: Option<f64>,
}

impl From<model::BttSeeks> for Seeks {
    fn from(from: model::BttSeeks) -> Self {
        Self { count: from.count, mean_sectors: finite(from.mean) }
    }
}

#[derive(Debug, Serialize)]
struct Plugging {
    plugs: u64,
    timer_unplugs: u64,
    percent_plugged: Option<f64>,
}

impl From<model::BttPlugs> for Plugging {
    fn from(from: model::BttPlugs) -> Self {
        Self {
            plugs: from.plugs,
            timer_unplugs: from.timer_unplugs,
            percent_plugged: finite(from.percent_plugged),
        }
    }
}
