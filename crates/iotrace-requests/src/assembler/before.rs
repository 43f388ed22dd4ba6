//! What happens to a request before the driver has it: queue, split, get, insert.

use iotrace_model::{Action, Event, Op, Request, SECTOR_BYTES, Sector};

use super::{Assembler, operation, stamp};
use crate::chains::Slot;
use crate::open::{Open, after};
use crate::phase::{Move, Phase, step};

/// Pieces of one bio whose count is kept up to date.
const MOST_PIECES: usize = 256;

impl Assembler {
    /// A bio enters the block layer.
    pub(super) fn queue(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        if self.is_queued_again(event, device) {
            return;
        }
        let in_doubt = self.displace(event, device, out);
        let state = self.devices.get(device);
        let others = (state.tainted == 0).then_some(state.open);
        let link = self.links.take(state.id, event.sector);
        let slot = self.begin(event, device, Phase::Queued, 1);
        if in_doubt {
            self.taint(slot, event.time);
        }
        if let Some(open) = self.open.get_mut(slot) {
            open.request.queue = Some(stamp(event));
            open.request.queued_at_queue = others;
        }
        if let Some(link) = link {
            self.adopt(slot, &link);
        }
        if event.sector.is_none() && operation(event) == Op::Flush {
            self.devices.get_mut(device).flushes.push(slot);
        }
    }

    /// A bio is cut: the piece before the new sector becomes a record of its own, with the queue
    /// time of the bio; the rest goes on.
    pub(super) fn split(&mut self, event: &Event, device: usize) {
        let (Some(start), Some(rest)) = (event.sector, event.remap.map(|remap| remap.sector))
        else {
            return self.orphan(event);
        };
        let slot = self.find_bio(event, device);
        if start >= rest {
            // Linux 5.11 names 0 as the start of every rest: the get event tells where the cut was.
            if rest.0 > 0 || slot.is_none() {
                self.note_split_below(event, device, rest);
            }
            return;
        }
        let piece_bytes = (rest.0 - start.0).saturating_mul(SECTOR_BYTES);
        if slot.and_then(|slot| self.cut(slot, event, piece_bytes)).is_none() {
            self.orphan(event);
        }
    }

    /// Makes a record of the first bytes of a bio; `None` if the bio is not longer than that.
    fn cut(&mut self, slot: Slot, event: &Event, piece_bytes: u64) -> Option<Slot> {
        let whole = self.open.get(slot)?.clone();
        let start = whole.request.sector?;
        if piece_bytes >= whole.request.length_bytes {
            return None;
        }
        self.devices.get_mut(whole.device).shown.split = true;
        let (splits, in_doubt) = (whole.request.splits + 1, whole.tainted);
        let piece = self.begin(event, whole.device, Phase::Queued, 1);
        self.open.reshape(piece, |open| {
            let (number, tainted) = (open.request.request, open.tainted);
            *open = Open { tainted, ..whole };
            open.request.request = number;
            open.request.length_bytes = piece_bytes;
        });
        if in_doubt {
            self.taint(piece, event.time);
        }
        let name = self.open.name(piece);
        self.open.reshape(slot, |open| {
            open.request.sector = Some(after(start, piece_bytes));
            open.request.length_bytes -= piece_bytes;
            open.previous_piece = name;
        });
        self.count_splits(slot, splits);
        Some(piece)
    }

    /// The bio that goes on alone with the length of an event: a longer one was split unseen.
    pub(super) fn cut_to(&mut self, slot: Slot, event: &Event) -> Slot {
        let is_piece = event.length_bytes > 0
            && event.length_bytes.is_multiple_of(SECTOR_BYTES)
            && self
                .open
                .get(slot)
                .is_some_and(|open| event.length_bytes < open.request.length_bytes);
        let piece = if is_piece { self.cut(slot, event, event.length_bytes) } else { None };
        piece.unwrap_or(slot)
    }

    /// A request is allocated for a bio.
    pub(super) fn get(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let slot = match event.sector {
            Some(_) => self.find_bio(event, device),
            None => self.find_flush(device, Open::is_queued),
        };
        let slot = match slot {
            Some(slot) => self.cut_to(slot, event),
            None => self.begin_without_queue(event, device, out),
        };
        self.advance(slot, Move::Get);
        self.touch(slot, event, |open, at| open.request.get = Some(at));
    }

