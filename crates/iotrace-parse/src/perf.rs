//! Perf files: `perf.data` of `perf record`, and the raw captures of iotrace.
//!
//! Layout: `tools/perf/Documentation/perf.data-file-format.txt` and
//! `include/uapi/linux/perf_event.h` of the kernel. Only files of little-endian machines in file
//! mode are read. A capture that was cut short has no size and no feature table in its header: its
//! data go on to the end of the file, and the formats are looked for before the data.

mod header;
mod sample;
mod tracing_data;

use std::io::{Read, Seek, SeekFrom};

use iotrace_model::{AtaPort, Cause, Cpu, DeviceId, Item, Ledger, Loss, Nanos};

use self::header::Header;
use self::sample::{Layout, Sample, Trailer};
use crate::Error;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::merge::Merge;
use crate::tracepoint::{Context, Tracepoint};

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const RECORD_LOST_SAMPLES: u32 = 13;
const RECORD_COMPRESSED: u32 = 81;
const RECORD_COMPRESSED2: u32 = 83;
const RECORD_FINISHED_ROUND: u32 = 68;
/// Type, misc and size before every record.
const RECORD_HEADER: usize = 8;
/// Bytes read at once; no record is longer than 64 KiB.
const CHUNK: usize = 1 << 20;

/// What the reader must be told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Absolute `CLOCK_MONOTONIC` of the start of the run; subtracted from every time.
    pub origin: Nanos,
    /// Devices behind libata's ports, which its events name instead.
    pub devices: Vec<(AtaPort, DeviceId)>,
}

/// Records read and used; the rest is in the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Records in the data.
    pub read: u64,
    /// Of these, events, losses and marks that were used.
    pub used: u64,
}

/// Reads a perf file in batches, in the order of the merge.
#[derive(Debug)]
pub struct PerfReader<R> {
    reader: R,
    path: String,
    options: Options,
    layout: Layout,
    /// Readers by `common_type`, sorted.
    tracepoints: Vec<(u16, Tracepoint)>,
    /// Bytes of the data still unread in the file.
    left: u64,
    offset: u64,
    buffer: Vec<u8>,
    /// Start of the first unread record in `buffer`.
    start: usize,
    cpus: Vec<CpuState>,
    merge: Merge,
    records: Records,
    ledger: Ledger,
    finished: bool,
}

/// What is known of one CPU's stream.
#[derive(Clone, Copy, Debug, Default)]
struct CpuState {
    events: u64,
    last: Nanos,
}

impl<R: Read + Seek> PerfReader<R> {
    /// Reads the header and the event formats.
    ///
    /// # Errors
    /// When this is no perf file, or one that cannot be understood at all.
    pub fn open(mut reader: R, path: &str, options: Options) -> Result<Self, Error> {
        let header = Header::read(&mut reader, path)?;
        let formats = tracing_data::read(&mut reader, path, &header)?;
        let mut tracepoints: Vec<_> = formats
            .iter()
            .filter_map(|format| Some((format.id, Tracepoint::new(format)?)))
            .collect();
        tracepoints.sort_by_key(|(id, _)| *id);
        let read =
            |source| Error::Read { path: path.to_owned(), offset: header.data.offset, source };
        reader.seek(SeekFrom::Start(header.data.offset)).map_err(read)?;
        Ok(Self {
            reader,
            path: path.to_owned(),
            options,
            layout: header.layout,
            tracepoints,
            left: header.data.size,
            offset: header.data.offset,
            buffer: Vec::with_capacity(2 * CHUNK),
            start: 0,
            cpus: Vec::new(),
            merge: Merge::default(),
            records: Records::default(),
            ledger: Ledger::default(),
            finished: false,
        })
    }

    /// Adds the next items, in order, to `out`; false when there will be no more.
    ///
    /// # Errors
    /// When the operating system cannot read on.
    pub fn next_batch(&mut self, out: &mut Vec<Item>) -> Result<bool, Error> {
        if self.finished {
            return Ok(false);
        }
        let more = self.fill()?;
        self.records_of_buffer(out);
        self.merge.relieve(out);
        if !more {
            let rest = self.buffer.len() - self.start;
            if rest > 0 {
                self.ledger.add(Cause::Truncated, None, None, 1);
            }
            self.merge.finish(out);
            self.finished = true;
        }
        Ok(more)
    }

    /// What was counted instead of being used.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Records read and used so far.
    pub fn records(&self) -> Records {
        self.records
    }

