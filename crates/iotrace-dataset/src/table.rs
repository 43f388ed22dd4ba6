//! What both tables share: the writer's settings and typed access to the columns of a batch.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::datatypes::{ArrowPrimitiveType, Schema};
use iotrace_model::DeviceId;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::Error;

/// Rows read at once.
const BATCH_ROWS: usize = 1 << 16;

/// What a finished table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Rows to a Parquet file, a row group at a time.
pub(crate) struct Table<W: Write + Send> {
    name: &'static str,
    writer: ArrowWriter<W>,
    rows: u64,
}

/// How a column is best stored.
pub(crate) enum Layout {
    /// Differences to the row before: times, sequences, sectors.
    Delta(&'static [&'static str]),
    /// As it stands, compressed: no dictionary could help.
    Plain(&'static [&'static str]),
}

impl<W: Write + Send> Table<W> {
    pub(crate) fn new(
        name: &'static str,
        file: W,
        schema: &Arc<Schema>,
        row_group: usize,
        layouts: &[Layout],
        metadata: &[(String, String)],
    ) -> Result<Self, Error> {
        let mut pairs = vec![KeyValue::new("iotrace.schema".to_owned(), name.to_owned())];
        pairs.extend(metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())));
        let level = ZstdLevel::try_new(1).map_err(|source| parquet_error(name, source))?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(row_group))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(format!("iotrace {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(pairs));
        for layout in layouts {
            let (columns, encoding) = match layout {
                Layout::Delta(columns) => (columns, Encoding::DELTA_BINARY_PACKED),
                Layout::Plain(columns) => (columns, Encoding::PLAIN),
            };
            for column in *columns {
                let path = ColumnPath::from(*column);
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, encoding);
            }
        }
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties.build()))
            .map_err(|source| parquet_error(name, source))?;
        Ok(Self { name, writer, rows: 0 })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|source| parquet_error(self.name, source))
    }

    pub(crate) fn finish(mut self) -> Result<Written, Error> {
        self.writer.finish().map_err(|source| parquet_error(self.name, source))?;
        Ok(Written { rows: self.rows, bytes: self.writer.bytes_written() as u64 })
    }
}

pub(crate) fn parquet_error(table: &str, source: parquet::errors::ParquetError) -> Error {
    Error::Parquet { table: table.to_owned(), source }
}

/// Opens a table whose schema must be `expected`; batches come in the order of the rows.
pub(crate) fn open(path: &Path, expected: &'static str) -> Result<ParquetRecordBatchReader, Error> {
    let file = File::open(path).map_err(|source| Error::read(path, source))?;
    let name = path.display().to_string();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|source| parquet_error(&name, source))?;
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let found = pairs
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == "iotrace.schema"))
        .and_then(|pair| pair.value.clone())
        .unwrap_or_else(|| "none".to_owned());
    if found != expected {
        return Err(Error::Version { path: path.to_owned(), found, expected });
    }
    builder.with_batch_size(BATCH_ROWS).build().map_err(|source| parquet_error(&name, source))
}

/// The columns of one batch by name and type.
pub(crate) struct Columns<'a> {
    pub(crate) table: &'a str,
    pub(crate) batch: &'a RecordBatch,
}

impl<'a> Columns<'a> {
    fn column(&self, column: &'static str) -> Result<&'a dyn Array, Error> {
        self.batch.column_by_name(column).map(AsRef::as_ref).ok_or_else(|| self.missing(column))
    }

    fn missing(&self, column: &'static str) -> Error {
        Error::Column { table: self.table.to_owned(), column }
    }

    pub(crate) fn numbers<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<&'a PrimitiveArray<T>, Error> {
        self.column(column)?.as_primitive_opt().ok_or_else(|| self.missing(column))
    }

    pub(crate) fn strings(&self, column: &'static str) -> Result<&'a StringArray, Error> {
        self.column(column)?.as_string_opt().ok_or_else(|| self.missing(column))
    }

    pub(crate) fn lists(&self, column: &'static str) -> Result<&'a ListArray, Error> {
        self.column(column)?.as_list_opt().ok_or_else(|| self.missing(column))
    }

    /// A text of a row turned into its value.
    pub(crate) fn value<T>(
        &self,
        column: &'static str,
        text: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Error> {
        read(text).ok_or_else(|| Error::Value {
            table: self.table.to_owned(),
            column,
            value: text.to_owned(),
        })
    }

    pub(crate) fn device(&self, column: &'static str, text: &str) -> Result<DeviceId, Error> {
        self.value(column, text, DeviceId::parse)
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

/// A `u32` column as the 16 bits that it was written from.
#[expect(clippy::cast_possible_truncation, reason = "the writer widened a u16")]
pub(crate) fn get_u16<T>(array: &PrimitiveArray<T>, row: usize) -> Option<u16>
where
    T: ArrowPrimitiveType<Native = u32>,
{
    get(array, row).map(|value| value as u16)
}
