//! One trace event, whatever source it came from.
//!
//! The words are the kernel's (`include/trace/events/block.h`, `include/uapi/linux/blktrace_api.h`).
//! An `Event` is small and `Copy`, so that the hot path never allocates.

use std::fmt;

use crate::{Cpu, DeviceId, Nanos, Sector};

/// What the merged stream of a capture holds, in time order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(Event),
    /// A stretch of one CPU's stream in which events are known to be missing; comes in the
    /// stream at its start (`from`), before any later event.
    Loss(Loss),
}

/// Events known to be missing from one CPU's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The CPU whose stream has the gap.
    pub cpu: Cpu,
    /// Time of the last event before the gap, or of the start of the run.
    pub from: Nanos,
    /// Time of the first event after the gap, or of the end of the run.
    pub to: Nanos,
    /// How many events are missing; 0 if the source cannot tell.
    pub count: u64,
}

/// One trace event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since the start of the run, on `CLOCK_MONOTONIC`.
    pub time: Nanos,
    /// The CPU that logged it.
    pub cpu: Cpu,
    /// Place in the CPU's stream as the source counts it: tracepoints from 0, blktrace from 1.
    pub sequence: u64,
    /// The device; `None` where the event names none (plug, an unmapped ATA port).
    pub device: Option<DeviceId>,
    /// What happened.
    pub action: Action,
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub flags: Flags,
    /// First sector; `None` where the event has none (an empty flush, passthrough).
    pub sector: Option<Sector>,
    /// Bytes of the bio or request; of a completion, the bytes it completes.
    pub length_bytes: u64,
    /// Thread that was running when the event fired (0 is the idle task).
    pub pid: u32,
    /// Its name; empty where the source has none.
    pub comm: Comm,
    /// Negative errno, 0 for success; `None` when not a completion.
    pub error: Option<i32>,
    /// Source of a remap; for a split, the start of the rest on the same device.
    pub remap: Option<Remap>,
    /// Cgroup id (kernfs).
    pub cgroup: Option<u64>,
    /// The kernel's io priority word (class in bits 13–15).
    pub io_priority: Option<u16>,
    /// Tag of a driver command.
    pub tag: Option<u16>,
    /// Protocol of a driver command.
    pub protocol: Option<Protocol>,
}

/// Where a remapped bio came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// The device above.
    pub device: DeviceId,
    /// The sector there.
    pub sector: Sector,
}

/// What happened. `Unknown` keeps the code of a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// A bio enters the block layer (`Q`, `block_bio_queue`).
    Queue,
    /// A request is allocated (`G`, `block_getrq`).
    Get,
    /// The request enters the scheduler (`I`, `block_rq_insert`).
    Insert,
    /// The request goes to the driver (`D`, `block_rq_issue`).
    Issue,
    /// The driver reports it done, whole or in part (`C`, `block_rq_complete`).
    Complete,
    /// A bio-based device reports a bio done (`C`, `block_bio_complete`).
    BioComplete,
    /// The driver hands the request back (`R`, `block_rq_requeue`).
    Requeue,
    /// A bio joins a waiting request at its end (`M`, `block_bio_backmerge`).
    BackMerge,
    /// A bio joins a waiting request at its start (`F`, `block_bio_frontmerge`).
    FrontMerge,
    /// A whole request is absorbed by the one before it (`M`, `block_rq_merge`).
    RequestMerge,
    /// A task starts plugging (`P`).
    Plug,
    /// A task unplugs (`U`).
    Unplug,
    /// A task unplugs because it schedules (`UT`).
    UnplugTimer,
    /// A bio is split (`X`, `block_split`).
    Split,
    /// A bio moves to a lower device (`A`, `block_bio_remap`).
    Remap,
    /// A request moves to a lower device (`A`, `block_rq_remap`).
    RequestRemap,
    /// A bio is bounced (`B`).
    Bounce,
    /// A task waits for a free request (`S`).
    Sleep,
    /// An aborted request.
    Abort,
    /// A message of the kernel or of a user.
    Message,
    /// The driver sends a command to the drive (`ata_qc_issue` and its like).
    CommandIssue,
    /// The drive reports a command done (`ata_qc_complete_done` and its like).
    CommandComplete,
    /// A code this version does not know.
    Unknown(u16),
}

impl Action {
    /// Every named action.
    pub const NAMED: [Action; 22] = [
        Action::Queue,
        Action::Get,
        Action::Insert,
        Action::Issue,
        Action::Complete,
        Action::BioComplete,
        Action::Requeue,
        Action::BackMerge,
        Action::FrontMerge,
        Action::RequestMerge,
        Action::Plug,
        Action::Unplug,
        Action::UnplugTimer,
        Action::Split,
        Action::Remap,
        Action::RequestRemap,
        Action::Bounce,
        Action::Sleep,
        Action::Abort,
        Action::Message,
        Action::CommandIssue,
        Action::CommandComplete,
    ];

