//! Completions: which request they belong to, and what a row shows when it leaves.

use iotrace_model::{Cause, Event, Op, Request, Status};

use super::flight::{MOST_HOLDING, MOST_WITHOUT_PLACE};
use super::{Assembler, is_bare, stamp};
use crate::chains::Slot;
use crate::open::{Open, after};
use crate::phase::Phase;

impl Assembler {
    /// The driver reports a request done, whole or in part.
    pub(super) fn complete(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        if event.length_bytes == 0 && self.complete_empty(event, device, out) {
            return;
        }
        let Some(slot) = self.find_to_complete(event, device) else {
            return self.complete_unknown(event, device, out);
        };
        let Some(open) = self.open.get_mut(slot) else { return };
        let failed = event.error.is_some_and(|error| error != 0);
        if failed {
            open.request.error = event.error;
        }
        // A failure without a length covers whatever is left; a command without a place is done
        // whole or not at all, and text does not say its length.
        let covers_rest = event.sector.is_none() || failed && event.length_bytes == 0;
        if covers_rest || event.length_bytes >= open.rest_bytes() {
            self.end(slot, event, out);
        } else {
            self.open.reshape(slot, |open| open.done_bytes += event.length_bytes);
        }
    }

    /// A completion without a length. Says whether nothing more is to be done about it.
    fn complete_empty(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) -> bool {
        // blkparse has no letter for a read without a length.
        if let (Op::Other, Some(sector)) = (event.op, event.sector)
            && self.find(device, Op::Other, sector, Open::is_issued).is_none()
            && self.find(device, Op::Read, sector, Open::is_issued).is_some()
        {
            self.complete(&Event { op: Op::Read, ..*event }, device, out);
            return true;
        }
        self.complete_flush_bio(event, device, out) || self.is_empty_part(event, device)
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
        if event.length_bytes == 0 || self.is_bio_of_ended(event, device) {
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
        let overtook = self.land(slot);
        let is_after_loss = self.is_after_loss();
        let Some(open) = self.open.get_mut(slot) else { return };
        let device = self.devices.get_mut(open.device);
        let (start, end) = (open.request.sector, open.end());
        let is_guess = open.ambiguous_complete || open.ambiguous_issue;
        let request = &mut open.request;
        request.error = request.error.or(event.error).or(Some(0));
        // Requests without bios, passthrough and drive flushes, begin with their issue; so do all
        // where the trace shows nothing before it.
        let is_begin_shown = request.bios > 0 && device.shown.bio;
        let begun = request.queue.is_some() || request.issue.is_some() && !is_begin_shown;
        request.status = if open.tainted {
            Status::Lost
        } else if is_guess {
            Status::Ambiguous
        } else if begun {
            Status::Complete
        } else if is_after_loss {
            Status::Lost
        } else {
            Status::StartedBefore
        };
        if is_bare(request) || !open.tainted && !is_guess {
            request.complete = Some(stamp(event));
        }
        if open.tainted || is_guess {
            request.overtaken = None;
        } else {
            request.overtook = overtook;
        }
        if let (Some(start), Some(end)) = (start, end) {
            if request.issue.is_some() {
                device.ended.push(request.op, start, end, request.bios);
            }
            if open.is_staged {
                device.stage(request.op, start, end);
            }
        }
        if open.ambiguous_issue {
            request.issue = None;
        }
        if let Some(open) = self.forget(slot) {
            out.push(open.request);
        }
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
    /// that holds it, else, as a chain of bios completes with all that was done before it, one that
    /// ends where the completion does.
    fn find_to_complete(&mut self, event: &Event, device: usize) -> Option<Slot> {
        if let Some(sector) = event.sector {
            let standing = self.open.starting_at(device, event.op, sector);
            let mut standing = standing.filter(|(_, open)| open.is_issued());
            if let (Some((slot, open)), None) = (standing.next(), standing.next())
                && open.rest_bytes() == event.length_bytes
            {
                return Some(slot);
            }
        }
        let mut fitting = std::mem::take(&mut self.scratch);
        fitting.clear();
        if let Some(sector) = event.sector {
            let standing = self.open.starting_at(device, event.op, sector);
            fitting.extend(standing.filter(|(_, open)| open.is_issued()).map(|(slot, _)| slot));
            self.prefer_last_of_chain(&mut fitting, event, device);
        }
        if fitting.is_empty() {
            let most = event.sector.map_or(MOST_WITHOUT_PLACE, |_| MOST_HOLDING);
            let in_flight = self.devices.get(device).flight.latest(most);
            fitting.extend(in_flight.filter(|slot| {
                self.open.get(*slot).is_some_and(|open| could_complete(open, event))
            }));
            // After a loss it may as well be the end of a request whose issue was lost.
            if self.is_after_loss() && event.sector.is_some() {
                for slot in &fitting {
                    self.doubt_complete(*slot);
                }
            }
        }
        if fitting.is_empty() {
            self.prefer_last_of_chain(&mut fitting, event, device);
        }
        let found = self.choose_complete(&fitting, event);
        self.scratch = fitting;
        found
    }

    /// Where a completion is longer than what fits, the records in flight that end where it does
    /// take their place.
    fn prefer_last_of_chain(&mut self, fitting: &mut Vec<Slot>, event: &Event, device: usize) {
        let Some(start) = event.sector else { return };
        let is_short =
            |slot: &Slot| self.open.get(*slot).is_some_and(|o| o.rest_bytes() < event.length_bytes);
        if fitting.iter().all(is_short) {
            let end = after(start, event.length_bytes);
            let last = |open: &Open| {
                open.is_issued() && open.position().is_some_and(|position| start < position)
            };
            let ending = self.open.ending_at(device, event.op, end);
            let mut ending = ending.filter(|(_, open)| last(open)).map(|(slot, _)| slot).peekable();
            if ending.peek().is_some() {
                fitting.clear();
                fitting.extend(ending);
            }
        }
    }

    /// Whether a completion reports a bio of a request that was just completed.
    fn is_bio_of_ended(&mut self, event: &Event, device: usize) -> bool {
        let Some(start) = event.sector else { return false };
        let end = after(start, event.length_bytes);
        !self.is_after_loss() && self.devices.get_mut(device).ended.take_bio(event.op, start, end)
    }
}

/// Whether a completion that names no record's position could belong to one in flight.
fn could_complete(open: &Open, event: &Event) -> bool {
    // blkparse shows the direction of a passthrough command only where it shows the length.
    let is_command = || event.op == Op::Other && event.length_bytes == 0 && open.request.bios == 0;
    if open.request.op != event.op
        && (event.sector.is_some() || open.request.op == Op::Flush || !is_command())
    {
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
