//! blktrace's files: one for each CPU, merged dumps of `blkparse -d`, and the stream of
//! `blktrace -o -`.
//!
//! Layout: `include/uapi/linux/blktrace_api.h`, versions 7 and 8, in the byte order of the traced
//! machine. Files of one CPU each are in order and merged by time as they are read; a file that holds
//! several CPUs was written as their buffers came in, and its events wait in a `Window`.
//!
//! The sequence numbers of a device and CPU run without gaps, so a gap is a loss, which comes in the
//! stream where it begins.

mod event;
#[cfg(test)]
mod goldens;
mod names;
mod record;
mod sequences;
mod stream;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io::Read;

use iotrace_model::{Cause, Cpu, DeviceId, Item, Ledger, Loss, Nanos};

use self::event::{Meanings, Notify};
use self::names::Names;
use self::record::{Found, Order, Record};
use self::sequences::{Sequences, Step};
use self::stream::Stream;
use crate::window::Window;
use crate::{About, Error, Progress, Reader, Records};

/// Events of one batch.
const BATCH: usize = 1 << 11;
/// Events that wait while a stream of several CPUs is put in order: more than the buffers of many
/// CPUs hold.
const WIDTH: usize = 1 << 19;
/// Messages that are kept.
const MOST_MESSAGES: usize = 1 << 10;

/// Whether a file that begins so is one of blktrace's.
pub(crate) fn looks_like_blktrace(start: &[u8]) -> bool {
    Order::of(start).is_some()
}

/// Reads blktrace files of one or more devices and CPUs as one trace.
pub struct BlktraceReader {
    inputs: Vec<Input>,
    /// Time, CPU and place of the head of every input that is not at its end.
    heads: BinaryHeap<Reverse<Key>>,
    shared: Shared,
    /// Where a stream of several CPUs is put in order.
    window: Option<Window>,
}

type Key = (u64, u32, usize);

/// One file.
struct Input {
    stream: Stream,
    /// Whether the stream's record is an event that comes next; else the stream is at its end.
    has_head: bool,
    sequences: Sequences,
    last_time: u64,
    /// What is missing before the head.
    gap: Option<Loss>,
}

/// What all inputs share.
struct Shared {
    names: Names,
    meanings: Meanings,
    /// Time of the first event.
    origin: Option<u64>,
    /// The earliest TIMESTAMP: when, and the wall clock then.
    stamp: Option<(u64, Nanos)>,
    messages: Vec<(u64, String)>,
    devices: Vec<(DeviceId, String)>,
    notes: Vec<String>,
    version: u8,
    order: Order,
    counts: Records,
    ledger: Ledger,
}

impl BlktraceReader {
    /// Starts to read; each file comes with its name, which errors use and which, in the form
    /// `sda.blktrace.0`, names its device.
    ///
    /// # Errors
    /// When a file cannot be read, or does not begin with a record.
    pub fn open(files: Vec<(Box<dyn Read + Send>, String)>) -> Result<Self, Error> {
        let mut shared = Shared {
            names: Names::default(),
            meanings: Meanings::default(),
            origin: None,
            stamp: None,
            messages: Vec::new(),
            devices: Vec::new(),
            notes: Vec::new(),
            version: 7,
            order: Order::Little,
            counts: Records::default(),
            ledger: Ledger::default(),
        };
        let mut inputs = Vec::new();
        let mut has_many = false;
        for (reader, path) in files {
            // blktrace writes an empty file for a CPU without events.
            let Some(stream) = Stream::open(reader, &path)? else { continue };
            has_many |= holds_many_cpus(&stream);
            shared.order = stream.order();
            let sequences = Sequences::default();
            inputs.push(Input { stream, has_head: true, sequences, last_time: 0, gap: None });
        }
        let mut heads = BinaryHeap::new();
        for (place, input) in inputs.iter_mut().enumerate() {
            input.advance(&mut shared);
            if input.has_head {
                let head = input.stream.record();
                heads.push(Reverse((head.time, head.cpu, place)));
                shared.name_device(head.device, input.stream.path());
                shared.version = head.version;
            }
        }
        shared.origin = heads.peek().map(|Reverse((time, ..))| *time);
        let window = has_many.then(|| Window::new(WIDTH));
        Ok(Self { inputs, heads, shared, window })
    }

