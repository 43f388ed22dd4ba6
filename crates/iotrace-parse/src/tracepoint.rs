//! From raw samples to events, by the names of their fields.
//!
//! A decoder is made once for each tracepoint from its `format`; no offset is written down here,
//! because fields come, go and move between kernels (`ioprio` in 6.11, `errors` before 4.13, wider
//! `rwbs` after 6.1). Fields: `include/trace/events/block.h`.

use iotrace_model::{
    Action, AtaPort, Comm, Cpu, DeviceId, Event, Flags, Nanos, Op, Remap, SECTOR_BYTES, Sector,
};

use crate::ata::Commands;
use crate::bytes::Place;
use crate::format::Format;
use crate::rwbs;

/// No errno is larger.
const MOST_ERRNO: i32 = 4095;
/// What an error that is no errno is given as.
const EIO: i32 = -5;

/// Reads the samples of one tracepoint.
#[derive(Clone, Debug)]
pub(crate) enum Tracepoint {
    Block(Fields),
    Ata(Commands),
}

/// Where the fields of a block event lie; `None` where this tracepoint has none.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    action: Action,
    dev: Option<Place>,
    sector: Option<Place>,
    sectors: Option<Place>,
    bytes: Option<Place>,
    error: Option<Place>,
    io_priority: Option<Place>,
    rwbs: Option<Place>,
    comm: Option<Place>,
    old_dev: Option<Place>,
    old_sector: Option<Place>,
    /// Of a split, the start of the rest.
    new_sector: Option<Place>,
}

/// What the record around a sample says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) time: Nanos,
    pub(crate) cpu: Cpu,
    pub(crate) sequence: u64,
    pub(crate) pid: u32,
}

impl Tracepoint {
    /// `None` for a tracepoint that is no event of the model, or lacks what every event needs.
    pub(crate) fn new(format: &Format) -> Option<Self> {
        if let Some(commands) = Commands::new(format) {
            return Some(Self::Ata(commands));
        }
        let action = action(&format.name)?;
        let fields = Fields {
            action,
            dev: format.place("dev"),
            sector: format.place("sector"),
            sectors: format.place("nr_sector"),
            bytes: format.place("bytes"),
            error: format.place("error").or_else(|| format.place("errors")),
            io_priority: format.place("ioprio"),
            rwbs: format.place("rwbs"),
            comm: format.place("comm"),
            old_dev: format.place("old_dev"),
            old_sector: format.place("old_sector"),
            new_sector: format.place("new_sector"),
        };
        let is_of_a_task = matches!(action, Action::Plug | Action::Unplug);
        let is_complete = fields.dev.is_some() && fields.rwbs.is_some();
        (is_of_a_task || is_complete).then_some(Self::Block(fields))
    }

    /// `None` when the sample is shorter than its format.
    pub(crate) fn read(
        &self,
        raw: &[u8],
        context: Context,
        ports: &[(AtaPort, DeviceId)],
    ) -> Option<Event> {
        match self {
            Self::Block(fields) => fields.read(raw, context),
            Self::Ata(commands) => commands.read(raw, context, ports),
        }
    }
}

impl Fields {
    fn read(&self, raw: &[u8], context: Context) -> Option<Event> {
        let (op, flags) = match self.rwbs {
            Some(place) => rwbs::read(place.slice(raw)?),
            None => (Op::Other, Flags::default()),
        };
        let comm = match self.comm {
            Some(place) => Comm::new(place.slice(raw)?),
            None => Comm::default(),
        };
        let above = number(self.old_dev, raw).ok()?.zip(number(self.old_sector, raw).ok()?);
        let values = Values {
            device: number(self.dev, raw).ok()?.map(device_id),
            sector: number(self.sector, raw).ok()?.map(Sector),
            sectors: number(self.sectors, raw).ok()?,
            bytes: number(self.bytes, raw).ok()?.unwrap_or(0),
            error: self.error(raw).ok()?,
            io_priority: number(self.io_priority, raw)
                .ok()?
                .and_then(|word| u16::try_from(word).ok()),
            op,
            flags,
            comm,
            above: above.map(|(dev, sector)| (device_id(dev), Sector(sector))),
            rest: number(self.new_sector, raw).ok()?.map(Sector),
        };
        Some(values.event(self.action, context))
    }

    /// As the kernel gives it; 0 where there is none.
    #[expect(clippy::cast_possible_truncation, reason = "the field is an int of 4 bytes")]
    fn error(&self, raw: &[u8]) -> Result<i32, TooShort> {
        Ok((number(self.error, raw)?.unwrap_or(0) as u32).cast_signed())
    }
}

