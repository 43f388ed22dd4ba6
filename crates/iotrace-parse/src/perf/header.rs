//! What must be known before the records of a perf file can be read, and where it stands.
//!
//! Lengths in the header are checked against the file and against what any perf file has before
//! anything is read. A capture that was cut off has data up to the end of the file, and its formats
//! between the ids and the data.

use std::io::{Read, Seek};

use super::attribute::{self, Attribute, IDS_PLACE, Ids, OLDEST_ATTR};
use super::clock::{ClockFacts, Pair};
use super::file::{File, Section};
use super::layouts::Layouts;
use super::{pipe, tracing_data};
use crate::Error;
use crate::bytes::u64_at;
use crate::format::Format;

/// Bytes of the header in file mode, and in pipe mode.
const HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;
/// What the event formats begin with.
pub(super) const FORMATS_MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Numbers of features: bits in the header of a file, first words of records in a pipe.
pub(super) mod feature {
    pub(in super::super) const TRACING_DATA: u64 = 1;
    pub(in super::super) const CLOCK_DATA: u64 = 29;
}

/// What must be known before records can be read.
#[derive(Clone, Debug)]
pub(super) struct Header {
    /// Where the records are.
    pub(super) data: Section,
    pub(super) layouts: Layouts,
    pub(super) formats: Vec<Format>,
    pub(super) clock: ClockFacts,
    pub(super) is_pipe: bool,
}

impl Header {
    pub(super) fn read<R: Read + Seek>(file: &mut File<'_, R>) -> Result<Self, Error> {
        let size = file.length.min(HEADER);
        let start = file.bytes(Section { offset: 0, size }, "header")?;
        let path = || file.path.to_owned();
        match start.get(..8) {
            Some(b"PERFILE2") => {}
            Some(b"2ELIFREP") => return Err(Error::BigEndian { path: path() }),
            Some(_) | None => return Err(Error::BadMagic { path: path() }),
        }
        if u64_at(&start, 8) == Some(PIPE_HEADER) {
            let data = Section { offset: PIPE_HEADER, size: file.length - PIPE_HEADER };
            return pipe::read(file, data);
        }
        let outside = file.outside("header", 0);
        let mut words = start.chunks_exact(8).skip(2).filter_map(|word| u64_at(word, 0));
        let mut word = || words.next();
        let (Some(attr_size), Some(attrs), Some(mut data), Some(_), Some(features)) =
            (word(), section(&mut word), section(&mut word), section(&mut word), word())
        else {
            return Err(outside);
        };
        let Some(room) = file.length.checked_sub(data.offset) else {
            return Err(file.outside("data", data.offset));
        };
        let attributes = file.attributes(attrs, attr_size)?;
        let (layouts, clock) = attribute::layouts(file, &attributes)?;
        let ids_end = attributes
            .iter()
            .filter_map(|attribute| match attribute.ids {
                Ids::At(ids) => Some(ids.offset.saturating_add(ids.size)),
                Ids::Here(_) => None,
            })
            .fold(attrs.offset.saturating_add(attrs.size), u64::max);
        let mut places = Vec::new();
        // A recorder that was killed leaves no size. So does a capture without records, but there
        // the table is where the header says.
        let table = if data.size <= room {
            file.feature(data, features, feature::TRACING_DATA)
        } else {
            None
        };
        let is_whole = match table {
            Some(section) => data.size > 0 || file.holds_formats(section),
            None => data.size > 0 && data.size <= room,
        };
        let mut pair = None;
        if is_whole {
            places.extend(table);
            pair = file.feature(data, features, feature::CLOCK_DATA).and_then(|section| {
                let size = section.size.min(HEADER);
                Pair::read(&file.bytes(Section { size, ..section }, "clock").ok()?)
            });
        } else {
            data.size = room;
        }
        let gap = data.offset.saturating_sub(ids_end);
        places.push(Section { offset: ids_end, size: gap });
        let formats = tracing_data::read(file, &places)?;
        let clock = ClockFacts { id: clock, pair };
        Ok(Self { data, layouts, formats, clock, is_pipe: false })
    }
}

fn section(word: &mut impl FnMut() -> Option<u64>) -> Option<Section> {
    Some(Section { offset: word()?, size: word()? })
}

impl<R: Read + Seek> File<'_, R> {
    /// Where the table behind the data says that a feature lies. There may be none, as in a copy
    /// that was cut. The table lists the features that are present, lowest bit first.
    fn feature(&mut self, data: Section, features: u64, number: u64) -> Option<Section> {
        let bit = 1 << number;
        if features & bit == 0 {
            return None;
        }
        let before = (features & (bit - 1)).count_ones();
        let end = data.offset.checked_add(data.size)?;
        let entry = Section { offset: end.checked_add(u64::from(before) * 16)?, size: 16 };
        let entry = self.bytes(entry, "feature table").ok()?;
        Some(Section { offset: u64_at(&entry, 0)?, size: u64_at(&entry, 8)? })
    }

    fn holds_formats(&mut self, section: Section) -> bool {
        let size = FORMATS_MAGIC.len() as u64;
        let start = Section { offset: section.offset, size };
        section.size > size && self.bytes(start, "event formats").is_ok_and(|b| b == FORMATS_MAGIC)
    }

    /// Every attribute of the table, whose entries have `entry` bytes.
    fn attributes(&mut self, section: Section, entry: u64) -> Result<Vec<Attribute>, Error> {
        const PART: &str = "event attributes";
        if entry < (OLDEST_ATTR + IDS_PLACE) as u64 || entry > section.size {
            return Err(self.outside(PART, section.offset));
        }
        let bytes = self.bytes(section, PART)?;
        let Ok(entry) = usize::try_from(entry) else {
            return Err(self.outside(PART, section.offset));
        };
        Ok(bytes.chunks_exact(entry).filter_map(Attribute::from_table).collect())
    }
}
