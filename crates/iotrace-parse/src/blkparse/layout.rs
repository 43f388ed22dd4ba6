//! Lines in a format of the user's own, as `blkparse -f` prints them.
//!
//! The format is declared when the text is opened. Widths do not matter, and blanks of the format or
//! of the line match any number of them; all other literal text must be there. What follows the last
//! field is passed over. Without an action (`%a`) every line is an arrival.

use iotrace_model::{Action, Comm, Cpu, DeviceId, Event, Flags, Op, Remap, SECTOR_BYTES, Sector};

use super::columns;
use super::cursor::{Cursor, Fault};
use super::detail::{self, Line};
use super::letters::{self, Kind};
use crate::bytes::at;
use crate::split::rest_of_split;

/// Parts of a format, at most; each line is read in as many steps.
const MOST_PARTS: usize = 128;
/// Bytes of a payload that are looked at: those of a remap.
const PAYLOAD: usize = 16;

/// A format, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Bytes that must be there, none of them a blank.
    Text(Vec<u8>),
    Field(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Action,
    Bytes,
    Cgroup,
    Comm,
    Cpu,
    Device,
    Error,
    Letters,
    Major,
    Minor,
    Nanos,
    Payload,
    Pid,
    Sector,
    Sectors,
    Seconds,
    Sequence,
    /// Microseconds that blkparse computed, or a number of requests: not used.
    Number,
    /// Local time, `HH:MM:SS.usec`: not used.
    Wall,
}

/// What the fields of a line say.
#[derive(Clone, Copy, Debug, Default)]
struct Values<'a> {
    action: Option<Action>,
    bytes: Option<u64>,
    cgroup: Option<u64>,
    comm: &'a [u8],
    cpu: u32,
    error: Option<u16>,
    letters: &'a [u8],
    major: Option<u32>,
    minor: u32,
    nanos: u64,
    payload: [u8; PAYLOAD],
    payload_size: usize,
    pid: u32,
    sector: Option<u64>,
    sectors: Option<u64>,
    seconds: u64,
    sequence: Option<u64>,
}

impl Layout {
    /// Takes a format apart; else says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = trim_line_end(text).bytes().peekable();
        while let Some(byte) = rest.next() {
            let escaped = if byte == b'\\' { rest.next_if(|b| b"nt\\".contains(b)) } else { None };
            if byte == b'\n' || escaped == Some(b'n') {
                return Err("a line must end at its end and nowhere before");
            }
            if byte != b'%' {
                let is_blank = matches!(byte, b' ' | b'\t') || escaped == Some(b't');
                if is_blank {
                    flush(&mut literal, &mut parts);
                } else {
                    literal.push(byte);
                }
                continue;
            }
            while rest.next_if(|byte| *byte == b'-' || byte.is_ascii_digit()).is_some() {}
            let code = rest.next().ok_or("it ends within a field")?;
            if code == b'%' {
                literal.push(code);
                continue;
            }
            flush(&mut literal, &mut parts);
            parts.push(Part::Field(
                field(code).ok_or("it has a field that blkparse does not know")?,
            ));
        }
        flush(&mut literal, &mut parts);
        let layout = Self { parts };
        if !layout.has(Field::Seconds) {
            return Err("it has no time; %T.%t is needed");
        }
        if !layout.has(Field::Action) && !layout.has(Field::Letters) {
            return Err("it has neither an action (%a) nor an operation (%d)");
        }
        if layout.parts.len() > MOST_PARTS {
            return Err("it has too many fields");
        }
        Ok(layout)
    }

    /// Whether lines bear the number and the CPU of their event.
    pub(super) fn is_counted(&self) -> bool {
        self.has(Field::Sequence) && self.has(Field::Cpu)
    }

    /// Whether lines name a device.
    pub(super) fn has_device(&self) -> bool {
        self.has(Field::Device) || self.has(Field::Major)
    }

    /// Whether lines tell whether an event is a completion and, if so, its error.
    pub(super) fn has_error(&self) -> bool {
        self.has(Field::Error) || !self.has(Field::Action)
    }

    fn has(&self, field: Field) -> bool {
        self.parts.contains(&Part::Field(field))
    }

    /// Reads a line; `place` stands for the sequence number where lines have none.
    pub(super) fn read(&self, line: &[u8], place: u64) -> Result<Line, Fault> {
        let mut cursor = Cursor::new(line);
        let mut values = Values::default();
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            cursor.skip_blanks();
            match part {
                Part::Text(text) => {
                    if !cursor.take(text) {
                        return Err(fault(cursor, "the text of the declared format"));
                    }
                }
                Part::Field(field) => {
                    let end = match parts.peek() {
                        Some(Part::Text(text)) => End::Text(text),
                        Some(Part::Field(_)) => End::Blank,
                        None => End::Line,
                    };
                    let expected = values.read(*field, &mut cursor, end);
                    expected.map_err(|expected| fault(cursor, expected))?;
                }
            }
        }
        values.line(place, self.has_device()).map_err(|expected| fault(cursor, expected))
    }
}

