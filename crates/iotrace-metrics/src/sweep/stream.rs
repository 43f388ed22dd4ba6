//! What the replay holds: lives that are not over yet and beginnings that are not reached yet.

use super::by_time::{self, Spare};
use crate::life::Life;
use crate::outline::Outline;

/// Lives that are gathered at least before they are sorted.
pub(super) const BATCH: usize = 1 << 13;

/// Lives whose completion is not replayed yet.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) to: i64,
    pub(super) reach: i64,
    disorder: i64,
    latest: i64,
    pub(super) lives: Vec<Life>,
    /// How many are gathered before the next round.
    enough: usize,
}

impl Ends {
    pub(super) fn new(outline: &Outline) -> Self {
        let to = outline.span().map_or(0, |(_, to)| to);
        let (reach, disorder) = (outline.reach, outline.disorder);
        Self { to, reach, disorder, latest: i64::MIN, lives: Vec::new(), enough: BATCH }
    }

    /// Takes one more; when there are enough, the time before which all is known.
    pub(super) fn push(&mut self, life: &Life) -> Option<i64> {
        self.lives.push(*life);
        self.latest = self.latest.max(life.complete);
        let is_enough = self.lives.len() >= self.enough;
        is_enough.then(|| self.latest - self.disorder - self.reach.max(0))
    }

    /// Sorts; the number of those that complete before a time.
    pub(super) fn settle(&mut self, before: i64) -> usize {
        let order = |a: &Life, b: &Life| a.complete.cmp(&b.complete).then_with(|| a.cmp(b));
        if !self.lives.is_sorted_by(|a, b| order(a, b).is_le()) {
            self.lives.sort_unstable_by(order);
        }
        self.lives.partition_point(|life| life.complete < before)
    }

    pub(super) fn first(&self, count: usize) -> &[Life] {
        self.lives.get(..count).unwrap_or_default()
    }

    /// Makes the next round as large as what waits, so that nothing is sorted many times.
    pub(super) fn wait(&mut self, waiting: usize) {
        self.enough = self.lives.len() + waiting.max(self.lives.len()) + BATCH;
    }
}

/// Beginnings of one kind that are not replayed yet.
#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) waiting: Vec<T>,
    /// Known before the replay, the latest first.
    later: Vec<T>,
    spare: Spare<T>,
}

impl<T> Default for Stream<T> {
    fn default() -> Self {
        Self { waiting: Vec::new(), later: Vec::new(), spare: Spare::default() }
    }
}

/// Something that happens at a time.
pub(super) trait Timed {
    fn time(&self) -> i64;
}

impl Timed for i64 {
    fn time(&self) -> i64 {
        *self
    }
}

impl<T: Timed + Copy> Stream<T> {
    pub(super) fn keep_for_later(&mut self) {
        self.later = std::mem::take(&mut self.waiting);
        self.later.sort_unstable_by_key(|begin| std::cmp::Reverse(begin.time()));
    }

    /// Sorts; the number of those before a time.
    pub(super) fn settle(&mut self, before: i64) -> usize {
        while let Some(begin) = self.later.pop_if(|begin| begin.time() < before) {
            self.waiting.push(begin);
        }
        by_time::sort(&mut self.waiting, &mut self.spare);
        self.waiting.partition_point(|begin| begin.time() < before)
    }

    pub(super) fn first(&self, count: usize) -> &[T] {
        self.waiting.get(..count).unwrap_or_default()
    }
}
