//! What is known of each CPU's stream: how far it came, and its gaps.
//!
//! ```text
//! CPU 0:  … event at 100 │ (buffer full, 7 lost) │ CPU:0 [LOST 7 EVENTS], event at 5000 …
//!         the gap: from 100 to 5000, known only at 5000
//! ```
//!
//! Events of the text wait in a `Window`, so a gap can still be put where it begins; one that begins
//! before the window goes out next.

use std::collections::VecDeque;

use iotrace_model::{Cause, Cpu, Item, Ledger, Loss, Nanos};

/// Gaps that may wait; more of them widen the last one of their CPU.
const MOST_GAPS: usize = 1 << 12;

/// All CPUs of the section of a text that is read.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By CPU; those of an earlier section count as new.
    cpus: Vec<Stream>,
    section: u64,
    /// Gaps that are known and not yet out.
    gaps: VecDeque<Loss>,
    /// Whether any CPU is in a gap.
    is_in_gap: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    section: u64,
    /// Events so far.
    sequence: u64,
    last: Option<Nanos>,
    /// Events lost since `last`, while the end of the gap is not known.
    lost: Option<u64>,
}

impl Streams {
    /// Something of that CPU at `time`; ends its gap.
    pub(super) fn saw(&mut self, cpu: u32, time: Nanos, ledger: &mut Ledger) {
        let Some(stream) = self.stream(cpu) else { return };
        let before = stream.last;
        stream.last = before.max(Some(time));
        if let Some(lost) = stream.lost.take() {
            self.gap(cpu, before, time, lost, ledger);
        }
    }

    /// Number of the CPU's next event.
    pub(super) fn number(&mut self, cpu: u32) -> u64 {
        let Some(stream) = self.stream(cpu) else { return 0 };
        let number = stream.sequence;
        stream.sequence += 1;
        number
    }

    /// Begins a gap behind what was seen of the CPU last.
    pub(super) fn lose(&mut self, cpu: u32, count: u64) {
        self.is_in_gap = true;
        if let Some(stream) = self.stream(cpu) {
            stream.lost = Some(stream.lost.unwrap_or(0).saturating_add(count));
        }
    }

    /// Puts known gaps between the items from `start` on, which are in order.
    pub(super) fn place_gaps(&mut self, start: usize, out: &mut Vec<Item>) {
        if self.gaps.is_empty() {
            return;
        }
        self.gaps.make_contiguous().sort_by_key(|gap| (gap.from, gap.cpu));
        let items = out.split_off(start.min(out.len()));
        for item in items {
            if let Item::Event(event) = item {
                let key = (event.time, event.cpu);
                // A gap at the time of an event begins behind it.
                while let Some(gap) = self.gaps.pop_front_if(|gap| (gap.from, gap.cpu) < key) {
                    out.push(Item::Loss(gap));
                }
            }
            out.push(item);
        }
    }

    /// Ends the section at `time`: every gap goes out, behind the items from `start` on or between
    /// them.
    pub(super) fn finish(
        &mut self,
        time: Nanos,
        start: usize,
        ledger: &mut Ledger,
        out: &mut Vec<Item>,
    ) {
        if self.is_in_gap {
            for cpu in 0..u32::try_from(self.cpus.len()).unwrap_or(0) {
                let Some(stream) = self.stream(cpu) else { continue };
                let before = stream.last;
                if let Some(lost) = stream.lost.take() {
                    self.gap(cpu, before, time, lost, ledger);
                }
            }
        }
        self.place_gaps(start, out);
        out.extend(self.gaps.drain(..).map(Item::Loss));
        self.is_in_gap = false;
        self.section += 1;
    }

    fn gap(&mut self, cpu: u32, from: Option<Nanos>, to: Nanos, count: u64, ledger: &mut Ledger) {
        let from = from.unwrap_or_default().min(to);
        let cpu = Cpu(cpu);
        ledger.add(Cause::KernelLost, Some(cpu), Some(from), count);
        if self.gaps.len() >= MOST_GAPS
            && let Some(gap) = self.gaps.iter_mut().rev().find(|gap| gap.cpu == cpu)
        {
            gap.to = gap.to.max(to);
            gap.count = gap.count.saturating_add(count);
            return;
        }
        self.gaps.push_back(Loss { cpu, from, to, count });
    }

    fn stream(&mut self, cpu: u32) -> Option<&mut Stream> {
        let place = usize::try_from(cpu).ok()?;
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, Stream::default());
        }
        let stream = self.cpus.get_mut(place)?;
        if stream.section != self.section {
            *stream = Stream { section: self.section, ..Stream::default() };
        }
        Some(stream)
    }
}

#[cfg(test)]
mod tests {
    use iotrace_model::Action;
    use iotrace_testkit::EventBuilder;

    use super::*;

    #[test]
    fn a_gap_stands_where_it_begins() {
        let mut streams = Streams::default();
        let mut ledger = Ledger::default();
        streams.saw(1, Nanos(10), &mut ledger);
        streams.saw(0, Nanos(20), &mut ledger);
        streams.lose(1, 7);
        streams.saw(1, Nanos(50), &mut ledger);
        let mut out = vec![event(0, 5), event(1, 10), event(0, 20), event(1, 50)];
        streams.place_gaps(1, &mut out);
        let gap = Item::Loss(Loss { cpu: Cpu(1), from: Nanos(10), to: Nanos(50), count: 7 });
        assert_eq!(out, [event(0, 5), event(1, 10), gap, event(0, 20), event(1, 50)]);
        assert_eq!(ledger.count(Cause::KernelLost), 7);
    }

    #[test]
    fn a_gap_may_begin_before_the_first_event_and_end_with_the_text() {
        let mut streams = Streams::default();
        let mut ledger = Ledger::default();
        streams.lose(0, 1);
        streams.saw(0, Nanos(10), &mut ledger);
        streams.lose(0, 2);
        streams.lose(0, 3);
        let mut out = vec![event(0, 10)];
        streams.finish(Nanos(90), 0, &mut ledger, &mut out);
        let gap = |from, to, count| {
            Item::Loss(Loss { cpu: Cpu(0), from: Nanos(from), to: Nanos(to), count })
        };
        assert_eq!(out, [gap(0, 10, 1), event(0, 10), gap(10, 90, 5)]);
        assert_eq!(ledger.lost(), 6);
    }

    fn event(cpu: u32, time: i64) -> Item {
        EventBuilder::new(Action::Queue, time).cpu(cpu).item()
    }
}
