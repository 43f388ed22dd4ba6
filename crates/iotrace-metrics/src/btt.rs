//! btt's figures by btt's own rules, so that a reader who knows btt can check the others.
//!
//! The rules are those of btt 2.09 as blktrace 1.3 ships it. Its unit is the bio, not the
//! request: every queue event opens one in a table by start sector, later events find it there
//! by their sector or by the range that they cover, and a completion that covers it closes it.
//! Flushes, passthrough and split I/O therefore hardly appear; `notes` says what is missing.
//!
//! ```text
//!   push ─► is the event one of btt's? ─► Device ─► Table (open bios)
//!                                           ├─► Times    stages, merged at the end
//!                                           └─► Seeks, Blocks, Plug
//! ```
//!
//! Where btt is wrong nothing is imitated: its median and mode of seeks, its active periods and
//! its iostat rows are left out.

mod device;
mod figures;
mod notes;
mod table;
mod times;

use std::collections::BTreeMap;

use iotrace_model::{
    Action, BttMerges, BttOverhead, BttStage, BttSummary, DeviceId, Event, Nanos, SECTOR_BYTES,
};

use device::{Blocks, Device, Plug, Step};
use notes::Counts;
use table::Limits;
use times::Times;

/// Gathers btt's figures in one pass over events in the order of time.
///
/// Memory is bounded whatever the trace holds: at most about half a million bios are open at once
/// (100 MiB), beyond that the older half is forgotten; at most 4096 devices are followed. A note
/// counts what was left out.
#[derive(Debug)]
pub struct Btt {
    devices: BTreeMap<DeviceId, Device>,
    /// Q2Q over all devices, by kind of the later one; all other stages are kept by device.
    gaps: Times,
    last_queue: Option<Nanos>,
    limits: Limits,
    /// Bios in the tables of all devices.
    open: usize,
    counts: Counts,
}

impl Default for Btt {
    fn default() -> Self {
        Self::new()
    }
}

impl Btt {
    /// Nothing gathered yet.
    pub fn new() -> Self {
        Self::with_limits(Limits::DEFAULT)
    }

