//! Devices on top of each other: remaps, and the completions of devices without requests.

use iotrace_model::{Action, Event, Op, Request, Sector};

use super::{Assembler, operation, stamp};
use crate::chains::Slot;
use crate::links::Link;
use crate::open::{Open, after};

impl Assembler {
    /// A bio moves to a lower device.
    pub(super) fn remap(&mut self, event: &Event, device: usize) {
        let Some(from) = event.remap else { return self.orphan(event) };
        let upper = self.devices.index(from.device);
        let above = match event.sector {
            None => self.find_flush(upper, Open::is_queued),
            Some(_) => self.find_above(event, upper, from.sector),
        };
        let device = self.devices.get(device).id;
        let own = Link {
            device,
            sector: event.sector,
            parent: None,
            pid: event.pid,
            comm: event.comm,
            cgroup: event.cgroup,
            stamp: stamp(event),
        };
        let from_sector = event.sector.map(|_| from.sector);
        let link = match above.and_then(|slot| Some((slot, &self.open.get(slot)?.request))) {
            Some((slot, request)) => Link {
                parent: Some((slot, request.request)),
                pid: request.pid,
                comm: request.comm,
                cgroup: request.cgroup,
                ..own
            },
            // The second of two remaps, through a partition.
            None => match self.links.take_first(from.device, device, from_sector, event.cpu) {
                Some(first) => Link { device, sector: event.sector, ..first },
                None => own,
            },
        };
        self.links.push(link);
    }

    /// A lower request belongs to the thread that asked for it at the top. Says whether it has a
    /// parent.
    pub(super) fn adopt(&mut self, slot: Slot, link: &Link) -> bool {
        let parent = link.parent.filter(|name| self.open.named(*name).is_some());
        let (Some((_, number)), Some(open)) = (parent, self.open.get_mut(slot)) else {
            return false;
        };
        open.request.parent = Some(number);
        open.request.pid = link.pid;
        open.request.comm = link.comm;
        open.request.cgroup = link.cgroup;
        true
    }

    /// A bio-based device reports a bio done. After a split below, the event names the last
    /// piece only, or a whole of which only the last piece is left: so the end decides.
    pub(super) fn complete_bio(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let op = operation(event);
        let mut fitting = std::mem::take(&mut self.scratch);
        fitting.clear();
        if let Some(sector) = event.sector {
            let end = after(sector, event.length_bytes);
            let ending = self.open.ending_at(device, op, end).filter(|(_, o)| o.is_queued());
            fitting.extend(ending.map(|(slot, _)| slot));
            let is_whole = |slot: &Slot| {
                self.open.get(*slot).is_some_and(|open| open.request.sector == Some(sector))
            };
            if fitting.iter().any(is_whole) {
                fitting.retain(is_whole);
            }
            if fitting.is_empty() {
                let starting = self.open.starting_at(device, op, sector);
                fitting.extend(starting.filter(|(_, open)| open.is_queued()).map(|(slot, _)| slot));
            }
        } else {
            let is_bio = |open: &Open| {
                open.is_queued() && (open.request.op == Op::Flush || open.request.op == op)
            };
            fitting.extend(self.find_flush(device, is_bio));
        }
        let found = self.choose_complete(&fitting, event);
        self.scratch = fitting;
        match found {
            Some(slot) if self.is_first_part(slot, event) => {
                self.open.reshape(slot, |open| open.done_bytes += event.length_bytes);
            }
            Some(slot) => {
                self.join_pieces(slot);
                self.end(slot, event, out);
            }
            None => self.complete_unknown(event, device, out),
        }
    }

    /// Whether a completion is that of a part of a bio. Only a request completes in parts, and one
    /// whose trace shows no more than queue and completion is taken for its bio.
    fn is_first_part(&self, slot: Slot, event: &Event) -> bool {
        event.action == Action::Complete
            && event.error.is_none_or(|error| error == 0)
            && self.open.get(slot).is_some_and(|open| {
                open.position() == event.sector && event.length_bytes < open.rest_bytes()
            })
    }

    /// The bio of an upper device that a remap comes from: one that starts there, or, for the
    /// later pieces of a split, one that holds the place.
    fn find_above(&self, event: &Event, upper: usize, sector: Sector) -> Option<Slot> {
        let holds = |open: &Open| {
            open.is_queued()
                && open.request.sector.is_some_and(|start| start <= sector)
                && open.end().is_some_and(|end| sector < end)
        };
        let starting = self.find(upper, event.op, sector, Open::is_queued);
        // A device without bios of its own, such as a partition, is not searched.
        if starting.is_some() || self.devices.get(upper).queued == 0 {
            return starting;
        }
        self.open.youngest(upper, event.op, holds)
    }

    /// Puts a bio together again: its pieces had no requests, and they end with it.
    fn join_pieces(&mut self, slot: Slot) {
        loop {
            let piece = self.open.get(slot).and_then(|open| open.previous_piece);
            let piece = piece.and_then(|name| self.open.named(name));
            let queued = piece.filter(|piece| self.open.get(*piece).is_some_and(Open::is_queued));
            let Some(piece) = queued.and_then(|piece| self.forget(piece)) else { return };
            self.open.reshape(slot, |open| {
                open.request.sector = piece.request.sector;
                open.request.length_bytes =
                    open.request.length_bytes.saturating_add(piece.request.length_bytes);
                open.previous_piece = piece.previous_piece;
            });
        }
    }
}
