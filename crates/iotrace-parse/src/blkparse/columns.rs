//! The seven columns with which every line of an event begins.
//!
//! `major,minor cpu sequence seconds.nanoseconds pid action operation`: widths are minimums and no
//! column holds a blank. Mail and log tools put things in front, and a terminal a `^C`: the event
//! begins at the first place at which seven columns can be read.

use iotrace_model::{Action, Cpu, DeviceId, Nanos};

use super::cursor::{Cursor, Fault};
use super::letters;

/// Bytes of a line in which an event may begin.
const PREFIX: usize = 128;
/// What a negative time is printed as, less that time: 2^64 ns, its seconds cut to 32 bits.
const WRAP: i64 = 1_266_874_889_709_551_616;
/// How far back from there a time is taken for a negative one.
const MOST_NEGATIVE: i64 = 90_000_000_000;

/// The columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<'a> {
    pub(super) device: DeviceId,
    pub(super) cpu: Cpu,
    pub(super) sequence: u64,
    pub(super) time: Nanos,
    /// Whether the time was negative and printed as a large one.
    pub(super) is_wrapped: bool,
    pub(super) pid: u32,
    /// The column that blkparse 1.3 puts before the action of messages.
    pub(super) cgroup: Option<u64>,
    pub(super) action: Action,
    pub(super) letters: &'a [u8],
}

/// Finds the event of a line; also where its details begin.
#[inline]
pub(super) fn find(line: &[u8]) -> Result<(Columns<'_>, Cursor<'_>), Fault> {
    let mut cursor = Cursor::new(line);
    cursor.skip_blanks();
    match read(&mut cursor) {
        Ok(columns) => Ok((columns, cursor)),
        Err(fault) => find_behind(line, fault),
    }
}

/// Finds an event that does not begin its line; else the fault of the place that came furthest.
#[cold]
fn find_behind(line: &[u8], mut furthest: Fault) -> Result<(Columns<'_>, Cursor<'_>), Fault> {
    for place in 1..line.len().min(PREFIX) {
        let begins = line.get(place).is_some_and(u8::is_ascii_digit)
            && !line.get(place - 1).is_some_and(u8::is_ascii_digit);
        if !begins {
            continue;
        }
        let mut cursor = Cursor::new(line.get(place..).unwrap_or_default());
        match read(&mut cursor) {
            Ok(columns) => return Ok((columns, cursor)),
            Err(fault) if fault.columns > furthest.columns => furthest = fault,
            Err(_) => {}
        }
    }
    Err(furthest)
}

#[inline]
fn read<'a>(cursor: &mut Cursor<'a>) -> Result<Columns<'a>, Fault> {
    let fault = |cursor: &Cursor<'_>, columns, expected| Fault {
        expected,
        left: cursor.rest.len(),
        columns,
    };
    let device = device(cursor).filter(|_| cursor.is_at_blank());
    let device = device.ok_or_else(|| fault(cursor, 0, "a device, major,minor, in column 1"))?;
    cursor.skip_blanks();
    let cpu = cursor.number_u32().filter(|_| cursor.is_at_blank());
    let cpu = Cpu(cpu.ok_or_else(|| fault(cursor, 1, "a CPU in column 2"))?);
    cursor.skip_blanks();
    let sequence = cursor.number().filter(|_| cursor.is_at_blank());
    let sequence = sequence.ok_or_else(|| fault(cursor, 2, "a sequence number in column 3"))?;
    cursor.skip_blanks();
    let time = time(cursor).filter(|_| cursor.is_at_blank());
    let (time, is_wrapped) =
        time.ok_or_else(|| fault(cursor, 3, "a time, seconds.nanoseconds, in column 4"))?;
    cursor.skip_blanks();
    let pid = cursor.number_u32().filter(|_| cursor.is_at_blank());
    let pid = pid.ok_or_else(|| fault(cursor, 4, "a process in column 5"))?;
    cursor.skip_blanks();
    let mut before = *cursor;
    let mut word = cursor.word();
    let mut cgroup = None;
    if word.contains(&b',') {
        cgroup = cgroup_id(&mut Cursor::new(word));
        if cgroup.is_some() {
            cursor.skip_blanks();
            before = *cursor;
            word = cursor.word();
        }
    }
    let action = letters::action(word).ok_or_else(|| fault(&before, 5, "an action in column 6"))?;
    cursor.skip_blanks();
    let before = *cursor;
    let letters = cursor.word();
    if !letters::is_operation(letters) {
        return Err(fault(&before, 6, "the letters of an operation in column 7"));
    }
    Ok(Columns { device, cpu, sequence, time, is_wrapped, pid, cgroup, action, letters })
}