/// What a block event says, binary or in text; `None` and the defaults where it has no such field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    pub(crate) device: Option<DeviceId>,
    pub(crate) sector: Option<Sector>,
    pub(crate) sectors: Option<u64>,
    pub(crate) bytes: u64,
    /// Of whatever sign.
    pub(crate) error: i32,
    pub(crate) io_priority: Option<u16>,
    pub(crate) op: Op,
    pub(crate) flags: Flags,
    pub(crate) comm: Comm,
    /// Where a remap came from.
    pub(crate) above: Option<(DeviceId, Sector)>,
    /// Of a split, the start of the rest.
    pub(crate) rest: Option<Sector>,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            device: None,
            sector: None,
            sectors: None,
            bytes: 0,
            error: 0,
            io_priority: None,
            op: Op::Other,
            flags: Flags::default(),
            comm: Comm::default(),
            above: None,
            rest: None,
        }
    }
}

impl Values {
    /// The event of these values: the one place that says what they mean.
    pub(crate) fn event(self, action: Action, context: Context) -> Event {
        let Self { device, sector, sectors, op, flags, .. } = self;
        let from = self.above.or_else(|| device.zip(self.rest));
        let length_bytes = match (sectors, self.rest) {
            // A passthrough request counts bytes, not sectors.
            (Some(0), _) => self.bytes,
            (Some(sectors), _) => sectors.saturating_mul(SECTOR_BYTES),
            // A split reports the piece that it cut off.
            (None, Some(rest)) => {
                let start = sector.unwrap_or(rest);
                rest.0.saturating_sub(start.0).saturating_mul(SECTOR_BYTES)
            }
            (None, None) => 0,
        };
        let is_completion = matches!(action, Action::Complete | Action::BioComplete);
        Event {
            time: context.time,
            cpu: context.cpu,
            sequence: context.sequence,
            device,
            action,
            op,
            flags,
            sector: sector.filter(|sector| has_place(*sector, sectors, op, flags)),
            length_bytes,
            pid: context.pid,
            comm: self.comm,
            error: is_completion.then(|| self.errno()),
            remap: from.map(|(device, sector)| Remap { device, sector }),
            cgroup: None,
            io_priority: self.io_priority,
            tag: None,
            protocol: None,
        }
    }

    /// A negative errno. Kernels before 4.13 may count errors up, and give the SCSI result of
    /// passthrough.
    fn errno(&self) -> i32 {
        let size = self.error.saturating_abs();
        if size > MOST_ERRNO { EIO } else { -size }
    }
}

/// A sample ends before a field of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooShort;

/// Whether the sector of an event is a place on the device.
///
/// - All ones is none: so a completion prints the unset position of flushes and passthrough.
/// - A flush has none, nor has a preflush without data, whose sector may have underflowed in a
///   mapping.
/// - Passthrough (`N`) without sectors prints 0 for none.
/// - Anything else keeps its sector, above all a completion of zero bytes such as `WS 4656 + 0`.
///
/// `sectors` is `None` for events without a length, such as a split.
fn has_place(sector: Sector, sectors: Option<u64>, op: Op, flags: Flags) -> bool {
    let is_empty = sectors == Some(0);
    let is_unset = sector.0 == u64::MAX;
    let is_flush = op == Op::Flush || is_empty && flags.has(Flags::PREFLUSH);
    let is_passthrough = op == Op::Other && is_empty && sector.0 == 0;
    !(is_unset || is_flush || is_passthrough)
}

/// `block_io_start`, `block_io_done` and `block_rq_error` repeat what other events say; page cache
/// events (`block_touch_buffer`, `block_dirty_buffer`) are none of a device.
pub(crate) fn action(name: &str) -> Option<Action> {
    Some(match name {
        "block_bio_queue" => Action::Queue,
        "block_getrq" => Action::Get,
        "block_bio_backmerge" => Action::BackMerge,
        "block_bio_frontmerge" => Action::FrontMerge,
        "block_rq_merge" => Action::RequestMerge,
        "block_rq_insert" => Action::Insert,
        "block_rq_issue" => Action::Issue,
        "block_rq_requeue" => Action::Requeue,
        "block_rq_complete" => Action::Complete,
        "block_bio_complete" => Action::BioComplete,
        "block_split" => Action::Split,
        "block_bio_remap" => Action::Remap,
        "block_rq_remap" => Action::RequestRemap,
        "block_bio_bounce" => Action::Bounce,
        "block_sleeprq" => Action::Sleep,
        "block_plug" => Action::Plug,
        // Whether a timer did it is not recorded.
        "block_unplug" => Action::Unplug,
        _ => return None,
    })
}

