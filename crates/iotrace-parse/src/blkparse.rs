//! The text of blkparse, live or from files, as people keep it: whole, cut, quoted in mails, with
//! remarks, several captures in one file.
//!
//! A line is an event if its seven columns and the details of its action can be read; it gives the
//! event that the binary trace gives, as far as text tells. Sums and headings are counted as
//! foreign, all else as malformed, and the first such line is described. Nothing is fatal.
//!
//! Text does not tell which missing sequence numbers were lost by the kernel and which lines were
//! left out by whoever kept it; they are counted as `TextGap`, and no loss comes in the stream.

mod columns;
mod cursor;
mod detail;
mod foreign;
mod layout;
mod letters;
mod remaps;
mod streams;
mod tally;

use std::io::BufRead;

use iotrace_model::{Action, Cause, Event, Item, Ledger};

use self::cursor::Fault;
use self::detail::Line;
use self::layout::Layout;
use self::remaps::Remaps;
use self::streams::{Step, Streams};
use self::tally::Tally;
use crate::lines::Lines;
use crate::window::Window;
use crate::{About, Error, Progress, Reader, Records};

/// Lines of one batch.
const BATCH: usize = 1 << 14;
/// Lines over which an event may be broken.
const MOST_PIECES: u64 = 3;
/// CPUs that are told apart in counts and followed by their sequence numbers.
const MOST_CPUS: u32 = 1 << 12;

/// Whether a line is an event as blkparse prints it without `-f`, or the first part of one.
pub fn looks_like_blkparse(line: &[u8]) -> bool {
    columns::find(line).is_ok()
}

/// Reads a text of blkparse. Memory is bounded by the events that wait to be put in order.
#[derive(Debug)]
pub struct BlkparseReader<R> {
    lines: Lines<R>,
    form: Form,
    /// The beginning of an event whose line ends too early.
    broken: Broken,
    /// The event that begins the next capture.
    next: Option<Event>,
    order: Order,
    tally: Tally,
}

/// How lines are laid out.
#[derive(Debug)]
struct Form {
    /// The format that the user declared, in words and taken apart.
    declared: Option<(String, Layout)>,
}

/// What a line is.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// An event, or the rest of one.
    Event(Event),
    /// A message, anything else, or the beginning of an event.
    Other,
    /// There is none.
    End,
}

/// Lines that wait for the rest of their event.
#[derive(Debug, Default)]
struct Broken {
    text: Vec<u8>,
    /// How many they are; 0 when nothing waits.
    pieces: u64,
    /// Number of the first.
    number: u64,
    fault: Option<Fault>,
}

/// Where events are put in order.
#[derive(Debug, Default)]
struct Order {
    streams: Streams,
    remaps: Remaps,
    window: Window,
}

impl<R: BufRead> BlkparseReader<R> {
    /// Starts to read; `path` is the file's name in errors. `layout` is the format given to
    /// `blkparse -f`, for text that was printed with one; lines of the usual form are then read too.
    ///
    /// # Errors
    /// When no line could be read with the layout, because it has no time or no operation.
    pub fn open(reader: R, path: &str, layout: Option<&str>) -> Result<Self, Error> {
        let declared = match layout {
            Some(text) => match Layout::parse(text) {
                Ok(layout) => Some((text.to_owned(), layout)),
                Err(why) => {
                    let (path, layout) = (path.to_owned(), text.to_owned());
                    return Err(Error::BadLayout { path, layout, why });
                }
            },
            None => None,
        };
        Ok(Self {
            lines: Lines::new(reader, path),
            form: Form { declared },
            broken: Broken::default(),
            next: None,
            order: Order::default(),
            tally: Tally::default(),
        })
    }

    /// Reads the next line, and the event that it completes.
    #[inline]
    fn read_line(&mut self) -> Next {
        let Self { lines, form, broken, tally, .. } = self;
        let number = lines.number() + 1;
        let Some(text) = lines.next() else { return Next::End };
        let found = form.read(text, tally.records.used);
        let (line, text) = match found {
            Ok(line) => {
                broken.give_up(tally);
                (Some(line), text)
            }
            Err(fault) => (broken.take(text, number, fault, form, tally), broken.text.as_slice()),
        };
        let next = line.map_or(Next::Other, |line| {
            tally.records.read += 1;
            tally.records.used += 1;
            tally.has_deltas |= line.has_delta;
            tally.wrapped_times += u64::from(line.is_wrapped);
            if line.event.action == Action::Message {
                tally.hear(line.event.time, detail::message(text));
                return Next::Other;
            }
            Next::Event(line.event)
        });
        tally.long_lines += u64::from(lines.is_cut());
        next
    }

    /// Puts an event in order; gives it back when another capture begins with it.
    #[inline]
    fn place(&mut self, event: Event, out: &mut Vec<Item>) -> Option<Event> {
        let Self { order, tally, form, .. } = self;
        let is_behind_sums = std::mem::take(&mut tally.is_behind_sums);
        match order.streams.step(&event, form.is_counted(), is_behind_sums) {
            Step::Restart => return Some(event),
            Step::Next(0) => {}
            Step::Next(missing) => {
                tally.ledger.add(Cause::TextGap, Some(event.cpu), Some(event.time), missing);
            }
        }
        let Order { remaps, window, .. } = order;
        remaps.take(event, |event| push(window, event, out, tally));
        None
    }

    /// Lets everything out that waits.
    fn finish(&mut self, out: &mut Vec<Item>) {
        let Order { streams, remaps, window } = &mut self.order;
        remaps.finish(|event| push(window, event, out, &mut self.tally));
        window.finish(out);
        streams.clear();
    }
}