/// `major,minor`.
#[inline]
pub(super) fn device(cursor: &mut Cursor<'_>) -> Option<DeviceId> {
    let mut ahead = *cursor;
    let major = ahead.number_u32().filter(|major| *major < 1 << 12)?;
    if !ahead.take(b",") {
        return None;
    }
    let minor = ahead.number_u32().filter(|minor| *minor < 1 << 20)?;
    *cursor = ahead;
    Some(DeviceId { major, minor })
}

/// `low,high`, both hexadecimal.
pub(super) fn cgroup_id(cursor: &mut Cursor<'_>) -> Option<u64> {
    let mut ahead = *cursor;
    let low = ahead.hex()?;
    if !ahead.take(b",") {
        return None;
    }
    let high = ahead.hex()?;
    *cursor = ahead;
    Some(u64::from(high) << 32 | u64::from(low))
}

/// `seconds.nanoseconds`, nine digits behind the point.
#[inline]
fn time(cursor: &mut Cursor<'_>) -> Option<(Nanos, bool)> {
    let mut ahead = *cursor;
    let seconds = ahead.number()?;
    if !ahead.take(b".") {
        return None;
    }
    let digits = ahead.rest.len();
    let nanos = ahead.number()?;
    if digits - ahead.rest.len() != 9 {
        return None;
    }
    let time = unwrapped(seconds, nanos)?;
    *cursor = ahead;
    Some(time)
}

/// A time, and whether it was negative before it was printed.
#[inline]
pub(super) fn unwrapped(seconds: u64, nanos: u64) -> Option<(Nanos, bool)> {
    let time = i64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?;
    let time = time.checked_add(i64::try_from(nanos).ok()?)?;
    let is_wrapped = (WRAP - MOST_NEGATIVE..WRAP).contains(&time);
    Some((Nanos(if is_wrapped { time - WRAP } else { time }), is_wrapped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_overflow_their_widths() {
        let line = "259,1048575 130 4294967295 123456.789012345 4194303 UT FWFSM rest";
        let (columns, cursor) = find(line.as_bytes()).unwrap();
        assert_eq!(columns.device, DeviceId { major: 259, minor: 1_048_575 });
        assert_eq!((columns.cpu, columns.sequence), (Cpu(130), 4_294_967_295));
        assert_eq!(columns.time, Nanos(123_456_789_012_345));
        assert_eq!((columns.pid, columns.action), (4_194_303, Action::UnplugTimer));
        assert_eq!((columns.letters, cursor.rest), (b"FWFSM".as_slice(), b" rest".as_slice()));
    }

    #[test]
    fn what_stands_in_front_is_passed_over() {
        const EVENT: &str = "  8,0    1        2     0.000000003     4  Q   R 8 + 8 [x]";
        for prefix in
            ["", "\t", "> ", ">> | ", "^C", "[12:34:56] ", "Dec  1 04:46:46 host blkparse[7]: "]
        {
            let line = format!("{prefix}{EVENT}");
            let found = find(line.as_bytes()).map(|(columns, _)| columns.sequence);
            assert_eq!(found, Ok(2), "{line}");
        }
        let line = format!("{}{EVENT}", "-".repeat(PREFIX));
        assert!(find(line.as_bytes()).is_err());
    }

    #[test]
    fn a_time_before_the_first_event_is_negative() {
        assert_eq!(unwrapped(1_266_874_889, 709_450_585), Some((Nanos(-101_031), true)));
        assert_eq!(unwrapped(1_266_874_889, 709_551_616), Some((Nanos(WRAP), false)));
        assert_eq!(unwrapped(7, 5), Some((Nanos(7_000_000_005), false)));
        assert_eq!(unwrapped(9_999_999_999, 0), None);
    }

    #[test]
    fn a_message_may_have_a_column_of_its_cgroup() {
        let (columns, _) = find(b"8,0 0 0 0.000004000 701 1,a  m   N text").unwrap();
        assert_eq!((columns.cgroup, columns.action), (Some(0xa_0000_0001), Action::Message));
    }

    #[test]
    fn a_fault_names_its_column() {
        check("", 0, 0, "a device, major,minor, in column 1");
        check("8,0 1 x", 2, 1, "a sequence number in column 3");
        check("8,0 1 2 0.5 4 Q R", 3, 9, "a time, seconds.nanoseconds, in column 4");
        check("8,0 1 2 0.000000005 4 foo R", 5, 5, "an action in column 6");
        check("8,0 1 2 0.000000005 4 Q", 6, 0, "the letters of an operation in column 7");
        check("4096,0 1 2 0.000000005 4 Q R", 0, 28, "a device, major,minor, in column 1");
    }

    #[track_caller]
    fn check(line: &str, columns: u8, left: usize, expected: &'static str) {
        assert_eq!(find(line.as_bytes()).map(|_| ()), Err(Fault { expected, left, columns }));
    }
}
