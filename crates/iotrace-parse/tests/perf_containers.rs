//! Perf files in pipe mode, with compressed records, with every clock and attributes of any size.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use iotrace_model::{Cause, Item, Ledger, Nanos};
use iotrace_parse::{About, Error, Options, PerfReader, Progress, Reader, Records};
use iotrace_testkit::{FormatsPlace, Packing, PerfFileBuilder, beside, trace};

use self::support::{Kernel, builder, open, read};

const TRACE: &str = "
    100 0 Q R 8+8 pid=7 comm=fio
    200 1 Q W 16+8 pid=9 comm=dd
    300 0 D R 8+8 pid=7 comm=fio
    400 1 C R 8+8 pid=0 comm=
";
/// `IP | TID | TIME | CPU | PERIOD | RAW | IDENTIFIER`, as perf record takes.
const PERF: u64 = 0x1_0587;
const PACKINGS: [Packing; 2] = [Packing::Plain, Packing::Counted];

#[test]
fn a_file_from_a_pipe_is_read() {
    check(&file_of_trace(), "perf.data");
    check(file_of_trace().pipe(), "perf.data, pipe mode");
    let mut older = builder(Kernel::V6_1);
    for event in events() {
        older.event(&event);
    }
    let expected = read(&older.build()).0;
    assert_eq!(expected.len(), 4);
    assert_eq!(read(&older.pipe().build()).0, expected);
}

#[test]
fn compressed_records_are_read_wherever_they_are_cut() {
    for packing in PACKINGS {
        for piece in [1, 7, 100, 4096, 65_000] {
            let mut file = file_of_trace();
            check(file.compress(packing, piece), "perf.data, compressed");
            check(file.pipe(), "perf.data, pipe mode, compressed");
        }
    }
}

#[test]
fn a_record_that_begins_in_one_block_of_the_file_ends_in_the_next() {
    let mut file = builder(Kernel::V6_18);
    let [first, .., last] = events();
    let count: u64 = 20_000;
    file.event(&first);
    for _ in 0..count {
        file.record(3, &[0; 100]);
    }
    file.event(&last);
    for packing in [None, Some(Packing::Plain)] {
        if let Some(packing) = packing {
            file.compress(packing, 1000);
        }
        let (items, ledger, records) = read(&file.build());
        assert_eq!(items.len(), 2);
        assert_eq!(ledger.count(Cause::Foreign), count);
        assert_eq!(records, Records { read: count + 2, used: 2 });
    }
}

#[test]
fn a_damaged_compressed_record_is_counted_and_others_are_read() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third, fourth] = events();
    // No zstd frame; one that is cut off in its header; more bytes told than there are.
    file.event(&first).record(81, &[0xaa; 64]).event(&second).record(81, &[0x28, 0xb5]);
    file.event(&third).record(83, &[u64::MAX.to_le_bytes(); 2].concat()).event(&fourth);
    let (items, ledger, records) = read(&file.build());
    assert_eq!(items, events().map(Item::Event));
    // What the cut header goes on with is in no record, so only its record is without effect.
    assert_eq!(ledger.count(Cause::Malformed), 2);
    assert_eq!(records, Records { read: 6, used: 4 });
}

#[test]
fn behind_damage_a_new_stream_is_read() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, ..] = events();
    file.event(&first).round().event(&second).compress(Packing::Plain, 1000);
    let mut bytes = file.build();
    let start = usize::try_from(file.data_offset()).unwrap();
    let size = usize::from(u16::from_le_bytes([bytes[start + 6], bytes[start + 7]]));
    // Both streams are damaged: the second begins within the first.
    bytes[start + 8] ^= 0xff;
    let (items, ledger, records) = read(&bytes);
    assert_eq!((items, ledger.count(Cause::Malformed)), (Vec::new(), 2));
    assert_eq!(records, Records { read: 3, used: 1 });
    // A file of another stream goes on behind a stretch that is no stream.
    let mut other = builder(Kernel::V6_18);
    other.event(&second).compress(Packing::Plain, 1000);
    let tail = other.build()[usize::try_from(other.data_offset()).unwrap()..].to_vec();
    let mut joined = builder(Kernel::V6_18);
    joined.bytes(&bytes[start..start + size]).bytes(&tail[..tail.len() - 16]);
    let (items, ledger, _) = read(&joined.build());
    assert_eq!(items, [Item::Event(second)]);
    assert_eq!(ledger.count(Cause::Malformed), 1);
}

