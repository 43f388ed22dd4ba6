//! From what was gathered to the figures that are shown.

use iotrace_model::{BttDevice, BttMerges, BttOverhead, BttPlugs, BttSeeks, BttStage, DeviceId};

use super::device::{Blocks, Device, Seeks};
use super::times::Times;

/// Every figure of a device.
pub(super) fn of(id: DeviceId, device: &Device) -> BttDevice {
    let overhead = if device.is_remapper { None } else { overhead(&device.times) };
    let merges = (device.queued > 0 && device.issued > 0)
        .then(|| merges(device.queued, device.issued, device.blocks));
    // btt raises #Q to #D before it divides.
    let queued = if merges.is_some() { device.queued.max(device.issued) } else { device.queued };
    BttDevice {
        device: id,
        overhead,
        merges,
        queue_seeks: seeks(&device.queue_seeks),
        issue_seeks: seeks(&device.issue_seeks),
        plugs: plugs(device),
        requests_at_queue: (!device.is_remapper && queued > 0)
            .then(|| float(device.waiting_sum) / float(queued.into())),
    }
}

/// Whether a device has any figure.
pub(super) fn has_any(device: &BttDevice) -> bool {
    device.overhead.is_some()
        || device.merges.is_some()
        || device.queue_seeks.is_some()
        || device.issue_seeks.is_some()
        || device.plugs.is_some()
        || device.requests_at_queue.is_some()
}

/// Shares of the total latency; `None` without one.
pub(super) fn overhead(times: &Times) -> Option<BttOverhead> {
    let total = times.of(BttStage::Q2C);
    let percent = |stage| float(times.of(stage).sum) * 100.0 / float(total.sum);
    (total.count > 0).then(|| BttOverhead {
        q2g: percent(BttStage::Q2G),
        g2i: percent(BttStage::G2I),
        q2m: percent(BttStage::Q2M),
        i2d: percent(BttStage::I2D),
        d2c: percent(BttStage::D2C),
    })
}

/// Queue events against issues, of which there is at least one.
pub(super) fn merges(queued: u64, issued: u64, blocks: Blocks) -> BttMerges {
    let queued = queued.max(issued);
    BttMerges {
        queued,
        issued,
        ratio: float(queued.into()) / float(issued.into()),
        smallest: blocks.smallest,
        mean: blocks.total / issued.max(1),
        largest: blocks.largest,
        total: blocks.total,
    }
}

fn seeks(seeks: &Seeks) -> Option<BttSeeks> {
    (seeks.count > 0).then(|| BttSeeks {
        count: seeks.count,
        mean: float(seeks.sum) / float(seeks.count.into()),
    })
}

/// A device still plugged at the end counts as unplugged at its last event. One whose first Q
/// or A never came has no last event; btt takes time 0 for it.
fn plugs(device: &Device) -> Option<BttPlugs> {
    if !device.is_awake {
        return None;
    }
    let mut plug = device.plug;
    plug.end(device.last);
    let span = (device.last - device.first).0.max(1);
    (plug.plugs > 0 || plug.timer_unplugs > 0).then(|| BttPlugs {
        plugs: plug.plugs,
        timer_unplugs: plug.timer_unplugs,
        percent_plugged: float(plug.plugged.0.unsigned_abs().into()) * 100.0
            / float(span.unsigned_abs().into()),
    })
}

#[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
fn float(count: u128) -> f64 {
    count as f64
}
