//! Completions: which request they belong to, and what a row shows when it leaves.

use iotrace_model::{Cause, Event, Op, Request, Status};

use super::{Assembler, is_bare, stamp};
use crate::chains::Slot;
use crate::open::Open;
use crate::phase::Phase;

impl Assembler {
    /// The driver reports a request done, whole or in part.
    pub(super) fn complete(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        if self.complete_flush_bio(event, device, out) || self.is_empty_part(event, device) {
            return;
        }
        let Some(slot) = self.find_to_complete(event, device) else {
            return self.complete_unknown(event, device, out);
        };
        let failed = event.error.is_some_and(|error| error != 0);
        self.open.reshape(slot, |open| {
            open.done_bytes = open.done_bytes.saturating_add(event.length_bytes);
            if failed {
                open.request.error = event.error;
            }
        });
        // A failure without a length covers whatever is left.
        let covers_rest = failed && event.length_bytes == 0;
        if covers_rest || self.open.get(slot).is_none_or(|open| open.rest_bytes() == 0) {
            self.end(slot, event, out);
        }
    }

    /// A completion that no record explains began before the capture, or in a gap. An empty one
    /// says nothing of a request.
    pub(super) fn complete_unknown(
        &mut self,
        event: &Event,
        device: usize,
        out: &mut Vec<Request>,
    ) {
        self.settle_owed(event, device);
        if event.length_bytes == 0 {
            return self.orphan(event);
        }
        if !self.is_after_loss() {
            self.ledger.add(Cause::CompleteWithoutIssue, Some(event.cpu), Some(event.time), 1);
        }
        let slot = self.begin(event, device, Phase::Queued, u32::from(event.sector.is_some()));
        self.end(slot, event, out);
    }

    /// A record is done: settles its context and status, and gives it out.
    pub(super) fn end(&mut self, slot: Slot, event: &Event, out: &mut Vec<Request>) {
        if self.is_beside_loss(event.time) {
            self.taint(slot, event.time);
        }
        let overtook = self.overtake(slot);
        let Some(open) = self.forget(slot) else { return };
        let (start, end) = (open.request.sector, open.end());
        let mut request = open.request;
        request.error = request.error.or(event.error).or(Some(0));
        let is_guess = open.ambiguous_complete || open.ambiguous_issue;
        // Requests without bios, passthrough and drive flushes, begin with their issue.
        let begun = request.queue.is_some() || request.bios == 0 && request.issue.is_some();
        request.status = if open.tainted {
            Status::Lost
        } else if is_guess {
            Status::Ambiguous
        } else if begun {
            Status::Complete
        } else if self.is_after_loss() {
            Status::Lost
        } else {
            Status::StartedBefore
        };
        if is_bare(&request) || !open.tainted && !is_guess {
            request.complete = Some(stamp(event));
        }
        if open.ambiguous_issue {
            request.issue = None;
        }
        if open.tainted || is_guess {
            request.overtaken = None;
        } else {
            request.overtook = overtook;
        }
        if open.is_staged
            && let (Some(start), Some(end)) = (start, end)
        {
            self.devices.get_mut(open.device).stage(request.op, start, end);
        }
        out.push(request);
    }

    /// The record among those that fit that a completion belongs to. Where several could be
    /// meant, the oldest is taken and all of them are marked; one that has exactly the length is
    /// no guess.
    pub(super) fn choose_complete(&mut self, fitting: &[Slot], event: &Event) -> Option<Slot> {
        let first = fitting.first().copied()?;
        if fitting.len() == 1 {
            return Some(first);
        }
        let mut exact = fitting.iter().copied().filter(|slot| {
            self.open.get(*slot).is_some_and(|open| open.rest_bytes() == event.length_bytes)
        });
        if let (Some(one), None) = (exact.next(), exact.next()) {
            return Some(one);
        }
        self.ledger.add(Cause::AmbiguousPairing, Some(event.cpu), Some(event.time), 1);
        for slot in fitting {
            self.doubt_complete(*slot);
        }
        Some(first)
    }

    pub(super) fn doubt_complete(&mut self, slot: Slot) {
        if let Some(open) = self.open.get_mut(slot) {
            open.ambiguous_complete = true;
        }
    }

    /// The record in flight that a completion belongs to: one that stands at its place, else one
    /// that holds it.
    fn find_to_complete(&mut self, event: &Event, device: usize) -> Option<Slot> {
        let mut fitting = std::mem::take(&mut self.scratch);
        fitting.clear();
        if let Some(sector) = event.sector {
            let standing = self.open.starting_at(device, event.op, sector);
            fitting.extend(standing.filter(|(_, open)| open.is_issued()).map(|(slot, _)| slot));
        }
        if fitting.is_empty() {
            let in_flight = self.devices.get(device).in_flight.iter().copied();
            fitting.extend(in_flight.filter(|slot| {
                self.open.get(*slot).is_some_and(|open| could_complete(open, event))
            }));
        }
        let found = self.choose_complete(&fitting, event);
        self.scratch = fitting;
        found
    }

    /// Counts a completion against the requests issued before it that are still in flight.
    /// `None` without an issue, or while the count is not sure.
    fn overtake(&mut self, slot: Slot) -> Option<u32> {
        let open = self.open.get(slot).filter(|open| open.is_issued())?;
        let device = self.devices.get(open.device);
        let place = device.in_flight.iter().position(|other| *other == slot)?;
        for other in device.in_flight.iter().take(place) {
            if let Some(open) = self.open.get_mut(*other) {
                open.request.overtaken = open.request.overtaken.map(|count| count + 1);
            }
        }
        (device.tainted == 0).then(|| u32::try_from(place).unwrap_or(u32::MAX))
    }
}

/// Whether a completion that names no record's position could belong to one in flight.
fn could_complete(open: &Open, event: &Event) -> bool {
    if open.request.op != event.op {
        return false;
    }
    match (event.sector, open.position(), open.end()) {
        // An append completes where the drive put it, within the zone that it was sent to.
        (Some(_), Some(_), Some(_)) if event.op == Op::ZoneAppend => {
            open.rest_bytes() == event.length_bytes
        }
        (Some(at), Some(position), Some(end)) => position <= at && at < end,
        (sector, position, _) => sector.is_none() && position.is_none(),
    }
}