#[test]
fn a_compressed_file_that_is_cut_holds_what_was_before() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, ..] = events();
    file.place(FormatsPlace::Cut).event(&first).round().event(&second);
    let mut bytes = file.compress(Packing::Plain, 30).build();
    bytes.truncate(bytes.len() - 30);
    let (items, ledger, records) = read(&bytes);
    assert_eq!(items, [Item::Event(first)]);
    assert_eq!(ledger.count(Cause::Truncated), 1);
    assert_eq!(records, Records { read: 3, used: 2 });
}

#[test]
fn a_record_of_no_size_inside_ends_the_stream() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, ..] = events();
    file.event(&first).bytes(&[9, 0, 0, 0, 0, 0, 7, 0]).event(&second);
    let (items, ledger, records) = read(&file.compress(Packing::Plain, 4096).build());
    assert_eq!(items, [Item::Event(first)]);
    assert_eq!(ledger.count(Cause::Malformed), 1);
    assert_eq!(records, Records { read: 2, used: 1 });
}

#[test]
fn a_batch_is_bounded_however_well_its_records_were_compressed() {
    let mut file = builder(Kernel::V6_18);
    for _ in 0..300_000 {
        file.record(3, &[0; 24]);
    }
    let bytes = file.compress(Packing::Plain, 4096).build();
    assert!(bytes.len() < 400_000, "{}", bytes.len());
    let mut reader = open(&bytes, Options::default()).unwrap();
    let (mut items, mut before) = (Vec::new(), 0);
    while reader.next_batch(&mut items).unwrap() == Progress::More {
        let read = reader.records().read;
        assert!(read - before <= 1 << 14);
        before = read;
    }
    assert_eq!(reader.records(), Records { read: 300_000, used: 0 });
}

#[test]
fn the_earliest_event_is_time_0_when_no_other_start_is_told() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, ..] = events();
    // block_io_start is no event.
    file.sample(50, 0, 7, &[2102_u16.to_le_bytes(), [0; 2]].concat()).lost(60, 0, 3);
    file.event(&second).event(&first);
    let bytes = file.build();
    let mut reader = open(&bytes, Options::default()).unwrap();
    assert_eq!(reader.first_time(), Some(Nanos(0)));
    assert_eq!(reader.last_time(), Some(Nanos(100)));
    let times: Vec<_> = support::drain(&mut reader).iter().map(support::time).collect();
    assert_eq!(times, [0, 0, 100]);
    assert_eq!(reader.about().origin, Some(Nanos(100)));
}

#[test]
fn the_clock_is_told_and_related_to_the_wall_clock() {
    let about = |file: &PerfFileBuilder| {
        let bytes = file.build();
        open(&bytes, Options::default()).unwrap().about()
    };
    for place in [FormatsPlace::End, FormatsPlace::BeforeData] {
        let mut file = file_of_trace();
        file.place(place).clock(1, Some((1_000_000, 40)));
        let expected = About {
            source: "perf.data".to_owned(),
            clock: "CLOCK_MONOTONIC".to_owned(),
            origin: Some(Nanos(100)),
            wall: Some(Nanos(1_000_060)),
            ..About::default()
        };
        assert_eq!(about(&file), expected);
        let source = "perf.data, pipe mode".to_owned();
        assert_eq!(about(file.pipe()), About { source, ..expected });
    }
    let mut file = file_of_trace();
    assert_eq!(about(&file).clock, "perf");
    assert_eq!((about(&file).wall, about(&file).notes.len()), (None, 1));
    file.clock(0, None);
    assert_eq!(about(&file).clock, "CLOCK_REALTIME");
    assert_eq!((about(&file).wall, about(&file).notes.len()), (Some(Nanos(100)), 0));
    file.clock(4, None);
    assert_eq!(about(&file).clock, "CLOCK_MONOTONIC_RAW");
    assert_eq!((about(&file).wall, about(&file).notes.len()), (None, 1));
}

#[test]
fn attributes_of_older_and_newer_kernels_are_stepped_over() {
    for size in [96, 104, 136, 144, 4096] {
        let mut file = file_of_trace();
        check(file.attr_size(size), "perf.data");
        check(file.pipe(), "perf.data, pipe mode");
    }
}