/// A line in a declared format is never taken together with the next.
fn fault(cursor: Cursor<'_>, expected: &'static str) -> Fault {
    Fault { expected, left: cursor.rest.len(), columns: 0 }
}

/// What ends a field of any text.
#[derive(Clone, Copy, Debug)]
enum End<'a> {
    Text(&'a [u8]),
    Blank,
    Line,
}

impl<'a> Values<'a> {
    /// Reads one field; else says what was expected.
    fn read(
        &mut self,
        field: Field,
        cursor: &mut Cursor<'a>,
        end: End<'_>,
    ) -> Result<(), &'static str> {
        match field {
            Field::Action => {
                let before = *cursor;
                self.action = letters::action(cursor.take_while(|byte| byte.is_ascii_alphabetic()));
                if self.action.is_none() {
                    *cursor = before;
                }
                self.action.map(|_| ()).ok_or("an action (%a)")?;
            }
            Field::Letters => {
                let before = *cursor;
                self.letters = cursor.take_while(|byte| byte.is_ascii_uppercase());
                if !letters::is_operation(self.letters) {
                    *cursor = before;
                    return Err("the letters of an operation (%d)");
                }
            }
            Field::Bytes => self.bytes = Some(cursor.number().ok_or("a length in bytes (%N)")?),
            Field::Sectors => self.sectors = Some(cursor.number().ok_or("sectors (%n)")?),
            Field::Sector => self.sector = Some(cursor.number().ok_or("a sector (%S)")?),
            Field::Sequence => {
                self.sequence = Some(cursor.number().ok_or("a sequence number (%s)")?);
            }
            Field::Seconds => self.seconds = cursor.number().ok_or("seconds (%T)")?,
            Field::Nanos => self.nanos = nanos(cursor).ok_or("nanoseconds (%t)")?,
            Field::Cpu => self.cpu = cursor.number_u32().ok_or("a CPU (%c)")?,
            Field::Pid => self.pid = cursor.number_u32().ok_or("a process (%p)")?,
            Field::Error => {
                let mut ahead = *cursor;
                let error = ahead.number().and_then(|error| u16::try_from(error).ok());
                self.error = Some(error.ok_or("an error (%e)")?);
                *cursor = ahead;
            }
            Field::Device => {
                let device = columns::device(cursor).ok_or("a device (%D)")?;
                (self.major, self.minor) = (Some(device.major), device.minor);
            }
            Field::Major => {
                self.major = Some(part_of_device(cursor, 12).ok_or("a device (%M)")?);
            }
            Field::Minor => self.minor = part_of_device(cursor, 20).ok_or("a device (%m)")?,
            Field::Cgroup => {
                self.cgroup = Some(columns::cgroup_id(cursor).ok_or("a cgroup (%g)")?);
                self.cgroup = self.cgroup.filter(|id| *id != 0);
            }
            Field::Comm => self.comm = name(cursor, end),
            Field::Payload => self.read_payload(cursor),
            Field::Number => _ = cursor.number().ok_or("a number (%u, %U)")?,
            Field::Wall => {
                let wall = cursor.take_while(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
                if wall.is_empty() {
                    return Err("a time (%z)");
                }
            }
        }
        Ok(())
    }

