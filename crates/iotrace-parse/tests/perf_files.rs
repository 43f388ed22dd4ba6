//! Perf files of every shape, built in memory, and what is read from them.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use iotrace_model::{
    Action, AtaPort, Cause, Cpu, DeviceId, Event, Flags, Item, Ledger, Loss, Nanos, Op, Protocol,
    Sector,
};
use iotrace_parse::{Error, Options, PerfReader, Records};
use iotrace_testkit::{DISK, EventBuilder, FormatsPlace, PerfFileBuilder, trace};

use self::support::{Kernel, builder, open, read};

/// `IP | TID | TIME | ADDR | ID | STREAM_ID | CPU | PERIOD | READ | CALLCHAIN | RAW | IDENTIFIER`.
const EVERYTHING: u64 = 0x1_07ff;
/// What perf record takes: `IP | TID | TIME | CPU | PERIOD | RAW | IDENTIFIER`.
const PERF: u64 = 0x1_0587;

/// One of each action, as the kernel gives them.
const EVERY_ACTION: &str = "
    1000 0 A WS 2072+8 <- 8,1 24 comm=
    1100 0 Q WS 2072+8 pid=700 comm=fio
    1200 0 X WS 2072+4 >2076 pid=700 comm=fio
    1300 0 G WS 2072+4 pid=700 comm=fio
    1350 1 M W 4104+8 pid=701 comm=dd
    1360 1 F W 4088+8 pid=701 comm=dd
    1400 0 I WS 2072+4 pid=700 comm=fio
    1450 1 RM W 4112+8 pid=701 comm=dd
    1500 0 D WS 2072+4 pid=57 comm=kworker/0:1H
    1550 0 R WS 2072+4 pid=57 comm=
    1600 0 D WS 2072+4 pid=57 comm=kworker/0:1H
    1900 1 C WS 2072+4 pid=0 comm= =-5
    2000 1 BC R 64+8 pid=0 comm= @253,0
";

#[test]
fn every_action_is_read_from_linux_6_18() {
    let items = trace(EVERY_ACTION);
    let priority = |item: &Item| match item {
        Item::Event(event) => Item::Event(Event { io_priority: priority_of(event), ..*event }),
        Item::Loss(loss) => Item::Loss(*loss),
    };
    check(Kernel::V6_18, &items, &items.iter().map(priority).collect::<Vec<_>>());
}

#[test]
fn every_action_is_read_from_linux_6_1() {
    let items = trace(EVERY_ACTION);
    check(Kernel::V6_1, &items, &items);
}

/// Request events have the word since 6.11; 0 is "no class".
fn priority_of(event: &Event) -> Option<u16> {
    let is_request = matches!(
        event.action,
        Action::Insert | Action::Issue | Action::Requeue | Action::Complete | Action::RequestMerge
    );
    is_request.then_some(0)
}

#[test]
fn a_plug_names_a_thread_and_no_device() {
    let plug = |action, time| EventBuilder::new(action, time).op(Op::Other, Flags::default());
    let items = [
        plug(Action::Plug, 10).device(None).thread(7, "fio").item(),
        plug(Action::Unplug, 20).device(None).thread(7, "fio").sequence(1).item(),
    ];
    check(Kernel::V6_18, &items, &items);
}

#[test]
fn requests_without_a_place_have_no_sector() {
    let builder = |action| EventBuilder::new(action, 10).thread(7, "fio");
    let flush = builder(Action::Issue).op(Op::Flush, Flags::default());
    check_one(flush.sectors(0, 0), flush);
    let empty = builder(Action::Queue).op(Op::Write, Flags::PREFLUSH.with(Flags::SYNC));
    check_one(empty.sectors(u64::MAX - 19, 0), empty);
    let passthrough = builder(Action::Issue).op(Op::Other, Flags::default()).bytes(96);
    let build = passthrough.build();
    let raw = Event { sector: Some(Sector(0)), ..build };
    assert_eq!(without_priority(&read_events(&[raw])), [build]);
    let done = EventBuilder::new(Action::Complete, 10).op(Op::Other, Flags::default());
    let done = done.thread(7, "");
    check_one(done, done);
    let zero = EventBuilder::new(Action::Complete, 10).op(Op::Write, Flags::SYNC).thread(0, "");
    check_one(zero.sectors(4656, 0), zero.sectors(4656, 0));
}

