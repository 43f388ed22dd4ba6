//! Why a table of requests could not be summed up.

/// Why a table of requests could not be summed up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table cannot be opened.
    #[error("cannot read {path}")]
    Open {
        /// The table.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The table is no Parquet file, or lacks a column.
    #[error("{path}: the table of requests cannot be read: {reason}; record or import it again")]
    Table {
        /// The table.
        path: String,
        /// What the Parquet reader says.
        reason: String,
    },
    /// A row holds what no version of iotrace writes.
    #[error("{path}: row {row}: column {column} holds {value:?}, which is no value of it")]
    Value {
        /// The table.
        path: String,
        /// The row, from 0.
        row: usize,
        /// The column.
        column: &'static str,
        /// The value.
        value: String,
    },
}
