//! Records of a perf file, cut out of large blocks with checked bounds.
//!
//! ```text
//! type u32 │ misc u16 │ size u16, of the whole │ body
//! ```
//!
//! A record of no size ends the stream, because nothing behind it can be found again; so does the
//! end of the file within a record.

use std::io::{Read, Seek, SeekFrom};

use super::header::Section;
use crate::Error;
use crate::bytes::{u16_at, u32_at, u64_at};

/// Bytes read at once; no record is longer than 64 KiB.
const BLOCK: u64 = 1 << 20;
/// Type, misc and size before every record.
const HEADER: usize = 8;
/// A record with trace data of a processor behind it, which its size does not count.
const AUXTRACE: u32 = 71;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) kind: u32,
    pub(super) body: &'a [u8],
}

/// What comes next in the block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    Record(Record<'a>),
    /// A record of no size: the stream ends here.
    Broken,
    /// The block is used up.
    Used,
}

/// How the stream goes on after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    More,
    /// Every record was handed out.
    Ended,
    /// The file ends within a record.
    Cut,
}

/// Hands out the records of a section, block by block.
#[derive(Debug)]
pub(super) struct RecordStream<R> {
    reader: R,
    path: String,
    /// What is still to be read.
    left: Section,
    block: Vec<u8>,
    /// Start of the next record in `block`.
    start: usize,
    /// Bytes to pass over that are not in `block`.
    skip: u64,
}

impl<R: Read + Seek> RecordStream<R> {
    pub(super) fn new(reader: R, path: &str) -> Self {
        Self {
            reader,
            path: path.to_owned(),
            left: Section::default(),
            block: Vec::new(),
            start: 0,
            skip: 0,
        }
    }

    /// Starts at the beginning of `data`.
    pub(super) fn start(&mut self, data: Section) -> Result<(), Error> {
        (self.left, self.start, self.skip) = (data, 0, 0);
        self.block.clear();
        self.seek(data.offset)
    }

    /// Reads the next block behind the rest of the last one.
    pub(super) fn fill(&mut self) -> Result<(), Error> {
        self.block.drain(..self.start);
        self.start = 0;
        if self.skip > 0 {
            let skip = self.skip.min(self.left.size);
            self.left.offset += skip;
            self.left.size -= skip;
            self.skip = 0;
            self.seek(self.left.offset)?;
        }
        let want = self.left.size.min(BLOCK);
        let read = self.reader.by_ref().take(want).read_to_end(&mut self.block);
        let read = read.map_err(|source| self.error(source))? as u64;
        self.left.offset += read;
        // The file became shorter while it was read.
        self.left.size = if read < want { 0 } else { self.left.size - read };
        Ok(())
    }

    /// The next whole record of the block.
    #[inline]
    pub(super) fn next(&mut self) -> Next<'_> {
        let Some(rest) = self.block.get(self.start..) else { return Next::Used };
        let (Some(kind), Some(size)) = (u32_at(rest, 0), u16_at(rest, 6)) else {
            return Next::Used;
        };
        let size = usize::from(size);
        if size < HEADER {
            self.start = self.block.len();
            self.left.size = 0;
            return Next::Broken;
        }
        let Some(body) = rest.get(HEADER..size) else { return Next::Used };
        self.start += size;
        if kind == AUXTRACE {
            let behind = u64_at(body, 0).unwrap_or(0);
            let here = self.block.len().saturating_sub(self.start);
            let inside = usize::try_from(behind).map_or(here, |behind| behind.min(here));
            self.start += inside;
            self.skip = behind - inside as u64;
        }
        Next::Record(Record { kind, body })
    }

    /// How the stream goes on, when `next` says that the block is used up.
    pub(super) fn state(&self) -> State {
        if self.left.size > 0 {
            State::More
        } else if self.start < self.block.len() || self.skip > 0 {
            State::Cut
        } else {
            State::Ended
        }
    }

    /// Where in the file the next record begins.
    pub(super) fn offset(&self) -> u64 {
        self.left.offset - (self.block.len() - self.start) as u64
    }

    fn seek(&mut self, offset: u64) -> Result<(), Error> {
        let sought = self.reader.seek(SeekFrom::Start(offset));
        sought.map(|_| ()).map_err(|source| self.error(source))
    }

    fn error(&self, source: std::io::Error) -> Error {
        Error::Read { path: self.path.clone(), offset: self.left.offset, source }
    }
}
