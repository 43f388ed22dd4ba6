//! One line after another to events, with everything else counted.
//!
//! A mailer breaks long lines at blanks, so an event that ends too early waits for the lines behind
//! it that are no event themselves. Whatever else is no event either belongs to one above, such as
//! the frames of a call chain, or is counted as malformed.

use iotrace_model::{Cause, Cpu, Entry, Event, Item, Ledger, Nanos};

use super::cursor::{Cursor, Fault, trim_end, trim_start};
use super::head::{Head, MOST_CPUS, NoHead};
use super::marks::Mark;
use super::seen::Seen;
use super::streams::Streams;
use super::{TraceTextOptions, block, commands};
use crate::ata::Moment;
use crate::tracepoint::{Context, action};
use crate::window::Window;
use crate::{About, Records};

/// A time that falls by more begins another capture.
const MOST_BACK: i64 = 1_000_000_000;
/// Lines over which one event may be spread.
const MOST_PARTS: u32 = 4;

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Took {
    Line,
    /// The line begins another section and was not used.
    Restart,
}

/// A text under way.
#[derive(Debug)]
pub(super) struct Text {
    options: TraceTextOptions,
    window: Window,
    streams: Streams,
    /// Of this section: its first and its latest time, on the text's clock.
    first: Option<i64>,
    latest: i64,
    tie: Tie,
    /// An event that ended too early, the line it began in and how many it took so far.
    broken: Vec<u8>,
    broken_line: u64,
    broken_parts: u32,
    above: Above,
    /// Number of the line taken last.
    line: u64,
    counts: Records,
    foreign: u64,
    ledger: Ledger,
    seen: Seen,
}

/// Times in microseconds are equal where those of the events were not. The text has the right order
/// and would lose it, because equal times are ordered by CPU: there a nanosecond is added.
#[derive(Clone, Copy, Debug, Default)]
struct Tie {
    /// Time and CPU of the line before, as printed.
    time: i64,
    cpu: u32,
    /// Nanoseconds that were added to it.
    shift: i64,
}

impl Tie {
    /// Nanoseconds to add to the time of the next line.
    fn shift(&mut self, head: &Head<'_>, cpu: u32) -> i64 {
        if head.is_fine || head.time != self.time {
            *self = Self { time: head.time, cpu, shift: 0 };
        } else {
            let is_turned = cpu < self.cpu && self.shift < 999;
            (self.cpu, self.shift) = (cpu, self.shift + i64::from(is_turned));
        }
        self.shift
    }
}

/// What the line above was, on whose account a line without a time may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Nothing,
    Event,
    Foreign,
    Malformed,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    Used,
    Foreign,
    /// It ends too early.
    Short,
    /// What was expected instead.
    Wrong(&'static str),
}

impl Text {
    pub(super) fn new(options: TraceTextOptions) -> Self {
        Self {
            options,
            window: Window::default(),
            streams: Streams::default(),
            first: None,
            latest: 0,
            tie: Tie::default(),
            broken: Vec::new(),
            broken_line: 0,
            broken_parts: 0,
            above: Above::Nothing,
            line: 0,
            counts: Records::default(),
            foreign: 0,
            ledger: Ledger::default(),
            seen: Seen::default(),
        }
    }

    /// Whether any line had a time.
    pub(super) fn has_begun(&self) -> bool {
        self.seen.origin.is_some()
    }

    /// Takes the line of that number; what is certain to be in order goes to `out`.
    pub(super) fn take(&mut self, number: u64, line: &[u8], out: &mut Vec<Item>) -> Took {
        self.line = number;
        self.read(line, out)
    }

    /// Says whether the line taken last was longer than what was taken.
    pub(super) fn note_cut(&mut self, is_cut: bool) {
        self.seen.cut += u64::from(is_cut);
    }

    /// Puts losses in place between the items from `start` on.
    pub(super) fn end_batch(&mut self, start: usize, out: &mut Vec<Item>) {
        self.streams.place_gaps(start, out);
    }

    /// Lets everything out.
    pub(super) fn end_section(&mut self, start: usize, out: &mut Vec<Item>) {
        self.window.finish(out);
        let latest = self.since_start(self.latest);
        self.streams.finish(latest, start, &mut self.ledger, out);
        self.first = None;
        self.above = Above::Nothing;
    }

    /// Ends the text.
    pub(super) fn end(&mut self, start: usize, out: &mut Vec<Item>) {
        if !self.broken.is_empty() {
            self.broken.clear();
            self.counts.read += 1;
            self.ledger.add(Cause::Truncated, None, None, 1);
        }
        self.end_section(start, out);
    }