#[test]
fn a_side_band_in_a_pipe_is_told_by_its_id() {
    let mut file = builder(Kernel::V6_18);
    let dummy = 1 << 16 | 0b1111 | 1 << 7;
    file.layout(PERF, 0).dummy(dummy).pipe();
    for event in events() {
        file.event(&event);
    }
    let before = read(&file.build());
    assert_eq!(before.0, events().map(Item::Event));
    file.record(9, &[99_u64, 1, 2, 260, 3, 0].map(u64::to_le_bytes).concat());
    let (items, ledger, records) = read(&file.build());
    assert_eq!(items, before.0);
    assert_eq!(ledger.count(Cause::Foreign), before.1.count(Cause::Foreign) + 1);
    assert_eq!(records, Records { read: before.2.read + 1, used: 4 });
}

#[test]
fn a_file_without_tracepoints_says_so() {
    check_error(b"PERFILE2\x10\0\0\0\0\0\0\0", |error| {
        matches!(error, Error::NoTracepoints { .. })
    });
    let mut file = PerfFileBuilder::new();
    file.dummy(PERF).record(3, &[0; 24]);
    let expected = "x.data: no tracepoints in this file: its samples are of other events; record with \
                    perf record -a -k mono -e 'block:*'";
    let message = |bytes: &[u8]| open(bytes, Options::default()).unwrap_err().to_string();
    assert_eq!(message(&file.build()), expected);
    assert_eq!(message(&file.pipe().build()), expected);
    if let Some(path) = beside("corpus/samples/s39-no-tracepoints-perf6.16.perf.data") {
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(message(&bytes), expected);
    }
}

#[test]
fn a_pipe_without_formats_says_so() {
    let mut file = file_of_trace();
    file.pipe().place(FormatsPlace::Missing);
    check_error(&file.build(), |error| matches!(error, Error::NoFormats { .. }));
}

#[test]
fn tracepoints_that_are_no_events_are_noted() {
    let mut file = PerfFileBuilder::new();
    let text =
        "name: sched_switch\nID: 310\nformat:\n\tfield:int x;\toffset:8;\tsize:4;\tsigned:1;\n";
    file.format("sched", text).sample(10, 0, 7, &[310_u16.to_le_bytes(); 8].concat());
    let bytes = file.build();
    let mut reader = open(&bytes, Options::default()).unwrap();
    assert_eq!(support::drain(&mut reader), []);
    assert!(reader.about().notes.iter().any(|note| note.contains("no tracepoint of the file")));
    assert_eq!(reader.take_ledger().count(Cause::Foreign), 1);
    assert_eq!(reader.take_ledger(), Ledger::default());
}

fn file_of_trace() -> PerfFileBuilder {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third, fourth] = events();
    file.event(&first).event(&second).round().event(&third).round().event(&fourth);
    file
}

/// The events of `TRACE` as Linux 6.18 gives them.
fn events() -> [iotrace_model::Event; 4] {
    let events = trace(TRACE).into_iter().map(|item| match item {
        Item::Event(mut event) => {
            use iotrace_model::Action::{Complete, Issue};
            event.io_priority = matches!(event.action, Issue | Complete).then_some(0);
            event
        }
        Item::Loss(loss) => panic!("an event was wanted: {loss:?}"),
    });
    events.collect::<Vec<_>>().try_into().unwrap()
}

#[track_caller]
fn check(file: &PerfFileBuilder, source: &str) {
    let bytes = file.build();
    let mut reader = open(&bytes, support::own_times()).unwrap();
    assert_eq!(support::drain(&mut reader), events().map(Item::Event));
    assert_eq!(reader.about().source, source);
    let ledger = reader.take_ledger();
    let Records { read, used } = reader.records();
    assert_eq!((used, read - used), (6, ledger.count(Cause::Foreign)));
    assert!(!ledger.is_incomplete());
}

#[track_caller]
fn check_error(bytes: &[u8], is_expected: impl Fn(&Error) -> bool) {
    let error = open(bytes, Options::default()).map(|_: PerfReader<_>| ()).unwrap_err();
    assert!(is_expected(&error), "{error:?}");
}
