//! `manifest.json`: what a dataset holds. It is renamed into place last.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{DeviceDocument, LedgerEntryDocument};

/// Name and version of `manifest.json`.
pub const MANIFEST_SCHEMA: &str = "iotrace/manifest/1";

/// A whole dataset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `MANIFEST_SCHEMA`.
    pub schema: String,
    /// Version of the program.
    pub tool_version: String,
    /// When the recording began, nanoseconds since the epoch.
    pub created_realtime_ns: i64,
    /// Whether the drive was simulated.
    pub simulated: bool,
    /// What was planned.
    pub plan: PlanDocument,
    /// The runs in their order.
    pub runs: Vec<RunEntry>,
    /// The machine.
    pub host: Map<String, Value>,
    /// The devices, as they were in the first run.
    pub devices: Vec<DeviceDocument>,
    /// Losses of all runs together.
    pub ledger: Vec<LedgerEntryDocument>,
    /// Why the dataset is incomplete, one sentence each; empty when it is not.
    pub incomplete: Vec<String>,
    /// SHA-256 of every file, by its path in the dataset.
    pub checksums: BTreeMap<String, String>,
}

/// What was planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// The workload.
    pub command: Vec<String>,
    /// Settings that vary or are set.
    pub factors: Vec<FactorDocument>,
    /// Measured runs of every configuration.
    pub repeat: u32,
    /// Warm-up runs of every configuration.
    pub warmup: u32,
    /// Pause after a change of settings, milliseconds.
    pub settle_ms: u64,
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
    /// The settings that vary.
    pub configuration: Vec<(String, String)>,
    /// Repetition, from 0.
    pub repetition: u32,
    /// Whether it was a warm-up.
    pub warmup: bool,
    /// Exit code of the workload; null when a signal ended it.
    pub exit_code: Option<i32>,
}
