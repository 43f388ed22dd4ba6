//! The requests that the driver has, in the order of their last issue, and who overtakes whom.
//!
//! A request is overtaken by those that were issued after it and complete before it. Nobody counts
//! them one by one: of the requests completed on the device since its issue, those that were ahead
//! of it then and are no more did not overtake it, and all others did.

use std::collections::VecDeque;

use iotrace_model::{Op, Sector};

use super::Assembler;
use crate::chains::Slot;
use crate::open::Open;

/// How many of the latest requests a search for one without a place looks at.
pub(super) const MOST_WITHOUT_PLACE: usize = 1 << 14;

/// How many of the latest requests a search for one that holds a place looks at. Only a completion
/// in the midst of a request needs it.
pub(super) const MOST_HOLDING: usize = 1 << 10;

/// Up to this depth a walk is faster than a search.
const SHORT: usize = 64;

/// The requests in flight on one device.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Order of issue and slot, in that order. Those whose completion never comes gather at the
    /// front; taking one out costs the way to the nearer end.
    slots: VecDeque<(u64, Slot)>,
    /// How many have completed.
    landed: u64,
}

impl Flight {
    /// How many they are.
    pub(super) fn depth(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// The latest of them, in the order of their last issue.
    pub(super) fn latest(&self, most: usize) -> impl DoubleEndedIterator<Item = Slot> {
        self.slots.iter().skip(self.slots.len().saturating_sub(most)).map(|(_, slot)| *slot)
    }

    /// Takes one out; how many stand before it.
    fn leave(&mut self, order: u64) -> Option<usize> {
        let place = if self.slots.len() <= SHORT {
            self.slots.iter().rposition(|(other, _)| *other == order)?
        } else {
            self.slots.binary_search_by_key(&order, |(other, _)| *other).ok()?
        };
        self.slots.remove(place);
        Some(place)
    }
}

impl Assembler {
    /// The driver gets a request that it does not have.
    pub(super) fn enter_flight(&mut self, slot: Slot, device: usize) {
        let flight = &mut self.devices.get_mut(device).flight;
        self.next_issue += 1;
        if let Some(open) = self.open.get_mut(slot) {
            open.is_in_flight = true;
            open.issue_order = self.next_issue;
            open.ahead = flight.depth();
            open.landed = flight.landed;
        }
        flight.slots.push_back((self.next_issue, slot));
    }

    /// The driver has a request no more, though it is not complete.
    pub(super) fn leave_flight(&mut self, slot: Slot) {
        let Some(open) = self.open.get_mut(slot).filter(|open| open.is_in_flight) else { return };
        open.is_in_flight = false;
        let flight = &mut self.devices.get_mut(open.device).flight;
        let Some(place) = flight.leave(open.issue_order) else { return };
        note_overtaken(open, place, flight.landed);
        for (_, other) in flight.slots.iter().skip(place) {
            if let Some(open) = self.open.get_mut(*other) {
                open.ahead = open.ahead.saturating_sub(1);
            }
        }
    }

    /// A request in flight is complete. How many it overtook: those issued before it that are
    /// still in flight; `None` without an issue, or while the count is not sure.
    pub(super) fn land(&mut self, slot: Slot) -> Option<u32> {
        let open = self.open.get_mut(slot).filter(|open| open.is_in_flight)?;
        open.is_in_flight = false;
        let state = self.devices.get_mut(open.device);
        let place = state.flight.leave(open.issue_order)?;
        note_overtaken(open, place, state.flight.landed);
        state.flight.landed += 1;
        (state.tainted == 0).then(|| u32::try_from(place).unwrap_or(u32::MAX))
    }

    /// The driver has all requests that leave no more; in one pass.
    pub(super) fn clear_flights(&mut self, leaves: impl Fn(&Open) -> bool) {
        for device in 0..self.devices.len() {
            let flight = &mut self.devices.get_mut(device).flight;
            let (mut place, mut gone) = (0, 0);
            flight.slots.retain(|(_, slot)| {
                let Some(open) = self.open.get_mut(*slot) else { return false };
                let is_leaving = leaves(open);
                if is_leaving {
                    open.is_in_flight = false;
                    note_overtaken(open, place, flight.landed);
                    gone += 1;
                } else {
                    open.ahead = open.ahead.saturating_sub(gone);
                }
                place += 1;
                !is_leaving
            });
        }
    }

    /// Of the records in flight that stand at a place and fit, the two issued last, latest first.
    pub(super) fn issued_last(
        &self,
        device: usize,
        op: Op,
        sector: Sector,
        fits: impl Fn(&Open) -> bool,
    ) -> [Option<Slot>; 2] {
        let standing = self.open.starting_at(device, op, sector);
        let mut latest: [Option<(u64, Slot)>; 2] = [None; 2];
        for (slot, open) in standing.filter(|(_, open)| open.is_issued() && fits(open)) {
            let own = Some((open.issue_order, slot));
            if own > latest[0] {
                latest = [own, latest[0]];
            } else if own > latest[1] {
                latest[1] = own;
            }
        }
        latest.map(|found| found.map(|(_, slot)| slot))
    }
}

/// Adds how many requests overtook one since its last issue, as it leaves the flight from a place.
fn note_overtaken(open: &mut Open, place: usize, landed: u64) {
    let since = landed.saturating_sub(open.landed);
    let ahead = u64::from(open.ahead).saturating_sub(place as u64);
    if let Some(overtaken) = &mut open.request.overtaken {
        let more = u32::try_from(since.saturating_sub(ahead)).unwrap_or(u32::MAX);
        *overtaken = overtaken.saturating_add(more);
    }
}
