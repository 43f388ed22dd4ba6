//! Why a dataset could not be written or read.

use std::io;
use std::path::PathBuf;

/// Why a dataset could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The place for a new dataset is taken.
    #[error("{path} exists already; give another --output or remove it")]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The file system is full.
    #[error("no space left while writing {path}; what was finished before is whole")]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Something could not be written.
    #[error("cannot write {path}")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder holds no dataset.
    #[error("{path} is no dataset: it has neither manifest.json nor a folder of runs")]
    NotADataset {
        /// The folder.
        path: PathBuf,
    },
    /// The recorder was stopped before it could finish the dataset.
    #[error(
        "{path} is unfinished: manifest.json is missing, so the recording was cut short; \
         {finished} of its runs are whole, each with run.json and its tables under runs/"
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
        /// Runs with a `run.json`.
        finished: usize,
    },
    /// A document of another version of iotrace.
    #[error(
        "{path} has schema {found}, this version reads {expected}; use the iotrace that wrote it"
    )]
    Version {
        /// The document.
        path: PathBuf,
        /// Its schema.
        found: String,
        /// The schema that can be read.
        expected: &'static str,
    },
    /// A document is not what its schema says.
    #[error("{path} cannot be understood")]
    Document {
        /// The document.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A table cannot be written or read.
    #[error("{table}: the Parquet table is broken or cannot be written")]
    Parquet {
        /// The table, or its path.
        table: String,
        /// Why.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// A batch of columns does not fit together.
    #[error("{table}: the columns do not fit together")]
    Arrow {
        /// The table, or its path.
        table: String,
        /// Why.
        #[source]
        source: arrow::error::ArrowError,
    },
    /// A column has another name or type than the schema.
    #[error("{table}: column {column} is missing or has another type")]
    Column {
        /// The table, or its path.
        table: String,
        /// The column.
        column: &'static str,
    },
    /// A value that no version of iotrace writes.
    #[error("{table}: column {column} holds {value:?}, which is no value of it")]
    Value {
        /// The table, or its path.
        table: String,
        /// The column.
        column: &'static str,
        /// The value.
        value: String,
    },
}

impl Error {
    pub(crate) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        if source.kind() == io::ErrorKind::StorageFull {
            return Error::DiskFull { path };
        }
        Error::Write { path, source }
    }

    pub(crate) fn read(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Read { path: path.into(), source }
    }
}
