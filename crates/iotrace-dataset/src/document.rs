//! `run.json`: what is known of one run beside its tables.
//!
//! The shape is that of `schemas/run-1.json`. Times are nanoseconds, settings are as read back
//! from the kernel, and keys that this version does not know are passed over.

use std::collections::BTreeMap;

use iotrace_model::{
    AtaPort, Cause, Cpu, DeviceFacts, DeviceId, Entry, Facts, Ledger, Nanos, Sector,
};
use serde::{Deserialize, Serialize};

use crate::FactsDocument;

/// Name and version of `run.json`.
pub const RUN_SCHEMA: &str = "iotrace/run/1";

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDocument {
    /// `RUN_SCHEMA`.
    pub schema: String,
    /// Version of the program.
    pub tool_version: String,
    /// The settings that vary, in the plan's order.
    #[serde(with = "ordered")]
    pub configuration: Vec<(String, String)>,
    /// Repetition, from 0.
    pub repetition: u32,
    /// Whether it was a warm-up, which no statistic uses.
    pub warmup: bool,
    /// Place in the plan, from 0.
    pub order: u32,
    /// Clock of the tables: `CLOCK_MONOTONIC`; `unknown` where an imported trace does not tell.
    pub clock: String,
    /// That clock at time 0 of the tables; 0 where it is not known.
    pub clock_origin_ns: i64,
    /// Wall clock at time 0 of the tables, since the epoch; 0 where it is not known.
    pub started_realtime_ns: i64,
    /// The workload and its arguments.
    pub command: Vec<String>,
    /// The user it ran as; null when the recorder's own.
    pub run_as: Option<String>,
    /// Its exit code; null when a signal ended it or none was run.
    pub exit_code: Option<i32>,
    /// The signal that ended it; null when none did.
    pub signal: Option<i32>,
    /// Whether the user stopped the recording.
    pub interrupted: bool,
    /// Wall time of the workload.
    pub wall_ns: i64,
    /// Its CPU time in user mode, children included.
    pub user_ns: i64,
    /// Its CPU time in the kernel, children included.
    pub system_ns: i64,
    /// Its largest resident memory.
    pub max_rss_bytes: u64,
    /// Pause after the last change of settings, milliseconds.
    pub settle_ms: u64,
    /// The traced devices, ordered by number.
    pub devices: Vec<DeviceDocument>,
    /// The machine.
    pub host: FactsDocument,
    /// How diskstats, CPU times and interrupts grew over the run.
    pub counters: FactsDocument,
    /// How it was captured.
    pub capture: CaptureDocument,
    /// What was lost or left out.
    pub ledger: Vec<LedgerEntryDocument>,
    /// Rows of the tables.
    pub rows: RowsDocument,
    /// Where it was imported from; null for a recording.
    #[serde(default)]
    pub imported: Option<ImportDocument>,
}

/// Where a run was imported from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportDocument {
    /// Kind of the files: `blktrace`, `blkparse`, `perf-data`, `perf-script` or `ftrace`.
    pub format: String,
    /// Names of the files, without their folders.
    pub files: Vec<String>,
    /// What the format cannot carry and what was noticed, one sentence each.
    pub notes: Vec<String>,
    /// Messages of the kernel or of a user, in the order in which they were read.
    pub messages: Vec<MessageDocument>,
}

/// A message in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageDocument {
    /// Its time.
    pub time_ns: i64,
    /// Its words.
    pub text: String,
}

/// One traced device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDocument {
    /// Its number, `major:minor`.
    #[serde(with = "device_text")]
    pub device: DeviceId,
    /// Kernel name.
    pub name: String,
    /// First sector and the first one after it; null unless a partition was asked for.
    pub range: Option<(u64, u64)>,
    /// Whether libata drives it.
    pub is_ata: bool,
    /// Where libata knows it; null where it does not.
    pub ata_port: Option<AtaPortDocument>,
    /// `device/queue_depth`; null where there is no such knob.
    pub queue_depth: Option<u32>,
    /// Everything else.
    pub facts: FactsDocument,
}

/// A place in libata's numbering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtaPortDocument {
    /// The N of `ataN`.
    pub port: u32,
    /// The device on that port.
    pub device: u32,
}

