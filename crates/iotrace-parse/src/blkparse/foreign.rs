//! Lines that hold no event but belong to blkparse's output, or to how people show it.

/// What a line without an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// Nothing but blanks and quoting.
    Blank,
    /// Of the sums behind the events: no event of the same capture follows.
    Summary,
    /// A heading, a message of the program, a sign that lines were left out.
    Heading,
    /// Nothing that is known.
    Unknown,
}

/// How lines of the sums begin.
const SUMMARY: [&[u8]; 23] = [
    b"Total (",
    b"Reads Queued:",
    b"Writes Queued:",
    b"Read Dispatches:",
    b"Write Dispatches:",
    b"Reads Requeued:",
    b"Writes Requeued:",
    b"Reads Completed:",
    b"Writes Completed:",
    b"Read Merges:",
    b"Write Merges:",
    b"Read depth:",
    b"Write depth:",
    b"PC Read",
    b"PC Write",
    b"IO unplugs:",
    b"Timer unplugs:",
    b"Allocation wait:",
    b"Dispatch wait:",
    b"Completion wait:",
    b"Throughput (",
    b"Events (",
    b"Skips:",
];

/// How other lines of the programs, and headings, begin.
const HEADINGS: [&[u8]; 9] = [
    b"#",
    b"...",
    b"===",
    b"---",
    b"Input file ",
    b"Trace started at ",
    b"Device: ",
    b"Total:",
    b"confused about ",
];

/// Says what a line is that is no event.
pub(super) fn classify(line: &[u8]) -> Other {
    let line = unquoted(line).trim_ascii_end();
    if line.is_empty() {
        return Other::Blank;
    }
    if SUMMARY.iter().any(|start| line.starts_with(start)) || is_cpu_or_process(line) {
        return Other::Summary;
    }
    let is_remark = matches!(line, [b'(', .., b')'] | [b'[', .., b']'] | [b'<', .., b'>']);
    let is_rule = line.iter().all(u8::is_ascii_punctuation);
    if is_remark || is_rule || HEADINGS.iter().any(|start| line.starts_with(start)) {
        return Other::Heading;
    }
    if is_size(line) || is_cpu_of_blktrace(line) { Other::Heading } else { Other::Unknown }
}

/// A line without what quotes it in a mail, and without blanks before its text.
pub(super) fn unquoted(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'>' | b'|'));
    line.get(start.unwrap_or(line.len())..).unwrap_or_default()
}

/// `CPU3 (sda):`, or the process of a block of sums: `dd (1234)`, `dd (1234, ...)`.
fn is_cpu_or_process(line: &[u8]) -> bool {
    if let Some(rest) = line.strip_prefix(b"CPU")
        && rest.first().is_some_and(u8::is_ascii_digit)
    {
        return rest.ends_with(b"):");
    }
    let Some(inner) = line.strip_suffix(b")") else { return false };
    let inner = inner.strip_suffix(b", ...").unwrap_or(inner);
    let digits = inner.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = inner.get(..inner.len() - digits).unwrap_or_default();
    digits > 0 && digits < 11 && before.len() > 2 && before.len() < 20 && before.ends_with(b" (")
}

/// A number, or the end of a line of sums that was broken in two: `0KiB`.
fn is_size(line: &[u8]) -> bool {
    let unit = line.iter().position(|byte| !(byte.is_ascii_digit() || b",.".contains(byte)));
    let (number, unit) = line.split_at_checked(unit.unwrap_or(line.len())).unwrap_or_default();
    !number.is_empty() && matches!(unit, b"" | b"KiB" | b"MiB" | b"GiB" | b"PiB" | b"K" | b"M")
}

/// What blktrace itself prints at its end: `CPU  0:  1234 events,  58 KiB data`.
fn is_cpu_of_blktrace(line: &[u8]) -> bool {
    line.starts_with(b"CPU") && line.ends_with(b" KiB data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_headings_are_known() {
        for line in [
            "CPU43 (252,0):",
            "Total (sda):",
            " Reads Queued:           0,        0KiB\t Writes Queued:           5,       20KiB",
            "Throughput (R/W): 0KiB/s / 46KiB/s",
            "Events (nvme0n1): 1,364 entries",
            "Skips: 0 forward (0 -   0.0%)",
            "writerdt (15706)",
            "fio (15706, ...)",
            "> Read depth:             1        \t Write depth:             0",
        ] {
            assert_eq!(classify(line.as_bytes()), Other::Summary, "{line}");
        }
        for line in [
            "#Maj,Mn CPU   SeqNo     Seconds     PID  Evt Typ Sector   +Len Description",
            "####     kyber     ####",
            "...",
            "... a word",
            "(alot of the same)",
            "[...]",
            "-----------",
            "Input file nvme0n1.blktrace.10 added",
            "Trace started at Tue Nov 14 22:13:20 2023",
            "0KiB",
            "=== sda ===",
            "  CPU  0:                    1234 events,       58 KiB data",
        ] {
            assert_eq!(classify(line.as_bytes()), Other::Heading, "{line}");
        }
        assert_eq!(classify(b" \t > "), Other::Blank);
        for line in ["Will produce a following output", "foo (bar)", "(", "8,0 1 2"] {
            let expected = if line == "(" { Other::Heading } else { Other::Unknown };
            assert_eq!(classify(line.as_bytes()), expected, "{line}");
        }
    }
}