    /// Pairs of hexadecimal digits, each with or without a blank before the next.
    fn read_payload(&mut self, cursor: &mut Cursor<'a>) {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        while let [high, low, rest @ ..] = cursor.rest
            && let Some((high, low)) = digit(*high).zip(digit(*low))
        {
            if let Some(place) = self.payload.get_mut(self.payload_size) {
                *place = high << 4 | low;
            }
            self.payload_size += 1;
            cursor.rest = rest;
            cursor.skip_blanks();
        }
    }

    /// The event; else what cannot be.
    fn line(&self, place: u64, has_device: bool) -> Result<Line, &'static str> {
        let (time, is_wrapped) =
            columns::unwrapped(self.seconds, self.nanos).ok_or("a time in range (%T)")?;
        let action = self.action.unwrap_or(Action::Queue);
        let length_bytes = match (self.bytes, self.sectors) {
            (Some(bytes), _) => bytes,
            (None, Some(sectors)) => {
                sectors.checked_mul(SECTOR_BYTES).ok_or("sectors in range (%n)")?
            }
            (None, None) => 0,
        };
        // Without a device, lines stand for one without a number.
        let major = if has_device { self.major } else { Some(0) };
        let device = major.map(|major| DeviceId { major, minor: self.minor });
        let mut event = Event {
            time,
            cpu: Cpu(self.cpu),
            sequence: self.sequence.unwrap_or(place),
            device,
            action,
            op: Op::Other,
            flags: Flags::default(),
            sector: self.sector.map(Sector),
            length_bytes,
            pid: self.pid,
            comm: if self.comm == b"(null)" { Comm::default() } else { Comm::new(self.comm) },
            error: None,
            remap: None,
            cgroup: self.cgroup,
            io_priority: None,
            tag: None,
            protocol: None,
        };
        if matches!(action, Action::Plug | Action::Unplug | Action::UnplugTimer | Action::Message) {
            event.sector = None;
            event.length_bytes = 0;
        } else {
            detail::set_operation(&mut event, self.letters, self.kind(length_bytes));
        }
        if action == Action::Complete {
            event.error = Some(detail::signed(self.error.unwrap_or(0)));
        }
        self.add_payload(&mut event);
        Ok(Line { event, has_delta: false, is_wrapped })
    }

    /// Passthrough has bytes and no sectors, or nothing at all.
    fn kind(&self, length_bytes: u64) -> Kind {
        let is_empty = length_bytes == 0 && self.letters.first() == Some(&b'N');
        let is_passthrough = match self.sectors {
            Some(0) => length_bytes > 0 || is_empty && self.sector.unwrap_or(0) == 0,
            Some(_) | None => is_empty && self.sector.unwrap_or(0) == 0,
        };
        if is_passthrough { Kind::Passthrough } else { Kind::Ordinary }
    }

    /// What the payload of remaps and splits tells.
    fn add_payload(&self, event: &mut Event) {
        if event.action == Action::Remap && self.payload_size >= 16 {
            let above = at(&self.payload, 0).map(u32::from_be_bytes);
            let sector = at(&self.payload, 8).map(u64::from_be_bytes);
            event.remap = above.zip(sector).map(|(above, sector)| Remap {
                device: DeviceId::from_kernel(above),
                sector: Sector(sector),
            });
        }
        if event.action == Action::Split
            && self.payload_size >= 8
            && let Some(start) = self.sector
            && let Some(rest) = at(&self.payload, 0).map(u64::from_be_bytes)
        {
            let rest = rest_of_split(start, rest);
            event.length_bytes = rest.saturating_sub(start).saturating_mul(SECTOR_BYTES);
            event.remap = event.device.map(|device| Remap { device, sector: Sector(rest) });
        }
    }
}

