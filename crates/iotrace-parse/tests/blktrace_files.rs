//! blktrace files: goldens, real traces, damage, and what must hold for any bytes.

#![expect(clippy::unwrap_used, reason = "a test stops at once")]

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;

use iotrace_model::{Action, Cause, Comm, Cpu, DeviceId, Event, Item, Loss, Nanos, Op, Sector};
use iotrace_parse::{About, BlktraceReader, Progress, Reader};
use iotrace_testkit::{BlktraceBuilder, beside};
use proptest::prelude::*;

#[test]
fn newer_and_foreign_records_give_the_events_of_their_plain_twins() {
    let Some(plain) = golden("a_plain") else { return };
    for twin in ["k_big_endian", "l_version8"] {
        let twin = golden(twin).unwrap();
        assert_eq!(twin.items, plain.items);
        assert_eq!(twin.about.wall, plain.about.wall);
    }
    assert_eq!(golden("k_big_endian").unwrap().about.source, "blktrace 7, big-endian");
    assert_eq!(golden("l_version8").unwrap().about.source, "blktrace 8, little-endian");
}

#[test]
fn the_clock_and_the_names_of_a_trace_are_kept() {
    let Some(plain) = golden("a_plain") else { return };
    let about = &plain.about;
    assert_eq!(about.clock, "CLOCK_MONOTONIC");
    assert_eq!(about.origin, Some(Nanos(1_000_000_000_000)));
    // The wall clock was read one microsecond before the first event.
    assert_eq!(about.wall, Some(Nanos(1_700_000_000_123_457_789)));
    assert_eq!(about.names, [(DeviceId { major: 8, minor: 0 }, "sda".to_owned())]);
    let comms: Vec<_> = plain.events().map(|event| event.comm).take(2).collect();
    assert_eq!(comms, [Comm::new(b"fio"), Comm::new(b"dd")]);
    assert_eq!(plain.events().count(), 14);
}

#[test]
fn a_merged_dump_gives_the_events_of_its_files() {
    let Some(plain) = golden("a_plain") else { return };
    let path = beside("reference/golden/a_plain/dump.bin").unwrap();
    let dump = read(vec![(std::fs::read(path).unwrap(), "dump.bin".to_owned())]);
    assert_eq!(dump.items, plain.items);
    assert_eq!((dump.about.origin, dump.about.wall), (None, None));
    assert_eq!(dump.about.source, "blktrace 7, little-endian, merged dump");
}

#[test]
fn gaps_in_the_sequence_are_losses_placed_in_time() {
    let Some(gaps) = golden("g_gap") else { return };
    let losses: Vec<_> = gaps.losses().collect();
    assert_eq!(
        losses.iter().map(|loss| (loss.cpu, loss.count)).collect::<Vec<_>>(),
        [(Cpu(0), 3), (Cpu(1), 1),]
    );
    for loss in losses {
        let on_cpu = |event: &&Event| event.cpu == loss.cpu;
        let times: Vec<_> = gaps.events().filter(on_cpu).map(|event| event.time).collect();
        let place = times.iter().position(|time| *time == loss.from).unwrap();
        assert_eq!(times[place + 1], loss.to);
    }
    assert_eq!(gaps.ledger.count(Cause::KernelLost), 4);
}

#[test]
fn messages_and_cgroups_are_kept() {
    let Some(notify) = golden("h_notify") else { return };
    let texts: Vec<_> = notify.about.messages.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["plain message", "bfq slice end"]);
    let tagged = notify.events().filter(|event| event.cgroup.is_some()).count();
    let remap = notify.events().find(|event| event.action == Action::Remap).unwrap();
    assert!(tagged > 0 && remap.remap.is_some() && remap.cgroup.is_some());
}

