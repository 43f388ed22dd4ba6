//! Takes events in order and gives requests back as they end.
//!
//! `before` holds what happens above the driver (queue to insert), `merge` how bios and requests
//! join, `stack` what ties devices on top of each other, `after` issue and requeue, `finish` the
//! completions, `flight` what the driver has, `flush` those of the flush machinery, `gaps` what losses do, `shown` what a filtered
//! trace leaves out. A record leaves through `end` (completed) or `give_up` (not).

mod after;
mod before;
mod device;
mod finish;
mod flight;
mod flush;
mod gaps;
mod merge;
mod shown;
mod stack;

use iotrace_model::{
    Action, Cause, Event, Flags, Item, Ledger, Op, Request, Sector, Stamp, Status,
};

use self::device::Devices;
use self::gaps::Doubts;
use crate::chains::Slot;
use crate::links::Links;
use crate::open::{Open, OpenRequests};
use crate::phase::{Move, Phase, step};

/// Requests that may be under way at once; beyond it an eighth, the oldest, is given up.
const MOST_OPEN: usize = 1 << 20;

/// The state machine from events to requests.
///
/// A row leaves when its request completes; what is still open leaves at `finish`. The number of a
/// request is given when its first event is seen and is not used again when its bio joins another
/// request, so that the numbers of the rows can have gaps. The pieces of a split bio have numbers
/// of their own; the last one keeps the bio's.
///
/// What a row does not show:
/// - `status` is complete when everything that ever happens to this kind of request was seen.
///   Passthrough commands and the drive flushes of the flush machinery have no bio and no queue
///   event; an empty flush bio and a bio of a stacked device (dm, md) have no issue.
/// - What the trace never showed of a device, up to the completion, is not demanded: while it
///   showed no bio (queue, get, merge, or a remap to it), issue and completion make a complete row
///   without a queue time; while it showed no request (get, merge, insert, issue, requeue), a
///   completion is that of a bio, and queue and completion make a complete row without an issue.
///   Completions alone stay rows that started before.
/// - Where a device shows remaps to it but never a queue event, the remap is the arrival.
/// - `queued_at_queue` counts the requests of the device that are not complete and the bios that
///   no request carries yet; a merged bio counts as part of its request.
/// - `splits` is what was known when the row left.
/// - An issue without a requeue in between, of a request whose beginning was seen, is a
///   resubmission by the driver: the last issue counts and `requeues` does not. Where a device
///   never showed a bio, an issue of the same operation, place and length is one too, except that
///   of a read, and of a write by anything but a kernel worker: those can be twins, and stay two.
/// - A completion that nothing explains, within a row that was just completed, is that of a bio of
///   it (`null_blk`, kernels before 4.12): it is counted as an orphan and makes no row.
/// - A write that the flush machinery carries out (FUA or preflush on a drive without it)
///   completes with its data; its empty completion after the flush is passed over.
#[derive(Debug, Default)]
pub struct Assembler {
    open: OpenRequests,
    devices: Devices,
    links: Links,
    doubts: Doubts,
    /// Number of the next request.
    next_request: u64,
    /// Number of issues so far.
    next_issue: u64,
    ledger: Ledger,
    /// Room for the candidates of a choice.
    scratch: Vec<Slot>,
}

impl Assembler {
    /// A machine that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next item; requests that it ends are added to `out`.
    ///
    /// Items must come in the order of `iotrace-parse`: by time, losses at their start. Events
    /// without a device, and those that say nothing of one request (plug, message), are passed
    /// over.
    pub fn push(&mut self, item: &Item, out: &mut Vec<Request>) {
        match item {
            Item::Loss(loss) => self.lose(loss),
            Item::Event(event) => {
                self.give_up_overdue(event.time, out);
                if let Some(id) = event.device {
                    let device = self.devices.index(id);
                    if names_no_place(event) {
                        self.event(&Event { sector: None, ..*event }, device, out);
                    } else {
                        self.event(event, device, out);
                    }
                }
            }
        }
    }

    /// Gives back what is still open, in the order of the numbers, and the ledger.
    pub fn finish(mut self, out: &mut Vec<Request>) -> Ledger {
        self.give_up_oldest(usize::MAX, out);
        self.ledger
    }

    fn event(&mut self, event: &Event, device: usize, out: &mut Vec<Request>) {
        let shown = &mut self.devices.get_mut(device).shown;
        shown.note(event.action);
        let has_requests = shown.request;
        match event.action {
            Action::Queue => self.queue(event, device, out),
            Action::Split => self.split(event, device),
            Action::Get => self.get(event, device, out),
            Action::BackMerge | Action::FrontMerge => self.merge(event, device, out),
            Action::RequestMerge => self.merge_request(event, device, out),
            Action::Insert => self.insert(event, device, out),
            Action::Issue => self.issue(event, device, out),
            Action::Requeue => self.requeue(event, device),
            Action::Complete if has_requests => self.complete(event, device, out),
            Action::Complete | Action::BioComplete => self.complete_bio(event, device, out),
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
            self.give_up_oldest(MOST_OPEN / 8, out);
        }
    }

    /// Begins a record for an event that nothing before explains.
    fn begin(&mut self, event: &Event, device: usize, phase: Phase, bios: u32) -> Slot {
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
    fn forget(&mut self, slot: Slot) -> Option<Open> {
        let open = self.open.get(slot)?;
        let device = self.devices.get_mut(open.device);
        device.count_out(open);
        device.unlist(slot, open);
        self.open.remove(slot)
    }

    /// Ends a record that will see no completion.
    fn give_up(&mut self, slot: Slot, out: &mut Vec<Request>) {
        self.leave_flight(slot);
        if let Some(open) = self.forget(slot) {
            self.leave_open(open, out);
        }
    }

    fn leave_open(&mut self, open: Open, out: &mut Vec<Request>) {
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
        out.push(request);
    }

    /// Gives up that many records, those with the lowest numbers, in the order of the numbers.
    fn give_up_oldest(&mut self, count: usize, out: &mut Vec<Request>) {
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
    fn find(
        &self,
        device: usize,
        op: Op,
        sector: Sector,
        fits: impl Fn(&Open) -> bool,
    ) -> Option<Slot> {
        self.open.starting_at(device, op, sector).find(|(_, open)| fits(open)).map(|(slot, _)| slot)
    }

    /// Moves a record to its next phase; an illegal move leaves it where it is.
    fn advance(&mut self, slot: Slot, action: Move) {
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
    fn touch(&mut self, slot: Slot, event: &Event, change: impl FnOnce(&mut Open, Stamp)) {
        if self.is_beside_loss(event.time) {
            self.taint(slot, event.time);
        }
        if let Some(open) = self.open.get_mut(slot)
            && !open.tainted
        {
            change(open, stamp(event));
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
    if event.length_bytes == 0 && event.flags.has(Flags::PREFLUSH) {
        return Op::Flush;
    }
    event.op
}

/// Whether the sector of an event means nothing: an empty flush has no place, though a file system
/// may give its bio one, and blktrace writes 0.
fn names_no_place(event: &Event) -> bool {
    event.length_bytes == 0
        && event.sector.is_some()
        && operation(event) == Op::Flush
        && event.action != Action::Split
}

/// Whether nothing but a completion is known of a request.
fn is_bare(request: &Request) -> bool {
    let seen = [request.queue, request.get, request.insert, request.issue];
    seen.into_iter().flatten().next().is_none()
}
