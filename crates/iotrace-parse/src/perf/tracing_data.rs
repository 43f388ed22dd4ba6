//! The event formats in a perf file (`HEADER_TRACING_DATA`).
//!
//! The layout is trace-cmd's, version 0.5 or 0.6 (`trace-cmd.dat.v6(5)`): magic, version, byte order,
//! sizes, `header_page`, `header_event`, the formats of ftrace's own events, those of each system.

use std::io::{Read, Seek};

use super::file::{File, Section};
use super::header::FORMATS_MAGIC;
use crate::Error;
use crate::bytes::{u32_at, u64_at};
use crate::format::Format;

/// Reads every format from the first of `places` that holds any; the order is that of the file.
pub(super) fn read<R: Read + Seek>(
    file: &mut File<'_, R>,
    places: &[Section],
) -> Result<Vec<Format>, Error> {
    let path = || file.path.to_owned();
    let mut failure = Error::NoFormats {
        path: path(),
        offset: places.first().map_or(0, |section| section.offset),
    };
    for section in places {
        let offset = section.offset;
        match file.bytes(*section, "event formats") {
            Ok(bytes) if bytes.starts_with(FORMATS_MAGIC) => {
                let mut cursor = Cursor { bytes: &bytes, at: FORMATS_MAGIC.len() };
                match formats(&mut cursor) {
                    Ok(formats) => return Ok(formats),
                    Err(part) => {
                        failure = Error::BadFormats { path: file.path.to_owned(), offset, part };
                    }
                }
            }
            Ok(_) => {}
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn formats(cursor: &mut Cursor<'_>) -> Result<Vec<Format>, &'static str> {
    cursor.text().ok_or("the version")?;
    // Byte order, size of a long, page size.
    cursor.skip(1 + 1 + 4).ok_or("the sizes")?;
    cursor.named_file(b"header_page\0").ok_or("header_page")?;
    cursor.named_file(b"header_event\0").ok_or("header_event")?;
    for _ in 0..cursor.u32().ok_or("the number of ftrace events")? {
        cursor.file().ok_or("the format of an ftrace event")?;
    }
    let mut formats = Vec::new();
    for _ in 0..cursor.u32().ok_or("the number of event systems")? {
        cursor.text().ok_or("the name of an event system")?;
        for _ in 0..cursor.u32().ok_or("the number of events")? {
            let text = cursor.file().ok_or("the format of an event")?;
            formats.extend(Format::parse(&String::from_utf8_lossy(text)));
        }
    }
    Ok(formats)
}

/// A place in the blob; every step is checked against its end.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn skip(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(bytes)?;
        let skipped = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(skipped)
    }

    fn u32(&mut self) -> Option<u32> {
        self.skip(4).and_then(|bytes| u32_at(bytes, 0))
    }

    fn u64(&mut self) -> Option<u64> {
        self.skip(8).and_then(|bytes| u64_at(bytes, 0))
    }

    /// A text that ends with NUL.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes.get(self.at..)?.iter().position(|byte| *byte == 0)?;
        let text = self.skip(length);
        self.skip(1)?;
        text
    }

    /// A file: its length and its bytes.
    fn file(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u64()?).ok()?;
        self.skip(length)
    }

    fn named_file(&mut self, name: &[u8]) -> Option<&'a [u8]> {
        (self.skip(name.len())? == name).then_some(())?;
        self.file()
    }
}
