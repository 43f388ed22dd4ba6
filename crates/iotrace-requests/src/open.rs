//! The requests under way: a slab of records, found by where they stand and where they end.
//!
//! A record stands at its first sector that is not complete, so that the rest of a request that
//! completed in part is found like any other. Records with equal places are matched first in,
//! first out. Nothing allocates once the slab has grown to the deepest queue. What is found by
//! its end are merges and bios; a trace without them never pays for it.

use iotrace_model::{Op, Request, SECTOR_BYTES, Sector};

use crate::chains::{Chains, Key, Slot};
use crate::phase::Phase;

/// How many records of one place are looked at; no driver holds more.
const MOST_TWINS: usize = 1024;

/// How many slots a search without a place may look at.
const MOST_SEARCHED: usize = 1 << 16;

/// A record that may be gone: its slot and the number of its request.
pub(crate) type Name = (Slot, u64);

/// A request under way, or a bio that may become one.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a doubt or a fact of its own")]
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
    /// It was issued without the flags of its bio: the flush machinery adds an empty completion.
    pub(crate) is_staged: bool,
    /// The piece that was cut off before it.
    pub(crate) previous_piece: Option<Name>,
    /// It stands among the requests in flight of its device.
    pub(crate) is_in_flight: bool,
    /// It is about to be given up.
    pub(crate) is_leaving: bool,
    /// Where in the order of issues its last one stands.
    pub(crate) issue_order: u64,
    /// Requests in flight before it at its last issue, less those that were handed back since.
    pub(crate) ahead: u32,
    /// Requests of the device that had completed in flight by then.
    pub(crate) landed: u64,
}

impl Open {
    /// Sector after its last one; `None` without a place.
    pub(crate) fn end(&self) -> Option<Sector> {
        Some(after(self.request.sector?, self.request.length_bytes))
    }

    /// Sector at which its next part completes.
    pub(crate) fn position(&self) -> Option<Sector> {
        Some(after(self.request.sector?, self.done_bytes))
    }

    /// Bytes that are not complete.
    pub(crate) fn rest_bytes(&self) -> u64 {
        self.request.length_bytes.saturating_sub(self.done_bytes)
    }

    /// Whether a request is allocated and the driver does not have it.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Got | Phase::Inserted)
    }

    /// Whether it is a bio that no request carries yet.
    pub(crate) fn is_queued(&self) -> bool {
        self.phase == Phase::Queued
    }

    /// Whether the driver has it.
    pub(crate) fn is_issued(&self) -> bool {
        self.phase == Phase::Issued
    }
}

/// The sector after so many bytes; saturates, as any number may come from a trace.
pub(crate) fn after(Sector(start): Sector, bytes: u64) -> Sector {
    Sector(start.saturating_add(bytes / SECTOR_BYTES))
}

/// Slab and chains.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    records: Vec<Option<Open>>,
    free: Vec<Slot>,
    /// By position.
    starts: Chains,
    /// By end; `None` until somebody asks.
    ends: Option<Chains>,
    /// For each slot, when its record came to its end: the order of the chains in `ends`.
    end_order: Vec<u64>,
    next_order: u64,
}

