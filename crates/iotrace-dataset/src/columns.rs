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

/// Events: time since the start of the run, nanoseconds.
pub const TIME_NS: &str = "time_ns";
/// Events: the CPU that logged it.
pub const CPU: &str = "cpu";
/// Events: place in the CPU's stream, as the source counts it.
pub const SEQUENCE: &str = "sequence";
/// Events: what happened.
pub const ACTION: &str = "action";
/// Events: source of a remap, `major:minor`.
pub const REMAP_DEVICE: &str = "remap_device";
/// Events: sector on that source.
pub const REMAP_SECTOR: &str = "remap_sector";
/// Both: the device, `major:minor`.
pub const DEVICE: &str = "device";
/// Both: the operation.
pub const OP: &str = "op";
/// Both: its modifiers, joined by commas; empty when there are none.
pub const FLAGS: &str = "flags";
/// Both: first sector.
pub const SECTOR: &str = "sector";
/// Both: length in bytes.
pub const LENGTH_BYTES: &str = "length_bytes";
/// Both: the thread.
pub const PID: &str = "pid";
/// Both: its name.
pub const COMM: &str = "comm";
/// Both: cgroup id.
pub const CGROUP: &str = "cgroup";
/// Both: the kernel's io priority word.
pub const IO_PRIORITY: &str = "io_priority";
/// Both: tag of the driver command.
pub const TAG: &str = "tag";
/// Both: protocol of the driver command.
pub const PROTOCOL: &str = "protocol";
/// Both: negative errno, 0 for success.
pub const ERROR: &str = "error";
/// Requests: number in the run.
pub const REQUEST: &str = "request";
/// Requests: time of the earliest bio's queue event.
pub const QUEUE_NS: &str = "queue_ns";
/// Requests: time of the allocation.
pub const GET_NS: &str = "get_ns";
/// Requests: time of the entry into the scheduler.
pub const INSERT_NS: &str = "insert_ns";
/// Requests: time of the last issue.
pub const ISSUE_NS: &str = "issue_ns";
/// Requests: time of the completion.
pub const COMPLETE_NS: &str = "complete_ns";
/// Requests: CPU of the queue event.
pub const QUEUE_CPU: &str = "queue_cpu";
/// Requests: CPU of the allocation.
pub const GET_CPU: &str = "get_cpu";
/// Requests: CPU of the insert.
pub const INSERT_CPU: &str = "insert_cpu";
/// Requests: CPU of the issue.
pub const ISSUE_CPU: &str = "issue_cpu";
/// Requests: CPU of the completion.
pub const COMPLETE_CPU: &str = "complete_cpu";
/// Requests: bios that it carries.
pub const BIOS: &str = "bios";
/// Requests: of these, joined at the front.
pub const FRONT_MERGES: &str = "front_merges";
/// Requests: of these, joined at the end.
pub const BACK_MERGES: &str = "back_merges";
/// Requests: times it was handed back.
pub const REQUEUES: &str = "requeues";
/// Requests: pieces its bio was cut in, less one.
pub const SPLITS: &str = "splits";
/// Requests: the request above it.
pub const PARENT: &str = "parent";
/// Requests: others in flight just before its issue.
pub const IN_FLIGHT_AT_ISSUE: &str = "in_flight_at_issue";
/// Requests: others queued just before its queue event.
pub const QUEUED_AT_QUEUE: &str = "queued_at_queue";
/// Requests: how many it overtook.
pub const OVERTOOK: &str = "overtook";
/// Requests: how many overtook it.
pub const OVERTAKEN: &str = "overtaken";
/// Requests: distance from the end of the request issued before it.
pub const SEEK_SECTORS: &str = "seek_sectors";
/// Requests: what became of it.
pub const STATUS: &str = "status";
/// Requests: queue times of its bios, a list.
pub const BIO_QUEUE_NS: &str = "bio_queue_ns";
/// Requests: first sectors of its bios, a list.
pub const BIO_SECTOR: &str = "bio_sector";
/// Requests: lengths of its bios, a list.
pub const BIO_LENGTH_BYTES: &str = "bio_length_bytes";

/// Columns of `events.parquet`, one row an event, in time order.
pub(crate) fn events() -> Schema {
    Schema::new(vec![
        always(TIME_NS, DataType::Int64),
        always(CPU, DataType::UInt16),
        always(SEQUENCE, DataType::UInt64),
        maybe(DEVICE, DataType::Utf8),
        always(ACTION, DataType::Utf8),
        always(OP, DataType::Utf8),
        always(FLAGS, DataType::Utf8),
        maybe(SECTOR, DataType::UInt64),
        always(LENGTH_BYTES, DataType::UInt64),
        always(PID, DataType::UInt32),
        maybe(COMM, DataType::Utf8),
        maybe(ERROR, DataType::Int32),
        maybe(REMAP_DEVICE, DataType::Utf8),
        maybe(REMAP_SECTOR, DataType::UInt64),
        maybe(CGROUP, DataType::UInt64),
        maybe(IO_PRIORITY, DataType::UInt16),
        maybe(TAG, DataType::UInt16),
        maybe(PROTOCOL, DataType::Utf8),
    ])
}

/// Columns of `requests.parquet`, one row a request, in the order in which they were written.
pub(crate) fn requests() -> Schema {
    let mut fields = vec![
        always(REQUEST, DataType::UInt64),
        always(DEVICE, DataType::Utf8),
        always(OP, DataType::Utf8),
        always(FLAGS, DataType::Utf8),
        maybe(SECTOR, DataType::UInt64),
        always(LENGTH_BYTES, DataType::UInt64),
        always(PID, DataType::UInt32),
        maybe(COMM, DataType::Utf8),
        maybe(CGROUP, DataType::UInt64),
        maybe(IO_PRIORITY, DataType::UInt16),
    ];
    fields.extend(STAGE_NS.map(|name| maybe(name, DataType::Int64)));
    fields.extend(STAGE_CPU.map(|name| maybe(name, DataType::UInt16)));
    fields.extend(SHAPE.map(|name| always(name, DataType::UInt32)));
    fields.push(maybe(PARENT, DataType::UInt64));
    fields.extend(CONTEXT.map(|name| maybe(name, DataType::UInt32)));
    fields.extend([
        maybe(SEEK_SECTORS, DataType::Int64),
        maybe(TAG, DataType::UInt16),
        maybe(PROTOCOL, DataType::Utf8),
        maybe(ERROR, DataType::Int32),
        always(STATUS, DataType::Utf8),
        list(BIO_QUEUE_NS, DataType::Int64),
        list(BIO_SECTOR, DataType::UInt64),
        list(BIO_LENGTH_BYTES, DataType::UInt64),
    ]);
    Schema::new(fields)
}

/// Times of a request's life, in the order of the columns.
pub(crate) const STAGE_NS: [&str; 5] = [QUEUE_NS, GET_NS, INSERT_NS, ISSUE_NS, COMPLETE_NS];
/// The CPUs of the same events.
pub(crate) const STAGE_CPU: [&str; 5] = [QUEUE_CPU, GET_CPU, INSERT_CPU, ISSUE_CPU, COMPLETE_CPU];
/// Counts that every request has.
pub(crate) const SHAPE: [&str; 5] = [BIOS, FRONT_MERGES, BACK_MERGES, REQUEUES, SPLITS];
/// Counts that a request has unless events are missing.
pub(crate) const CONTEXT: [&str; 4] = [IN_FLIGHT_AT_ISSUE, QUEUED_AT_QUEUE, OVERTOOK, OVERTAKEN];

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
