//! The events that a perf file was recorded with (`struct perf_event_attr`).
//!
//! Only the first 96 bytes are looked at, so older and newer kernels' attributes, which are shorter
//! or longer, are read alike.

use std::io::{Read, Seek};

use super::file::{File, Section};
use super::layouts::{Kind, Layouts};
use super::sample::Layout;
use crate::Error;
use crate::bytes::{u32_at, u64_at};

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
/// Bytes of the oldest `perf_event_attr`, and of the place of the ids behind each in a file.
pub(super) const OLDEST_ATTR: usize = 64;
pub(super) const IDS_PLACE: usize = 16;
/// Ids of more counters than this are no perf file's.
pub(super) const MOST_IDS: usize = 1 << 22;

/// One attribute: what its records look like and which ids they carry.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    is_tracepoint: bool,
    layout: Layout,
    /// Number of the clock; `None` for perf's own.
    clock: Option<u32>,
    pub(super) ids: Ids,
}

/// The ids of an attribute.
#[derive(Clone, Debug)]
pub(super) enum Ids {
    /// They are there.
    At(Section),
    /// They are these.
    Here(Vec<u64>),
}

impl Attribute {
    /// An entry of the attribute table, which ends with the place of the ids; `None` when the bytes
    /// are too few.
    pub(super) fn from_table(bytes: &[u8]) -> Option<Self> {
        let place = bytes.len().checked_sub(IDS_PLACE)?;
        let ids = Section { offset: u64_at(bytes, place)?, size: u64_at(bytes, place + 8)? };
        Self::read(bytes.get(..place)?, Ids::At(ids))
    }

    /// The body of a `PERF_RECORD_HEADER_ATTR`, which ends with the ids themselves; `None` when the
    /// bytes are too few.
    pub(super) fn from_record(body: &[u8]) -> Option<Self> {
        let size = match usize::try_from(u32_at(body, 4)?).ok()? {
            0 => OLDEST_ATTR,
            size => size,
        };
        let ids = body.get(size..)?.chunks_exact(8).filter_map(|id| u64_at(id, 0));
        Self::read(body.get(..size)?, Ids::Here(ids.collect()))
    }

    fn read(bytes: &[u8], ids: Ids) -> Option<Self> {
        let flags = u64_at(bytes, 40)?;
        let has_trailer = flags & FLAG_SAMPLE_ID_ALL != 0;
        let has_clock = flags & FLAG_USE_CLOCKID != 0;
        Some(Self {
            is_tracepoint: u32_at(bytes, 0)? == TYPE_TRACEPOINT,
            layout: Layout::new(u64_at(bytes, 24)?, u64_at(bytes, 32)?, has_trailer),
            clock: has_clock.then(|| u32_at(bytes, 92)).flatten(),
            ids,
        })
    }

    /// A tracepoint whose samples lack something is as good as another event.
    fn kind(&self) -> Kind {
        if self.is_tracepoint && self.layout.missing().is_none() {
            Kind::Tracepoint(self.layout)
        } else {
            Kind::Other(self.layout)
        }
    }
}

/// The layouts of the records, and the clock of the tracepoints.
///
/// # Errors
/// When there are no tracepoints, or their samples are not enough for an event.
pub(super) fn layouts<R: Read + Seek>(
    file: &mut File<'_, R>,
    all: &[Attribute],
) -> Result<(Layouts, Option<u32>), Error> {
    let path = || file.path.to_owned();
    let Some(main) = all.iter().find(|attribute| attribute.is_tracepoint) else {
        return Err(Error::NoTracepoints { path: path() });
    };
    if let Some(what) = main.layout.missing() {
        return Err(Error::SampleLayout { path: path(), what });
    }
    let is_uniform = all.iter().all(|attribute| attribute.layout == main.layout);
    let is_told = all.iter().all(|attribute| attribute.layout.has_identifier());
    if is_uniform || !is_told {
        return Ok((Layouts::uniform(main.layout), main.clock));
    }
    let mut by_id = Vec::new();
    for attribute in all {
        match &attribute.ids {
            Ids::At(section) => {
                let ids = file.bytes(*section, "event ids")?;
                if by_id.len() + ids.len() / 8 > MOST_IDS {
                    return Err(file.outside("event ids", section.offset));
                }
                let ids = ids.chunks_exact(8).filter_map(|id| u64_at(id, 0));
                by_id.extend(ids.map(|id| (id, attribute.kind())));
            }
            Ids::Here(ids) => by_id.extend(ids.iter().map(|id| (*id, attribute.kind()))),
        }
    }
    Ok((Layouts::by_id(main.layout, by_id), main.clock))
}
