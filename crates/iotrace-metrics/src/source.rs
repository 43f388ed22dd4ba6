//! The rows of `requests.parquet`, a block at a time. Polars stays in here.
//!
//! A table is input like any other: words and times that no version of iotrace writes are errors
//! that name the row, and stamps out of order are taken as not seen and counted. Behind this
//! module `queue ≤ insert ≤ issue ≤ complete` holds for whatever of them is there, and no
//! difference of two times overflows.
//!
//! ```text
//!   the caller's thread   reads slice n + 1, waits until slice n is taken
//!   a second thread       makes rows of slice n ──► take
//! ```
//!
//! The channel between them has no room: memory holds two slices.

mod cells;

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use iotrace_model::{DeviceId, Op, Status};
use polars::error::PolarsError;
use polars::prelude::{DataFrame, ParallelStrategy, ParquetReader, SerReader};

use crate::Error;

/// Most rows read at once; a row group of our own tables has no more.
const SLICE: usize = 1 << 18;
/// Rows handed on at once: few enough to stay in the cache.
const BLOCK: usize = 1 << 10;
/// Times beyond this many nanoseconds from the start (73 years) are no times.
const LATEST: i64 = 1 << 61;
/// The largest block that glibc may be made to keep.
const LARGEST_KEPT: usize = (32 << 20) - (64 << 10);

/// What the metrics need of a request. Times are nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) device: DeviceId,
    pub(crate) op: Op,
    pub(crate) status: Status,
    pub(crate) length_bytes: u64,
    pub(crate) queue: Option<i64>,
    pub(crate) insert: Option<i64>,
    pub(crate) issue: Option<i64>,
    pub(crate) complete: Option<i64>,
    pub(crate) requeues: u32,
    pub(crate) merges: u32,
    /// `None` where events are missing.
    pub(crate) overtaken: Option<u32>,
    /// Whether its command was under an NCQ protocol; `None` without driver events.
    pub(crate) queued_command: Option<bool>,
    pub(crate) failed: bool,
    /// Whether a stamp was later than the one after it, and dropped.
    pub(crate) backwards: bool,
}

/// Calls `take` with every block of rows, in the order of the table, on a second thread.
pub(crate) fn for_each_block(path: &Path, take: impl FnMut(&[Row]) + Send) -> Result<(), Error> {
    keep_freed_memory();
    let table = Table { path, name: path.display().to_string() };
    let slices = table.slices()?;
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(0);
        let table = &table;
        let worker = scope.spawn(move || table.take_all(receiver, take));
        let mut read = Ok(());
        for slice in slices {
            let start = slice.start;
            let sent = table.read(slice).map(|frame| sender.send((start, frame)));
            match sent {
                Ok(Ok(())) => {}
                // Whoever takes them has met a row that is none, and returns the error.
                Ok(Err(_)) => break,
                Err(error) => {
                    read = Err(error);
                    break;
                }
            }
        }
        drop(sender);
        let taken = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The rows taken came before the slice that cannot be read.
        taken.and(read)
    })
}

/// Makes the allocator keep what a slice has freed for the next one. glibc returns every large
/// block to the kernel until it has seen a larger one freed; then each slice costs page faults,
/// more than half of the time that reading takes. The memory asked for here is never touched.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGEST_KEPT)));
}

/// A table and what errors call it.
struct Table<'a> {
    path: &'a Path,
    name: String,
}

