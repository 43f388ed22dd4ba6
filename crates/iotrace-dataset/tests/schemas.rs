//! The files in `schemas/` say what the code writes: every column, and every key of a document.

#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use iotrace_dataset::{
    AtaPortDocument, CaptureDocument, DeviceDocument, EVENTS_SCHEMA, EventWriter, FactorDocument,
    FactsDocument, MANIFEST_SCHEMA, Manifest, PlanDocument, REQUESTS_SCHEMA, RUN_SCHEMA,
    RequestWriter, RowsDocument, RunDocument, RunEntry, ledger_to_documents,
};
use iotrace_model::{Cause, Cpu, DeviceId, Fact, Facts, Ledger, Nanos, Status};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

const EVENTS: &str = include_str!("../../../schemas/events-1.json");
const REQUESTS: &str = include_str!("../../../schemas/requests-1.json");
const RUN: &str = include_str!("../../../schemas/run-1.json");
const MANIFEST: &str = include_str!("../../../schemas/manifest-1.json");
/// Keys that were added without a new version.
const LATER: [&str; 1] = ["imported"];

#[test]
fn the_table_of_events_is_what_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    EventWriter::create(&path, &[]).unwrap().finish().unwrap();
    check_table(&path, EVENTS_SCHEMA, EVENTS);
}

#[test]
fn the_table_of_requests_is_what_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    RequestWriter::create(&path, &[]).unwrap().finish().unwrap();
    check_table(&path, REQUESTS_SCHEMA, REQUESTS);
}

#[test]
fn a_run_document_is_what_its_schema_says() {
    check_document(&serde_json::to_value(full_run()).unwrap(), RUN);
    let empty = RunDocument {
        schema: RUN_SCHEMA.to_owned(),
        devices: vec![DeviceDocument::default()],
        ..RunDocument::default()
    };
    check_document(&serde_json::to_value(empty).unwrap(), RUN);
}

#[test]
fn a_manifest_is_what_its_schema_says() {
    check_document(&serde_json::to_value(full_manifest()).unwrap(), MANIFEST);
    let empty = Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        runs: vec![RunEntry::default()],
        ..Manifest::default()
    };
    check_document(&serde_json::to_value(empty).unwrap(), MANIFEST);
}

#[test]
fn the_schema_lists_every_word_of_the_model() {
    let run: Value = serde_json::from_str(RUN).unwrap();
    let causes = serde_json::json!(Cause::ALL.map(Cause::name));
    assert_eq!(run["$defs"]["ledger_entry"]["properties"]["cause"]["enum"], causes);
    let statuses = serde_json::json!(Status::ALL.map(Status::name));
    let by_status = &run["properties"]["rows"]["properties"]["by_status"];
    assert_eq!(by_status["propertyNames"]["enum"], statuses);
}

#[test]
fn documents_read_back_as_they_were() {
    let run = full_run();
    let text = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<RunDocument>(&text).unwrap(), run);
    let manifest = full_manifest();
    let text = serde_json::to_string(&manifest).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
}

fn full_facts() -> FactsDocument {
    let mut inner = Facts::default();
    inner.set("read_ios", Some(3));
    let mut facts = Facts::default();
    facts.set("scheduler", Some("none"));
    facts.set("rotational", Some(true));
    facts.set("size_bytes", Some(1 << 40));
    facts.set("schedulers", Some(Fact::List(vec!["none".into(), "bfq".into()])));
    facts.set("diskstats", Some(inner));
    FactsDocument::from(facts)
}

fn full_device() -> DeviceDocument {
    DeviceDocument {
        device: DeviceId { major: 8, minor: 16 },
        name: "sdb".to_owned(),
        range: Some((2048, 4096)),
        is_ata: true,
        ata_port: Some(AtaPortDocument { port: 2, device: 0 }),
        queue_depth: Some(32),
        facts: full_facts(),
    }
}

fn full_ledger() -> Ledger {
    let mut ledger = Ledger::default();
    for cause in Cause::ALL {
        ledger.add(cause, Some(Cpu(3)), Some(Nanos(17)), 5);
        ledger.add(cause, None, None, 1);
    }
    ledger
}

fn full_run() -> RunDocument {
    RunDocument {
        schema: RUN_SCHEMA.to_owned(),
        tool_version: "0.1.0".to_owned(),
        configuration: vec![pair("scheduler", "none"), pair("ncq", "on")],
        repetition: 1,
        order: 4,
        clock: "CLOCK_MONOTONIC".to_owned(),
        clock_origin_ns: 12,
        started_realtime_ns: 1_700_000_000_000_000_000,
        command: vec!["fio".to_owned(), "job.fio".to_owned()],
        run_as: Some("user".to_owned()),
        exit_code: Some(0),
        signal: Some(9),
        devices: vec![full_device()],
        host: full_facts(),
        counters: full_facts(),
        capture: CaptureDocument {
            source: "perf".to_owned(),
            trace_events: vec!["block/block_rq_issue".to_owned()],
            ..CaptureDocument::default()
        },
        ledger: ledger_to_documents(&full_ledger()),
        rows: RowsDocument {
            by_status: Status::ALL.iter().map(|s| (s.name().to_owned(), 2)).collect(),
            ..RowsDocument::default()
        },
        ..RunDocument::default()
    }
}

