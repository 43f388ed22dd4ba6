//! The fields of block events, as `include/trace/events/block.h` prints them and as bare values.
//!
//! | events | text |
//! |---|---|
//! | insert, issue, request merge | `8,0 WS 4096 () 2072 + 8 be,0,4 [dd]` |
//! | complete, requeue | `8,0 WS () 2072 + 8 be,0,4 [0]` |
//! | queue, get, merges, bounce, sleep | `8,0 WS 2072 + 8 [dd]` |
//! | bio complete | `8,0 W 2072 + 8 [0]` |
//! | remaps | `8,0 WS 2072 + 8 <- (8,1) 24`, of a request a count behind it |
//! | split | `8,0 RS 4096 / 5184 [dd]` |
//! | plug, unplug | `[dd]`, `[dd] 1` |
//!
//! The priority is there since Linux 6.11; perf prints its class as a number. Bytes of a command may
//! stand in the parentheses. `perf script` prints `dev=8388608 sector=2072 …` where it cannot follow
//! the kernel's text, and `trace-cmd report -R` always. What follows a whole event is a comment.

use iotrace_model::{Action, Comm, DeviceId, Sector};

use super::cursor::{Cursor, Fault, number, trim_end, trim_start};
use crate::rwbs;
use crate::tracepoint::{Values, device_id};

/// A name has at most 15 bytes.
const COMM_BYTES: usize = 15;

/// Reads what stands behind the event's name.
pub(super) fn read(action: Action, fields: &[u8]) -> Result<Values, Fault> {
    let mut cursor = Cursor(fields);
    let first = cursor.peek().ok_or(Fault::Short)?;
    let bare = cursor.0.strip_prefix(b"[FAILED TO PARSE]").unwrap_or(cursor.0);
    if first.is_ascii_alphabetic() || bare.len() < cursor.0.len() {
        return bare_values(action, bare);
    }
    let mut values = Values::default();
    match shape(action) {
        Shape::Plug => values.comm = comm(&mut cursor, false)?,
        Shape::Unplug => {
            values.comm = comm(&mut cursor, true)?;
            cursor.number("a number of requests")?;
        }
        Shape::Request => {
            device_and_letters(&mut cursor, &mut values)?;
            values.bytes = cursor.number("a number of bytes")?;
            command(&mut cursor)?;
            extent(&mut cursor, &mut values)?;
            values.io_priority = priority(&mut cursor)?;
            values.comm = comm(&mut cursor, false)?;
        }
        Shape::Completion => {
            device_and_letters(&mut cursor, &mut values)?;
            command(&mut cursor)?;
            extent(&mut cursor, &mut values)?;
            values.io_priority = priority(&mut cursor)?;
            values.error = error(&mut cursor)?;
        }
        Shape::Bio => {
            device_and_letters(&mut cursor, &mut values)?;
            extent(&mut cursor, &mut values)?;
            values.comm = comm(&mut cursor, false)?;
        }
        Shape::BioCompletion => {
            device_and_letters(&mut cursor, &mut values)?;
            extent(&mut cursor, &mut values)?;
            values.error = error(&mut cursor)?;
        }
        Shape::Remap => {
            device_and_letters(&mut cursor, &mut values)?;
            extent(&mut cursor, &mut values)?;
            cursor.byte(b'<', "<-")?;
            cursor.byte(b'-', "<-")?;
            cursor.byte(b'(', "(major,minor)")?;
            let above = device(&mut cursor)?;
            cursor.byte(b')', "(major,minor)")?;
            values.above = Some((above, Sector(cursor.number("a sector")?)));
        }
        Shape::Split => {
            device_and_letters(&mut cursor, &mut values)?;
            values.sector = Some(Sector(cursor.number("a sector")?));
            cursor.byte(b'/', "/")?;
            values.rest = Some(Sector(cursor.number("a sector")?));
            values.comm = comm(&mut cursor, false)?;
        }
    }
    Ok(values)
}

/// Which fields an event has, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Request,
    Completion,
    Bio,
    BioCompletion,
    Remap,
    Split,
    Plug,
    Unplug,
}

