//! `run.json`: what is known of one run beside its tables.

use std::collections::BTreeMap;

use iotrace_model::{
    AtaPort, Cause, Cpu, DeviceFacts, DeviceId, Entry, Fact, Facts, Ledger, Nanos, Sector,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Name and version of `run.json`.
pub const RUN_SCHEMA: &str = "iotrace/run/1";

/// One run. Times are nanoseconds; settings are as read back from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunDocument {
    /// `RUN_SCHEMA`.
    pub schema: String,
    /// Version of the program.
    pub tool_version: String,
    /// The settings that vary in the plan.
    pub configuration: Vec<(String, String)>,
    /// Repetition, from 0.
    pub repetition: u32,
    /// Whether it was a warm-up, which no statistic uses.
    pub warmup: bool,
    /// Place in the plan, from 0.
    pub order: u64,
    /// Always `CLOCK_MONOTONIC`.
    pub clock: String,
    /// That clock at time 0 of the tables.
    pub clock_origin_ns: i64,
    /// Wall clock at time 0, since the epoch.
    pub started_realtime_ns: i64,
    /// The workload.
    pub command: Vec<String>,
    /// The user it ran as, when another than the recorder's.
    pub run_as: Option<String>,
    /// Its exit code; null when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether the user stopped the recording.
    pub interrupted: bool,
    /// Wall time of the workload.
    pub wall_ns: i64,
    /// CPU time in user mode.
    pub user_ns: i64,
    /// CPU time in the kernel.
    pub system_ns: i64,
    /// Largest resident memory.
    pub max_rss_bytes: u64,
    /// Pause after the last change of settings, milliseconds.
    pub settle_ms: u64,
    /// The traced devices.
    pub devices: Vec<DeviceDocument>,
    /// The machine.
    pub host: Map<String, Value>,
    /// Deltas of diskstats, CPU times and interrupts over the run.
    pub counters: Map<String, Value>,
    /// How it was captured.
    pub capture: CaptureDocument,
    /// What was lost or left out.
    pub ledger: Vec<LedgerEntryDocument>,
    /// Rows of the tables.
    pub rows: RowsDocument,
}

/// One traced device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceDocument {
    /// `major:minor`.
    pub device: String,
    /// Kernel name.
    pub name: String,
    /// First sector and the first one after it, when a partition was asked for.
    pub range: Option<(u64, u64)>,
    /// Whether libata drives it.
    pub is_ata: bool,
    /// Where libata knows it.
    pub ata_port: Option<AtaPortDocument>,
    /// `device/queue_depth`; null where there is no such knob.
    pub queue_depth: Option<u32>,
    /// Everything else.
    pub facts: Map<String, Value>,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureDocument {
    /// `perf`.
    pub source: String,
    /// Tracepoints that were open.
    pub trace_events: Vec<String>,
    /// Records read from the rings.
    pub events: u64,
    /// Bytes of the raw capture.
    pub bytes: u64,
    /// Ring of each CPU, in pages, as a power of two.
    pub ring_pages_exp: u8,
    /// CPU time that the capture took.
    pub cpu_ns: i64,
    /// Whether the raw capture stayed in memory until the end of the run.
    pub in_memory: bool,
}

/// One cause on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntryDocument {
    /// Word of the cause.
    pub cause: String,
    /// `info`, `loss` or `error`.
    pub severity: String,
    /// What it means.
    pub sentence: String,
    /// The CPU; null where none can be named.
    pub cpu: Option<u32>,
    /// Records.
    pub count: u64,
    /// Occasions.
    pub occasions: u64,
    /// Time of the first occasion, where known.
    pub first_ns: Option<i64>,
    /// Time of the last occasion, where known.
    pub last_ns: Option<i64>,
}

/// Rows of a run's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsDocument {
    /// Rows of `events.parquet`.
    pub events: u64,
    /// Rows of `requests.parquet`.
    pub requests: u64,
    /// Of these, by status.
    pub by_status: BTreeMap<String, u64>,
}

/// Facts as a JSON object, in their order.
pub fn facts_to_json(facts: &Facts) -> Map<String, Value> {
    facts.0.iter().map(|(name, fact)| (name.clone(), fact_to_json(fact))).collect()
}

fn fact_to_json(fact: &Fact) -> Value {
    match fact {
        Fact::Text(text) => Value::from(text.as_str()),
        Fact::Number(number) => Value::from(*number),
        Fact::Flag(flag) => Value::from(*flag),
        Fact::List(list) => list.iter().map(fact_to_json).collect(),
        Fact::Table(facts) => Value::Object(facts_to_json(facts)),
    }
}

/// Facts read back from a JSON object; values that no fact can hold are left out.
pub fn facts_from_json(map: &Map<String, Value>) -> Facts {
    Facts(
        map.iter()
            .filter_map(|(name, value)| Some((name.clone(), fact_from_json(value)?)))
            .collect(),
    )
}

fn fact_from_json(value: &Value) -> Option<Fact> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => Fact::Flag(*flag),
        Value::Number(number) => Fact::Number(number.as_i64()?),
        Value::String(text) => Fact::Text(text.clone()),
        Value::Array(list) => Fact::List(list.iter().filter_map(fact_from_json).collect()),
        Value::Object(map) => Fact::Table(facts_from_json(map)),
    })
}

/// A ledger as it stands in a document.
pub fn ledger_to_documents(ledger: &Ledger) -> Vec<LedgerEntryDocument> {
    ledger
        .entries()
        .map(|(cause, cpu, entry)| LedgerEntryDocument {
            cause: cause.name().to_owned(),
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

/// A ledger read back; a cause of a later version is left out.
pub fn ledger_from_documents(entries: &[LedgerEntryDocument]) -> Ledger {
    let mut ledger = Ledger::default();
    for entry in entries {
        if let Some(cause) = Cause::from_name(&entry.cause) {
            ledger.add_entry(
                cause,
                entry.cpu.map(Cpu),
                Entry {
                    count: entry.count,
                    occasions: entry.occasions,
                    first: entry.first_ns.map(Nanos),
                    last: entry.last_ns.map(Nanos),
                },
            );
        }
    }
    ledger
}

impl From<&DeviceFacts> for DeviceDocument {
    fn from(facts: &DeviceFacts) -> Self {
        Self {
            device: facts.device.to_string(),
            name: facts.name.clone(),
            range: facts.range.map(|(from, to)| (from.0, to.0)),
            is_ata: facts.is_ata,
            ata_port: facts
                .ata_port
                .map(|port| AtaPortDocument { port: port.port, device: port.device }),
            queue_depth: facts.queue_depth,
            facts: facts_to_json(&facts.facts),
        }
    }
}

impl From<&DeviceDocument> for DeviceFacts {
    fn from(document: &DeviceDocument) -> Self {
        Self {
            device: DeviceId::parse(&document.device).unwrap_or_default(),
            name: document.name.clone(),
            range: document.range.map(|(from, to)| (Sector(from), Sector(to))),
            is_ata: document.is_ata,
            ata_port: document
                .ata_port
                .map(|port| AtaPort { port: port.port, device: port.device }),
            queue_depth: document.queue_depth,
            facts: facts_from_json(&document.facts),
        }
    }
}
