//! Write then read gives the same rows, and the files have the encodings that were asked for.

#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

mod rows;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use iotrace_dataset::{Error, EventWriter, RequestWriter, Written, read_events, read_requests};
use iotrace_model::{Action, Bio, Comm, Cpu, Event, Nanos, Op, Request, Sector, Stamp};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::rows::{bare, busy_event, busy_request, event, plain_event, plain_request, request};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn events_read_back_as_they_were_written(events in vec(event(), 0..200), cut in 0_usize..200) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.parquet");
        let mut writer = EventWriter::create(&path, &[]).unwrap();
        let (first, rest) = events.split_at(cut.min(events.len()));
        writer.write(first).unwrap();
        writer.write(rest).unwrap();
        prop_assert_eq!(writer.finish().unwrap(), written(&path, events.len()));
        prop_assert_eq!(all_events(&path), events);
    }

    #[test]
    fn requests_read_back_as_they_were_written(
        requests in vec(request(), 0..200),
        cut in 0_usize..200,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.parquet");
        let mut writer = RequestWriter::create(&path, &[]).unwrap();
        let (first, rest) = requests.split_at(cut.min(requests.len()));
        writer.write(first).unwrap();
        writer.write(rest).unwrap();
        prop_assert_eq!(writer.finish().unwrap(), written(&path, requests.len()));
        prop_assert_eq!(all_requests(&path), requests);
    }
}

#[test]
fn many_rows_come_back_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    let events: Vec<_> = (0_i64..100_000)
        .map(|n| Event {
            time: Nanos(n * 1000),
            sequence: n.unsigned_abs(),
            sector: Some(Sector(n.unsigned_abs() * 8)),
            ..plain_event()
        })
        .collect();
    let mut writer = EventWriter::create(&path, &[]).unwrap();
    for chunk in events.chunks(1777) {
        writer.write(chunk).unwrap();
    }
    let done = writer.finish().unwrap();
    assert_eq!(done, written(&path, events.len()));
    assert!(done.bytes < 2 * done.rows, "{done:?}: times must be stored as differences");
    assert_eq!(all_events(&path), events);
}

#[test]
fn columns_are_encoded_and_described_as_promised() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    let metadata = [("iotrace.clock".to_owned(), "CLOCK_MONOTONIC".to_owned())];
    let mut writer = RequestWriter::create(&path, &metadata).unwrap();
    let bio = Bio { queue: Nanos(5), sector: Sector(8), length_bytes: 4096 };
    writer.write(&[Request { merged_bios: vec![bio, bio], ..plain_request() }]).unwrap();
    writer.finish().unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let file = reader.metadata();
    let pairs: Vec<_> = file
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .iter()
        .filter(|pair| pair.key.starts_with("iotrace."))
        .map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap()))
        .collect();
    let expected = [("iotrace.schema", "iotrace/requests/1"), ("iotrace.clock", "CLOCK_MONOTONIC")];
    assert_eq!(pairs, expected);
    for column in file.row_group(0).columns() {
        let name = column.column_path().string();
        let delta = ["request", "sector", "parent", "seek_sectors"];
        let delta = delta.contains(&name.as_str()) || name.contains("_ns") || name.contains("list");
        let encodings: Vec<_> = column.encodings().collect();
        assert_eq!(encodings.contains(&Encoding::DELTA_BINARY_PACKED), delta, "{name}");
        assert_eq!(encodings.contains(&Encoding::RLE_DICTIONARY), !delta, "{name}");
        assert!(matches!(column.compression(), Compression::ZSTD(_)), "{name}");
        assert!(column.statistics().is_some(), "{name}");
        assert!(column.column_index_offset().is_none(), "{name}");
    }
}

#[test]
fn the_bytes_do_not_depend_on_how_the_rows_are_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let events: Vec<_> = (0..200_000).map(busy_event).collect();
    let requests: Vec<_> = (0..70_000).map(busy_request).collect();
    let mut files = Vec::new();
    for (name, chunk) in [("all", usize::MAX), ("some", 10_007), ("few", 3)] {
        let path = folder.path().join(format!("{name}.events"));
        let mut writer = EventWriter::create(&path, &[]).unwrap();
        events.chunks(chunk).for_each(|rows| writer.write(rows).unwrap());
        writer.finish().unwrap();
        let other = folder.path().join(format!("{name}.requests"));
        let mut writer = RequestWriter::create(&other, &[]).unwrap();
        requests.chunks(chunk).for_each(|rows| writer.write(rows).unwrap());
        writer.finish().unwrap();
        files.push((std::fs::read(path).unwrap(), std::fs::read(other).unwrap()));
    }
    assert!(files.iter().all(|file| *file == files[0]));
    assert_eq!(all_events(&folder.path().join("all.events")), events);
    assert_eq!(all_requests(&folder.path().join("all.requests")), requests);
}

