//! Texts of perf script and ftrace, written here, and what is read from them.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::io::BufReader;

use iotrace_model::{
    Action, AtaPort, Cause, Comm, Cpu, Event, Flags, Item, Ledger, Loss, Nanos, Op, Protocol,
};
use iotrace_parse::{
    About, Error, Progress, Reader, Records, TextKind, TraceTextOptions, TraceTextReader,
};
use iotrace_testkit::{DISK, EventBuilder, trace};
use proptest::collection::vec;
use proptest::prelude::*;

use self::support::{Kernel, builder};

/// All that a text holds.
#[derive(Debug)]
struct Whole {
    sections: Vec<Vec<Item>>,
    ledger: Ledger,
    records: Records,
    about: About,
}

fn open(text: &[u8], buffer: usize) -> Result<TraceTextReader<BufReader<&[u8]>>, Error> {
    let reader = BufReader::with_capacity(buffer, text);
    TraceTextReader::open(reader, "x.txt", TraceTextOptions::default())
}

fn drain(mut reader: TraceTextReader<BufReader<&[u8]>>) -> Whole {
    let (mut sections, mut ledger) = (vec![Vec::new()], Ledger::default());
    loop {
        let progress = reader.next_batch(sections.last_mut().unwrap()).unwrap();
        ledger.merge(&reader.take_ledger());
        match progress {
            Progress::More => {}
            Progress::Restart => sections.push(Vec::new()),
            Progress::End => break,
        }
    }
    Whole { sections, ledger, records: reader.records(), about: reader.about() }
}

fn read(text: &str) -> Whole {
    drain(open(text.as_bytes(), 1 << 16).unwrap())
}

fn used(read: u64, used: u64) -> Records {
    Records { read, used }
}

const FTRACE: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 9/12   #P:2
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
              dd-700     [000] .....   100.000001: block_bio_queue: 8,0 WS 2072 + 8 [dd]
 Web Content x-y-701     [001] ...1.   100.000003: block_getrq: 8,0 WS 2072 + 8 [Web Content x-y]
              dd-700     [000] .....   100.000004: ext4_da_write: dev 8,0 ino 12
kworker/0:1H-57 (     57)[000] d..2.   100.000005: block_rq_issue: 8,0 WS 4096 () 2072 + 8 be,0,4 [kworker/0:1H]
              dd-700     [000] .....   100.000006: block_io_start: 8,0 WS 4096 () 2072 + 8 [dd]
           <...>-702     [000] .....   100.000007: block_plug: [fio]
          <idle>-0       [001] d.h2.   100.000105: block_rq_complete: 8,0 WS () 2072 + 8 be,0,4 [0]
          <idle>-0       [001] d.h2.   100.000106: block_io_done: 8,0 WS 0 () 2072 + 0 [swapper/1]
";

#[test]
fn a_trace_of_ftrace_is_read() {
    let whole = read(FTRACE);
    let mut expected = trace(
        "0 0 Q WS 2072+8 pid=700 comm=dd
         2000 1 G WS 2072+8 pid=701 comm=x
         4000 0 D WS 2072+8 pid=57 comm=kworker/0:1H prio=16388
         6000 0 P N pid=702 comm=fio
         104000 1 C WS 2072+8 pid=0 comm= prio=16388",
    );
    edit(&mut expected[1], |event| event.comm = Comm::new(b"Web Content x-y"));
    edit(&mut expected[3], |event| event.device = None);
    assert_eq!(whole.sections, [expected]);
    assert_eq!(whole.records, used(8, 5));
    assert_eq!(whole.ledger.count(Cause::Foreign), 3);
    assert_eq!(whole.ledger.count(Cause::KernelLost), 3);
    let about = whole.about;
    assert_eq!((about.source.as_str(), about.clock.as_str()), ("ftrace text", ""));
    assert_eq!(about.origin, Some(Nanos(100_000_001_000)));
    assert_eq!(
        about.notes,
        [
            "the text does not name its clock",
            "times are whole microseconds; events of one microsecond keep the order of the text",
            "the ring overwrote 3 entries before the first that is left",
        ]
    );
}

#[test]
fn a_quoted_trace_is_the_same() {
    let quoted: Vec<_> = FTRACE.lines().map(|line| format!("> > {line}\r\n")).collect();
    assert_eq!(read(&quoted.concat()).sections, read(FTRACE).sections);
}

