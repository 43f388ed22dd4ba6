//! One request: what the driver got, from its first bio's queue event to its completion.
//!
//! A latency is never invented: a stage that was not seen is `None`, and `status` says why.
//! Q2D + D2C = Q2C on every complete request, exactly, in whole nanoseconds.

use crate::{Comm, Cpu, DeviceId, Flags, Nanos, Op, Protocol, Sector};

/// When and where an event of a request fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Since the start of the run.
    pub time: Nanos,
    /// The CPU that logged it.
    pub cpu: Cpu,
}

/// A bio of a request that has several: btt counts latencies per bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bio {
    /// When it was queued.
    pub queue: Nanos,
    /// First sector.
    pub sector: Sector,
    /// Its length.
    pub length_bytes: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Completed, and everything that happens to a request of its kind was seen: queue, issue and
    /// completion of one with data; an empty flush has no issue of its own, an internal flush or
    /// passthrough no queue. What the trace never showed of the device up to then is not demanded:
    /// where it showed nothing before the issue, the queue is `None`; where it showed no requests
    /// but only bios, the issue is.
    Complete,
    /// Still open when the capture ended.
    Unfinished,
    /// Completed, but its beginning lies before the capture, or only completions were ever shown.
    StartedBefore,
    /// Its pairing is one guess of several; times that hang on the guess are `None`.
    Ambiguous,
    /// Events were lost while it was open; times that hang on them are `None`.
    Lost,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 5] = [
        Status::Complete,
        Status::Unfinished,
        Status::StartedBefore,
        Status::Ambiguous,
        Status::Lost,
    ];

    /// The word in the `status` column.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Complete => "complete",
            Status::Unfinished => "unfinished",
            Status::StartedBefore => "started_before",
            Status::Ambiguous => "ambiguous",
            Status::Lost => "lost",
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number in the run, from 0, in the order in which requests came to be known.
    pub request: u64,
    /// The device that was asked.
    pub device: DeviceId,
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub flags: Flags,
    /// First sector; `None` for an empty flush or passthrough.
    pub sector: Option<Sector>,
    /// Length at issue, in bytes; bytes completed where no issue was seen.
    pub length_bytes: u64,
    /// Thread of the queue event (of the first event seen, where that was lost or never was).
    pub pid: u32,
    /// Name of that thread.
    pub comm: Comm,
    /// Cgroup of the queue event.
    pub cgroup: Option<u64>,
    /// Io priority word.
    pub io_priority: Option<u16>,
    /// The earliest bio's queue event.
    pub queue: Option<Stamp>,
    /// Allocation.
    pub get: Option<Stamp>,
    /// Entry into the scheduler; `None` for a direct issue.
    pub insert: Option<Stamp>,
    /// The last issue before completion.
    pub issue: Option<Stamp>,
    /// The completion that finished it.
    pub complete: Option<Stamp>,
    /// How many bios it carries; 0 for passthrough and internal flushes.
    pub bios: u32,
    /// Of these, joined at the front.
    pub front_merges: u32,
    /// Of these, joined at the end, request merges included.
    pub back_merges: u32,
    /// How often it was handed back.
    pub requeues: u32,
    /// In how many pieces its bio was cut, less one; 0 if it was not split.
    pub splits: u32,
    /// The request above it (dm, md, partition) in the same run.
    pub parent: Option<u64>,
    /// Other requests in flight on the device just before its last issue.
    pub in_flight_at_issue: Option<u32>,
    /// Other requests queued and not complete on the device just before its queue event.
    pub queued_at_queue: Option<u32>,
    /// How many requests issued before it were still in flight when it completed.
    pub overtook: Option<u32>,
    /// How many requests issued after it completed before it.
    pub overtaken: Option<u32>,
    /// From the end of the request issued before it on the device to its start, signed.
    pub seek_sectors: Option<i64>,
    /// Tag of its driver command.
    pub tag: Option<u16>,
    /// Protocol of its driver command.
    pub protocol: Option<Protocol>,
    /// Negative errno, 0 for success; `None` while unfinished.
    pub error: Option<i32>,
    /// What became of it.
    pub status: Status,
    /// Its bios in the order of their queue events; empty when it has at most one.
    pub merged_bios: Vec<Bio>,
}

impl Request {
    /// Queue latency: queue to insert. `None` for a direct issue.
    pub fn q2i(&self) -> Option<Nanos> {
        between(self.queue, self.insert)
    }

    /// Dispatch latency: insert to the last issue. `None` for a direct issue.
    pub fn i2d(&self) -> Option<Nanos> {
        between(self.insert, self.issue)
    }

    /// Waiting: queue to the last issue.
    pub fn q2d(&self) -> Option<Nanos> {
        between(self.queue, self.issue)
    }

    /// Completion latency: the last issue to completion.
    pub fn d2c(&self) -> Option<Nanos> {
        between(self.issue, self.complete)
    }

    /// Total latency: queue to completion.
    pub fn q2c(&self) -> Option<Nanos> {
        between(self.queue, self.complete)
    }
}

fn between(from: Option<Stamp>, to: Option<Stamp>) -> Option<Nanos> {
    Some(to?.time - from?.time)
}
