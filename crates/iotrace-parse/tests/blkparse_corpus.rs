//! Text that people showed to each other: everything in it is read, and read right.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod blkparse_support;

use iotrace_model::Action::{
    BackMerge, Bounce, Complete, Get, Insert, Issue, Plug, Queue, Remap, Requeue, Split, Unplug,
    UnplugTimer,
};
use iotrace_model::{Action, Cause, Cpu, DeviceId, Event, Flags, Nanos, Op, Sector};
use iotrace_testkit::beside;

use self::blkparse_support::Text;

/// Lines that are no event, and sequence numbers that are missing.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    foreign: u64,
    malformed: u64,
    missing: u64,
    truncated: u64,
    backwards: u64,
}

#[test]
fn dm_crypt_on_nvme() {
    let Some(text) = load("s06-nvme-dmcrypt-flush.blkparse.txt", None) else { return };
    check_actions(
        &text,
        &[
            (Remap, 473),
            (Queue, 248),
            (Get, 142),
            (Plug, 88),
            (BackMerge, 106),
            (Issue, 142),
            (Complete, 165),
        ],
    );
    check_counted(&text, &Counted { foreign: 93, ..Counted::default() });
    check_one_device(&text, 259, 0);
    let events = text.events();
    let flushes = |action| events.iter().filter(move |e| e.action == action && e.op == Op::Flush);
    assert_eq!(flushes(Issue).count(), 23);
    assert_eq!(flushes(Complete).count(), 23);
    assert!(flushes(Issue).all(|event| event.sector.is_none() && event.flags == Flags::default()));
    let empty = |e: &&Event| e.action == Queue && e.flags.has(Flags::PREFLUSH);
    assert_eq!(events.iter().filter(empty).count(), 23);
    assert!(events.iter().filter(empty).all(|e| e.sector.is_none() && e.op == Op::Write));
    // The 23 bios complete without data.
    let done = |e: &&Event| e.action == Complete && e.op == Op::Write && e.length_bytes == 0;
    assert_eq!(events.iter().filter(done).count(), 23);
    let first = flushes(Issue).next().unwrap();
    assert_eq!(first.time, Nanos(24_133_625));
    let remap = events.first().unwrap().remap.unwrap();
    assert_eq!((remap.device, remap.sector), (device(253, 3), Sector(578_805_392)));
}

#[test]
fn completions_of_a_ram_disk_some_before_the_first_event() {
    let Some(text) = load("s08-ramdisk-complete-only.blkparse.txt", None) else { return };
    check_actions(&text, &[(Complete, 840)]);
    check_counted(&text, &Counted::default());
    check_one_device(&text, 1, 0);
    let events = text.events();
    assert_eq!(events.iter().filter(|event| event.flags.has(Flags::SYNC)).count(), 816);
    let early: Vec<_> = events.iter().filter(|event| event.time < Nanos(0)).collect();
    assert_eq!(early.len(), 196);
    assert!(early.iter().all(|event| event.cpu == Cpu(13)));
    assert_eq!(early.first().unwrap().time, Nanos(-39_474_224));
    assert_eq!(early.last().unwrap().time.0 / 1000, -39_108);
    let note = "196 times lie before the first event and were printed as 1266874889 s";
    assert!(text.about.notes.iter().any(|found| found == note));
}

#[test]
fn six_captures_in_one_file() {
    let Some(text) = load("s09-nullblk-5.11-sections.blkparse.txt", None) else { return };
    let sizes: Vec<_> = text.sections.iter().map(Vec::len).collect();
    assert_eq!(sizes, [23, 23, 23, 22, 100, 58]);
    let merged =
        [(Queue, 5), (Bounce, 5), (Get, 1), (BackMerge, 4), (Insert, 1), (Issue, 1), (Complete, 6)];
    for section in text.sections.iter().take(3) {
        check_section(section, &merged);
    }
    let direct = merged.map(|(action, count)| (action, if action == Insert { 0 } else { count }));
    check_section(&text.sections[3], &direct);
    check_section(
        &text.sections[4],
        &[(Queue, 1), (Split, 19), (Get, 20), (Insert, 20), (Issue, 20), (Complete, 20)],
    );
    check_section(
        &text.sections[5],
        &[(Queue, 10), (Get, 10), (Insert, 12), (Issue, 13), (Requeue, 3), (Complete, 10)],
    );
    for section in &text.sections {
        assert_eq!(section.first().unwrap().time, Nanos(0));
        assert!(section.is_sorted_by_key(|event| event.sequence));
    }
    check_counted(&text, &Counted { foreign: 72, ..Counted::default() });
    check_one_device(&text, 252, 0);
    // Four sectors each, which the driver's splits do not tell.
    let discards = text.sections[4].iter().filter(|event| event.action == Issue);
    assert!(
        discards.into_iter().all(|event| event.op == Op::Discard && event.length_bytes == 2048)
    );
}

