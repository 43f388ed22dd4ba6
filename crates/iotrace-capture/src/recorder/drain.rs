//! The thread that copies the rings into the file, and the account of what it could not copy.
//!
//! In each round every ring is read once, up to what it held when the round began, and its bytes
//! go from the ring to the file in one call. Invariant: every event that fired is in the file or
//! in the ledger.

use std::{
    fs::File,
    io::{self, PipeReader},
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use iotrace_model::{Cause, Cpu, Ledger, Loss, Nanos};
use perf_event_open::count::Counter;

use super::{
    ByteRing, Capture, RecorderOptions, Shared,
    open::{Opened, OpenedCpu},
    walk::{Lost, Watch, walk},
};
use crate::{
    Error,
    perf_file::{Closing, Description, PerfFile, ROUND_BYTES, lost_record},
    sys,
};

/// A ring is read at least this often.
const PERIOD: Duration = Duration::from_millis(100);

/// The counters are read this often: each reading interrupts every CPU once for each event.
const CHECK: Nanos = Nanos(250_000_000);

/// All that the thread owns.
pub(super) struct Session {
    cpus: Vec<CpuCounters>,
    drain: Drain<sys::Ring>,
    trace_events: Vec<String>,
    started_realtime: Nanos,
}

/// The counters of one CPU, in the order of the events.
struct CpuCounters {
    cpu: Cpu,
    counters: Vec<Counter>,
    first_id: u64,
}

/// Copies rings into a file.
struct Drain<R> {
    streams: Vec<Stream<R>>,
    file: PerfFile,
    watch: Watch,
    limit_bytes: Option<u64>,
    /// Set when the limit was reached: from then on nothing is copied any more.
    is_full: bool,
    started: Nanos,
    ledger: Ledger,
    /// Gaps that no record tells of.
    gaps: Vec<Loss>,
    /// When the rings were read last, since the start.
    last_round: Nanos,
    events: u64,
    in_flight: i64,
    shared: Arc<Shared>,
}

/// One CPU's ring and what came out of it.
struct Stream<R> {
    cpu: Cpu,
    ring: R,
    /// Samples that came out, copied or not.
    samples: u64,
    /// Losses that the kernel told in records.
    told_lost: u64,
    /// Events that were counted but never sampled, as far as known.
    unsampled: u64,
    /// When it was proven last that there were no others, since the start.
    proven: Nanos,
}

impl Session {
    /// Writes the head of the file and switches the events on.
    pub(super) fn begin(
        opened: Opened,
        options: &RecorderOptions,
        sink: File,
        shared: Arc<Shared>,
    ) -> Result<Session, Error> {
        let description = Description {
            events: &opened.events,
            counts_lost: opened.counts_lost,
            watermark: opened.watermark,
            header_page: &opened.header_page,
            header_event: &opened.header_event,
        };
        let file = PerfFile::create(sink, &description)?;
        let mut cpus = Vec::new();
        let mut streams = Vec::new();
        for OpenedCpu { cpu, counters, ids, ring } in opened.cpus {
            cpus.push(CpuCounters { cpu, counters, first_id: ids.first().copied().unwrap_or(0) });
            streams.push(Stream {
                cpu,
                ring,
                samples: 0,
                told_lost: 0,
                unsampled: 0,
                proven: Nanos(0),
            });
        }
        let started = sys::monotonic();
        let started_realtime = sys::realtime();
        switch(&cpus, Counter::enable)?;
        let drain = Drain {
            streams,
            file,
            watch: opened.watch,
            limit_bytes: options.limit_bytes,
            is_full: false,
            started,
            ledger: Ledger::default(),
            gaps: Vec::new(),
            last_round: Nanos(0),
            events: 0,
            in_flight: 0,
            shared,
        };
        let trace_events = opened.events.iter().map(|(event, _)| event.full_name()).collect();
        Ok(Session { cpus, drain, trace_events, started_realtime })
    }

    /// `CLOCK_MONOTONIC` just before the first event was switched on.
    pub(super) fn started(&self) -> Nanos {
        self.drain.started
    }

    /// Copies until the other end of `stop` is closed.
    pub(super) fn run(mut self, stop: &PipeReader) -> Result<Capture, Error> {
        let leaders = self.cpus.iter().filter_map(|cpu| cpu.counters.first());
        let files: Vec<_> = leaders.map(|counter| counter.file().as_fd()).collect();
        let mut stopping = false;
        let mut checked = self.drain.started;
        while !stopping {
            stopping = sys::wait(&files, stop.as_fd(), PERIOD)
                .map_err(|source| Error::CaptureThread { source })?;
            let now = sys::monotonic();
            if now - checked < CHECK {
                self.drain.round(now)?;
            } else {
                self.drain.round_beside(&self.cpus, now)?;
                checked = now;
            }
        }
        switch(&self.cpus, Counter::disable)?;
        let stopped = sys::monotonic();
        self.drain.round_beside(&self.cpus, stopped)?;
        for cpu in &self.cpus {
            let totals = Totals::read(cpu)?;
            self.drain.account_rest(cpu.cpu, totals, cpu.first_id, stopped)?;
        }
        self.finish(stopped)
    }

    fn finish(self, stopped: Nanos) -> Result<Capture, Error> {
        let highest = self.cpus.iter().map(|cpu| cpu.cpu.0).max().unwrap_or(0);
        let Drain { file, ledger, mut gaps, events, started, shared, .. } = self.drain;
        gaps.sort_by_key(|gap| (gap.from, gap.cpu));
        let closing = Closing {
            cpus_available: highest.saturating_add(1),
            cpus_online: u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            started,
            started_realtime: self.started_realtime,
            stopped,
        };
        let (file, bytes) = file.finish(&closing)?;
        shared.bytes.store(bytes, Ordering::Relaxed);
        Ok(Capture {
            file,
            events,
            bytes,
            ledger,
            gaps,
            cpu_time: sys::thread_cpu_time(),
            started,
            stopped,
            trace_events: self.trace_events,
        })
    }
}

/// Switches all events, the last step of a request's life first: so a request that is under way
/// at the start shows its end without its beginning, never with a hole in between.
fn switch(cpus: &[CpuCounters], act: impl Fn(&Counter) -> io::Result<()>) -> Result<(), Error> {
    let events = cpus.iter().map(|cpu| cpu.counters.len()).max().unwrap_or(0);
    for index in (0..events).rev() {
        for CpuCounters { cpu, counters, .. } in cpus {
            if let Some(counter) = counters.get(index) {
                act(counter).map_err(|source| Error::Control { cpu: *cpu, source })?;
            }
        }
    }
    Ok(())
}

/// What the counters of one CPU say at the end.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    /// Events that passed the filters.
    fired: u64,
    /// Records that did not fit into the ring; `None` before Linux 6.0.
    lost: Option<u64>,
}