#[test]
fn driver_commands_have_the_device_of_their_port() {
    let command = |action, time: i64| EventBuilder::new(action, time).thread(7, "");
    let issue = command(Action::CommandIssue, 10).op(Op::Write, Flags::default());
    let done = command(Action::CommandComplete, 30).op(Op::Other, Flags::default());
    let items = [
        issue.sectors(0x0102_0304_0506, 0x808).command(19, Some(Protocol::AtaNcq)).item(),
        issue.sectors(4096, 65536).command(3, Some(Protocol::AtaDma)).sequence(1).item(),
        done.command(19, None).sequence(2).item(),
        done.command(3, None).error(-5).sequence(3).item(),
    ];
    let mut file = builder(Kernel::V6_18);
    put(&mut file, &items);
    let options =
        Options { origin: Some(Nanos(0)), devices: vec![(AtaPort { port: 1, device: 0 }, DISK)] };
    let bytes = file.build();
    let mut reader = open(&bytes, options).unwrap();
    assert_eq!(support::drain(&mut reader), items);
    let unmapped: Vec<_> = read(&file.build()).0.iter().map(device).collect();
    assert_eq!(unmapped, [None; 4]);
}

fn device(item: &Item) -> Option<DeviceId> {
    match item {
        Item::Event(event) => event.device,
        Item::Loss(_) => None,
    }
}

#[test]
fn every_field_of_a_sample_is_passed_over() {
    let items = trace("10 0 Q R 8+8 pid=7 comm=fio\n20 3 Q W 16+8 pid=9 comm=dd");
    for read_format in 0..32 {
        let mut file = builder(Kernel::V6_18);
        file.layout(EVERYTHING, read_format);
        put(&mut file, &items);
        assert_eq!(read(&file.build()).0, items, "read format {read_format}");
    }
    for sample_type in [PERF, 1 << 2 | 1 << 7 | 1 << 10 | 1 << 1] {
        let mut file = builder(Kernel::V6_18);
        file.layout(sample_type, 0);
        put(&mut file, &items);
        assert_eq!(read(&file.build()).0, items, "sample type {sample_type:#x}");
    }
}

#[test]
fn formats_are_found_wherever_they_stand() {
    let items = trace("10 0 Q R 8+8\n20 1 Q W 16+8");
    for place in [FormatsPlace::End, FormatsPlace::BeforeData, FormatsPlace::Cut] {
        let mut file = builder(Kernel::V6_18);
        file.place(place);
        put(&mut file, &items);
        assert_eq!(read(&file.build()).0, items, "{place:?}");
    }
    let mut file = builder(Kernel::V6_18);
    file.place(FormatsPlace::Missing);
    put(&mut file, &items);
    let expected = file.data_offset();
    check_error(
        &file.build(),
        |error| matches!(error, Error::NoFormats { offset, .. } if *offset == expected),
    );
}

#[test]
fn a_capture_without_records_is_empty() {
    for place in [FormatsPlace::End, FormatsPlace::BeforeData, FormatsPlace::Cut] {
        let (items, ledger, records) = read(&builder(Kernel::V6_18).place(place).build());
        assert_eq!((items, ledger, records), (Vec::new(), Ledger::default(), Records::default()));
    }
}

#[test]
fn a_loss_comes_where_it_begins_although_it_is_reported_late() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n4000 1 Q R 16+8\n5000 0 Q R 24+8");
    file.event(&first).round().event(&second).round().round();
    file.lost(5000, 0, 7).event(&third);
    let loss = Loss { cpu: Cpu(0), from: Nanos(100), to: Nanos(5000), count: 7 };
    let (items, ledger, records) = read(&file.build());
    let [first, second, third] = [first, second, third].map(Item::Event);
    assert_eq!(items, [first, Item::Loss(loss), second, third]);
    let mut expected = Ledger::default();
    expected.add(Cause::KernelLost, Some(Cpu(0)), Some(Nanos(100)), 7);
    assert_eq!(ledger, expected);
    assert_eq!(records, Records { read: 7, used: 7 });
}