#[test]
fn real_traces_have_the_counts_of_their_log() {
    let Some(folder) = beside("corpus/samples/s01-sdd4-zfs-trim-8cpu") else { return };
    let trace = read(files(&folder));
    assert_eq!(trace.counts(), BTreeMap::from([("issue", 1192), ("complete", 1206)]));
    assert_eq!(trace.ledger.lost(), 0);
    let span = trace.events().last().unwrap().time;
    assert_eq!(span.0 / 1_000_000, 56_335);

    let folder = beside("corpus/samples/s03-loop-merged-dump").unwrap();
    let bytes = std::fs::read(folder.join("loop.bin")).unwrap();
    let trace = read(vec![(bytes, "loop.bin".to_owned())]);
    assert_eq!(trace.events().count(), 5376);
    assert_eq!(trace.events().last().unwrap().time.0 / 10_000, 1918);

    let folder = beside("corpus/samples/s04-sda-lvm-3.10-cpu0-only").unwrap();
    let trace = read(files(&folder));
    assert_eq!(trace.events().count(), 230);
    let devices: Vec<_> = trace.events().map(|event| event.device).collect();
    assert!(devices.iter().all(|device| *device == Some(DeviceId { major: 8, minor: 2 })
        || *device == Some(DeviceId { major: 8, minor: 0 })));
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let Some(folder) = beside("corpus/samples/s01-sdd4-zfs-trim-8cpu") else { return };
    let mut reversed = files(&folder);
    reversed.reverse();
    assert_eq!(read(reversed).items, read(files(&folder)).items);
}

#[test]
fn a_stream_of_several_cpus_is_put_in_order() {
    let bytes = BlktraceBuilder::new()
        .queue(10, 0, 8)
        .queue(40, 8, 8)
        .cpu(1)
        .sequence(1)
        .queue(20, 16, 8)
        .sequence(4)
        .queue(50, 24, 8)
        .build();
    let trace = read(vec![(bytes, "stdin".to_owned())]);
    let loss = Loss { cpu: Cpu(1), from: Nanos(10), to: Nanos(40), count: 2 };
    let order: Vec<_> = trace
        .items
        .iter()
        .map(|item| match item {
            Item::Event(event) => event.time.0,
            Item::Loss(found) => {
                assert_eq!(*found, loss);
                -1
            }
        })
        .collect();
    assert_eq!(order, [0, 10, -1, 30, 40]);
}

#[test]
fn rubbish_and_a_cut_end_are_told_with_their_places() {
    let record = || BlktraceBuilder::new().queue(10, 0, 8).build();
    let mut bytes = record();
    bytes.extend([0xee; 100]);
    bytes.extend(record());
    bytes.extend(&record()[..20]);
    let trace = read(vec![(bytes, "sda.blktrace.0".to_owned())]);
    assert_eq!(trace.events().count(), 2);
    assert_eq!(trace.ledger.count(Cause::Malformed), 1);
    assert_eq!(trace.ledger.count(Cause::Truncated), 1);
    let notes = trace.about.notes.join("\n");
    assert!(notes.contains("100 bytes in 1 places, the first at byte 48"), "{notes}");
    assert!(notes.contains("the record at byte 196"), "{notes}");
}

#[test]
fn what_is_no_blktrace_file_is_refused() {
    let file: Box<dyn Read + Send> = Box::new(Cursor::new(b"PERFILE2".to_vec()));
    let error = BlktraceReader::open(vec![(file, "perf.data".to_owned())]).err().unwrap();
    assert_eq!(
        error.to_string(),
        "perf.data: not a blktrace file: byte 0 does not begin a record of version 7 or 8 in \
         either byte order"
    );
}