impl Totals {
    fn read(cpu: &CpuCounters) -> Result<Totals, Error> {
        let mut totals = Totals::default();
        for counter in &cpu.counters {
            let stat = counter.stat().map_err(|source| Error::Control { cpu: cpu.cpu, source })?;
            totals.fired += stat.count;
            totals.lost = stat.lost_records.map(|lost| totals.lost.unwrap_or(0) + lost);
        }
        Ok(totals)
    }

    /// Events that were counted, but neither lost nor sampled; 0 where losses are not counted.
    fn unsampled(self, samples: u64) -> u64 {
        let Some(lost) = self.lost else { return 0 };
        self.fired.saturating_sub(lost).saturating_sub(samples)
    }

    /// Losses that no record told, given what came out of the ring.
    fn untold(self, samples: u64, told: u64) -> u64 {
        let lost = self.lost.unwrap_or(self.fired.saturating_sub(samples));
        lost.saturating_sub(told)
    }
}

impl<R: ByteRing> Drain<R> {
    /// One round, with the counters read in its middle. What waited before the reading was counted
    /// by then, and what was counted waits by now: so the samples of both moments enclose those
    /// that the counters stand for.
    fn round_beside(&mut self, cpus: &[CpuCounters], now: Nanos) -> Result<(), Error> {
        let before = self.pending();
        let mut totals = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            totals.push(Totals::read(cpu)?);
        }
        self.read_rings(&before, now)?;
        let least: Vec<u64> = self.streams.iter().map(|stream| stream.samples).collect();
        self.round(now)?;
        for ((cpu, totals), least) in cpus.iter().zip(totals).zip(least) {
            self.note_unsampled(cpu.cpu, totals, least, now);
        }
        Ok(())
    }

    fn pending(&self) -> Vec<usize> {
        self.streams.iter().map(|stream| stream.ring.pending()).collect()
    }

    /// Reads every ring once. `now` dates what has no time of its own.
    fn round(&mut self, now: Nanos) -> Result<(), Error> {
        let pending = self.pending();
        self.read_rings(&pending, now)?;
        if pending.iter().any(|length| *length > 0) && !self.is_full {
            self.file.finish_round()?;
        }
        self.last_round = now - self.started;
        self.publish();
        Ok(())
    }

    /// Reads so many bytes of each ring.
    fn read_rings(&mut self, lengths: &[usize], now: Nanos) -> Result<(), Error> {
        let bytes: usize = lengths.iter().sum();
        let grown = self.file.bytes() + u64::try_from(bytes).expect("usize fits in 64 bits");
        let is_full =
            bytes > 0 && self.limit_bytes.is_some_and(|limit| grown + ROUND_BYTES > limit);
        if is_full && !self.is_full {
            self.is_full = true;
            let (from, to) = (self.last_round, Nanos(i64::MAX));
            let cpus = self.streams.iter().map(|stream| stream.cpu);
            self.gaps.extend(cpus.map(|cpu| Loss { cpu, from, to, count: 0 }));
        }
        for (index, length) in lengths.iter().enumerate() {
            self.read_ring(index, *length, now)?;
        }
        Ok(())
    }

    fn read_ring(&mut self, index: usize, length: usize, now: Nanos) -> Result<(), Error> {
        let Some(stream) = self.streams.get_mut(index) else { return Ok(()) };
        let (file, watch, is_full) = (&mut self.file, &self.watch, self.is_full);
        let (tally, length, written) = stream.ring.drain(length, |span| {
            let tally = walk(span, watch);
            let records = span.up_to(tally.valid_bytes);
            let written = if is_full {
                Ok(())
            } else {
                file.append(records.first).and_then(|()| file.append(records.second))
            };
            (tally, span.len(), written)
        });
        written?;
        let (cpu, now) = (stream.cpu, now - self.started);
        stream.samples += tally.samples;
        self.in_flight += tally.in_flight;
        if is_full && tally.samples > 0 {
            self.ledger.add(Cause::BufferFull, Some(cpu), Some(now), tally.samples);
        } else {
            self.events += tally.samples;
        }
        if tally.valid_bytes < length {
            self.ledger.add(Cause::Malformed, Some(cpu), Some(now), 1);
        }
        for Lost { time, cpu, count } in tally.losses {
            stream.told_lost += count;
            self.ledger.add(Cause::KernelLost, Some(cpu), Some(time - self.started), count);
        }
        Ok(())
    }

    /// Notes events that were counted and never sampled. `least` samples had surely been counted,
    /// and all that came out by now may have been. The gap goes back to the last time at which
    /// the counters proved that there was none beyond those known.
    fn note_unsampled(&mut self, cpu: Cpu, totals: Totals, least: u64, now: Nanos) {
        let now = now - self.started;
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.cpu == cpu) else { return };
        let count = totals.unsampled(stream.samples).saturating_sub(stream.unsampled);
        if count > 0 {
            stream.unsampled += count;
            let gap = Loss { cpu, from: stream.proven, to: now, count };
            self.ledger.add(Cause::NotSampled, Some(cpu), Some(gap.from), count);
            self.gaps.push(gap);
        }
        if totals.unsampled(least) <= stream.unsampled {
            stream.proven = now;
        }
    }

    /// Accounts for losses after the last record of a CPU, which the kernel tells only with a
    /// next record that never came. They go into the file in the form of the others.
    fn account_rest(
        &mut self,
        cpu: Cpu,
        totals: Totals,
        id: u64,
        stopped: Nanos,
    ) -> Result<(), Error> {
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.cpu == cpu) else {
            return Ok(());
        };
        let untold = totals.untold(stream.samples, stream.told_lost);
        if untold == 0 {
            return Ok(());
        }
        stream.told_lost += untold;
        self.ledger.add(Cause::KernelLost, Some(cpu), Some(stopped - self.started), untold);
        if !self.is_full {
            self.file.append(&lost_record(id, untold, stopped, cpu))?;
        }
        self.publish();
        Ok(())
    }

    fn publish(&self) {
        self.shared.events.store(self.events, Ordering::Relaxed);
        self.shared.bytes.store(self.file.bytes(), Ordering::Relaxed);
        self.shared.lost.store(self.ledger.lost(), Ordering::Relaxed);
        self.shared.in_flight.store(self.in_flight, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use iotrace_model::Entry;

    use super::{
        super::walk::{Span, tests::sample},
        *,
    };

    const ROUND: [u8; 8] = [68, 0, 0, 0, 0, 0, 8, 0];

    /// A ring of bounded size that wraps like the kernel's.
    struct FakeRing {
        bytes: Vec<u8>,
        head: usize,
        tail: usize,
    }

    impl FakeRing {
        fn push(&mut self, records: &[u8]) {
            for &byte in records {
                let place = self.head % self.bytes.len();
                self.bytes[place] = byte;
                self.head += 1;
            }
            assert!(self.pending() <= self.bytes.len());
        }
    }

    impl ByteRing for FakeRing {
        fn pending(&self) -> usize {
            self.head - self.tail
        }

        fn drain<T>(&mut self, length: usize, read: impl FnOnce(Span<'_>) -> T) -> T {
            let start = self.tail % self.bytes.len();
            let first = length.min(self.bytes.len() - start);
            let span = Span {
                first: &self.bytes[start..start + first],
                second: &self.bytes[..length - first],
            };
            let result = read(span);
            self.tail += length;
            result
        }
    }

    #[test]
    fn records_pass_unchanged_across_the_end_of_the_ring() {
        let mut drain = drain(None);
        let mut expected = Vec::new();
        for round in 0..7 {
            for cpu in 0..2 {
                let record = sample(7, 0x80_0000 + round);
                drain.streams[cpu].ring.push(&record);
                drain.streams[cpu].ring.push(&record);
                expected.extend([record.clone(), record].concat());
            }
            drain.round(Nanos(500)).unwrap();
            expected.extend(ROUND);
        }
        drain.round(Nanos(500)).unwrap();
        assert_eq!(drain.events, 28);
        assert_eq!(drain.ledger, Ledger::default());
        assert_eq!(records(drain), expected);
    }

    #[test]
    fn beyond_the_limit_events_are_counted_instead_of_kept() {
        let head = drain(None).file.bytes();
        let mut drain = drain(Some(head + 2 * (64 + 8)));
        for _ in 0..3 {
            drain.streams[1].ring.push(&sample(7, 0));
            drain.round(Nanos(500)).unwrap();
        }
        assert_eq!((drain.events, drain.is_full), (2, true));
        check(&drain, Cause::BufferFull, 1, 1, 400);
        assert_eq!(records(drain).len(), 2 * (64 + 8));
    }

    #[test]
    fn told_losses_are_dated_by_their_record() {
        let mut drain = drain(None);
        drain.streams[1].ring.push(&lost_record(5, 30, Nanos(177), Cpu(1)));
        drain.round(Nanos(500)).unwrap();
        check(&drain, Cause::KernelLost, 30, 1, 77);
        drain.account_rest(Cpu(1), Totals { fired: 30, lost: Some(30) }, 5, Nanos(900)).unwrap();
        check(&drain, Cause::KernelLost, 30, 1, 77);
        assert_eq!(drain.shared.lost.load(Ordering::Relaxed), 30);
    }

    #[test]
    fn losses_after_the_last_record_are_written_into_the_file() {
        let mut drain = drain(None);
        let totals = Totals { fired: 12, lost: Some(12) };
        drain.account_rest(Cpu(1), totals, 5, Nanos(900)).unwrap();
        check(&drain, Cause::KernelLost, 12, 1, 800);
        assert_eq!(records(drain), lost_record(5, 12, Nanos(900), Cpu(1)));
    }

    #[test]
    fn an_old_kernel_tells_losses_by_what_fired() {
        assert_eq!(Totals { fired: 12, lost: None }.untold(7, 3), 2);
        assert_eq!(Totals { fired: 12, lost: None }.untold(12, 0), 0);
        assert_eq!(Totals { fired: 12, lost: Some(4) }.untold(12, 1), 3);
        assert_eq!(Totals { fired: 12, lost: Some(0) }.untold(12, 1), 0);
    }

    #[test]
    fn events_that_were_counted_but_not_sampled_are_a_gap_since_the_last_proof() {
        let mut drain = drain(None);
        let totals = |fired| Totals { fired, lost: Some(1) };
        drain.streams[1].ring.push(&sample(7, 0));
        drain.round(Nanos(500)).unwrap();
        // One sample, one loss, two counted: proven at 400 since the start.
        drain.note_unsampled(Cpu(1), totals(2), 1, Nanos(500));
        assert_eq!((drain.gaps.len(), drain.streams[1].proven), (0, Nanos(400)));
        // Three counted, and the second sample may have come before or after: nothing is proven.
        drain.streams[1].ring.push(&sample(7, 0));
        drain.round(Nanos(600)).unwrap();
        drain.note_unsampled(Cpu(1), totals(3), 1, Nanos(600));
        assert_eq!((drain.gaps.len(), drain.streams[1].proven), (0, Nanos(400)));
        // Six counted, two samples, one loss: three are missing, perhaps since 400.
        drain.note_unsampled(Cpu(1), totals(6), 2, Nanos(700));
        let gap = Loss { cpu: Cpu(1), from: Nanos(400), to: Nanos(600), count: 3 };
        assert_eq!((drain.gaps.as_slice(), drain.streams[1].proven), (&[gap][..], Nanos(600)));
        check(&drain, Cause::NotSampled, 3, 1, 400);
    }

    #[test]
    fn what_is_dropped_beyond_the_limit_is_a_gap_to_the_end() {
        let head = drain(None).file.bytes();
        let mut drain = drain(Some(head + 64 + 8));
        for now in [500, 600, 700] {
            drain.streams[1].ring.push(&sample(7, 0));
            drain.round(Nanos(now)).unwrap();
        }
        let gap = |cpu| Loss { cpu: Cpu(cpu), from: Nanos(400), to: Nanos(i64::MAX), count: 0 };
        assert_eq!(drain.gaps, [gap(0), gap(1)]);
    }

    #[test]
    fn a_torn_record_is_left_out_and_counted() {
        let mut drain = drain(None);
        let record = sample(7, 0);
        drain.streams[1].ring.push(&record);
        drain.streams[1].ring.push(&record[..32]);
        drain.round(Nanos(500)).unwrap();
        check(&drain, Cause::Malformed, 1, 1, 400);
        assert_eq!(records(drain), [&record[..], &ROUND].concat());
    }

    /// Two CPUs with rings of 200 bytes; the run starts at 100.
    fn drain(limit_bytes: Option<u64>) -> Drain<FakeRing> {
        let stream = |cpu| Stream {
            cpu: Cpu(cpu),
            ring: FakeRing { bytes: vec![0; 200], head: 0, tail: 0 },
            samples: 0,
            told_lost: 0,
            unsampled: 0,
            proven: Nanos(0),
        };
        let description = Description {
            events: &[],
            counts_lost: true,
            watermark: 0,
            header_page: "",
            header_event: "",
        };
        let file = sys::memory_file(c"test").unwrap();
        Drain {
            streams: vec![stream(0), stream(1)],
            file: PerfFile::create(file, &description).unwrap(),
            watch: Watch::default(),
            limit_bytes,
            is_full: false,
            started: Nanos(100),
            ledger: Ledger::default(),
            gaps: Vec::new(),
            last_round: Nanos(0),
            events: 0,
            in_flight: 0,
            shared: Arc::default(),
        }
    }

    /// The records of the file: it is empty before its first one and the features follow.
    fn records(drain: Drain<FakeRing>) -> Vec<u8> {
        let total = drain.file.bytes();
        let closing = Closing {
            cpus_available: 1,
            cpus_online: 1,
            started: Nanos(0),
            started_realtime: Nanos(0),
            stopped: Nanos(0),
        };
        let (mut file, _) = drain.file.finish(&closing).unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        let start = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
        bytes[usize::try_from(start).unwrap()..usize::try_from(total).unwrap()].to_vec()
    }

    #[track_caller]
    fn check(drain: &Drain<FakeRing>, cause: Cause, count: u64, occasions: u64, time: i64) {
        let time = Some(Nanos(time));
        let expected = Entry { count, occasions, first: time, last: time };
        let entries: Vec<_> = drain.ledger.entries().collect();
        assert_eq!(entries, [(cause, Some(Cpu(1)), expected)]);
    }
}
