//! What was read and not used, and what was noticed.

use iotrace_model::{Cause, Ledger, Nanos};

use super::cursor::Fault;
use super::foreign::{self, Other};
use crate::Records;

/// Bytes of a word that a note quotes.
const QUOTED: usize = 24;
/// Messages that are kept, and bytes of each: twice as many as the kernel takes.
const MOST_MESSAGES: usize = 1 << 10;
const MESSAGE: usize = 256;

/// Counts and findings of one text.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) ledger: Ledger,
    pub(super) records: Records,
    pub(super) messages: Vec<(Nanos, String)>,
    /// The first line that cannot be read, as a note.
    first: Option<String>,
    unreadable: u64,
    pub(super) rejoined: u64,
    /// Lines longer than what is looked at.
    pub(super) long_lines: u64,
    pub(super) wrapped_times: u64,
    pub(super) has_deltas: bool,
    /// Sums stand between the last event and here.
    pub(super) is_behind_sums: bool,
}

impl Tally {
    /// Counts a line without an event. `is_heading` when such a line may be one of the user's own.
    pub(super) fn count(&mut self, line: &[u8], number: u64, fault: Fault, is_heading: bool) {
        match foreign::classify(line) {
            Other::Blank => return,
            Other::Summary => self.is_behind_sums = true,
            Other::Heading => {}
            Other::Unknown if is_heading => {}
            Other::Unknown => return self.count_unreadable(line, number, fault),
        }
        self.records.read += 1;
        self.ledger.add(Cause::Foreign, None, None, 1);
    }

    /// Counts a line that should be an event.
    pub(super) fn count_unreadable(&mut self, line: &[u8], number: u64, fault: Fault) {
        self.records.read += 1;
        self.unreadable += 1;
        self.ledger.add(Cause::Malformed, None, None, 1);
        self.first.get_or_insert_with(|| describe(line, number, fault));
    }

    /// Keeps a message.
    pub(super) fn hear(&mut self, time: Nanos, text: &[u8]) {
        if self.messages.len() < MOST_MESSAGES {
            let text = text.get(..MESSAGE).unwrap_or(text);
            self.messages.push((time, String::from_utf8_lossy(text).into_owned()));
        }
    }

    /// Counts the last line, which ends too early.
    pub(super) fn count_cut(&mut self, line: &[u8], number: u64, fault: Fault) {
        self.records.read += 1;
        self.ledger.add(Cause::Truncated, None, None, 1);
        self.first.get_or_insert_with(|| describe(line, number, fault));
    }

    /// Findings, one sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(first) = &self.first {
            let count = self.unreadable;
            let such = if count > 1 { format!("; {count} such lines") } else { String::new() };
            notes.push(format!("{first}{such}"));
        }
        if self.rejoined > 0 {
            notes.push(format!("{} events were broken over two lines and rejoined", self.rejoined));
        }
        if self.long_lines > 0 {
            notes.push(format!("{} lines were too long and were cut", self.long_lines));
        }
        if self.wrapped_times > 0 {
            notes.push(format!(
                "{} times lie before the first event and were printed as 1266874889 s",
                self.wrapped_times
            ));
        }
        if self.has_deltas {
            notes.push("the times in brackets are blkparse's own (-t) and are not used".to_owned());
        }
        notes
    }
}

fn describe(line: &[u8], number: u64, fault: Fault) -> String {
    let line = line.trim_ascii_end();
    let rest = line.get(line.len().saturating_sub(fault.left)..).unwrap_or_default();
    let word = rest.trim_ascii_start().split(|byte| matches!(byte, b' ' | b'\t')).next();
    let word = word.unwrap_or_default();
    let expected = fault.expected;
    if word.is_empty() {
        return format!("line {number} cannot be read: expected {expected}, found its end");
    }
    let word = String::from_utf8_lossy(word.get(..QUOTED).unwrap_or(word)).into_owned();
    format!("line {number} cannot be read: expected {expected}, found {word:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_cannot_be_read_is_described() {
        let mut tally = Tally::default();
        let fault = Fault { expected: "an action in column 6", left: 5, columns: 5 };
        tally.count(b"8,0 1 2 0.000000005 4 foo R", 17, fault, false);
        tally.count(b"prose of somebody", 18, fault, false);
        tally.count(b"CPU0 (sda):", 19, fault, false);
        tally.count(b"", 20, fault, false);
        let expected = "line 17 cannot be read: expected an action in column 6, found \"foo\"; \
                        2 such lines";
        assert_eq!(tally.notes(), [expected]);
        assert_eq!((tally.records, tally.is_behind_sums), (Records { read: 3, used: 0 }, true));
        assert_eq!(tally.ledger.count(Cause::Foreign), 1);
        assert_eq!(tally.ledger.count(Cause::Malformed), 2);
    }

    #[test]
    fn a_line_that_ends_too_early_is_described() {
        let fault = Fault { expected: "a sector", left: 0, columns: 7 };
        let mut tally = Tally::default();
        tally.count_cut(b"8,0 1 2 0.000000005 4 Q R", 3, fault);
        assert_eq!(tally.notes(), ["line 3 cannot be read: expected a sector, found its end"]);
    }
}
