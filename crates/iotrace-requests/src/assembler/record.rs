//! How a record begins, changes, and is given up.
//!
//! Every record is counted on its device from `begin` to `forget`; what is given up leaves as a row
//! without a completion.

use iotrace_model::{Cause, Event, Op, Request, Sector, Stamp, Status};

use super::{Assembler, operation, stamp};
use crate::chains::Slot;
use crate::open::Open;
use crate::phase::{Move, Phase, step};

impl Assembler {
    /// Begins a record for an event that nothing before explains.
    pub(super) fn begin(&mut self, event: &Event, device: usize, phase: Phase, bios: u32) -> Slot {
        let number = self.next_request;
        self.next_request += 1;
        let state = self.devices.get_mut(device);
        state.open += 1;
        state.queued += u32::from(phase == Phase::Queued);
        let slot = self.open.insert(Open {
            request: Request {
                request: number,
                device: state.id,
                op: operation(event),
                flags: event.flags,
                sector: event.sector,
                length_bytes: event.length_bytes,
                pid: event.pid,
                comm: event.comm,
                cgroup: event.cgroup,
                io_priority: event.io_priority,
                queue: None,
                get: None,
                insert: None,
                issue: None,
                complete: None,
                bios,
                front_merges: 0,
                back_merges: 0,
                requeues: 0,
                splits: 0,
                parent: None,
                in_flight_at_issue: None,
                queued_at_queue: None,
                overtook: None,
                overtaken: None,
                seek_sectors: None,
                tag: None,
                protocol: None,
                error: None,
                status: Status::Unfinished,
                merged_bios: Vec::new(),
            },
            phase,
            device,
            done_bytes: 0,
            tainted: false,
            ambiguous_complete: false,
            ambiguous_issue: false,
            is_staged: false,
            previous_piece: None,
            is_in_flight: false,
            is_leaving: false,
            issue_order: 0,
            ahead: 0,
            landed: 0,
        });
        if self.is_beside_loss(event.time) {
            self.taint(slot, event.time);
        }
        slot
    }

    /// Forgets a record that the driver does not have, with every trace of it on its device.
    #[inline]
    pub(super) fn forget(&mut self, slot: Slot) -> Option<Open> {
        let open = self.open.get(slot)?;
        let device = self.devices.get_mut(open.device);
        device.count_out(open);
        device.unlist(slot, open);
        self.open.remove(slot)
    }

    /// Ends a record that will see no completion.
    pub(super) fn give_up(&mut self, slot: Slot, out: &mut Vec<Request>) {
        self.leave_flight(slot);
        if let Some(open) = self.forget(slot) {
            self.leave_open(open, out);
        }
    }

    pub(super) fn leave_open(&mut self, open: Open, out: &mut Vec<Request>) {
        let mut request = open.request;
        request.status = if open.tainted {
            Status::Lost
        } else if open.ambiguous_complete || open.ambiguous_issue {
            Status::Ambiguous
        } else {
            Status::Unfinished
        };
        if !open.tainted {
            let last = [request.issue, request.insert, request.get, request.queue];
            let time = last.into_iter().flatten().next().map(|stamp| stamp.time);
            self.ledger.add(Cause::Unfinished, None, time, 1);
        }
        if open.ambiguous_issue {
            request.issue = None;
        }
        // Handed back after a direct issue, it entered the scheduler and did not come out.
        if let (Some(insert), Some(issue)) = (request.insert, request.issue)
            && issue.time < insert.time
        {
            request.insert = None;
        }
        out.push(request);
    }

    /// Gives up that many records, those with the lowest numbers, in the order of the numbers.
    pub(super) fn give_up_oldest(&mut self, count: usize, out: &mut Vec<Request>) {
        let open = &self.open;
        let mut oldest: Vec<_> = open.slots().filter_map(|slot| open.name(slot)).collect();
        oldest.sort_unstable_by_key(|(_, number)| *number);
        oldest.truncate(count);
        let Some(&(_, last)) = oldest.last() else { return };
        // All lists are cleaned in one pass each, since a pass for each record would be quadratic.
        self.clear_flights(|open| open.request.request <= last);
        let open = &self.open;
        self.devices
            .drop_where(|slot| open.get(slot).is_none_or(|open| open.request.request <= last));
        for (slot, _) in oldest {
            if let Some(open) = self.open.remove(slot) {
                self.devices.get_mut(open.device).count_out(&open);
                self.leave_open(open, out);
            }
        }
    }

    /// The oldest record that stands at a place and fits.
    pub(super) fn find(
        &self,
        device: usize,
        op: Op,
        sector: Sector,
        fits: impl Fn(&Open) -> bool,
    ) -> Option<Slot> {
        self.open.starting_at(device, op, sector).find(|(_, open)| fits(open)).map(|(slot, _)| slot)
    }

    /// Moves a record to its next phase; an illegal move leaves it where it is.
    pub(super) fn advance(&mut self, slot: Slot, action: Move) {
        if let Some(open) = self.open.get_mut(slot)
            && let Some(next) = step(open.phase, action)
        {
            if open.is_queued() {
                let state = self.devices.get_mut(open.device);
                state.queued = state.queued.saturating_sub(1);
            }
            open.phase = next;
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
            self.taint(slot, event.time);
        }
        if let Some(open) = self.open.get_mut(slot)
            && !open.tainted
        {
            change(open, stamp(event));
        }
    }
}