/// How a run was captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureDocument {
    /// `perf`, `blktrace` or the format that was imported.
    pub source: String,
    /// Tracepoints that were open.
    pub trace_events: Vec<String>,
    /// Records read, of whatever kind.
    pub records_read: u64,
    /// Of these, trace events.
    pub events: u64,
    /// Size of the raw capture.
    pub bytes: u64,
    /// Size of the ring of each CPU; 0 where nothing was captured live.
    pub ring_bytes: u64,
    /// CPU time that the capture took.
    pub cpu_ns: i64,
    /// Whether the raw capture stayed in memory until the end of the run.
    pub in_memory: bool,
}

/// One cause on one CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntryDocument {
    /// The cause, as its word. A word of a later version is an error, not a loss in silence.
    #[serde(with = "cause_text")]
    pub cause: Cause,
    /// `info`, `loss` or `error`.
    pub severity: String,
    /// What it means, for people.
    pub sentence: String,
    /// The CPU; null where none can be named.
    pub cpu: Option<u32>,
    /// Records, at least.
    pub count: u64,
    /// Occasions.
    pub occasions: u64,
    /// Time of the first occasion; null where not known.
    pub first_ns: Option<i64>,
    /// Time of the last occasion; null where not known.
    pub last_ns: Option<i64>,
}

/// Rows of a run's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsDocument {
    /// Rows of `events.parquet`.
    pub events: u64,
    /// Rows of `requests.parquet`.
    pub requests: u64,
    /// Of these, by word of their status; one that does not occur may be left out.
    pub by_status: BTreeMap<String, u64>,
}

/// A ledger as it stands in a document, ordered by cause and CPU.
pub fn ledger_to_documents(ledger: &Ledger) -> Vec<LedgerEntryDocument> {
    ledger
        .entries()
        .map(|(cause, cpu, entry)| LedgerEntryDocument {
            cause,
            severity: cause.severity().name().to_owned(),
            sentence: cause.sentence().to_owned(),
            cpu: cpu.map(|cpu| cpu.0),
            count: entry.count,
            occasions: entry.occasions,
            first_ns: entry.first.map(|time| time.0),
            last_ns: entry.last.map(|time| time.0),
        })
        .collect()
}

/// A ledger read back.
pub fn ledger_from_documents(entries: &[LedgerEntryDocument]) -> Ledger {
    let mut ledger = Ledger::default();
    for entry in entries {
        ledger.add_entry(
            entry.cause,
            entry.cpu.map(Cpu),
            Entry {
                count: entry.count,
                occasions: entry.occasions,
                first: entry.first_ns.map(Nanos),
                last: entry.last_ns.map(Nanos),
            },
        );
    }
    ledger
}

impl From<&DeviceFacts> for DeviceDocument {
    fn from(facts: &DeviceFacts) -> Self {
        let port = |port: AtaPort| AtaPortDocument { port: port.port, device: port.device };
        Self {
            device: facts.device,
            name: facts.name.clone(),
            range: facts.range.map(|(from, to)| (from.0, to.0)),
            is_ata: facts.is_ata,
            ata_port: facts.ata_port.map(port),
            queue_depth: facts.queue_depth,
            facts: FactsDocument::from(&facts.facts),
        }
    }
}

impl From<&DeviceDocument> for DeviceFacts {
    fn from(document: &DeviceDocument) -> Self {
        let port = |port: AtaPortDocument| AtaPort { port: port.port, device: port.device };
        Self {
            device: document.device,
            name: document.name.clone(),
            range: document.range.map(|(from, to)| (Sector(from), Sector(to))),
            is_ata: document.is_ata,
            ata_port: document.ata_port.map(port),
            queue_depth: document.queue_depth,
            facts: Facts::from(&document.facts),
            only_named: false,
        }
    }
}

/// Pairs as a JSON object in their order.
pub(crate) mod ordered {
    use std::fmt;

    use serde::de::{Deserializer, MapAccess, Visitor};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer>(
        pairs: &[(String, String)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, String)>, D::Error> {
        deserializer.deserialize_map(Pairs)
    }

    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
}

/// A device as `major:minor`.
mod device_text {
    use iotrace_model::DeviceId;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    pub(super) fn serialize<S: Serializer>(
        device: &DeviceId,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(device)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<DeviceId, D::Error> {
        let text = String::deserialize(deserializer)?;
        DeviceId::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not major:minor")))
    }
}

/// A cause as its word.
mod cause_text {
    use iotrace_model::Cause;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    pub(super) fn serialize<S: Serializer>(
        cause: &Cause,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(cause.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Cause, D::Error> {
        let text = String::deserialize(deserializer)?;
        Cause::from_name(&text)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is no cause of a loss")))
    }
}