    /// Keeps the unread rest of the buffer and reads the next chunk behind it.
    fn fill(&mut self) -> Result<bool, Error> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let want = self.left.min(CHUNK as u64);
        let before = self.buffer.len();
        let read =
            self.reader.by_ref().take(want).read_to_end(&mut self.buffer).map_err(|source| {
                Error::Read { path: self.path.clone(), offset: self.offset, source }
            })?;
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(self.left > 0 && self.buffer.len() > before)
    }

    fn records_of_buffer(&mut self, out: &mut Vec<Item>) {
        let buffer = std::mem::take(&mut self.buffer);
        while let Some(rest) = buffer.get(self.start..)
            && let (Some(kind), Some(size)) = (u32_at(rest, 0), u16_at(rest, 6))
        {
            let size = usize::from(size);
            if size < RECORD_HEADER {
                // Nothing behind this can be found again.
                self.ledger.add(Cause::Malformed, None, None, 1);
                self.start = buffer.len();
                self.left = 0;
                break;
            }
            let Some(body) = rest.get(RECORD_HEADER..size) else { break };
            self.records.read += 1;
            if self.record(kind, body, out) {
                self.records.used += 1;
            }
            self.start += size;
        }
        self.buffer = buffer;
    }

    /// Takes one record; false when it was counted in the ledger instead.
    fn record(&mut self, kind: u32, body: &[u8], out: &mut Vec<Item>) -> bool {
        match kind {
            RECORD_SAMPLE => self.sample(body),
            RECORD_LOST => self.lost(body, u64_at(body, 8)),
            RECORD_LOST_SAMPLES => self.lost(body, u64_at(body, 0)),
            RECORD_FINISHED_ROUND => {
                self.merge.end_round(out);
                true
            }
            RECORD_COMPRESSED | RECORD_COMPRESSED2 => {
                self.ledger.add(Cause::Malformed, None, None, 1);
                false
            }
            _ => {
                self.ledger.add(Cause::Foreign, None, None, 1);
                false
            }
        }
    }

    fn sample(&mut self, body: &[u8]) -> bool {
        let Some(sample) = Sample::read(body, &self.layout) else {
            self.ledger.add(Cause::Malformed, None, None, 1);
            return false;
        };
        let time = self.time(sample.time);
        let cpu = Cpu(sample.cpu);
        let Some(state) = self.cpu(cpu) else {
            self.ledger.add(Cause::Malformed, None, Some(time), 1);
            return false;
        };
        let sequence = state.events;
        state.events += 1;
        state.last = state.last.max(time);
        let id = u16_at(sample.raw, 0).unwrap_or(0);
        let Ok(place) = self.tracepoints.binary_search_by_key(&id, |(id, _)| *id) else {
            self.ledger.add(Cause::Foreign, Some(cpu), Some(time), 1);
            return false;
        };
        let context = Context { time, cpu, sequence, pid: sample.tid };
        let event = self
            .tracepoints
            .get(place)
            .and_then(|(_, point)| point.read(sample.raw, context, &self.options.devices));
        let Some(event) = event else {
            self.ledger.add(Cause::Malformed, Some(cpu), Some(time), 1);
            return false;
        };
        self.merge.push(Item::Event(event), &mut self.ledger);
        true
    }

    /// A gap in a CPU's stream, placed between the record before and this one.
    fn lost(&mut self, body: &[u8], count: Option<u64>) -> bool {
        let trailer = Trailer::read(body, &self.layout);
        let (Some(count), Some(trailer)) = (count, trailer) else {
            self.ledger.add(Cause::Malformed, None, None, 1);
            return false;
        };
        let to = self.time(trailer.time);
        let cpu = Cpu(trailer.cpu);
        let Some(state) = self.cpu(cpu) else {
            self.ledger.add(Cause::Malformed, None, Some(to), 1);
            return false;
        };
        let from = state.last.min(to);
        state.last = to;
        self.ledger.add(Cause::KernelLost, Some(cpu), Some(from), count);
        self.merge.push(Item::Loss(Loss { cpu, from, to, count }), &mut self.ledger);
        true
    }

    fn time(&self, absolute: u64) -> Nanos {
        Nanos(i64::try_from(absolute).unwrap_or(i64::MAX)) - self.options.origin
    }

    /// `None` for a CPU number that no machine has.
    fn cpu(&mut self, cpu: Cpu) -> Option<&mut CpuState> {
        /// Above the largest `CONFIG_NR_CPUS` of any architecture.
        const MOST_CPUS: usize = 1 << 16;
        let place = usize::try_from(cpu.0).ok().filter(|place| *place < MOST_CPUS)?;
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, CpuState::default());
        }
        self.cpus.get_mut(place)
    }
}
