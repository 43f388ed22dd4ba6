//! Why a dataset could not be written or read.
//!
//! Every error names the file or folder; a full disk is told apart from other failed writes,
//! however deep in the Parquet writer it came up.

use std::io;
use std::path::PathBuf;

/// What lies below an error of a library that stays inside this crate.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a dataset could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The place for a new dataset is taken.
    #[error("{path} exists already; give another --output or remove it")]
    OutputExists {
        /// The folder.
        path: PathBuf,
    },
    /// The file system is full.
    #[error(
        "no space is left for {path}; free some or write to another file system, \
         runs finished before are whole"
    )]
    StorageFull {
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
    /// There is nothing at that place.
    #[error("there is no directory {path}")]
    NotFound {
        /// The folder.
        path: PathBuf,
    },
    /// Whatever is there is no dataset.
    #[error("{path} is no dataset: it has neither manifest.json nor a folder of runs")]
    NotADataset {
        /// The folder.
        path: PathBuf,
    },
    /// The recorder was stopped before it could finish the dataset.
    #[error(
        "{path} is unfinished: it has no manifest.json and {finished} finished runs; its recorder was \
         stopped; finish it with iotrace import --recover {path}"
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
        /// Measured runs with a `run.json`.
        finished: usize,
    },
    /// There is nothing to recover.
    #[error("{path} is finished: it has a manifest.json, and nothing to recover")]
    Finished {
        /// The folder.
        path: PathBuf,
    },
    /// A document or table of another version of iotrace.
    #[error(
        "{path} has schema {found:?}, this version reads {expected:?}; \
         use the iotrace that wrote it"
    )]
    Version {
        /// The document or table.
        path: PathBuf,
        /// Its schema; `none` if it names none.
        found: String,
        /// The schema that can be read.
        expected: &'static str,
    },
    /// A document is not what its schema says.
    #[error("{path} does not follow its schema")]
    Document {
        /// The document.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: Source,
    },
    /// A manifest names a run outside of its dataset.
    #[error("{path} names the folder {folder:?}, which is not inside the dataset")]
    OutsideFolder {
        /// The manifest.
        path: PathBuf,
        /// The folder.
        folder: String,
    },
    /// A Parquet table cannot be written or read.
    #[error("{path}: the Parquet table is broken or cannot be written")]
    Table {
        /// The table.
        path: PathBuf,
        /// Why.
        #[source]
        source: Source,
    },
    /// A column is not what the table's schema says.
    #[error("{path}: column {column} is missing, has another type or holds nulls")]
    Column {
        /// The table.
        path: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A value that no version of iotrace writes.
    #[error("{path}: column {column} holds {value:?}, which is no value of it")]
    Value {
        /// The table.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The value.
        value: String,
    },
    /// A CPU number that no kernel has; the column holds 16 bits.
    #[error("{path}: CPU {cpu} cannot be stored, the largest number is 65535")]
    CpuOutOfRange {
        /// The table.
        path: PathBuf,
        /// The number.
        cpu: u32,
    },
}

impl Error {
    pub(crate) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        if source.kind() == io::ErrorKind::StorageFull {
            return Error::StorageFull { path };
        }
        Error::Write { path, source }
    }

    pub(crate) fn read(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Read { path: path.into(), source }
    }

    pub(crate) fn table(path: impl Into<PathBuf>, source: impl Into<Source>) -> Self {
        let (path, source) = (path.into(), source.into());
        if is_storage_full(source.as_ref()) {
            return Error::StorageFull { path };
        }
        Error::Table { path, source }
    }

    pub(crate) fn document(path: impl Into<PathBuf>, source: impl Into<Source>) -> Self {
        Error::Document { path: path.into(), source: source.into() }
    }
}

fn is_storage_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            return true;
        }
        next = error.source();
    }
    false
}
