//! Text that blkparse printed of invented records gives the events of those records.
//!
//! The records are decoded here by the rules of `blktrace_api.h`, apart from the reader, and reduced
//! to what text tells: whole sectors, no bytes of passthrough completions, no names on completions
//! and remaps, one letter for both kinds of merge.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod blkparse_support;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

use iotrace_model::{Action, Cause, Comm, Cpu, DeviceId, Event, Flags, Nanos, Op, Remap, Sector};
use iotrace_parse::BlktraceReader;
use iotrace_testkit::beside;
use serde_json::Value;

use self::blkparse_support::{Text, read_sections};

/// What `blkparse -f` was given.
const LAYOUT: &str = "%D|%c|%s|%T.%t|%p|%a|%d|%S|%n|%N|%C|%e\\n";

/// A text to compare, and in what it differs from the others.
#[derive(Clone, Copy, Default)]
struct Case {
    folder: &'static str,
    text: &'static str,
    /// The input files that the text shows begin so.
    files: &'static str,
    /// Sequence numbers that are missing.
    missing: u64,
    layout: Option<&'static str>,
}

#[test]
fn text_of_two_versions_gives_the_events_of_the_records() {
    for folder in [
        "a_plain",
        "b_merge",
        "c_requeue",
        "d_dm",
        "f_flush",
        "i_error",
        "k_big_endian",
        "m_widths",
    ] {
        for text in ["blkparse-1.2.0.txt", "blkparse-1.3.0.txt"] {
            check(Case { folder, text, ..Case::default() });
        }
    }
}

#[test]
fn other_ways_to_print_give_the_same_events() {
    for text in ["blkparse-s-1.2.0.txt", "blkparse-stdin-1.2.0.txt"] {
        check(Case { folder: "a_plain", text, ..Case::default() });
    }
    let layout = Some(LAYOUT);
    check(Case { folder: "a_plain", text: "blkparse-f-1.2.0.txt", layout, ..Case::default() });
}

#[test]
fn a_trace_of_a_partition_and_one_of_its_disk_are_one_device_each() {
    for (files, texts) in [
        ("sda.", ["blkparse-1.2.0-sda.txt", "blkparse-1.3.0-sda.txt"]),
        ("sda1.", ["blkparse-1.2.0-sda1.txt", "blkparse-1.3.0-sda1.txt"]),
    ] {
        for text in texts {
            check(Case { folder: "e_part", text, files, ..Case::default() });
        }
    }
}

#[test]
fn missing_sequence_numbers_are_counted() {
    for text in ["blkparse-1.2.0.txt", "blkparse-1.3.0.txt", "blkparse-stdin-1.2.0.txt"] {
        check(Case { folder: "g_gap", text, missing: 4, ..Case::default() });
    }
}

/// 1.2 leaves out everything with a cgroup, and prints messages without their thread.
#[test]
fn version_1_2_leaves_out_what_has_a_cgroup() {
    let case =
        Case { folder: "h_notify", text: "blkparse-1.2.0.txt", missing: 5, ..Case::default() };
    let Some((text, mut expected)) = load(case) else { return };
    expected.retain(|event| event.cgroup.is_none());
    compare(case, &text, &expected);
    check_messages(&text, &[(3_000, "plain message")]);
}

/// 1.3 takes the cgroup before the payload of a remap for the remap itself, and shows none.
#[test]
fn version_1_3_misreads_a_remap_with_a_cgroup() {
    let case = Case { folder: "h_notify", text: "blkparse-1.3.0.txt", ..Case::default() };
    let Some((text, mut expected)) = load(case) else { return };
    for event in &mut expected {
        event.cgroup = None;
        if event.action == Action::Remap {
            event.device = Some(DeviceId { major: 32, minor: 0 });
            let device = DeviceId { major: 3600, minor: 983_040 };
            event.remap = Some(Remap { device, sector: Sector(36_028_801_322_319_872) });
        }
    }
    compare(case, &text, &expected);
    check_messages(&text, &[(3_000, "plain message"), (4_000, "bfq slice end")]);
}

#[test]
fn version_1_2_shows_splits_as_they_are() {
    check(Case { folder: "j_split", text: "blkparse-1.2.0.txt", ..Case::default() });
}

