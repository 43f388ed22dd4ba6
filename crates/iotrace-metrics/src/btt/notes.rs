//! What is left out of btt's figures, and where they differ from btt's: one sentence each.

use std::collections::BTreeMap;

use iotrace_model::{DeviceId, Event, Op};

use super::device::{Device, Step};
use super::table::count;

/// Events that had no part in the figures, and bios with an odd end.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Events of 0 bytes: flushes.
    without_bytes: u64,
    /// Events without a sector: passthrough.
    without_sector: u64,
    /// Events of a device before its first Q or A.
    pub(super) before_first_queue: u64,
    /// Events that name no device.
    pub(super) without_device: u64,
    /// Events of devices beyond the limit.
    pub(super) beyond_devices: u64,
    /// Bios split.
    pub(super) splits: u64,
    /// Open bios replaced by a later one.
    pub(super) replaced: u64,
    /// Open bios forgotten to bound memory.
    pub(super) forgotten: u64,
    /// Issues and completions that covered too many open bios.
    pub(super) cut_short: u64,
    /// Events tagged with a cgroup.
    tagged: u64,
}

/// What holds for every trace.
const ALWAYS: [&str; 2] = [
    "These are the rules of the btt of blktrace 1.3: an event belongs to the open bio that starts \
     at its sector. The btt of blktrace 1.2 also takes a bio that merely holds the sector, which \
     gives it more Q2A, Q2G and G2I where bios are split or cross a boundary of a dm device.",
    "Left out because btt's own are wrong: MEDIAN of seeks (a node of its search tree), active \
     periods (measured from time 0; an average of 0 when there is one) and the iostat rows. Left \
     out because events do not keep them or their order is arbitrary: IOs/Unp and MODE of seeks.",
];

impl Counts {
    /// Whether an event takes part; counts it if not. A always does, R unless it is passthrough,
    /// every other one if it has a sector and a size.
    pub(super) fn admits(&mut self, event: &Event, step: Step) -> bool {
        let (needs_sector, needs_size) = match step {
            Step::Remap => (false, false),
            Step::Requeue => (event.op == Op::Other, false),
            Step::Queue
            | Step::Sleep
            | Step::Get
            | Step::Insert
            | Step::Merge
            | Step::Issue
            | Step::Complete => (true, true),
        };
        if needs_size && event.length_bytes == 0 {
            self.without_bytes += 1;
            return false;
        }
        if needs_sector && event.sector.is_none() {
            self.without_sector += 1;
            return false;
        }
        self.tagged += u64::from(event.cgroup.is_some());
        true
    }
}

/// The sentences for a trace.
pub(super) fn sentences(counts: &Counts, devices: &BTreeMap<DeviceId, Device>) -> Vec<String> {
    let mut notes: Vec<String> = ALWAYS.map(str::to_owned).into();
    let open: u64 = devices.values().map(|device| count(device.table.len())).sum();
    let by_count = [
        (
            counts.splits,
            "Splits",
            "a bio larger than one request gets neither I2D nor D2C, and Q2C only if one \
             completion covers it",
        ),
        (open, "Bios open at the end", "they have no Q2C, and btt does not tell"),
        (
            counts.replaced,
            "Bios open when another came to the same sector",
            "they have no Q2C, and btt does not tell",
        ),
        (counts.without_bytes, "Events of 0 bytes, such as flushes", "left out, as by btt"),
        (
            counts.without_sector,
            "Events without a sector, such as passthrough",
            "left out, as by btt",
        ),
        (
            counts.before_first_queue,
            "Events before the first Q or A of their device",
            "left out, as by btt",
        ),
        (counts.tagged, "Events tagged with a cgroup", "they count here, and btt ignores them"),
        (
            counts.without_device,
            "Events that name no device, such as plugs outside blktrace",
            "left out, so that plug information is not complete",
        ),
        (
            counts.forgotten,
            "Open bios forgotten to bound memory",
            "they have no Q2C; btt keeps them at any cost",
        ),
        (
            counts.cut_short,
            "Issues and completions over more open bios than are looked at",
            "some of these bios lack I2D, D2C or Q2C",
        ),
        (counts.beyond_devices, "Events of devices beyond the first 4096", "left out"),
    ];
    for (count, what, means) in by_count {
        if count > 0 {
            notes.push(format!("{what}: {count}; {means}."));
        }
    }
    for (id, device) in devices {
        if device.plug.is_open_since(device.last) {
            notes.push(format!(
                "{id} was plugged after its last event, which adds nothing to its share of time \
                 plugged; btt subtracts it."
            ));
        }
        if device.is_remapper && device.issued > 0 {
            notes.push(format!(
                "{id} issues requests, yet btt takes its major for that of a remapping device \
                 (dm, md): its times are under Q2Qdm and Q2Cdm, and it has no overhead."
            ));
        }
    }
    notes
}
