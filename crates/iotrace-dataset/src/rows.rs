//! What both tables share when they are read: batches, and typed access to their columns.
//!
//! Texts are read as dictionaries where they are stored so: each is turned into its value once a
//! batch and not once a row. Columns that hold nothing but nulls are not read at all.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Int32Type, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

use crate::Error;
use crate::table::SCHEMA_KEY;

/// Rows read at once; divides the rows of a full row group, so that no batch has two
/// dictionaries.
const BATCH_ROWS: usize = 1 << 15;

/// A table that is being read.
pub(crate) struct Batches {
    reader: ParquetRecordBatchReader,
    /// Columns that hold nothing but nulls.
    pub(crate) unread: Vec<String>,
}

impl Batches {
    /// Opens a table of this schema.
    pub(crate) fn open(path: &Path, expected: &'static str) -> Result<Self, Error> {
        let broken = |source| Error::table(path, source);
        let file = File::open(path).map_err(|source| Error::read(path, source))?;
        let plain = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(broken)?;
        let pairs = plain.metadata().file_metadata().key_value_metadata();
        let found = pairs
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == SCHEMA_KEY))
            .and_then(|pair| pair.value.clone())
            .unwrap_or_else(|| "none".to_owned());
        if found != expected {
            return Err(Error::Version { path: path.to_owned(), found, expected });
        }
        let schema = Arc::new(with_dictionaries(plain.schema(), plain.metadata()));
        let options = ArrowReaderOptions::new().with_schema(schema);
        let metadata =
            ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options).map_err(broken)?;
        let fields = metadata.schema().fields().iter().enumerate();
        let (unread, read): (Vec<_>, Vec<_>) = fields.partition(|(_, field)| {
            leaf(metadata.metadata(), field.name())
                .is_some_and(|leaf| holds_only_nulls(metadata.metadata(), leaf))
        });
        let unread = unread.into_iter().map(|(_, field)| field.name().clone()).collect();
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
        let columns = read.into_iter().map(|(place, _)| place);
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
        let reader =
            builder.with_projection(mask).with_batch_size(BATCH_ROWS).build().map_err(broken)?;
        Ok(Self { reader, unread })
    }

    /// The next rows, in the order of the table; `path` is for errors.
    pub(crate) fn next(&mut self, path: &Path) -> Option<Result<RecordBatch, Error>> {
        let batch = self.reader.next()?;
        Some(batch.map_err(|source| Error::table(path, source)))
    }
}