#[test]
fn a_raid_printed_live() {
    let Some(text) = load("s10a-raid0-live-unsorted-5.4.blkparse.txt", None) else { return };
    check_actions(
        &text,
        &[(Remap, 5), (Get, 5), (Plug, 5), (Unplug, 5), (Issue, 5), (Complete, 5)],
    );
    check_counted(&text, &Counted { foreign: 74, ..Counted::default() });
    check_one_device(&text, 259, 0);
    let events = text.events();
    assert!(events.is_sorted_by_key(|event| event.time));
    assert_eq!(events.first().unwrap().time, Nanos(-101_031));
    let latencies = |action| events.iter().filter(move |event| event.action == action);
    // One write at a time: in true order the nth issue completes nth.
    let d2c = latencies(Issue).zip(latencies(Complete)).map(|(d, c)| c.time.0 - d.time.0);
    assert_eq!(d2c.collect::<Vec<_>>(), [42_108, 39_725, 42_996, 40_934, 31_290]);
}

#[test]
fn a_zoned_device_with_remarks_and_an_error() {
    let Some(text) = load("s11-zoned-nullblk-eio.blkparse.txt", None) else { return };
    check_actions(
        &text,
        &[(Queue, 1), (Split, 6), (Get, 5), (Insert, 5), (Issue, 2), (Complete, 3)],
    );
    // On CPU 3, numbers 11 to 280 lie in the part that was left out.
    check_counted(&text, &Counted { foreign: 3, missing: 270, ..Counted::default() });
    let events = text.events();
    let failed = events.iter().find(|event| event.error == Some(-5)).unwrap();
    assert_eq!((failed.sector, failed.length_bytes), (Some(Sector(0)), 765 * 512));
    assert_eq!(failed.time, Nanos(871_077_227));
    let late = events.iter().find(|event| event.time == Nanos(871_075_262)).unwrap();
    assert_eq!((late.action, late.comm.as_bytes()), (Issue, b"kworker/3:2H".as_slice()));
    assert!(
        events.iter().filter(|event| event.action == Split).all(|e| e.length_bytes == 255 * 512)
    );
}

#[test]
fn columns_of_a_patched_version() {
    let Some(text) = load("s13-ioprio-columns.blkparse.txt", None) else { return };
    check_actions(&text, &[(Queue, 7), (Get, 8), (Insert, 8), (Issue, 8), (Complete, 8)]);
    let sizes: Vec<_> = text.sections.iter().map(Vec::len).collect();
    assert_eq!(sizes, [20, 19]);
    for event in text.events() {
        assert_eq!((event.sector, event.length_bytes), (Some(Sector(0)), 4096));
        assert_eq!((event.op, event.flags), (Op::Other, Flags::SYNC));
    }
    let priorities = |section: &Vec<Event>| {
        let mut found: Vec<_> = section.iter().map(|event| event.io_priority).collect();
        found.dedup();
        found
    };
    let (no_class, real, best, idle) = (0, 1 << 13 | 4, 2 << 13 | 4, 3 << 13 | 7);
    assert_eq!(priorities(&text.sections[0]), [Some(no_class), Some(real), Some(best), Some(idle)]);
    assert_eq!(priorities(&text.sections[1]), [Some(no_class), Some(real), None, Some(idle)]);
    let d2c = |action| {
        let events = text.events().into_iter();
        events.filter(move |event| event.action == action).map(|event| event.time.0)
    };
    let d2c: Vec<_> = d2c(Issue).zip(d2c(Complete)).map(|(d, c)| c - d).collect();
    assert_eq!(d2c, [38_990, 37_253, 33_239, 36_240, 42_951, 32_970, 23_467, 22_971]);
    let note = "line 22 cannot be read: expected a device, major,minor, in column 1, found \"2.\"; \
                9 such lines";
    assert!(text.about.notes.iter().any(|found| found == note), "{:?}", text.about.notes);
}