#[test]
fn a_report_of_trace_cmd_is_read() {
    let expected = trace("0 1 Q R 8+8 pid=7 comm=dd\n1001 1 D R 8+8 pid=7 comm=dd");
    let plain = "cpus=8\n dd-7   [001]  1.000000000: block_bio_queue:      8,0 R 8 + 8 [dd]\n \
                 dd-7   [001]  1.000001001: block_rq_issue: 8,0 R 4096 () 8 + 8 [dd]\n";
    let flags = plain.replace("  [001]  ", "  [001] d..1. ");
    let glued = plain.replace("  [001]  ", "  1d..1. ");
    let bare = plain
        .replace("8,0 R 8 + 8 [dd]", "dev=8388608 sector=8 nr_sector=8 rwbs=R comm=dd")
        .replace("8,0 R 4096 ()", "8,0 R 4096 (00 00)");
    for text in [plain, &flags, &glued, &bare] {
        let whole = read(text);
        assert_eq!(whole.sections, std::slice::from_ref(&expected), "{text}");
        assert_eq!(whole.records, used(2, 2));
        assert_eq!(whole.about.notes, ["the text does not name its clock"]);
    }
}

#[test]
fn a_text_of_perf_script_is_read() {
    let text = "\
# clockid: monotonic (1)
fs-file-reader_    6439 [001]  3399.000000:                   block:block_bio_queue: 8,0 R 8 + 8 [fs-file-reader_]
  fs-file-reader 6439/6440 [001]  3399.000001:          1 block:block_rq_issue: 8,0 R 4096 () 8 + 8 0x2,0,4 [fs-file-reader]
\tffffffff81400000 blk_mq_start_request+0x10 ([kernel.kallsyms])
\t    7f0000000000 __libc_read (/usr/lib/libc.so.6)

graph_traverse_ 1264623  3399.000002:          1         major-faults:      777475998155 __memmove+0x95 (/usr/lib/libc.so.6)
        swapper     0 [000]  3399.000003:     block:block_rq_complete: 8,0 R () 8 + 8 0x2,0,4 [0]
        swapper     0 [000]     0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff(0) @ 0]: x [kernel]
";
    let whole = read(text);
    let expected = trace(
        "0 1 Q R 8+8 pid=6439 comm=fs-file-reader_
         1000 1 D R 8+8 pid=6440 comm=fs-file-reader prio=16388
         3000 0 C R 8+8 pid=0 comm= prio=16388",
    );
    assert_eq!(whole.sections, [expected]);
    assert_eq!(whole.records, used(7, 3));
    assert_eq!(whole.ledger.count(Cause::Foreign), 4);
    assert_eq!(whole.about.source, "perf script text");
    assert_eq!(whole.about.clock, "CLOCK_MONOTONIC");
}

#[test]
fn columns_may_be_missing() {
    let whole = read("3399.000001: block:block_bio_queue: 8,0 R 8 + 8 [dd]\n");
    assert_eq!(whole.sections, [trace("0 0 Q R 8+8 pid=0 comm=dd")]);
    let notes = whole.about.notes;
    assert!(notes.contains(&"events without a CPU are counted to CPU 0".to_owned()), "{notes:?}");
    assert!(notes.contains(&"events without a thread have thread 0".to_owned()), "{notes:?}");
}

#[test]
fn events_of_one_microsecond_keep_the_order_of_the_text() {
    let text = "\
dd-7 [003] ..... 1.000010: block_rq_issue: 8,0 R 4096 () 8 + 8 [dd]
dd-7 [001] d.h.. 1.000010: block_rq_complete: 8,0 R () 8 + 8 [0]
dd-7 [003] ..... 1.000010: block_rq_issue: 8,0 R 4096 () 8 + 8 [dd]
dd-7 [001] d.h.. 1.000010: block_rq_complete: 8,0 R () 8 + 8 [0]
dd-7 [001] ..... 1.000011: block_getrq: 8,0 R 8 + 8 [dd]
";
    let expected = "0 3 D R 8+8 pid=7 comm=dd
                    1 1 C R 8+8 pid=7 comm=
                    1 3 D R 8+8 pid=7 comm=dd
                    2 1 C R 8+8 pid=7 comm=
                    1000 1 G R 8+8 pid=7 comm=dd";
    assert_eq!(read(text).sections, [trace(expected)]);
    // With nanoseconds the times are what they are.
    let fine = text.replace("1.000010:", "1.000010000:").replace("1.000011:", "1.000011000:");
    let expected = "0 1 C R 8+8 pid=7 comm=
                    0 1 C R 8+8 pid=7 comm=
                    0 3 D R 8+8 pid=7 comm=dd
                    0 3 D R 8+8 pid=7 comm=dd
                    1000 1 G R 8+8 pid=7 comm=dd";
    assert_eq!(read(&fine).sections, [trace(expected)]);
}