    /// Lets the next events out of the inputs in the order of their heads; false when there are no
    /// more.
    fn merge(&mut self, out: &mut Vec<Item>) -> bool {
        let mut room = BATCH;
        while room > 0 {
            let Some(&Reverse((.., place))) = self.heads.peek() else { return false };
            // The second of a heap is one of the two below its top.
            let below = self.heads.as_slice().iter().skip(1).take(2).max();
            let limit = below.map(|Reverse(key)| *key);
            let Some(input) = self.inputs.get_mut(place) else { return false };
            // All that comes before the next input's head goes out at once.
            let mut next = None;
            while input.has_head {
                let head = input.stream.record();
                let key = (head.time, head.cpu, place);
                if room == 0 || limit.is_some_and(|limit| limit < key) {
                    next = Some(key);
                    break;
                }
                room -= 1;
                self.shared.take(head, input.stream.payload(), self.window.as_mut(), out);
                input.advance(&mut self.shared);
                if let Some(loss) = input.gap.take() {
                    match &mut self.window {
                        Some(window) => window.lose(loss),
                        None => out.push(Item::Loss(loss)),
                    }
                }
            }
            if let Some(mut top) = self.heads.peek_mut() {
                match next {
                    Some(key) => *top = Reverse(key),
                    None => {
                        PeekMut::pop(top);
                    }
                }
            }
        }
        true
    }

    fn finish(&mut self, out: &mut Vec<Item>) {
        if let Some(window) = &mut self.window {
            window.finish(out);
        }
        let shared = &mut self.shared;
        for input in &mut self.inputs {
            let broken = std::mem::take(&mut input.stream.broken);
            if broken.stretches > 0 {
                shared.counts.read += broken.stretches;
                shared.ledger.add(Cause::Malformed, None, None, broken.stretches);
                shared.notes.push(format!(
                    "{}: {} bytes in {} places, the first at byte {}, are no records and were \
                     passed over",
                    input.stream.path(),
                    broken.bytes,
                    broken.stretches,
                    broken.first.unwrap_or_default(),
                ));
            }
            if let Some(offset) = broken.cut {
                shared.counts.read += 1;
                shared.ledger.add(Cause::Truncated, None, None, 1);
                shared.notes.push(format!(
                    "{}: the file ends within the record at byte {offset}",
                    input.stream.path(),
                ));
            }
        }
    }
}

impl Reader for BlktraceReader {
    fn next_batch(&mut self, out: &mut Vec<Item>) -> Result<Progress, Error> {
        if self.merge(out) {
            return Ok(Progress::More);
        }
        self.finish(out);
        // A file that cannot be read on must not cost what the others hold.
        let mut failures = self.inputs.iter_mut().filter_map(|input| input.stream.take_failure());
        failures.next().map_or(Ok(Progress::End), Err)
    }

    fn take_ledger(&mut self) -> Ledger {
        std::mem::take(&mut self.shared.ledger)
    }

    fn records(&self) -> Records {
        self.shared.counts
    }

    fn about(&self) -> About {
        let shared = &self.shared;
        let order = match shared.order {
            Order::Little => "little-endian",
            Order::Big => "big-endian",
        };
        let origin = shared.origin.unwrap_or_default();
        // A merged dump counts from its first event, but its notify records do not.
        let is_rebased = origin == 0 || shared.stamp.is_some_and(|(time, _)| time > origin);
        let dump = if is_rebased { ", merged dump" } else { "" };
        let wall = shared.stamp.filter(|_| !is_rebased).map(|(time, wall)| {
            Nanos(wall.0.saturating_add(i64::try_from(origin - time).unwrap_or(i64::MAX)))
        });
        let mut messages = Vec::new();
        for (time, text) in &shared.messages {
            messages.push((shared.time(*time), text.clone()));
        }
        let mut notes = shared.notes.clone();
        if let [only] = self.inputs.as_slice()
            && let Some((_, cpu)) = only.stream.path().rsplit_once(".blktrace.")
        {
            notes.push(format!(
                "only the file of CPU {cpu} is there; whether other CPUs had events cannot be told"
            ));
        }
        if is_rebased {
            notes.push(
                "a merged dump has neither the clock's own times nor the wall clock".to_owned(),
            );
        }
        About {
            source: format!("blktrace {}, {order}{dump}", shared.version),
            clock: if is_rebased { String::new() } else { "CLOCK_MONOTONIC".to_owned() },
            origin: (!is_rebased).then(|| Nanos(i64::try_from(origin).unwrap_or(i64::MAX))),
            wall,
            names: shared.devices.clone(),
            messages,
            notes,
        }
    }
}