fn shape(action: Action) -> Shape {
    match action {
        Action::Insert | Action::Issue | Action::RequestMerge => Shape::Request,
        Action::Complete | Action::Requeue => Shape::Completion,
        Action::BioComplete => Shape::BioCompletion,
        Action::Remap | Action::RequestRemap => Shape::Remap,
        Action::Split => Shape::Split,
        Action::Plug => Shape::Plug,
        Action::Unplug | Action::UnplugTimer => Shape::Unplug,
        Action::Queue
        | Action::Get
        | Action::BackMerge
        | Action::FrontMerge
        | Action::Bounce
        | Action::Sleep
        // No tracepoint of the block layer has these.
        | Action::Abort
        | Action::Message
        | Action::CommandIssue
        | Action::CommandComplete
        | Action::Unknown(_) => Shape::Bio,
    }
}

fn device_and_letters(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), Fault> {
    values.device = Some(device(cursor)?);
    (values.op, values.flags) = rwbs::read(cursor.word()?);
    Ok(())
}

fn device(cursor: &mut Cursor<'_>) -> Result<DeviceId, Fault> {
    const EXPECTED: &str = "major,minor of a device";
    let major = cursor.number(EXPECTED)?;
    cursor.byte(b',', EXPECTED)?;
    let minor = cursor.number(EXPECTED)?;
    match (u32::try_from(major), u32::try_from(minor)) {
        (Ok(major), Ok(minor)) if major < 1 << 12 && minor < 1 << 20 => {
            Ok(DeviceId { major, minor })
        }
        _ => Err(Fault::Wrong(EXPECTED)),
    }
}

/// `2072 + 8`.
fn extent(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), Fault> {
    values.sector = Some(Sector(cursor.number("a sector")?));
    cursor.byte(b'+', "+ and a number of sectors")?;
    values.sectors = Some(cursor.number("a number of sectors")?);
    Ok(())
}

/// `()`, or the bytes of a command in it.
fn command(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    cursor.byte(b'(', "( and a command")?;
    cursor.behind(b')')
}

/// `be,0,4` or `0x2,0,4`: class, hint and level; `None` when a bracket stands there already.
fn priority(cursor: &mut Cursor<'_>) -> Result<Option<u16>, Fault> {
    const EXPECTED: &str = "class,hint,level of a priority, or [";
    let first = cursor.peek().ok_or(Fault::Short)?;
    if first == b'[' {
        return Ok(None);
    }
    let class = if first.is_ascii_digit() {
        cursor.number(EXPECTED)?
    } else {
        let end = cursor.0.iter().position(|byte| *byte == b',').ok_or(Fault::Short)?;
        let (word, rest) = cursor.0.split_at_checked(end).ok_or(Fault::Short)?;
        cursor.0 = rest;
        match word {
            b"none" => 0,
            b"rt" => 1,
            b"be" => 2,
            b"idle" => 3,
            b"invalid" => 7,
            _ => return Err(Fault::Wrong(EXPECTED)),
        }
    };
    cursor.byte(b',', EXPECTED)?;
    let hint = cursor.number(EXPECTED)?;
    cursor.byte(b',', EXPECTED)?;
    let level = cursor.number(EXPECTED)?;
    if class > 7 || hint > 0x3ff || level > 7 {
        return Err(Fault::Wrong(EXPECTED));
    }
    Ok(u16::try_from(class << 13 | hint << 3 | level).ok())
}

/// `[0]`, `[-5]`.
fn error(cursor: &mut Cursor<'_>) -> Result<i32, Fault> {
    cursor.byte(b'[', "[error]")?;
    let error = cursor.signed("[error]")?;
    cursor.byte(b']', "[error]")?;
    Ok(error)
}

/// `[dd]`. A name may hold brackets, a comment behind it too: the last bracket that ends the line,
/// or stands before a count, is the right one; else the first.
fn comm(cursor: &mut Cursor<'_>, has_count: bool) -> Result<Comm, Fault> {
    cursor.byte(b'[', "[task]")?;
    let text = cursor.0;
    let reach = text.get(..=COMM_BYTES).unwrap_or(text);
    let mut end = None;
    for (place, _) in reach.iter().enumerate().filter(|(_, byte)| **byte == b']') {
        let behind = text.get(place + 1..).unwrap_or_default();
        let ends = if has_count {
            number(trim_end(trim_start(behind))).is_some()
        } else {
            trim_end(behind).is_empty()
        };
        if ends || end.is_none() {
            end = Some(place);
        }
    }
    let Some(end) = end else {
        let is_cut = text.len() <= COMM_BYTES;
        return Err(if is_cut { Fault::Short } else { Fault::Wrong("[task]") });
    };
    cursor.0 = text.get(end + 1..).unwrap_or_default();
    Ok(Comm::new(text.get(..end).unwrap_or_default()))
}