    /// The word in the `action` column; `None` for a stranger, which is written as its number.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Action::Queue => "queue",
            Action::Get => "get",
            Action::Insert => "insert",
            Action::Issue => "issue",
            Action::Complete => "complete",
            Action::BioComplete => "bio_complete",
            Action::Requeue => "requeue",
            Action::BackMerge => "back_merge",
            Action::FrontMerge => "front_merge",
            Action::RequestMerge => "request_merge",
            Action::Plug => "plug",
            Action::Unplug => "unplug",
            Action::UnplugTimer => "unplug_timer",
            Action::Split => "split",
            Action::Remap => "remap",
            Action::RequestRemap => "request_remap",
            Action::Bounce => "bounce",
            Action::Sleep => "sleep",
            Action::Abort => "abort",
            Action::Message => "message",
            Action::CommandIssue => "command_issue",
            Action::CommandComplete => "command_complete",
            Action::Unknown(_) => return None,
        })
    }
}

/// The operation of a bio or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Empties the drive's volatile cache.
    Flush,
    /// Discards a range (TRIM, UNMAP).
    Discard,
    /// Discards a range and makes it unreadable.
    SecureErase,
    /// Appends to a zone.
    ZoneAppend,
    /// Resets, opens, closes or finishes a zone.
    ZoneManagement,
    /// Neither read nor write for the block layer: passthrough, write zeroes (`N`).
    Other,
}

impl Op {
    /// Every operation.
    pub const ALL: [Op; 8] = [
        Op::Read,
        Op::Write,
        Op::Flush,
        Op::Discard,
        Op::SecureErase,
        Op::ZoneAppend,
        Op::ZoneManagement,
        Op::Other,
    ];

    /// The word in the `op` column.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::SecureErase => "secure_erase",
            Op::ZoneAppend => "zone_append",
            Op::ZoneManagement => "zone_management",
            Op::Other => "other",
        }
    }

    /// The operation with that word.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// Modifiers of an operation, a set of bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// Somebody waits for it.
    pub const SYNC: Flags = Flags(1);
    /// Must reach the medium before it completes.
    pub const FUA: Flags = Flags(2);
    /// The cache is flushed before it.
    pub const PREFLUSH: Flags = Flags(4);
    /// Metadata of a file system.
    pub const META: Flags = Flags(8);
    /// Read ahead of need.
    pub const READAHEAD: Flags = Flags(16);
    /// Must be written whole or not at all.
    pub const ATOMIC: Flags = Flags(32);

    /// Names of the bits, lowest first, as the `flags` column joins them with commas.
    pub const NAMES: [(Flags, &'static str); 6] = [
        (Flags::SYNC, "sync"),
        (Flags::FUA, "fua"),
        (Flags::PREFLUSH, "preflush"),
        (Flags::META, "meta"),
        (Flags::READAHEAD, "readahead"),
        (Flags::ATOMIC, "atomic"),
    ];

    /// Whether every bit of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set and `other`.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (flag, name) in Flags::NAMES {
            if self.has(flag) {
                f.write_str(if first { "" } else { "," })?;
                f.write_str(name)?;
                first = false;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({self})")
    }
}

/// How a driver command travels to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// READ or WRITE FPDMA QUEUED: NCQ is really used.
    AtaNcq,
    /// Another queued ATA command without data.
    AtaNcqNoData,
    /// A plain ATA DMA command.
    AtaDma,
    /// An ATA PIO command.
    AtaPio,
    /// An ATA command without data, such as FLUSH CACHE.
    AtaNoData,
    /// An ATAPI packet command.
    Atapi,
    /// A number this version does not know.
    Unknown(u16),
}

impl Protocol {
    /// The word in the `protocol` column; `None` for a stranger.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Protocol::AtaNcq => "ata_ncq",
            Protocol::AtaNcqNoData => "ata_ncq_nodata",
            Protocol::AtaDma => "ata_dma",
            Protocol::AtaPio => "ata_pio",
            Protocol::AtaNoData => "ata_nodata",
            Protocol::Atapi => "atapi",
            Protocol::Unknown(_) => return None,
        })
    }

    /// Whether the command sits in the drive's queue (NCQ).
    pub const fn is_queued(self) -> bool {
        matches!(self, Protocol::AtaNcq | Protocol::AtaNcqNoData)
    }
}

/// The name of a task: at most 15 bytes, as the kernel keeps it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comm([u8; 16]);

impl Comm {
    /// Takes the bytes up to the first NUL, at most 15.
    pub fn new(bytes: &[u8]) -> Self {
        let mut comm = [0; 16];
        for (to, from) in comm.iter_mut().take(15).zip(bytes.iter().take_while(|b| **b != 0)) {
            *to = *from;
        }
        Self(comm)
    }

    /// The bytes of the name, without NULs; need not be UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        self.0.get(..end).unwrap_or_default()
    }

    /// Whether the source had no name.
    pub const fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comm({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comm_is_cut_at_the_first_nul_and_at_fifteen_bytes() {
        assert_eq!(Comm::new(b"fio\0rubbish").as_bytes(), b"fio");
        assert_eq!(Comm::new(b"0123456789abcdefgh").as_bytes(), b"0123456789abcde");
        assert!(Comm::new(b"\0x").is_empty());
    }

    #[test]
    fn flags_are_named_lowest_first() {
        assert_eq!(Flags::META.with(Flags::SYNC).to_string(), "sync,meta");
        assert_eq!(Flags::default().to_string(), "");
    }

    #[test]
    fn action_names_are_unique() {
        let mut names: Vec<_> = Action::NAMED.iter().filter_map(|a| a.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Action::NAMED.len());
    }
}
