//! Tracepoints as text: what `perf script`, `trace`, `trace_pipe` and `trace-cmd report` print.
//!
//! The same tracepoint gives the same event as in a binary capture: `tracepoint` and `ata` say what
//! its values mean. `head` reads what stands before an event, `block` and `commands` its fields,
//! `marks` what the tracer says in between; `text` puts lines and events together, `streams` knows
//! the gaps of each CPU, `seen` what there is to say about the text as a whole.
//!
//! Invariant: records read = records used + those counted as foreign, malformed or truncated. A
//! record is an event, however many lines it takes, a report of a loss, or any other line that is
//! neither blank nor a comment.

mod block;
mod commands;
mod cursor;
mod head;
mod marks;
mod seen;
mod streams;
mod text;

use std::io::BufRead;

use iotrace_model::{AtaPort, DeviceId, Item, Ledger};

use self::head::{Form, Head};
use self::marks::Mark;
use self::text::{Text, Took};
use crate::lines::Lines;
use crate::{About, Error, Progress, Reader, Records};

/// Lines of one batch.
const BATCH: u32 = 1 << 14;
/// Lines in which the first event must stand.
const MOST_BEFORE: u64 = 100_000;

/// What the reader must be told.
#[derive(Clone, Debug, Default)]
pub struct TraceTextOptions {
    /// Whose text it is.
    pub kind: TextKind,
    /// Devices behind libata's ports, which its events name instead.
    pub devices: Vec<(AtaPort, DeviceId)>,
}

/// Whose text it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextKind {
    /// Of `perf script`: `comm pid [cpu] time: system:event: …`.
    PerfScript,
    /// Of ftrace or trace-cmd: `task-pid [cpu] flags time: event: …`.
    Ftrace,
    /// Each line says it itself.
    #[default]
    Either,
}

/// Reads a text of tracepoints in batches, in the order of time, CPU and place in the CPU's stream.
///
/// Times are relative to the first line that has one; a time that falls by more than a second
/// begins another capture. Memory is bounded: up to 65536 events wait for earlier ones.
#[derive(Debug)]
pub struct TraceTextReader<R> {
    lines: Lines<R>,
    text: Text,
    /// The first line of the next section, when there was a restart.
    held: Vec<u8>,
    has_ended: bool,
}

impl<R: BufRead> TraceTextReader<R> {
    /// Reads up to the first event. `path` is the file's name in errors.
    ///
    /// # Errors
    /// When the operating system cannot read, or no event stands in the first 100000 lines.
    pub fn open(reader: R, path: &str, options: TraceTextOptions) -> Result<Self, Error> {
        let mut lines = Lines::new(reader, path);
        let mut text = Text::new(options);
        // The first event waits in the window, so that nothing comes out yet.
        let mut out = Vec::new();
        while !text.has_begun() {
            let number = lines.number() + 1;
            let line = if number <= MOST_BEFORE { lines.next() } else { None };
            let Some(line) = line else {
                let (path, number) = (path.to_owned(), lines.number());
                let failure = lines.take_failure();
                return Err(failure.unwrap_or(Error::NoTraceText { path, lines: number }));
            };
            text.take(number, line, &mut out);
            text.note_cut(lines.is_cut());
        }
        Ok(Self { lines, text, held: Vec::new(), has_ended: false })
    }
}

impl<R: BufRead + Send> Reader for TraceTextReader<R> {
    fn next_batch(&mut self, out: &mut Vec<Item>) -> Result<Progress, Error> {
        if self.has_ended {
            return Ok(Progress::End);
        }
        let start = out.len();
        if !self.held.is_empty() {
            self.text.take(self.lines.number(), &self.held, out);
            self.held.clear();
        }
        for _ in 0..BATCH {
            let number = self.lines.number() + 1;
            let Some(line) = self.lines.next() else {
                self.has_ended = true;
                self.text.end(start, out);
                return self.lines.take_failure().map_or(Ok(Progress::End), Err);
            };
            if self.text.take(number, line, out) == Took::Restart {
                self.held.extend_from_slice(line);
                self.text.end_section(start, out);
                return Ok(Progress::Restart);
            }
            self.text.note_cut(self.lines.is_cut());
        }
        self.text.end_batch(start, out);
        Ok(Progress::More)
    }

    fn take_ledger(&mut self) -> Ledger {
        self.text.take_ledger()
    }

    fn records(&self) -> Records {
        self.text.records()
    }

    fn about(&self) -> About {
        self.text.about()
    }
}

/// Whether a line is one of `perf script`: an event of any kind, with its time.
pub fn looks_like_perf_script(line: &[u8]) -> bool {
    let is_named = |head: Head<'_>| head.pid.is_some() || head.event.contains(&b'_');
    has_form(line, Form::PerfScript).is_some_and(is_named)
}

/// Whether a line is one of `trace`, `trace_pipe` or `trace-cmd report`: an event of any kind with
/// its time, or what these say before the first one.
pub fn looks_like_ftrace(line: &[u8]) -> bool {
    let line = text::unquoted(line);
    has_form(line, Form::Ftrace).is_some()
        || matches!(Mark::read(line), Some(Mark::Lost { .. } | Mark::Overwritten(_)))
        || line.starts_with(b"# tracer: ")
        || line.starts_with(b"# entries-in-buffer/")
        || line.starts_with(b"cpus=") && Mark::read(line).is_some()
}

/// Whether a line is the header of biosnoop, whose rows are whole requests and not events:
/// `TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)`.
pub fn looks_like_biosnoop(line: &[u8]) -> bool {
    let mut words = text::unquoted(line).split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
    let is_first = words.next().is_some_and(|word| word.starts_with(b"TIME"));
    let wanted: [&[u8]; 4] = [b"COMM", b"PID", b"DISK", b"SECTOR"];
    is_first && wanted.iter().all(|wanted| words.clone().any(|word| word == *wanted))
}

fn has_form(line: &[u8], form: Form) -> Option<Head<'_>> {
    let head = Head::read(text::unquoted(line), TextKind::Either).ok()?;
    (head.form == form).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_whose_it_is() {
        check("  dd    6439 [001]  3399.871573:  block:block_bio_queue: 8,0 R 8 + 8 [dd]", 'p');
        check("dd 6439 82545.600573:          1         major-faults:  77 x", 'p');
        check("  3399.871573:  block:block_bio_queue: 8,0 R 8 + 8 [dd]", 'p');
        check("      xfs_io-907     [002] .....   185.608859: block_plug: [xfs_io]", 'f');
        check("> > <idle>-0 [002] d.h2. 185.608859: block_plug: [xfs_io]", 'f');
        check("# tracer: nop", 'f');
        check("# entries-in-buffer/entries-written: 0/0   #P:2", 'f');
        check("cpus=8", 'f');
        check("CPU:1 [LOST 5 EVENTS]", 'f');
        check("TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)", 'b');
        check("  8,0    1       42     0.004512000  1234  D  WS 2048 + 8 [kworker/1:1H]", '-');
        check("[   12.345678] sd 0:0:0:0: [sda] Attached SCSI disk", '-');
        check("it took 1.000000: not long", '-');
        check("TIME flies", '-');
        check("", '-');
    }

    #[track_caller]
    fn check(line: &str, kind: char) {
        let line = line.as_bytes();
        assert_eq!(looks_like_perf_script(line), kind == 'p', "perf script");
        assert_eq!(looks_like_ftrace(line), kind == 'f', "ftrace");
        assert_eq!(looks_like_biosnoop(line), kind == 'b', "biosnoop");
    }
}
