//! One record after another to events, with everything else counted.
//!
//! Invariant: records read = records used + those counted in the ledger as foreign, malformed or
//! truncated. The ledger's other causes count events that no record holds, or events that were used.

use iotrace_model::{AtaPort, Cause, Cpu, DeviceId, Item, Ledger};

use super::layouts::Layouts;
use super::lost::Lost;
use super::records::Record;
use super::{Clock, Records, cpu_place, kind};
use crate::bytes::{Place, u16_at};
use crate::format::Format;
use crate::merge::Merge;
use crate::tracepoint::{Context, Tracepoint};

/// Makes events of records.
#[derive(Debug)]
pub(super) struct Decoder {
    layouts: Layouts,
    /// By `common_type`, sorted.
    tracepoints: Vec<Known>,
    ports: Vec<(AtaPort, DeviceId)>,
    clock: Clock,
    /// Events so far, by CPU.
    sequences: Vec<u64>,
    pub(super) counts: Records,
    pub(super) ledger: Ledger,
}

/// A tracepoint whose samples are events.
#[derive(Debug)]
struct Known {
    id: u16,
    thread: Option<Place>,
    point: Tracepoint,
}

/// The id of the thread in samples of a task that has ended already.
const ENDED: u32 = u32::MAX;

impl Decoder {
    pub(super) fn new(
        formats: &[Format],
        layouts: Layouts,
        ports: Vec<(AtaPort, DeviceId)>,
        clock: Clock,
        ledger: Ledger,
    ) -> Self {
        let known = formats.iter().filter_map(|format| {
            let (id, thread) = (format.id, format.place("common_pid"));
            Some(Known { id, thread, point: Tracepoint::new(format)? })
        });
        let mut tracepoints: Vec<_> = known.collect();
        tracepoints.sort_by_key(|known| known.id);
        let (sequences, counts) = (Vec::new(), Records::default());
        Self { layouts, tracepoints, ports, clock, sequences, counts, ledger }
    }

    /// Takes one record; what may go out does.
    pub(super) fn take(&mut self, record: Record<'_>, merge: &mut Merge, out: &mut Vec<Item>) {
        self.counts.read += 1;
        let used = match record.kind {
            kind::SAMPLE => self.sample(record.body, merge),
            kind::FINISHED_ROUND => {
                merge.end_round(out);
                Ok(())
            }
            // Losses are known already: `Survey` counted them and gave them to the merge.
            kind::LOST | kind::LOST_SAMPLES => match Lost::read(record, &self.layouts) {
                Some(_) => Ok(()),
                None => Err((Cause::Malformed, None)),
            },
            _ => Err((Cause::Foreign, None)),
        };
        match used {
            Ok(()) => self.counts.used += 1,
            Err((cause, cpu)) => self.ledger.add(cause, cpu, None, 1),
        }
    }

    /// Counts the rest of a file that ends within a record, or behind one of no size.
    pub(super) fn give_up(&mut self, cause: Cause) {
        self.counts.read += 1;
        self.ledger.add(cause, None, None, 1);
    }

    fn sample(&mut self, body: &[u8], merge: &mut Merge) -> Result<(), (Cause, Option<Cpu>)> {
        let layout = self.layouts.of_sample(body).ok_or((Cause::Foreign, None))?;
        let malformed = (Cause::Malformed, None);
        let stamp = layout.stamp(body).ok_or(malformed)?;
        let place = cpu_place(stamp.cpu).ok_or(malformed)?;
        let cpu = Cpu(stamp.cpu);
        let malformed = (Cause::Malformed, Some(cpu));
        let raw = layout.raw(body).ok_or(malformed)?;
        let tid = layout.tid(body);
        let id = u16_at(raw, 0).ok_or(malformed)?;
        let known = self.tracepoints.binary_search_by_key(&id, |known| known.id);
        let known = known.ok().and_then(|place| self.tracepoints.get(place));
        let known = known.ok_or((Cause::Foreign, Some(cpu)))?;
        let pid = tid.filter(|tid| *tid != ENDED).or_else(|| {
            let thread = known.thread.and_then(|place| place.number(raw));
            thread.and_then(|thread| u32::try_from(thread).ok())
        });
        if self.sequences.len() <= place {
            self.sequences.resize(place + 1, 0);
        }
        let sequence = self.sequences.get_mut(place).ok_or(malformed)?;
        let context = Context {
            time: self.clock.time(stamp.time),
            cpu,
            sequence: *sequence,
            pid: pid.unwrap_or(0),
        };
        let event = known.point.read(raw, context, &self.ports).ok_or(malformed)?;
        *sequence += 1;
        if !merge.push(place, event) {
            self.ledger.add(Cause::TimeBackwards, Some(cpu), Some(event.time), 1);
        }
        Ok(())
    }
}