impl OpenRequests {
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// Keeps a record.
    #[inline]
    pub(crate) fn insert(&mut self, open: Open) -> Slot {
        let start = key(&open, open.position());
        let end = key(&open, open.end());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            self.end_order.push(0);
            Slot::try_from(self.records.len() - 1).expect("fewer records than 2^32 are open")
        });
        if let Some(place) = self.records.get_mut(slot as usize) {
            *place = Some(open);
        }
        if let Some(start) = start {
            self.starts.add(start, slot);
        }
        self.add_end(end, slot);
        slot
    }

    /// Gives a record back and forgets it.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Open> {
        let open = self.get(slot)?;
        let (start, end) = (key(open, open.position()), key(open, open.end()));
        if let Some(start) = start {
            self.starts.remove(start, slot);
        }
        if let (Some(ends), Some(end)) = (&mut self.ends, end) {
            ends.remove(end, slot);
        }
        self.free.push(slot);
        self.records.get_mut(slot as usize)?.take()
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Open> {
        self.records.get(slot as usize)?.as_ref()
    }

    /// A record to change in anything but its place; `reshape` changes that.
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Open> {
        self.records.get_mut(slot as usize)?.as_mut()
    }

    /// The slot behind a name; `None` when the record is gone.
    pub(crate) fn named(&self, (slot, number): Name) -> Option<Slot> {
        self.get(slot).filter(|open| open.request.request == number).map(|_| slot)
    }

    /// The name of a record.
    pub(crate) fn name(&self, slot: Slot) -> Option<Name> {
        self.get(slot).map(|open| (slot, open.request.request))
    }

    /// Changes a record's place, length or progress.
    pub(crate) fn reshape(&mut self, slot: Slot, change: impl FnOnce(&mut Open)) {
        let Some(open) = self.get_mut(slot) else { return };
        let before = (key(open, open.position()), key(open, open.end()));
        change(open);
        let now = (key(open, open.position()), key(open, open.end()));
        if before.0 != now.0 {
            if let Some(start) = before.0 {
                self.starts.remove(start, slot);
            }
            if let Some(start) = now.0 {
                self.starts.add(start, slot);
            }
        }
        if before.1 != now.1 {
            if let (Some(ends), Some(end)) = (&mut self.ends, before.1) {
                ends.remove(end, slot);
            }
            self.add_end(now.1, slot);
        }
    }

    /// Records that stand at a place, in the order in which they came there.
    pub(crate) fn starting_at(
        &self,
        device: usize,
        op: Op,
        sector: Sector,
    ) -> impl Iterator<Item = (Slot, &Open)> {
        self.chain(Some(&self.starts), Key::new(device, op, sector))
    }

    /// Records that end before a place, in the order in which they came there.
    pub(crate) fn ending_at(
        &mut self,
        device: usize,
        op: Op,
        sector: Sector,
    ) -> impl Iterator<Item = (Slot, &Open)> {
        if self.ends.is_none() {
            self.ends = Some(self.chain_ends());
        }
        self.chain(self.ends.as_ref(), Key::new(device, op, sector))
    }

    /// Every slot that is in use, in the order of the slab.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..).zip(&self.records).filter(|(_, record)| record.is_some()).map(|(slot, _)| slot)
    }

    /// The youngest record of a device and operation that fits; a walk over the slab, for the few
    /// events that name no start.
    pub(crate) fn youngest(
        &self,
        device: usize,
        op: Op,
        fits: impl Fn(&Open) -> bool,
    ) -> Option<Slot> {
        let records = (0..).zip(&self.records).take(MOST_SEARCHED);
        records
            .filter_map(|(slot, record)| Some((slot, record.as_ref()?)))
            .filter(|(_, open)| open.device == device && open.request.op == op && fits(open))
            .max_by_key(|(_, open)| open.request.request)
            .map(|(slot, _)| slot)
    }

    fn chain<'a>(
        &'a self,
        chains: Option<&'a Chains>,
        key: Key,
    ) -> impl Iterator<Item = (Slot, &'a Open)> {
        let slots = chains.map(|chains| chains.slots(key)).into_iter().flatten();
        slots.take(MOST_TWINS).filter_map(|slot| Some((slot, self.get(slot)?)))
    }

    fn add_end(&mut self, end: Option<Key>, slot: Slot) {
        if let Some(order) = self.end_order.get_mut(slot as usize) {
            *order = self.next_order;
            self.next_order += 1;
        }
        if let (Some(ends), Some(end)) = (&mut self.ends, end) {
            ends.add(end, slot);
        }
    }

    fn chain_ends(&self) -> Chains {
        let mut slots: Vec<Slot> = self.slots().collect();
        slots.sort_unstable_by_key(|slot| self.end_order.get(*slot as usize).copied());
        let mut ends = Chains::default();
        for slot in slots {
            if let Some(end) = self.get(slot).and_then(|open| key(open, open.end())) {
                ends.add(end, slot);
            }
        }
        ends
    }
}

fn key(open: &Open, sector: Option<Sector>) -> Option<Key> {
    Some(Key::new(open.device, open.request.op, sector?))
}
