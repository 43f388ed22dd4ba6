//! Puts the events of a stream of several CPUs back in order.
//!
//! A stream that was written while it was recorded is out of order by as much as the CPUs' buffers
//! hold: events wait until so many later ones are there. In order, an event costs no more than a queue.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};

use iotrace_model::{Cpu, Event, Item, Loss, Nanos};

/// Events that wait, for a text.
const WIDTH: usize = 1 << 16;

/// Time, CPU and place in the stream.
type Key = (Nanos, Cpu, u64);

/// Events that wait for their turn.
#[derive(Debug)]
pub(crate) struct Window {
    width: usize,
    /// Those that came in order.
    queue: VecDeque<(Key, Event)>,
    /// Those that came late.
    late: BinaryHeap<Reverse<Late>>,
    /// Losses by start and CPU.
    losses: BinaryHeap<Reverse<Lost>>,
    taken: u64,
    /// Key of the last one that went out.
    out: Option<Key>,
}

#[derive(Debug)]
struct Late(Key, Event);

#[derive(Debug)]
struct Lost(Loss);

impl Default for Window {
    fn default() -> Self {
        Self::new(WIDTH)
    }
}

impl Window {
    /// A window in which so many events wait.
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            queue: VecDeque::new(),
            late: BinaryHeap::new(),
            losses: BinaryHeap::new(),
            taken: 0,
            out: None,
        }
    }

    /// Takes a loss; it goes out behind the event at its start and before any later one.
    pub(crate) fn lose(&mut self, loss: Loss) {
        self.losses.push(Reverse(Lost(loss)));
    }

    /// Takes the next event of the stream; what is certain to be in order goes to `out`. False when
    /// it comes too late, after later ones went out: it then goes out next.
    pub(crate) fn push(&mut self, event: Event, out: &mut Vec<Item>) -> bool {
        let key = (event.time, event.cpu, self.taken);
        self.taken += 1;
        if self.queue.back().is_none_or(|(last, _)| *last <= key) {
            self.queue.push_back((key, event));
        } else {
            self.late.push(Reverse(Late(key, event)));
        }
        let in_time = self.out.is_none_or(|last| last.0 <= event.time);
        while self.queue.len() + self.late.len() > self.width {
            self.pop(out);
        }
        in_time
    }

    /// Lets everything out; what comes next begins anew.
    pub(crate) fn finish(&mut self, out: &mut Vec<Item>) {
        while !(self.queue.is_empty() && self.late.is_empty()) {
            self.pop(out);
        }
        while let Some(Reverse(Lost(loss))) = self.losses.pop() {
            out.push(Item::Loss(loss));
        }
        self.out = None;
    }

    fn pop(&mut self, out: &mut Vec<Item>) {
        let first = self.queue.front().map(|(key, _)| *key);
        let is_late = match (first, self.late.peek()) {
            (Some(first), Some(Reverse(Late(late, _)))) => *late < first,
            (first, _) => first.is_none(),
        };
        let next = if is_late {
            self.late.pop().map(|Reverse(Late(key, event))| (key, event))
        } else {
            self.queue.pop_front()
        };
        if let Some((key, event)) = next {
            while let Some(lost) = self.losses.peek_mut()
                && (lost.0.0.from, lost.0.0.cpu) < (key.0, key.1)
            {
                out.push(Item::Loss(PeekMut::pop(lost).0.0));
            }
            self.out = self.out.max(Some(key));
            out.push(Item::Event(event));
        }
    }
}

impl PartialEq for Late {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Late {}

impl PartialOrd for Late {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Late {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl Lost {
    fn key(&self) -> (Nanos, Cpu, Nanos, u64) {
        (self.0.from, self.0.cpu, self.0.to, self.0.count)
    }
}

impl PartialEq for Lost {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Lost {}

impl PartialOrd for Lost {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Lost {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use iotrace_model::Action;
    use iotrace_testkit::EventBuilder;

    use super::*;

    #[test]
    fn what_is_out_of_order_is_put_back() {
        let mut window = Window::default();
        let mut out = Vec::new();
        for (cpu, time) in [(0, 10), (1, 30), (0, 20), (1, 20), (0, 5), (0, 40)] {
            assert!(window.push(event(cpu, time), &mut out));
        }
        window.finish(&mut out);
        let expected = [(0, 5), (0, 10), (0, 20), (1, 20), (1, 30), (0, 40)];
        assert_eq!(out, expected.map(|(cpu, time)| Item::Event(event(cpu, time))));
    }

    #[test]
    fn a_loss_goes_out_where_it_begins() {
        let mut window = Window::default();
        let mut out = Vec::new();
        let loss = Loss { cpu: Cpu(0), from: Nanos(10), to: Nanos(40), count: 2 };
        for (cpu, time) in [(0, 10), (1, 20), (0, 40)] {
            window.push(event(cpu, time), &mut out);
        }
        window.lose(loss);
        window.finish(&mut out);
        let places = out.iter().position(|item| *item == Item::Loss(loss));
        assert_eq!(places, Some(1));
    }

    #[test]
    fn what_comes_after_the_window_is_told() {
        let mut window = Window::default();
        let mut out = Vec::new();
        for time in 0..=i64::try_from(WIDTH).unwrap() {
            assert!(window.push(event(0, time + 10), &mut out));
        }
        assert_eq!(out.len(), 1);
        assert!(!window.push(event(0, 9), &mut out));
        assert_eq!(out.last(), Some(&Item::Event(event(0, 9))));
    }

    fn event(cpu: u32, time: i64) -> Event {
        EventBuilder::new(Action::Queue, time).cpu(cpu).build()
    }
}
