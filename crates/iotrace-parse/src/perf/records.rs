//! Records of a perf file, cut out of large blocks with checked bounds.
//!
//! ```text
//! type u32 │ misc u16 │ size u16, of the whole │ body
//! ```
//!
//! Records inside compressed ones come in their place, as if the file were not compressed. A record
//! of no size ends the stream, because nothing behind it can be found again; so does the end of the
//! file within a record.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;

use super::file::Section;
use super::inflate::{Inflated, Inflater};
use super::kind;
use crate::Error;
use crate::bytes::{u16_at, u32_at, u64_at};

/// Bytes of a block, small enough for a processor's cache; no record is longer than 64 KiB.
const BLOCK: usize = 256 << 10;
/// Type, misc and size before every record.
const HEADER: usize = 8;

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
    /// A compressed record that cannot be read; the stream goes on behind it.
    Damaged,
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
    /// Always of `BLOCK` bytes.
    block: Vec<u8>,
    /// What of `block` was read and not handed out yet.
    ready: Range<usize>,
    /// Bytes to pass over that are not in `block`.
    skip: u64,
    /// Made for the first compressed record.
    inflater: Option<Inflater>,
    /// What of `block` is still to be decompressed; `None` outside of compressed records.
    payload: Option<Range<usize>>,
}

/// Where a body lies, or why none was found.
enum Found {
    InBlock(u32, Range<usize>),
    Inflated(u32, Range<usize>),
    Damaged,
    Broken,
    Used,
}

impl<R: Read + Seek> RecordStream<R> {
    pub(super) fn new(reader: R, path: &str) -> Self {
        Self {
            reader,
            path: path.to_owned(),
            left: Section::default(),
            block: vec![0; BLOCK],
            ready: 0..0,
            skip: 0,
            inflater: None,
            payload: None,
        }
    }

    /// Starts at the beginning of `data`.
    pub(super) fn start(&mut self, data: Section) -> Result<(), Error> {
        (self.left, self.ready, self.skip, self.payload) = (data, 0..0, 0, None);
        if let Some(inflater) = &mut self.inflater {
            inflater.reset();
        }
        self.seek(data.offset)
    }

    /// Reads the next block behind the rest of the last one, which must be used up.
    pub(super) fn fill(&mut self) -> Result<(), Error> {
        let rest = self.ready.len();
        self.block.copy_within(self.ready.clone(), 0);
        self.ready = 0..rest;
        if self.skip > 0 {
            let skip = self.skip.min(self.left.size);
            self.left.offset += skip;
            self.left.size -= skip;
            self.skip = 0;
            self.seek(self.left.offset)?;
        }
        while self.left.size > 0
            && let Some(room) = self.block.get_mut(self.ready.end..).filter(|room| !room.is_empty())
        {
            let most =
                usize::try_from(self.left.size).map_or(room.len(), |left| left.min(room.len()));
            match self.reader.read(room.get_mut(..most).unwrap_or_default()) {
                // The file became shorter while it was read.
                Ok(0) => self.left.size = 0,
                Ok(read) => {
                    self.ready.end += read;
                    self.left.offset += read as u64;
                    self.left.size -= read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(error)),
            }
        }
        Ok(())
    }

