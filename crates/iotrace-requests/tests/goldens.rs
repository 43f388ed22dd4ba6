//! The rows of the golden blktrace records, worked out by hand from the life of a request. Each is
//! read twice: as the binary reader gives it, and with what blkparse's text leaves out.

#![expect(clippy::unwrap_used, reason = "a golden that cannot be read stops the test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use iotrace_model::{
    Action, Comm, Cpu, DeviceId, Event, Flags, Item, Ledger, Loss, Nanos, Op, Remap, Request,
    Sector,
};
use iotrace_requests::Assembler;
use iotrace_testkit::beside;
use serde_json::Value;

/// Time of the first event of every golden, on its clock.
const START: i64 = 1_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Binary,
    Text,
}

#[test]
fn a_plain() {
    check(
        "a_plain",
        "sda",
        "1 8:0 write 2000+16 Q1000 G2500 I4500 D12000 C212000 complete
         0 8:0 read 1000+8 Q0 G2000 I5000 D9000 C109000 complete
         2 8:0 read 5000+8 Q300000 G301000 D303000 C403000 complete",
    );
}

#[test]
fn b_merge() {
    check(
        "b_merge",
        "sda",
        "0 8:0 write 7992+24 Q0 G1000 I5500 D8000 C58000 complete bios=3 back=1 front=1
         3 8:0 write 16000+24 Q100000 G100400 I104500 D107000 C187000 complete bios=3 back=1 front=1",
    );
}

#[test]
fn c_requeue() {
    check(
        "c_requeue",
        "sda",
        "0 8:0 read 800+8 Q0 G1000 I2000 D12000 C112000 complete requeues=2
         1 8:0 write 4000+8 Q200000 G201000 I202000 D203000 C253000 complete",
    );
}

#[test]
fn d_dm() {
    check(
        "d_dm",
        "",
        "1 8:0 write 1100+8 Q1000 G1500 I2200 D3700 C53700 complete parent=0
         0 253:0 write 100+8 Q0 C54500 complete
         3 8:16 write 700+8 Q100900 G101400 I102100 D103600 C173600 complete parent=2
         2 253:0 write 1200+8 Q100000 C174000 complete
         5 8:0 write 1992+8 Q200800 G201300 I202000 D203500 C253500 complete parent=4
         6 8:16 write 500+8 Q204800 G205300 I206000 D207500 C287500 complete parent=4
         4 253:0 write 992+16 Q200000 C288000 complete splits=1",
    );
}

#[test]
fn e_part() {
    check(
        "e_part",
        "sda.",
        "0 8:0 write 2072+8 Q400 G900 I1800 D3200 C63200 complete
         1 8:0 read 8+8 Q100000 G100500 I101000 D102000 C152000 complete",
    );
    check("e_part", "sda1.", "0 8:1 write 2072+8 Q400 G900 I1800 D3200 C63200 complete");
}

#[test]
fn f_flush() {
    check(
        "f_flush",
        "sda",
        "1 8:0 flush - D2000 C52000 complete bios=0
         0 8:0 flush - Q0 G500 C52500 complete
         2 8:0 write 2072+8 Q100000 G100400 D102000 C132000 complete
         3 8:0 flush - D133000 C173000 complete bios=0
         4 8:0 write 4096+8 Q200000 G200400 D201000 C231000 complete
         6 8:0 flush - D301000 C311000 complete bios=0
         5 8:0 write 6000+8 Q300000 G300400 D312000 C342000 complete
         7 8:0 flush - D343000 C353000 complete bios=0
         8 8:0 discard 128+128 Q400000 G400400 I401000 D402000 C412000 complete
         9 8:0 write 20000+128 Q500000 G500400 D501000 C511000 complete
         10 8:0 read 30000+8 Q600000 G600400 D601000 C651000 complete",
    );
}

