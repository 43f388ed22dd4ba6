//! Lines of a text that are no events: what the tracer says of itself and of its losses.

use super::cursor::{Cursor, number, trim_start};

/// What a line without an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark<'a> {
    /// `CPU:1 [LOST 123 EVENTS]`; 0 when it does not say how many.
    Lost { cpu: u64, count: u64 },
    /// `# entries-in-buffer/entries-written: 2/5`: so many were overwritten.
    Overwritten(u64),
    /// The clock's name.
    Clock(&'a [u8]),
    /// Something else that belongs to such texts and holds no event.
    Header,
}

impl<'a> Mark<'a> {
    /// `None` for any other line.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        match line {
            [b'#', rest @ ..] => Some(comment(rest)),
            [b'C', b'P', b'U', b':', rest @ ..] => lost(rest),
            [b'C', b'P', b'U', b' ', rest @ ..] => {
                rest.ends_with(b" is empty").then_some(Mark::Header)
            }
            [b'c', b'p', b'u', b's', b'=', rest @ ..] => number(rest).map(|_| Mark::Header),
            [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', b'=', ..] => Some(Mark::Header),
            _ => None,
        }
    }
}

fn comment(text: &[u8]) -> Mark<'_> {
    const ENTRIES: &[u8] = b"entries-in-buffer/entries-written:";
    let text = trim_start(text);
    if let Some(rest) = text.strip_prefix(ENTRIES) {
        return overwritten(rest).map_or(Mark::Header, Mark::Overwritten);
    }
    // `# clockid: monotonic (1)` of perf script --header; `# clock: mono`.
    for name in [b"clockid:".as_slice(), b"clock:", b"trace_clock:"] {
        if let Some(rest) = text.strip_prefix(name)
            && let Ok(word) = Cursor(rest).word()
        {
            return Mark::Clock(word);
        }
    }
    Mark::Header
}

fn overwritten(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor(text);
    let kept = cursor.number("entries in the buffer").ok()?;
    cursor.byte(b'/', "/").ok()?;
    let written = cursor.number("entries written").ok()?;
    written.checked_sub(kept).filter(|lost| *lost > 0)
}

/// `1 [LOST 123 EVENTS]`, `1 [LOST EVENTS]`, of trace-cmd `1 [123 EVENTS DROPPED]`.
fn lost(text: &[u8]) -> Option<Mark<'_>> {
    let mut cursor = Cursor(text);
    let cpu = cursor.number("a CPU").ok()?;
    cursor.byte(b'[', "[").ok()?;
    let inside = cursor.0.get(..cursor.0.iter().position(|byte| *byte == b']')?)?;
    let is_loss = |word: &[u8]| matches!(word, b"LOST" | b"DROPPED");
    let mut words = inside.split(|byte| *byte == b' ');
    if !words.clone().any(is_loss) {
        return None;
    }
    let count = words.find_map(number).unwrap_or(0);
    Some(Mark::Lost { cpu, count })
}

/// The kernel's or perf's name of a clock in full; others stay as they are.
pub(super) fn clock_name(word: &[u8]) -> String {
    match word {
        b"mono" | b"monotonic" => "CLOCK_MONOTONIC".to_owned(),
        b"mono_raw" | b"monotonic_raw" => "CLOCK_MONOTONIC_RAW".to_owned(),
        b"boot" | b"boottime" => "CLOCK_BOOTTIME".to_owned(),
        b"realtime" => "CLOCK_REALTIME".to_owned(),
        b"tai" => "CLOCK_TAI".to_owned(),
        other => String::from_utf8_lossy(other).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_by_either_tool() {
        check("CPU:1 [LOST 123 EVENTS]", Some(Mark::Lost { cpu: 1, count: 123 }));
        check("CPU:12 [LOST EVENTS]", Some(Mark::Lost { cpu: 12, count: 0 }));
        check("CPU:0 [7 EVENTS DROPPED]", Some(Mark::Lost { cpu: 0, count: 7 }));
        check("CPU:0 [EVENTS DROPPED]", Some(Mark::Lost { cpu: 0, count: 0 }));
        check("CPU:0 [anything]", None);
        check("CPU:x [LOST 1 EVENTS]", None);
    }

    #[test]
    fn headers_are_passed_over() {
        check("# tracer: nop", Some(Mark::Header));
        check("##### CPU 2 buffer started ####", Some(Mark::Header));
        check("# entries-in-buffer/entries-written: 2/2   #P:48", Some(Mark::Header));
        check("# entries-in-buffer/entries-written: 2/5   #P:48", Some(Mark::Overwritten(3)));
        check("# clockid: monotonic (1)", Some(Mark::Clock(b"monotonic")));
        check("CPU 1 is empty", Some(Mark::Header));
        check("cpus=8", Some(Mark::Header));
        check("version = 7", Some(Mark::Header));
        check("cpus=many", None);
        check("finish", None);
    }

    #[track_caller]
    fn check(line: &str, expected: Option<Mark<'_>>) {
        assert_eq!(Mark::read(line.as_bytes()), expected);
    }
}