impl Table<'_> {
    /// Stretches of rows that never cross from one row group into the next, unless those are
    /// small.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the type cannot be named here")]
    fn slices(&self) -> Result<impl Iterator<Item = Range<usize>> + use<>, Error> {
        let mut reader = ParquetReader::new(self.open()?);
        let metadata = reader.get_metadata().map_err(|source| self.broken(&source))?;
        let rows: Vec<usize> = metadata.row_groups.iter().map(|group| group.num_rows()).collect();
        Ok(slices(rows.into_iter()))
    }

    fn read(&self, slice: Range<usize>) -> Result<DataFrame, Error> {
        let mut frame = ParquetReader::new(self.open()?)
            .with_columns(Some(cells::COLUMNS.map(str::to_owned).to_vec()))
            .with_slice(Some((slice.start, slice.len())))
            .read_parallel(ParallelStrategy::None)
            .finish()
            .map_err(|source| self.broken(&source))?;
        frame.rechunk_mut();
        Ok(frame)
    }

    fn take_all(
        &self,
        slices: mpsc::Receiver<(usize, DataFrame)>,
        mut take: impl FnMut(&[Row]),
    ) -> Result<(), Error> {
        let mut rows = Vec::with_capacity(BLOCK);
        for (start, frame) in slices {
            let mut cells = cells::rows(&frame).map_err(|source| self.broken(&source))?;
            for first in (0..frame.height()).step_by(BLOCK) {
                rows.clear();
                for place in first..frame.height().min(first + BLOCK) {
                    let row = cells(place).map_err(|stranger| self.stranger(start, stranger))?;
                    rows.push(row);
                }
                take(&rows);
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<File, Error> {
        File::open(self.path).map_err(|source| Error::Open { path: self.name.clone(), source })
    }

    fn broken(&self, source: &PolarsError) -> Error {
        Error::Table { path: self.name.clone(), reason: source.to_string() }
    }

    fn stranger(&self, start: usize, stranger: cells::Stranger) -> Error {
        let cells::Stranger { place, column, value } = stranger;
        Error::Value { path: self.name.clone(), row: start + place, column, value }
    }
}

/// Joins row groups that are short and cuts those that are too long, one cut at a time: the
/// lengths are what the file claims.
fn slices(row_groups: impl Iterator<Item = usize>) -> impl Iterator<Item = Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    let mut start = 0_usize;
    for rows in row_groups {
        let end = start.saturating_add(rows);
        match joined.last_mut() {
            Some(last) if end - last.start <= SLICE => last.end = end,
            _ => joined.push(start..end),
        }
        start = end;
    }
    let cut = |group: Range<usize>| {
        let end = group.end;
        group.step_by(SLICE).map(move |start| start..end.min(start.saturating_add(SLICE)))
    };
    joined.into_iter().flat_map(cut)
}

impl Row {
    /// Drops every stamp that is later than one that follows it in a request's life.
    fn drop_what_runs_backwards(&mut self) {
        let mut next = self.complete.unwrap_or(LATEST);
        for stamp in [&mut self.issue, &mut self.insert, &mut self.queue] {
            match *stamp {
                Some(time) if time > next => {
                    *stamp = None;
                    self.backwards = true;
                }
                Some(time) => next = time,
                None => {}
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A complete read or write of 512 bytes on 8:0 without an insert.
    pub(crate) fn row(op: Op, queue: i64, issue: i64, complete: i64) -> Row {
        Row {
            device: DeviceId { major: 8, minor: 0 },
            op,
            status: Status::Complete,
            length_bytes: 512,
            queue: Some(queue),
            insert: None,
            issue: Some(issue),
            complete: Some(complete),
            requeues: 0,
            merges: 0,
            overtaken: Some(0),
            queued_command: None,
            failed: false,
            backwards: false,
        }
    }

    #[track_caller]
    fn check(
        [queue, insert, issue]: [Option<i64>; 3],
        expected: [Option<i64>; 3],
        backwards: bool,
    ) {
        let mut row = Row { queue, insert, issue, ..row(Op::Read, 0, 0, 50) };
        row.drop_what_runs_backwards();
        assert_eq!([row.queue, row.insert, row.issue], expected);
        assert_eq!(row.backwards, backwards);
    }

    #[test]
    fn slices_end_where_row_groups_do_unless_those_are_short() {
        let cut = |groups: &[usize]| slices(groups.iter().copied()).collect::<Vec<_>>();
        assert!(cut(&[]).is_empty());
        assert!(cut(&[0]).is_empty());
        assert_eq!(cut(&[SLICE, SLICE, 5]), [0..SLICE, SLICE..2 * SLICE, 2 * SLICE..2 * SLICE + 5]);
        assert_eq!(cut(&[10, 20, 30]), vec![Range { start: 0, end: 60 }]);
        assert_eq!(cut(&[10, SLICE, 1]), [0..10, 10..SLICE + 10, SLICE + 10..SLICE + 11]);
        assert_eq!(slices([usize::MAX, 9].into_iter()).next(), Some(0..SLICE));
        assert_eq!(cut(&[SLICE + 7]), [0..SLICE, SLICE..SLICE + 7]);
    }

    #[test]
    fn a_stamp_later_than_the_next_is_not_seen() {
        check([Some(10), Some(20), Some(30)], [Some(10), Some(20), Some(30)], false);
        check([Some(50), None, Some(50)], [Some(50), None, Some(50)], false);
        check([Some(10), Some(31), Some(30)], [Some(10), None, Some(30)], true);
        check([Some(10), Some(20), Some(51)], [Some(10), Some(20), None], true);
        check([Some(99), Some(99), Some(99)], [None, None, None], true);
    }
}
