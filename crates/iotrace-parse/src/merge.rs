//! The streams of all CPUs in one order: by time, then CPU, then place in the stream.
//!
//! A perf file holds blocks of one CPU each and marks the end of a round in which every ring was
//! emptied. What a round shows of a CPU cannot be older than what the round before showed of
//! another, by then long past; so at the end of a round everything up to the latest time of the
//! round before may go out. It goes while the next round comes in, no slower, so that whoever takes
//! it never waits for a whole round. Memory is bounded by two rounds.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use iotrace_model::{Event, Item, Loss, Nanos};

/// Events that may wait at once, when a file marks no rounds or very long ones.
const MOST: usize = 2_000_000;
/// Events that go out at once; no more of them may be pushed between two portions.
pub(crate) const PORTION: usize = 1 << 10;
/// Places by which an event is put back in order when it comes; one that must go further makes its
/// stream disturbed.
const NEAR: usize = 16;

/// Waiting events of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    /// By CPU.
    streams: Vec<Stream>,
    /// Places of streams that are out of order.
    disturbed: Vec<usize>,
    /// The key of the head of every stream that is not empty, with the stream's place. There may be
    /// more entries, of heads that were overtaken or are gone: they are dropped when they come up.
    heads: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// By start, then CPU.
    losses: VecDeque<Loss>,
    waiting: usize,
    /// Latest time so far, and at the end of the round before.
    latest: Option<Nanos>,
    safe: Option<Nanos>,
    /// What is not later may go out.
    ready: Option<Nanos>,
    /// Latest time that went out.
    out: Option<Nanos>,
}

/// Waiting events of one CPU, and apart from them what decides their order, which is looked at more
/// often than they are.
#[derive(Debug, Default)]
struct Stream {
    /// The event's time; of a late event, the time at which it still can go out.
    keys: VecDeque<Nanos>,
    /// As many as keys.
    events: VecDeque<Event>,
    /// Whether the keys are in order; else the stream is among the `disturbed`.
    is_disturbed: bool,
}

impl Merge {
    /// `losses` must be sorted by start and CPU. Each comes before the first later event.
    pub(crate) fn new(losses: Vec<Loss>) -> Self {
        Self { losses: losses.into(), ..Self::default() }
    }

    /// Takes the next event of the stream at `place`; false when it comes too late, after later ones
    /// went out. A borrowed event is copied once only.
    pub(crate) fn push(&mut self, place: usize, event: impl Borrow<Event>) -> bool {
        let event: &Event = event.borrow();
        if self.streams.len() <= place {
            self.streams.resize_with(place + 1, Stream::default);
        }
        let Some(stream) = self.streams.get_mut(place) else { return false };
        let is_late = self.out.is_some_and(|out| event.time < out);
        let key = self.out.map_or(event.time, |out| out.max(event.time));
        let last = stream.keys.back().copied();
        self.latest = self.latest.max(Some(event.time));
        stream.keys.push_back(key);
        stream.events.push_back(*event);
        self.waiting += 1;
        match last {
            None => self.heads.push(Reverse((key, place))),
            // An interrupt can write its event before the one that it interrupted, whose time is
            // earlier.
            Some(last) if key < last && !stream.is_disturbed => match stream.settle() {
                Settled::Within => {}
                Settled::First => self.heads.push(Reverse((key, place))),
                Settled::Far => {
                    stream.is_disturbed = true;
                    self.disturbed.push(place);
                }
            },
            Some(_) => {}
        }
        !is_late
    }

    /// Ends a round: what is certain to be in order may go out.
    pub(crate) fn end_round(&mut self) {
        self.ready = self.safe;
        self.safe = self.latest;
    }

    /// Lets out a portion of what may go. When too much waits, the oldest may go.
    pub(crate) fn let_out(&mut self, out: &mut Vec<Item>) {
        if self.waiting > MOST {
            self.drain(Nanos(i64::MAX), self.waiting - PORTION, out);
            return;
        }
        let Some(ready) = self.ready else { return };
        let before = self.waiting;
        self.drain(ready, before.saturating_sub(PORTION), out);
        if before - self.waiting < PORTION {
            losses_while(&mut self.losses, |loss| loss.from <= ready, out);
            self.ready = None;
        }
    }

    /// Lets out a portion of what is left; true when that was all.
    pub(crate) fn finish_portion(&mut self, out: &mut Vec<Item>) -> bool {
        if self.waiting <= PORTION {
            self.finish(out);
            return true;
        }
        self.drain(Nanos(i64::MAX), self.waiting - PORTION, out);
        false
    }

    /// Lets everything out.
    pub(crate) fn finish(&mut self, out: &mut Vec<Item>) {
        self.drain(Nanos(i64::MAX), 0, out);
        losses_while(&mut self.losses, |_| true, out);
    }

