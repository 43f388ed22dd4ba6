//! What a device's trace has shown so far, and the rows that left it last.
//!
//! Traces are often filtered: `blktrace -a issue -a complete`, or two tracepoints of ten. What a
//! trace never showed of a device, up to now, is not missing from a request of it.

use std::collections::VecDeque;

use iotrace_model::{Action, Op, Sector};

/// Rows remembered on each device; the bios of a request follow its completion at once.
const MOST_ENDED: usize = 16;

/// Which kinds of events a device has shown.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of its own")]
pub(super) struct Shown {
    /// Queue events.
    pub(super) queue: bool,
    /// Events of bios on their way into requests: queue, get, merge, a remap to the device.
    pub(super) bio: bool,
    /// Events that only a device with requests has.
    pub(super) request: bool,
    /// Bios cut in pieces.
    pub(super) split: bool,
}

impl Shown {
    /// Takes note of an event. Splits are noted where they are seen to be one.
    pub(super) fn note(&mut self, action: Action) {
        if self.queue && self.request {
            return;
        }
        match action {
            Action::Queue => (self.queue, self.bio) = (true, true),
            Action::Remap => self.bio = true,
            Action::Get | Action::BackMerge | Action::FrontMerge | Action::RequestMerge => {
                (self.bio, self.request) = (true, true);
            }
            Action::Insert | Action::Issue | Action::Requeue => self.request = true,
            Action::Complete
            | Action::BioComplete
            | Action::Plug
            | Action::Unplug
            | Action::Split
            | Action::UnplugTimer
            | Action::RequestRemap
            | Action::Bounce
            | Action::Sleep
            | Action::Abort
            | Action::Message
            | Action::CommandIssue
            | Action::CommandComplete
            | Action::Unknown(_) => {}
        }
    }
}

/// The latest rows of a device that were issued and completed.
#[derive(Debug, Default)]
pub(super) struct Ended(VecDeque<Row>);

#[derive(Clone, Copy, Debug)]
struct Row {
    op: Op,
    start: Sector,
    end: Sector,
    /// Bios whose own completion may still be reported.
    bios: u32,
}

impl Ended {
    /// Remembers a row.
    pub(super) fn push(&mut self, op: Op, start: Sector, end: Sector, bios: u32) {
        if self.0.len() == MOST_ENDED {
            self.0.pop_front();
        }
        self.0.push_back(Row { op, start, end, bios });
    }

    /// Whether a completion is that of a bio of such a row; takes the bio.
    pub(super) fn take_bio(&mut self, op: Op, start: Sector, end: Sector) -> bool {
        let holds =
            |row: &&mut Row| row.bios > 0 && row.op == op && row.start <= start && end <= row.end;
        let Some(row) = self.0.iter_mut().rev().find(holds) else { return false };
        row.bios -= 1;
        true
    }
}
