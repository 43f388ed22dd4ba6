//! From a record to an event: actions, operations and payloads.
//!
//! Codes and categories: `include/uapi/linux/blktrace_api.h`. The same request gives the same event
//! here as from its tracepoint, so that nothing behind can tell the sources apart.

use iotrace_model::{
    Action, Comm, Cpu, DeviceId, Event, Flags, Nanos, Op, Remap, SECTOR_BYTES, Sector,
};

use super::record::{Order, Record};
use crate::bytes::at;
use crate::split::rest_of_split;

/// Categories, in the high part of the action word.
mod category {
    pub(super) const WRITE: u64 = 1 << 17;
    pub(super) const FLUSH: u64 = 1 << 18;
    pub(super) const SYNC: u64 = 1 << 19;
    pub(super) const FS: u64 = 1 << 24;
    pub(super) const PC: u64 = 1 << 25;
    pub(super) const NOTIFY: u64 = 1 << 26;
    pub(super) const AHEAD: u64 = 1 << 27;
    pub(super) const META: u64 = 1 << 28;
    pub(super) const DISCARD: u64 = 1 << 29;
    pub(super) const FUA: u64 = 1 << 31;
    pub(super) const ZONE_APPEND: u64 = 1 << 32;
    /// Reset, reset all, finish, open, close.
    pub(super) const ZONE_MANAGEMENT: u64 = 0x1f << 33;
}

/// The code says that a cgroup id stands before the payload.
const CGROUP: u64 = 1 << 8;
const CODE: u64 = 0xff;

/// What an action word means for a record, with or without bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    action: Action,
    op: Op,
    flags: Flags,
    /// Whether the sector is a place on the device.
    is_placed: bool,
}

/// Meanings that were worked out before: a trace has a few dozen words, in an order that no
/// processor predicts.
#[derive(Debug)]
pub(super) struct Meanings {
    /// By some bits of the word; the word itself, and whether there are no bytes, in front.
    known: [(u64, Meaning); MEANINGS],
}

const MEANINGS: usize = 256;

impl Default for Meanings {
    fn default() -> Self {
        let none = Record::default();
        Self { known: [(none.word(), none.meaning()); MEANINGS] }
    }
}

impl Meanings {
    #[inline]
    pub(super) fn of(&mut self, record: &Record) -> Meaning {
        let word = record.word();
        // The code, the direction and the kind of event stand in these bits.
        let [place, ..] = (word ^ word >> 12 ^ word >> 19).to_le_bytes();
        let Some(known) = self.known.get_mut(usize::from(place)) else { return record.meaning() };
        if known.0 != word {
            *known = (word, record.meaning());
        }
        known.1
    }
}

/// What a notify record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notify<'a> {
    /// The name of the record's thread.
    Process(Comm),
    /// The wall clock at the record's time, since the epoch.
    Timestamp(Nanos),
    /// A text of the kernel or of a user.
    Message { text: &'a [u8], cgroup: Option<u64> },
    /// Something that this version does not know, or a payload that is too short.
    Unknown,
}

impl Record {
    pub(super) fn is_notify(&self) -> bool {
        self.action & category::NOTIFY != 0
    }

