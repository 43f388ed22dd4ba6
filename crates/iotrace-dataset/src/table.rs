//! What both tables share when they are written: the file, its row groups and their pages.
//!
//! The caller's thread gathers columns and writes finished row groups; between them stands the
//! thread of `encoder`. In memory are at most three pages and two encoded row groups.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::Schema;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::Error;
use crate::cells::Column;
use crate::encoder::{Encoder, Group};

/// Key of the Parquet key-value that names the schema.
pub(crate) const SCHEMA_KEY: &str = "iotrace.schema";

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
    pub(crate) schema: Schema,
    /// Most rows of a page.
    pub(crate) page: usize,
    /// Most rows of a row group, a multiple of a page.
    pub(crate) row_group: usize,
}

/// Columns under construction, in the order of the schema.
pub(crate) type Columns<'a> = Vec<&'a mut dyn Column>;

/// Rows to a Parquet file, a page at a time.
pub(crate) struct Table<W: Write + Send> {
    path: PathBuf,
    writer: SerializedFileWriter<W>,
    encoder: Encoder,
    kind: Kind,
    rows: u64,
    /// Rows gathered for the next page.
    in_page: usize,
    /// Rows handed over since the row group began.
    in_group: usize,
}

impl<W: Write + Send> Table<W> {
    /// Starts a table; `path` is for errors.
    pub(crate) fn new(
        path: PathBuf,
        file: W,
        kind: Kind,
        columns: &Columns<'_>,
        metadata: &[(String, String)],
    ) -> Result<Self, Error> {
        let start = || {
            let schema = ArrowSchemaConverter::new().convert(&kind.schema)?;
            let properties = Arc::new(properties(&kind, metadata));
            SerializedFileWriter::new(file, schema.root_schema_ptr(), properties)
        };
        let writer = start().map_err(|source| Error::table(&path, source))?;
        let coded: Vec<_> = columns.iter().map(|column| column.is_coded()).collect();
        let encoder = Encoder::start(writer.schema_descr(), &coded)
            .map_err(|source| Error::write(&path, source))?;
        Ok(Self { path, writer, encoder, kind, rows: 0, in_page: 0, in_group: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many rows may be gathered before the next call of `gathered`.
    pub(crate) fn room(&self) -> usize {
        self.kind.page - self.in_page
    }

    /// Takes note of `rows` more rows in the columns, at most `room`; takes the page if it is
    /// full.
    pub(crate) fn gathered(&mut self, rows: usize, mut columns: Columns<'_>) -> Result<(), Error> {
        self.in_page += rows;
        let is_full = columns.iter().any(|column| column.is_full());
        if self.in_page < self.kind.page && !is_full {
            return Ok(());
        }
        self.take_page(&mut columns);
        if self.in_group >= self.kind.row_group || is_full {
            self.end_group(&mut columns);
        }
        while let Some(group) = self.encoder.finished_group() {
            self.write_group(group)?;
        }
        Ok(())
    }

    /// Takes what is left in the columns and writes the footer.
    pub(crate) fn finish(mut self, mut columns: Columns<'_>) -> Result<Written, Error> {
        if self.in_page > 0 {
            self.take_page(&mut columns);
        }
        if self.in_group > 0 {
            self.end_group(&mut columns);
        }
        while let Some(group) = self.encoder.last_groups() {
            self.write_group(group)?;
        }
        self.writer.finish().map_err(|source| Error::table(&self.path, source))?;
        Ok(Written { rows: self.rows, bytes: self.writer.bytes_written() as u64 })
    }

    fn take_page(&mut self, columns: &mut Columns<'_>) {
        let mut page = self.encoder.empty_page();
        for (column, cells) in columns.iter_mut().zip(&mut page) {
            column.swap(cells);
        }
        self.encoder.page(page, self.in_page);
        self.rows += self.in_page as u64;
        self.in_group += self.in_page;
        self.in_page = 0;
    }

    fn end_group(&mut self, columns: &mut Columns<'_>) {
        self.encoder.end_group(columns.iter_mut().map(|column| column.take_dictionary()).collect());
        self.in_group = 0;
    }

    fn write_group(&mut self, group: parquet::errors::Result<Group>) -> Result<(), Error> {
        let write = || {
            let mut row_group = self.writer.next_row_group()?;
            for (bytes, close) in group? {
                row_group.append_column(&bytes, close)?;
            }
            row_group.close()
        };
        write().map(drop).map_err(|source| Error::table(&self.path, source))
    }
}

fn properties(kind: &Kind, metadata: &[(String, String)]) -> WriterProperties {
    let mut pairs = vec![KeyValue::new(SCHEMA_KEY.to_owned(), kind.name.to_owned())];
    pairs.extend(metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())));
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("iotrace {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(pairs))
        .set_offset_index_disabled(true)
        .build();
    add_encoded_arrow_schema_to_metadata(&kind.schema, &mut properties);
    properties
}

/// Makes the file of a table; there must be none.
pub(crate) fn create(path: &Path) -> Result<File, Error> {
    File::create_new(path).map_err(|source| Error::write(path, source))
}
