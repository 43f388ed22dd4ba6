//! Events and requests to and from Parquet, and the folder that holds them.
//!
//! Arrow, Parquet and JSON stay inside: the tables speak in types of `iotrace-model`, the
//! documents are plain structs. `schemas/` is the contract, and tests hold this code to it.

#![forbid(unsafe_code)]

pub mod columns;

mod cells;
mod checksum;
mod chunk;
mod document;
mod encode;
mod encoder;
mod error;
mod events;
mod facts;
mod folder;
mod manifest;
mod requests;
mod rows;
mod table;
mod text;

pub use checksum::checksum;
pub use columns::{EVENTS_SCHEMA, REQUESTS_SCHEMA};
pub use document::{
    AtaPortDocument, CaptureDocument, DeviceDocument, ImportDocument, LedgerEntryDocument,
    MessageDocument, RUN_SCHEMA, RowsDocument, RunDocument, ledger_from_documents,
    ledger_to_documents,
};
pub use error::Error;
pub use events::{EventWriter, read_events};
pub use facts::FactsDocument;
pub use folder::{DRAFT, Dataset, Remains, Run, create, finish, remains, run_folder, write_json};
pub use manifest::{FactorDocument, MANIFEST_SCHEMA, Manifest, PlanDocument, RunEntry};
pub use requests::{RequestWriter, read_requests};
pub use table::Written;
