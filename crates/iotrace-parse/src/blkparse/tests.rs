//! Whole texts, invented: what is told apart, put together, put in order and counted.

use iotrace_model::{Action, DeviceId, Nanos};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Everything that a reader says: sections of events, counts and notes.
#[derive(Debug, Default, PartialEq)]
struct Told {
    sections: Vec<Vec<Event>>,
    ledger: Ledger,
    records: Records,
    messages: Vec<(Nanos, String)>,
    notes: Vec<String>,
}

#[test]
fn sums_headings_and_prose_are_told_apart() {
    let told = read(
        "#Maj,Mn CPU SeqNo\n\
         Input file sda.blktrace.0 added\n\
         \n\
         8,0 0 1 0.000000000 7 Q R 8 + 8 [dd]\n\
         this is what I see:\n\
         8,0 0 2 0.000000010 7 foo R 8 + 8 [dd]\n\
         ...\n\
         CPU0 (sda):\n \
          Reads Queued:           1,        4KiB\n",
    );
    assert_eq!(actions(&told), [[Action::Queue].as_slice()]);
    assert_eq!(told.ledger.count(Cause::Foreign), 5);
    assert_eq!(told.ledger.count(Cause::Malformed), 2);
    assert_eq!(told.records, Records { read: 8, used: 1 });
    let expected = "line 5 cannot be read: expected a device, major,minor, in column 1, found \
                    \"this\"; 2 such lines";
    assert_eq!(told.notes.get(1).map(String::as_str), Some(expected));
}

#[test]
fn an_event_broken_over_lines_is_rejoined() {
    for text in [
        "8,0 0 1 0.000000000 7\nQ R 8 + 8 [dd]\n",
        "8,0 0 1 0.000000000 7 Q R 8 + 8\n [dd]\n",
        "> 8,0 0 1 0.000000000 7 Q R 8 +\n> 8 [dd]\n",
        "8,0 0 1 0.000000000 7\nQ R 8 +\n8 [dd]\n",
        "8,0 0 1 0.000000000 7 Q R 8 + 8 [d\nd]\n",
    ] {
        let told = read(text);
        let event = told.sections.first().and_then(|events| events.first());
        assert_eq!(event.map(|event| event.length_bytes), Some(4096), "{text}");
        assert_eq!(told.records, Records { read: 1, used: 1 }, "{text}");
        assert!(told.notes.iter().any(|note| note.contains("rejoined")), "{text}");
    }
}

#[test]
fn the_rest_of_a_broken_event_may_be_missing() {
    let told = read(
        "8,0 0 1 0.000000000 7 Q R 8 +\n\
         8,0 0 2 0.000000010 7 G R 8 + 8 [dd]\n\
         8,0 0 3 0.000000020 7 D R 8 + 8 [d",
    );
    assert_eq!(actions(&told), [[Action::Get].as_slice()]);
    assert_eq!(told.ledger.count(Cause::Malformed), 1);
    assert_eq!(told.ledger.count(Cause::Truncated), 1);
    assert_eq!(told.records, Records { read: 3, used: 1 });
}

#[test]
fn lines_printed_live_are_put_in_order() {
    let told = read(
        "8,0 0 1 0.000000000 7 Q R 8 + 8 [dd]\n\
         8,0 0 2 0.000000010 7 G R 8 + 8 [dd]\n\
         8,0 1 1 0.000000005 7 Q R 16 + 8 [dd]\n\
         ^C8,0 2 1 1266874889.709551600 0 C R 24 + 8 [0]\n",
    );
    assert_eq!(
        actions(&told),
        [[Action::Complete, Action::Queue, Action::Queue, Action::Get].as_slice()]
    );
    let first = told.sections.first().and_then(|events| events.first());
    assert_eq!(first.map(|event| event.time.0), Some(-16));
    assert_eq!(told.ledger, Ledger::default());
}

