//! The requests under way: a slab of records, found by where they start and where they end.
//!
//! Records with equal places form a chain in the order of their birth, so that equal requests are
//! matched first in, first out. Nothing allocates once the slab has grown to the deepest queue.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use iotrace_model::{Op, Request, Sector};

use crate::phase::Phase;

/// Place of a record in the slab.
pub(crate) type Slot = usize;

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) request: Request,
    pub(crate) phase: Phase,
    /// Index of its device.
    pub(crate) device: usize,
    /// Bytes completed so far.
    pub(crate) done_bytes: u64,
    /// Events of it may be lost: only what was seen before stands.
    pub(crate) tainted: bool,
    /// Which completion is its own is a guess.
    pub(crate) ambiguous_complete: bool,
    /// Which issue is its own is a guess.
    pub(crate) ambiguous_issue: bool,
}

impl Open {
    /// Sector after its last one; `None` without a place.
    pub(crate) fn end(&self) -> Option<Sector> {
        let sectors = self.request.length_bytes / iotrace_model::SECTOR_BYTES;
        self.request.sector.map(|start| Sector(start.0.saturating_add(sectors)))
    }

    /// Sector at which its next part completes.
    pub(crate) fn position(&self) -> Option<Sector> {
        let sectors = self.done_bytes / iotrace_model::SECTOR_BYTES;
        self.request.sector.map(|start| Sector(start.0.saturating_add(sectors)))
    }
}

/// What records are found by: device, operation, sector.
type Key = (usize, Op, Sector);

/// Slab and chains.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    records: Vec<Option<Open>>,
    free: Vec<Slot>,
    starts: Chains,
    ends: Chains,
    len: usize,
}

impl OpenRequests {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Keeps a record.
    pub(crate) fn insert(&mut self, open: Open) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            self.records.len() - 1
        });
        if let Some(place) = self.records.get_mut(slot) {
            *place = Some(open);
        }
        self.len += 1;
        self.link(slot);
        slot
    }

    /// Gives a record back and forgets it.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Open> {
        self.unlink(slot);
        let open = self.records.get_mut(slot)?.take()?;
        self.free.push(slot);
        self.len -= 1;
        Some(open)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Open> {
        self.records.get(slot)?.as_ref()
    }

    /// A record to change in anything but its place; `reshape` changes that.
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Open> {
        self.records.get_mut(slot)?.as_mut()
    }

    /// Changes a record's place or length.
    pub(crate) fn reshape(&mut self, slot: Slot, change: impl FnOnce(&mut Open)) {
        self.unlink(slot);
        if let Some(open) = self.get_mut(slot) {
            change(open);
        }
        self.link(slot);
    }

    /// Records that start at a place, oldest first.
    pub(crate) fn starting_at(
        &self,
        device: usize,
        op: Op,
        sector: Sector,
    ) -> impl Iterator<Item = (Slot, &Open)> {
        self.chain(&self.starts, (device, op, sector))
    }

    /// Records that end before a place, oldest first.
    pub(crate) fn ending_at(
        &self,
        device: usize,
        op: Op,
        sector: Sector,
    ) -> impl Iterator<Item = (Slot, &Open)> {
        self.chain(&self.ends, (device, op, sector))
    }

    /// Every slot that is in use, in the order of the slab.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let used = self.records.iter().enumerate().filter(|(_, record)| record.is_some());
        used.map(|(slot, _)| slot)
    }

    fn chain<'a>(&'a self, chains: &'a Chains, key: Key) -> impl Iterator<Item = (Slot, &'a Open)> {
        chains.slots(key).filter_map(|slot| Some((slot, self.get(slot)?)))
    }

    fn keys(&self, slot: Slot) -> Option<(Key, Key)> {
        let open = self.get(slot)?;
        let (start, end) = (open.request.sector?, open.end()?);
        Some(((open.device, open.request.op, start), (open.device, open.request.op, end)))
    }

    fn link(&mut self, slot: Slot) {
        if let Some((start, end)) = self.keys(slot) {
            self.starts.add(start, slot);
            self.ends.add(end, slot);
        }
    }

    fn unlink(&mut self, slot: Slot) {
        if let Some((start, end)) = self.keys(slot) {
            self.starts.remove(start, slot);
            self.ends.remove(end, slot);
        }
    }
}

/// Chains of slots by key; a slot is in at most one chain of a `Chains`.
#[derive(Debug, Default)]
struct Chains {
    heads: HashMap<Key, Slot, BuildHasherDefault<PlaceHasher>>,
    /// Successor of each slot.
    next: Vec<Option<Slot>>,
}

impl Chains {
    fn slots(&self, key: Key) -> impl Iterator<Item = Slot> {
        let head = self.heads.get(&key).copied();
        std::iter::successors(head, |slot| self.next.get(*slot).copied().flatten())
    }

    fn add(&mut self, key: Key, slot: Slot) {
        if self.next.len() <= slot {
            self.next.resize(slot + 1, None);
        }
        self.set_next(slot, None);
        match self.slots(key).last() {
            Some(tail) => self.set_next(tail, Some(slot)),
            None => {
                self.heads.insert(key, slot);
            }
        }
    }

    fn remove(&mut self, key: Key, slot: Slot) {
        let after = self.next.get(slot).copied().flatten();
        let before = self.slots(key).find(|other| self.next.get(*other) == Some(&Some(slot)));
        match (before, after) {
            (Some(before), after) => self.set_next(before, after),
            (None, Some(after)) => {
                self.heads.insert(key, after);
            }
            (None, None) => {
                self.heads.remove(&key);
            }
        }
    }

    fn set_next(&mut self, slot: Slot, to: Option<Slot>) {
        if let Some(next) = self.next.get_mut(slot) {
            *next = to;
        }
    }
}

/// Mixes the few words of a key; the multiplier is 2^64 divided by the golden ratio (Knuth, The
/// Art of Computer Programming 3, 6.4).
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word.unsigned_abs() as u64);
    }
}
