//! Chains of slab slots by place: which records start, or end, at a sector of a device.
//!
//! A chain keeps the order in which its slots were added. Adding and removing take constant time,
//! so a trace that puts a million requests on one sector costs no more than any other.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use iotrace_model::{Op, Sector};

/// Place of a record in the slab.
pub(crate) type Slot = u32;

/// What records are found by: index of the device with the operation, and sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kind: u64,
    sector: u64,
}

impl Key {
    /// The key of a place.
    pub(crate) fn new(device: usize, op: Op, Sector(sector): Sector) -> Self {
        Self { kind: (device as u64) << 8 | op as u64, sector }
    }
}

/// Stands for a slot that is not there.
const NONE: Slot = Slot::MAX;

/// A slot's neighbours in its chain.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    before: Slot,
    after: Slot,
}

const ALONE: Neighbours = Neighbours { before: NONE, after: NONE };

/// Chains of slots by key; a slot is in at most one chain of a `Chains`.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    /// First and last slot of each chain. Only looked up, never walked.
    ends: HashMap<Key, (Slot, Slot), BuildHasherDefault<PlaceHasher>>,
    neighbours: Vec<Neighbours>,
}

impl Chains {
    /// The slots of a chain, in the order in which they were added.
    pub(crate) fn slots(&self, key: Key) -> impl Iterator<Item = Slot> {
        let mut next = self.ends.get(&key).map_or(NONE, |(first, _)| *first);
        std::iter::from_fn(move || {
            let slot = (next != NONE).then_some(next)?;
            next = self.neighbours.get(slot as usize)?.after;
            Some(slot)
        })
    }

    /// Adds a slot at the end of a chain.
    pub(crate) fn add(&mut self, key: Key, slot: Slot) {
        let place = slot as usize;
        if self.neighbours.len() <= place {
            self.neighbours.resize(place + 1, ALONE);
        }
        let ends = self.ends.entry(key).or_insert((slot, slot));
        let before = if ends.1 == slot { NONE } else { ends.1 };
        ends.1 = slot;
        self.set(slot, |own| *own = Neighbours { before, after: NONE });
        self.set(before, |other| other.after = slot);
    }

    /// Takes a slot out of the chain that it is in.
    pub(crate) fn remove(&mut self, key: Key, slot: Slot) {
        let Some(own) = self.neighbours.get_mut(slot as usize) else { return };
        let Neighbours { before, after } = std::mem::replace(own, ALONE);
        self.set(before, |other| other.after = after);
        self.set(after, |other| other.before = before);
        match (before, after) {
            (NONE, NONE) => {
                self.ends.remove(&key);
            }
            (NONE, _) => {
                self.ends.entry(key).and_modify(|ends| ends.0 = after);
            }
            (_, NONE) => {
                self.ends.entry(key).and_modify(|ends| ends.1 = before);
            }
            _ => {}
        }
    }

    fn set(&mut self, slot: Slot, change: impl FnOnce(&mut Neighbours)) {
        if let Some(neighbours) = self.neighbours.get_mut(slot as usize) {
            change(neighbours);
        }
    }
}

/// Mixes the few words of a key, at a fraction of the cost of the standard hasher; the multiplier
/// is 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
#[derive(Default)]
pub(crate) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_keeps_its_order_whatever_leaves() {
        check(0, &[1, 2]);
        check(1, &[0, 2]);
        check(2, &[0, 1]);
    }

    #[test]
    fn an_empty_chain_can_begin_again() {
        let (mut chains, key) = (Chains::default(), key());
        chains.add(key, 5);
        chains.remove(key, 5);
        assert_eq!(chains.slots(key).count(), 0);
        chains.add(key, 5);
        assert_eq!(chains.slots(key).collect::<Vec<_>>(), [5]);
    }

    fn key() -> Key {
        Key::new(0, Op::Read, Sector(8))
    }

    #[track_caller]
    fn check(leaves: Slot, expected: &[Slot]) {
        let (mut chains, key) = (Chains::default(), key());
        for slot in 0..3 {
            chains.add(key, slot);
        }
        chains.remove(key, leaves);
        assert_eq!(chains.slots(key).collect::<Vec<_>>(), expected);
        chains.add(key, leaves);
        assert_eq!(chains.slots(key).last(), Some(leaves));
    }
}
