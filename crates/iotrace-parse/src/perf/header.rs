//! The header of a perf file, its event attributes and where things lie.
//!
//! Lengths in the header are checked against the file and against what any perf file has before
//! anything is read. A capture that was cut off has data up to the end of the file, and its formats
//! between the ids and the data.

use std::io::{Read, Seek, SeekFrom};

use super::layouts::{Kind, Layouts};
use super::sample::Layout;
use crate::Error;
use crate::bytes::{u32_at, u64_at};

/// Bytes of the header in file mode, and in pipe mode.
const HEADER: u64 = 104;
const PIPE_HEADER: u64 = 16;
/// Bit of the event formats in the feature bitmap.
const FEATURE_TRACING_DATA: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;
/// What the event formats begin with.
pub(super) const FORMATS_MAGIC: &[u8] = b"\x17\x08\x44tracing";
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
/// Bytes of the oldest `perf_event_attr`, and of the place of the ids behind each.
const OLDEST_ATTR: u64 = 64;
const IDS_PLACE: usize = 16;
/// No section that is read whole is larger; all formats of a kernel are a few MiB.
const MOST_BYTES: u64 = 64 << 20;
/// Ids of more counters than this are no perf file's.
const MOST_IDS: usize = 1 << 22;

/// A stretch of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// What the header says.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) data: Section,
    /// Where the formats may lie, best place first: where the feature table says, and before the data.
    pub(super) formats: Vec<Section>,
    pub(super) layouts: Layouts,
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
            return Err(Error::PipeMode { path: path() });
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
        let (layouts, ids_end) = file.attributes(attrs, attr_size)?;
        let mut formats = Vec::new();
        // A recorder that was killed leaves no size. So does a capture without records, but there
        // the table is where the header says.
        let table = if data.size <= room { file.formats_by_table(data, features) } else { None };
        let is_whole = match table {
            Some(section) => data.size > 0 || file.holds_formats(section),
            None => data.size > 0 && data.size <= room,
        };
        if is_whole {
            formats.extend(table);
        } else {
            data.size = room;
        }
        let gap = data.offset.saturating_sub(ids_end);
        formats.push(Section { offset: ids_end, size: gap });
        Ok(Self { data, formats, layouts })
    }
}

fn section(word: &mut impl FnMut() -> Option<u64>) -> Option<Section> {
    Some(Section { offset: word()?, size: word()? })
}

/// Reads stretches of a file after checking them against its length.
pub(super) struct File<'a, R> {
    reader: &'a mut R,
    pub(super) path: &'a str,
    length: u64,
}

/// One attribute: what its records look like and where its ids are listed.
struct Attribute {
    is_tracepoint: bool,
    layout: Layout,
    ids: Section,
}

impl<'a, R: Read + Seek> File<'a, R> {
    pub(super) fn new(reader: &'a mut R, path: &'a str) -> Result<Self, Error> {
        match reader.seek(SeekFrom::End(0)) {
            Ok(length) => Ok(Self { reader, path, length }),
            Err(source) => Err(Error::Read { path: path.to_owned(), offset: 0, source }),
        }
    }

    /// A whole section. The section must lie in the file and be of a sensible size.
    pub(super) fn bytes(&mut self, section: Section, part: &'static str) -> Result<Vec<u8>, Error> {
        let Section { offset, size } = section;
        let end = offset.checked_add(size);
        if end.is_none_or(|end| end > self.length) || size > MOST_BYTES {
            return Err(self.outside(part, offset));
        }
        let mut bytes = Vec::new();
        let result = self
            .reader
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.reader.by_ref().take(size).read_to_end(&mut bytes));
        match result {
            Ok(read) if read as u64 == size => Ok(bytes),
            Ok(_) => Err(self.outside(part, offset)),
            Err(source) => Err(Error::Read { path: self.path.to_owned(), offset, source }),
        }
    }

    /// Where the feature table, which follows the data, says that the formats lie. There may be none,
    /// as in a copy that was cut.
    fn formats_by_table(&mut self, data: Section, features: u64) -> Option<Section> {
        if features & (1 << FEATURE_TRACING_DATA) == 0 {
            return None;
        }
        // The table lists the features that are present, lowest bit first.
        let before = (features & ((1 << FEATURE_TRACING_DATA) - 1)).count_ones();
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

    fn outside(&self, part: &'static str, offset: u64) -> Error {
        Error::OutOfFile { path: self.path.to_owned(), part, offset }
    }

    /// The layouts of the records, and where the last list of ids ends.
    fn attributes(&mut self, section: Section, entry: u64) -> Result<(Layouts, u64), Error> {
        const PART: &str = "event attributes";
        let outside = self.outside(PART, section.offset);
        if entry < OLDEST_ATTR + IDS_PLACE as u64 || entry > section.size {
            return Err(outside);
        }
        let bytes = self.bytes(section, PART)?;
        let Ok(entry) = usize::try_from(entry) else { return Err(outside) };
        let all: Vec<_> = bytes.chunks_exact(entry).filter_map(Attribute::read).collect();
        let end = all
            .iter()
            .map(|attribute| attribute.ids.offset.saturating_add(attribute.ids.size))
            .fold(section.offset.saturating_add(section.size), u64::max);
        let Some(main) = all.iter().find(|attribute| attribute.is_tracepoint) else {
            let path = self.path.to_owned();
            return Err(Error::NoFormats { path, offset: section.offset });
        };
        if let Some(what) = main.layout.missing() {
            return Err(Error::SampleLayout { path: self.path.to_owned(), what });
        }
        let is_uniform = all.iter().all(|attribute| attribute.layout == main.layout);
        let is_told = all.iter().all(|attribute| attribute.layout.has_identifier());
        if is_uniform || !is_told {
            return Ok((Layouts::uniform(main.layout), end));
        }
        let mut by_id = Vec::new();
        for attribute in &all {
            let ids = self.bytes(attribute.ids, "event ids")?;
            if by_id.len() + ids.len() / 8 > MOST_IDS {
                return Err(self.outside("event ids", attribute.ids.offset));
            }
            let ids = ids.chunks_exact(8).filter_map(|id| u64_at(id, 0));
            by_id.extend(ids.map(|id| (id, attribute.kind())));
        }
        Ok((Layouts::by_id(main.layout, by_id), end))
    }
}

impl Attribute {
    /// `None` when the bytes are too few.
    fn read(bytes: &[u8]) -> Option<Self> {
        let ids = bytes.len().checked_sub(IDS_PLACE)?;
        let has_trailer = u64_at(bytes, 40)? & FLAG_SAMPLE_ID_ALL != 0;
        Some(Self {
            is_tracepoint: u32_at(bytes, 0)? == TYPE_TRACEPOINT,
            layout: Layout::new(u64_at(bytes, 24)?, u64_at(bytes, 32)?, has_trailer),
            ids: Section { offset: u64_at(bytes, ids)?, size: u64_at(bytes, ids + 8)? },
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
