//! `manifest.json`: what a dataset holds.
//!
//! It is renamed into place last, so a folder with a manifest is a finished dataset. The shape
//! is that of `schemas/manifest-1.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::ordered;
use crate::{DeviceDocument, FactsDocument, LedgerEntryDocument};

/// Name and version of `manifest.json`.
pub const MANIFEST_SCHEMA: &str = "iotrace/manifest/1";

/// A whole dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `MANIFEST_SCHEMA`; `finish` sets it.
    pub schema: String,
    /// Version of the program.
    pub tool_version: String,
    /// When the recording began, as RFC 3339 text.
    pub created: String,
    /// Whether the drive was simulated.
    pub simulated: bool,
    /// Why the dataset is incomplete, one sentence each; empty when it is complete.
    pub incomplete: Vec<String>,
    /// What was planned.
    pub plan: PlanDocument,
    /// The runs in the order in which they ran, warm-ups included.
    pub runs: Vec<RunEntry>,
    /// The machine.
    pub host: FactsDocument,
    /// The devices, as they were in the first run.
    pub devices: Vec<DeviceDocument>,
    /// Losses of all runs together.
    pub ledger: Vec<LedgerEntryDocument>,
    /// SHA-256 of every other file, by its path in the dataset; `finish` sets it.
    pub checksums: BTreeMap<String, String>,
}

/// What was planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// The workload and its arguments.
    pub command: Vec<String>,
    /// Settings that vary or are set.
    pub factors: Vec<FactorDocument>,
    /// Measured runs of every configuration.
    pub repeat: u32,
    /// Warm-up runs of every configuration.
    pub warmup: u32,
    /// Pause after a change of settings, milliseconds.
    pub settle_ms: u64,
    /// Folders of the planned runs in their order, those that never ran included.
    pub order: Vec<String>,
}

/// One setting of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactorDocument {
    /// Its key, as in the folder names.
    pub key: String,
    /// Its values; the first is the baseline.
    pub values: Vec<String>,
}

/// One run of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEntry {
    /// Its folder in the dataset.
    pub folder: String,
    /// The settings that vary, in the plan's order.
    #[serde(with = "ordered")]
    pub configuration: Vec<(String, String)>,
    /// Repetition, from 0.
    pub repetition: u32,
    /// Whether it was a warm-up.
    pub warmup: bool,
    /// Exit code of the workload; null when a signal ended it or none was run.
    pub exit_code: Option<i32>,
}