#[test]
fn a_loss_stands_where_it_begins() {
    let text = "\
dd-7 [001] ..... 1.000010: block_getrq: 8,0 R 8 + 8 [dd]
dd-8 [000] ..... 1.000020: block_getrq: 8,0 R 16 + 8 [dd]
CPU:1 [LOST 123 EVENTS]
dd-7 [001] ..... 1.000050: block_getrq: 8,0 R 24 + 8 [dd]
";
    let expected = "0 1 G R 8+8 pid=7 comm=dd
                    LOSS 1 0 40000 123
                    10000 0 G R 16+8 pid=8 comm=dd
                    40000 1 G R 24+8 pid=7 comm=dd";
    for line in ["CPU:1 [LOST 123 EVENTS]", "CPU:1 [123 EVENTS DROPPED]"] {
        let whole = read(&text.replace("CPU:1 [LOST 123 EVENTS]", line));
        assert_eq!(whole.sections, [trace(expected)]);
        assert_eq!(whole.records, used(4, 4));
        assert_eq!(whole.ledger.count(Cause::KernelLost), 123);
    }
}

#[test]
fn a_loss_of_perf_ends_where_it_is_told() {
    let text = "\
dd 7 [001] 1.000010: block:block_getrq: 8,0 R 8 + 8 [dd]
dd 7 [001] 1.000050: PERF_RECORD_LOST lost 15
dd 7 [001] 1.000050: block:block_getrq: 8,0 R 24 + 8 [dd]
";
    let expected = "0 1 G R 8+8 pid=7 comm=dd\nLOSS 1 0 40000 15\n40000 1 G R 24+8 pid=7 comm=dd";
    assert_eq!(read(text).sections, [trace(expected)]);
}

#[test]
fn an_event_that_a_mailer_broke_is_joined() {
    let whole = read(
        "Thread-6-9 [007] ...1.  1982.474880:\nblock_rq_insert:\n8,0 R 524288 () 8 + 8 [a\nb]\n\
         Thread-6-9 [007] ...1.  1982.474881:\nblock_rq_insert:\n8,0\nR 524288 () 8 + 8 [a\nb]\n\
         Thread-6-9 [007] .....  1982.474882: f2fs_direct_IO_enter: dev = (254,48), len =\n\
         33554432 rw = 0\n\
         Thread-6-9 [007] ..s..  1982.474883: block_rq_complete:\n8,0 R () 8 + 8 [0]  <<<1.1\n\
         finish\n....\n\
         Thread-6-9 [007] ..s..  1982.474884: block_rq_complete:\n8,0 R ()",
    );
    let mut expected = trace("0 7 I R 8+8 pid=9 comm=a\n3000 7 C R 8+8 pid=9 comm=");
    edit(&mut expected[0], |event| event.comm = Comm::new(b"a b"));
    assert_eq!(whole.sections, [expected]);
    assert_eq!(whole.records, used(9, 2));
    assert_eq!(whole.ledger.count(Cause::Foreign), 2);
    // The second event takes one line more than an event may.
    assert_eq!(whole.ledger.count(Cause::Malformed), 4);
    assert_eq!(whole.ledger.count(Cause::Truncated), 1);
    let last = whole.about.notes.last().unwrap().clone();
    let expected =
        "4 records cannot be read; the first is in line 5: expected the rest of the event";
    assert_eq!(last, expected);
}

#[test]
fn a_line_that_cannot_be_read_is_counted_with_its_number() {
    let whole = read(
        "dd-7 [001] 1.000000: block_getrq: 8,0 R 8 + 8 [dd]\n\
         dd-7 [65536] 1.000001: block_getrq: 8,0 R 8 + 8 [dd]\n\
         dd-7 [001] 1.000002: block_getrq: 8,0 R x + 8 [dd]\n\
         prose\n",
    );
    assert_eq!(whole.records, used(4, 1));
    assert_eq!(whole.ledger.count(Cause::Malformed), 3);
    let last = whole.about.notes.last().unwrap().clone();
    assert_eq!(
        last,
        "3 records cannot be read; the first is in line 2: expected a CPU below 65536"
    );
}

