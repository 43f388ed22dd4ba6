//! Perf files: `perf.data` of `perf record`, and the raw captures of iotrace.
//!
//! Layout: `tools/perf/Documentation/perf.data-file-format.txt` and
//! `include/uapi/linux/perf_event.h` of the kernel. Files of little-endian machines are read, in file
//! mode and in pipe mode, with compressed records or without. A capture that was cut short has no
//! size and no feature table in its header: its data go on to the end of the file, and the formats
//! are looked for before the data.
//!
//! A file is passed over twice: once for its losses and its first event (`lost`), which are told
//! later than they happen, and once for its events.

mod attribute;
mod clock;
mod decode;
mod file;
mod header;
mod inflate;
mod known;
mod layouts;
mod lost;
mod pipe;
mod records;
mod sample;
mod tracing_data;

use std::io::{Read, Seek};

use iotrace_model::{AtaPort, Cause, DeviceId, Item, Ledger, Nanos};

use self::clock::{Clock, ClockFacts};
use self::decode::Decoder;
use self::file::File;
use self::header::Header;
use self::known::Tracepoints;
use self::lost::Survey;
use self::records::{Next, RecordStream, State};
use crate::merge::{Merge, PORTION};
use crate::{About, Error, Progress, Reader};

/// Kinds of records that are looked at.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const HEADER_TRACING_DATA: u32 = 66;
    pub(super) const FINISHED_ROUND: u32 = 68;
    /// Trace data of a processor follow it.
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const HEADER_FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// What the reader must be told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The start of the run on the file's clock; subtracted from every time. 0 keeps the file's own
    /// times; `None` makes the earliest event time 0.
    pub origin: Option<Nanos>,
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
/// most two million events wait; what then comes too late is counted as `TimeBackwards`. Losses of
/// the kernel are in the ledger from the start.
#[derive(Debug)]
pub struct PerfReader<R> {
    records: RecordStream<R>,
    decoder: Decoder,
    merge: Merge,
    clock: ClockFacts,
    is_pipe: bool,
    first: Option<Nanos>,
    last: Option<Nanos>,
    stage: Stage,
    /// Why the file could not be read on, to be told behind what was read.
    failure: Option<Error>,
}

/// How far a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The next block is to be read.
    Between,
    /// A block is there whose records are not used up.
    Within,
    /// All records were read; events wait.
    Read,
    /// All is out.
    Finished,
}

impl<R: Read + Seek> PerfReader<R> {
    /// Reads the header and the event formats, and passes over the records once. `path` is the
    /// file's name in errors.
    ///
    /// # Errors
    /// When this is no perf file, or one that cannot be understood at all.
    pub fn open(mut reader: R, path: &str, options: Options) -> Result<Self, Error> {
        let header = Header::read(&mut File::new(&mut reader, path)?)?;
        let Header { data, layouts, formats, clock, is_pipe } = header;
        let tracepoints = Tracepoints::new(&formats);
        let mut records = RecordStream::new(reader, path);
        let survey = Survey::new(&mut records, data, &layouts, &tracepoints, options.origin)?;
        records.start(data)?;
        let Survey { losses, ledger, origin, first, last, .. } = survey;
        let decoder = Decoder {
            layouts,
            tracepoints,
            ports: options.devices,
            clock: Clock { origin },
            sequences: Vec::new(),
            counts: Records::default(),
            ledger,
        };
        let merge = Merge::new(losses);
        let stage = Stage::Between;
        Ok(Self { records, decoder, merge, clock, is_pipe, first, last, stage, failure: None })
    }

    /// Reads records, no more than a portion of events: a block of compressed ones can hold any
    /// number.
    fn read_batch(&mut self) {
        if self.stage == Stage::Between
            && let Err(error) = self.records.fill()
        {
            self.failure = Some(error);
            self.stage = Stage::Read;
            return;
        }
        self.stage = Stage::Within;
        for _ in 0..PORTION {
            match self.records.next() {
                Next::Record(record) => self.decoder.take(record, &mut self.merge),
                Next::Damaged | Next::Broken => self.decoder.give_up(Cause::Malformed),
                Next::Used => {
                    self.stage = Stage::Between;
                    break;
                }
            }
        }
        if self.stage == Stage::Between {
            match self.records.state() {
                State::More => {}
                State::Cut => {
                    self.decoder.give_up(Cause::Truncated);
                    self.stage = Stage::Read;
                }
                State::Ended => self.stage = Stage::Read,
            }
        }
    }

    /// Time of the earliest event; `None` without events. Known from the start.
    pub fn first_time(&self) -> Option<Nanos> {
        self.first
    }

    /// Time of the latest event; `None` without events. Known from the start.
    pub fn last_time(&self) -> Option<Nanos> {
        self.last
    }
}

impl<R: Read + Seek + Send> Reader for PerfReader<R> {
    fn next_batch(&mut self, out: &mut Vec<Item>) -> Result<Progress, Error> {
        if matches!(self.stage, Stage::Between | Stage::Within) {
            self.merge.let_out(out);
            self.read_batch();
        } else if self.stage == Stage::Read && self.merge.finish_portion(out) {
            self.stage = Stage::Finished;
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
        }
        Ok(if self.stage == Stage::Finished { Progress::End } else { Progress::More })
    }

    fn take_ledger(&mut self) -> Ledger {
        std::mem::take(&mut self.decoder.ledger)
    }

    fn records(&self) -> Records {
        self.decoder.counts
    }

    fn about(&self) -> About {
        let mut source = "perf.data".to_owned();
        if self.is_pipe {
            source.push_str(", pipe mode");
        }
        if self.records.is_compressed() {
            source.push_str(", compressed");
        }
        let origin = self.decoder.clock.origin;
        let mut notes = Vec::new();
        notes.extend(self.clock.note().map(str::to_owned));
        if self.decoder.tracepoints.is_empty() {
            notes.push(
                "no tracepoint of the file is a block event; record with \
                 perf record -a -k mono -e 'block:*'"
                    .to_owned(),
            );
        }
        About {
            source,
            clock: self.clock.name(),
            origin: Some(origin),
            wall: self.clock.wall(origin),
            names: Vec::new(),
            messages: Vec::new(),
            notes,
        }
    }
}

/// Where a list by CPU has a CPU; `None` for a number that no machine has.
fn cpu_place(cpu: u32) -> Option<usize> {
    /// Above the largest `CONFIG_NR_CPUS` of any architecture.
    const MOST_CPUS: usize = 1 << 16;
    usize::try_from(cpu).ok().filter(|place| *place < MOST_CPUS)
}
