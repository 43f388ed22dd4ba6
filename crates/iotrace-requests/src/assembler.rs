//! Takes events in order and gives requests back as they end.
//!
//! `before` holds what happens above the driver (queue to insert), `after` what happens from issue
//! to completion, `gaps` what losses do. A record leaves through `emit` only.

mod after;
mod before;
mod gaps;

use iotrace_model::{
    Action, Cause, DeviceId, Event, Flags, Item, Ledger, Nanos, Op, Request, Sector, Stamp, Status,
};

use crate::links::Links;
use crate::open::{Open, OpenRequests, Slot};
use crate::phase::Phase;

/// Requests that may be under way at once; beyond it the oldest are given up as lost.
const MOST_OPEN: usize = 1 << 20;

/// The state machine from events to requests.
#[derive(Debug, Default)]
pub struct Assembler {
    open: OpenRequests,
    devices: Vec<Device>,
    links: Links,
    /// Number of the next request.
    next_request: u64,
    /// Events until this time stand beside a loss.
    loss_until: Option<Nanos>,
    /// Open records that are tainted.
    tainted: usize,
    ledger: Ledger,
}

/// What is known of one device.
#[derive(Debug)]
struct Device {
    id: DeviceId,
    /// Open records of it.
    open: u32,
    /// Records that the driver has, in the order of their last issue.
    in_flight: Vec<Slot>,
    /// Empty flush bios that wait for their completion, oldest first.
    flushes: Vec<Slot>,
    /// Sector after the last request that was issued.
    last_end: Option<Sector>,
}

impl Assembler {
    /// A machine that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next item; requests that it ends are added to `out`.
    ///
    /// Items must come in the order of `iotrace-parse`: by time, losses at their start.
    pub fn push(&mut self, item: &Item, out: &mut Vec<Request>) {
        match item {
            Item::Loss(loss) => self.lose(loss),
            Item::Event(event) => {
                if let Some(id) = event.device {
                    let device = self.device(id);
                    self.event(event, device, out);
                }
            }
        }
    }

    /// Gives back what is still open, in the order of the numbers, and the ledger.
    pub fn finish(mut self, out: &mut Vec<Request>) -> Ledger {
        let mut slots: Vec<Slot> = self.open.slots().collect();
        slots.sort_by_key(|slot| self.open.get(*slot).map(|open| open.request.request));
        for slot in slots {
            self.give_up(slot, out);
        }
        self.ledger
    }

    fn event(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        match event.action {
            Action::Queue => self.queue(event, device, out),
            Action::Split => self.split(event, device),
            Action::Get => self.get(event, device),
            Action::BackMerge | Action::FrontMerge => self.merge(event, device),
            Action::RequestMerge => self.merge_request(event, device),
            Action::Insert => self.insert(event, device),
            Action::Issue => self.issue(event, device),
            Action::Requeue => self.requeue(event, device),
            Action::Complete => self.complete(event, device, out),
            Action::BioComplete => self.complete_bio(event, device, out),
            Action::Remap => self.remap(event, device),
            Action::CommandIssue => self.command(event, device),
            Action::CommandComplete
            | Action::Plug
            | Action::Unplug
            | Action::UnplugTimer
            | Action::RequestRemap
            | Action::Bounce
            | Action::Sleep
            | Action::Abort
            | Action::Message
            | Action::Unknown(_) => {}
        }
        if self.open.len() > MOST_OPEN {
            self.give_up_oldest(out);
        }
    }

    fn device(&mut self, id: DeviceId) -> usize {
        if let Some(place) = self.devices.iter().position(|device| device.id == id) {
            return place;
        }
        self.devices.push(Device {
            id,
            open: 0,
            in_flight: Vec::new(),
            flushes: Vec::new(),
            last_end: None,
        });
        self.devices.len() - 1
    }

    /// Begins a record for an event that nothing before explains.
    fn begin(&mut self, event: &Event, device: usize, phase: Phase, bios: u32) -> Slot {
        let tainted = self.is_beside_loss(event.time);
        let state = &mut self.devices[device];
        state.open += 1;
        self.tainted += usize::from(tainted);
        let number = self.next_request;
        self.next_request += 1;
        self.open.insert(Open {
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
            tainted,
            ambiguous_complete: false,
            ambiguous_issue: false,
        })
    }

    /// Forgets a record, with every trace that it left on its device.
    fn forget(&mut self, slot: Slot) -> Option<Open> {
        let open = self.open.remove(slot)?;
        let device = &mut self.devices[open.device];
        device.open = device.open.saturating_sub(1);
        device.flushes.retain(|other| *other != slot);
        device.in_flight.retain(|other| *other != slot);
        self.tainted -= usize::from(open.tainted);
        Some(open)
    }

    /// Ends a record that will see no completion.
    fn give_up(&mut self, slot: Slot, out: &mut Vec<Request>) {
        if let Some(mut open) = self.forget(slot) {
            open.request.status = if open.tainted { Status::Lost } else { Status::Unfinished };
            if !open.tainted {
                let last = [open.request.issue, open.request.insert, open.request.queue];
                let time = last.into_iter().flatten().next().map(|stamp| stamp.time);
                self.ledger.add(Cause::Unfinished, None, time, 1);
            }
            out.push(open.request);
        }
    }

    fn give_up_oldest(&mut self, out: &mut Vec<Request>) {
        let oldest = self
            .open
            .slots()
            .min_by_key(|slot| self.open.get(*slot).map_or(u64::MAX, |open| open.request.request));
        if let Some(slot) = oldest {
            self.give_up(slot, out);
        }
    }

    fn orphan(&mut self, event: &Event) {
        self.ledger.add(Cause::Orphan, Some(event.cpu), Some(event.time), 1);
    }
}

fn stamp(event: &Event) -> Stamp {
    Stamp { time: event.time, cpu: event.cpu }
}

/// An empty bio with a preflush is a flush, whatever its letter says.
fn operation(event: &Event) -> Op {
    if event.flags.has(Flags::PREFLUSH) && event.length_bytes == 0 && event.sector.is_none() {
        return Op::Flush;
    }
    event.op
}