/// The gaps are from 2000 to 300000 on CPU 0 and from 202000 to 552000 on CPU 1: what was open in
/// one keeps what was seen before it, and what began in one the event that it began with.
#[test]
fn g_gap() {
    check(
        "g_gap",
        "sda",
        "0 8:0 read 1000+8 Q0 G1000 D2000 lost
         1 8:0 read 2000+8 C202000 lost
         2 8:0 read 3000+8 Q300000 lost
         3 8:0 read 3000+8 Q500000 lost
         4 8:0 read 4000+8 Q700000 G701000 D702000 C752000 complete",
    );
}

#[test]
fn i_error() {
    check(
        "i_error",
        "sda",
        "0 8:0 read 4656+8 Q0 G500 I1000 D2000 C52400 complete error=-61
         1 8:0 read 3000+8 Q100000 G100500 I101000 D102000 C152300 complete error=-5
         2 8:0 write 6000+16 Q200000 G200500 I201500 D202000 C262000 complete bios=2 back=1
         4 8:0 read - I300000 D300500 C310500 complete bios=0
         5 8:0 read - D400000 C410000 complete error=-5 bios=0",
    );
}

#[test]
fn j_split() {
    check(
        "j_split",
        "sda",
        "1 8:0 read 8192+1024 Q0 G1500 I2000 D3000 C203000 complete splits=1
         0 8:0 read 9216+1024 Q0 G4000 I4500 D5500 C405500 complete splits=1",
    );
}

/// Compares the rows of the files of a golden that begin with `prefix`, in the order of their
/// completions, line by line.
#[track_caller]
fn check(golden: &str, prefix: &str, expected: &str) {
    let Some(path) = beside(&format!("reference/golden/{golden}/records.jsonl")) else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &Value| record["file"].as_str().unwrap().starts_with(prefix))
        .collect();
    let mut expected: Vec<_> = expected.lines().map(str::trim).collect();
    expected.sort_by_key(|row| completion(row));
    for source in [Source::Binary, Source::Text] {
        let (requests, ledger) = assemble(&items(&records, source));
        let mut rows: Vec<_> = requests.iter().map(row).collect();
        rows.sort_by_key(|row| completion(row));
        assert_eq!(rows, expected, "{golden} {source:?}");
        assert_eq!(ledger, Ledger::default(), "{golden} {source:?}");
    }
}

/// What rows are ordered by: their completion, else their number, which come first.
fn completion(row: &str) -> (u64, u64) {
    let number = row.split(' ').next().unwrap().parse().unwrap();
    let time = row.split(' ').find_map(|word| word.strip_prefix('C'));
    (time.map_or(0, |time| time.parse().unwrap()), number)
}

fn assemble(items: &[Item]) -> (Vec<Request>, Ledger) {
    let mut assembler = Assembler::new();
    let mut requests = Vec::new();
    for item in items {
        assembler.push(item, &mut requests);
    }
    let ledger = assembler.finish(&mut requests);
    (requests, ledger)
}

fn row(request: &Request) -> String {
    let mut row = format!("{} {} {}", request.request, request.device, request.op.name());
    match request.sector {
        Some(sector) => write!(row, " {}+{}", sector.0, request.length_bytes / 512).unwrap(),
        None => row.push_str(" -"),
    }
    let stamps = [request.queue, request.get, request.insert, request.issue, request.complete];
    for (letter, stamp) in "QGIDC".chars().zip(stamps) {
        if let Some(stamp) = stamp {
            write!(row, " {letter}{}", stamp.time.0).unwrap();
        }
    }
    write!(row, " {}", request.status.name()).unwrap();
    if let Some(error) = request.error.filter(|error| *error != 0) {
        write!(row, " error={error}").unwrap();
    }
    if request.bios != 1 {
        write!(row, " bios={}", request.bios).unwrap();
    }
    let counts = [
        ("back", request.back_merges),
        ("front", request.front_merges),
        ("requeues", request.requeues),
        ("splits", request.splits),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        write!(row, " {name}={count}").unwrap();
    }
    if let Some(parent) = request.parent {
        write!(row, " parent={parent}").unwrap();
    }
    row
}

