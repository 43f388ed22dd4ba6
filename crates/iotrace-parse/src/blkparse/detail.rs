//! What follows the seven columns, by action.
//!
//! | action | details |
//! |--------|---------|
//! | Q G I D M F B S | `sector + sectors [comm]`, without data `[comm]`, passthrough `bytes (cdb) [comm]` |
//! | C R | `sector + sectors [error]`, without data `sector [error]`, passthrough `(cdb) [error]` |
//! | P U UT | `[comm]`, and of unplugs a count |
//! | A | `sector + sectors <- (major,minor) sector` |
//! | X | `sector / sector [comm]` |
//! | m | text |
//!
//! Patched versions print the priority (`BEST 4`) before the sector, and `-t` a time in brackets
//! before the last column. What comes after the details is a remark of whoever shows the text.

use iotrace_model::{Action, Comm, Event, Flags, Op, Remap, SECTOR_BYTES, Sector};

use super::columns::{self, Columns};
use super::cursor::{Cursor, Fault};
use super::letters::{self, Kind};
use crate::split::rest_of_split;

/// Bytes of a name that blkparse prints, at most.
const NAME: usize = 16;

/// An event, and what was noticed while reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) event: Event,
    /// A time of `blkparse -t` stands in it.
    pub(super) has_delta: bool,
    /// Its time was negative and printed as a large one.
    pub(super) is_wrapped: bool,
}

/// Reads a line that blkparse printed without `-f`.
#[inline]
pub(super) fn read(line: &[u8]) -> Result<Line, Fault> {
    let (columns, mut cursor) = columns::find(line)?;
    let mut event = Event {
        time: columns.time,
        cpu: columns.cpu,
        sequence: columns.sequence,
        device: Some(columns.device),
        action: columns.action,
        op: Op::Other,
        flags: Flags::default(),
        sector: None,
        length_bytes: 0,
        pid: columns.pid,
        comm: Comm::default(),
        error: None,
        remap: None,
        cgroup: columns.cgroup,
        io_priority: None,
        tag: None,
        protocol: None,
    };
    let mut has_delta = false;
    cursor.skip_blanks();
    match columns.action {
        Action::Message => {}
        Action::Plug | Action::Unplug | Action::UnplugTimer => event.comm = comm(&mut cursor)?,
        Action::Remap => remap(&mut cursor, &mut event, &columns)?,
        Action::Split => split(&mut cursor, &mut event, &columns)?,
        Action::Complete | Action::Requeue => {
            has_delta = done(&mut cursor, &mut event, &columns)?;
        }
        Action::Queue
        | Action::Get
        | Action::Insert
        | Action::Issue
        | Action::BackMerge
        | Action::FrontMerge
        | Action::RequestMerge
        | Action::RequestRemap
        | Action::BioComplete
        | Action::Bounce
        | Action::Sleep
        | Action::Abort
        | Action::CommandIssue
        | Action::CommandComplete
        | Action::Unknown(_) => has_delta = bio_or_request(&mut cursor, &mut event, &columns)?,
    }
    Ok(Line { event, has_delta, is_wrapped: columns.is_wrapped })
}

/// The text of a message; nothing for any other line.
pub(super) fn message(line: &[u8]) -> &[u8] {
    match columns::find(line) {
        Ok((columns, cursor)) if columns.action == Action::Message => cursor.rest.trim_ascii(),
        Ok(_) | Err(_) => &[],
    }
}

/// Q G I D M F B S; whether a time of `-t` stands there.
#[inline]
fn bio_or_request(
    cursor: &mut Cursor<'_>,
    event: &mut Event,
    columns: &Columns<'_>,
) -> Result<bool, Fault> {
    event.io_priority = priority(cursor)?;
    let mut kind = Kind::Ordinary;
    let mut has_delta = false;
    if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        let number = number(cursor, "a sector")?;
        cursor.skip_blanks();
        if cursor.take(b"+") {
            event.sector = Some(Sector(number));
            event.length_bytes = sectors(cursor)?;
            has_delta = skip_brackets(cursor)?;
        } else if matches!(cursor.peek(), Some(b'[' | b'(')) {
            // Passthrough counts bytes, and what stands in brackets is its command.
            kind = Kind::Passthrough;
            event.length_bytes = number;
            skip_brackets(cursor)?;
        } else {
            return Err(cursor.fault("+ and a length"));
        }
    } else {
        has_delta = skip_brackets(cursor)?;
    }
    set_operation(event, columns.letters, kind);
    event.comm = comm(cursor)?;
    Ok(has_delta)
}