/// `dev=8388608 sector=2072 …` in any order; a name goes on up to the command or the end.
fn bare_values(action: Action, fields: &[u8]) -> Result<Values, Fault> {
    let mut values = Values::default();
    let mut old = (None, None);
    let (mut has_letters, mut has_comm) = (false, false);
    let mut cursor = Cursor(fields);
    while cursor.peek().is_some() {
        let end = cursor.0.iter().position(|byte| matches!(byte, b'=' | b' ' | b'\t'));
        let Some((name, rest)) = end.and_then(|end| cursor.0.split_at_checked(end)) else { break };
        let Some(rest) = rest.strip_prefix(b"=") else {
            cursor.0 = rest;
            continue;
        };
        cursor.0 = rest;
        match name {
            b"dev" => values.device = Some(bare_device(&mut cursor)?),
            b"sector" => values.sector = Some(Sector(cursor.number("a sector")?)),
            b"nr_sector" => values.sectors = Some(cursor.number("a number of sectors")?),
            b"new_sector" => values.rest = Some(Sector(cursor.number("a sector")?)),
            b"bytes" => values.bytes = cursor.number("a number of bytes")?,
            b"error" | b"errors" => values.error = cursor.signed("an error")?,
            b"ioprio" => {
                values.io_priority = u16::try_from(cursor.number("a priority")?).ok();
            }
            b"old_dev" => old.0 = Some(bare_device(&mut cursor)?),
            b"old_sector" => old.1 = Some(Sector(cursor.number("a sector")?)),
            b"rwbs" => {
                (values.op, values.flags) = rwbs::read(bare_word(&mut cursor));
                has_letters = true;
            }
            b"comm" => {
                let end = memchr::memmem::find(cursor.0, b" cmd=").unwrap_or(cursor.0.len());
                let (comm, rest) = cursor.0.split_at_checked(end).unwrap_or((cursor.0, &[]));
                values.comm = Comm::new(trim_end(comm));
                cursor.0 = rest;
                has_comm = true;
            }
            _ => {
                bare_word(&mut cursor);
            }
        }
    }
    values.above = old.0.zip(old.1);
    let is_of_a_disk = values.device.is_some() && has_letters && values.sector.is_some();
    let is_whole = match shape(action) {
        Shape::Plug | Shape::Unplug => has_comm,
        Shape::Request | Shape::Bio => is_of_a_disk && values.sectors.is_some() && has_comm,
        Shape::Completion | Shape::BioCompletion => is_of_a_disk && values.sectors.is_some(),
        Shape::Remap => is_of_a_disk && values.sectors.is_some() && values.above.is_some(),
        Shape::Split => is_of_a_disk && values.rest.is_some() && has_comm,
    };
    if is_whole { Ok(values) } else { Err(Fault::Short) }
}

/// A value that may be empty, up to the next blank.
fn bare_word<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    match cursor.0.first() {
        Some(b' ' | b'\t') => &[],
        _ => cursor.word().unwrap_or_default(),
    }
}

fn bare_device(cursor: &mut Cursor<'_>) -> Result<DeviceId, Fault> {
    let dev = cursor.number("a dev_t")?;
    if u32::try_from(dev).is_err() {
        return Err(Fault::Wrong("a dev_t of 32 bits"));
    }
    Ok(device_id(dev))
}

#[cfg(test)]
mod tests {
    use iotrace_model::{Cpu, Flags, Item, Nanos, Op};
    use iotrace_testkit::{EventBuilder, trace};

    use super::*;
    use crate::tracepoint::{Context, action};