/// The events in time order, with a loss where the sequence of a file has a gap.
fn items(records: &[Value], source: Source) -> Vec<Item> {
    let mut items = Vec::new();
    let mut last: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for record in records {
        let Some(event) = event(record, source) else { continue };
        let before = last.insert(record["file"].as_str().unwrap(), (event.sequence, event.time.0));
        if let Some((sequence, time)) = before
            && event.sequence > sequence + 1
        {
            let count = event.sequence - sequence - 1;
            let (from, to) = (Nanos(time), event.time);
            items.push((time, 1, event.cpu, Item::Loss(Loss { cpu: event.cpu, from, to, count })));
        }
        items.push((event.time.0, 0, event.cpu, Item::Event(event)));
    }
    items.sort_by_key(|(time, rank, cpu, _)| (*time, *rank, *cpu));
    items.into_iter().map(|(.., item)| item).collect()
}

/// A record as an event; `None` for a notify record.
fn event(record: &Value, source: Source) -> Option<Event> {
    let word = |name: &str| record[name].as_u64().unwrap();
    let code = u32::from_str_radix(record["action"].as_str()?.strip_prefix("0x")?, 16).unwrap();
    let has = |bit: u32| code >> 16 & bit != 0;
    if has(0x400) {
        return None;
    }
    let bytes = word("bytes");
    let (is_flush, is_command) = (has(4), has(0x200));
    let action = action(code & 0xff, has(0x100), source);
    let op = match () {
        () if has(0x2000) => Op::Discard,
        () if has(2) => Op::Write,
        () if is_flush && bytes == 0 => Op::Flush,
        () if source == Source::Text && bytes == 0 => Op::Other,
        () => Op::Read,
    };
    let bits =
        [(8, Flags::SYNC), (0x8000, Flags::FUA), (0x800, Flags::READAHEAD), (0x1000, Flags::META)];
    let mut flags = bits.into_iter().filter(|(bit, _)| has(*bit));
    let mut flags = flags.by_ref().fold(Flags::default(), |set, (_, flag)| set.with(flag));
    if is_flush && op != Op::Flush {
        flags = flags.with(Flags::PREFLUSH);
    }
    let is_completion = action == Action::Complete;
    let no_place = is_command || op == Op::Flush || bytes == 0 && !is_completion;
    let pdu = record["pdu"].as_str().unwrap();
    let number = |from: usize, to: usize| u64::from_str_radix(&pdu[from..to], 16).unwrap();
    let disk = |number: u64| DeviceId::from_kernel(u32::try_from(number).unwrap());
    let mut device = device(record["device"].as_str().unwrap());
    let mut remap = None;
    if action == Action::Remap {
        remap = Some(Remap { device: disk(number(0, 8)), sector: Sector(number(16, 32)) });
        device = disk(number(8, 16));
    } else if action == Action::Split {
        remap = Some(Remap { device, sector: Sector(number(0, 16)) });
    }
    let hides_length =
        source == Source::Text && (is_command && is_completion || action == Action::Split);
    let error = i32::try_from(word("error")).unwrap();
    Some(Event {
        time: Nanos(i64::try_from(word("time")).unwrap() - START),
        cpu: Cpu(u32::try_from(word("cpu")).unwrap()),
        sequence: word("sequence"),
        device: Some(device),
        action,
        op,
        flags,
        sector: (!no_place).then_some(Sector(word("sector"))),
        length_bytes: if hides_length { 0 } else { bytes },
        pid: u32::try_from(word("pid")).unwrap(),
        comm: Comm::default(),
        error: is_completion.then_some(if error > 32_767 { error - 65_536 } else { error }),
        remap,
        cgroup: None,
        io_priority: None,
        tag: None,
        protocol: None,
    })
}

fn action(code: u32, is_request: bool, source: Source) -> Action {
    match code {
        1 => Action::Queue,
        2 if is_request && source == Source::Binary => Action::RequestMerge,
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
        _ => panic!("no golden has the action {code}"),
    }
}

fn device(text: &str) -> DeviceId {
    DeviceId::parse(&text.replace(',', ":")).unwrap()
}