#[test]
fn columns_come_back_whether_pages_are_full_empty_or_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    let full = (0..70_000).map(busy_event);
    let empty = (0..140_000).map(|n| bare(busy_event(n)));
    let mixed = (0..70_000_u64)
        .map(|n| if n.is_multiple_of(3) { bare(busy_event(n)) } else { busy_event(n) });
    let events: Vec<_> = empty.clone().chain(full).chain(mixed).chain(empty).collect();
    let mut writer = EventWriter::create(&path, &[]).unwrap();
    writer.write(&events).unwrap();
    assert_eq!(writer.finish().unwrap(), written(&path, events.len()));
    assert!(all_events(&path) == events);
}

#[test]
fn a_row_group_ends_when_its_words_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    let events: Vec<_> = (0..100_000)
        .map(|n| Event { comm: Comm::new(format!("task {n}").as_bytes()), ..busy_event(n) })
        .collect();
    let mut writer = EventWriter::create(&path, &[]).unwrap();
    writer.write(&events).unwrap();
    assert_eq!(writer.finish().unwrap(), written(&path, events.len()));
    assert!(all_events(&path) == events);
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let rows: Vec<_> =
        reader.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(rows, [32_768, 32_768, 32_768, 1696]);
}

#[test]
fn a_request_of_very_many_bios_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    let bio = |n: u64| Bio { queue: Nanos(n.cast_signed()), sector: Sector(n), length_bytes: n };
    let merged_bios: Vec<_> = (0..100_000).map(bio).collect();
    let requests = [plain_request(), Request { merged_bios, ..plain_request() }, plain_request()];
    let mut writer = RequestWriter::create(&path, &[]).unwrap();
    writer.write(&requests).unwrap();
    assert_eq!(writer.finish().unwrap(), written(&path, 3));
    assert!(all_requests(&path) == requests);
}

#[test]
fn a_disk_that_fills_up_on_the_way_is_told_while_writing() {
    let mut writer = EventWriter::new(FullDisk { left: 100_000 }, &[]).unwrap();
    let error = (0..400).find_map(|round| {
        // Every event has another name, so that row groups end early.
        let name = |n| Comm::new(format!("{round} {n}").as_bytes());
        let events: Vec<_> = (0..1000).map(|n| Event { comm: name(n), ..busy_event(n) }).collect();
        writer.write(&events).err()
    });
    assert!(matches!(error, Some(Error::StorageFull { .. })), "{error:?}");
}

#[test]
fn statistics_hold_the_smallest_and_largest_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    let large = Sector(u64::MAX);
    let events = [
        Event { time: Nanos(-5), sector: Some(Sector(3)), error: Some(-5), ..plain_event() },
        Event { time: Nanos(7), sector: Some(large), error: None, ..plain_event() },
        Event { time: Nanos(9), sector: None, error: Some(0), op: Op::Write, ..plain_event() },
    ];
    let mut writer = EventWriter::create(&path, &[]).unwrap();
    writer.write(&events).unwrap();
    writer.finish().unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let group = reader.metadata().row_group(0);
    let check = |name: &str, least: &[u8], most: &[u8], nulls: u64| {
        let mut columns = group.columns().iter();
        let column = columns.find(|column| column.column_path().string() == name).unwrap();
        let statistics = column.statistics().unwrap();
        assert_eq!(statistics.min_bytes_opt(), Some(least), "{name}");
        assert_eq!(statistics.max_bytes_opt(), Some(most), "{name}");
        assert_eq!(statistics.null_count_opt(), Some(nulls), "{name}");
    };
    check("time_ns", &(-5_i64).to_le_bytes(), &9_i64.to_le_bytes(), 0);
    check("sector", &3_u64.to_le_bytes(), &u64::MAX.to_le_bytes(), 1);
    check("error", &(-5_i32).to_le_bytes(), &0_i32.to_le_bytes(), 1);
    check("op", b"read", b"write", 0);
}

