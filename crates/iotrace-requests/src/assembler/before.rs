//! What happens to a request before the driver has it: queue, split, get, merges, insert, remap.

use iotrace_model::{Action, Bio, Event, Op, Request, Sector};

use super::{Assembler, operation, stamp};
use crate::links::Link;
use crate::open::{Open, Slot};
use crate::phase::{Move, Phase, step};

impl Assembler {
    /// A bio enters the block layer.
    pub(super) fn queue(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        self.give_up_shadows(event, device, out);
        let others = self.devices[device].open;
        let slot = self.begin(event, device, Phase::Queued, 1);
        let sure = self.tainted == 0;
        let link = event.sector.and_then(|sector| {
            let id = self.devices[device].id;
            self.links.take(id, sector)
        });
        if let Some(open) = self.open.get_mut(slot) {
            open.request.queue = Some(stamp(event));
            open.request.queued_at_queue = sure.then_some(others);
            if let Some(link) = link {
                adopt(open, &link);
            }
        }
        if event.sector.is_none() && operation(event) == Op::Flush {
            self.devices[device].flushes.push(slot);
        }
    }

    /// A bio is cut: the piece before the new sector becomes a request of its own.
    pub(super) fn split(&mut self, event: &Event, device: usize) {
        let (Some(start), Some(rest)) = (event.sector, event.remap.map(|remap| remap.sector))
        else {
            return self.orphan(event);
        };
        let found = self.find(device, event.op, start, |open| open.phase == Phase::Queued);
        let Some(slot) = found else { return self.orphan(event) };
        let Some(whole) = self.open.get(slot).cloned() else { return };
        let piece_bytes =
            rest.0.saturating_sub(start.0).saturating_mul(iotrace_model::SECTOR_BYTES);
        if piece_bytes == 0 || piece_bytes >= whole.request.length_bytes {
            // dm reports the split after its bio has moved on; there is nothing left to cut.
            return;
        }
        let splits = whole.request.splits + 1;
        self.open.reshape(slot, |open| {
            open.request.sector = Some(rest);
            open.request.length_bytes -= piece_bytes;
            open.request.splits = splits;
        });
        let in_doubt = whole.tainted;
        let piece = self.begin(event, device, Phase::Queued, 1);
        self.open.reshape(piece, |open| {
            let number = open.request.request;
            let tainted = open.tainted;
            *open = whole;
            open.tainted = tainted;
            open.request.request = number;
            open.request.length_bytes = piece_bytes;
            open.request.splits = splits;
        });
        if in_doubt {
            self.taint(piece);
        }
    }

    /// A request is allocated for a bio.
    pub(super) fn get(&mut self, event: &Event, device: usize) {
        let slot = match event.sector {
            Some(sector) => self.find(device, event.op, sector, |open| open.phase == Phase::Queued),
            None => {
                self.devices[device].flushes.iter().copied().find(|slot| {
                    self.open.get(*slot).is_some_and(|open| open.phase == Phase::Queued)
                })
            }
        };
        let slot = slot.unwrap_or_else(|| self.begin_without_queue(event, device));
        self.advance(slot, Move::Get);
        self.touch(slot, event, |open, at| open.request.get = Some(at));
    }

    /// A bio joins a waiting request.
    pub(super) fn merge(&mut self, event: &Event, device: usize) {
        let Some(sector) = event.sector else { return self.orphan(event) };
        let Some(bio) = self.find(device, event.op, sector, |open| open.phase == Phase::Queued)
        else {
            return self.orphan(event);
        };
        let is_front = event.action == Action::FrontMerge;
        let end = self.open.get(bio).and_then(Open::end).unwrap_or(sector);
        let target = if is_front {
            self.find(device, event.op, end, is_waiting)
        } else {
            self.open
                .ending_at(device, event.op, sector)
                .find(|(slot, open)| *slot != bio && is_waiting(open))
                .map(|(slot, _)| slot)
        };
        let Some(target) = target else { return self.orphan(event) };
        if let Some(joined) = self.absorb(bio, target, event) {
            self.open.reshape(target, |open| {
                if is_front {
                    open.request.sector = joined.request.sector;
                    open.request.front_merges += 1;
                } else {
                    open.request.back_merges += 1;
                }
            });
        }
    }

    /// A whole request is absorbed by the one before it.
    pub(super) fn merge_request(&mut self, event: &Event, device: usize) {
        let Some(sector) = event.sector else { return self.orphan(event) };
        let absorbed = self.find(device, event.op, sector, is_waiting);
        let survivor = self
            .open
            .ending_at(device, event.op, sector)
            .find(|(slot, open)| Some(*slot) != absorbed && is_waiting(open))
            .map(|(slot, _)| slot);
        let (Some(absorbed), Some(survivor)) = (absorbed, survivor) else {
            return self.orphan(event);
        };
        if let Some(joined) = self.absorb(absorbed, survivor, event)
            && let Some(open) = self.open.get_mut(survivor)
        {
            open.request.back_merges += joined.request.back_merges + 1;
            open.request.front_merges += joined.request.front_merges;
        }
    }

