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
            Self::Block(fields) => fields.read(raw, context).ok(),
            Self::Ata(commands) => commands.read(raw, context, ports),
        }
    }
}

impl Fields {
    fn read(&self, raw: &[u8], context: Context) -> Result<Event, TooShort> {
        let (op, flags) = match self.rwbs {
            Some(place) => rwbs::read(place.slice(raw).ok_or(TooShort)?),
            None => (Op::Other, Flags::default()),
        };
        let comm = match self.comm {
            Some(place) => Comm::new(place.slice(raw).ok_or(TooShort)?),
            None => Comm::default(),
        };
        let above = number(self.old_dev, raw)?.zip(number(self.old_sector, raw)?);
        let values = Values {
            device: number(self.dev, raw)?.map(device_id),
            sector: number(self.sector, raw)?.map(Sector),
            sectors: number(self.sectors, raw)?,
            bytes: number(self.bytes, raw)?.unwrap_or(0),
            error: self.error(raw)?,
            io_priority: number(self.io_priority, raw)?.and_then(|word| u16::try_from(word).ok()),
            op,
            flags,
            comm,
            above: above.map(|(dev, sector)| (device_id(dev), Sector(sector))),
            rest: number(self.new_sector, raw)?.map(Sector),
        };
        Ok(values.event(self.action, context))
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
            // Kernels before 4.13 may count errors up; ours are negative.
            error: is_completion.then(|| self.error.min(self.error.saturating_neg())),
            remap: from.map(|(device, sector)| Remap { device, sector }),
            cgroup: None,
            io_priority: self.io_priority,
            tag: None,
            protocol: None,
        }
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
        assert_eq!(error(&raw), Ok(Some(-5)));
        raw[28..32].copy_from_slice(&(-61_i32).to_le_bytes());
        assert_eq!(error(&raw), Ok(Some(-61)));
    }

    #[track_caller]
    fn check(sector: u64, sectors: Option<u64>, op: Op, flags: Flags, expected: bool) {
        assert_eq!(has_place(Sector(sector), sectors, op, flags), expected);
    }
}
