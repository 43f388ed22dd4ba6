//! Perf files: `perf.data` of `perf record`, and the raw captures of iotrace.
//!
//! Layout: `tools/perf/Documentation/perf.data-file-format.txt` and
//! `include/uapi/linux/perf_event.h` of the kernel. Only files of little-endian machines in file
//! mode are read. A capture that was cut short has no size and no feature table in its header: its
//! data go on to the end of the file, and the formats are looked for before the data.
//!
//! A file is passed over twice: once for its losses (`lost`), which are reported later than they
//! happen, and once for its events.

mod decode;
mod header;
mod layouts;
mod lost;
mod records;
mod sample;
mod tracing_data;

use std::io::{Read, Seek};

use iotrace_model::{AtaPort, Cause, DeviceId, Item, Ledger, Nanos};

use self::decode::Decoder;
use self::header::{File, Header};
use self::lost::Survey;
use self::records::{Next, RecordStream, State};
use crate::Error;
use crate::merge::Merge;

/// Kinds of records that are looked at.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// What the reader must be told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Absolute `CLOCK_MONOTONIC` of the start of the run; subtracted from every time. 0 keeps the
    /// file's own times.
    pub origin: Nanos,
    /// Devices behind libata's ports, which its events name instead.
    pub devices: Vec<(AtaPort, DeviceId)>,
}

/// Records read and used; the rest is in the ledger as foreign, malformed or truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Records in the data so far, one that is cut included.
    pub read: u64,
    /// Of these, events, losses and marks that were used.
    pub used: u64,
}

/// Reads a perf file in batches, in the order of time, CPU and place in the CPU's stream.
///
/// Memory is bounded by two rounds of the recorder's rings. In a file without marks of rounds at
/// most two million events wait; what then comes too late is counted as `TimeBackwards`.
#[derive(Debug)]
pub struct PerfReader<R> {
    records: RecordStream<R>,
    decoder: Decoder,
    merge: Merge,
    first: Option<Nanos>,
    last: Option<Nanos>,
    finished: bool,
}

impl<R: Read + Seek> PerfReader<R> {
    /// Reads the header and the event formats, and passes over the records once. `path` is the
    /// file's name in errors.
    ///
    /// # Errors
    /// When this is no perf file, or one that cannot be understood at all.
    pub fn open(mut reader: R, path: &str, options: Options) -> Result<Self, Error> {
        let mut file = File::new(&mut reader, path)?;
        let header = Header::read(&mut file)?;
        let formats = tracing_data::read(&mut file, &header.formats)?;
        let clock = Clock::new(options.origin);
        let mut records = RecordStream::new(reader, path);
        let survey = Survey::new(&mut records, path, header.data, &header.layouts, clock)?;
        records.start(header.data)?;
        let Survey { losses, ledger, first, last, .. } = survey;
        Ok(Self {
            records,
            decoder: Decoder::new(&formats, header.layouts, options.devices, clock, ledger),
            merge: Merge::new(losses),
            first,
            last,
            finished: false,
        })
    }

    /// Adds the next items, in order, to `out`, which may stay as it is; false when there will be
    /// no more.
    ///
    /// # Errors
    /// When the operating system cannot read on.
    pub fn next_batch(&mut self, out: &mut Vec<Item>) -> Result<bool, Error> {
        if self.finished {
            return Ok(false);
        }
        self.records.fill()?;
        loop {
            match self.records.next() {
                Next::Record(record) => self.decoder.take(record, &mut self.merge, out),
                Next::Broken => self.decoder.give_up(Cause::Malformed),
                Next::Used => break,
            }
        }
        match self.records.state() {
            State::More => {
                self.merge.relieve(out);
                return Ok(true);
            }
            State::Cut => self.decoder.give_up(Cause::Truncated),
            State::Ended => {}
        }
        self.merge.finish(out);
        self.finished = true;
        Ok(false)
    }

    /// What was counted instead of being used. Losses of the kernel are here from the start.
    pub fn ledger(&self) -> &Ledger {
        &self.decoder.ledger
    }

    /// Records read and used so far.
    pub fn records(&self) -> Records {
        self.decoder.counts
    }

    /// Time of the earliest sample of any event; `None` without samples. Known from the start.
    pub fn first_time(&self) -> Option<Nanos> {
        self.first
    }

    /// Time of the latest sample of any event; `None` without samples. Known from the start.
    pub fn last_time(&self) -> Option<Nanos> {
        self.last
    }
}

/// From the file's clock to that of the run.
#[derive(Clone, Copy, Debug)]
struct Clock {
    origin: Nanos,
    /// The start of the run; `None` when it was not told.
    start: Option<Nanos>,
}

impl Clock {
    fn new(origin: Nanos) -> Self {
        let is_told = origin != Nanos::default();
        Self { origin, start: is_told.then_some(Nanos::default()) }
    }

    fn time(self, absolute: u64) -> Nanos {
        Nanos(i64::try_from(absolute).unwrap_or(i64::MAX)) - self.origin
    }
}

/// Where a list by CPU has a CPU; `None` for a number that no machine has.
fn cpu_place(cpu: u32) -> Option<usize> {
    /// Above the largest `CONFIG_NR_CPUS` of any architecture.
    const MOST_CPUS: usize = 1 << 16;
    usize::try_from(cpu).ok().filter(|place| *place < MOST_CPUS)
}
