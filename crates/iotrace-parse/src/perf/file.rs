//! Stretches of a file that are read whole, after a check against its length.

use std::io::{Read, Seek, SeekFrom};

use crate::Error;

/// No section that is read whole is larger; all formats of a kernel are a few MiB.
const MOST_BYTES: u64 = 64 << 20;

/// A stretch of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Reads stretches of a file after checking them against its length.
pub(super) struct File<'a, R> {
    pub(super) reader: &'a mut R,
    pub(super) path: &'a str,
    pub(super) length: u64,
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

    pub(super) fn outside(&self, part: &'static str, offset: u64) -> Error {
        Error::OutOfFile { path: self.path.to_owned(), part, offset }
    }
}