/// An event that comes too late to be put in order is kept and told.
#[inline]
fn push(window: &mut Window, event: Event, out: &mut Vec<Item>, tally: &mut Tally) {
    if !window.push(event, out) {
        // No text has so many CPUs that each can cost memory.
        let cpu = Some(event.cpu).filter(|cpu| cpu.0 < MOST_CPUS);
        tally.ledger.add(Cause::TimeBackwards, cpu, Some(event.time), 1);
    }
}

impl<R: BufRead + Send> Reader for BlkparseReader<R> {
    fn next_batch(&mut self, out: &mut Vec<Item>) -> Result<Progress, Error> {
        if let Some(event) = self.next.take() {
            // The streams are new, so the event begins nothing.
            self.next = self.place(event, out);
        }
        for _ in 0..BATCH {
            match self.read_line() {
                Next::Event(event) => self.next = self.place(event, out),
                Next::Other => {}
                Next::End => {
                    self.broken.end(&mut self.tally);
                    self.finish(out);
                    return self.lines.take_failure().map_or(Ok(Progress::End), Err);
                }
            }
            if self.next.is_some() {
                self.finish(out);
                return Ok(Progress::Restart);
            }
        }
        Ok(Progress::More)
    }

    fn take_ledger(&mut self) -> Ledger {
        std::mem::take(&mut self.tally.ledger)
    }

    fn records(&self) -> Records {
        self.tally.records
    }

    fn about(&self) -> About {
        let mut notes = vec![
            "text does not tell the traced device of remaps, bytes below 512, the sign of errors, \
             request merges from bio merges, secure erase from discard, zeroes from writes, nor \
             more than 32 bits of where a split goes on"
                .to_owned(),
        ];
        let mut source = "blkparse text".to_owned();
        if let Some((text, layout)) = &self.form.declared {
            source = format!("blkparse text, format {text:?}");
            if !layout.has_device() {
                notes.push("the format names no device (%D): all events stand on 0:0".to_owned());
            }
            if !layout.has_error() {
                notes.push(
                    "the format has no errors (%e): every completion counts as good".to_owned(),
                );
            }
        }
        for (disk, partition) in self.order.remaps.partitions() {
            notes.push(format!(
                "this is a trace of the partition {partition}: its remaps, printed on {disk}, are \
                 shown on it"
            ));
        }
        notes.extend(self.tally.notes());
        let messages = self.tally.messages.clone();
        About { source, messages, notes, ..About::default() }
    }
}

impl Form {
    /// Reads a line; `place` counts the events before it.
    #[inline]
    fn read(&self, line: &[u8], place: u64) -> Result<Line, Fault> {
        let Some((_, layout)) = &self.declared else { return detail::read(line) };
        let first = layout.read(line, place);
        // Sums and quoting stand in such text too, and actions without a format of their own.
        first
            .or_else(|fault| layout.read(foreign::unquoted(line), place).ok().ok_or(fault))
            .or_else(|fault| detail::read(line).map_err(|other| other.or_columns(fault)))
    }

    /// Whether lines bear the number and the CPU of their event.
    #[inline]
    fn is_counted(&self) -> bool {
        self.declared.as_ref().is_none_or(|(_, layout)| layout.is_counted())
    }
}

impl Fault {
    /// This one if the line is an event of the usual form up to here, else the other.
    fn or_columns(self, other: Fault) -> Fault {
        if self.columns >= 4 { self } else { other }
    }
}

impl Broken {
    /// Takes a line that is no event by itself: it may go on with the one before, or begin one that
    /// the next goes on with.
    #[cold]
    fn take(
        &mut self,
        line: &[u8],
        number: u64,
        fault: Fault,
        form: &Form,
        tally: &mut Tally,
    ) -> Option<Line> {
        if self.pieces > 0 && !fault.is_unfinished() {
            let end = self.text.len();
            self.text.push(b' ');
            self.text.extend_from_slice(foreign::unquoted(line));
            match form.read(&self.text, tally.records.used) {
                Ok(joined) => {
                    tally.rejoined += 1;
                    self.pieces = 0;
                    return Some(joined);
                }
                Err(joined)
                    if joined.is_unfinished()
                        && self.pieces < MOST_PIECES
                        && foreign::classify(line) != foreign::Other::Blank =>
                {
                    self.pieces += 1;
                    self.fault = Some(joined);
                    return None;
                }
                Err(_) => self.text.truncate(end),
            }
        }
        self.give_up(tally);
        if fault.is_unfinished() {
            self.text.clear();
            self.text.extend_from_slice(line);
            (self.pieces, self.number, self.fault) = (1, number, Some(fault));
            return None;
        }
        let is_heading = form.declared.is_some() && tally.records.used == 0;
        tally.count(line, number, fault, is_heading);
        None
    }

    /// Counts what waited in vain.
    #[inline]
    fn give_up(&mut self, tally: &mut Tally) {
        if self.pieces == 0 {
            return;
        }
        let pieces = std::mem::take(&mut self.pieces);
        if let Some(fault) = self.fault.take() {
            for _ in 0..pieces {
                tally.count_unreadable(&self.text, self.number, fault);
            }
        }
    }

    /// Counts what waits at the end of the text.
    fn end(&mut self, tally: &mut Tally) {
        if let Some(fault) = self.fault.filter(|_| self.pieces > 0) {
            tally.count_cut(&self.text, self.number, fault);
            self.pieces = 0;
        }
    }
}

#[cfg(test)]
mod tests;
