//! What happens to a request from its issue to its completion.

use iotrace_model::{Cause, Event, Nanos, Op, Request, Sector, Status};

use super::{Assembler, operation, stamp};
use crate::open::{Open, Slot};
use crate::phase::{Move, Phase};

impl Assembler {
    /// The request goes to the driver.
    pub(super) fn issue(&mut self, event: &Event, device: usize) {
        let slot = self.find_to_issue(event, device).unwrap_or_else(|| {
            let bios = u32::from(event.sector.is_some());
            self.begin(event, device, Phase::Queued, bios)
        });
        self.grow(slot, event, device);
        self.leave_flight(slot);
        let sure = self.tainted == 0;
        let state = &mut self.devices[device];
        let others = u32::try_from(state.in_flight.len()).unwrap_or(u32::MAX);
        let seek = event.sector.zip(state.last_end).map(|(to, from)| distance(from, to));
        state.in_flight.push(slot);
        if let Some(sector) = event.sector {
            state.last_end = Some(Sector(
                sector.0.saturating_add(event.length_bytes / iotrace_model::SECTOR_BYTES),
            ));
        }
        self.advance(slot, Move::Issue);
        self.touch(slot, event, |open, at| {
            open.request.issue = Some(at);
            open.request.in_flight_at_issue = sure.then_some(others);
            open.request.seek_sectors = seek;
            open.request.overtaken = Some(0);
            open.done_bytes = 0;
        });
    }

    /// The driver hands the request back.
    pub(super) fn requeue(&mut self, event: &Event, device: usize) {
        let mut in_flight = self.devices[device].in_flight.iter().rev().copied();
        let found = in_flight
            .find(|slot| self.open.get(*slot).is_some_and(|open| is_same(open, event)))
            .or_else(|| {
                let sector = event.sector?;
                self.find(device, event.op, sector, |open| open.phase != Phase::Queued)
            });
        let Some(slot) = found else { return self.orphan(event) };
        self.leave_flight(slot);
        self.advance(slot, Move::Requeue);
        self.touch(slot, event, |open, _| open.request.requeues += 1);
    }

    /// The driver reports a request done, whole or in part.
    pub(super) fn complete(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        if self.complete_flush_bio(event, device, out) {
            return;
        }
        let Some(slot) = self.find_to_complete(event, device) else {
            return self.complete_unknown(event, device, out);
        };
        let Some(open) = self.open.get_mut(slot) else { return };
        open.done_bytes = open.done_bytes.saturating_add(event.length_bytes);
        let failed = event.error.is_some_and(|error| error != 0);
        if failed {
            open.request.error = event.error;
        }
        if failed || open.done_bytes >= open.request.length_bytes {
            self.end(slot, event, out);
        }
    }

    /// A bio-based device reports a bio done. After a split below, the event names the last
    /// piece only, so a bio that ends there is taken too.
    pub(super) fn complete_bio(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let end = event.sector.map(|sector| {
            Sector(sector.0.saturating_add(event.length_bytes / iotrace_model::SECTOR_BYTES))
        });
        let found = match (event.sector, end) {
            (Some(sector), Some(end)) => self
                .find(device, event.op, sector, |open| open.phase == Phase::Queued)
                .or_else(|| {
                    let mut ending = self.open.ending_at(device, event.op, end);
                    ending.find(|(_, open)| open.phase == Phase::Queued).map(|(slot, _)| slot)
                }),
            (_, _) => self.devices[device].flushes.first().copied(),
        };
        match found {
            Some(slot) => self.end(slot, event, out),
            None => self.orphan(event),
        }
    }

    /// The driver sends the command of a request to the drive.
    pub(super) fn command(&mut self, event: &Event, device: usize) {
        let in_flight = &self.devices[device].in_flight;
        let is_free = |slot: &&Slot| {
            self.open.get(**slot).is_some_and(|open| {
                open.request.protocol.is_none()
                    && match event.sector {
                        Some(sector) => open.request.sector == Some(sector),
                        None => open.request.sector.is_none(),
                    }
            })
        };
        let found = match event.sector {
            Some(_) => in_flight.iter().rev().find(is_free),
            None => in_flight.iter().find(is_free),
        };
        if let Some(open) = found.copied().and_then(|slot| self.open.get_mut(slot)) {
            open.request.tag = event.tag;
            open.request.protocol = event.protocol;
        }
    }

    /// The record that an issue belongs to: one that waits, else the same request issued again.
    fn find_to_issue(&mut self, event: &Event, device: usize) -> Option<Slot> {
        let sector = event.sector?;
        let mut waiting = self
            .open
            .starting_at(device, event.op, sector)
            .filter(|(_, open)| open.phase != Phase::Issued);
        let first = waiting.next().map(|(slot, open)| (slot, open.request.length_bytes));
        let second = waiting.next().map(|(slot, open)| (slot, open.request.length_bytes));
        drop(waiting);
        match (first, second) {
            (Some((slot, _)), None) => Some(slot),
            (Some((slot, length)), Some((other, other_length))) => {
                if length == other_length {
                    self.doubt_issue(slot);
                    self.doubt_issue(other);
                    return Some(slot);
                }
                Some(if other_length == event.length_bytes { other } else { slot })
            }
            (None, _) => self.find(device, event.op, sector, |open| {
                open.phase == Phase::Issued && open.request.length_bytes == event.length_bytes
            }),
        }
    }

    fn doubt_issue(&mut self, slot: Slot) {
        if let Some(open) = self.open.get_mut(slot) {
            open.ambiguous_issue = true;
        }
    }