#[test]
fn a_time_that_falls_by_more_than_a_second_begins_another_capture() {
    let line = |cpu: u32, time: &str| {
        format!("dd-7 [{cpu:03}] ..... {time}: block_getrq: 8,0 R 8 + 8 [dd]\n")
    };
    let text =
        line(0, "5.000000") + &line(0, "4.000000") + &line(0, "3.999999") + &line(0, "9.000000");
    let whole = read(&text);
    let section = |times: [i64; 2]| {
        let event = |(sequence, time)| {
            EventBuilder::new(Action::Get, time)
                .sectors(8, 8)
                .thread(7, "dd")
                .sequence(sequence)
                .item()
        };
        let mut events = [(0, times[0]), (1, times[1])];
        events.sort_by_key(|(_, time)| *time);
        events.map(event).to_vec()
    };
    assert_eq!(whole.sections, [section([0, -1_000_000_000]), section([0, 5_000_001_000])]);
    assert_eq!(whole.about.origin, Some(Nanos(3_999_999_000)));
    assert_eq!(whole.records, used(4, 4));
}

#[test]
fn driver_commands_are_read() {
    let text = "\
dd-7 [000] d..1. 1.000000: ata_qc_issue: ata_port=1 ata_dev=0 tag=19 proto=ATA_PROT_NCQ cmd=ATA_CMD_FPDMA_WRITE  tf=(61/08:98:18:08:00/00:00:00:00:00/40)
dd 7 [000] 1.000001: libata:ata_qc_complete_done: [FAILED TO PARSE] ata_port=1 ata_dev=0 tag=19 status=80 dev=0 error=0 flags=1
dd-7 [000] d..1. 1.000002: ata_qc_complete_internal: ata_port=1 ata_dev=0 tag=32 flags={ } status={ DRDY }
dd-7 [000] d..1. 1.000003: scsi_dispatch_cmd_start: host_no=0 channel=0 id=0 lun=0
";
    let options = TraceTextOptions {
        kind: TextKind::Either,
        devices: vec![(AtaPort { port: 1, device: 0 }, DISK)],
    };
    let reader = BufReader::new(text.as_bytes());
    let whole = drain(TraceTextReader::open(reader, "x.txt", options).unwrap());
    let command = |action, time| EventBuilder::new(action, time).thread(7, "");
    let issue = command(Action::CommandIssue, 0).op(Op::Write, Flags::default());
    let done = command(Action::CommandComplete, 1000).op(Op::Other, Flags::default());
    let expected = [
        issue.sectors(0x0818, 8).command(19, Some(Protocol::AtaNcq)).item(),
        done.command(19, None).sequence(1).item(),
    ];
    assert_eq!(whole.sections, [expected]);
    assert_eq!(whole.ledger.count(Cause::Foreign), 2);
}

#[test]
fn a_line_without_end_is_told() {
    let first = "dd-7 [001] 5.000001: block_getrq: 8,0 R 8 + 8 [dd]\n";
    let whole = read(&format!("{first}{}\n{first}", "x".repeat(1 << 17)));
    assert_eq!(whole.records, used(3, 2));
    let note = "lines longer than 65536 bytes are cut there";
    assert!(whole.about.notes.contains(&note.to_owned()), "{:?}", whole.about.notes);
}

#[test]
fn a_text_of_something_else_is_refused() {
    let error = open(b"nothing\nof that\n", 16).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x.txt: no event of perf script or ftrace in the first 2 lines; one looks like \
         dd-7 [000] 1.000000: block_rq_issue: 8,0 R 4096 () 2072 + 8 [dd]"
    );
}

fn edit(item: &mut Item, change: impl Fn(&mut Event)) {
    if let Item::Event(event) = item {
        change(event);
    }
}

