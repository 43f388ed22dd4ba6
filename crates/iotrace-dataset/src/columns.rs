//! The columns of both tables: name, type, whether null may stand there.
//!
//! Strings are plain UTF-8 in Arrow and dictionary-encoded in Parquet, so that every reader
//! sees strings. `schemas/events-1.json` and `schemas/requests-1.json` say the same in words.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};

/// Name and version of the table of events.
pub const EVENTS_SCHEMA: &str = "iotrace/events/1";
/// Name and version of the table of requests.
pub const REQUESTS_SCHEMA: &str = "iotrace/requests/1";

/// A column that never is null.
fn always(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, false)
}

/// A column in which null means "not seen" or "does not apply".
fn maybe(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn list(name: &str, data_type: DataType) -> Field {
    maybe(name, DataType::List(Arc::new(Field::new("item", data_type, true))))
}

/// Columns of `events.parquet`, one row an event, in time order.
pub(crate) fn events() -> Schema {
    Schema::new(vec![
        always("time_ns", DataType::Int64),
        always("cpu", DataType::UInt32),
        always("sequence", DataType::UInt64),
        maybe("device", DataType::Utf8),
        always("action", DataType::Utf8),
        always("op", DataType::Utf8),
        always("flags", DataType::Utf8),
        maybe("sector", DataType::UInt64),
        always("length_bytes", DataType::UInt64),
        always("pid", DataType::UInt32),
        maybe("comm", DataType::Utf8),
        maybe("error", DataType::Int32),
        maybe("remap_device", DataType::Utf8),
        maybe("remap_sector", DataType::UInt64),
        maybe("cgroup", DataType::UInt64),
        maybe("io_priority", DataType::UInt32),
        maybe("tag", DataType::UInt32),
        maybe("protocol", DataType::Utf8),
    ])
}

/// Columns of `requests.parquet`, one row a request, in the order of completion.
pub(crate) fn requests() -> Schema {
    let mut fields = vec![
        always("request", DataType::UInt64),
        always("device", DataType::Utf8),
        always("op", DataType::Utf8),
        always("flags", DataType::Utf8),
        maybe("sector", DataType::UInt64),
        always("length_bytes", DataType::UInt64),
        always("pid", DataType::UInt32),
        maybe("comm", DataType::Utf8),
        maybe("cgroup", DataType::UInt64),
        maybe("io_priority", DataType::UInt32),
    ];
    for stage in ["queue", "get", "insert", "issue", "complete"] {
        fields.push(maybe(&format!("{stage}_ns"), DataType::Int64));
        fields.push(maybe(&format!("{stage}_cpu"), DataType::UInt32));
    }
    for count in ["bios", "front_merges", "back_merges", "requeues", "splits"] {
        fields.push(always(count, DataType::UInt32));
    }
    fields.push(maybe("parent", DataType::UInt64));
    for count in ["in_flight_at_issue", "queued_at_queue", "overtook", "overtaken"] {
        fields.push(maybe(count, DataType::UInt32));
    }
    fields.extend([
        maybe("seek_sectors", DataType::Int64),
        maybe("tag", DataType::UInt32),
        maybe("protocol", DataType::Utf8),
        maybe("error", DataType::Int32),
        always("status", DataType::Utf8),
        list("bio_queue_ns", DataType::Int64),
        list("bio_sector", DataType::UInt64),
        list("bio_length_bytes", DataType::UInt64),
    ]);
    Schema::new(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_what_the_schema_file_says() {
        check(&events(), EVENTS_SCHEMA, include_str!("../../../schemas/events-1.json"));
    }

    #[test]
    fn requests_are_what_the_schema_file_says() {
        check(&requests(), REQUESTS_SCHEMA, include_str!("../../../schemas/requests-1.json"));
    }

    #[track_caller]
    fn check(schema: &Schema, name: &str, file: &str) {
        let file: serde_json::Value = serde_json::from_str(file).unwrap();
        assert_eq!(file["schema"], name);
        let ours: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| (field.name().clone(), type_name(field.data_type()), field.is_nullable()))
            .collect();
        let theirs: Vec<_> = file["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                assert!(column["unit"].is_string() && column["meaning"].is_string(), "{column}");
                let text = |key: &str| column[key].as_str().unwrap().to_owned();
                (text("name"), text("type"), column["null"].is_string())
            })
            .collect();
        assert_eq!(ours, theirs);
    }

    fn type_name(data_type: &DataType) -> String {
        match data_type {
            DataType::Int32 => "i32".to_owned(),
            DataType::Int64 => "i64".to_owned(),
            DataType::UInt32 => "u32".to_owned(),
            DataType::UInt64 => "u64".to_owned(),
            DataType::Utf8 => "string".to_owned(),
            DataType::List(item) => format!("list<{}>", type_name(item.data_type())),
            other => panic!("no name for {other}"),
        }
    }
}