#[test]
fn an_empty_file_is_that_of_an_idle_cpu() {
    let record = BlktraceBuilder::new().queue(10, 0, 8).build();
    let names = ["sda.blktrace.0", "sda.blktrace.1"].map(str::to_owned);
    let trace = read(vec![(record, names[0].clone()), (Vec::new(), names[1].clone())]);
    assert_eq!(trace.events().count(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut damaged = BlktraceBuilder::new().queue(10, 0, 8).complete(20, 0, 8).build();
        damaged.extend(&bytes);
        read(vec![(damaged, "sda.blktrace.0".to_owned())]);
    }

    #[test]
    fn every_record_is_used_or_counted(
        flips in prop::collection::vec((0..1000_usize, any::<u8>()), 0..12),
        cut in 0..60_usize,
    ) {
        let mut bytes = some_trace();
        for (place, value) in flips {
            // The first record stays, or the file is refused.
            let place = 48 + place % (bytes.len() - 48);
            bytes[place] = value;
        }
        bytes.truncate(bytes.len() - cut);
        let trace = read(vec![(bytes, "sda.blktrace.0".to_owned())]);
        let counted = [Cause::Malformed, Cause::Truncated, Cause::Foreign]
            .map(|cause| trace.ledger.count(cause))
            .iter()
            .sum::<u64>();
        prop_assert_eq!(trace.records.used + counted, trace.records.read);
    }

    #[test]
    fn how_a_file_is_handed_over_changes_nothing(step in 1..97_usize) {
        let bytes = some_trace();
        let whole = read(vec![(bytes.clone(), "sda.blktrace.0".to_owned())]);
        let file: Box<dyn Read + Send> = Box::new(Sips { bytes, at: 0, step });
        let sips = read_all(vec![(file, "sda.blktrace.0".to_owned())]);
        prop_assert_eq!(sips.items, whole.items);
    }
}

fn some_trace() -> Vec<u8> {
    BlktraceBuilder::new()
        .timestamp(5, 1, 2)
        .process(6, "fio")
        .queue(10, 0, 8)
        .record(12, 0x0012_000f, 8, 4096, &[0; 16])
        .record(14, 0x0012_000d, 8, 4096, &64_u64.to_be_bytes())
        .issue(20, 0, 8)
        .error(65531)
        .complete(30, 0, 8)
        .build()
}

/// Hands out so many bytes at a time.
struct Sips {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
}

impl Read for Sips {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.bytes[self.at..];
        let size = self.step.min(rest.len()).min(out.len());
        out[..size].copy_from_slice(&rest[..size]);
        self.at += size;
        Ok(size)
    }
}

/// All that a reader says.
struct Trace {
    items: Vec<Item>,
    ledger: iotrace_model::Ledger,
    records: iotrace_parse::Records,
    about: About,
}

impl Trace {
    fn events(&self) -> impl Iterator<Item = &Event> {
        self.items.iter().filter_map(|item| match item {
            Item::Event(event) => Some(event),
            Item::Loss(_) => None,
        })
    }

    fn losses(&self) -> impl Iterator<Item = Loss> {
        self.items.iter().filter_map(|item| match item {
            Item::Event(_) => None,
            Item::Loss(loss) => Some(*loss),
        })
    }

    fn counts(&self) -> BTreeMap<&'static str, u32> {
        let mut counts = BTreeMap::new();
        for event in self.events() {
            *counts.entry(event.action.name().unwrap()).or_default() += 1;
        }
        counts
    }
}

/// A golden of one device, read from its files; `None` where there are none.
fn golden(case: &str) -> Option<Trace> {
    beside(&format!("reference/golden/{case}")).map(|folder| read(files(&folder)))
}

fn files(folder: &Path) -> Vec<(Vec<u8>, String)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains(".blktrace."))
        .collect();
    files.sort();
    let named = files.into_iter().map(|path| {
        (std::fs::read(&path).unwrap(), path.file_name().unwrap().to_str().unwrap().to_owned())
    });
    named.collect()
}

fn read(files: Vec<(Vec<u8>, String)>) -> Trace {
    let boxed = files.into_iter().map(|(bytes, path)| {
        let reader: Box<dyn Read + Send> = Box::new(Cursor::new(bytes));
        (reader, path)
    });
    read_all(boxed.collect())
}

fn read_all(files: Vec<(Box<dyn Read + Send>, String)>) -> Trace {
    let mut reader = BlktraceReader::open(files).unwrap();
    let mut items = Vec::new();
    while reader.next_batch(&mut items).unwrap() != Progress::End {}
    let (ledger, records, about) = (reader.take_ledger(), reader.records(), reader.about());
    Trace { items, ledger, records, about }
}

#[test]
fn actions_and_operations_of_the_flush_machinery_are_told() {
    let Some(flush) = golden("f_flush") else { return };
    let places: Vec<_> = flush
        .events()
        .filter(|event| event.op == Op::Flush)
        .map(|event| (event.action, event.sector, event.length_bytes))
        .collect();
    assert!(places.iter().all(|(_, sector, bytes)| sector.is_none() && *bytes == 0));
    assert_eq!(places.iter().filter(|(action, ..)| *action == Action::Issue).count(), 4);
    let zeroes = flush.events().find(|e| e.op == Op::Discard).unwrap();
    assert_eq!(zeroes.sector.map(|Sector(sector)| sector > 0), Some(true));
}
