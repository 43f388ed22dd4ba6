//! Takes events in order and gives requests back as they end.
//!
//! `record` holds how a record begins and is given up, `before` what happens above the driver (queue
//! to insert), `merge` how bios and requests join, `stack` what ties devices on top of each other,
//! `after` issue and requeue, `flight` what the driver has, `finish` the completions, `flush` those
//! of the flush machinery, `gaps` what losses do, `shown` what a filtered trace leaves out. A record
//! leaves through `end` (completed) or `give_up` (not).

mod after;
mod before;
mod device;
mod finish;
mod flight;
mod flush;
mod gaps;
mod merge;
mod record;
mod shown;
mod stack;

use iotrace_model::{Action, Cause, Event, Flags, Item, Ledger, Op, Request, Stamp};

use self::device::Devices;
use self::gaps::Doubts;
use crate::chains::Slot;
use crate::links::Links;
use crate::open::OpenRequests;

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