impl Input {
    /// Goes on to the next event, and notes what is missing before it.
    #[inline]
    fn advance(&mut self, shared: &mut Shared) {
        loop {
            if !self.stream.next() {
                self.has_head = false;
                return;
            }
            shared.counts.read += 1;
            if !self.stream.record().is_notify() {
                break;
            }
            shared.hear(self.stream.record(), self.stream.order(), self.stream.payload());
        }
        let record = self.stream.record();
        let (time, cpu) = (shared.time(record.time), Cpu(record.cpu));
        if record.time < self.last_time && self.is_of_one_cpu(record) {
            shared.ledger.add(Cause::TimeBackwards, Some(cpu), Some(time), 1);
        }
        self.last_time = record.time;
        match self.sequences.step(record.device, record.cpu, record.sequence, time) {
            Step::Next | Step::Restart => {}
            Step::Gap { count, from } => {
                shared.ledger.add(Cause::KernelLost, Some(cpu), Some(from), count);
                self.gap = Some(Loss { cpu, from, to: time.max(from), count });
            }
        }
    }

    /// Whether the record follows another of its own CPU: a file of several is not in order.
    fn is_of_one_cpu(&self, record: &Record) -> bool {
        self.sequences.last_cpu() == Some(record.cpu)
    }
}

impl Shared {
    /// A time of the trace, since the first event.
    fn time(&self, raw: u64) -> Nanos {
        let absolute = |time| i64::try_from(time).unwrap_or(i64::MAX);
        Nanos(absolute(raw)) - Nanos(absolute(self.origin.unwrap_or(raw)))
    }

    /// Makes an event of a record.
    #[inline]
    fn take(
        &mut self,
        record: &Record,
        payload: &[u8],
        window: Option<&mut Window>,
        out: &mut Vec<Item>,
    ) {
        let time = self.time(record.time);
        let cpu = Cpu(record.cpu);
        let comm = self.names.of(record.pid);
        self.counts.used += 1;
        let meaning = self.meanings.of(record);
        match (record.event(self.order, payload, time, comm, meaning), window) {
            (Some(event), None) => out.push(Item::Event(event)),
            (Some(event), Some(window)) => {
                if !window.push(event, out) {
                    self.ledger.add(Cause::TimeBackwards, Some(cpu), Some(time), 1);
                }
            }
            (None, _) => {
                self.counts.used -= 1;
                self.ledger.add(Cause::Malformed, Some(cpu), Some(time), 1);
            }
        }
    }

    /// Takes what a notify record tells.
    fn hear(&mut self, record: &Record, order: Order, payload: &[u8]) {
        self.counts.used += 1;
        match record.notify(order, payload) {
            Notify::Process(comm) => self.names.tell(record.pid, comm),
            Notify::Timestamp(wall) => {
                if self.stamp.is_none_or(|(time, _)| record.time < time) {
                    self.stamp = Some((record.time, wall));
                }
            }
            Notify::Message { text, .. } => {
                if self.messages.len() < MOST_MESSAGES {
                    let text = String::from_utf8_lossy(text);
                    let text = text.trim_end_matches(['\n', '\0']).to_owned();
                    self.messages.push((record.time, text));
                }
            }
            Notify::Unknown => {
                self.counts.used -= 1;
                self.ledger.add(Cause::Foreign, Some(Cpu(record.cpu)), None, 1);
            }
        }
    }

    /// Remembers the name of a device that its file bears.
    fn name_device(&mut self, device: u32, path: &str) {
        let device = DeviceId::from_kernel(device);
        let file = path.rsplit('/').next().unwrap_or(path);
        if let Some((name, _)) = file.split_once(".blktrace.")
            && !self.devices.iter().any(|(known, _)| *known == device)
        {
            self.devices.push((device, name.to_owned()));
        }
    }
}

/// Whether what was read ahead of a stream names more than one CPU.
fn holds_many_cpus(stream: &Stream) -> bool {
    let mut rest = stream.ahead();
    let mut first = None;
    while let Found::Record(record, size) = stream.order().record(rest) {
        if !record.is_notify() && *first.get_or_insert(record.cpu) != record.cpu {
            return true;
        }
        rest = rest.get(size..).unwrap_or_default();
    }
    false
}