    /// The request enters the scheduler. The first insert counts.
    pub(super) fn insert(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let slot = self.find_to_insert(event, device);
        let slot = slot.unwrap_or_else(|| self.begin_without_queue(event, device, out));
        self.advance(slot, Move::Insert);
        self.touch(slot, event, |open, at| {
            open.request.insert.get_or_insert(at);
        });
    }

    /// The pending bio at an event's place: the latest of the thread that is running, since a
    /// thread gets a request for its bio at once, and an older bio of it was refused (`NOWAIT`);
    /// else the oldest, since a bio held back by a throttle is taken up by another thread.
    pub(super) fn find_bio(&self, event: &Event, device: usize) -> Option<Slot> {
        let sector = event.sector?;
        let queued =
            || self.open.starting_at(device, event.op, sector).filter(|(_, open)| open.is_queued());
        let own = queued().filter(|(_, open)| open.request.pid == event.pid).last();
        own.or_else(|| queued().next()).map(|(slot, _)| slot)
    }

    /// A record for a request whose queue event was not seen; after a remap without a queue
    /// event (md, or a trace without them) the remap is its arrival.
    pub(super) fn begin_without_queue(
        &mut self,
        event: &Event,
        device: usize,
        out: &mut Vec<Request>,
    ) -> Slot {
        let in_doubt = self.displace(event, device, out);
        let state = self.devices.get(device);
        let is_arrival = !state.shown.queue;
        let link = event.sector.and_then(|sector| self.links.take(state.id, Some(sector)));
        // A get without a place is that of an empty flush bio.
        let is_bio = event.sector.is_some() || event.action == Action::Get;
        let slot = self.begin(event, device, Phase::Queued, u32::from(is_bio));
        if in_doubt {
            self.taint(slot, event.time);
        }
        if let Some(link) = link
            && (self.adopt(slot, &link) || is_arrival)
            && let Some(open) = self.open.get_mut(slot)
        {
            open.request.queue = Some(link.stamp);
            open.request.pid = link.pid;
            open.request.comm = link.comm;
            open.request.cgroup = link.cgroup;
        }
        if event.sector.is_none() {
            let state = self.devices.get_mut(device);
            if is_bio { state.flushes.push(slot) } else { state.aside.push(slot) }
        }
        slot
    }

    /// Whether a queue event is that of the rest of a split bio: kernels before 4.12 queue it once
    /// more. The bio's own queue time counts.
    fn is_queued_again(&self, event: &Event, device: usize) -> bool {
        let is_rest = |open: &Open| {
            open.is_queued()
                && open.previous_piece.is_some()
                && open.request.length_bytes == event.length_bytes
                && open.request.pid == event.pid
        };
        self.devices.get(device).shown.split
            && event.sector.is_some_and(|at| self.find(device, event.op, at, is_rest).is_some())
    }

    fn find_to_insert(&self, event: &Event, device: usize) -> Option<Slot> {
        let Some(sector) = event.sector else {
            return self.find_aside(event, device);
        };
        let can_enter = |open: &Open| step(open.phase, Move::Insert).is_some();
        self.find(device, event.op, sector, |open| open.phase == Phase::Got)
            .or_else(|| self.find(device, event.op, sector, Open::is_queued))
            .or_else(|| self.find(device, event.op, sector, can_enter))
    }

    /// dm reports a split after its bio has moved on: nothing is left to cut, only to count.
    fn note_split_below(&mut self, event: &Event, device: usize, rest: Sector) {
        let covers = |open: &Open| {
            open.is_queued()
                && open.request.sector.is_some_and(|start| start < rest)
                && open.end().is_some_and(|end| rest < end)
        };
        let slot = self.open.youngest(device, event.op, covers);
        match slot.and_then(|slot| self.open.get_mut(slot)) {
            Some(open) => open.request.splits += 1,
            None => self.orphan(event),
        }
    }

    /// Brings the count of splits up to date on the rest of a bio and on its pieces.
    fn count_splits(&mut self, slot: Slot, splits: u32) {
        let mut next = Some(slot);
        for _ in 0..MOST_PIECES {
            let Some(open) = next.and_then(|slot| self.open.get_mut(slot)) else { return };
            open.request.splits = splits;
            next = open.previous_piece.and_then(|name| self.open.named(name));
        }
    }
}
