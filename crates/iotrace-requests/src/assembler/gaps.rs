//! What losses do: a record that was open in a gap keeps what was seen before it, and no more.
//!
//! A record in doubt waits for its completion at most `PATIENCE`, and only until a new one comes to
//! its place. The completion may then still come, so the new one is in doubt as well. Records
//! without a place stand in line, where one completion too few would shift all pairs after it:
//! there every new one is in doubt until the completion has come, or cannot come any more.

use std::collections::VecDeque;

use iotrace_model::{Action, Event, Loss, Nanos, Op, Request, Sector};

use super::flight::MOST_WITHOUT_PLACE;
use super::{Assembler, operation};
use crate::chains::Slot;
use crate::open::Name;

/// How long a record may stay in doubt: the default command time-out of the SCSI layer.
const PATIENCE: Nanos = Nanos(30_000_000_000);

/// Completions that may be awaited without a record at once.
const MOST_OWED: usize = 1024;

/// What is in doubt.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Events until this time stand beside a loss; `None` when nothing was ever lost.
    loss_until: Option<Nanos>,
    /// Records in doubt, and since when, in that order; some may be gone.
    records: VecDeque<(Name, Nanos)>,
    /// Completions that may still come for records given up, and since when.
    owed: VecDeque<(Line, Nanos)>,
}

/// Records without a place that are matched first in, first out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    device: usize,
    op: Op,
    /// Flush bios stand in another line than the flushes of the drive.
    is_bio: bool,
}

impl Assembler {
    /// Events are missing from here on: everything open is in doubt.
    pub(super) fn lose(&mut self, loss: &Loss) {
        self.doubts.loss_until = self.doubts.loss_until.max(Some(loss.to));
        let slots: Vec<Slot> = self.open.slots().collect();
        for slot in slots {
            self.taint(slot, loss.to);
        }
    }

    pub(super) fn is_beside_loss(&self, time: Nanos) -> bool {
        self.doubts.loss_until.is_some_and(|until| time <= until)
    }

    /// Whether what was not seen may have been lost.
    pub(super) fn is_after_loss(&self) -> bool {
        self.doubts.loss_until.is_some()
    }

    pub(super) fn taint(&mut self, slot: Slot, since: Nanos) {
        if let Some(open) = self.open.get_mut(slot)
            && !open.tainted
        {
            open.tainted = true;
            self.doubts.records.push_back(((slot, open.request.request), since));
            self.devices.get_mut(open.device).tainted += 1;
        }
    }

    /// Gives up records that are in doubt for longer than any command takes.
    pub(super) fn give_up_overdue(&mut self, now: Nanos, out: &mut Vec<Request>) {
        let Some(&(_, since)) = self.doubts.records.front() else { return };
        if now - since > PATIENCE {
            self.clear_overdue_flights(now);
        }
        while let Some(&(name, since)) = self.doubts.records.front() {
            let slot = self.open.named(name);
            if slot.is_some() && now - since <= PATIENCE {
                break;
            }
            self.doubts.records.pop_front();
            if let Some(slot) = slot {
                self.give_up(slot, out);
            }
        }
    }

    /// Takes those that are overdue out of flight, in one pass, since a pass for each would be
    /// quadratic.
    fn clear_overdue_flights(&mut self, now: Nanos) {
        let overdue = self.doubts.records.iter().take_while(|(_, since)| now - *since > PATIENCE);
        for &(name, _) in overdue {
            let slot = self.open.named(name);
            if let Some(open) = slot.and_then(|slot| self.open.get_mut(slot)) {
                open.is_leaving = true;
            }
        }
        self.clear_flights(|open| open.is_leaving);
    }

    /// Makes room for a new record at the event's place: records in doubt there are given up.
    /// Says whether a completion of theirs could still come and be taken for the new record's.
    pub(super) fn displace(
        &mut self,
        event: &Event,
        device: usize,
        out: &mut Vec<Request>,
    ) -> bool {
        if !self.is_after_loss() {
            return false;
        }
        let line = Line { device, op: operation(event), is_bio: event.action != Action::Issue };
        let mut displaced = false;
        while self.devices.get(device).tainted > 0
            && let Some(slot) = self.find_tainted(line, event.sector)
        {
            displaced = true;
            if event.sector.is_none() {
                if self.doubts.owed.len() == MOST_OWED {
                    self.doubts.owed.pop_front();
                }
                self.doubts.owed.push_back((line, event.time));
            }
            self.give_up(slot, out);
        }
        self.doubts.owed.retain(|(_, since)| event.time - *since <= PATIENCE);
        displaced
            || event.sector.is_none() && self.doubts.owed.iter().any(|(owed, _)| *owed == line)
    }

    /// A completion that no record explains: one that was awaited has come.
    pub(super) fn settle_owed(&mut self, event: &Event, device: usize) {
        if event.sector.is_some() {
            return;
        }
        let is_bio = event.op == Op::Write || event.action == Action::BioComplete;
        let op = if is_bio && event.length_bytes == 0 { Op::Flush } else { event.op };
        let line = Line { device, op, is_bio };
        if let Some(place) = self.doubts.owed.iter().position(|(owed, _)| *owed == line) {
            self.doubts.owed.remove(place);
        }
    }

    fn find_tainted(&self, line: Line, sector: Option<Sector>) -> Option<Slot> {
        let Line { device, op, is_bio } = line;
        let Some(sector) = sector else {
            let state = self.devices.get(device);
            let fits = |slot: &Slot| {
                self.open.get(*slot).is_some_and(|open| {
                    open.tainted && open.request.op == op && open.request.sector.is_none()
                })
            };
            return if is_bio {
                state.flushes.iter().copied().find(fits)
            } else {
                state
                    .aside
                    .iter()
                    .copied()
                    .chain(state.flight.latest(MOST_WITHOUT_PLACE))
                    .find(fits)
            };
        };
        self.find(device, op, sector, |open| open.tainted)
    }
}
