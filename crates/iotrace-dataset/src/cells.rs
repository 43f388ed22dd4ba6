//! Columns while they are gathered: plain vectors of numbers, a page's worth at a time.
//!
//! A column is either of numbers that differ from row to row (times, sectors) or of values that
//! repeat. The latter become codes at once, by a small cache before a map, so that an encoder
//! need not hash and a text is formatted once a row group. Values stand close together; whether
//! a row has one stands beside.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// One column of one page.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// Codes of the values, for a column of repeating ones.
    pub(crate) codes: Vec<u16>,
    /// The values, for a column of numbers; signed ones by their bits.
    pub(crate) numbers: Vec<u64>,
    /// 1 for a row with a value and 0 for null; empty where null cannot be.
    pub(crate) present: Vec<u8>,
    /// For a list, how many values a row has; 0 is null.
    pub(crate) lengths: Vec<u32>,
}

impl Cells {
    pub(crate) fn clear(&mut self) {
        self.codes.clear();
        self.numbers.clear();
        self.present.clear();
        self.lengths.clear();
    }
}

/// A value of a dictionary, as Parquet stores it. Those of one column are of one kind, and their
/// order is that of the column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stored {
    /// A signed number of 32 bits.
    Signed(i32),
    /// An unsigned number of at most 32 bits.
    Small(u32),
    /// An unsigned number of 64 bits.
    Large(u64),
    /// A text.
    Text(String),
}

/// A column of any kind, as a page is taken from it.
pub(crate) trait Column {
    /// Takes what was gathered and leaves `cells`, which are empty, in its place.
    fn swap(&mut self, cells: &mut Cells);
    /// Whether values are codes.
    fn is_coded(&self) -> bool;
    /// Whether the row group must end soon because codes run out.
    fn is_full(&self) -> bool;
    /// The values of the codes so far, which are forgotten: the next code is 0 again.
    fn take_dictionary(&mut self) -> Vec<Stored>;
}

/// A column of numbers that differ from row to row.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    cells: Cells,
}

impl Numbers {
    /// Adds rows to a column without nulls.
    pub(crate) fn extend(&mut self, rows: impl ExactSizeIterator<Item = u64>) {
        self.cells.numbers.extend(rows);
    }

    /// Adds rows to a column with nulls.
    pub(crate) fn extend_optional(
        &mut self,
        rows: impl ExactSizeIterator<Item = Option<u64>> + Clone,
    ) {
        if rows.clone().all(|row| row.is_none()) {
            return self.cells.present.extend(std::iter::repeat_n(0, rows.len()));
        }
        self.cells.present.extend(rows.clone().map(|row| u8::from(row.is_some())));
        let values = &mut self.cells.numbers;
        let mut end = values.len();
        // Written whether there or not, kept only if there: no branch that is guessed wrong.
        values.resize(end + rows.len(), 0);
        for row in rows {
            if let Some(value) = values.get_mut(end) {
                *value = row.unwrap_or_default();
            }
            end += usize::from(row.is_some());
        }
        values.truncate(end);
    }

    /// Adds so many rows to a column of lists, each of them null.
    pub(crate) fn extend_nulls(&mut self, rows: usize) {
        self.cells.lengths.extend(std::iter::repeat_n(0, rows));
    }

    /// Adds one row to a column of lists; an empty one is null.
    pub(crate) fn push_list(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        self.cells.lengths.push(u32::try_from(values.len()).unwrap_or(u32::MAX));
        self.cells.numbers.extend(values);
    }
}

impl Column for Numbers {
    fn swap(&mut self, cells: &mut Cells) {
        std::mem::swap(&mut self.cells, cells);
    }

    fn is_coded(&self) -> bool {
        false
    }

    fn is_full(&self) -> bool {
        false
    }

    fn take_dictionary(&mut self) -> Vec<Stored> {
        Vec::new()
    }
}

/// A column of values that repeat.
#[derive(Debug)]
pub(crate) struct Coded<T> {
    cells: Cells,
    /// Values by their code.
    values: Vec<T>,
    codes: HashMap<T, u16>,
    /// Values seen lately with their codes, each at the one place where its hash belongs.
    lately: Vec<Option<(T, u16)>>,
    store: fn(T) -> Stored,
}

