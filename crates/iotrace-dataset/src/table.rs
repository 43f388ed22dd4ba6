//! What both tables share: the writer's settings, and typed access to the columns of a batch.
//!
//! Parquet holds one row group in memory at a time, encoded; that bounds the writer. Columns
//! that climb or wander in small steps are stored as differences, all others by dictionary:
//! they repeat a few values. A dictionary that grows too large is given up for that row group.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Schema};
use iotrace_model::DeviceId;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::Error;

/// Rows read at once.
const BATCH_ROWS: usize = 1 << 16;
/// Key of the Parquet key-value that names the schema.
const SCHEMA_KEY: &str = "iotrace.schema";

/// What a finished table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// What sets one table apart from the other.
pub(crate) struct Kind {
    /// Name and version of its schema.
    pub(crate) name: &'static str,
    /// Its columns.
    pub(crate) schema: Arc<Schema>,
    /// Most rows of a row group.
    pub(crate) row_group: usize,
    /// Columns stored as differences to the row before.
    pub(crate) delta: &'static [&'static str],
}

/// Rows to a Parquet file, a row group at a time.
pub(crate) struct Table<W: Write + Send> {
    path: PathBuf,
    schema: Arc<Schema>,
    writer: ArrowWriter<W>,
    rows: u64,
}

impl<W: Write + Send> Table<W> {
    /// Starts a table; `path` is for errors.
    pub(crate) fn new(
        path: PathBuf,
        file: W,
        kind: Kind,
        metadata: &[(String, String)],
    ) -> Result<Self, Error> {
        let writer = properties(&kind, metadata)
            .and_then(|properties| {
                ArrowWriter::try_new(file, Arc::clone(&kind.schema), Some(properties))
            })
            .map_err(|source| Error::table(&path, source))?;
        Ok(Self { path, schema: kind.schema, writer, rows: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes columns in the order of the schema.
    pub(crate) fn write(&mut self, columns: Vec<Arc<dyn Array>>) -> Result<(), Error> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|source| Error::table(&self.path, source))?;
        self.rows += batch.num_rows() as u64;
        self.writer.write(&batch).map_err(|source| Error::table(&self.path, source))
    }

    pub(crate) fn finish(mut self) -> Result<Written, Error> {
        self.writer.finish().map_err(|source| Error::table(&self.path, source))?;
        Ok(Written { rows: self.rows, bytes: self.writer.bytes_written() as u64 })
    }
}

fn properties(
    kind: &Kind,
    metadata: &[(String, String)],
) -> parquet::errors::Result<WriterProperties> {
    let mut pairs = vec![KeyValue::new(SCHEMA_KEY.to_owned(), kind.name.to_owned())];
    pairs.extend(metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())));
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(kind.row_group))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(format!("iotrace {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(pairs));
    for field in kind.schema.fields() {
        if kind.delta.contains(&field.name().as_str()) {
            let mut path = vec![field.name().clone()];
            if let DataType::List(item) = field.data_type() {
                path.extend(["list".to_owned(), item.name().clone()]);
            }
            let path = ColumnPath::new(path);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// Makes the file of a table; there must be none.
pub(crate) fn create(path: &Path) -> Result<File, Error> {
    File::create_new(path).map_err(|source| Error::write(path, source))
}

/// The batches of a table of this schema, in the order of its rows.
pub(crate) fn batches(
    path: &Path,
    expected: &'static str,
) -> Result<impl Iterator<Item = Result<RecordBatch, Error>> + use<>, Error> {
    let path = path.to_owned();
    let broken = |source| Error::table(&path, source);
    let file = File::open(&path).map_err(|source| Error::read(&path, source))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(broken)?;
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let found = pairs
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == SCHEMA_KEY))
        .and_then(|pair| pair.value.clone())
        .unwrap_or_else(|| "none".to_owned());
    if found != expected {
        return Err(Error::Version { path, found, expected });
    }
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(broken)?;
    Ok(reader.map(move |batch| batch.map_err(|source| Error::table(&path, source))))
}

/// The columns of one batch by name and type. `always_…` refuses nulls.
pub(crate) struct Columns<'a> {
    pub(crate) path: &'a Path,
    pub(crate) batch: &'a RecordBatch,
}

impl<'a> Columns<'a> {
    pub(crate) fn numbers<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<&'a PrimitiveArray<T>, Error> {
        self.column(column, |array| array.as_primitive_opt())
    }

    pub(crate) fn always_numbers<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<&'a PrimitiveArray<T>, Error> {
        self.column(column, |array| array.as_primitive_opt().filter(|a| a.null_count() == 0))
    }

    pub(crate) fn strings(&self, column: &'static str) -> Result<&'a StringArray, Error> {
        self.column(column, |array| array.as_string_opt())
    }

    pub(crate) fn always_strings(&self, column: &'static str) -> Result<&'a StringArray, Error> {
        self.column(column, |array| array.as_string_opt().filter(|a| a.null_count() == 0))
    }

    pub(crate) fn lists(&self, column: &'static str) -> Result<&'a ListArray, Error> {
        self.column(column, |array| array.as_list_opt())
    }

    /// A text turned into its value.
    pub(crate) fn value<T>(
        &self,
        column: &'static str,
        text: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Error> {
        read(text).ok_or_else(|| self.refuse(column, text.to_owned()))
    }

    /// A text turned into its value, `None` where it is null.
    pub(crate) fn optional<T>(
        &self,
        column: &'static str,
        text: Option<&str>,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        text.map(|text| self.value(column, text, read)).transpose()
    }

    pub(crate) fn device(&self, column: &'static str, text: &str) -> Result<DeviceId, Error> {
        self.value(column, text, DeviceId::parse)
    }

    /// The error for a value that no version writes.
    pub(crate) fn refuse(&self, column: &'static str, value: String) -> Error {
        Error::Value { path: self.path.to_owned(), column, value }
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

/// The value of a row, `None` where it is null.
pub(crate) fn get<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    row: usize,
) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

/// The text of a row, `None` where it is null.
pub(crate) fn get_text(array: &StringArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}
