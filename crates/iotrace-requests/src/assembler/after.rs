//! What happens to a request from its issue on, short of its completion: issue, requeue, and the
//! command that the driver makes of it.

use iotrace_model::{Event, Flags, Op, Request, Sector};

use super::flight::MOST_WITHOUT_PLACE;
use super::{Assembler, operation};
use crate::chains::Slot;
use crate::open::{Open, after};
use crate::phase::Move;

impl Assembler {
    /// The request goes to the driver.
    pub(super) fn issue(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let slot = match self.find_to_issue(event, device) {
            Some(slot) => slot,
            None => self.begin_without_queue(event, device, out),
        };
        self.grow(slot, event, device);
        self.leave_flight(slot);
        let state = self.devices.get_mut(device);
        if event.sector.is_none() {
            state.aside.retain(|other| *other != slot);
        }
        let others = (state.tainted == 0).then(|| state.flight.depth());
        let seek = event.sector.zip(state.last_end).map(|(to, from)| distance(from, to));
        if let Some(sector) = event.sector {
            state.last_end = Some(after(sector, event.length_bytes));
        }
        self.enter_flight(slot, device);
        self.advance(slot, Move::Issue);
        let kept = event.flags;
        self.touch(slot, event, |open, at| {
            let request = &mut open.request;
            request.issue = Some(at);
            request.in_flight_at_issue = others;
            request.seek_sectors = seek;
            request.overtaken = Some(0);
            let asked = [Flags::FUA, Flags::PREFLUSH];
            open.is_staged = asked.iter().any(|flag| request.flags.has(*flag) && !kept.has(*flag));
        });
    }

    /// The driver hands the request back, or had no room for it to begin with.
    pub(super) fn requeue(&mut self, event: &Event, device: usize) {
        let [first, second] = if let Some(sector) = event.sector {
            self.issued_last(device, event.op, sector, |_| true)
        } else {
            let in_flight = self.devices.get(device).flight.latest(MOST_WITHOUT_PLACE).rev();
            let mut fitting = in_flight.filter(|slot| {
                self.open.get(*slot).is_some_and(|open| {
                    open.request.op == operation(event) && open.position().is_none()
                })
            });
            [fitting.next(), fitting.next()]
        };
        let found = first.or_else(|| match event.sector {
            Some(sector) => self.find(device, event.op, sector, Open::is_waiting),
            None => self.find_aside(event, device),
        });
        let Some(slot) = found else { return self.orphan(event) };
        if let Some(twin) = second {
            self.doubt_complete(slot);
            self.doubt_complete(twin);
        }
        self.leave_flight(slot);
        self.advance(slot, Move::Requeue);
        self.touch(slot, event, |open, _| open.request.requeues += 1);
        if event.sector.is_none() {
            let aside = &mut self.devices.get_mut(device).aside;
            if !aside.contains(&slot) {
                aside.push(slot);
            }
        }
    }

    /// The driver sends the command of a request to the drive: the request issued last at its
    /// place, or, for commands without a place (flush, TRIM), the oldest of its kind.
    pub(super) fn command(&mut self, event: &Event, device: usize) {
        let found = match event.sector {
            Some(sector) => {
                let is_length = |open: &Open| {
                    event.length_bytes == 0 || open.rest_bytes() == event.length_bytes
                };
                let fits = |open: &Open| open.request.protocol.is_none() && is_length(open);
                self.issued_last(device, event.op, sector, fits)[0]
            }
            None => self.devices.get(device).flight.latest(MOST_WITHOUT_PLACE).find(|slot| {
                self.open.get(*slot).is_some_and(|open| {
                    open.request.protocol.is_none() && open.request.op == event.op
                })
            }),
        };
        if let Some(slot) = found {
            self.touch(slot, event, |open, _| {
                open.request.tag = event.tag;
                open.request.protocol = event.protocol;
            });
        }
    }