    /// What a notify record tells; `payload` is its payload.
    pub(super) fn notify<'a>(&self, order: Order, payload: &'a [u8]) -> Notify<'a> {
        let (cgroup, payload) = self.split_cgroup(order, payload);
        match self.action & CODE {
            0 => Notify::Process(Comm::new(payload)),
            1 => {
                let parts = order.u32_at(payload, 0).zip(order.u32_at(payload, 4));
                parts.map_or(Notify::Unknown, |(seconds, nanos)| {
                    Notify::Timestamp(Nanos(i64::from(seconds) * 1_000_000_000 + i64::from(nanos)))
                })
            }
            2 => Notify::Message { text: payload, cgroup },
            _ => Notify::Unknown,
        }
    }

    /// The event of a record that is no notify; `None` when its payload is too short.
    #[expect(clippy::inline_always, reason = "a call would copy the event once more")]
    #[inline(always)]
    pub(super) fn event(
        &self,
        order: Order,
        payload: &[u8],
        time: Nanos,
        comm: Comm,
        meaning: Meaning,
    ) -> Option<Event> {
        let (cgroup, payload) = self.split_cgroup(order, payload);
        let device = DeviceId::from_kernel(self.device);
        let Meaning { action, op, flags, is_placed } = meaning;
        let is_placed = is_placed && self.sector != u64::MAX;
        let (remap, length_bytes) = match action {
            Action::Split | Action::Remap => self.source(action, payload)?,
            _ => (None, u64::from(self.bytes)),
        };
        Some(Event {
            time,
            cpu: Cpu(self.cpu),
            sequence: u64::from(self.sequence),
            device: Some(device),
            action,
            op,
            flags,
            sector: is_placed.then_some(Sector(self.sector)),
            length_bytes,
            pid: self.pid,
            comm,
            error: (action == Action::Complete).then(|| self.errno()),
            remap,
            cgroup,
            io_priority: None,
            tag: None,
            protocol: None,
        })
    }

    /// The action word, and whether there are no bytes: all that a meaning depends on.
    fn word(&self) -> u64 {
        self.action << 1 | u64::from(self.bytes == 0)
    }

    fn meaning(&self) -> Meaning {
        let action = self.action();
        let of_task = matches!(action, Action::Plug | Action::Unplug | Action::UnplugTimer);
        let (op, flags) = self.operation(of_task);
        let is_empty_flush = op == Op::Flush || self.bytes == 0 && flags.has(Flags::PREFLUSH);
        let is_passthrough = self.action & category::PC != 0;
        Meaning { action, op, flags, is_placed: !(of_task || is_passthrough || is_empty_flush) }
    }

    /// Where a remap comes from, or where the rest of a split begins; and the event's length.
    #[cold]
    fn source(&self, action: Action, payload: &[u8]) -> Option<(Option<Remap>, u64)> {
        if action == Action::Split {
            let device = DeviceId::from_kernel(self.device);
            let rest = rest_of_split(self.sector, u64::from_be_bytes(at(payload, 0)?));
            let length_bytes = rest.saturating_sub(self.sector).saturating_mul(SECTOR_BYTES);
            return Some((Some(Remap { device, sector: Sector(rest) }), length_bytes));
        }
        let device = DeviceId::from_kernel(u32::from_be_bytes(at(payload, 0)?));
        let sector = Sector(u64::from_be_bytes(at(payload, 8)?));
        Some((Some(Remap { device, sector }), u64::from(self.bytes)))
    }

    /// A negative errno; kernels before 4.13 may count errors up.
    fn errno(&self) -> i32 {
        let error = i32::from(self.error.cast_signed());
        if error > 0 { -error } else { error }
    }

    fn action(&self) -> Action {
        let is_request = self.action & (category::FS | category::PC) != 0;
        match self.action & CODE {
            1 => Action::Queue,
            2 if is_request => Action::RequestMerge,
            2 => Action::BackMerge,
            3 => Action::FrontMerge,
            4 => Action::Get,
            5 => Action::Sleep,
            6 => Action::Requeue,
            7 => Action::Issue,
            8 => Action::Complete,
            9 => Action::Plug,
            10 => Action::Unplug,
            11 => Action::UnplugTimer,
            12 => Action::Insert,
            13 => Action::Split,
            14 => Action::Bounce,
            15 => Action::Remap,
            16 => Action::Abort,
            // Driver data and the zone plugs of version 8 say nothing of one request.
            code => Action::Unknown(u16::try_from(code).unwrap_or(u16::MAX)),
        }
    }

    fn operation(&self, of_task: bool) -> (Op, Flags) {
        let has = |bits| self.action & bits != 0;
        if of_task {
            return (Op::Other, Flags::default());
        }
        let is_write = has(category::WRITE);
        let op = if has(category::PC) {
            Op::Other
        } else if has(category::DISCARD) {
            Op::Discard
        } else if has(category::ZONE_APPEND) {
            Op::ZoneAppend
        } else if has(category::ZONE_MANAGEMENT) {
            Op::ZoneManagement
        } else if is_write {
            Op::Write
        } else if has(category::FLUSH) && self.bytes == 0 {
            Op::Flush
        } else {
            Op::Read
        };
        let flag = |bit, flag| if has(bit) { flag } else { Flags::default() };
        let preflush =
            if op == Op::Flush { Flags::default() } else { flag(category::FLUSH, Flags::PREFLUSH) };
        let flags = preflush
            .with(flag(category::SYNC, Flags::SYNC))
            .with(flag(category::FUA, Flags::FUA))
            .with(flag(category::META, Flags::META))
            .with(flag(category::AHEAD, Flags::READAHEAD));
        (op, flags)
    }

    fn split_cgroup<'a>(&self, order: Order, payload: &'a [u8]) -> (Option<u64>, &'a [u8]) {
        if self.action & CGROUP == 0 {
            return (None, payload);
        }
        (order.u64_at(payload, 0), payload.get(8..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: u64 = 0x0002 << 16;
    const SYNC: u64 = 0x0008 << 16;
    const FLUSH: u64 = 0x0004 << 16;
    const REQUEST: u64 = 0x0100 << 16;

    #[test]
    fn operations_are_told_by_their_categories() {
        check_op(0x0001 << 16 | 1, 4096, Op::Read, Flags::default());
        check_op(WRITE | SYNC | 1, 4096, Op::Write, Flags::SYNC);
        check_op(WRITE | SYNC | FLUSH | 1, 0, Op::Write, Flags::SYNC.with(Flags::PREFLUSH));
        check_op(0x0001 << 16 | FLUSH | REQUEST | 7, 0, Op::Flush, Flags::default());
        check_op(WRITE | 0x2000 << 16 | 1, 4096, Op::Discard, Flags::default());
        check_op(WRITE | 0x0200 << 16 | 7, 96, Op::Other, Flags::default());
        check_op(WRITE | 1 << 32 | 1, 4096, Op::ZoneAppend, Flags::default());
        check_op(WRITE | 1 << 34 | 1, 0, Op::ZoneManagement, Flags::default());
        check_op(0x0001 << 16 | 9, 0, Op::Other, Flags::default());
        let all = Flags::FUA.with(Flags::META).with(Flags::READAHEAD);
        check_op(WRITE | 0x9800 << 16 | 1, 4096, Op::Write, all);
    }

    #[test]
    fn a_merge_of_requests_carries_the_category_of_requests() {
        assert_eq!(record(WRITE | 2, 512).action(), Action::BackMerge);
        assert_eq!(record(WRITE | REQUEST | 2, 512).action(), Action::RequestMerge);
        assert_eq!(record(WRITE | 0x12, 512).action(), Action::Unknown(18));
    }

    #[test]
    fn flushes_and_passthrough_have_no_place() {
        check_sector(WRITE | SYNC | FLUSH | 1, 0, None);
        check_sector(0x0001 << 16 | FLUSH | REQUEST | 7, 0, None);
        check_sector(WRITE | 0x0200 << 16 | 7, 96, None);
        check_sector(WRITE | REQUEST | 8, 0, Some(1000));
    }

    #[test]
    fn a_cgroup_stands_before_the_payload() {
        let mut payload = 77_u64.to_le_bytes().to_vec();
        payload.extend((8_u32 << 20 | 1).to_be_bytes());
        payload.extend((8_u32 << 20).to_be_bytes());
        payload.extend(2048_u64.to_be_bytes());
        let tagged = record(WRITE | 0x100 | 15, 512);
        let event = read(&tagged, &payload).unwrap();
        let above = Remap { device: DeviceId { major: 8, minor: 1 }, sector: Sector(2048) };
        assert_eq!((event.cgroup, event.remap), (Some(77), Some(above)));
        payload.truncate(20);
        let short = read(&tagged, &payload);
        assert_eq!(short, None);
    }

    #[test]
    fn errors_are_negative() {
        let error = |error| {
            let record = Record { error, ..record(REQUEST | 8, 512) };
            read(&record, &[]).unwrap().error
        };
        assert_eq!(error(0), Some(0));
        assert_eq!(error(65475), Some(-61));
        assert_eq!(error(5), Some(-5));
    }

    #[track_caller]
    fn check_op(action: u64, bytes: u32, op: Op, flags: Flags) {
        let event = read(&record(action, bytes), &[]);
        assert_eq!(event.map(|event| (event.op, event.flags)), Some((op, flags)));
    }

    #[track_caller]
    fn check_sector(action: u64, bytes: u32, sector: Option<u64>) {
        let event = read(&record(action, bytes), &[]);
        assert_eq!(event.map(|event| event.sector), Some(sector.map(Sector)));
    }

    fn read(record: &Record, payload: &[u8]) -> Option<Event> {
        let meaning = Meanings::default().of(record);
        record.event(Order::Little, payload, Nanos(1), Comm::default(), meaning)
    }

    fn record(action: u64, bytes: u32) -> Record {
        Record {
            version: 7,
            sequence: 1,
            time: 0,
            sector: 1000,
            bytes,
            action,
            pid: 1,
            device: 8 << 20,
            cpu: 0,
            error: 0,
            payload: 0,
        }
    }
}