#[test]
fn a_table_is_read_however_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    let events: Vec<_> = (0..40_000_u64)
        .map(|n| if n.is_multiple_of(3) { bare(busy_event(n)) } else { busy_event(n) })
        .collect();
    let mut writer = EventWriter::create(&path, &[]).unwrap();
    writer.write(&events).unwrap();
    writer.finish().unwrap();
    for has_dictionaries in [true, false] {
        let other = folder.path().join(format!("{has_dictionaries}.parquet"));
        write_again(&path, &other, has_dictionaries);
        assert!(all_events(&other) == events, "{has_dictionaries}");
    }
}

#[test]
fn a_word_that_no_version_writes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    let mut writer = EventWriter::create(&path, &[]).unwrap();
    writer.write(&[Event { action: Action::Queue, ..plain_event() }]).unwrap();
    writer.finish().unwrap();
    // The dictionary of the column is small enough to stand in the file as it is.
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes.windows(5).position(|bytes| bytes == b"queue").unwrap();
    bytes[place..place + 5].copy_from_slice(b"dance");
    std::fs::write(&path, bytes).unwrap();
    let error = read_events(&path).unwrap().next().unwrap().unwrap_err();
    let reason = "column action holds \"dance\", which is no value of it";
    assert_eq!(error.to_string(), format!("{}: {reason}", path.display()));
}

#[test]
fn the_other_table_is_refused_by_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    EventWriter::create(&path, &[]).unwrap().finish().unwrap();
    let error = read_requests(&path).err().unwrap();
    let Error::Version { path: named, found, expected } = error else { panic!("{error:?}") };
    assert_eq!((named, found.as_str(), expected), (path, "iotrace/events/1", "iotrace/requests/1"));
}

#[test]
fn a_file_that_is_no_table_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    std::fs::write(&path, "PAR1 and no more").unwrap();
    let error = read_events(&path).err().unwrap();
    assert!(matches!(&error, Error::Table { path: named, .. } if *named == path), "{error:?}");
}

#[test]
fn a_cpu_beyond_the_column_is_an_error_and_not_another_cpu() {
    let mut writer = EventWriter::new(Vec::new(), &[]).unwrap();
    let error = writer.write(&[Event { cpu: Cpu(65_536), ..plain_event() }]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "events.parquet: CPU 65536 cannot be stored, the largest number is 65535"
    );
    let mut writer = RequestWriter::new(Vec::new(), &[]).unwrap();
    let complete = Some(Stamp { time: Nanos(0), cpu: Cpu(70_000) });
    let error = writer.write(&[Request { complete, ..plain_request() }]).unwrap_err();
    assert!(matches!(error, Error::CpuOutOfRange { cpu: 70_000, .. }), "{error:?}");
}

#[test]
fn a_full_disk_is_told_apart() {
    let mut writer = EventWriter::new(FullDisk { left: 100 }, &[]).unwrap();
    let result = writer.write(&[plain_event()]).and_then(|()| writer.finish().map(drop));
    let error = result.unwrap_err();
    assert!(matches!(error, Error::StorageFull { .. }), "{error:?}");
}

#[test]
fn a_table_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.parquet");
    std::fs::write(&path, "precious").unwrap();
    let error = EventWriter::create(&path, &[]).err().unwrap();
    assert_eq!(error.to_string(), format!("cannot write {}", path.display()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

/// Writes the same rows by the general writer of Parquet.
fn write_again(from: &Path, to: &Path, has_dictionaries: bool) {
    let from = std::fs::File::open(from).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(from).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let schema = pairs.iter().filter(|pair| pair.key == "iotrace.schema").cloned().collect();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(has_dictionaries)
        .set_key_value_metadata(Some(schema))
        .build();
    let file = std::fs::File::create(to).unwrap();
    let mut writer =
        ArrowWriter::try_new(file, Arc::clone(reader.schema()), Some(properties)).unwrap();
    for batch in reader.build().unwrap() {
        writer.write(&batch.unwrap()).unwrap();
    }
    writer.close().unwrap();
}

/// Takes some bytes, then is full.
struct FullDisk {
    left: usize,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[track_caller]
fn written(path: &Path, rows: usize) -> Written {
    let bytes = std::fs::metadata(path).unwrap().len();
    Written { rows: u64::try_from(rows).unwrap(), bytes }
}

#[track_caller]
fn all_events(path: &Path) -> Vec<Event> {
    read_events(path).unwrap().flat_map(Result::unwrap).collect()
}

#[track_caller]
fn all_requests(path: &Path) -> Vec<Request> {
    read_requests(path).unwrap().flat_map(Result::unwrap).collect()
}