/// As ftrace and as perf script print an event, to the microsecond.
fn print(event: &Event) -> [String; 2] {
    let Event { op, flags, length_bytes, comm, .. } = *event;
    let sectors = length_bytes / 512;
    let sector = event.sector.map_or(0, |sector| sector.0);
    let letter = match op {
        Op::Write => "W",
        Op::Discard => "D",
        _ => "R",
    };
    let mut rwbs = letter.to_owned();
    for (flag, letter) in [(Flags::SYNC, 'S'), (Flags::META, 'M')] {
        if flags.has(flag) {
            rwbs.push(letter);
        }
    }
    let priority = event.io_priority.map_or("", |_| "none,0,0 ");
    let (name, fields) = match event.action {
        Action::Queue => ("block_bio_queue", format!("{sector} + {sectors} [{comm}]")),
        Action::Get => ("block_getrq", format!("{sector} + {sectors} [{comm}]")),
        Action::Insert => (
            "block_rq_insert",
            format!("{length_bytes} () {sector} + {sectors} {priority}[{comm}]"),
        ),
        Action::Issue => {
            ("block_rq_issue", format!("{length_bytes} () {sector} + {sectors} {priority}[{comm}]"))
        }
        Action::Complete => (
            "block_rq_complete",
            format!("() {sector} + {sectors} {priority}[{}]", event.error.unwrap()),
        ),
        other => panic!("{other:?} is not printed"),
    };
    let seconds =
        format!("{}.{:06}", event.time.0 / 1_000_000_000, event.time.0 / 1000 % 1_000_000);
    let (pid, cpu) = (event.pid, event.cpu.0);
    [
        format!(
            "{:>16}-{pid:<7} [{cpu:03}] .....  {seconds}: {name}: 8,0 {rwbs} {fields}\n",
            "a-b c"
        ),
        format!(
            "{:>16} {pid:>5} [{cpu:03}]  {seconds}:   block:{name}: 8,0 {rwbs} {fields}\n",
            "a-b c"
        ),
    ]
}

fn events() -> impl Strategy<Value = Vec<EventBuilder>> {
    let actions = prop_oneof![
        Just(Action::Queue),
        Just(Action::Get),
        Just(Action::Insert),
        Just(Action::Issue),
        Just(Action::Complete)
    ];
    let ops = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Discard)];
    let flags = prop_oneof![Just(Flags::default()), Just(Flags::SYNC), Just(Flags::META)];
    let event = (actions, ops, flags, 0_u32..4, 1_u64..1 << 40, 1_u64..2048, 1_u32..99_999)
        .prop_map(|(action, op, flags, cpu, sector, sectors, pid)| {
            let comm = if action == Action::Complete { "" } else { "fio 1" };
            EventBuilder::new(action, 0)
                .cpu(cpu)
                .op(op, flags)
                .sectors(sector, sectors)
                .thread(pid, comm)
        });
    vec(event, 1..100)
}

/// Events a microsecond apart from 0 on, with their places in the streams of their CPUs.
fn stamp(builders: &[EventBuilder]) -> Vec<Event> {
    let mut sequences = [0_u64; 4];
    let stamped = builders.iter().zip(0_i64..).map(|(builder, place)| {
        let event = builder.build();
        let sequence = &mut sequences[usize::try_from(event.cpu.0).unwrap()];
        *sequence += 1;
        Event { time: Nanos(place * 1000), sequence: *sequence - 1, ..event }
    });
    stamped.collect()
}

/// Reads what can be read; nothing may panic, and the books must balance.
fn survive(text: &[u8], buffer: usize) -> Option<Whole> {
    let whole = drain(open(text, buffer).ok()?);
    let causes = [Cause::Foreign, Cause::Malformed, Cause::Truncated];
    let unused: u64 = causes.into_iter().map(|cause| whole.ledger.count(cause)).sum();
    assert_eq!(whole.records.read, whole.records.used + unused);
    let items = whole.sections.iter().flatten();
    let losses = items.filter(|item| matches!(item, Item::Loss(_))).count();
    let events = whole.sections.iter().map(Vec::len).sum::<usize>() - losses;
    assert!(events as u64 <= whole.records.used);
    Some(whole)
}