#[test]
fn completions_with_times_of_blkparse() {
    let Some(text) = load("s15-track-ios-delta.blkparse.txt", None) else { return };
    check_actions(&text, &[(Complete, 38)]);
    check_one_device(&text, 259, 1);
    let events = text.events();
    assert_eq!(events.iter().filter(|event| event.op == Op::Discard).count(), 15);
    let first = events.first().unwrap();
    assert_eq!((first.sector, first.length_bytes), (Some(Sector(2048)), 131_072));
    assert!(events.iter().all(|event| event.error == Some(0)));
    let note = "the times in brackets are blkparse's own (-t) and are not used";
    assert!(text.about.notes.iter().any(|found| found == note));
    assert_eq!(text.ledger.count(Cause::Malformed), 0);
}

#[test]
fn a_disk_with_remarks_on_its_lines() {
    let Some(text) = load("s17-sdc-partition-annotated.blkparse.txt", None) else { return };
    check_actions(
        &text,
        &[
            (Remap, 9),
            (Queue, 7),
            (Get, 7),
            (Insert, 7),
            (Issue, 10),
            (Complete, 11),
            (Plug, 3),
            (Unplug, 3),
        ],
    );
    check_one_device(&text, 8, 32);
    let events = text.events();
    let commands: Vec<_> = events
        .iter()
        .filter(|event| event.op == Op::Other && matches!(event.action, Issue | Complete))
        .collect();
    assert_eq!(commands.len(), 6);
    assert!(commands.iter().all(|event| event.sector.is_none() && event.length_bytes == 0));
    let d2c: Vec<_> = commands.chunks(2).map(|pair| pair[1].time.0 - pair[0].time.0).collect();
    assert_eq!(d2c, [386_405, 307_364, 217_413]);
    assert_eq!(text.ledger.count(Cause::Malformed), 0, "{:?}", text.about.notes);
}

#[test]
fn a_device_without_requests() {
    let Some(text) = load("s18-pmem-bio-only.btrace.txt", None) else { return };
    check_actions(&text, &[(Queue, 13), (Complete, 13)]);
    check_counted(&text, &Counted { foreign: 4, ..Counted::default() });
    let events = text.events();
    let commit = events.iter().find(|event| event.flags.has(Flags::PREFLUSH)).unwrap();
    assert_eq!(
        (commit.op, commit.sector, commit.length_bytes),
        (Op::Write, Some(Sector(3_932_264)), 4096)
    );
    assert!(commit.flags.has(Flags::FUA));
    assert_eq!(events[1].time.0 - events[0].time.0, 3_283);
}

#[test]
fn an_old_kernel_and_lines_left_out() {
    let Some(text) = load("s21-ide-2.6.17-live.blkparse.txt", None) else { return };
    check_actions(
        &text,
        &[
            (Queue, 15),
            (Get, 3),
            (Insert, 3),
            (BackMerge, 12),
            (Unplug, 3),
            (Issue, 2),
            (Complete, 2),
        ],
    );
    // 5 to 94, 107 to 194, 210 to 23913.
    let missing = 90 + 88 + 23_704;
    check_counted(&text, &Counted { foreign: 17, missing, ..Counted::default() });
    check_one_device(&text, 3, 0);
    let events = text.events();
    let issue = events.iter().find(|event| event.action == Issue).unwrap();
    assert_eq!((issue.op, issue.flags), (Op::Read, Flags::SYNC));
    assert_eq!((issue.sector, issue.length_bytes), (Some(Sector(927_456)), 384 * 512));
    let done = events.iter().rfind(|event| event.action == Complete).unwrap();
    assert_eq!(done.time.0 - issue.time.0, 3_275_060);
    assert!(!text.ledger.is_incomplete());
}