/// C R; whether a time of `-t` stands there.
#[inline]
fn done(cursor: &mut Cursor<'_>, event: &mut Event, columns: &Columns<'_>) -> Result<bool, Fault> {
    event.io_priority = priority(cursor)?;
    let mut kind = Kind::Ordinary;
    let mut has_delta = false;
    if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        event.sector = Some(Sector(number(cursor, "a sector")?));
        cursor.skip_blanks();
        if cursor.take(b"+") {
            event.length_bytes = sectors(cursor)?;
        }
        has_delta = skip_brackets(cursor)?;
    } else {
        skip_brackets(cursor)?;
        if columns.letters.first() != Some(&b'F') {
            kind = Kind::Passthrough;
        }
    }
    set_operation(event, columns.letters, kind);
    let error = error(cursor)?;
    event.error = (columns.action == Action::Complete).then_some(error);
    Ok(has_delta)
}

fn remap(cursor: &mut Cursor<'_>, event: &mut Event, columns: &Columns<'_>) -> Result<(), Fault> {
    event.io_priority = priority(cursor)?;
    event.sector = Some(Sector(number(cursor, "a sector")?));
    cursor.skip_blanks();
    if !cursor.take(b"+") {
        return Err(cursor.fault("+ and a length"));
    }
    event.length_bytes = sectors(cursor)?;
    // A page of the web may have left its own sign there.
    if !cursor.take(b"<-") && !cursor.take(b"&lt;-") {
        return Err(cursor.fault("<- and the device above"));
    }
    cursor.skip_blanks();
    let mut ahead = *cursor;
    let device = if ahead.take(b"(") { columns::device(&mut ahead) } else { None };
    let device = device.filter(|_| ahead.take(b")"));
    let device = device.ok_or_else(|| {
        // A line that was cut within the brackets goes on in the next.
        let is_cut = cursor.peek() == Some(b'(') && !cursor.rest.contains(&b')');
        Fault { left: if is_cut { 0 } else { cursor.rest.len() }, ..cursor.fault("(major,minor)") }
    })?;
    *cursor = ahead;
    cursor.skip_blanks();
    let sector = Sector(number(cursor, "a sector of the device above")?);
    event.remap = Some(Remap { device, sector });
    set_operation(event, columns.letters, Kind::Ordinary);
    Ok(())
}

fn split(cursor: &mut Cursor<'_>, event: &mut Event, columns: &Columns<'_>) -> Result<(), Fault> {
    event.io_priority = priority(cursor)?;
    let start = number(cursor, "a sector")?;
    cursor.skip_blanks();
    if !cursor.take(b"/") {
        return Err(cursor.fault("/ and a sector"));
    }
    cursor.skip_blanks();
    let rest = rest_of_split(start, number(cursor, "the sector of the rest")?);
    event.sector = Some(Sector(start));
    event.length_bytes = rest.saturating_sub(start).saturating_mul(SECTOR_BYTES);
    event.remap = Some(Remap { device: columns.device, sector: Sector(rest) });
    // A split carries data, whatever its first piece is.
    (event.op, event.flags) = letters::operation(columns.letters, Kind::Ordinary);
    cursor.skip_blanks();
    event.comm = comm(cursor)?;
    Ok(())
}

/// Sets the operation, and takes the sector back where it is none: a flush has no place, nor has a
/// preflush without data.
#[inline]
pub(super) fn set_operation(event: &mut Event, letters: &[u8], kind: Kind) {
    (event.op, event.flags) = letters::operation(letters, kind);
    let is_flush = event.op == Op::Flush
        || event.length_bytes == 0 && event.flags.has(Flags::PREFLUSH)
        || kind == Kind::Passthrough;
    if is_flush || event.sector == Some(Sector(u64::MAX)) {
        event.sector = None;
    }
}

