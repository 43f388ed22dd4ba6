//! One record after another to events, with everything else counted.
//!
//! Invariant: records read = records used + those counted in the ledger as foreign, malformed or
//! truncated. The ledger's other causes count events that no record holds, or events that were used.
//! A compressed record is no record of its own unless it is damaged: what it holds counts.

use iotrace_model::{AtaPort, Cause, Cpu, DeviceId, Ledger};

use super::clock::Clock;
use super::known::Tracepoints;
use super::layouts::Layouts;
use super::lost::Lost;
use super::records::Record;
use super::{Records, cpu_place, kind};
use crate::merge::Merge;
use crate::tracepoint::Context;

/// Makes events of records.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) layouts: Layouts,
    pub(super) tracepoints: Tracepoints,
    pub(super) ports: Vec<(AtaPort, DeviceId)>,
    pub(super) clock: Clock,
    /// Events so far, by CPU.
    pub(super) sequences: Vec<u64>,
    pub(super) counts: Records,
    pub(super) ledger: Ledger,
}

impl Decoder {
    /// Takes one record.
    #[inline]
    pub(super) fn take(&mut self, record: Record<'_>, merge: &mut Merge) {
        self.counts.read += 1;
        let used = match record.kind {
            kind::SAMPLE => self.sample(record.body, merge),
            kind::FINISHED_ROUND => {
                merge.end_round();
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

    /// Counts a record that cannot be read: a damaged compressed one, or the rest of a file that
    /// ends within a record or behind one of no size.
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
        let Ok(known) = self.tracepoints.find(raw) else { return Err(malformed) };
        let known = known.ok_or((Cause::Foreign, Some(cpu)))?;
        if self.sequences.len() <= place {
            self.sequences.resize(place + 1, 0);
        }
        let sequence = self.sequences.get_mut(place).ok_or(malformed)?;
        let context = Context {
            time: self.clock.time(stamp.time),
            cpu,
            sequence: *sequence,
            pid: known.thread(layout.tid(body), raw),
        };
        let event = known.read(raw, context, &self.ports);
        let Some(event) = &event else { return Err(malformed) };
        *sequence += 1;
        if !merge.push(place, event) {
            self.ledger.add(Cause::TimeBackwards, Some(cpu), Some(context.time), 1);
        }
        Ok(())
    }
}