    #[test]
    fn requests_are_read_in_the_forms_of_every_kernel() {
        check("block_rq_issue: 8,0 WS 4096 () 2072 + 8 [dd]", "D WS 2072+8 comm=dd");
        check("block_rq_insert: 8,16 W 0 () 2072 + 8 [dd]", "I W 2072+8 comm=dd @8,16");
        check("block_rq_issue: 8,0 RA 4096 () 0 + 8 be,0,4 [dd]", "D RA 0+8 comm=dd prio=16388");
        check("block_rq_issue: 8,0 R 8 () 0 + 8 0x2,0,4 [dd]", "D R 0+8 comm=dd prio=16388");
        check("block_rq_issue: 8,0 R 8 () 0 + 8 rt,1,7 [dd]", "D R 0+8 comm=dd prio=8207");
        check("block_rq_issue: 8,0 R 8 () 0 + 8 none,0,0 [dd]", "D R 0+8 comm=dd prio=0");
        check("block_rq_issue: 8,0 R 8 () 0 + 8 idle,0,7 [dd]", "D R 0+8 comm=dd prio=24583");
        check("block_rq_merge: 8,0 W 4096 () 4112 + 8 [dd]", "RM W 4112+8 comm=dd");
        check("block_rq_requeue: 8,0 WS () 2072 + 8 [0]", "R WS 2072+8 comm=");
        check("block_rq_complete: 8,0 WS () 2072 + 8 [0]", "C WS 2072+8 comm=");
        check(
            "block_rq_complete: 8,0 WS () 2072 + 8 be,0,4 [-5]",
            "C WS 2072+8 comm= prio=16388 =-5",
        );
        check("block_rq_complete: 8,0 WS () 2072 + 8 [5]", "C WS 2072+8 comm= =-5");
        check("block_rq_complete: 8,0 WS () 4656 + 0 [0]", "C WS 4656+0 comm=");
        check("block_rq_complete: 8,0 FF () 18446744073709551615 + 0 [0]", "C FF comm=");
        check("block_rq_issue: 8,0 FF 0 () 0 + 0 [kworker/0:1H]", "D FF comm=kworker/0:1H");
    }

    #[test]
    fn bios_are_read() {
        check("block_bio_queue: 8,0 WS 2072 + 8 [dd]", "Q WS 2072+8 comm=dd");
        check("block_getrq: 8,0 WS 2072 + 8 [dd]", "G WS 2072+8 comm=dd");
        check("block_bio_backmerge: 8,0 W 2080 + 8 [dd]", "M W 2080+8 comm=dd");
        check("block_bio_frontmerge: 8,0 W 2064 + 8 [dd]", "F W 2064+8 comm=dd");
        check("block_bio_bounce: 8,0 W 2064 + 8 [dd]", "B W 2064+8 comm=dd");
        check("block_sleeprq: 8,0 W 2064 + 8 [dd]", "S W 2064+8 comm=dd");
        check("block_bio_queue: 8,0 FWS 0 + 0 [dd]", "Q FWS comm=dd");
        check("block_bio_queue: 8,0 FWS 18446744073709531616 + 0 [dd]", "Q FWS comm=dd");
        check("block_bio_complete: 253,0 W 2072 + 8 [0]", "BC W 2072+8 comm= @253,0");
        check("block_bio_complete: 253,0 W 2072 + 8 [-5]", "BC W 2072+8 comm= @253,0 =-5");
        check("block_bio_remap: 8,0 WS 2072 + 8 <- (8,1) 24", "A WS 2072+8 comm= <-8,1:24");
        check("block_split: 8,0 RS 4096 / 5184 [dd]", "X RS 4096+1088 comm=dd >5184");
    }

    #[test]
    fn bare_values_are_read_too() {
        let issue = "block_rq_issue: dev=8388608 sector=2072 nr_sector=8 bytes=4096 ioprio=16388";
        check(&format!("{issue} rwbs=WS comm=dd cmd="), "D WS 2072+8 comm=dd prio=16388");
        check(
            "block_getrq: dev=0x800010 sector=0x818 nr_sector=0x8 rwbs=WS comm=dd",
            "G WS 2072+8 comm=dd @8,16",
        );
        check(
            "block_rq_complete: dev=8388608 sector=18446744073709551615 nr_sector=0 error=-5 rwbs=FF cmd=",
            "C FF comm= =-5",
        );
        check(
            "block_split: [FAILED TO PARSE] dev=8388608 sector=4096 new_sector=5184 rwbs=RS comm=dd",
            "X RS 4096+1088 comm=dd >5184",
        );
        check(
            "block_bio_remap: dev=8388608 sector=2072 nr_sector=8 old_dev=8388609 old_sector=24 rwbs=WS",
            "A WS 2072+8 comm= <-8,1:24",
        );
        let spaced =
            values("block_bio_queue: dev=8388608 sector=1 nr_sector=8 rwbs= comm=Web Content ");
        assert_eq!(spaced.map(|values| values.comm), Ok(Comm::new(b"Web Content")));
    }