    /// A request without a place that waits for the driver.
    pub(super) fn find_aside(&self, event: &Event, device: usize) -> Option<Slot> {
        self.devices.get(device).aside.iter().copied().find(|slot| {
            self.open.get(*slot).is_some_and(|open| {
                open.request.op == operation(event)
                    && open.request.length_bytes == event.length_bytes
            })
        })
    }

    /// The record that an issue belongs to: one that waits, else a bio whose get was not seen,
    /// else the same request issued again. Of a request whose beginning was seen the last is
    /// always believed. Where the trace of a device never shows beginnings, two issues can be two
    /// requests: two readers may want one sector at once, and two threads may write it. Nobody
    /// else asks twice for what is under way; a driver that sends a write again does so from a
    /// kernel worker.
    fn find_to_issue(&mut self, event: &Event, device: usize) -> Option<Slot> {
        let Some(sector) = event.sector else { return self.find_aside(event, device) };
        let is_twin = match event.op {
            Op::Read => true,
            Op::Write => !event.comm.as_bytes().starts_with(b"kworker"),
            Op::Flush
            | Op::Discard
            | Op::SecureErase
            | Op::ZoneAppend
            | Op::ZoneManagement
            | Op::Other => false,
        };
        let is_hidden = !is_twin && !self.devices.get(device).shown.bio;
        let is_again = |open: &Open| {
            let request = &open.request;
            let begun = [request.queue, request.get, request.insert].into_iter().flatten().next();
            open.is_issued()
                && open.rest_bytes() == event.length_bytes
                && (begun.is_some() || is_hidden)
        };
        self.choose_to_issue(event, device, sector, Open::is_waiting)
            .or_else(|| self.choose_to_issue(event, device, sector, Open::is_queued))
            .or_else(|| self.find(device, event.op, sector, is_again))
    }

    /// The oldest record at a place that fits, those of the issue's length first. Where the choice
    /// is a guess, all that could be meant are marked.
    fn choose_to_issue(
        &mut self,
        event: &Event,
        device: usize,
        sector: Sector,
        fits: impl Fn(&Open) -> bool,
    ) -> Option<Slot> {
        let at_place =
            || self.open.starting_at(device, event.op, sector).filter(|(_, open)| fits(open));
        let mut exact = at_place().filter(|(_, open)| open.rest_bytes() == event.length_bytes);
        if let (Some((slot, _)), None) = (exact.next(), exact.next()) {
            return Some(slot);
        }
        drop(exact);
        let mut fitting = std::mem::take(&mut self.scratch);
        fitting.clear();
        let exact = at_place().filter(|(_, open)| open.rest_bytes() == event.length_bytes);
        fitting.extend(exact.map(|(slot, _)| slot));
        if fitting.is_empty() {
            fitting.extend(at_place().map(|(slot, _)| slot));
        }
        let first = fitting.first().copied();
        if fitting.len() > 1 {
            for slot in &fitting {
                if let Some(open) = self.open.get_mut(*slot) {
                    open.ambiguous_issue = true;
                }
            }
        }
        self.scratch = fitting;
        first
    }

    /// Brings a record to the length of its issue, taking in the records that it covers: before
    /// Linux 5.9 requests could be joined without an event.
    fn grow(&mut self, slot: Slot, event: &Event, device: usize) {
        let Some(stop) = event.sector.map(|start| after(start, event.length_bytes)) else {
            return;
        };
        while let Some(end) = self.open.get(slot).and_then(Open::end)
            && end < stop
        {
            let next = self.find(device, event.op, end, Open::is_waiting);
            let Some(next) = next.filter(|next| *next != slot) else { break };
            if self.absorb(next, slot, event).is_none() {
                break;
            }
        }
        if self.open.get(slot).is_some_and(|open| open.rest_bytes() != event.length_bytes) {
            self.open.reshape(slot, |open| {
                open.request.length_bytes = open.done_bytes.saturating_add(event.length_bytes);
            });
        }
    }
}

fn distance(from: Sector, to: Sector) -> i64 {
    let difference = i128::from(to.0) - i128::from(from.0);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}