/// Places of `Coded::lately`, a power of two.
const LATELY: usize = 1 << 10;
/// Values after which a row group ends; more can be added before somebody looks, but fewer than
/// there are codes.
const MOST: usize = 1 << 15;

impl<T: Copy + Eq + Hash> Coded<T> {
    /// An empty column whose values are stored as `store` says.
    pub(crate) fn new(store: fn(T) -> Stored) -> Self {
        Self {
            cells: Cells::default(),
            values: Vec::new(),
            codes: HashMap::new(),
            lately: vec![None; LATELY],
            store,
        }
    }

    /// Adds rows to a column without nulls, fewer than `MOST` between two looks at `is_full`.
    pub(crate) fn extend(&mut self, rows: impl ExactSizeIterator<Item = T> + Clone) {
        self.cells.codes.reserve(rows.len());
        if let Some(same) = the_same(rows.clone()) {
            let code = self.code(same);
            return self.cells.codes.extend(std::iter::repeat_n(code, rows.len()));
        }
        rows.for_each(|row| {
            let code = self.code(row);
            self.cells.codes.push(code);
        });
    }

    /// Adds rows to a column with nulls, fewer than `MOST` between two looks at `is_full`.
    pub(crate) fn extend_optional(
        &mut self,
        rows: impl ExactSizeIterator<Item = Option<T>> + Clone,
    ) {
        let count = rows.len();
        if let Some(same) = the_same(rows.clone()) {
            self.cells.present.extend(std::iter::repeat_n(u8::from(same.is_some()), count));
            if let Some(value) = same {
                let code = self.code(value);
                self.cells.codes.extend(std::iter::repeat_n(code, count));
            }
            return;
        }
        self.cells.present.extend(rows.clone().map(|row| u8::from(row.is_some())));
        self.cells.codes.reserve(count);
        for value in rows.flatten() {
            let code = self.code(value);
            self.cells.codes.push(code);
        }
    }

    fn code(&mut self, value: T) -> u16 {
        let mut mix = Mix(0);
        value.hash(&mut mix);
        let place = mix.place();
        if let Some(Some((kept, code))) = self.lately.get(place)
            && *kept == value
        {
            return *code;
        }
        self.look_up(value, place)
    }

    #[cold]
    fn look_up(&mut self, value: T, place: usize) -> u16 {
        let next = u16::try_from(self.values.len())
            .expect("row groups end at MOST values, and steps between are shorter");
        let code = *self.codes.entry(value).or_insert(next);
        if code == next {
            self.values.push(value);
        }
        self.lately[place] = Some((value, code));
        code
    }
}

impl<T: Copy + Eq + Hash> Column for Coded<T> {
    fn swap(&mut self, cells: &mut Cells) {
        std::mem::swap(&mut self.cells, cells);
    }

    fn is_coded(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.values.len() >= MOST
    }

    fn take_dictionary(&mut self) -> Vec<Stored> {
        self.codes.clear();
        self.lately.fill(None);
        self.values.drain(..).map(self.store).collect()
    }
}

/// What all rows are, if they are the same. Ends at the first that differs, so that it costs
/// next to nothing where they are not.
fn the_same<T: Copy + PartialEq>(mut rows: impl Iterator<Item = T>) -> Option<T> {
    let first = rows.next()?;
    rows.all(|row| row == first).then_some(first)
}

/// A hash that costs a multiplication; it only chooses places in a cache, where a bad choice
/// costs time and nothing else.
struct Mix(u64);

impl Mix {
    fn place(&self) -> usize {
        let [.., low, high] = self.0.to_le_bytes();
        usize::from(u16::from_le_bytes([low, high])) / (1 << 16 >> LATELY.ilog2())
    }

    fn add(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.add(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.add(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    fn write_i32(&mut self, value: i32) {
        self.add(u64::from(value.cast_unsigned()));
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.add(value.cast_unsigned() as u64);
    }
}