/// 1.3 prints the whole bio instead of the last piece that completes.
#[test]
fn version_1_3_rewrites_the_completion_of_a_split() {
    let case = Case { folder: "j_split", text: "blkparse-1.3.0.txt", ..Case::default() };
    let Some((text, mut expected)) = load(case) else { return };
    let last = expected.iter_mut().rfind(|event| event.action == Action::Complete).unwrap();
    assert_eq!((last.sector, last.length_bytes), (Some(Sector(9216)), 1024 * 512));
    (last.sector, last.length_bytes) = (Some(Sector(8192)), 2048 * 512);
    compare(case, &text, &expected);
}

#[test]
fn a_text_of_records_that_blkparse_refused_holds_no_event() {
    let Some(path) = beside("reference/golden/l_version8/blkparse-1.2.0.txt") else { return };
    let text = Text::read(&path, None);
    assert_eq!((text.events().len(), text.ledger.count(Cause::Malformed)), (0, 0));
}

/// The same trace, binary and as text, gives the same events but for what text does not tell.
#[test]
fn text_and_binary_agree() {
    for (folder, names) in [
        ("a_plain", ["sda"].as_slice()),
        ("b_merge", &["sda"]),
        ("c_requeue", &["sda"]),
        ("d_dm", &["dm-0", "sda", "sdb"]),
        ("f_flush", &["sda"]),
        ("i_error", &["sda"]),
    ] {
        let Some(folder) = beside(&format!("reference/golden/{folder}")) else { return };
        let mut files: Vec<(Box<dyn Read + Send>, String)> = Vec::new();
        for file in names.iter().flat_map(|name| [0, 1].map(|cpu| format!("{name}.blktrace.{cpu}")))
        {
            files.push((Box::new(File::open(folder.join(&file)).unwrap()), file));
        }
        let mut expected = read_sections(&mut BlktraceReader::open(files).unwrap()).concat();
        for event in &mut expected {
            let has_comm =
                !matches!(event.action, Action::Complete | Action::Requeue | Action::Remap);
            event.comm = if has_comm { event.comm } else { Comm::default() };
            if event.action == Action::RequestMerge {
                event.action = Action::BackMerge;
            }
            if event.action == Action::Complete && event.op == Op::Other {
                event.length_bytes = 0;
            }
        }
        let mut events = Text::read(&folder.join("blkparse-1.2.0.txt"), None).events();
        events.sort_by_key(order);
        expected.sort_by_key(order);
        assert_eq!(events, expected, "{}", folder.display());
    }
}

#[track_caller]
fn check(case: Case) {
    let Some((text, expected)) = load(case) else { return };
    compare(case, &text, &expected);
}