fn full_manifest() -> Manifest {
    Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        created: "2026-01-01T00:00:00Z".to_owned(),
        incomplete: vec!["events were lost".to_owned()],
        plan: PlanDocument {
            command: vec!["true".to_owned()],
            factors: vec![FactorDocument {
                key: "ncq".to_owned(),
                values: vec!["on".to_owned(), "off".to_owned()],
            }],
            repeat: 3,
            warmup: 1,
            settle_ms: 1000,
            order: vec!["warmup/ncq=on/rep=0".to_owned()],
        },
        runs: vec![RunEntry {
            folder: "runs/ncq=on/rep=0".to_owned(),
            configuration: vec![pair("ncq", "on")],
            repetition: 0,
            warmup: false,
            exit_code: Some(0),
        }],
        host: full_facts(),
        devices: vec![full_device()],
        ledger: ledger_to_documents(&full_ledger()),
        checksums: [("runs/ncq=on/rep=0/run.json".to_owned(), "0".repeat(64))].into(),
        ..Manifest::default()
    }
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// Holds the columns of a written file to a schema file.
#[track_caller]
fn check_table(path: &std::path::Path, name: &str, schema: &str) {
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(schema["schema"], name);
    let file = std::fs::File::open(path).unwrap();
    let written = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let written: Vec<_> = written
        .schema()
        .fields()
        .iter()
        .map(|field| (field.name().clone(), type_name(field.data_type()), field.is_nullable()))
        .collect();
    let promised: Vec<_> = schema["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            let text = |key: &str| column[key].as_str().unwrap().to_owned();
            let nullable = column["nullable"].as_bool().unwrap();
            assert_eq!(column["null"].is_string(), nullable, "{column}");
            assert!(!text("unit").is_empty() && !text("description").is_empty(), "{column}");
            (text("name"), text("type"), nullable)
        })
        .collect();
    assert_eq!(written, promised);
}

#[track_caller]
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int32 => "i32".to_owned(),
        DataType::Int64 => "i64".to_owned(),
        DataType::UInt16 => "u16".to_owned(),
        DataType::UInt32 => "u32".to_owned(),
        DataType::UInt64 => "u64".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::List(item) => format!("list<{}>", type_name(item.data_type())),
        other => panic!("no name for {other}"),
    }
}

/// Holds a document to a schema file.
#[track_caller]
fn check_document(document: &Value, schema: &str) {
    let root: Value = serde_json::from_str(schema).unwrap();
    let mut faults = Vec::new();
    hold(document, &root, &root, "document", &mut faults);
    assert_eq!(faults, Vec::<String>::new());
}

/// The part of JSON Schema that our files use. Stricter in one point: an object with
/// `properties` has exactly these keys, and each of them is required.
fn hold(value: &Value, schema: &Value, root: &Value, place: &str, faults: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = root.pointer(name.trim_start_matches('#')).unwrap();
        return hold(value, schema, root, place, faults);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let fits = |schema: &Value| {
            let mut faults = Vec::new();
            hold(value, schema, root, place, &mut faults);
            faults.is_empty()
        };
        if !choices.iter().any(fits) {
            faults.push(format!("{place}: no choice fits {value}"));
        }
        return;
    }
    if let Some(words) = schema["enum"].as_array() {
        if !words.contains(value) {
            faults.push(format!("{place}: {value} is no word of it"));
        }
        return;
    }
    if schema["const"].is_string() {
        if schema["const"] != *value {
            faults.push(format!("{place}: {value}"));
        }
        return;
    }
    let kind = kind(value);
    let fits = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|name| name == kind),
        name => name == kind,
    };
    if !fits {
        faults.push(format!("{place}: {kind}, not {}", schema["type"]));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        hold(item, &schema["items"], root, &format!("{place}[{index}]"), faults);
    }
    let Some(object) = value.as_object() else { return };
    if let Some(properties) = schema["properties"].as_object() {
        let keys: BTreeSet<_> = object.keys().collect();
        let promised: BTreeSet<_> = properties.keys().collect();
        let required: Vec<_> = schema["required"].as_array().unwrap().iter().collect();
        let required: BTreeSet<_> = required.iter().map(|key| key.as_str().unwrap()).collect();
        // A key that came later may be missing in older documents, and is written by this version.
        let later = promised.iter().filter(|key| !required.contains(key.as_str()));
        let later: Vec<_> = later.map(|key| key.as_str()).collect();
        if keys != promised || !later.iter().all(|key| LATER.contains(key)) {
            faults.push(format!("{place}: {keys:?}, not {promised:?} or {required:?}"));
        }
    }
    for (key, value) in object {
        let schema = match &schema["properties"][key] {
            Value::Null => &schema["additionalProperties"],
            schema => schema,
        };
        hold(value, schema, root, &format!("{place}.{key}"), faults);
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
