//! How bios and requests join: the survivor keeps the earliest queue time and all bios.

use iotrace_model::{Action, Bio, Event, Op, Request};

use super::Assembler;
use crate::chains::Slot;
use crate::open::Open;

impl Assembler {
    /// A bio joins a waiting request; or, as blktrace has one letter for both, a request does.
    pub(super) fn merge(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let bio = self.find_bio(event, device);
        let is_whole = |open: &Open| open.rest_bytes() == event.length_bytes;
        let is_bio = bio.and_then(|bio| self.open.get(bio)).is_some_and(is_whole);
        if !is_bio
            && event.action == Action::BackMerge
            && let Some(sector) = event.sector
            && let Some(request) =
                self.find(device, event.op, sector, |open| open.is_waiting() && is_whole(open))
        {
            return self.merge_whole(event, device, request, out);
        }
        let Some(bio) = bio else { return self.orphan(event) };
        let bio = self.cut_to(bio, event);
        let is_front = event.action == Action::FrontMerge;
        let Some(target) = self.find_target(event, device, bio, is_front) else {
            return self.join_unknown(event, bio, out);
        };
        let Some(joined) = self.absorb(bio, target, event) else { return };
        self.open.reshape(target, |open| {
            if is_front {
                open.request.sector = joined.request.sector;
                open.request.front_merges += 1;
            } else {
                open.request.back_merges += 1;
            }
        });
    }

    /// A whole request is absorbed by the one that ends where it starts.
    pub(super) fn merge_request(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let Some(sector) = event.sector else { return self.orphan(event) };
        let Some(absorbed) = self.find(device, event.op, sector, Open::is_waiting) else {
            return self.orphan(event);
        };
        self.merge_whole(event, device, absorbed, out);
    }

    fn merge_whole(
        &mut self,
        event: &Event,
        device: usize,
        absorbed: Slot,
        out: &mut Vec<Request>,
    ) {
        let Some(survivor) = self.find_target(event, device, absorbed, false) else {
            return self.join_unknown(event, absorbed, out);
        };
        if let Some(joined) = self.absorb(absorbed, survivor, event)
            && let Some(open) = self.open.get_mut(survivor)
        {
            open.request.back_merges += joined.request.back_merges + 1;
            open.request.front_merges += joined.request.front_merges;
        }
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
            request.bios = request.bios.saturating_add(joined.request.bios);
            request.length_bytes = request.length_bytes.saturating_add(joined.request.length_bytes);
            let queues = [request.queue, joined.request.queue];
            request.queue = queues.into_iter().flatten().min_by_key(|stamp| stamp.time);
            open.ambiguous_issue |= joined.ambiguous_issue;
        });
        if taint {
            self.taint(into, event.time);
        }
        Some(joined)
    }

    /// The waiting request that a bio or request joins. Discards need not touch: a drive takes
    /// several ranges in one command, so the youngest waiting discard is meant.
    fn find_target(
        &mut self,
        event: &Event,
        device: usize,
        joining: Slot,
        is_front: bool,
    ) -> Option<Slot> {
        let (sector, end) = (event.sector?, self.open.get(joining)?.end()?);
        let touching = if is_front {
            self.open
                .starting_at(device, event.op, end)
                .find(|(slot, open)| *slot != joining && open.is_waiting())
                .map(|(slot, _)| slot)
        } else {
            self.open
                .ending_at(device, event.op, sector)
                .find(|(slot, open)| *slot != joining && open.is_waiting())
                .map(|(slot, _)| slot)
        };
        let number = self.open.get(joining)?.request.request;
        touching.or_else(|| {
            let is_other = |open: &Open| open.is_waiting() && open.request.request != number;
            (event.op == Op::Discard)
                .then(|| self.open.youngest(device, event.op, is_other))
                .flatten()
        })
    }

    /// What joins a request that was never seen has no life of its own any more.
    fn join_unknown(&mut self, event: &Event, joining: Slot, out: &mut Vec<Request>) {
        self.orphan(event);
        if self.is_after_loss() {
            self.taint(joining, event.time);
        }
        self.give_up(joining, out);
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