#[track_caller]
fn compare(case: Case, text: &Text, expected: &[Event]) {
    let name = format!("{}/{}", case.folder, case.text);
    let mut events = text.events();
    assert_eq!(text.sections.len(), 1, "{name}");
    assert!(events.is_sorted_by_key(|event| (event.time, event.cpu)), "{name}");
    events.sort_by_key(order);
    for (found, expected) in events.iter().zip(expected) {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(events.len(), expected.len(), "{name}");
    assert_eq!(text.ledger.count(Cause::Malformed), 0, "{name}: {:?}", text.about.notes);
    assert_eq!(text.ledger.count(Cause::TextGap), case.missing, "{name}");
    let counted = text.ledger.count(Cause::Foreign);
    assert_eq!(text.records.read, text.records.used + counted, "{name}");
    let used = text.about.messages.len() + events.len();
    assert_eq!(text.records.used, used as u64, "{name}");
}

#[track_caller]
fn check_messages(text: &Text, expected: &[(i64, &str)]) {
    let messages = text.about.messages.iter().map(|(time, text)| (time.0, text.as_str()));
    assert_eq!(messages.collect::<Vec<_>>(), expected);
}

/// Order of the records: that of equal times is not defined in text.
fn order(event: &Event) -> (Nanos, Cpu, Option<DeviceId>, u64) {
    (event.time, event.cpu, event.device, event.sequence)
}

/// The text, and the events of the records that it shows.
fn load(case: Case) -> Option<(Text, Vec<Event>)> {
    let folder = beside(&format!("reference/golden/{}", case.folder))?;
    let text = Text::read(&folder.join(case.text), case.layout);
    let records = std::fs::read_to_string(folder.join("records.jsonl")).unwrap();
    let records: Vec<Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has_names = case.layout.is_some();
    let mut names = HashMap::new();
    let mut events = Vec::new();
    for record in records.iter().filter(|r| r["file"].as_str().unwrap().starts_with(case.files)) {
        let payload = payload(record);
        let pid = u32::try_from(record["pid"].as_u64().unwrap()).unwrap();
        if word(record) == 0x0400_0000 {
            names.entry(pid).or_insert_with(|| Comm::new(&payload));
        } else if word(record) & 0x0400_0000 == 0 {
            events.push(event(record, pid, &payload));
        }
    }
    let origin = events.iter().map(|event| event.time).min().unwrap();
    for event in &mut events {
        event.time = event.time - origin;
        let is_nameless =
            matches!(event.action, Action::Complete | Action::Requeue | Action::Remap);
        if has_names || !is_nameless {
            event.comm = names.get(&event.pid).copied().unwrap_or_default();
        }
    }
    events.sort_by_key(order);
    Some((text, events))
}

/// The action word.
fn word(record: &Value) -> u64 {
    let word = record["action"].as_str().unwrap();
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

fn payload(record: &Value) -> Vec<u8> {
    let digits = record["pdu"].as_str().unwrap();
    (0..digits.len() / 2)
        .map(|place| u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).unwrap())
        .collect()
}

/// One record as text shows it.
fn event(record: &Value, pid: u32, payload: &[u8]) -> Event {
    let number = |name: &str| record[name].as_u64().unwrap();
    let word = word(record);
    let has = |bit: u64| word >> 16 & bit != 0;
    let (major, minor) = record["device"].as_str().unwrap().split_once(',').unwrap();
    let device = DeviceId { major: major.parse().unwrap(), minor: minor.parse().unwrap() };
    let is_pc = has(0x200);
    let (cgroup, payload) = if word & 0x100 == 0 {
        (None, payload)
    } else {
        (Some(u64::from_le_bytes(payload[..8].try_into().unwrap())), &payload[8..])
    };
    let action = match word & 0xff {
        1 => Action::Queue,
        2 => Action::BackMerge,
        3 => Action::FrontMerge,
        4 => Action::Get,
        6 => Action::Requeue,
        7 => Action::Issue,
        8 => Action::Complete,
        9 => Action::Plug,
        10 => Action::Unplug,
        11 => Action::UnplugTimer,
        12 => Action::Insert,
        13 => Action::Split,
        15 => Action::Remap,
        code => panic!("{code}"),
    };
    let is_plug = matches!(action, Action::Plug | Action::Unplug | Action::UnplugTimer);
    let (sector, bytes) = (number("sector"), number("bytes"));
    let be64 = |place: usize| u64::from_be_bytes(payload[place..place + 8].try_into().unwrap());
    let be32 = |place: usize| u32::from_be_bytes(payload[place..place + 4].try_into().unwrap());
    let op = if is_plug || is_pc {
        Op::Other
    } else if has(0x2000) {
        Op::Discard
    } else if has(2) {
        Op::Write
    } else if has(4) && bytes == 0 {
        Op::Flush
    } else {
        Op::Read
    };
    let mut flags = Flags::default();
    let bits = [
        (8, Flags::SYNC),
        (0x8000, Flags::FUA),
        (4, Flags::PREFLUSH),
        (0x1000, Flags::META),
        (0x800, Flags::READAHEAD),
    ];
    for (_, flag) in bits.into_iter().filter(|(bit, _)| has(*bit) && !is_plug) {
        if op != Op::Flush || flag != Flags::PREFLUSH {
            flags = flags.with(flag);
        }
    }
    let is_empty_flush = bytes == 0 && has(4);
    let has_place = !(is_plug || is_pc || is_empty_flush);
    let mut length_bytes = if is_pc { bytes } else { bytes / 512 * 512 };
    if is_pc && action == Action::Complete {
        length_bytes = 0;
    }
    let remap = match action {
        Action::Remap => {
            Some(Remap { device: DeviceId::from_kernel(be32(0)), sector: Sector(be64(8)) })
        }
        Action::Split => {
            let rest = be64(0) & 0xffff_ffff | sector & !0xffff_ffff;
            length_bytes = (rest - sector) * 512;
            Some(Remap { device, sector: Sector(rest) })
        }
        _ => None,
    };
    Event {
        time: Nanos(i64::try_from(number("time")).unwrap()),
        cpu: Cpu(u32::try_from(number("cpu")).unwrap()),
        sequence: number("sequence"),
        device: Some(device),
        action,
        op,
        flags,
        sector: has_place.then_some(Sector(sector)),
        length_bytes,
        pid,
        comm: Comm::default(),
        error: (action == Action::Complete)
            .then(|| i32::from(u16::try_from(number("error")).unwrap().cast_signed())),
        remap,
        cgroup,
        io_priority: None,
        tag: None,
        protocol: None,
    }
}