    #[test]
    fn passthrough_counts_bytes_and_shows_its_command() {
        for text in [
            "block_rq_issue: 8,0 N 36 (12 00 00 00 24 00 ..) 0 + 0 [sg_inq]",
            "block_rq_issue: dev=8388608 sector=0 nr_sector=0 bytes=36 rwbs=N comm=sg_inq cmd=12 00",
        ] {
            let expected = EventBuilder::new(Action::Issue, 0).op(Op::Other, Flags::default());
            assert_eq!(event(text), Ok(expected.bytes(36).thread(1, "sg_inq").item()));
        }
    }

    #[test]
    fn a_request_remap_may_count_its_bios() {
        let expected = EventBuilder::new(Action::RequestRemap, 0)
            .op(Op::Write, Flags::SYNC)
            .sectors(2072, 8)
            .thread(1, "")
            .remap(DeviceId { major: 8, minor: 1 }, 24)
            .item();
        assert_eq!(event("block_rq_remap: 8,0 WS 2072 + 8 <- (8,1) 24 1"), Ok(expected));
    }

    #[test]
    fn a_plug_names_a_task_only() {
        let plug = |action| {
            let builder = EventBuilder::new(action, 0).op(Op::Other, Flags::default());
            Ok(builder.device(None).thread(1, "a]b [c").item())
        };
        assert_eq!(event("block_plug: [a]b [c]"), plug(Action::Plug));
        assert_eq!(event("block_unplug: [a]b [c] 12"), plug(Action::Unplug));
        assert_eq!(event("block_unplug: nr_rq=12 comm=a]b [c"), plug(Action::Unplug));
    }

    #[test]
    fn a_comment_behind_the_event_is_passed_over() {
        check("block_getrq: 8,0 R 8 + 8 [dd]    <<<<[the] first", "G R 8+8 comm=dd");
        check("block_rq_complete: 8,0 R () 8 + 8 [0] <<<< done", "C R 8+8 comm=");
    }

    #[test]
    fn what_ends_too_early_is_told_from_what_is_wrong() {
        let whole = "block_rq_issue: 8,0 WS 4096 () 2072 + 8 be,0,4 [dd]";
        for end in "block_rq_issue:".len()..whole.len() {
            let fault = values(&whole[..end]).map(|_| ());
            assert_eq!(fault, Err(Fault::Short), "{}", &whole[..end]);
        }
        wrong("block_rq_issue: 4096,0 WS 4096 () 2072 + 8 [dd]", "major,minor of a device");
        wrong("block_rq_issue: 8,1048576 W 4096 () 2072 + 8 [dd]", "major,minor of a device");
        wrong("block_rq_issue: 8,0 WS many () 2072 + 8 [dd]", "a number of bytes");
        wrong("block_getrq: 8,0 WS 2072 - 8 [dd]", "+ and a number of sectors");
        wrong("block_getrq: 8,0 WS 2072 + 8 [a name that is too long]", "[task]");
        wrong(
            "block_rq_issue: 8,0 W 8 () 1 + 8 be,0,9 [dd]",
            "class,hint,level of a priority, or [",
        );
        wrong("block_rq_complete: 8,0 W () 1 + 8 [dd]", "[error]");
        wrong("block_plug: dev=4294967296", "a dev_t of 32 bits");
    }

    fn values(text: &str) -> Result<Values, Fault> {
        let (name, fields) = text.split_once(':').unwrap();
        read(action(name).unwrap(), fields.as_bytes())
    }

    fn event(text: &str) -> Result<Item, Fault> {
        let name = text.split_once(':').unwrap().0;
        let context = Context { time: Nanos(0), cpu: Cpu(0), sequence: 0, pid: 1 };
        Ok(Item::Event(values(text)?.event(action(name).unwrap(), context)))
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let expected = trace(&format!("0 0 {expected}"));
        assert_eq!(event(text).map(|item| vec![item]), Ok(expected));
    }

    #[track_caller]
    fn wrong(text: &str, expected: &'static str) {
        assert_eq!(event(text), Err(Fault::Wrong(expected)));
    }
}