#[test]
fn captures_behind_each_other_are_sections() {
    let capture = "8,0 0 1 0.000000000 7 Q R 8 + 8 [dd]\n\
                   8,0 0 2 0.000000010 7 G R 8 + 8 [dd]\n";
    let told = read(&format!("{capture}CPU0 (sda):\n#### second\n{capture}{capture}"));
    let section = [Action::Queue, Action::Get];
    assert_eq!(actions(&told), [section.as_slice(), &section, &section]);
    assert_eq!(told.records, Records { read: 8, used: 6 });
}

#[test]
fn missing_numbers_are_counted_and_are_no_loss() {
    let told = read(
        "8,0 0 1 0.000000000 7 Q R 8 + 8 [dd]\n\
         (alot of the same)\n\
         8,0 0 5 0.000000010 7 G R 8 + 8 [dd]\n",
    );
    assert_eq!(told.ledger.count(Cause::TextGap), 3);
    assert!(!told.ledger.is_incomplete());
}

#[test]
fn the_trace_of_a_partition_is_one_device() {
    let told = read(
        "8,0 0 1 0.000000000 7 A W 2072 + 8 <- (8,1) 24\n\
         8,1 0 2 0.000000010 7 Q W 2072 + 8 [dd]\n\
         8,0 0 3 0.000000020 7 A W 2080 + 8 <- (8,1) 32\n\
         8,1 0 4 0.000000030 7 Q W 2080 + 8 [dd]\n",
    );
    let partition = DeviceId { major: 8, minor: 1 };
    assert!(told.sections.iter().flatten().all(|event| event.device == Some(partition)));
    assert_eq!((told.ledger, told.sections.concat().len()), (Ledger::default(), 4));
}

#[test]
fn a_declared_format_is_read_beside_the_usual_one() {
    let text = "start ; sector\n\
                0.000000000 ; 8 ; 8 ; W ; 0.0\n\
                8,0 0 1 0.000000001 7 P N [dd]\n\
                0.000000002 ; x\n";
    let told = read_with(text.as_bytes(), Some("%T.%t ; %S ; %n ; %d ;\\n"), 4096);
    assert_eq!(actions(&told), [[Action::Queue, Action::Plug].as_slice()]);
    assert_eq!(told.ledger.count(Cause::Foreign), 1);
    assert_eq!(told.ledger.count(Cause::Malformed), 1);
    let expected = "line 4 cannot be read: expected a sector (%S), found \"x\"";
    assert_eq!(told.notes.last().map(String::as_str), Some(expected));
}

#[test]
fn a_text_without_events_ends_empty() {
    let told = read("nothing here\n");
    assert_eq!((told.sections.concat().len(), told.records.used), (0, 0));
    assert_eq!(read("").records, Records::default());
}

#[test]
fn messages_are_kept_beside_the_events() {
    let text = b"8,0 0 1 0.000000000 7 Q R 8 + 8 [dd]\n\
                 8,0 0 0 0.000000003 7 1,0  m   N bfq slice end\n\
                 8,0 0 0 0.000000004 0\n m   N begun late\n";
    let told = read_with(text, None, 4096);
    let expected = [(Nanos(3), "bfq slice end"), (Nanos(4), "begun late")];
    assert_eq!(told.messages, expected.map(|(time, text)| (time, text.to_owned())));
    assert_eq!((told.sections.concat().len(), told.records.used), (1, 3));
}

#[test]
fn a_line_without_end_is_one_line_that_cannot_be_read() {
    let event = "8,0 0 1 0.000000000 7 Q R 8 + 8 [dd]";
    let told = read(&format!("{}\n{event}{}\n", "x".repeat(1 << 20), " ".repeat(1 << 20)));
    assert_eq!(told.records, Records { read: 2, used: 1 });
    assert_eq!(told.notes.last().map(String::as_str), Some("2 lines were too long and were cut"));
}

#[test]
fn a_format_that_cannot_serve_is_an_error() {
    let error = BlkparseReader::open(b"".as_slice(), "text", Some("%S\\n")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "text: the format \"%S\\\\n\" cannot be used: it has no time; %T.%t is needed"
    );
}

