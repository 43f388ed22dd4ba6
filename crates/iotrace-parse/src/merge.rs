//! The streams of all CPUs in one order: by time, then CPU, then place in the stream.
//!
//! A perf file holds blocks of one CPU each and marks the end of a round in which every ring was
//! emptied. What a round shows of a CPU cannot be older than what the round before showed of
//! another, by then long past; so at the end of a round everything up to the latest time of the
//! round before may go out. Memory is bounded by two rounds.

use std::collections::VecDeque;

use iotrace_model::{Cause, Cpu, Item, Ledger, Nanos};

/// Items that may wait at once, when a file marks no rounds.
const MOST: usize = 1 << 22;

/// Waiting items of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    streams: Vec<Stream>,
    waiting: usize,
    /// Latest time of this round and of the one before.
    latest: Option<Nanos>,
    safe: Option<Nanos>,
    /// Latest time that went out.
    out: Option<Nanos>,
}

#[derive(Debug)]
struct Stream {
    cpu: Cpu,
    queue: VecDeque<(Nanos, Item)>,
}

impl Merge {
    /// Takes the next item of a CPU. A loss counts from its start.
    pub(crate) fn push(&mut self, item: Item, ledger: &mut Ledger) {
        let (time, cpu, end) = match &item {
            Item::Event(event) => (event.time, event.cpu, event.time),
            Item::Loss(loss) => (loss.from, loss.cpu, loss.to),
        };
        let place = match self.streams.binary_search_by_key(&cpu, |stream| stream.cpu) {
            Ok(place) => place,
            Err(place) => {
                self.streams.insert(place, Stream { cpu, queue: VecDeque::new() });
                place
            }
        };
        let Some(stream) = self.streams.get_mut(place) else { return };
        // An interrupt can write its event before the one that it interrupted, whose time is earlier:
        // such an event moves forward in its queue, but never before what went out already.
        if self.out.is_some_and(|out| time < out) {
            ledger.add(Cause::TimeBackwards, Some(cpu), Some(time), 1);
        }
        let key = self.out.map_or(time, |out| out.max(time));
        let later = stream.queue.iter().rev().take_while(|(other, _)| *other > key).count();
        stream.queue.insert(stream.queue.len() - later, (key, item));
        self.latest = self.latest.max(Some(end));
        self.waiting += 1;
    }

    /// Ends a round: what is certain to be in order goes out.
    pub(crate) fn end_round(&mut self, out: &mut Vec<Item>) {
        if let Some(safe) = self.safe {
            self.drain(|time| time <= safe, out);
        }
        self.safe = self.latest;
    }

    /// Lets the older half out when too much waits.
    pub(crate) fn relieve(&mut self, out: &mut Vec<Item>) {
        if self.waiting > MOST {
            let goal = MOST / 2;
            while self.waiting > goal && self.pop(|_| true, out) {}
        }
    }

    /// Lets everything out.
    pub(crate) fn finish(&mut self, out: &mut Vec<Item>) {
        self.drain(|_| true, out);
    }

    fn drain(&mut self, may_go: impl Fn(Nanos) -> bool, out: &mut Vec<Item>) {
        while self.pop(&may_go, out) {}
    }

    fn pop(&mut self, may_go: impl Fn(Nanos) -> bool, out: &mut Vec<Item>) -> bool {
        let heads = self.streams.iter_mut();
        let earliest = heads
            .filter_map(|stream| Some((stream.queue.front()?.0, stream)))
            .min_by_key(|(time, stream)| (*time, stream.cpu));
        let Some((time, stream)) = earliest.filter(|(time, _)| may_go(*time)) else {
            return false;
        };
        if let Some((_, item)) = stream.queue.pop_front() {
            out.push(item);
            self.waiting -= 1;
            self.out = Some(time);
        }
        true
    }
}
