//! One device: what each of its events adds.

use iotrace_model::{BttStage, DeviceId, Nanos};

use super::table::Table;
use super::times::Times;

/// The majors that btt takes for remapping devices: md, dm and whatever else has 253 or 254.
const REMAPPERS: [u32; 3] = [9, 253, 254];

/// What an event does to a bio or request, by btt's letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Q.
    Queue,
    /// A.
    Remap,
    /// S.
    Sleep,
    /// G.
    Get,
    /// I.
    Insert,
    /// M and F, of a bio or of a request.
    Merge,
    /// D.
    Issue,
    /// R.
    Requeue,
    /// C.
    Complete,
}

/// What was gathered of one device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) is_remapper: bool,
    /// Whether its first Q or A was seen; what comes before is ignored.
    pub(super) is_awake: bool,
    /// Time of its first event, ignored ones included.
    pub(super) first: Nanos,
    /// Time of its last event that is not a plug or an unplug.
    pub(super) last: Nanos,
    /// Every stage but Q2Q.
    pub(super) times: Times,
    pub(super) table: Table,
    /// Q and R.
    pub(super) queued: u64,
    pub(super) issued: u64,
    /// Queued, and neither merged nor issued since.
    waiting: u64,
    /// Sum of `waiting` as each Q and R found it.
    pub(super) waiting_sum: u128,
    pub(super) blocks: Blocks,
    pub(super) queue_seeks: Seeks,
    pub(super) issue_seeks: Seeks,
    pub(super) plug: Plug,
}

/// Sizes of completions, in sectors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    /// 0 without a completion.
    pub(super) smallest: u64,
    pub(super) largest: u64,
    pub(super) total: u64,
}

/// Distances between I/Os that follow each other, the first measured from sector 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seeks {
    last: (u64, u64),
    pub(super) count: u64,
    pub(super) sum: u128,
}

/// Plugged stretches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plug {
    since: Option<Nanos>,
    pub(super) plugs: u64,
    pub(super) timer_unplugs: u64,
    pub(super) plugged: Nanos,
}

impl Device {
    pub(super) fn new(id: DeviceId, time: Nanos) -> Self {
        Self {
            is_remapper: REMAPPERS.contains(&id.major),
            is_awake: false,
            first: time,
            last: time,
            times: Times::default(),
            table: Table::default(),
            queued: 0,
            issued: 0,
            waiting: 0,
            waiting_sum: 0,
            blocks: Blocks::default(),
            queue_seeks: Seeks::default(),
            issue_seeks: Seeks::default(),
            plug: Plug::default(),
        }
    }

    /// Whether an event counts: from the first Q or A on.
    pub(super) fn wake(&mut self, step: Step) -> bool {
        self.is_awake |= matches!(step, Step::Queue | Step::Remap);
        self.is_awake
    }

    /// Q; whether it replaced an open bio.
    pub(super) fn queue(&mut self, time: Nanos, at: u64, end: u64) -> bool {
        self.queue_seeks.push(at, end);
        self.requeue();
        self.table.open(at, end, time)
    }

    /// R counts like a Q and does nothing else.
    pub(super) fn requeue(&mut self) {
        self.queued += 1;
        self.waiting_sum += u128::from(self.waiting);
        self.waiting += 1;
    }

    /// A of the device below, of the bio here that starts at `at`.
    pub(super) fn remapped(&mut self, time: Nanos, at: u64) {
        let stage = if self.is_remapper { BttStage::Q2Adm } else { BttStage::Q2A };
        if let Some(bio) = self.table.at(at) {
            self.times.add(stage, bio.queued, time);
        }
    }

    /// S.
    pub(super) fn sleep(&mut self, time: Nanos, at: u64) {
        if let Some(bio) = self.table.at(at) {
            bio.slept = Some(time);
        }
    }

    /// G.
    pub(super) fn get(&mut self, time: Nanos, at: u64) {
        if let Some(bio) = self.table.at(at) {
            self.times.add(BttStage::Q2G, bio.queued, time);
            if let Some(slept) = bio.slept {
                self.times.add(BttStage::S2G, slept, time);
            }
            bio.got = Some(time);
        }
    }

    /// I.
    pub(super) fn insert(&mut self, time: Nanos, at: u64) {
        if let Some(bio) = self.table.at(at) {
            if let Some(got) = bio.got {
                self.times.add(BttStage::G2I, got, time);
            }
            bio.inserted = Some(time);
        }
    }

    /// M and F, of a bio or of a request.
    pub(super) fn merge(&mut self, time: Nanos, at: u64) {
        self.waiting = self.waiting.saturating_sub(1);
        if let Some(bio) = self.table.at(at) {
            self.times.add(BttStage::Q2M, bio.queued, time);
            bio.merged = Some(time);
        }
    }

    /// D; false when it covers too many bios.
    pub(super) fn issue(&mut self, time: Nanos, at: u64, end: u64, limit: usize) -> bool {
        self.waiting = self.waiting.saturating_sub(1);
        self.issued += 1;
        self.issue_seeks.push(at, end);
        let times = &mut self.times;
        self.table.inside(at, end, limit, |bio| {
            if let Some(inserted) = bio.inserted {
                times.add(BttStage::I2D, inserted, time);
            } else if let Some(merged) = bio.merged {
                times.add(BttStage::M2D, merged, time);
            }
            bio.issued = Some(time);
        })
    }

    /// C, whole or in part; false when it covers too many bios.
    pub(super) fn complete(&mut self, time: Nanos, at: u64, end: u64, limit: usize) -> bool {
        self.blocks.push(end - at);
        let times = &mut self.times;
        let total = if self.is_remapper { BttStage::Q2Cdm } else { BttStage::Q2C };
        self.table.take_inside(at, end, limit, |bio| {
            times.add(total, bio.queued, time);
            if let Some(issued) = bio.issued {
                times.add(BttStage::D2C, issued, time);
            }
        })
    }
}

impl Blocks {
    fn push(&mut self, blocks: u64) {
        // A completion of 0 bytes has no part, so that 0 stands for none.
        self.smallest = if self.smallest == 0 { blocks } else { self.smallest.min(blocks) };
        self.largest = self.largest.max(blocks);
        self.total = self.total.saturating_add(blocks);
    }
}

impl Seeks {
    /// 0 if the I/O touches or overlaps the last one; else from that one's end to a later start,
    /// or from its start to an earlier one.
    fn push(&mut self, start: u64, end: u64) {
        let (last_start, last_end) = self.last;
        let touched = last_start..=last_end;
        let distance = if touched.contains(&start) || touched.contains(&end) {
            0
        } else if start > last_end {
            start - last_end
        } else {
            last_start - start
        };
        self.count += 1;
        self.sum += u128::from(distance);
        self.last = (start, end);
    }
}

impl Plug {
    pub(super) fn begin(&mut self, time: Nanos) {
        self.since = self.since.or(Some(time));
    }

    pub(super) fn end(&mut self, time: Nanos) {
        if let Some(since) = self.since.take() {
            self.plugs += 1;
            self.add(since, time);
        }
    }

    pub(super) fn end_by_timer(&mut self, time: Nanos) {
        if let Some(since) = self.since.take() {
            self.timer_unplugs += 1;
            self.add(since, time);
        }
    }

    /// Whether a plug has no end and began after `time`.
    pub(super) fn is_open_since(&self, time: Nanos) -> bool {
        self.since.is_some_and(|since| since > time)
    }

    fn add(&mut self, since: Nanos, time: Nanos) {
        let more = (time - since).0.max(0);
        self.plugged = Nanos(self.plugged.0.saturating_add(more));
    }
}