    /// The request enters the scheduler.
    pub(super) fn insert(&mut self, event: &Event, device: usize) {
        let found = event
            .sector
            .and_then(|sector| {
                self.find(device, event.op, sector, |open| {
                    step(open.phase, Move::Insert).is_some() && open.phase != Phase::Inserted
                })
            })
            .or_else(|| {
                event.sector.and_then(|sector| {
                    self.find(device, event.op, sector, |open| open.phase == Phase::Inserted)
                })
            });
        let slot = found.unwrap_or_else(|| self.begin_without_queue(event, device));
        self.advance(slot, Move::Insert);
        self.touch(slot, event, |open, at| {
            open.request.insert.get_or_insert(at);
        });
    }

    /// A bio moves to a lower device.
    pub(super) fn remap(&mut self, event: &Event, device: usize) {
        let (Some(sector), Some(from)) = (event.sector, event.remap) else {
            return self.orphan(event);
        };
        let id = self.devices[device].id;
        let upper = self.device(from.device);
        let above = self
            .find(upper, event.op, from.sector, |open| open.phase == Phase::Queued)
            .and_then(|slot| self.open.get(slot));
        let link = match (above, self.links.take(from.device, from.sector)) {
            (Some(open), _) => Link {
                device: id,
                sector,
                parent: Some(open.request.request),
                pid: open.request.pid,
                comm: open.request.comm,
                cgroup: open.request.cgroup,
                stamp: stamp(event),
            },
            // The second of two remaps, through a partition.
            (None, Some(link)) => Link { device: id, sector, ..link },
            (None, None) => Link {
                device: id,
                sector,
                parent: None,
                pid: event.pid,
                comm: event.comm,
                cgroup: event.cgroup,
                stamp: stamp(event),
            },
        };
        self.links.push(link);
    }

    /// A record for a request whose queue event was not seen; after a remap without a queue
    /// event (md) the remap is its arrival.
    fn begin_without_queue(&mut self, event: &Event, device: usize) -> Slot {
        let slot = self.begin(event, device, Phase::Queued, 1);
        let id = self.devices[device].id;
        let link = event.sector.and_then(|sector| self.links.take(id, sector));
        if let (Some(link), Some(open)) = (link, self.open.get_mut(slot)) {
            adopt(open, &link);
            if link.parent.is_some() {
                open.request.queue = Some(link.stamp);
            }
        }
        slot
    }

    /// Moves what one record carries into another and forgets it.
    pub(super) fn absorb(&mut self, from: Slot, into: Slot, event: &Event) -> Option<Open> {
        let beside_loss = self.is_beside_loss(event.time);
        let joined = self.forget(from)?;
        let taint = joined.tainted || beside_loss;
        self.open.reshape(into, |open| {
            let request = &mut open.request;
            if request.merged_bios.is_empty() {
                request.merged_bios.extend(own_bio(request));
            }
            if joined.request.merged_bios.is_empty() {
                request.merged_bios.extend(own_bio(&joined.request));
            } else {
                request.merged_bios.extend_from_slice(&joined.request.merged_bios);
            }
            request.merged_bios.sort_by_key(|bio| (bio.queue, bio.sector));
            request.bios += joined.request.bios;
            request.length_bytes = request.length_bytes.saturating_add(joined.request.length_bytes);
            let queues = [request.queue, joined.request.queue];
            request.queue = queues.into_iter().flatten().min_by_key(|stamp| stamp.time);
        });
        if taint {
            self.taint(into);
        }
        Some(joined)
    }

    /// The oldest record that starts at a place and is in a fitting phase.
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
            open.phase = next;
        }
    }
}

fn is_waiting(open: &Open) -> bool {
    matches!(open.phase, Phase::Got | Phase::Inserted)
}

/// A lower request belongs to the thread that asked for it at the top.
fn adopt(open: &mut Open, link: &Link) {
    open.request.parent = link.parent;
    if link.parent.is_some() {
        open.request.pid = link.pid;
        open.request.comm = link.comm;
        open.request.cgroup = link.cgroup;
    }
}

/// A request's only bio, where its queue event was seen.
fn own_bio(request: &Request) -> Option<Bio> {
    Some(Bio {
        queue: request.queue?.time,
        sector: request.sector?,
        length_bytes: request.length_bytes,
    })
}
