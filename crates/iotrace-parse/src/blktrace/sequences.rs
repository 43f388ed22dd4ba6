//! Gaps in the sequence numbers: the kernel counts an event before it looks for room, so a jump is
//! a loss (`trace_note` and `__blk_add_trace` in `kernel/trace/blktrace.c`).
//!
//! Numbers run for each device and CPU. A number that is not larger than the one before means a
//! trace that was started again, not a loss.

use std::collections::HashMap;

use iotrace_model::Nanos;

/// Device and CPU as records name them.
type Key = (u32, u32);

/// Pairs of device and CPU that are followed; a hostile trace has more, a machine has not.
const MOST: usize = 1 << 20;

/// The last number of each device and CPU.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    last: Option<(Key, Seen)>,
    others: HashMap<Key, Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    number: u32,
    time: Nanos,
}

/// What a number says of the stretch before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is missing.
    Next,
    /// So many events are missing since a time.
    Gap { count: u64, from: Nanos },
    /// The count began again.
    Restart,
}

impl Sequences {
    /// Takes the next number of a device and CPU.
    #[inline]
    pub(super) fn step(&mut self, device: u32, cpu: u32, number: u32, time: Nanos) -> Step {
        let (key, seen) = ((device, cpu), Seen { number, time });
        match &mut self.last {
            Some((last, before)) if *last == key => {
                let step = before.step(number);
                *before = seen;
                step
            }
            _ => self.switch(key, seen),
        }
    }

    /// The CPU of the number that was taken last.
    pub(super) fn last_cpu(&self) -> Option<u32> {
        self.last.map(|((_, cpu), _)| cpu)
    }

    fn switch(&mut self, key: Key, seen: Seen) -> Step {
        if let Some((last, before)) = self.last.take()
            && self.others.len() < MOST
        {
            self.others.insert(last, before);
        }
        let step = self.others.get(&key).map_or(Step::Next, |before| before.step(seen.number));
        self.last = Some((key, seen));
        step
    }
}

impl Seen {
    fn step(self, number: u32) -> Step {
        let distance = number.wrapping_sub(self.number);
        match distance {
            1 => Step::Next,
            // Half of the range: backwards.
            0 | 0x8000_0000.. => Step::Restart,
            _ => Step::Gap { count: u64::from(distance - 1), from: self.time },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_is_a_gap_and_a_fall_a_restart() {
        check(&[(0, 1), (0, 2)], Step::Next);
        check(&[(0, 7)], Step::Next);
        check(&[(0, 1), (1, 1), (0, 2)], Step::Next);
        check(&[(0, 3), (1, 1), (0, 7)], Step::Gap { count: 3, from: Nanos(0) });
        check(&[(0, 3), (0, 3)], Step::Restart);
        check(&[(0, 3), (0, 1)], Step::Restart);
        check(&[(0, u32::MAX), (0, 0)], Step::Next);
    }

    #[track_caller]
    fn check(numbers: &[(u32, u32)], expected: Step) {
        let mut sequences = Sequences::default();
        let mut last = Step::Next;
        for (time, (cpu, number)) in (0..).zip(numbers) {
            last = sequences.step(8 << 20, *cpu, *number, Nanos(time));
        }
        assert_eq!(last, expected);
    }
}