#[test]
fn a_loss_before_anything_else_begins_with_the_run() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 0 Q R 24+8");
    file.event(&first).event(&second).lost(250, 1, 7).lost_samples(260, 1, 2).event(&third);
    let bytes = file.build();
    let gaps = |origin| {
        let options = Options { origin: Some(Nanos(origin)), devices: Vec::new() };
        let items = support::drain(&mut open(&bytes, options).unwrap());
        let losses = items.iter().filter_map(|item| match item {
            Item::Loss(loss) => Some((loss.from.0, loss.to.0, loss.count)),
            Item::Event(_) => None,
        });
        losses.collect::<Vec<_>>()
    };
    assert_eq!(gaps(0), [(100, 250, 7), (250, 260, 2)]);
    assert_eq!(gaps(50), [(0, 200, 7), (200, 210, 2)]);
}

#[test]
fn a_loss_without_a_trailer_is_counted_without_a_place() {
    let mut file = builder(Kernel::V6_18);
    file.without_trailers().lost(250, 1, 7);
    let mut expected = Ledger::default();
    expected.add(Cause::KernelLost, None, None, 7);
    assert_eq!(read(&file.build()), (Vec::new(), expected, Records { read: 1, used: 1 }));
}

#[test]
fn what_counters_lost_in_all_is_counted_once() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 1 Q R 24+8");
    file.event(&first).lost(200, 0, 7).event(&second).event(&third);
    file.lost_samples(0, 0, 4).lost_samples(0, 0, 5);
    let (items, ledger, records) = read(&file.build());
    let loss = Loss { cpu: Cpu(0), from: Nanos(100), to: Nanos(200), count: 7 };
    let [first, second, third] = [first, second, third].map(Item::Event);
    assert_eq!(items, [first, Item::Loss(loss), second, third]);
    let mut expected = Ledger::default();
    expected.add(Cause::KernelLost, Some(Cpu(0)), Some(Nanos(100)), 7);
    expected.add(Cause::KernelLost, None, Some(Nanos(300)), 2);
    assert_eq!(ledger, expected);
    assert_eq!(records, Records { read: 6, used: 6 });
}

#[test]
fn the_thread_of_an_ended_task_is_read_from_the_event_itself() {
    let mut raw = vec![0; 64];
    raw[..2].copy_from_slice(&2097_u16.to_le_bytes());
    raw[4..8].copy_from_slice(&700_u32.to_le_bytes());
    let mut file = builder(Kernel::V6_18);
    file.sample(10, 0, u32::MAX, &raw).sample(20, 0, 7, &raw);
    let mut without = builder(Kernel::V6_18);
    without.layout(1 << 2 | 1 << 7 | 1 << 10, 0).sample(10, 0, 7, &raw);
    let threads = |file: &PerfFileBuilder| {
        let items = read(&file.build()).0;
        let threads = items.iter().filter_map(|item| match item {
            Item::Event(event) => Some(event.pid),
            Item::Loss(_) => None,
        });
        threads.collect::<Vec<_>>()
    };
    assert_eq!(threads(&file), [700, 7]);
    assert_eq!(threads(&without), [700]);
}

#[test]
fn a_side_band_with_another_layout_is_told_by_its_id() {
    let mut file = builder(Kernel::V6_18);
    // Its trailers have `TID | TIME | CPU | IDENTIFIER`, and an address besides in samples.
    let dummy = 1 << 16 | 0b1111 | 1 << 7;
    file.layout(PERF | 1 << 6, 0).dummy(dummy);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 0 Q R 24+8");
    file.event(&first).event(&second).lost_by(dummy, 99, 250, 0, 7).event(&third);
    let sample = [99_u64, 1, 2, 260, 3, 0].map(u64::to_le_bytes).concat();
    file.record(9, &sample);
    let (items, ledger, records) = read(&file.build());
    let loss = Loss { cpu: Cpu(0), from: Nanos(200), to: Nanos(250), count: 7 };
    let [first, second, third] = [first, second, third].map(Item::Event);
    assert_eq!(items, [first, second, Item::Loss(loss), third]);
    assert_eq!(ledger.count(Cause::Foreign), 1);
    assert_eq!(records, Records { read: 5, used: 4 });
}