fn field(code: u8) -> Option<Field> {
    Some(match code {
        b'a' => Field::Action,
        b'c' => Field::Cpu,
        b'C' => Field::Comm,
        b'd' => Field::Letters,
        b'D' => Field::Device,
        b'e' => Field::Error,
        b'g' => Field::Cgroup,
        b'M' => Field::Major,
        b'm' => Field::Minor,
        b'n' => Field::Sectors,
        b'N' => Field::Bytes,
        b'p' => Field::Pid,
        b'P' => Field::Payload,
        b's' => Field::Sequence,
        b'S' => Field::Sector,
        b't' => Field::Nanos,
        b'T' => Field::Seconds,
        b'u' | b'U' => Field::Number,
        b'z' => Field::Wall,
        _ => return None,
    })
}

/// A format without the ends of its line.
fn trim_line_end(mut text: &str) -> &str {
    while let Some(rest) = text.strip_suffix("\\n").or_else(|| text.strip_suffix('\n')) {
        text = rest;
    }
    text
}

fn flush(literal: &mut Vec<u8>, parts: &mut Vec<Part>) {
    if !literal.is_empty() {
        parts.push(Part::Text(std::mem::take(literal)));
    }
}

/// Nine digits, or fewer as a fraction of a second.
fn nanos(cursor: &mut Cursor<'_>) -> Option<u64> {
    let mut ahead = *cursor;
    let before = ahead.rest.len();
    let number = ahead.number()?;
    let digits = u32::try_from(before - ahead.rest.len()).ok()?;
    let scale = 10_u64.pow(9_u32.checked_sub(digits)?);
    *cursor = ahead;
    number.checked_mul(scale)
}

/// A number of so many bits.
fn part_of_device(cursor: &mut Cursor<'_>, bits: u32) -> Option<u32> {
    let mut ahead = *cursor;
    let number = ahead.number_u32().filter(|number| *number < 1 << bits)?;
    *cursor = ahead;
    Some(number)
}

/// A name, up to what follows it in the format.
fn name<'a>(cursor: &mut Cursor<'a>, end: End<'_>) -> &'a [u8] {
    let size = match end {
        End::Text(text) => memchr::memmem::find(cursor.rest, text),
        End::Blank => cursor.rest.iter().position(|byte| matches!(byte, b' ' | b'\t')),
        End::Line => None,
    };
    let size = size.unwrap_or(cursor.rest.len());
    let (name, rest) = cursor.rest.split_at_checked(size).unwrap_or_default();
    cursor.rest = rest;
    name.trim_ascii()
}

#[cfg(test)]
mod tests {
    use iotrace_model::Nanos;

    use super::*;

    #[test]
    fn a_format_with_separators_is_read() {
        let layout = "%D|%c|%s|%T.%t|%p|%a|%d|%S|%n|%N|%C|%e\\n";
        let event = read(layout, "  8,0  |1|5|0.000109000|57|C|RS|1000|8|4096|a b [x]|65475");
        assert_eq!(event.device, Some(DeviceId { major: 8, minor: 0 }));
        assert_eq!((event.cpu, event.sequence, event.time), (Cpu(1), 5, Nanos(109_000)));
        assert_eq!((event.pid, event.comm), (57, Comm::new(b"a b [x]")));
        assert_eq!(
            (event.action, event.op, event.flags),
            (Action::Complete, Op::Read, Flags::SYNC)
        );
        assert_eq!((event.sector, event.length_bytes), (Some(Sector(1000)), 4096));
        assert_eq!(event.error, Some(-61));
        assert!(Layout::parse(layout).unwrap().is_counted());
    }

    #[test]
    fn blanks_of_any_number_match() {
        let event = read("%5T.%9t, %p, %C, %a, %S, %n\n", "    1.000000002, 7, dd, Q, 8,16");
        assert_eq!(
            (event.time, event.pid, event.comm),
            (Nanos(1_000_000_002), 7, Comm::new(b"dd"))
        );
        assert_eq!((event.sector, event.length_bytes), (Some(Sector(8)), 8192));
        let event = read("%T.%t\\t%a %C %S", "0.5 \t  D  kworker/0:1H  77");
        assert_eq!((event.time, event.comm), (Nanos(500_000_000), Comm::new(b"kworker/0:1H")));
        assert_eq!((event.sector, event.sequence), (Some(Sector(77)), 9));
    }