    /// The next whole record of the block.
    #[inline]
    pub(super) fn next(&mut self) -> Next<'_> {
        let (kind, body) = match self.find() {
            Found::InBlock(kind, place) => (kind, self.block.get(place)),
            Found::Inflated(kind, place) => {
                let inflater = self.inflater.as_ref();
                (kind, inflater.and_then(|inflater| inflater.buffer().get(place)))
            }
            Found::Damaged => return Next::Damaged,
            Found::Broken => return Next::Broken,
            Found::Used => return Next::Used,
        };
        body.map_or(Next::Used, |body| Next::Record(Record { kind, body }))
    }

    /// How the stream goes on, when `next` says that the block is used up.
    pub(super) fn state(&self) -> State {
        let is_cut_inside = || self.inflater.as_ref().is_some_and(|inner| !inner.ready.is_empty());
        if self.left.size > 0 {
            State::More
        } else if !self.ready.is_empty() || self.skip > 0 || is_cut_inside() {
            State::Cut
        } else {
            State::Ended
        }
    }

    /// Where in the file the next record begins that is not inside of another.
    pub(super) fn offset(&self) -> u64 {
        self.left.offset - self.ready.len() as u64
    }

    /// Whether a compressed record was met.
    pub(super) fn is_compressed(&self) -> bool {
        self.inflater.is_some()
    }

    #[inline]
    fn find(&mut self) -> Found {
        loop {
            if self.payload.is_some()
                && let Some(found) = self.find_inside()
            {
                return found;
            }
            let ready = self.block.get(..self.ready.end).unwrap_or_default();
            let (kind, body) = match cut(ready, self.ready.start) {
                Cut::Record(kind, body) => (kind, body),
                Cut::NoSize => return self.end(),
                Cut::Short => return Found::Used,
            };
            self.ready.start = body.end;
            match kind {
                kind::COMPRESSED | kind::COMPRESSED2 => {
                    let Some(payload) = payload(kind, &self.block, body) else {
                        return Found::Damaged;
                    };
                    if self.inflater.is_none() {
                        self.inflater = Inflater::new();
                    }
                    self.payload = Some(payload);
                }
                kind::AUXTRACE | kind::HEADER_TRACING_DATA => {
                    let behind = behind(kind, self.block.get(body.clone()).unwrap_or_default());
                    self.pass_over(behind);
                    return Found::InBlock(kind, body);
                }
                _ => return Found::InBlock(kind, body),
            }
        }
    }

    /// The next record inside the compressed one; `None` when there is no more.
    fn find_inside(&mut self) -> Option<Found> {
        let payload = self.payload.as_mut()?;
        let Some(inflater) = &mut self.inflater else {
            self.payload = None;
            return Some(Found::Damaged);
        };
        loop {
            let ready = inflater.buffer().get(..inflater.ready.end).unwrap_or_default();
            match cut(ready, inflater.ready.start) {
                Cut::Record(kind, body) => {
                    inflater.ready.start = body.end;
                    return Some(Found::Inflated(kind, body));
                }
                Cut::NoSize => {
                    inflater.reset();
                    return Some(self.end());
                }
                Cut::Short => {}
            }
            match inflater.more(self.block.get(payload.clone()).unwrap_or_default()) {
                Ok(Inflated::More(taken)) => payload.start += taken,
                Ok(Inflated::Done) => {
                    self.payload = None;
                    return None;
                }
                Err(_) => {
                    inflater.reset();
                    self.payload = None;
                    return Some(Found::Damaged);
                }
            }
        }
    }

    /// Ends the stream: nothing more can be found.
    fn end(&mut self) -> Found {
        self.ready.start = self.ready.end;
        self.left.size = 0;
        self.payload = None;
        Found::Broken
    }

    /// Passes over bytes that are no records.
    fn pass_over(&mut self, bytes: u64) {
        let here = self.ready.len();
        let inside = usize::try_from(bytes).map_or(here, |bytes| bytes.min(here));
        self.ready.start += inside;
        self.skip = bytes - inside as u64;
    }

    fn seek(&mut self, offset: u64) -> Result<(), Error> {
        let sought = self.reader.seek(SeekFrom::Start(offset));
        sought.map(|_| ()).map_err(|source| self.error(source))
    }

    fn error(&self, source: std::io::Error) -> Error {
        Error::Read { path: self.path.clone(), offset: self.left.offset, source }
    }
}

/// What stands at a place.
enum Cut {
    /// A kind, and where its body is.
    Record(u32, Range<usize>),
    NoSize,
    Short,
}

#[inline]
fn cut(bytes: &[u8], start: usize) -> Cut {
    let rest = bytes.get(start..).unwrap_or_default();
    let (Some(kind), Some(size)) = (u32_at(rest, 0), u16_at(rest, 6)) else { return Cut::Short };
    match usize::from(size) {
        ..HEADER => Cut::NoSize,
        size if size > rest.len() => Cut::Short,
        size => Cut::Record(kind, start + HEADER..start + size),
    }
}

/// Where the compressed bytes of a record are; newer ones begin with their number, because their
/// end is padded. `None` when there are fewer.
fn payload(kind: u32, block: &[u8], body: Range<usize>) -> Option<Range<usize>> {
    if kind == kind::COMPRESSED {
        return Some(body);
    }
    let size = usize::try_from(u64_at(block.get(body.clone())?, 0)?).ok()?;
    let start = body.start + 8;
    let end = start.checked_add(size)?;
    (end <= body.end).then_some(start..end)
}

/// Bytes behind a record that its size does not count: trace data of a processor, event formats.
fn behind(kind: u32, body: &[u8]) -> u64 {
    match kind {
        kind::AUXTRACE => u64_at(body, 0).unwrap_or(0),
        _ => u32_at(body, 0).map_or(0, u64::from).next_multiple_of(8),
    }
}
