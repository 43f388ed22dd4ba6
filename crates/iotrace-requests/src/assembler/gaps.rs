//! What losses do: a record that was open in a gap keeps what was seen before it, and no more.

use iotrace_model::{Event, Loss, Nanos, Request, Stamp};

use super::after::PATIENCE;
use super::{Assembler, stamp};
use crate::open::{Open, Slot};

impl Assembler {
    /// Events are missing from here on: everything open is in doubt.
    pub(super) fn lose(&mut self, loss: &Loss) {
        self.loss_until = self.loss_until.max(Some(loss.to));
        let slots: Vec<Slot> = self.open.slots().collect();
        for slot in slots {
            self.taint(slot);
        }
    }

    pub(super) fn is_beside_loss(&self, time: Nanos) -> bool {
        self.loss_until.is_some_and(|until| time <= until)
    }

    pub(super) fn taint(&mut self, slot: Slot) {
        if let Some(open) = self.open.get_mut(slot)
            && !open.tainted
        {
            open.tainted = true;
            self.tainted += 1;
        }
    }

    /// Lets an event change a record, unless the record is in doubt: then nothing new stands.
    pub(super) fn touch(
        &mut self,
        slot: Slot,
        event: &Event,
        change: impl FnOnce(&mut Open, Stamp),
    ) {
        if self.is_beside_loss(event.time) {
            self.taint(slot);
        }
        if let Some(open) = self.open.get_mut(slot)
            && !open.tainted
        {
            change(open, stamp(event));
        }
    }

    /// A new bio where a record in doubt still waits for a completion: the old one is given up,
    /// and the new one cannot be told from it, so it is in doubt as well. A record in doubt for
    /// longer than any command takes is given up without that.
    pub(super) fn give_up_shadows(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        if self.tainted == 0 {
            return;
        }
        let oldest = self.devices[device].in_flight.first().copied();
        if let Some(slot) = oldest.filter(|slot| self.is_overdue(*slot, event.time)) {
            self.give_up(slot, out);
        }
        let Some(sector) = event.sector else { return };
        while let Some(slot) = self.find(device, event.op, sector, |open| open.tainted) {
            let overdue = self.is_overdue(slot, event.time);
            self.give_up(slot, out);
            if !overdue {
                self.loss_until = self.loss_until.max(Some(event.time));
            }
        }
    }

    fn is_overdue(&self, slot: Slot, now: Nanos) -> bool {
        self.open.get(slot).is_some_and(|open| {
            let request = &open.request;
            let since = [request.issue, request.insert, request.get, request.queue];
            open.tainted
                && since.into_iter().flatten().next().is_none_or(|at| now - at.time > PATIENCE)
        })
    }
}