    /// Lets go what is not later than `limit`, until no more than `keep` events wait. Events of one
    /// stream that come before the head of every other go out together.
    fn drain(&mut self, limit: Nanos, keep: usize, out: &mut Vec<Item>) {
        self.sort();
        while self.waiting > keep
            && let Some(Reverse((key, place))) = self.heads.pop()
        {
            if key > limit {
                self.heads.push(Reverse((key, place)));
                break;
            }
            let Some(stream) = self.streams.get_mut(place) else { break };
            // The rest behind the end of a ring has its turn when this is gone.
            let ((keys, _), (events, _)) = (stream.keys.as_slices(), stream.events.as_slices());
            if keys.first() != Some(&key) {
                continue;
            }
            let next = self.heads.peek().map(|Reverse(next)| *next);
            let may_go =
                |key: &&Nanos| **key <= limit && next.is_none_or(|next| (**key, place) < next);
            let most = events.len().min(self.waiting - keep);
            // The head goes in any case: an entry of its own that is left over can stand in its way.
            let run = keys.iter().take(most).take_while(may_go).count().max(1);
            let (keys, events) = (keys.iter().take(run), events.iter().take(run));
            self.out = keys.clone().next_back().copied();
            if self.losses.is_empty() {
                out.extend(events.map(|event| Item::Event(*event)));
            } else {
                for (key, event) in keys.zip(events) {
                    // A loss at the time of an event begins behind it.
                    let is_before = |loss: &Loss| (loss.from, loss.cpu) < (*key, event.cpu);
                    losses_while(&mut self.losses, is_before, out);
                    out.push(Item::Event(*event));
                }
            }
            self.waiting -= run;
            stream.keys.drain(..run);
            stream.events.drain(..run);
            self.heads.extend(stream.keys.front().map(|key| Reverse((*key, place))));
        }
    }

    /// Puts disturbed streams in order; equal keys keep theirs.
    fn sort(&mut self) {
        for place in self.disturbed.drain(..) {
            let Some(stream) = self.streams.get_mut(place) else { continue };
            stream.sort();
            self.heads.extend(stream.keys.front().map(|key| Reverse((*key, place))));
        }
    }
}

/// Where an event came to lie that was pushed out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// Behind another.
    Within,
    /// In front of all others.
    First,
    /// Not in order yet: its place is further away.
    Far,
}

impl Stream {
    /// Moves the last event forward to its place, behind equals, if that is near.
    fn settle(&mut self) -> Settled {
        let mut at = self.keys.len().saturating_sub(1);
        for _ in 0..NEAR {
            let Some(before) = at.checked_sub(1) else { return Settled::First };
            if self.keys.get(before) <= self.keys.get(at) {
                return Settled::Within;
            }
            self.keys.swap(before, at);
            self.events.swap(before, at);
            at = before;
        }
        Settled::Far
    }

    fn sort(&mut self) {
        self.is_disturbed = false;
        let keys = self.keys.make_contiguous();
        let events = self.events.make_contiguous();
        let ordered = keys.windows(2).take_while(|pair| pair.is_sorted()).count() + 1;
        let (before, behind) = keys.split_at(ordered.min(keys.len()));
        let Some(least) = behind.iter().min() else { return };
        // What comes before the least of those behind stays where it is.
        let start = before.partition_point(|key| key <= least);
        let (_, keys) = keys.split_at_mut(start);
        let (_, events) = events.split_at_mut(start);
        let mut pairs: Vec<_> = keys.iter().copied().zip(events.iter().copied()).collect();
        pairs.sort_by_key(|(key, _)| *key);
        for ((key, event), pair) in keys.iter_mut().zip(events).zip(pairs) {
            (*key, *event) = pair;
        }
    }
}

#[inline]
fn losses_while(losses: &mut VecDeque<Loss>, may_go: impl Fn(&Loss) -> bool, out: &mut Vec<Item>) {
    while let Some(loss) = losses.pop_front_if(|loss| may_go(loss)) {
        out.push(Item::Loss(loss));
    }
}

#[cfg(test)]
mod tests {
    use iotrace_model::{Action, Cpu};
    use iotrace_testkit::EventBuilder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_round_lets_out_what_was_there_at_the_end_of_the_round_before() {
        let mut merge = Merge::default();
        let mut out = Vec::new();
        push(&mut merge, &[(0, 10), (0, 30), (1, 20)]);
        end_round(&mut merge, &mut out);
        assert_eq!(out, []);
        push(&mut merge, &[(0, 50), (1, 25), (1, 60)]);
        end_round(&mut merge, &mut out);
        check(&out, &[(0, 10), (1, 20), (1, 25), (0, 30)]);
        merge.finish(&mut out);
        check(&out, &[(0, 10), (1, 20), (1, 25), (0, 30), (0, 50), (1, 60)]);
    }

    #[test]
    fn equal_times_are_ordered_by_cpu_and_then_by_place() {
        let mut merge = Merge::default();
        let mut out = Vec::new();
        push(&mut merge, &[(1, 10), (1, 10), (0, 10), (2, 5)]);
        merge.finish(&mut out);
        check(&out, &[(2, 5), (0, 10), (1, 10), (1, 10)]);
    }