/// Pieces of such texts in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "dd-7 ",
        "dd 7/8 ",
        "[001] ",
        "[000] ",
        "d.h2. ",
        "1.000001: ",
        "9.000002: ",
        "0.000000001: ",
        "block_rq_issue: ",
        "block:block_getrq: ",
        "block_unplug: ",
        "block_bio_remap: ",
        "ata_qc_issue: ",
        "8,0 ",
        "WS ",
        "4096 ",
        "() ",
        "2072 + 8 ",
        "be,0,4 ",
        "[dd] ",
        "[0] ",
        "<- (8,1) 24 ",
        "/ 8 ",
        "dev=8388608 ",
        "comm=dd ",
        "rwbs=W ",
        "sector=1 ",
        "\n",
        "\n",
        "\n",
        "CPU:1 [LOST 5 EVENTS]\n",
        "# entries-in-buffer/entries-written: 1/5 #P:1\n",
        "> ",
        "=",
        ",",
        "18446744073709551615 ",
        "dd-7 [001] 5.000001: block_getrq: 8,0 R 8 + 8 [dd]\n",
        "PERF_RECORD_LOST lost 3\n",
        "tf=(61/08:98:18:08:00/00:00:00:00:00/40) ",
        "ata_port=1 ata_dev=0 tag=19 ",
        "\t",
        "\r\n",
    ]);
    vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..4096)) {
        survive(&bytes, 64);
        let line = b"dd-7 [001] 5.000001: block_getrq: 8,0 R 8 + 8 [dd]\n".as_slice();
        survive(&[line, &bytes].concat(), 64);
    }

    #[test]
    fn any_pieces_are_survived(text in pieces(), buffer in 1_usize..200) {
        let whole = survive(text.as_bytes(), 1 << 16).map(|whole| (whole.sections, whole.ledger));
        let again = survive(text.as_bytes(), buffer).map(|whole| (whole.sections, whole.ledger));
        prop_assert_eq!(whole, again);
    }

    #[test]
    fn a_text_gives_the_events_of_the_binary_file(
        builders in events(),
        kernel in prop::sample::select(vec![Kernel::V6_1, Kernel::V6_18]),
    ) {
        let mut file = builder(kernel);
        for event in stamp(&builders) {
            file.event(&event);
        }
        let binary = support::read(&file.build()).0;
        let mut texts = [String::new(), String::new()];
        for item in &binary {
            let Item::Event(event) = item else { panic!("nothing is lost") };
            for (text, line) in texts.iter_mut().zip(print(event)) {
                text.push_str(&line);
            }
        }
        let all = binary.len() as u64;
        for text in texts {
            let whole = read(&text);
            prop_assert_eq!(&whole.sections, std::slice::from_ref(&binary));
            prop_assert_eq!(whole.records, used(all, all));
        }
    }

    #[test]
    fn a_broken_text_gives_the_events_of_the_whole_one(
        builders in events(),
        breaks in vec(any::<prop::sample::Index>(), 100),
    ) {
        let mut text = String::new();
        for (event, place) in stamp(&builders).iter().zip(breaks) {
            let [line, _] = print(event);
            let behind = line.find(": ").unwrap() + 1;
            let blanks: Vec<_> = line.match_indices(' ').map(|(at, _)| at).filter(|at| *at >= behind).collect();
            let at = blanks[place.index(blanks.len())];
            text.push_str(&line[..at]);
            text.push('\n');
            text.push_str(&line[at + 1..]);
        }
        let whole = read(&text);
        let expected: Vec<_> = stamp(&builders).into_iter().map(Item::Event).collect();
        prop_assert_eq!(whole.sections, [expected]);
    }
}

#[test]
fn more_events_than_wait_at_once_come_in_order() {
    let mut text = String::new();
    for place in 0..100_000_i64 {
        // Pairs are the wrong way round.
        let event = EventBuilder::new(Action::Queue, (place ^ 1) * 1000).sectors(8, 8);
        text.push_str(&print(&event.cpu(u32::from(place % 2 == 1)).build())[0]);
        if place == 90_000 {
            text.push_str("CPU:0 [LOST 9 EVENTS]\n");
        }
    }
    let whole = read(&text);
    let [items] = whole.sections.as_slice() else { panic!("one section") };
    let time = |item: &Item| support::time(item);
    assert!(items.windows(2).all(|pair| time(&pair[0]) <= time(&pair[1])));
    assert_eq!(items.len(), 100_001);
    let loss = Loss { cpu: Cpu(0), from: Nanos(90_000_000), to: Nanos(90_002_000), count: 9 };
    assert!(
        items.contains(&Item::Loss(loss)),
        "{:?}",
        items.iter().find(|i| matches!(i, Item::Loss(_)))
    );
    assert_eq!(whole.ledger.count(Cause::TimeBackwards), 0);
}