    pub(super) fn take_ledger(&mut self) -> Ledger {
        let count = std::mem::take(&mut self.foreign);
        if count > 0 {
            let entry = Entry { count, occasions: count, ..Entry::default() };
            self.ledger.add_entry(Cause::Foreign, None, entry);
        }
        std::mem::take(&mut self.ledger)
    }

    pub(super) fn records(&self) -> Records {
        self.counts
    }

    pub(super) fn about(&self) -> About {
        self.seen.about()
    }

    fn read(&mut self, line: &[u8], out: &mut Vec<Item>) -> Took {
        let line = trim_end(unquoted(line));
        if line.is_empty() {
            self.give_up();
            self.above = Above::Nothing;
            return Took::Line;
        }
        match Head::read(line, self.options.kind) {
            Ok(head) => {
                self.give_up();
                if self.is_restart(&head) {
                    return Took::Restart;
                }
                let record = self.event(&head, out);
                if record == Record::Short {
                    self.broken.extend_from_slice(line);
                    (self.broken_line, self.broken_parts) = (self.line, 1);
                } else {
                    self.settle(record, self.line);
                }
            }
            Err(why) => self.without_head(line, why, out),
        }
        Took::Line
    }

    fn is_restart(&self, head: &Head<'_>) -> bool {
        let fallen = self.latest.saturating_sub(head.time);
        self.first.is_some() && fallen > MOST_BACK && !is_of_perf(head)
    }

    /// Makes an event of a line, or says why not.
    fn event(&mut self, head: &Head<'_>, out: &mut Vec<Item>) -> Record {
        if is_of_perf(head) {
            return Record::Foreign;
        }
        if self.first.is_none() {
            self.first = Some(head.time);
            self.latest = head.time;
            self.seen.begin(head);
        }
        self.latest = self.latest.max(head.time);
        let cpu = head.cpu.unwrap_or(0);
        let shift = self.tie.shift(head, cpu);
        let time = self.since_start(head.time.saturating_add(shift));
        if head.event == LOST {
            return self.lost(cpu, time, head.fields);
        }
        self.streams.saw(cpu, time, &mut self.ledger);
        let decoded = match head.event {
            [] => return Record::Short,
            [b'b', b'l', b'o', b'c', b'k', b'_', ..] => self.block(head, cpu, time),
            [b'a', b't', b'a', b'_', b'q', b'c', b'_', ..] => self.command(head, cpu, time),
            _ => return Record::Foreign,
        };
        match decoded {
            Ok(Some(event)) => {
                self.seen.used(head);
                if !self.window.push(event, out) {
                    self.ledger.add(Cause::TimeBackwards, Some(event.cpu), Some(time), 1);
                }
                Record::Used
            }
            Ok(None) => Record::Foreign,
            Err(Fault::Short) => Record::Short,
            Err(Fault::Wrong(expected)) => Record::Wrong(expected),
        }
    }

    /// `None` for an event that is none of the model.
    fn block(&mut self, head: &Head<'_>, cpu: u32, time: Nanos) -> Result<Option<Event>, Fault> {
        let Some(action) = std::str::from_utf8(head.event).ok().and_then(action) else {
            return Ok(None);
        };
        let values = block::read(action, head.fields)?;
        let context = self.context(head, cpu, time);
        Ok(Some(values.event(action, context)))
    }

    fn command(&mut self, head: &Head<'_>, cpu: u32, time: Nanos) -> Result<Option<Event>, Fault> {
        let Some(moment) = std::str::from_utf8(head.event).ok().and_then(Moment::from_name) else {
            return Ok(None);
        };
        let values = commands::read(moment, head.fields)?;
        let context = self.context(head, cpu, time);
        Ok(Some(values.event(moment, context, &self.options.devices)))
    }

    fn context(&mut self, head: &Head<'_>, cpu: u32, time: Nanos) -> Context {
        let sequence = self.streams.number(cpu);
        Context { time, cpu: Cpu(cpu), sequence, pid: head.pid.unwrap_or(0) }
    }