/// A field that this tracepoint need not have.
fn number(place: Option<Place>, raw: &[u8]) -> Result<Option<u64>, TooShort> {
    match place {
        Some(place) => place.number(raw).map(Some).ok_or(TooShort),
        None => Ok(None),
    }
}

/// A `dev_t` has 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the field has 4 bytes")]
pub(crate) fn device_id(dev: u64) -> DeviceId {
    DeviceId::from_kernel(dev as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Flags = Flags::SYNC;
    const PREFLUSH: Flags = Flags::PREFLUSH;

    #[test]
    fn a_sector_is_a_place_unless_a_rule_says_otherwise() {
        check(4656, Some(8), Op::Write, SYNC, true);
        check(4656, Some(0), Op::Write, SYNC, true);
        check(0, Some(8), Op::Read, SYNC, true);
        check(0, Some(8), Op::Other, SYNC, true);
        check(4096, None, Op::Read, SYNC, true);
        check(u64::MAX, Some(8), Op::Read, SYNC, false);
        check(u64::MAX, Some(0), Op::Write, SYNC, false);
        check(0, Some(0), Op::Flush, SYNC, false);
        check(u64::MAX - 19, Some(0), Op::Write, PREFLUSH, false);
        check(4656, Some(8), Op::Write, PREFLUSH, true);
        check(0, Some(0), Op::Other, SYNC, false);
    }

    #[test]
    fn an_old_kernel_counts_its_errors_up_in_another_field() {
        let text = include_str!("../tests/data/formats-6.1/block_rq_complete");
        let text = text.replace("int error;", "int errors;");
        let Some(Tracepoint::Block(fields)) =
            Format::parse(&text).as_ref().and_then(Tracepoint::new)
        else {
            panic!("block_rq_complete is an event");
        };
        let context = Context { time: Nanos(1), cpu: Cpu(0), sequence: 0, pid: 0 };
        let error = |raw: &[u8]| fields.read(raw, context).map(|event| event.error);
        assert_eq!(fields.error(&[0; 31]), Err(TooShort));
        let mut raw = [0; 44];
        raw[28] = 5;
        assert_eq!(error(&raw), Some(Some(-5)));
        raw[28..32].copy_from_slice(&(-61_i32).to_le_bytes());
        assert_eq!(error(&raw), Some(Some(-61)));
        // A check condition of a passthrough request.
        raw[28..32].copy_from_slice(&0x0800_0002_u32.to_le_bytes());
        assert_eq!(error(&raw), Some(Some(-5)));
    }

    #[test]
    fn a_completion_of_linux_3_10_is_read() {
        let event = event(
            "block_rq_complete",
            &[
                ("dev_t dev", 8, 4, &[0x11, 0, 0x80, 0]),
                ("sector_t sector", 16, 8, &[0x30, 0x12]),
                ("unsigned int nr_sector", 24, 4, &[8]),
                ("int errors", 28, 4, &[5]),
                ("char rwbs[8]", 32, 8, b"WSM"),
                ("__data_loc char[] cmd", 40, 4, &[44, 0, 1, 0]),
            ],
        );
        assert_eq!(event.device, Some(DeviceId { major: 8, minor: 17 }));
        assert_eq!((event.action, event.op), (Action::Complete, Op::Write));
        assert_eq!(event.flags, Flags::SYNC.with(Flags::META));
        assert_eq!((event.sector, event.length_bytes), (Some(Sector(0x1230)), 4096));
        assert_eq!((event.error, event.io_priority), (Some(-5), None));
        assert!(event.comm.is_empty());
    }

    #[test]
    fn an_issue_without_bytes_and_with_the_oldest_letters_is_read() {
        let event = event(
            "block_rq_issue",
            &[
                ("dev_t dev", 12, 4, &[0, 0, 0x80, 0]),
                ("sector_t sector", 16, 8, &[0x80]),
                ("unsigned int nr_sector", 24, 4, &[0]),
                ("char rwbs[6]", 28, 6, b"FWFSM\0"),
                ("char comm[16]", 34, 16, b"kworker/0:1H\0rst"),
            ],
        );
        let flags = PREFLUSH.with(Flags::FUA).with(SYNC).with(Flags::META);
        assert_eq!((event.op, event.flags), (Op::Write, flags));
        assert_eq!((event.sector, event.length_bytes), (None, 0));
        assert_eq!(event.comm, Comm::new(b"kworker/0:1H"));
    }

    #[test]
    fn an_issue_of_linux_6_11_has_a_priority_and_a_passthrough_its_bytes() {
        let event = event(
            "block_rq_issue",
            &[
                ("dev_t dev", 8, 4, &[0, 0, 0x80, 0]),
                ("sector_t sector", 16, 8, &[0xff; 8]),
                ("unsigned int nr_sector", 24, 4, &[0]),
                ("unsigned int bytes", 28, 4, &[96]),
                ("unsigned short ioprio", 32, 2, &[4, 0x40]),
                ("char rwbs[10]", 34, 10, b"N"),
                ("char comm[16]", 44, 16, b"smartctl"),
            ],
        );
        assert_eq!((event.op, event.sector, event.length_bytes), (Op::Other, None, 96));
        assert_eq!(event.io_priority, Some(0x4004));
    }

    #[test]
    fn a_completed_bio_has_its_error_under_either_name() {
        for name in ["int error", "int errors"] {
            let event = event(
                "block_bio_complete",
                &[
                    ("dev_t dev", 8, 4, &[0, 0, 0xd0, 0x0f]),
                    ("sector_t sector", 16, 8, &[64]),
                    ("unsigned nr_sector", 24, 4, &[8]),
                    (name, 28, 4, &[0xfb, 0xff, 0xff, 0xff]),
                    ("char rwbs[8]", 32, 8, b"RA"),
                ],
            );
            assert_eq!((event.action, event.error), (Action::BioComplete, Some(-5)));
            assert_eq!(event.device, Some(DeviceId { major: 253, minor: 0 }));
        }
    }

    #[test]
    fn tracepoints_that_repeat_others_or_are_of_a_driver_are_no_events() {
        for name in [
            "block_io_start",
            "block_io_done",
            "block_rq_error",
            "block_touch_buffer",
            "block_dirty_buffer",
            "scsi_dispatch_cmd_start",
            "scsi_dispatch_cmd_done",
            "nvme_setup_cmd",
            "nvme_complete_rq",
            "nvme_sq",
        ] {
            let fields: &[Given<'_>] = &[("dev_t dev", 8, 4, &[]), ("char rwbs[8]", 12, 8, &[])];
            assert!(Tracepoint::new(&parse(name, fields)).is_none(), "{name}");
        }
        assert!(Tracepoint::new(&parse("block_getrq", &[])).is_none());
        assert!(Tracepoint::new(&parse("block_plug", &[])).is_some());
    }

    /// Declaration, offset, size and the first bytes of a field.
    type Given<'a> = (&'a str, usize, usize, &'a [u8]);

    fn parse(name: &str, fields: &[Given<'_>]) -> Format {
        let fields = fields.iter().map(|(declaration, offset, size, _)| {
            let signed = u8::from(declaration.starts_with("int"));
            format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        });
        let fields: String = fields.collect();
        let text =
            format!("name: {name}\nID: 999\nformat:\n{fields}\nprint fmt: \"%d\", REC->dev\n");
        Format::parse(&text).unwrap()
    }

    /// What is read from a sample with these fields; every shorter one is refused.
    #[track_caller]
    fn event(name: &str, fields: &[Given<'_>]) -> Event {
        let end = fields.iter().map(|(_, offset, size, _)| offset + size).max().unwrap();
        let mut raw = Vec::new();
        for (_, offset, _, bytes) in fields {
            raw.resize(*offset, 0);
            raw.extend(*bytes);
        }
        raw.resize(end, 0);
        let context = Context { time: Nanos(1), cpu: Cpu(0), sequence: 0, pid: 7 };
        let point = Tracepoint::new(&parse(name, fields)).unwrap();
        let is_elsewhere = fields.last().is_some_and(|(name, ..)| name.starts_with("__data_loc"));
        if !is_elsewhere {
            assert_eq!(point.read(raw.split_at(end - 1).0, context, &[]), None);
        }
        point.read(&raw, context, &[]).unwrap()
    }

    #[track_caller]
    fn check(sector: u64, sectors: Option<u64>, op: Op, flags: Flags, expected: bool) {
        assert_eq!(has_place(Sector(sector), sectors, op, flags), expected);
    }
}
