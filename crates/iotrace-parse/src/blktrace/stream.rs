//! The records of one blktrace file, whole, in the order in which they stand.
//!
//! A record that is cut by the end of the file is normal: blktrace was killed. Behind bytes that are
//! no record, the stream goes on at the next place that can be one.

use std::io::Read;

use super::record::{Found, Order, Record};
use crate::Error;

/// Bytes read at once.
const BLOCK: u64 = 1 << 20;
/// No record is longer: a header and a payload of 16 bits.
const LONGEST: usize = 64 + (1 << 16);

/// Hands out one record after the other.
pub(super) struct Stream {
    reader: Box<dyn Read + Send>,
    path: String,
    order: Order,
    block: Vec<u8>,
    /// Start of the next record in `block`, and where `block` ends in the file.
    start: usize,
    end: u64,
    ended: bool,
    /// Why it could not be read on, to be told behind what was read.
    failure: Option<Error>,
    /// The record that was found last; its payload lies before `start`.
    record: Record,
    pub(super) broken: Broken,
}

/// What could not be read of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Broken {
    /// Stretches that are no records, and their bytes.
    pub(super) stretches: u64,
    pub(super) bytes: u64,
    /// Where the first one begins.
    pub(super) first: Option<u64>,
    /// Where the record begins that the end of the file cuts.
    pub(super) cut: Option<u64>,
}

impl Stream {
    /// Reads the first block; `path` is the file's name in errors. `None` when the file is empty.
    pub(super) fn open(reader: Box<dyn Read + Send>, path: &str) -> Result<Option<Self>, Error> {
        let mut stream = Self {
            reader,
            path: path.to_owned(),
            order: Order::Little,
            block: Vec::new(),
            start: 0,
            end: 0,
            ended: false,
            failure: None,
            record: Record::default(),
            broken: Broken::default(),
        };
        stream.fill();
        if stream.block.is_empty() {
            return stream.failure.map_or(Ok(None), Err);
        }
        match Order::of(&stream.block) {
            Some(order) => stream.order = order,
            None => return Err(Error::NotBlktrace { path: path.to_owned() }),
        }
        Ok(Some(stream))
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// What has been read and not handed out.
    pub(super) fn ahead(&self) -> &[u8] {
        self.block.get(self.start..).unwrap_or_default()
    }

    /// Goes on to the next record; false at the end, or where the file cannot be read on.
    ///
    /// The record stays in its place, because handing it out costs as much as reading it.
    #[inline]
    pub(super) fn next(&mut self) -> bool {
        loop {
            if !self.ended && self.block.len() - self.start < LONGEST {
                self.fill();
            }
            let rest = self.block.get(self.start..).unwrap_or_default();
            if rest.is_empty() {
                return false;
            }
            match self.order.record(rest) {
                Found::Record(record, size) => {
                    self.start += size;
                    self.record = record;
                    return true;
                }
                Found::Cut => {
                    self.broken.cut = Some(self.offset());
                    self.start = self.block.len();
                }
                Found::Nothing => self.resynchronise(),
            }
        }
    }

    /// The record that `next` went on to.
    #[inline]
    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Its payload.
    #[inline]
    pub(super) fn payload(&self) -> &[u8] {
        let from = self.start.saturating_sub(usize::from(self.record.payload));
        self.block.get(from..self.start).unwrap_or_default()
    }

    /// Why the file could not be read on, told once.
    pub(super) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Passes over bytes up to the next place at which a record can begin.
    fn resynchronise(&mut self) {
        let from = self.offset();
        loop {
            let rest = self.block.get(self.start..).unwrap_or_default();
            match self.order.next_plausible(rest) {
                Some(bytes) => {
                    self.start += bytes;
                    break;
                }
                None if self.ended => {
                    self.start = self.block.len();
                    break;
                }
                // A record can begin in the last bytes and not be known yet.
                None => self.start += rest.len().saturating_sub(LONGEST).max(1),
            }
            self.fill();
        }
        self.broken.stretches += 1;
        self.broken.bytes += self.offset() - from;
        self.broken.first.get_or_insert(from);
    }

    fn offset(&self) -> u64 {
        self.end - (self.block.len() - self.start) as u64
    }

    /// Reads the next block behind the rest of the last one.
    #[cold]
    fn fill(&mut self) {
        self.block.drain(..self.start);
        self.start = 0;
        let before = self.block.len();
        let read = self.reader.by_ref().take(BLOCK).read_to_end(&mut self.block);
        // What was read before an error is there all the same.
        let bytes = (self.block.len() - before) as u64;
        self.end += bytes;
        self.ended = bytes < BLOCK;
        if let Err(source) = read {
            self.failure = Some(Error::Read { path: self.path.clone(), offset: self.end, source });
        }
    }
}

#[cfg(test)]
mod tests {
    use iotrace_testkit::BlktraceBuilder;

    use super::*;

    #[test]
    fn a_cut_record_ends_the_stream() {
        let bytes = BlktraceBuilder::new().queue(10, 0, 8).queue(20, 8, 8).build();
        for cut in 1..48 {
            let (bytes, _) = bytes.split_at(bytes.len() - cut);
            let (records, broken) = read(bytes);
            assert_eq!(records, 1);
            assert_eq!((broken.cut, broken.stretches), (Some(48), 0));
        }
    }

    #[test]
    fn the_stream_goes_on_behind_rubbish() {
        let first = BlktraceBuilder::new().queue(10, 0, 8).build();
        let mut bytes = first.clone();
        bytes.extend([0xaa; 3000]);
        bytes.extend(first);
        let (records, broken) = read(&bytes);
        assert_eq!(records, 2);
        let expected = Broken { stretches: 1, bytes: 3000, first: Some(48), cut: None };
        assert_eq!(broken, expected);
    }

    #[test]
    fn rubbish_longer_than_a_block_is_passed_over() {
        let first = BlktraceBuilder::new().queue(10, 0, 8).build();
        let mut bytes = first.clone();
        let block = usize::try_from(BLOCK).unwrap();
        bytes.resize(first.len() + 3 * block, 0);
        bytes.extend(first);
        let (records, broken) = read(&bytes);
        assert_eq!((records, broken.bytes), (2, 3 * BLOCK));
    }

    #[test]
    fn what_was_read_before_an_error_is_not_lost() {
        let bytes = BlktraceBuilder::new().queue(10, 0, 8).queue(20, 8, 8).build();
        let reader = std::io::Cursor::new(bytes).chain(Failing);
        let mut stream = Stream::open(Box::new(reader), "test").unwrap().unwrap();
        assert!(stream.next());
        assert!(stream.next());
        assert!(!stream.next());
        assert!(matches!(stream.take_failure(), Some(Error::Read { offset: 96, .. })));
    }

    struct Failing;

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("a disk fails"))
        }
    }

    #[track_caller]
    fn read(bytes: &[u8]) -> (u32, Broken) {
        let reader = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let mut stream = Stream::open(reader, "test").unwrap().unwrap();
        let mut records = 0;
        while stream.next() {
            records += 1;
        }
        (records, stream.broken)
    }
}