    fn with_limits(limits: Limits) -> Self {
        Self {
            devices: BTreeMap::new(),
            gaps: Times::default(),
            last_queue: None,
            limits,
            open: 0,
            counts: Counts::default(),
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        match event.action {
            Action::Queue => self.step(event, Step::Queue),
            Action::Get => self.step(event, Step::Get),
            Action::Insert => self.step(event, Step::Insert),
            Action::Issue => self.step(event, Step::Issue),
            Action::Complete | Action::BioComplete => self.step(event, Step::Complete),
            Action::Requeue => self.step(event, Step::Requeue),
            Action::BackMerge | Action::FrontMerge | Action::RequestMerge => {
                self.step(event, Step::Merge);
            }
            Action::Remap | Action::RequestRemap => self.step(event, Step::Remap),
            Action::Sleep => self.step(event, Step::Sleep),
            Action::Plug => self.plug(event, Plug::begin),
            Action::Unplug => self.plug(event, Plug::end),
            Action::UnplugTimer => self.plug(event, Plug::end_by_timer),
            Action::Split => self.counts.splits += 1,
            Action::Bounce
            | Action::Abort
            | Action::Message
            | Action::CommandIssue
            | Action::CommandComplete
            | Action::Unknown(_) => {}
        }
    }

    /// The figures of everything that was pushed.
    pub fn finish(self) -> BttSummary {
        let mut times = self.gaps;
        let mut overhead = Overhead::default();
        let mut merges = Vec::new();
        let mut devices = Vec::new();
        for (id, device) in &self.devices {
            times.merge(&device.times);
            overhead.add(device);
            let figures = figures::of(*id, device);
            merges.extend(figures.merges);
            devices.extend(figures::has_any(&figures).then_some(figures));
        }
        let notes = notes::sentences(&self.counts, &self.devices);
        BttSummary {
            stages: times.lines(),
            devices,
            overhead: overhead.shares(),
            merges: (merges.len() > 1).then(|| together(&merges)),
            notes,
        }
    }

    /// P, U and UT neither make a device known nor lengthen its time.
    fn plug(&mut self, event: &Event, change: fn(&mut Plug, Nanos)) {
        match event.device.map(|id| self.devices.get_mut(&id)) {
            Some(Some(device)) => change(&mut device.plug, event.time),
            Some(None) => {}
            None => self.counts.without_device += 1,
        }
    }

    fn step(&mut self, event: &Event, step: Step) {
        let Some(id) = event.device else {
            self.counts.without_device += 1;
            return;
        };
        if !self.counts.admits(event, step) {
            return;
        }
        let known = self.devices.len();
        let device = match self.devices.get_mut(&id) {
            Some(device) => device,
            None if known < self.limits.devices => {
                self.devices.entry(id).or_insert_with(|| Device::new(id, event.time))
            }
            None => {
                self.counts.beyond_devices += 1;
                return;
            }
        };
        if !device.wake(step) {
            self.counts.before_first_queue += 1;
            return;
        }
        device.last = event.time;
        let at = event.sector.map_or(0, |sector| sector.0);
        let end = at.saturating_add(event.length_bytes / SECTOR_BYTES);
        match step {
            Step::Queue => {
                if let Some(last) = self.last_queue.replace(event.time) {
                    let stage = if device.is_remapper { BttStage::Q2Qdm } else { BttStage::Q2Q };
                    self.gaps.add(stage, last, event.time);
                }
                if device.queue(event.time, at, end) {
                    self.counts.replaced += 1;
                } else {
                    self.open += 1;
                    self.make_room();
                }
            }
            Step::Remap => self.remap(event),
            Step::Sleep => device.sleep(event.time, at),
            Step::Get => device.get(event.time, at),
            Step::Insert => device.insert(event.time, at),
            Step::Merge => device.merge(event.time, at),
            Step::Issue => {
                let whole = device.issue(event.time, at, end, self.limits.covered);
                self.counts.cut_short += u64::from(!whole);
            }
            Step::Requeue => device.requeue(),
            Step::Complete => {
                let before = device.table.len();
                let whole = device.complete(event.time, at, end, self.limits.covered);
                self.counts.cut_short += u64::from(!whole);
                self.open -= before - device.table.len();
            }
        }
    }

    /// A is logged by the device below and names the bio of the device above.
    fn remap(&mut self, event: &Event) {
        if let Some(from) = event.remap
            && let Some(above) = self.devices.get_mut(&from.device)
        {
            above.remapped(event.time, from.sector.0);
        }
    }

    /// Forgets the older half of the open bios once there are too many.
    fn make_room(&mut self) {
        if self.open <= self.limits.open {
            return;
        }
        let mut times: Vec<Nanos> =
            self.devices.values().flat_map(|device| device.table.queue_times()).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        for device in self.devices.values_mut() {
            let forgotten = device.table.forget_until(median);
            self.open -= forgotten;
            self.counts.forgotten += table::count(forgotten);
        }
    }
}

/// Sums for the overhead of all devices that have one.
#[derive(Debug, Default)]
struct Overhead {
    times: Times,
}

impl Overhead {
    fn add(&mut self, device: &Device) {
        if !device.is_remapper && device.times.of(BttStage::Q2C).count > 0 {
            self.times.merge(&device.times);
        }
    }

    /// None, as in btt, when no stage has a share.
    fn shares(&self) -> Option<BttOverhead> {
        figures::overhead(&self.times).filter(|shares| *shares != BttOverhead::default())
    }
}

fn together(all: &[BttMerges]) -> BttMerges {
    let sum = |part: fn(&BttMerges) -> u64| all.iter().map(part).fold(0, u64::saturating_add);
    let blocks = Blocks {
        smallest: all.iter().map(|one| one.smallest).min().unwrap_or(0),
        largest: all.iter().map(|one| one.largest).max().unwrap_or(0),
        total: sum(|one| one.total),
    };
    figures::merges(sum(|one| one.queued), sum(|one| one.issued), blocks)
}

#[cfg(test)]
mod tests;
