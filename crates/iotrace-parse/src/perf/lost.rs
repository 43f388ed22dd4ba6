//! Losses that a perf file reports, found before its events are read.
//!
//! The kernel writes a loss only when there is room again, which may be long after the events are
//! gone: its record lies far behind the gap. So that a loss can come in the stream where it begins,
//! a first pass looks at time and CPU of every record, and at nothing else.
//!
//! ```text
//! CPU 0:  … sample at 100 │ (ring full, 7 lost) │ …idle… │ LOST 7, at 5000 │ sample at 5000 …
//!         the gap: from 100 to 5000
//! ```

use std::io::{Read, Seek};

use iotrace_model::{Cause, Cpu, Ledger, Loss, Nanos};

use super::clock::absolute;
use super::file::Section;
use super::known::Tracepoints;
use super::layouts::Layouts;
use super::records::{Next, Record, RecordStream, State};
use super::sample::Stamp;
use super::{cpu_place, kind};
use crate::Error;
use crate::bytes::u64_at;

/// Gaps kept apart; more of them widen the last gap of their CPU.
const MOST_GAPS: usize = 1 << 20;

/// How many events are lost; where, if the record says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) count: u64,
    place: LostPlace,
}

/// Where events are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LostPlace {
    Before(Stamp),
    /// The record has no trailer.
    Unknown,
    /// Somewhere: a sum over the whole capture.
    InAll,
}

impl Lost {
    /// `None` when the record is no loss, or not what its header says.
    pub(super) fn read(record: Record<'_>, layouts: &Layouts) -> Option<Self> {
        let body = record.body;
        let count = match record.kind {
            kind::LOST => u64_at(body, 8)?,
            kind::LOST_SAMPLES => u64_at(body, 0)?,
            _ => return None,
        };
        let stamp = layouts.of_trailer(body).trailer_stamp(body);
        let place = match stamp {
            Some(stamp) if stamp.time == 0 && record.kind == kind::LOST_SAMPLES => LostPlace::InAll,
            Some(stamp) if cpu_place(stamp.cpu).is_some() => LostPlace::Before(stamp),
            Some(_) | None => LostPlace::Unknown,
        };
        Some(Self { count, place })
    }
}

/// What the first pass found.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// By start, then CPU.
    pub(super) losses: Vec<Loss>,
    /// The same losses, counted.
    pub(super) ledger: Ledger,
    /// Time 0 of the run.
    pub(super) origin: Nanos,
    /// Times of the earliest and the latest event.
    pub(super) first: Option<Nanos>,
    pub(super) last: Option<Nanos>,
    cpus: Vec<Seen>,
    /// Losses before the first record of their CPU, which begin with the run.
    from_start: Vec<usize>,
    /// Events lost by the records of losses, and by the sums at the end.
    told: u64,
    in_all: u64,
}

/// What was seen of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: Option<Nanos>,
    /// Place of its last gap in `losses`.
    gap: Option<usize>,
}

impl Survey {
    /// Passes over all records. Without an `origin` the earliest event is time 0; with one that is
    /// not 0, the run begins there.
    pub(super) fn new<R: Read + Seek>(
        records: &mut RecordStream<R>,
        data: Section,
        layouts: &Layouts,
        tracepoints: &Tracepoints,
        origin: Option<Nanos>,
    ) -> Result<Self, Error> {
        let mut survey = Self::default();
        records.start(data)?;
        loop {
            records.fill()?;
            loop {
                match records.next() {
                    Next::Record(record) => match record.kind {
                        kind::SAMPLE => survey.sample(record.body, layouts, tracepoints),
                        kind::LOST | kind::LOST_SAMPLES => {
                            if let Some(lost) = Lost::read(record, layouts) {
                                survey.lost(lost);
                            }
                        }
                        _ => {}
                    },
                    Next::Damaged => {}
                    Next::Broken | Next::Used => break,
                }
            }
            if records.state() != State::More {
                break;
            }
        }
        survey.finish(origin);
        Ok(survey)
    }

    /// Times count from the origin now.
    fn finish(&mut self, told: Option<Nanos>) {
        let start = told.filter(|origin| *origin != Nanos(0)).or(self.first);
        for place in self.from_start.drain(..) {
            if let (Some(start), Some(loss)) = (start, self.losses.get_mut(place)) {
                loss.from = start.min(loss.to);
            }
        }
        let origin = told.or(self.first).unwrap_or_default();
        // Nothing is before time 0 when it was found here: another event's gap can be.
        let earliest = if told.is_none() { Nanos(0) } else { Nanos(i64::MIN) };
        for loss in &mut self.losses {
            loss.from = (loss.from - origin).max(earliest);
            loss.to = (loss.to - origin).max(earliest);
        }
        self.origin = origin;
        self.first = self.first.map(|first| first - origin);
        self.last = self.last.map(|last| last - origin);
        let untold = self.in_all.saturating_sub(self.told);
        if untold > 0 {
            self.ledger.add(Cause::KernelLost, None, self.last, untold);
        }
        for loss in &self.losses {
            self.ledger.add(Cause::KernelLost, Some(loss.cpu), Some(loss.from), loss.count);
        }
        self.losses.sort_by_key(|loss| (loss.from, loss.cpu));
    }

    fn sample(&mut self, body: &[u8], layouts: &Layouts, tracepoints: &Tracepoints) {
        let Some(layout) = layouts.of_sample(body) else { return };
        let Some(stamp) = layout.stamp(body) else { return };
        let time = absolute(stamp.time);
        let Some(seen) = cpu_place(stamp.cpu).and_then(|place| self.seen(place)) else { return };
        seen.last = seen.last.max(Some(time));
        let raw = layout.raw(body).unwrap_or_default();
        if matches!(tracepoints.find(raw), Ok(Some(_))) {
            self.first = Some(self.first.map_or(time, |first| first.min(time)));
            self.last = self.last.max(Some(time));
        }
    }

    fn lost(&mut self, lost: Lost) {
        let stamp = match lost.place {
            LostPlace::Before(stamp) => stamp,
            LostPlace::Unknown => {
                self.told = self.told.saturating_add(lost.count);
                self.ledger.add(Cause::KernelLost, None, None, lost.count);
                return;
            }
            LostPlace::InAll => {
                self.in_all = self.in_all.saturating_add(lost.count);
                return;
            }
        };
        self.told = self.told.saturating_add(lost.count);
        let to = absolute(stamp.time);
        let gaps = self.losses.len();
        let Some(seen) = cpu_place(stamp.cpu).and_then(|place| self.seen(place)) else { return };
        let from = seen.last.replace(seen.last.map_or(to, |last| last.max(to)));
        if gaps >= MOST_GAPS
            && let Some(gap) = seen.gap
        {
            if let Some(loss) = self.losses.get_mut(gap) {
                loss.to = loss.to.max(to);
                loss.count = loss.count.saturating_add(lost.count);
            }
            return;
        }
        seen.gap = Some(gaps);
        if from.is_none() {
            self.from_start.push(gaps);
        }
        let from = from.map_or(to, |from| from.min(to));
        self.losses.push(Loss { cpu: Cpu(stamp.cpu), from, to, count: lost.count });
    }

    fn seen(&mut self, place: usize) -> Option<&mut Seen> {
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, Seen::default());
        }
        self.cpus.get_mut(place)
    }
}
