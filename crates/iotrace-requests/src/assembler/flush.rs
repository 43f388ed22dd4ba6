//! The flush machinery: one flush of the drive serves several bios, and bios end without data.
//!
//! ```text
//! fsync (an empty bio)       queue FWS, get; issue FF, complete FF;     complete WS, empty, sector 0
//! FUA without drive support  queue, get WFS; issue, complete WS (data);
//!                            issue FF, complete FF;                     complete WS, empty, at its place
//! ```
//! (`block/blk-flush.c`.) The drive's flush is a request of its own, without bios.

use iotrace_model::{Event, Op, Request};

use super::Assembler;
use crate::chains::Slot;
use crate::open::Open;

impl Assembler {
    /// The completion, without data, of an empty flush bio. Bios are served in the order of their
    /// queue events. Says whether the event was one.
    pub(super) fn complete_flush_bio(
        &mut self,
        event: &Event,
        device: usize,
        out: &mut Vec<Request>,
    ) -> bool {
        // Tracepoints print it at sector 0, or where the file system put it.
        if event.length_bytes > 0 || event.op != Op::Write {
            return false;
        }
        if self.is_empty_part(event, device) {
            return true;
        }
        let slot = self
            .find_flush(device, Open::is_waiting)
            .or_else(|| self.find_flush(device, Open::is_queued));
        if let Some(slot) = slot {
            self.end(slot, event, out);
        }
        slot.is_some()
    }

    /// Whether a completion at a place is empty and ends nothing: the last word on a write whose
    /// data were complete before, or the first part of a request that failed.
    pub(super) fn is_empty_part(&mut self, event: &Event, device: usize) -> bool {
        let Some(sector) = event.sector else { return false };
        let failed = event.error.is_some_and(|error| error != 0);
        if event.length_bytes > 0 || failed {
            return false;
        }
        if self
            .find(device, event.op, sector, |open| open.is_issued() && open.rest_bytes() == 0)
            .is_some()
        {
            return false;
        }
        self.devices.get_mut(device).unstage(event.op, sector)
            || self.find(device, event.op, sector, Open::is_issued).is_some()
    }

    /// The oldest empty flush bio that fits.
    pub(super) fn find_flush(&self, device: usize, fits: impl Fn(&Open) -> bool) -> Option<Slot> {
        let mut flushes = self.devices.get(device).flushes.iter().copied();
        flushes.find(|slot| self.open.get(*slot).is_some_and(&fits))
    }
}