#[test]
fn records_and_tracepoints_that_are_no_events_are_counted_as_foreign() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 0 Q R 24+8");
    // block_io_start, an id without a format, PERF_RECORD_COMM.
    file.event(&first).sample(150, 0, 7, &[2102_u16.to_le_bytes(), [0; 2]].concat());
    file.sample(160, 0, 7, &[0xff; 60]).event(&second).record(3, &[0; 40]).event(&third);
    let (items, ledger, records) = read(&file.build());
    assert_eq!(items, [first, second, third].map(Item::Event));
    assert_eq!(ledger.count(Cause::Foreign), 3);
    assert!(!ledger.is_incomplete());
    assert_eq!(records, Records { read: 6, used: 3 });
}

#[test]
fn a_malformed_sample_is_counted_and_the_next_one_read() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 0 Q R 24+8");
    // Shorter than its layout, shorter than its format, a CPU that no machine has, a loss cut short.
    file.event(&first).record(9, &[0; 12]);
    file.sample(150, 0, 7, &2097_u16.to_le_bytes()).event(&second);
    file.sample(250, u32::MAX, 7, &[0; 60]).record(2, &[0; 8]).event(&third);
    let (items, ledger, records) = read(&file.build());
    assert_eq!(items, [first, second, third].map(Item::Event));
    assert_eq!(ledger.count(Cause::Malformed), 4);
    assert_eq!(records, Records { read: 7, used: 3 });
}

#[test]
fn a_record_of_no_size_ends_the_stream() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 0 Q R 24+8");
    file.event(&first).event(&second).bytes(&[9, 0, 0, 0, 0, 0, 7, 0]).event(&third);
    let (items, ledger, records) = read(&file.build());
    assert_eq!(items, [first, second].map(Item::Event));
    assert_eq!(ledger.count(Cause::Malformed), 1);
    assert_eq!(records, Records { read: 3, used: 2 });
}

#[test]
fn a_cut_last_record_is_counted_and_the_rest_kept() {
    let mut file = builder(Kernel::V6_18);
    file.place(FormatsPlace::Cut);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 0 Q R 24+8");
    let mut bytes = file.event(&first).event(&second).event(&third).build();
    bytes.truncate(bytes.len() - 1);
    let (items, ledger, records) = read(&bytes);
    assert_eq!(items, [first, second].map(Item::Event));
    assert_eq!(ledger.count(Cause::Truncated), 1);
    assert_eq!(records, Records { read: 3, used: 2 });
}

#[test]
fn trace_data_of_a_processor_is_passed_over() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n300 0 Q R 24+8");
    let size = 3_000_000_u64;
    file.event(&first).record(71, &[size.to_le_bytes(), [0; 8]].concat());
    file.bytes(&vec![0xaa; usize::try_from(size).unwrap()]).event(&second).event(&third);
    let (items, ledger, _) = read(&file.build());
    assert_eq!(items, [first, second, third].map(Item::Event));
    assert_eq!(ledger.count(Cause::Foreign), 1);
    assert!(!ledger.is_incomplete());
}

#[test]
fn an_event_far_behind_the_others_is_counted_as_backwards() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("100 0 Q R 8+8\n200 0 Q R 16+8\n50 1 Q R 24+8");
    file.event(&first).event(&second);
    // More than are read at once.
    for _ in 0..5000 {
        file.round();
    }
    file.event(&third);
    let (items, ledger, records) = read(&file.build());
    assert_eq!(items, [first, second, third].map(Item::Event));
    assert_eq!(ledger.count(Cause::TimeBackwards), 1);
    assert_eq!(records, Records { read: 5003, used: 5003 });
}