#[test]
fn a_traced_partition_is_one_device() {
    let Some(text) = load("s23-sda3-partition-fua-requeue.blkparse.txt", None) else { return };
    check_actions(
        &text,
        &[
            (Remap, 4),
            (Queue, 5),
            (UnplugTimer, 1),
            (Get, 5),
            (Insert, 4),
            (Issue, 8),
            (Complete, 19),
            (Requeue, 1),
            (Split, 2),
        ],
    );
    check_counted(&text, &Counted::default());
    check_one_device(&text, 8, 3);
    let note = "this is a trace of the partition 8:3: its remaps, printed on 8:0, are shown on it";
    assert!(text.about.notes.iter().any(|found| found == note), "{:?}", text.about.notes);
    let events = text.events();
    let at =
        |sequence| *events.iter().find(|e| e.cpu == Cpu(12) && e.sequence == sequence).unwrap();
    let (issue, done, bio) = (at(17_546), at(17_547), at(17_548));
    assert_eq!((issue.op, issue.sector, done.op, done.sector), (Op::Flush, None, Op::Flush, None));
    assert_eq!(done.time.0 - issue.time.0, 37_633);
    assert_eq!((bio.op, bio.length_bytes), (Op::Write, 0));
    let end = at(17_564);
    assert_eq!((end.sector, end.length_bytes), (Some(Sector(3_328_128)), 0));
    assert_eq!(end.time.0 - at(17_550).time.0, 350_034);
    let split = events.iter().find(|event| event.action == Split).unwrap();
    assert_eq!((split.sector, split.length_bytes), (Some(Sector(94_916_328)), 2560 * 512));
}

#[test]
fn arrivals_in_a_format_of_their_own() {
    let layout = Some("%T.%t ; %S ; %n ; %d ;\\n");
    let Some(text) = load("s37-custom-format-semicolon-mysql.txt", layout) else { return };
    check_actions(&text, &[(Queue, 2499)]);
    check_counted(&text, &Counted { foreign: 1, ..Counted::default() });
    let events = text.events();
    assert_eq!(events.iter().filter(|event| event.op == Op::Read).count(), 163);
    assert_eq!(events.iter().filter(|event| event.op == Op::Write).count(), 2336);
    let last = events.last().unwrap();
    assert_eq!((last.time, last.sector), (Nanos(98_193_659_110), Some(Sector(44_882_312))));
    assert_eq!(last.length_bytes, 4096);
    // Without the format none of it can be read, and the text says so.
    let bare = load("s37-custom-format-semicolon-mysql.txt", None).unwrap();
    assert_eq!((bare.events().len(), bare.ledger.count(Cause::Malformed)), (0, 2500));
}

#[track_caller]
fn load(name: &str, layout: Option<&str>) -> Option<Text> {
    let text = Text::read(&beside(&format!("corpus/samples/{name}"))?, layout);
    let counted = count(&text);
    let others = counted.foreign + counted.malformed + counted.truncated;
    assert_eq!(text.records.read, text.records.used + others);
    assert_eq!(text.records.used, text.events().len() as u64);
    Some(text)
}

fn count(text: &Text) -> Counted {
    let count = |cause| text.ledger.count(cause);
    Counted {
        foreign: count(Cause::Foreign),
        malformed: count(Cause::Malformed),
        missing: count(Cause::TextGap),
        truncated: count(Cause::Truncated),
        backwards: count(Cause::TimeBackwards),
    }
}

#[track_caller]
fn check_counted(text: &Text, expected: &Counted) {
    assert_eq!(count(text), *expected, "{:?}", text.about.notes);
}

#[track_caller]
fn check_actions(text: &Text, expected: &[(Action, usize)]) {
    check_section(&text.events(), expected);
}

#[track_caller]
fn check_section(events: &[Event], expected: &[(Action, usize)]) {
    for (action, count) in expected {
        let found = events.iter().filter(|event| event.action == *action).count();
        assert_eq!(found, *count, "{action:?}");
    }
    assert_eq!(events.len(), expected.iter().map(|(_, count)| count).sum::<usize>());
}

#[track_caller]
fn check_one_device(text: &Text, major: u32, minor: u32) {
    assert!(text.events().iter().all(|event| event.device == Some(device(major, minor))));
}

fn device(major: u32, minor: u32) -> DeviceId {
    DeviceId { major, minor }
}