    #[test]
    fn without_an_action_a_line_is_an_arrival_and_more_text_may_follow() {
        let event =
            read("%T.%t ; %S ; %n ; %d ;", "   0.449518165 ;  37766917 ;   14 ; W ; 0.0 ; 0.0");
        assert_eq!((event.action, event.op), (Action::Queue, Op::Write));
        assert_eq!(event.device, Some(DeviceId { major: 0, minor: 0 }));
        assert_eq!((event.sector, event.length_bytes), (Some(Sector(37_766_917)), 7168));
    }

    #[test]
    fn every_field_is_known() {
        let layout = "%M:%m %g %u %U %z %P; %T %a %d %S %N";
        let line = "8:16 1,0 12 3 10:11:12.000001 00 80 00 01 00 80 00 00 00 00 00 00 00 00 00 18 ; \
                    7 A W 2072 4096";
        let event = read(layout, line);
        assert_eq!(event.device, Some(DeviceId { major: 8, minor: 16 }));
        assert_eq!((event.cgroup, event.time), (Some(1), Nanos(7_000_000_000)));
        let above = Remap { device: DeviceId { major: 8, minor: 1 }, sector: Sector(24) };
        assert_eq!((event.remap, event.length_bytes), (Some(above), 4096));
        let event = read("%T %a %d %S %N %P", "7 X W 8 4096 0000000000000018");
        assert_eq!((event.remap.map(|r| r.sector), event.length_bytes), (Some(Sector(24)), 8192));
    }

    #[test]
    fn passthrough_and_flushes_have_no_place() {
        let layout = "%T.%t %a %d %S %n %N";
        for (line, op) in [
            ("0.0 D R 0 0 96", Op::Other),
            ("0.0 C N 0 0 0", Op::Other),
            ("0.0 D FN 0 0 0", Op::Flush),
            ("0.0 Q FWS 0 0 0", Op::Write),
            ("0.0 P N 0 0 0", Op::Other),
        ] {
            let event = read(layout, line);
            assert_eq!((event.op, event.sector), (op, None), "{line}");
        }
        assert_eq!(read(layout, "0.0 C NS 4656 0 0").sector, Some(Sector(4656)));
    }

    #[test]
    fn a_format_that_cannot_serve_is_refused() {
        check_refused("%a %S", "it has no time; %T.%t is needed");
        check_refused("%T.%t %S", "it has neither an action (%a) nor an operation (%d)");
        check_refused("%T %a %q", "it has a field that blkparse does not know");
        check_refused("%T %a %", "it ends within a field");
        check_refused("%T %a\\n%S\\n", "a line must end at its end and nowhere before");
        check_refused(&"%T %a;".repeat(99), "it has too many fields");
    }

    #[test]
    fn a_fault_names_the_field() {
        let layout = Layout::parse("%T.%t %a %S").unwrap();
        let expected = |line: &str| layout.read(line.as_bytes(), 0).unwrap_err().expected;
        assert_eq!(expected("x"), "seconds (%T)");
        assert_eq!(expected("1,5 Q 8"), "the text of the declared format");
        assert_eq!(expected("1.5 w 8"), "an action (%a)");
        assert_eq!(expected("1.5 Q"), "a sector (%S)");
        assert_eq!(expected("99999999999.5 Q 1"), "a time in range (%T)");
    }

    #[track_caller]
    fn check_refused(layout: &str, expected: &str) {
        assert_eq!(Layout::parse(layout).unwrap_err(), expected);
    }

    #[track_caller]
    fn read(layout: &str, line: &str) -> Event {
        Layout::parse(layout).unwrap().read(line.as_bytes(), 9).unwrap().event
    }
}
