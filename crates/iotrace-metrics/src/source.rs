//! The rows of `requests.parquet`, a slice at a time. Polars stays in here.
//!
//! A table is input like any other: words and times that no version of iotrace writes are errors
//! that name the row, and stamps out of order are taken as not seen and counted. Behind this
//! module `queue ≤ insert ≤ issue ≤ complete` holds for whatever of them is there, and no
//! difference of two times overflows.

use std::fs::File;
use std::path::Path;

use iotrace_dataset::columns;
use iotrace_model::{DeviceId, Op, Status};
use polars::error::PolarsError;
use polars::prelude::{DataFrame, ParquetReader, PolarsResult, SerReader};

use crate::Error;

/// Rows read at once: as many as a row group of our own tables has.
const SLICE: usize = 1 << 18;
/// Times beyond this many nanoseconds from the start (73 years) are no times.
const LATEST: i64 = 1 << 61;

const COLUMNS: [&str; 14] = [
    columns::DEVICE,
    columns::OP,
    columns::STATUS,
    columns::PROTOCOL,
    columns::LENGTH_BYTES,
    columns::QUEUE_NS,
    columns::INSERT_NS,
    columns::ISSUE_NS,
    columns::COMPLETE_NS,
    columns::REQUEUES,
    columns::FRONT_MERGES,
    columns::BACK_MERGES,
    columns::OVERTAKEN,
    columns::ERROR,
];

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

/// Calls `take` with every slice of rows, in the order of the table.
pub(crate) fn for_each_slice(path: &Path, mut take: impl FnMut(&[Row])) -> Result<(), Error> {
    let name = path.display().to_string();
    let open = || File::open(path).map_err(|source| Error::Open { path: name.clone(), source });
    let table =
        |source: PolarsError| Error::Table { path: name.clone(), reason: source.to_string() };
    let total = ParquetReader::new(open()?).num_rows().map_err(table)?;
    let mut rows = Vec::new();
    for start in (0..total).step_by(SLICE) {
        let frame = ParquetReader::new(open()?)
            .with_columns(Some(COLUMNS.map(str::to_owned).to_vec()))
            .with_slice(Some((start, SLICE.min(total - start))))
            .finish()
            .map_err(table)?;
        let columns = Columns::of(&frame).map_err(table)?;
        rows.clear();
        for place in 0..frame.height() {
            rows.push(columns.row(place).map_err(|Stranger { column, value }| Error::Value {
                path: name.clone(),
                row: start + place,
                column,
                value,
            })?);
        }
        take(&rows);
    }
    Ok(())
}

/// A value that no version of iotrace writes.
struct Stranger {
    column: &'static str,
    value: String,
}

/// The columns of a slice, all of one length.
struct Columns<'a> {
    device: Vec<Option<&'a str>>,
    op: Vec<Option<&'a str>>,
    status: Vec<Option<&'a str>>,
    protocol: Vec<Option<&'a str>>,
    length_bytes: Vec<Option<u64>>,
    queue: Vec<Option<i64>>,
    insert: Vec<Option<i64>>,
    issue: Vec<Option<i64>>,
    complete: Vec<Option<i64>>,
    requeues: Vec<Option<u32>>,
    front_merges: Vec<Option<u32>>,
    back_merges: Vec<Option<u32>>,
    overtaken: Vec<Option<u32>>,
    error: Vec<Option<i32>>,
}

impl<'a> Columns<'a> {
    fn of(frame: &'a DataFrame) -> PolarsResult<Self> {
        let texts = |name| -> PolarsResult<Vec<Option<&'a str>>> {
            Ok(frame.column(name)?.str()?.iter().collect())
        };
        let times = |name| -> PolarsResult<Vec<Option<i64>>> {
            Ok(frame.column(name)?.i64()?.iter().collect())
        };
        let counts = |name| -> PolarsResult<Vec<Option<u32>>> {
            Ok(frame.column(name)?.u32()?.iter().collect())
        };
        Ok(Self {
            device: texts(columns::DEVICE)?,
            op: texts(columns::OP)?,
            status: texts(columns::STATUS)?,
            protocol: texts(columns::PROTOCOL)?,
            length_bytes: frame.column(columns::LENGTH_BYTES)?.u64()?.iter().collect(),
            queue: times(columns::QUEUE_NS)?,
            insert: times(columns::INSERT_NS)?,
            issue: times(columns::ISSUE_NS)?,
            complete: times(columns::COMPLETE_NS)?,
            requeues: counts(columns::REQUEUES)?,
            front_merges: counts(columns::FRONT_MERGES)?,
            back_merges: counts(columns::BACK_MERGES)?,
            overtaken: counts(columns::OVERTAKEN)?,
            error: frame.column(columns::ERROR)?.i32()?.iter().collect(),
        })
    }

    fn row(&self, place: usize) -> Result<Row, Stranger> {
        let count = |column: &[Option<u32>]| at(column, place).unwrap_or(0);
        let status = |text: &str| Status::ALL.into_iter().find(|status| status.name() == text);
        let mut row = Row {
            device: word(columns::DEVICE, at(&self.device, place), DeviceId::parse)?,
            op: word(columns::OP, at(&self.op, place), Op::from_name)?,
            status: word(columns::STATUS, at(&self.status, place), status)?,
            length_bytes: at(&self.length_bytes, place).unwrap_or(0),
            queue: time(columns::QUEUE_NS, at(&self.queue, place))?,
            insert: time(columns::INSERT_NS, at(&self.insert, place))?,
            issue: time(columns::ISSUE_NS, at(&self.issue, place))?,
            complete: time(columns::COMPLETE_NS, at(&self.complete, place))?,
            requeues: count(&self.requeues),
            merges: count(&self.front_merges).saturating_add(count(&self.back_merges)),
            overtaken: at(&self.overtaken, place),
            queued_command: at(&self.protocol, place).map(|name| name.starts_with("ata_ncq")),
            failed: at(&self.error, place).is_some_and(|error| error != 0),
            backwards: false,
        };
        row.drop_what_runs_backwards();
        Ok(row)
    }
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

fn at<T: Copy>(column: &[Option<T>], place: usize) -> Option<T> {
    column.get(place).copied().flatten()
}

fn word<T>(
    column: &'static str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, Stranger> {
    let stranger = || Stranger { column, value: text.unwrap_or("null").to_owned() };
    text.and_then(parse).ok_or_else(stranger)
}

fn time(column: &'static str, time: Option<i64>) -> Result<Option<i64>, Stranger> {
    match time {
        Some(time) if !(-LATEST..=LATEST).contains(&time) => {
            Err(Stranger { column, value: time.to_string() })
        }
        known => Ok(known),
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
    fn a_stamp_later_than_the_next_is_not_seen() {
        check([Some(10), Some(20), Some(30)], [Some(10), Some(20), Some(30)], false);
        check([Some(50), None, Some(50)], [Some(50), None, Some(50)], false);
        check([Some(10), Some(31), Some(30)], [Some(10), None, Some(30)], true);
        check([Some(10), Some(20), Some(51)], [Some(10), Some(20), None], true);
        check([Some(99), Some(99), Some(99)], [None, None, None], true);
    }
}
