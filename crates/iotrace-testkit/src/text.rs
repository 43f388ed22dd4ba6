//! Traces for tests, written as text.
//!
//! A line is one event, or a loss:
//!
//! ```text
//! <time_ns> <cpu> <letter> <rwbs> [<sector>+<sectors>] [words…]
//! LOSS <cpu> <from_ns> <to_ns> <count>
//! ```
//!
//! | letter | action | | letter | action | | letter | action |
//! |---|---|---|---|---|---|---|---|
//! | `Q` | queue | | `D` | issue | | `P` | plug |
//! | `G` | get | | `R` | requeue | | `U` | unplug |
//! | `M` | back merge | | `C` | complete | | `S` | sleep |
//! | `F` | front merge | | `BC` | bio complete | | `B` | bounce |
//! | `RM` | request merge | | `X` | split | | `CI` | command issue |
//! | `I` | insert | | `A` | remap | | `CC` | command complete |
//!
//! | word | meaning |
//! |---|---|
//! | `@8,16` | the device; `DISK` without it |
//! | `<-9,0:64` or `<- 9,0 64` | source of a remap |
//! | `>2048` | start of the rest of a split |
//! | `=-5` | error; completions have 0 without it |
//! | `pid=7`, `comm=fio` | the thread; 1 and `test` without them |
//! | `tag=3`, `ncq`, `dma`, `pio`, `nodata` | of a driver command |
//! | `prio=16388` | io priority |
//!
//! Sequences count the events of each CPU from 0. Empty lines and lines with `#` are passed over.

use std::collections::BTreeMap;

use iotrace_model::{
    Action, Comm, Cpu, DeviceId, Event, Item, Loss, Nanos, Protocol, Remap, SECTOR_BYTES, Sector,
};

use crate::{EventBuilder, letters};

/// Reads a trace. A line that cannot be read is the test's mistake and stops it.
#[track_caller]
pub fn trace(text: &str) -> Vec<Item> {
    let mut sequences = BTreeMap::<Cpu, u64>::new();
    let mut items = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        let Some(mut item) = item(line) else { panic!("not a line of a trace: {line}") };
        if let Item::Event(event) = &mut item {
            let sequence = sequences.entry(event.cpu).or_default();
            event.sequence = *sequence;
            *sequence += 1;
        }
        items.push(item);
    }
    items
}

fn item(line: &str) -> Option<Item> {
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
    let cpu = words.next()?.parse().ok()?;
    let builder = EventBuilder::new(action(words.next()?)?, first.parse().ok()?).cpu(cpu);
    let mut event = builder.build();
    (event.op, event.flags) = letters::read(words.next()?)?;
    while let Some(word) = words.next() {
        if word == "<-" {
            event.remap = Some(remap(words.next()?, words.next()?)?);
        } else {
            apply(&mut event, word)?;
        }
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
        "P" => Action::Plug,
        "U" => Action::Unplug,
        "S" => Action::Sleep,
        "B" => Action::Bounce,
        "CI" => Action::CommandIssue,
        "CC" => Action::CommandComplete,
        _ => return None,
    })
}

fn apply(event: &mut Event, word: &str) -> Option<()> {
    if let Some((sector, sectors)) = word.split_once('+') {
        event.sector = Some(Sector(sector.parse().ok()?));
        event.length_bytes = sectors.parse::<u64>().ok()? * SECTOR_BYTES;
    } else if let Some(device) = word.strip_prefix('@') {
        event.device = Some(self::device(device)?);
    } else if let Some(source) = word.strip_prefix("<-") {
        let (device, sector) = source.split_once(':')?;
        event.remap = Some(remap(device, sector)?);
    } else if let Some(rest) = word.strip_prefix('>') {
        event.remap = Some(Remap { device: event.device?, sector: Sector(rest.parse().ok()?) });
    } else if let Some((name, value)) = word.split_once('=') {
        match name {
            "" => event.error = Some(value.parse().ok()?),
            "pid" => event.pid = value.parse().ok()?,
            "comm" => event.comm = Comm::new(value.as_bytes()),
            "tag" => event.tag = Some(value.parse().ok()?),
            "prio" => event.io_priority = Some(value.parse().ok()?),
            _ => return None,
        }
    } else {
        event.protocol = Some(match word {
            "ncq" => Protocol::AtaNcq,
            "dma" => Protocol::AtaDma,
            "pio" => Protocol::AtaPio,
            "nodata" => Protocol::AtaNoData,
            _ => return None,
        });
    }
    Some(())
}

fn remap(device: &str, sector: &str) -> Option<Remap> {
    Some(Remap { device: self::device(device)?, sector: Sector(sector.parse().ok()?) })
}

fn device(text: &str) -> Option<DeviceId> {
    let (major, minor) = text.split_once(',')?;
    Some(DeviceId { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use iotrace_model::{Flags, Op};

    use super::*;

    const DM: DeviceId = DeviceId { major: 253, minor: 0 };

    #[test]
    fn a_line_says_what_an_event_is() {
        let event = EventBuilder::new(Action::Issue, 25).cpu(1).sectors(100, 8);
        check("25 1 D FWS 100+8", event.op(Op::Write, Flags::PREFLUSH.with(Flags::SYNC)));
        check("25 1 D R 100+8 pid=7 comm=fio", event.thread(7, "fio"));
        let remap = EventBuilder::new(Action::Remap, 3).sectors(64, 8).remap(DM, 0);
        check("3 0 A R 64+8 <-253,0:0", remap);
        check("3 0 A R 64+8 <- 253,0 0", remap);
        check("9 0 C R 64+8 =-5 @253,0", {
            EventBuilder::new(Action::Complete, 9).sectors(64, 8).error(-5).device(Some(DM))
        });
        let command = EventBuilder::new(Action::CommandIssue, 4).sectors(64, 8);
        check("4 0 CI R 64+8 tag=3 ncq", command.command(3, Some(Protocol::AtaNcq)));
    }

    #[test]
    fn sequences_count_the_events_of_a_cpu() {
        let items = trace("# head\n0 0 Q R 1+1\n\n1 1 Q R 2+1\nLOSS 0 1 2 9\n2 0 Q R 3+1");
        let loss = Loss { cpu: Cpu(0), from: Nanos(1), to: Nanos(2), count: 9 };
        let queue = |time| EventBuilder::new(Action::Queue, time);
        let expected = [
            queue(0).sectors(1, 1).item(),
            queue(1).sectors(2, 1).cpu(1).item(),
            Item::Loss(loss),
            queue(2).sectors(3, 1).sequence(1).item(),
        ];
        assert_eq!(items, expected);
    }

    #[track_caller]
    fn check(line: &str, expected: EventBuilder) {
        assert_eq!(trace(line), [expected.item()]);
    }
}