    /// Brings a record to the length of its issue, taking in the records that it covers: before
    /// Linux 5.9 requests could be joined without an event.
    fn grow(&mut self, slot: Slot, event: &Event, device: usize) {
        let (Some(start), bytes) = (event.sector, event.length_bytes) else { return };
        let stop = Sector(start.0.saturating_add(bytes / iotrace_model::SECTOR_BYTES));
        while let Some(end) = self.open.get(slot).and_then(Open::end)
            && end < stop
        {
            let next = self.find(device, event.op, end, |open| {
                matches!(open.phase, Phase::Got | Phase::Inserted)
            });
            let Some(next) = next.filter(|next| *next != slot) else { break };
            if self.absorb(next, slot, event).is_none() {
                break;
            }
        }
        if self.open.get(slot).is_some_and(|open| open.request.length_bytes != bytes) {
            self.open.reshape(slot, |open| open.request.length_bytes = bytes);
        }
    }

    /// The record in flight that a completion belongs to. Where several could be meant, the
    /// oldest is taken and all of them are marked.
    fn find_to_complete(&mut self, event: &Event, device: usize) -> Option<Slot> {
        let in_flight = &self.devices[device].in_flight;
        let open = &self.open;
        let fits = |slot: &Slot| {
            open.get(*slot)
                .is_some_and(|open| open.request.op == event.op && open.position() == event.sector)
        };
        let mut fitting = in_flight.iter().copied().filter(fits);
        let Some(first) = fitting.next() else {
            return in_flight
                .iter()
                .copied()
                .find(|slot| open.get(*slot).is_some_and(|open| contains(open, event)));
        };
        if fitting.next().is_none() {
            return Some(first);
        }
        let rest_is = |slot: &Slot| {
            open.get(*slot).is_some_and(|open| {
                open.request.length_bytes.saturating_sub(open.done_bytes) == event.length_bytes
            })
        };
        let mut exact = in_flight.iter().copied().filter(fits).filter(rest_is);
        if let (Some(one), None) = (exact.next(), exact.next()) {
            return Some(one);
        }
        let all: Vec<Slot> = in_flight.iter().copied().filter(fits).collect();
        if event.sector.is_some() {
            self.ledger.add(Cause::AmbiguousPairing, Some(event.cpu), Some(event.time), 1);
            for slot in all {
                if let Some(open) = self.open.get_mut(slot) {
                    open.ambiguous_complete = true;
                }
            }
        }
        Some(first)
    }

    /// The completion, without data, of an empty flush that the flush machinery served.
    fn complete_flush_bio(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) -> bool {
        if event.length_bytes > 0 || event.sector.is_some() || event.op == Op::Flush {
            return false;
        }
        let Some(slot) = self.devices[device].flushes.first().copied() else { return false };
        self.end(slot, event, out);
        true
    }

    fn complete_unknown(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        if event.length_bytes == 0 && event.sector.is_some() {
            // The end of a FUA write whose data were complete before, or an empty part.
            return;
        }
        if self.loss_until.is_some() {
            return self.orphan(event);
        }
        self.ledger.add(Cause::CompleteWithoutIssue, Some(event.cpu), Some(event.time), 1);
        let slot = self.begin(event, device, Phase::Issued, 0);
        self.end(slot, event, out);
    }

    /// A record is done: settles its context and status, and gives it out.
    fn end(&mut self, slot: Slot, event: &Event, out: &mut Vec<Request>) {
        if self.is_beside_loss(event.time) {
            self.taint(slot);
        }
        let overtook = self.overtake(slot);
        let Some(open) = self.forget(slot) else { return };
        let mut request = open.request;
        request.error = request.error.or(event.error).or(Some(0));
        request.overtook = overtook;
        request.status = if open.tainted {
            Status::Lost
        } else if open.ambiguous_complete || open.ambiguous_issue {
            Status::Ambiguous
        } else if request.queue.is_none() && request.sector.is_some() {
            Status::StartedBefore
        } else {
            Status::Complete
        };
        if open.ambiguous_issue {
            request.issue = None;
        }
        if matches!(request.status, Status::Complete | Status::StartedBefore) {
            request.complete = Some(stamp(event));
        }
        out.push(request);
    }

    /// Counts a completion against the requests issued before it that are still in flight.
    fn overtake(&mut self, slot: Slot) -> Option<u32> {
        let device = self.open.get(slot)?.device;
        let in_flight = &self.devices[device].in_flight;
        let place = in_flight.iter().position(|other| *other == slot)?;
        for other in in_flight.iter().take(place) {
            if let Some(open) = self.open.get_mut(*other) {
                open.request.overtaken = open.request.overtaken.map(|count| count + 1);
            }
        }
        (self.tainted == 0).then(|| u32::try_from(place).unwrap_or(u32::MAX))
    }

    fn leave_flight(&mut self, slot: Slot) {
        if let Some(open) = self.open.get(slot) {
            self.devices[open.device].in_flight.retain(|other| *other != slot);
        }
    }
}

/// Whether an event with a length names this record.
fn is_same(open: &Open, event: &Event) -> bool {
    open.request.op == operation(event) && open.request.sector == event.sector
}

/// Whether a completion lies within what is left of this record.
fn contains(open: &Open, event: &Event) -> bool {
    let sector = event.sector.zip(open.position()).zip(open.end());
    open.request.op == event.op
        && sector.is_some_and(|((at, position), end)| position <= at && at < end)
}

fn distance(from: Sector, to: Sector) -> i64 {
    let difference = i128::from(to.0) - i128::from(from.0);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

/// How long a record may stay in doubt: the default command time-out of the SCSI layer.
pub(super) const PATIENCE: Nanos = Nanos(30_000_000_000);
