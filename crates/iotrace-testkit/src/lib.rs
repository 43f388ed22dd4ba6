//! Traces for tests, written as text.
//!
//! A line is one event: `<time_ns> <cpu> <letter> <rwbs> [<sector>+<sectors>] [words…]`, or a loss:
//! `LOSS <cpu> <from_ns> <to_ns> <count>`. Letters are blkparse's (`Q G M F I D R C X A`), and `RM`
//! for a request merge, `BC` for a bio completion, `CI` and `CC` for a driver command. Words are
//! `@8,0` (the device, 8,0 by default), `<-9,0:64` (source of a remap), `>2048` (start of the rest
//! of a split), `=-5` (error), `pid=7`, `comm=fio`, `tag=3`, `ncq`, `dma`. Empty lines and
//! lines with `#` are passed over.

#![forbid(unsafe_code)]

use iotrace_model::{
    Action, Comm, Cpu, DeviceId, Event, Flags, Item, Loss, Nanos, Op, Protocol, Remap,
    SECTOR_BYTES, Sector,
};

/// The device of a line that names none.
pub const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

/// Reads a trace. A line that cannot be read is the test's mistake and stops it.
#[track_caller]
pub fn trace(text: &str) -> Vec<Item> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .filter(|line| !line.starts_with('#'))
        .enumerate()
        .map(|(place, line)| {
            let item = item(line, place as u64);
            item.unwrap_or_else(|| panic!("not a line of a trace: {line}"))
        })
        .collect()
}

fn item(line: &str, sequence: u64) -> Option<Item> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if first == "LOSS" {
        return Some(Item::Loss(Loss {
            cpu: Cpu(words.next()?.parse().ok()?),
            from: Nanos(words.next()?.parse().ok()?),
            to: Nanos(words.next()?.parse().ok()?),
            count: words.next()?.parse().ok()?,
        }));
    }
    let mut event = Event {
        time: Nanos(first.parse().ok()?),
        cpu: Cpu(words.next()?.parse().ok()?),
        sequence,
        device: Some(DISK),
        action: action(words.next()?)?,
        op: Op::Other,
        flags: Flags::default(),
        sector: None,
        length_bytes: 0,
        pid: 1,
        comm: Comm::new(b"test"),
        error: None,
        remap: None,
        cgroup: None,
        io_priority: None,
        tag: None,
        protocol: None,
    };
    if matches!(event.action, Action::Complete | Action::BioComplete) {
        event.error = Some(0);
    }
    (event.op, event.flags) = operation(words.next()?)?;
    for word in words {
        apply(&mut event, word)?;
    }
    Some(Item::Event(event))
}

fn action(letter: &str) -> Option<Action> {
    Some(match letter {
        "Q" => Action::Queue,
        "G" => Action::Get,
        "M" => Action::BackMerge,
        "F" => Action::FrontMerge,
        "RM" => Action::RequestMerge,
        "I" => Action::Insert,
        "D" => Action::Issue,
        "R" => Action::Requeue,
        "C" => Action::Complete,
        "BC" => Action::BioComplete,
        "X" => Action::Split,
        "A" => Action::Remap,
        "CI" => Action::CommandIssue,
        "CC" => Action::CommandComplete,
        _ => return None,
    })
}

/// The subset of rwbs that tests need.
fn operation(rwbs: &str) -> Option<(Op, Flags)> {
    let (preflush, rest) = match rwbs.strip_prefix('F') {
        Some(rest) => (Flags::PREFLUSH, rest),
        None => (Flags::default(), rwbs),
    };
    let op = match rest.chars().next()? {
        'R' => Op::Read,
        'W' => Op::Write,
        'D' => Op::Discard,
        'F' => Op::Flush,
        'N' => Op::Other,
        _ => return None,
    };
    let mut flags = preflush;
    for letter in rest.chars().skip(1) {
        flags = flags.with(match letter {
            'S' => Flags::SYNC,
            'F' => Flags::FUA,
            'M' => Flags::META,
            'A' => Flags::READAHEAD,
            _ => return None,
        });
    }
    Some((op, flags))
}

fn apply(event: &mut Event, word: &str) -> Option<()> {
    if let Some((sector, sectors)) = word.split_once('+') {
        event.sector = Some(Sector(sector.parse().ok()?));
        event.length_bytes = sectors.parse::<u64>().ok()? * SECTOR_BYTES;
    } else if let Some(device) = word.strip_prefix('@') {
        event.device = Some(self::device(device)?);
    } else if let Some(source) = word.strip_prefix("<-") {
        let (device, sector) = source.split_once(':')?;
        event.remap =
            Some(Remap { device: self::device(device)?, sector: Sector(sector.parse().ok()?) });
    } else if let Some(rest) = word.strip_prefix('>') {
        event.remap = Some(Remap { device: event.device?, sector: Sector(rest.parse().ok()?) });
    } else if let Some(error) = word.strip_prefix('=') {
        event.error = Some(error.parse().ok()?);
    } else if let Some(pid) = word.strip_prefix("pid=") {
        event.pid = pid.parse().ok()?;
    } else if let Some(comm) = word.strip_prefix("comm=") {
        event.comm = Comm::new(comm.as_bytes());
    } else if let Some(tag) = word.strip_prefix("tag=") {
        event.tag = Some(tag.parse().ok()?);
    } else {
        event.protocol = Some(match word {
            "ncq" => Protocol::AtaNcq,
            "dma" => Protocol::AtaDma,
            "nodata" => Protocol::AtaNoData,
            _ => return None,
        });
    }
    Some(())
}

fn device(text: &str) -> Option<DeviceId> {
    let (major, minor) = text.split_once(',')?;
    Some(DeviceId { major: major.parse().ok()?, minor: minor.parse().ok()? })
}