#[test]
fn the_first_line_tells_the_format() {
    assert!(looks_like_blkparse(
        b"  8,0    1        1     0.000000000   100  Q  RS 1000 + 8 [fio]"
    ));
    assert!(looks_like_blkparse(b"> 8,0    1        1     0.000000000   100  Q  RS 1000 +"));
    for line in [
        "fio-100 [001] d..1 10.000000: block_rq_issue: 8,0 RS 4096 () 1000 + 8 [fio]",
        "fio 100 [001] 10.000000: block:block_rq_issue: 8,0 RS 4096 () 1000 + 8 [fio]",
        "#!/bin/sh",
        "",
    ] {
        assert!(!looks_like_blkparse(line.as_bytes()), "{line}");
    }
}

/// Lines of every kind, as pieces of a text.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let lines = prop_oneof![
        Just("  8,0    0        1     0.000000000     7  Q   R 8 + 8 [dd]\n"),
        Just("  8,0    1        9     0.000000200     0  C  FN 0 [0]\n"),
        Just("  8,0    0        2     0.000000001     7  A   W 2072 + 8 <- (8,1) 24\n"),
        Just("  8,1    0        3     0.000000002     7  Q   W 2072 + 8 [dd]\n"),
        Just("  8,1    0        4     0.000000009     7  X   W 2072 / 2076 [dd]\n"),
        Just("  8,0    0        4     0.000000009     7 UT   N [a b] 1] 2\n"),
        Just("  8,0    0        0 1266874889.600000000     7 1,0  m   N text\n"),
        Just("  8,0    0        5     0.000000010     7  D   R 96 (12 00 ..) [dd]\n"),
        Just("  8,0    0        5     0.000000010     7  D   R 96 (12\n"),
        Just("0.000000002 ; 8 ; 8 ; W ; 0.0\n"),
        Just("CPU0 (sda):\n"),
        Just("\n"),
    ];
    prop_oneof![
        6 => lines.prop_map(|line| line.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..40),
        1 => "[ -~]{0,60}\n".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn nothing_stops_the_reader_and_nothing_goes_uncounted(
        pieces in vec(piece(), 0..30),
        cut in any::<prop::sample::Index>(),
        has_layout in any::<bool>(),
        capacity in 1_usize..90,
    ) {
        let mut text = pieces.concat();
        text.truncate(cut.index(text.len() + 1));
        let layout = has_layout.then_some("%T.%t ; %S ; %n ; %d ;\\n");
        let told = read_with(&text, layout, 1 << 16);
        let events = told.sections.concat();
        let counted = [Cause::Foreign, Cause::Malformed, Cause::Truncated]
            .map(|cause| told.ledger.count(cause));
        let used = events.len() + told.messages.len();
        prop_assert_eq!(told.records.used, used as u64);
        prop_assert_eq!(told.records.read, told.records.used + counted.iter().sum::<u64>());
        for section in &told.sections {
            prop_assert!(section.is_sorted_by_key(|event| event.time));
        }
        prop_assert_eq!(read_with(&text, layout, capacity), told);
    }
}

fn read(text: &str) -> Told {
    read_with(text.as_bytes(), None, 4096)
}

fn read_with(text: &[u8], layout: Option<&str>, capacity: usize) -> Told {
    let text = std::io::BufReader::with_capacity(capacity, text);
    let mut reader = BlkparseReader::open(text, "text", layout).unwrap();
    let mut told = Told::default();
    let mut items = Vec::new();
    loop {
        let progress = reader.next_batch(&mut items).unwrap();
        told.ledger.merge(&reader.take_ledger());
        if progress != Progress::More {
            let events = items.drain(..).map(|item| match item {
                Item::Event(event) => event,
                Item::Loss(loss) => panic!("{loss:?}"),
            });
            told.sections.push(events.collect());
        }
        if progress == Progress::End {
            break;
        }
    }
    told.records = reader.records();
    let about = reader.about();
    (told.notes, told.messages) = (about.notes, about.messages);
    told
}

fn actions(told: &Told) -> Vec<Vec<Action>> {
    let actions = |events: &Vec<Event>| events.iter().map(|event| event.action).collect();
    told.sections.iter().map(actions).collect()
}