/// The same columns, texts as dictionaries where every row group has one.
fn with_dictionaries(schema: &Schema, metadata: &ParquetMetaData) -> Schema {
    let has_dictionary = |name: &str| {
        leaf(metadata, name).is_some_and(|leaf| {
            let mut groups = metadata.row_groups().iter();
            groups.all(|group| group.column(leaf).dictionary_page_offset().is_some())
        })
    };
    let field = |field: &Arc<Field>| {
        if *field.data_type() != DataType::Utf8 || !has_dictionary(field.name()) {
            return Arc::clone(field);
        }
        let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    let fields: Vec<_> = schema.fields().iter().map(field).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

/// Whether the statistics say that a column has no value. Never so in a table without rows.
fn holds_only_nulls(metadata: &ParquetMetaData, leaf: usize) -> bool {
    let mut groups = metadata.row_groups().iter();
    metadata.num_row_groups() > 0
        && groups.all(|group| {
            let nulls = group.column(leaf).statistics().and_then(Statistics::null_count_opt);
            nulls.is_some_and(|nulls| i64::try_from(nulls) == Ok(group.num_rows()))
        })
}

/// The place of a column that is no list among the columns that Parquet stores.
fn leaf(metadata: &ParquetMetaData, name: &str) -> Option<usize> {
    let columns = metadata.file_metadata().schema_descr().columns();
    columns.iter().position(|column| *column.path().parts() == [name])
}

/// The columns of one batch by name and type. `always_…` refuses nulls.
pub(crate) struct Columns<'a> {
    pub(crate) path: &'a Path,
    pub(crate) batch: &'a RecordBatch,
    pub(crate) unread: &'a [String],
}

impl<'a> Columns<'a> {
    /// A column of numbers; `None` if it has none.
    pub(crate) fn numbers<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<Option<&'a PrimitiveArray<T>>, Error> {
        if self.is_unread(column) {
            return Ok(None);
        }
        self.column(column, |array| array.as_primitive_opt()).map(Some)
    }

    pub(crate) fn always_numbers<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<&'a [T::Native], Error> {
        self.column(column, |array| {
            let numbers = array.as_primitive_opt::<T>().filter(|a| a.null_count() == 0)?;
            Some(numbers.values().as_ref())
        })
    }

    pub(crate) fn lists(&self, column: &'static str) -> Result<&'a ListArray, Error> {
        self.column(column, |array| array.as_list_opt())
    }

    /// A column of texts, each turned into its value by `read`.
    pub(crate) fn words<T>(
        &self,
        column: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Words<'a, T>, Error> {
        let path = self.path;
        if self.is_unread(column) {
            return Ok(Words { path, column, nulls: None, keys: Cow::default(), values: vec![] });
        }
        let value = |text: &str| read(text).ok_or_else(|| text.to_owned());
        self.column(column, |array| {
            if let Some(words) = array.as_dictionary_opt::<Int32Type>() {
                let texts: &StringArray = words.values().as_string_opt()?;
                let keys = Cow::Borrowed(words.keys().values().as_ref());
                let values = texts.iter().map(|text| value(text.unwrap_or_default())).collect();
                return Some(Words { path, column, nulls: words.nulls(), keys, values });
            }
            let texts: &StringArray = array.as_string_opt()?;
            let (mut keys, mut values, mut last) = (Vec::new(), Vec::new(), None);
            for text in texts {
                if let Some(text) = text
                    && last != Some(text)
                {
                    values.push(value(text));
                    last = Some(text);
                }
                keys.push(i32::try_from(values.len()).unwrap_or(0) - 1);
            }
            Some(Words { path, column, nulls: texts.nulls(), keys: Cow::Owned(keys), values })
        })
    }

    fn is_unread(&self, column: &str) -> bool {
        self.unread.iter().any(|name| name == column)
    }

    fn column<T>(
        &self,
        column: &'static str,
        cast: impl FnOnce(&'a dyn Array) -> Option<T>,
    ) -> Result<T, Error> {
        let array = self.batch.column_by_name(column).map(AsRef::as_ref);
        array.and_then(cast).ok_or_else(|| Error::Column { path: self.path.to_owned(), column })
    }
}

/// A column of texts as values.
pub(crate) struct Words<'a, T> {
    path: &'a Path,
    column: &'static str,
    nulls: Option<&'a NullBuffer>,
    /// Keys of the rows; none at all if every row is null.
    keys: Cow<'a, [i32]>,
    /// Values by their key; the text where it is none.
    values: Vec<Result<T, String>>,
}

impl<T: Copy> Words<'_, T> {
    /// The value of a row, `None` where it is null. Fails where the text is no value.
    pub(crate) fn get(&self, row: usize) -> Result<Option<T>, Error> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let Some(key) = self.keys.get(row) else { return Ok(None) };
        match usize::try_from(*key).ok().and_then(|key| self.values.get(key)) {
            Some(Ok(value)) => Ok(Some(*value)),
            Some(Err(text)) => Err(self.refuse(text)),
            None => Err(self.missing()),
        }
    }

    /// The value of a row. Fails where there is none.
    pub(crate) fn always(&self, row: usize) -> Result<T, Error> {
        self.get(row)?.ok_or_else(|| self.missing())
    }

    /// The error for a text that no version writes.
    #[cold]
    fn refuse(&self, text: &str) -> Error {
        let path = self.path.to_owned();
        Error::Value { path, column: self.column, value: text.to_owned() }
    }

    #[cold]
    fn missing(&self) -> Error {
        Error::Column { path: self.path.to_owned(), column: self.column }
    }
}

/// The value of a row, `None` where it is null.
pub(crate) fn get<T: ArrowPrimitiveType>(
    array: Option<&PrimitiveArray<T>>,
    row: usize,
) -> Option<T::Native> {
    array.filter(|array| array.is_valid(row)).map(|array| array.value(row))
}