/// A number that ends where a column ends.
#[inline]
fn number(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<u64, Fault> {
    let before = *cursor;
    match cursor.number() {
        Some(number) if matches!(cursor.peek(), None | Some(b' ' | b'\t' | b'[' | b'(')) => {
            Ok(number)
        }
        _ => Err(before.fault(expected)),
    }
}

/// Behind the plus: a length in sectors, as bytes.
#[inline]
fn sectors(cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    cursor.skip_blanks();
    let before = *cursor;
    let sectors = number(cursor, "a length in sectors")?;
    let bytes = sectors.checked_mul(SECTOR_BYTES);
    cursor.skip_blanks();
    bytes.ok_or_else(|| before.fault("a length in sectors"))
}

/// Passes over a time or a command in brackets; whether there was one.
#[inline]
fn skip_brackets(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    if cursor.peek() != Some(b'(') {
        return Ok(false);
    }
    let Some(end) = memchr::memchr(b')', cursor.rest) else {
        return Err(Fault { left: 0, ..cursor.fault("a closing bracket )") });
    };
    cursor.rest = cursor.rest.get(end + 1..).unwrap_or_default();
    cursor.skip_blanks();
    Ok(true)
}

/// The priority that patched versions print, as the kernel's word.
#[inline]
fn priority(cursor: &mut Cursor<'_>) -> Result<Option<u16>, Fault> {
    if !cursor.peek().is_some_and(|byte| byte.is_ascii_uppercase()) {
        return Ok(None);
    }
    let before = *cursor;
    let class = match cursor.word() {
        b"NONE" => 0,
        b"REAL" => 1,
        b"BEST" => 2,
        b"IDLE" => 3,
        _ => return Err(before.fault("a sector")),
    };
    cursor.skip_blanks();
    let before = *cursor;
    let level = number(cursor, "the level of a priority")?;
    let level = u16::try_from(level).ok().filter(|level| *level < 1 << 13);
    let level = level.ok_or_else(|| before.fault("the level of a priority"))?;
    cursor.skip_blanks();
    Ok(Some(class << 13 | level))
}

/// `[comm]`. A name may hold blanks and brackets: it ends at the last bracket within its greatest
/// length, unless a remark follows an earlier one.
#[inline]
fn comm(cursor: &mut Cursor<'_>) -> Result<Comm, Fault> {
    const EXPECTED: &str = "a name in brackets, [comm]";
    let before = *cursor;
    if !cursor.take(b"[") {
        return Err(before.fault(EXPECTED));
    }
    let mut end = None;
    for (place, byte) in cursor.rest.iter().enumerate().take(NAME) {
        if *byte == b']' {
            end = Some(place);
            let mut after = Cursor { rest: cursor.rest.get(place + 1..).unwrap_or_default() };
            after.skip_blanks();
            // Behind the name of an unplug stands a count.
            after.take_while(|byte| byte.is_ascii_digit());
            let after = after.rest.trim_ascii_start();
            let is_remark = [b"<".as_slice(), b"...", b"#", b"//", b"--"]
                .iter()
                .any(|mark| after.starts_with(mark));
            if after.is_empty() || is_remark {
                break;
            }
        }
    }
    let end = end.or_else(|| memchr::memchr(b']', cursor.rest));
    let end = end.ok_or(Fault { left: 0, ..before.fault(EXPECTED) })?;
    let name = cursor.rest.get(..end).unwrap_or_default();
    cursor.rest = cursor.rest.get(end + 1..).unwrap_or_default();
    Ok(if name == b"(null)" { Comm::default() } else { Comm::new(name) })
}

/// `[error]`: a negative errno, printed as 16 bits without sign.
#[inline]
fn error(cursor: &mut Cursor<'_>) -> Result<i32, Fault> {
    const EXPECTED: &str = "an error in brackets, [0]";
    let before = *cursor;
    let is_open = cursor.take(b"[");
    let is_negative = cursor.take(b"-");
    let number = cursor.number();
    match number.map(u16::try_from) {
        Some(Ok(error)) if is_open && cursor.take(b"]") => {
            Ok(signed(if is_negative { error.wrapping_neg() } else { error }))
        }
        _ => {
            let is_cut = is_open && cursor.rest.is_empty();
            let left = if is_cut { 0 } else { before.rest.len() };
            Err(Fault { left, ..before.fault(EXPECTED) })
        }
    }
}

/// A negative errno. Kernels before 4.13 may count errors up; ours are negative.
pub(super) fn signed(error: u16) -> i32 {
    -i32::from(error.cast_signed()).abs()
}

#[cfg(test)]
mod tests {
    use iotrace_model::DeviceId;

    use super::*;

    #[test]
    fn bios_and_requests_have_a_place_a_length_and_a_name() {
        let event = event("Q  RS 1000 + 8 [fio]");
        assert_eq!(place(&event), (Some(1000), 4096, "fio"));
        assert_eq!((event.op, event.flags, event.error), (Op::Read, Flags::SYNC, None));
        assert_eq!(place(&self::event("I   W 18446744073709551615 + 8 [x]")).0, None);
    }

    #[test]
    fn without_data_there_is_no_place() {
        check("Q FWS [jbd2/sda1-8]", None, 0, "jbd2/sda1-8", Op::Write);
        check("D  FN [kworker/0:1H]", None, 0, "kworker/0:1H", Op::Flush);
        check("C  FN 0 [0]", None, 0, "", Op::Flush);
        check("C FWS 77 [0]", None, 0, "", Op::Write);
        check("C  WS 0 [0]", Some(0), 0, "", Op::Write);
        check("C  NS 4656 [0]", Some(4656), 0, "", Op::Read);
        check("Q   N [x]", None, 0, "x", Op::Read);
    }

    #[test]
    fn passthrough_counts_bytes_and_has_no_place() {
        check("D   R 96 (12 00 00 00 60 00 ..) [dd]", None, 96, "dd", Op::Other);
        check("D   R 96 [dd]", None, 96, "dd", Op::Other);
        check("D   N 0 [kworker/u40:2]", None, 0, "kworker/u40:2", Op::Other);
        check("C   R (12 00 00 00 60 00 ..) [0]", None, 0, "", Op::Other);
        check("C   N [65531]", None, 0, "", Op::Other);
        assert_eq!(event("C   N [65531]").error, Some(-5));
    }

    #[test]
    fn a_message_is_what_follows_its_columns() {
        assert_eq!(message(line("m   N bfq slice end").as_bytes()), b"bfq slice end");
        assert_eq!(message(line("Q   N [x]").as_bytes()), b"");
    }

    #[test]
    fn errors_are_negative() {
        assert_eq!(event("C  RS 4656 + 8 [0]").error, Some(0));
        assert_eq!(event("C  RS 4656 + 8 [65475]").error, Some(-61));
        assert_eq!(event("C  RS 4656 + 8 [5]").error, Some(-5));
        assert_eq!(event("C  RS 4656 + 8 [-5]").error, Some(-5));
        assert_eq!(event("R  RS 4656 + 8 [0]").error, None);
        check_fault("C  RS 4656 + 8 [70000]", "an error in brackets, [0]", 7);
    }

    #[test]
    fn plugs_have_a_name_alone() {
        check("P   N [aio]", None, 0, "aio", Op::Other);
        check("UT  N [a b] 9 [c] 3", None, 0, "a b] 9 [c", Op::Other);
        check("U   R [cat] 2", None, 0, "cat", Op::Other);
        check("U   N [aio] 1  <-- one] request", None, 0, "aio", Op::Other);
    }

    #[test]
    fn a_remap_tells_where_it_came_from() {
        let event = event("A  WS 1100 + 8 <- (253,0) 100");
        let above = Remap { device: DeviceId { major: 253, minor: 0 }, sector: Sector(100) };
        assert_eq!((event.remap, place(&event)), (Some(above), (Some(1100), 4096, "")));
        assert_eq!(self::event("A FWS 0 + 0 <- (253,0) 0").sector, None);
        assert_eq!(self::event("A  WS 8 + 8 &lt;- (253,0) 100").remap, Some(above));
    }

    #[test]
    fn a_split_is_as_long_as_its_first_piece() {
        let split = |text: &str| {
            let event = event(text);
            (event.length_bytes, event.remap.map(|rest| rest.sector.0))
        };
        assert_eq!(split("X  WS 255 / 510 [fio]"), (255 * 512, Some(510)));
        assert_eq!(split("X   R 1099511627776 / 4 [wide]"), (2048, Some((1 << 40) + 4)));
        assert_eq!(split("X   R 8589934584 / 8 [wide]"), (16 * 512, Some((2 << 32) + 8)));
        assert_eq!(split("X  WS 1000 / 1000 [dd]"), (0, Some(1000)));
        assert_eq!(split("X  DS 4 / 0 [blkdiscard]"), (0, Some(0)));
    }

    #[test]
    fn a_priority_may_stand_before_the_sector() {
        let event = event("C WZS REAL 4 16 + 8 [0]");
        assert_eq!((event.io_priority, event.sector), (Some(1 << 13 | 4), Some(Sector(16))));
        assert_eq!(self::event("Q WS IDLE 7 0 + 8 [x]").io_priority, Some(3 << 13 | 7));
        check_fault("Q WS BEST x 0 + 8 [x]", "the level of a priority", 11);
    }

    #[test]
    fn times_of_blkparse_are_passed_over() {
        let has_delta = |text: &str| read(line(text).as_bytes()).map(|line| line.has_delta);
        assert_eq!(has_delta("C  WS 2048 + 256 (   69234) [0]"), Ok(true));
        assert_eq!(has_delta("D  FN (   69234) [x]"), Ok(true));
        assert_eq!(has_delta("C  FN 0 (   69234) [0]"), Ok(true));
        assert_eq!(has_delta("D   R 96 (12 00 ..) [x]"), Ok(false));
        check("D  WS 2048 + 256 (12172318) [x]", Some(2048), 131_072, "x", Op::Write);
    }

    #[test]
    fn names_may_hold_blanks_and_brackets_and_remarks_may_follow() {
        check("G   R 1000 + 8 [a b] 9 [c]", Some(1000), 4096, "a b] 9 [c", Op::Read);
        check("D   R 1000 + 8 [(null)]", Some(1000), 4096, "", Op::Read);
        check("D   R 1000 + 8 [dd]  <-- D [x]", Some(1000), 4096, "dd", Op::Read);
        check("D   R 1000 + 8 [dd] ... not [x]", Some(1000), 4096, "dd", Op::Read);
        check(
            "D   R 1000 + 8 [a name far too long] x",
            Some(1000),
            4096,
            "a name far too ",
            Op::Read,
        );
        check("C   R 1000 + 8 [0]  ... I/O error", Some(1000), 4096, "", Op::Read);
    }

    #[test]
    fn a_line_that_ends_too_early_is_unfinished() {
        for text in [
            "",
            "Q",
            "Q R 8",
            "Q R 8 +",
            "Q R 8 + 8",
            "Q R 8 + 8 [fi",
            "Q R",
            "C R 8",
            "C R 8 + 8",
            "C R 8 + 8 [",
            "C R 8 + 8 [0",
            "C R 8 + 8 (  1",
            "A R 8 + 8",
            "A R 8 + 8 <-",
            "A R 8 + 8 <- (8,",
            "A R 8 + 8 <- (8,1)",
            "X R 8 /",
            "X R 8 / 16",
            "P N",
        ] {
            let fault = read(line(text).as_bytes()).unwrap_err();
            assert!(fault.is_unfinished(), "{text}: {fault:?}");
        }
    }

    #[test]
    fn a_fault_says_what_was_expected() {
        check_fault("Q R x", "a name in brackets, [comm]", 1);
        check_fault("Q R NEVER 8 + 8 [x]", "a sector", 15);
        check_fault("Q R 8 - 8 [x]", "+ and a length", 7);
        check_fault("Q R 8 + x [x]", "a length in sectors", 5);
        check_fault("Q R 8 + 36028797018963968 [x]", "a length in sectors", 21);
        check_fault("A R 8 + 8 -> (8,1) 1", "<- and the device above", 10);
        check_fault("A R 8 + 8 <- 8,1 1", "(major,minor)", 5);
        check_fault("X R 8 + 8 [x]", "/ and a sector", 7);
        check_fault("Q R 8 + 8 x", "a name in brackets, [comm]", 1);
    }

    #[track_caller]
    fn check(text: &str, sector: Option<u64>, bytes: u64, comm: &str, op: Op) {
        let event = event(text);
        assert_eq!((place(&event), event.op), ((sector, bytes, comm), op));
    }

    #[track_caller]
    fn check_fault(text: &str, expected: &'static str, left: usize) {
        assert_eq!(read(line(text).as_bytes()), Err(Fault { expected, left, columns: 7 }));
    }

    fn place(event: &Event) -> (Option<u64>, u64, &str) {
        let comm = std::str::from_utf8(event.comm.as_bytes()).unwrap();
        (event.sector.map(|sector| sector.0), event.length_bytes, comm)
    }

    #[track_caller]
    fn event(text: &str) -> Event {
        read(line(text).as_bytes()).unwrap().event
    }

    fn line(text: &str) -> String {
        format!("  8,0    1        2     0.000000003     4 {text}")
    }
}
