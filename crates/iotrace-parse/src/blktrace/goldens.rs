//! The raw records of every golden, against the decoded ones that were made beside them.

use std::collections::BTreeMap;
use std::path::Path;

use iotrace_testkit::beside;
use serde_json::{Value, json};

use super::stream::Stream;

#[test]
fn records_of_every_golden_are_read_as_written() {
    let Some(goldens) = beside("reference/golden") else { return };
    let mut cases = 0;
    for entry in std::fs::read_dir(goldens).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("records.jsonl").exists() {
            cases += 1;
            check(&folder);
        }
    }
    assert_eq!(cases, 13);
}

#[track_caller]
fn check(folder: &Path) {
    let text = std::fs::read_to_string(folder.join("records.jsonl")).unwrap();
    let mut expected: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let fields = record.as_object_mut().unwrap();
        fields.remove("note");
        let file = fields.remove("file").unwrap();
        expected.entry(file.as_str().unwrap().to_owned()).or_default().push(record);
    }
    for (file, records) in expected {
        assert_eq!(read(&folder.join(&file)), records, "{}/{file}", folder.display());
    }
}

fn read(path: &Path) -> Vec<Value> {
    let file = std::fs::File::open(path).unwrap();
    let mut stream = Stream::open(Box::new(file), "golden").unwrap().unwrap();
    let mut records = Vec::new();
    while stream.next() {
        let record = stream.record();
        let payload: Vec<_> = stream.payload().iter().map(|byte| format!("{byte:02x}")).collect();
        records.push(json!({
            "sequence": record.sequence,
            "time": record.time,
            "sector": record.sector,
            "bytes": record.bytes,
            "action": format!("{:#010x}", record.action),
            "pid": record.pid,
            "device": format!("{},{}", record.device >> 20, record.device & 0xf_ffff),
            "cpu": record.cpu,
            "error": record.error,
            "pdu": payload.concat(),
            "pdu_len": record.payload,
        }));
    }
    assert_eq!(stream.broken, super::stream::Broken::default());
    records
}