    #[test]
    fn an_event_of_an_interrupt_is_put_back_in_order() {
        let mut merge = Merge::default();
        let mut out = Vec::new();
        push(&mut merge, &[(0, 20), (0, 10), (1, 15), (0, 5)]);
        merge.finish(&mut out);
        check(&out, &[(0, 5), (0, 10), (1, 15), (0, 20)]);
    }

    #[test]
    fn an_event_that_comes_too_late_is_told_and_goes_out_next() {
        let mut merge = Merge::default();
        let mut out = Vec::new();
        push(&mut merge, &[(0, 10)]);
        end_round(&mut merge, &mut out);
        end_round(&mut merge, &mut out);
        assert!(!merge.push(1, event(1, 9)));
        push(&mut merge, &[(0, 11)]);
        merge.finish(&mut out);
        check(&out, &[(0, 10), (1, 9), (0, 11)]);
    }

    #[test]
    fn a_loss_comes_behind_the_event_before_it_and_before_any_later_one() {
        let loss = |cpu, from| Loss { cpu: Cpu(cpu), from: Nanos(from), to: Nanos(90), count: 1 };
        let mut merge = Merge::new(vec![loss(1, 10), loss(0, 20), loss(0, 99)]);
        let mut out = Vec::new();
        push(&mut merge, &[(0, 10), (1, 10), (2, 10), (0, 30)]);
        merge.finish(&mut out);
        let [.., last] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!(*last, Item::Loss(loss(0, 99)));
        let places: Vec<_> =
            out.iter().enumerate().filter(|(_, item)| matches!(item, Item::Loss(_))).collect();
        assert_eq!(places.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [2, 4, 6]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Within a round the events of a CPU come in any order, and the last ones of a round are
        /// later than the first ones of the next.
        #[test]
        fn rounds_come_out_sorted_with_losses_in_their_place(
            rounds in vec(vec((0_u32..4, 0_i64..150), 0..30), 0..8),
            losses in vec((0_i64..900, 0_u32..4), 0..6),
        ) {
            let loss = |(from, cpu): (i64, u32)| {
                Loss { cpu: Cpu(cpu), from: Nanos(from), to: Nanos(from), count: 1 }
            };
            let mut losses: Vec<_> = losses.into_iter().map(loss).collect();
            losses.sort_by_key(|loss| (loss.from, loss.cpu));
            let (mut merge, mut out) = (Merge::new(losses.clone()), Vec::new());
            let mut expected = Vec::new();
            let mut sequence = 0;
            for (round, events) in rounds.iter().enumerate() {
                for (cpu, time) in events {
                    let time = i64::try_from(round).unwrap() * 100 + time;
                    let event = Event { sequence, ..event(*cpu, time) };
                    sequence += 1;
                    prop_assert!(merge.push(usize::try_from(*cpu).unwrap(), event));
                    expected.push(Item::Event(event));
                }
                end_round(&mut merge, &mut out);
            }
            merge.finish(&mut out);
            expected.extend(losses.into_iter().map(Item::Loss));
            expected.sort_by_key(|item| match item {
                Item::Event(event) => (event.time, event.cpu, 0, event.sequence),
                Item::Loss(loss) => (loss.from, loss.cpu, 1, 0),
            });
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn nothing_is_lost_when_too_much_waits(
            events in vec((0_u32..4, 0_i64..1000), 0..100),
            keep in 0_usize..20,
        ) {
            let (mut merge, mut out) = (Merge::default(), Vec::new());
            for (cpu, time) in &events {
                merge.push(usize::try_from(*cpu).unwrap(), event(*cpu, *time));
                if merge.waiting > keep {
                    merge.drain(Nanos(i64::MAX), keep / 2, &mut out);
                    prop_assert_eq!(merge.waiting, keep / 2);
                }
            }
            merge.finish(&mut out);
            let mut expected: Vec<_> =
                events.iter().map(|(cpu, time)| Item::Event(event(*cpu, *time))).collect();
            prop_assert_eq!(out.len(), expected.len());
            let key = |item: &Item| match item {
                Item::Event(event) => (event.time, event.cpu),
                Item::Loss(loss) => (loss.from, loss.cpu),
            };
            out.sort_by_key(key);
            expected.sort_by_key(key);
            prop_assert_eq!(out, expected);
        }
    }

    fn event(cpu: u32, time: i64) -> Event {
        EventBuilder::new(Action::Queue, time).cpu(cpu).build()
    }

    fn end_round(merge: &mut Merge, out: &mut Vec<Item>) {
        merge.end_round();
        while merge.ready.is_some() {
            merge.let_out(out);
        }
    }

    #[track_caller]
    fn push(merge: &mut Merge, events: &[(u32, i64)]) {
        for (cpu, time) in events {
            assert!(merge.push(usize::try_from(*cpu).unwrap(), event(*cpu, *time)));
        }
    }

    #[track_caller]
    fn check(out: &[Item], expected: &[(u32, i64)]) {
        let expected: Vec<_> =
            expected.iter().map(|(cpu, time)| Item::Event(event(*cpu, *time))).collect();
        assert_eq!(out, expected);
    }
}
