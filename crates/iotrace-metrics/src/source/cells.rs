//! The cells of a slice as rows.
//!
//! A column of words repeats a few of them, and Polars keeps a short one inside its cell, so
//! that equal cells are equal words: each is parsed once and then looked up.

use iotrace_dataset::columns;
use iotrace_model::{DeviceId, Op, Status};
use polars::prelude::{
    DataFrame, Int32Type, Int64Type, PolarsNumericType, PolarsResult, StaticArray, StringChunked,
    UInt32Type, UInt64Type,
};

use super::{LATEST, Row};

/// The columns that are read.
pub(super) const COLUMNS: [&str; 14] = [
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

/// Longest word that lies inside its cell.
const INLINE: usize = 12;
/// Words of a column that are looked up; more are parsed each time.
const MOST_WORDS: usize = 32;

/// A value that no version of iotrace writes.
pub(super) struct Stranger {
    /// The row, in the slice.
    pub(super) place: usize,
    pub(super) column: &'static str,
    pub(super) value: String,
}

/// Reads single rows of a slice whose columns have one chunk each.
pub(super) fn rows(
    frame: &DataFrame,
) -> PolarsResult<impl FnMut(usize) -> Result<Row, Stranger> + use<'_>> {
    let status = |text: &str| Status::ALL.into_iter().find(|status| status.name() == text);
    let device = words(columns::DEVICE, frame, DeviceId::parse)?;
    let op = words(columns::OP, frame, Op::from_name)?;
    let status = words(columns::STATUS, frame, status)?;
    let protocol = words(columns::PROTOCOL, frame, |name| Some(name.starts_with("ata_ncq")))?;
    let length_bytes = numbers::<UInt64Type>(columns::LENGTH_BYTES, frame)?;
    let queue = times(columns::QUEUE_NS, frame)?;
    let insert = times(columns::INSERT_NS, frame)?;
    let issue = times(columns::ISSUE_NS, frame)?;
    let complete = times(columns::COMPLETE_NS, frame)?;
    let requeues = numbers::<UInt32Type>(columns::REQUEUES, frame)?;
    let front_merges = numbers::<UInt32Type>(columns::FRONT_MERGES, frame)?;
    let back_merges = numbers::<UInt32Type>(columns::BACK_MERGES, frame)?;
    let overtaken = numbers::<UInt32Type>(columns::OVERTAKEN, frame)?;
    let error = numbers::<Int32Type>(columns::ERROR, frame)?;
    Ok(move |place| {
        let mut row = Row {
            device: device.always(place)?,
            op: op.always(place)?,
            status: status.always(place)?,
            length_bytes: length_bytes(place).unwrap_or(0),
            queue: queue(place)?,
            insert: insert(place)?,
            issue: issue(place)?,
            complete: complete(place)?,
            requeues: requeues(place).unwrap_or(0),
            merges: front_merges(place)
                .unwrap_or(0)
                .saturating_add(back_merges(place).unwrap_or(0)),
            overtaken: overtaken(place),
            queued_command: protocol.get(place),
            failed: error(place).is_some_and(|error| error != 0),
            backwards: false,
        };
        row.drop_what_runs_backwards();
        Ok(row)
    })
}

/// A column of numbers, `None` where it is null.
fn numbers<'a, T: PolarsNumericType>(
    column: &'static str,
    frame: &'a DataFrame,
) -> PolarsResult<impl Fn(usize) -> Option<T::Native> + use<'a, T>> {
    let array = frame.column(column)?.as_materialized_series().unpack::<T>()?.downcast_as_array();
    Ok(move |place| array.get(place))
}

/// A column of times.
fn times<'a>(
    column: &'static str,
    frame: &'a DataFrame,
) -> PolarsResult<impl Fn(usize) -> Result<Option<i64>, Stranger> + use<'a>> {
    let time = numbers::<Int64Type>(column, frame)?;
    Ok(move |place| match time(place) {
        Some(time) if !(-LATEST..=LATEST).contains(&time) => {
            Err(Stranger { place, column, value: time.to_string() })
        }
        known => Ok(known),
    })
}

/// A column of words.
struct Words<'a, T> {
    column: &'static str,
    texts: &'a StringChunked,
    /// One for each row; `None` for null and for a word that is none.
    values: Vec<Option<T>>,
}

fn words<'a, T: Copy>(
    column: &'static str,
    frame: &'a DataFrame,
    parse: impl Fn(&str) -> Option<T>,
) -> PolarsResult<Words<'a, T>> {
    let texts = frame.column(column)?.str()?;
    let mut values = Vec::with_capacity(texts.len());
    if texts.null_count() == texts.len() {
        values.resize(texts.len(), None);
        return Ok(Words { column, texts, values });
    }
    let array = texts.downcast_as_array();
    let has_nulls = texts.null_count() > 0;
    // The word of the last row and all others, by cell.
    let mut last = None;
    let mut known: Vec<(u128, Option<T>)> = Vec::new();
    for (place, view) in array.views().iter().enumerate() {
        if has_nulls && array.get(place).is_none() {
            values.push(None);
            continue;
        }
        let cell = view.as_u128();
        let looked_up = last
            .filter(|(one, _)| *one == cell)
            .or_else(|| known.iter().copied().find(|(one, _)| *one == cell));
        let value = if let Some((_, value)) = looked_up {
            value
        } else {
            let text = array.get(place).unwrap_or_default();
            let value = parse(text);
            if text.len() <= INLINE && known.len() < MOST_WORDS {
                known.push((cell, value));
            }
            value
        };
        last = Some((cell, value));
        values.push(value);
    }
    Ok(Words { column, texts, values })
}

impl<T: Copy> Words<'_, T> {
    fn get(&self, place: usize) -> Option<T> {
        self.values.get(place).copied().flatten()
    }

    /// The value of a column that never is null.
    fn always(&self, place: usize) -> Result<T, Stranger> {
        self.get(place).ok_or_else(|| {
            let value = self.texts.get(place).unwrap_or("null").to_owned();
            Stranger { place, column: self.column, value }
        })
    }
}