#[test]
fn times_count_from_the_start_of_the_run() {
    let mut file = builder(Kernel::V6_18);
    let [first, second, third] = three("1000 0 Q R 8+8\n2000 0 Q R 16+8\n3000 0 Q R 24+8");
    file.event(&first).event(&third).event(&second);
    let options = Options { origin: Some(Nanos(1500)), devices: Vec::new() };
    let bytes = file.build();
    let mut reader = open(&bytes, options).unwrap();
    assert_eq!(reader.first_time(), Some(Nanos(-500)));
    assert_eq!(reader.last_time(), Some(Nanos(1500)));
    let times = support::drain(&mut reader).iter().map(support::time).collect::<Vec<_>>();
    assert_eq!(times, [-500, 500, 1500]);
}

#[test]
fn what_cannot_be_read_at_all_is_named() {
    check_message(b"", "x.data: not a perf file: byte 0 does not begin the word PERFILE2");
    check_error(b"2ELIFREP", |error| matches!(error, Error::BigEndian { .. }));
    check_error(b"PERFILE2", |error| matches!(error, Error::OutOfFile { part: "header", .. }));
    let none = PerfFileBuilder::new().build();
    check_error(&none, |error| matches!(error, Error::OutOfFile { .. }));
    let mut timeless = builder(Kernel::V6_18);
    timeless.layout(1 << 7 | 1 << 10, 0);
    check_error(&timeless.build(), |error| {
        matches!(error, Error::SampleLayout { what: "the time", .. })
    });
    let mut damaged = builder(Kernel::V6_18).build();
    let magic = damaged.windows(10).position(|bytes| bytes == b"\x17\x08\x44tracing").unwrap();
    damaged[magic + 33] ^= 0xff;
    check_error(&damaged, |error| matches!(error, Error::BadFormats { .. }));
}

#[track_caller]
fn check(kernel: Kernel, items: &[Item], expected: &[Item]) {
    let mut file = builder(kernel);
    put(&mut file, items);
    let (found, ledger, records) = read(&file.build());
    assert_eq!(found, expected);
    assert_eq!(ledger, Ledger::default());
    let all = items.len() as u64;
    assert_eq!(records, Records { read: all, used: all });
}

/// What is written as `given` must be read as `expected`, but for the io priority.
#[track_caller]
fn check_one(given: EventBuilder, expected: EventBuilder) {
    let found = read_events(&[given.build()]);
    assert_eq!(without_priority(&found), [expected.build()]);
}

fn read_events(events: &[Event]) -> Vec<Event> {
    let mut file = builder(Kernel::V6_18);
    for event in events {
        file.event(event);
    }
    let items = read(&file.build()).0;
    let events = items.into_iter().map(|item| match item {
        Item::Event(event) => event,
        Item::Loss(loss) => panic!("nothing was lost: {loss:?}"),
    });
    events.collect()
}

fn without_priority(events: &[Event]) -> Vec<Event> {
    events.iter().map(|event| Event { io_priority: None, ..*event }).collect()
}

fn three(text: &str) -> [Event; 3] {
    let events = trace(text).into_iter().map(|item| match item {
        Item::Event(event) => event,
        Item::Loss(loss) => panic!("an event was wanted: {loss:?}"),
    });
    events.collect::<Vec<_>>().try_into().unwrap()
}

fn put(file: &mut PerfFileBuilder, items: &[Item]) {
    for item in items {
        match item {
            Item::Event(event) => file.event(event),
            Item::Loss(loss) => panic!("only events have samples: {loss:?}"),
        };
    }
}

#[track_caller]
fn check_error(bytes: &[u8], is_expected: impl Fn(&Error) -> bool) {
    let error = open(bytes, Options::default()).map(|_: PerfReader<_>| ()).unwrap_err();
    assert!(is_expected(&error), "{error:?}");
}

#[track_caller]
fn check_message(bytes: &[u8], expected: &str) {
    let error = open(bytes, Options::default()).map(|_: PerfReader<_>| ()).unwrap_err();
    assert_eq!(error.to_string(), expected);
}
