//! The header of a perf file, its event attributes and where things lie.

use std::io::{Read, Seek, SeekFrom};

use super::sample::Layout;
use crate::Error;
use crate::bytes::{at, u32_at, u64_at};

/// Bytes of the header in file mode.
const HEADER: usize = 104;
/// Bit of the event formats in the feature bitmap.
const FEATURE_TRACING_DATA: u32 = 1;
/// Attributes of more events than this are no perf file's.
const MOST_ATTRS: u64 = 1 << 16;
/// The kernel's limit on tracepoint formats is far below this.
pub(super) const MOST_FORMATS_BYTES: u64 = 64 << 20;

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
    /// Where the formats lie: from the feature table, or before the data of a cut capture.
    pub(super) formats: Option<Section>,
    pub(super) layout: Layout,
}

impl Header {
    pub(super) fn read<R: Read + Seek>(reader: &mut R, path: &str) -> Result<Self, Error> {
        let length = reader.seek(SeekFrom::End(0)).map_err(|source| Error::Read {
            path: path.to_owned(),
            offset: 0,
            source,
        })?;
        let mut file = File { reader, path, length };
        let start = file.bytes(Section { offset: 0, size: length.min(HEADER as u64) }, "header")?;
        match start.get(..8) {
            Some(b"PERFILE2") => {}
            Some(b"2ELIFREP") => return Err(Error::BigEndian { path: path.to_owned() }),
            Some(_) | None => return Err(Error::BadMagic { path: path.to_owned() }),
        }
        if u64_at(&start, 8) == Some(16) {
            return Err(Error::PipeMode { path: path.to_owned() });
        }
        let number = |offset| {
            u64_at(&start, offset).ok_or(Error::OutOfFile {
                path: path.to_owned(),
                part: "header",
                offset: 0,
            })
        };
        let attr_size = number(16)?;
        let attrs = Section { offset: number(24)?, size: number(32)? };
        let mut data = Section { offset: number(40)?, size: number(48)? };
        let features = number(72)?;
        if data.offset > length {
            return Err(file.outside("data", data.offset));
        }
        let is_cut = data.size == 0;
        if is_cut || data.size > length - data.offset {
            data.size = length - data.offset;
        }
        let (layout, ids_end) = file.attributes(attrs, attr_size)?;
        let formats = if features & (1 << FEATURE_TRACING_DATA) != 0 && !is_cut {
            // The table lists the features that are present, lowest bit first.
            let before = (features & ((1 << FEATURE_TRACING_DATA) - 1)).count_ones();
            let entry = Section {
                offset: (data.offset + data.size).saturating_add(u64::from(before) * 16),
                size: 16,
            };
            file.bytes(entry, "feature table").ok().and_then(|bytes| {
                Some(Section { offset: u64_at(&bytes, 0)?, size: u64_at(&bytes, 8)? })
            })
        } else {
            let size = data.offset.saturating_sub(ids_end);
            (size > 0).then_some(Section { offset: ids_end, size })
        };
        Ok(Self { data, formats, layout })
    }
}

/// Reads stretches of a file after checking them against its length.
pub(super) struct File<'a, R> {
    pub(super) reader: &'a mut R,
    pub(super) path: &'a str,
    pub(super) length: u64,
}

impl<R: Read + Seek> File<'_, R> {
    pub(super) fn bytes(&mut self, section: Section, part: &'static str) -> Result<Vec<u8>, Error> {
        let end = section.offset.checked_add(section.size);
        if end.is_none_or(|end| end > self.length) || section.size > MOST_FORMATS_BYTES {
            return Err(self.outside(part, section.offset));
        }
        let path = self.path.to_owned();
        let read = |source| Error::Read { path, offset: section.offset, source };
        let mut bytes = Vec::new();
        let result = self
            .reader
            .seek(SeekFrom::Start(section.offset))
            .and_then(|_| self.reader.by_ref().take(section.size).read_to_end(&mut bytes));
        result.map_err(read)?;
        if bytes.len() as u64 != section.size {
            return Err(self.outside(part, section.offset));
        }
        Ok(bytes)
    }

    pub(super) fn outside(&self, part: &'static str, offset: u64) -> Error {
        Error::OutOfFile { path: self.path.to_owned(), part, offset }
    }

    /// The layout of the samples, and where the last list of ids ends.
    fn attributes(&mut self, attrs: Section, attr_size: u64) -> Result<(Layout, u64), Error> {
        let entry = attr_size;
        if entry < 64 + 16 || attrs.size / entry > MOST_ATTRS {
            return Err(self.outside("event attributes", attrs.offset));
        }
        let bytes = self.bytes(attrs, "event attributes")?;
        let mut layout: Option<Layout> = None;
        let mut end = attrs.offset.saturating_add(attrs.size);
        let entry = usize::try_from(entry).unwrap_or(usize::MAX);
        for attribute in bytes.chunks_exact(entry) {
            let ids = attribute.len() - 16;
            if let (Some(offset), Some(size)) = (u64_at(attribute, ids), u64_at(attribute, ids + 8))
            {
                end = end.max(offset.saturating_add(size));
            }
            let flags = at(attribute, 40).map_or(0, u64::from_le_bytes);
            let this = Layout::new(
                u64_at(attribute, 24).unwrap_or(0),
                u64_at(attribute, 32).unwrap_or(0),
                flags & (1 << 18) != 0,
            );
            // Other events, such as the dummy of perf's side band, come with other layouts; the
            // tracepoints are what is read here.
            if u32_at(attribute, 0) == Some(2) || layout.is_none() {
                layout = Some(this);
            }
        }
        let layout = layout.ok_or_else(|| self.outside("event attributes", attrs.offset))?;
        match layout.missing() {
            Some(what) => Err(Error::SampleLayout { path: self.path.to_owned(), what }),
            None => Ok((layout, end)),
        }
    }
}