    /// `PERF_RECORD_LOST lost 15`.
    fn lost(&mut self, cpu: u32, time: Nanos, fields: &[u8]) -> Record {
        let mut fields = Cursor(fields);
        let count = match fields.word() {
            Ok(b"lost") => fields.number("a number of events"),
            Ok(_) => Err(Fault::Wrong("lost and a number")),
            Err(fault) => Err(fault),
        };
        match count {
            Ok(count) => {
                self.streams.lose(cpu, count);
                self.streams.saw(cpu, time, &mut self.ledger);
                Record::Used
            }
            Err(Fault::Short) => Record::Short,
            Err(Fault::Wrong(expected)) => Record::Wrong(expected),
        }
    }

    /// A line that is no start of an event.
    fn without_head(&mut self, line: &[u8], why: NoHead, out: &mut Vec<Item>) {
        if let Some(mark) = Mark::read(trim_start(line)) {
            self.give_up();
            self.mark(mark);
        } else if !self.broken.is_empty() {
            self.go_on(line, out);
        } else if self.is_below(line) {
            self.counts.read += 1;
            self.foreign += 1;
        } else {
            let expected = match why {
                NoHead::NoTime => "an event with its time, or the rest of one",
                NoHead::Wrong(expected) => expected,
            };
            let above = self.above;
            self.settle(Record::Wrong(expected), self.line);
            self.above = above;
        }
    }

    fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Lost { cpu, count } => {
                let cpu = u32::try_from(cpu).ok().filter(|cpu| *cpu < MOST_CPUS);
                if let Some(cpu) = cpu {
                    self.streams.lose(cpu, count);
                }
                let record = cpu.map_or(Record::Wrong("a CPU below 65536"), |_| Record::Used);
                self.settle(record, self.line);
                self.above = Above::Nothing;
            }
            Mark::Overwritten(count) => {
                self.ledger.add(Cause::KernelLost, None, None, count);
                self.seen.overwritten += count;
            }
            Mark::Clock(word) => self.seen.name_clock(word),
            Mark::Header => {}
        }
    }

    /// Joins a line to the event that ended too early.
    fn go_on(&mut self, line: &[u8], out: &mut Vec<Item>) {
        let mut joined = std::mem::take(&mut self.broken);
        joined.push(b' ');
        joined.extend_from_slice(trim_start(line));
        self.broken_parts += 1;
        let record = match Head::read(&joined, self.options.kind) {
            Ok(head) => self.event(&head, out),
            Err(_) => Record::Short,
        };
        if record == Record::Short && self.broken_parts < MOST_PARTS {
            self.broken = joined;
            return;
        }
        joined.clear();
        self.broken = joined;
        self.settle(record, self.broken_line);
    }

    /// Gives up waiting for the rest of an event.
    fn give_up(&mut self) {
        if !self.broken.is_empty() {
            self.broken.clear();
            self.settle(Record::Short, self.broken_line);
        }
    }

    /// Whether a line without an event belongs to the one above: a frame of a call chain, or
    /// anything below an event that is not ours.
    fn is_below(&self, line: &[u8]) -> bool {
        let text = trim_start(line);
        match self.above {
            Above::Foreign => true,
            Above::Event => text.len() < line.len() && is_frame(text),
            Above::Nothing | Above::Malformed => false,
        }
    }

    fn settle(&mut self, record: Record, line: u64) {
        self.counts.read += 1;
        self.above = match record {
            Record::Used => {
                self.counts.used += 1;
                Above::Event
            }
            Record::Foreign => {
                self.foreign += 1;
                Above::Foreign
            }
            Record::Short => self.malformed(line, "the rest of the event"),
            Record::Wrong(expected) => self.malformed(line, expected),
        };
    }

    fn malformed(&mut self, line: u64, expected: &'static str) -> Above {
        self.ledger.add(Cause::Malformed, None, None, 1);
        self.seen.malformed(line, expected);
        Above::Malformed
    }

    fn since_start(&self, time: i64) -> Nanos {
        Nanos(time) - Nanos(self.first.unwrap_or(time))
    }
}

/// perf's own report of a loss.
const LOST: &[u8] = b"PERF_RECORD_LOST";

/// Whether a line is one of perf's own records, whose time may be 0.
fn is_of_perf(head: &Head<'_>) -> bool {
    head.event.starts_with(b"PERF_RECORD_") && head.event != LOST
}

/// A frame of a call chain: an address first, or a place in parentheses last.
fn is_frame(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    digits >= 4 || text.starts_with(b"=>") || text.starts_with(b"<") || text.ends_with(b")")
}

/// A line without the marks with which a mail quotes.
pub(super) fn unquoted(mut line: &[u8]) -> &[u8] {
    while let [b'>', b' ', rest @ ..] | [b'>', rest @ ..] = line {
        line = rest;
    }
    line
}
