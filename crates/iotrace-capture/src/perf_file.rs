//! Writes a perf file (`perf.data`) that can be read even when writing was cut off.
//!
//! Formats: `tools/perf/Documentation/perf.data-file-format.txt` and, for the tracing data,
//! `tools/perf/util/trace-event-read.c` of the kernel. The parts stand in this order:
//!
//! ```text
//! header │ attrs │ ids of each attr │ tracing data │ records … │ feature table │ features
//! 104 B                                            ▲ data.offset
//! ```
//!
//! perf itself puts the tracing data last. Here it stands between the ids and `data.offset`, and
//! until `finish` the header says `data.size` 0 and names no feature: a reader of a file that
//! was cut off takes the records up to the end of the file and the tracing data from that gap.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
};

use iotrace_model::{Cpu, Nanos};

use crate::{Error, sys, tracefs::TraceEvent};

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_SAMPLE_TID | TIME | ID | CPU | RAW`.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 10;
/// `PERF_FORMAT_ID`.
const FORMAT_ID: u64 = 1 << 2;
/// `PERF_FORMAT_LOST`.
const FORMAT_LOST: u64 = 1 << 4;
/// The bits `disabled`, `watermark`, `sample_id_all` and `use_clockid`.
const ATTR_FLAGS: u64 = 1 | 1 << 14 | 1 << 18 | 1 << 25;
/// `CLOCK_MONOTONIC`.
const CLOCK_MONOTONIC: u32 = 1;
/// `PERF_ATTR_SIZE_VER5`: the newest field that is not zero is `clockid`.
const ATTR_SIZE: u64 = 112;
const HEADER_SIZE: u64 = 104;
/// `PERF_RECORD_FINISHED_ROUND` with its size: all rings were read once.
const FINISHED_ROUND: [u8; 8] = [68, 0, 0, 0, 0, 0, 8, 0];
/// Bytes that `finish_round` adds.
pub(crate) const ROUND_BYTES: u64 = 8;
/// `PERF_RECORD_LOST`.
const RECORD_LOST: u32 = 2;

/// What the head of the file says of the events that were opened.
#[derive(Debug)]
pub(crate) struct Description<'a> {
    /// Each event and the ids of its counters, one for each CPU.
    pub(crate) events: &'a [(TraceEvent, Vec<u64>)],
    /// Whether the kernel counts lost records for each counter.
    pub(crate) counts_lost: bool,
    /// Bytes in a ring at which the kernel wakes the reader.
    pub(crate) watermark: u32,
    /// Text of tracefs `events/header_page`.
    pub(crate) header_page: &'a str,
    /// Text of tracefs `events/header_event`.
    pub(crate) header_event: &'a str,
}

/// What is known only when the capture is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    /// One more than the highest CPU number.
    pub(crate) cpus_available: u32,
    /// CPUs that were traced.
    pub(crate) cpus_online: u32,
    /// Start of the capture, `CLOCK_MONOTONIC`.
    pub(crate) started: Nanos,
    /// The same moment, `CLOCK_REALTIME`.
    pub(crate) started_realtime: Nanos,
    /// End of the capture, `CLOCK_MONOTONIC`.
    pub(crate) stopped: Nanos,
}

/// A perf file that is being written.
#[derive(Debug)]
pub(crate) struct PerfFile {
    file: File,
    attrs: Section,
    tracing: Section,
    /// The records; its size grows.
    data: Section,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Section {
    offset: u64,
    size: u64,
}

impl PerfFile {
    /// Writes everything before the records to `file`, which is empty and at its start.
    pub(crate) fn create(file: File, description: &Description<'_>) -> Result<PerfFile, Error> {
        let attrs = attrs(description);
        let tracing = tracing_data(description);
        let attr_count = length(description.events);
        let attrs_section = Section { offset: HEADER_SIZE, size: attr_count * (ATTR_SIZE + 16) };
        let tracing_section =
            Section { offset: HEADER_SIZE + length(&attrs), size: length(&tracing) };
        let data = Section { offset: tracing_section.offset + tracing_section.size, size: 0 };
        let perf = PerfFile { file, attrs: attrs_section, tracing: tracing_section, data };
        let head = [perf.header(0), attrs, tracing].concat();
        (&perf.file).write_all(&head).map_err(|source| perf.write_error(source))?;
        Ok(perf)
    }

    /// Appends whole records.
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<(), Error> {
        (&self.file).write_all(records).map_err(|source| self.write_error(source))?;
        self.data.size += length(records);
        Ok(())
    }

    /// Marks that every ring was read once, so that readers may sort what came before.
    pub(crate) fn finish_round(&mut self) -> Result<(), Error> {
        self.append(&FINISHED_ROUND)
    }

    /// Bytes in the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.data.offset + self.data.size
    }

    /// Appends the features, completes the header, and hands the file back.
    pub(crate) fn finish(self, closing: &Closing) -> Result<(File, u64), Error> {
        let features = features(closing);
        let mut table = Vec::new();
        let mut bodies = Vec::new();
        let mut bits = 1 << feature::TRACING_DATA;
        let start = self.bytes() + 16 * (1 + length(&features));
        put_section(&mut table, self.tracing);
        for (bit, body) in &features {
            bits |= 1_u64 << bit;
            let offset = start + length(&bodies);
            put_section(&mut table, Section { offset, size: length(body) });
            bodies.extend(body);
        }
        let tail = [table, bodies].concat();
        let written = (&self.file)
            .write_all(&tail)
            .and_then(|()| self.file.write_all_at(&self.header(bits), 0));
        written.map_err(|source| self.write_error(source))?;
        let bytes = self.bytes() + length(&tail);
        Ok((self.file, bytes))
    }

    /// `struct perf_file_header`.
    fn header(&self, features: u64) -> Vec<u8> {
        let mut out = b"PERFILE2".to_vec();
        put_u64(&mut out, HEADER_SIZE);
        put_u64(&mut out, ATTR_SIZE + 16);
        put_section(&mut out, self.attrs);
        put_section(&mut out, self.data);
        put_section(&mut out, Section::default());
        put_u64(&mut out, features);
        out.resize(usize::try_from(HEADER_SIZE).expect("104 fits"), 0);
        out
    }

    fn write_error(&self, source: io::Error) -> Error {
        let bytes = self.bytes();
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Error::DiskFull { bytes, source },
            _ => Error::WriteCapture { bytes, source },
        }
    }
}

/// A `PERF_RECORD_LOST` as the kernel writes it with the sample type used here.
pub(crate) fn lost_record(id: u64, count: u64, time: Nanos, cpu: Cpu) -> Vec<u8> {
    let mut out = Vec::with_capacity(56);
    put_u32(&mut out, RECORD_LOST);
    out.extend(0_u16.to_le_bytes());
    out.extend(56_u16.to_le_bytes());
    put_u64(&mut out, id);
    put_u64(&mut out, count);
    // The trailer of every record: pid and tid, time, id, CPU and padding.
    put_u64(&mut out, 0);
    out.extend(time.0.to_le_bytes());
    put_u64(&mut out, id);
    put_u32(&mut out, cpu.0);
    put_u32(&mut out, 0);
    out
}

/// Bits of the features, `enum` in `tools/perf/util/header.h`.
mod feature {
    pub(super) const TRACING_DATA: u32 = 1;
    pub(super) const NRCPUS: u32 = 7;
    pub(super) const SAMPLE_TIME: u32 = 21;
    pub(super) const CLOCKID: u32 = 23;
    pub(super) const CLOCK_DATA: u32 = 29;
}

/// The features that stand after the records, ascending by bit.
fn features(closing: &Closing) -> [(u32, Vec<u8>); 4] {
    let mut cpus = Vec::new();
    put_u32(&mut cpus, closing.cpus_available);
    put_u32(&mut cpus, closing.cpus_online);
    let mut times = Vec::new();
    times.extend(closing.started.0.to_le_bytes());
    times.extend(closing.stopped.0.to_le_bytes());
    let mut resolution = Vec::new();
    put_u64(&mut resolution, 1);
    let mut clock = Vec::new();
    put_u32(&mut clock, 1);
    put_u32(&mut clock, CLOCK_MONOTONIC);
    clock.extend(closing.started_realtime.0.to_le_bytes());
    clock.extend(closing.started.0.to_le_bytes());
    [
        (feature::NRCPUS, cpus),
        (feature::SAMPLE_TIME, times),
        (feature::CLOCKID, resolution),
        (feature::CLOCK_DATA, clock),
    ]
}

/// The attrs, each with the place of its ids, and after them the ids.
fn attrs(description: &Description<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut ids = Vec::new();
    let ids_start = HEADER_SIZE + length(description.events) * (ATTR_SIZE + 16);
    for (event, counters) in description.events {
        put_attr(&mut out, event.id, description);
        let section = Section { offset: ids_start + length(&ids), size: 8 * length(counters) };
        put_section(&mut out, section);
        for &id in counters {
            put_u64(&mut ids, id);
        }
    }
    out.extend(ids);
    out
}

/// `struct perf_event_attr` up to its fifth version.
fn put_attr(out: &mut Vec<u8>, config: u64, description: &Description<'_>) {
    let lost = if description.counts_lost { FORMAT_LOST } else { 0 };
    let sample_period = 1;
    put_u32(out, TYPE_TRACEPOINT);
    put_u32(out, u32::try_from(ATTR_SIZE).expect("112 fits"));
    for word in [config, sample_period, SAMPLE_TYPE, FORMAT_ID | lost, ATTR_FLAGS] {
        put_u64(out, word);
    }
    put_u32(out, description.watermark);
    put_u32(out, 0); // breakpoint type
    for _ in ["config1", "config2", "branch_sample_type", "sample_regs_user"] {
        put_u64(out, 0);
    }
    put_u32(out, 0); // user stack
    put_u32(out, CLOCK_MONOTONIC);
    for _ in ["sample_regs_intr", "aux_watermark and sample_max_stack"] {
        put_u64(out, 0);
    }
}

/// The texts that a reader needs to understand the fields of the events.
fn tracing_data(description: &Description<'_>) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing0.6\0".to_vec();
    out.push(0); // little endian
    out.push(8); // bytes of a long
    put_u32(&mut out, u32::try_from(sys::page_size()).unwrap_or(4096));
    out.extend(b"header_page\0");
    put_text(&mut out, description.header_page);
    out.extend(b"header_event\0");
    put_text(&mut out, description.header_event);
    put_u32(&mut out, 0); // events of ftrace itself
    let systems: Vec<_> =
        description.events.chunk_by(|(a, _), (b, _)| a.system == b.system).collect();
    put_u32(&mut out, count(&systems));
    for events in systems {
        let system = events.first().map_or("", |(event, _)| event.system.as_str());
        out.extend(system.as_bytes());
        out.push(0);
        put_u32(&mut out, count(events));
        for (event, _) in events {
            put_text(&mut out, &event.format);
        }
    }
    put_u32(&mut out, 0); // kernel symbols
    put_u32(&mut out, 0); // formats of trace_printk
    put_u64(&mut out, 0); // names of tasks
    out
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_u64(out, length(text.as_bytes()));
    out.extend(text.as_bytes());
}

fn put_section(out: &mut Vec<u8>, section: Section) {
    put_u64(out, section.offset);
    put_u64(out, section.size);
}

fn put_u64(out: &mut Vec<u8>, word: u64) {
    out.extend(word.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, word: u32) {
    out.extend(word.to_le_bytes());
}

fn length<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).expect("a usize is at most 64 bits")
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("there are a few dozen kinds of events")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    const CLOSING: Closing = Closing {
        cpus_available: 4,
        cpus_online: 2,
        started: Nanos(100),
        started_realtime: Nanos(5000),
        stopped: Nanos(900),
    };

    #[test]
    fn a_cut_off_file_says_where_its_records_begin() {
        let perf = create();
        let tracing = perf.tracing;
        let bytes = contents(perf.file);
        assert_eq!(&bytes[..8], b"PERFILE2");
        check(&bytes, 8, HEADER_SIZE);
        check(&bytes, 16, 128);
        check_section(&bytes, 24, Section { offset: 104, size: 3 * 128 });
        // Two ids for each of three events stand between the attrs and the tracing data.
        assert_eq!(tracing.offset, 104 + 3 * 128 + 3 * 2 * 8);
        let data = Section { offset: tracing.offset + tracing.size, size: 0 };
        check_section(&bytes, 40, data);
        check_section(&bytes, 56, Section::default());
        check(&bytes, 72, 0);
        assert_eq!(length(&bytes), data.offset);
    }

    #[test]
    fn attrs_hold_what_was_opened() {
        let bytes = contents(create().file);
        let second = 104 + 128;
        check(&bytes, second, 112 << 32 | 2);
        check(&bytes, second + 8, 12);
        check(&bytes, second + 16, 1);
        check(&bytes, second + 24, 0x4c6);
        check(&bytes, second + 32, 0x14);
        check(&bytes, second + 40, 0x204_4001);
        check(&bytes, second + 48, 4096);
        check(&bytes, second + 88, 1 << 32);
        let ids = Section { offset: 104 + 3 * 128 + 16, size: 16 };
        check_section(&bytes, second + 112, ids);
        check(&bytes, 104 + 3 * 128 + 16, 23);
        check(&bytes, 104 + 3 * 128 + 24, 24);
    }

    #[test]
    fn tracing_data_lists_events_by_system() {
        let perf = create();
        let (start, end) = (perf.tracing.offset, perf.tracing.offset + perf.tracing.size);
        let bytes = contents(perf.file);
        let blob = &bytes[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()];
        let mut expected = b"\x17\x08\x44tracing0.6\0\0\x08".to_vec();
        put_u32(&mut expected, u32::try_from(sys::page_size()).unwrap());
        expected.extend(b"header_page\0\x04\0\0\0\0\0\0\0page");
        expected.extend(b"header_event\0\x05\0\0\0\0\0\0\0event");
        expected.extend(b"\0\0\0\0\x02\0\0\0");
        expected.extend(b"block\0\x02\0\0\0\x07\0\0\0\0\0\0\0ID: 11\n\x07\0\0\0\0\0\0\0ID: 12\n");
        expected.extend(b"libata\0\x01\0\0\0\x07\0\0\0\0\0\0\0ID: 13\n");
        expected.extend([0; 16]);
        assert_eq!(blob, expected);
    }

    #[test]
    fn a_finished_file_has_its_features_after_the_records() {
        let mut perf = create();
        let (data, tracing) = (perf.data.offset, perf.tracing);
        perf.append(&lost_record(23, 7, Nanos(800), Cpu(1))).unwrap();
        perf.finish_round().unwrap();
        let (file, size) = perf.finish(&CLOSING).unwrap();
        let bytes = contents(file);
        assert_eq!(length(&bytes), size);
        check_section(&bytes, 40, Section { offset: data, size: 64 });
        check(&bytes, 72, 1 << 1 | 1 << 7 | 1 << 21 | 1 << 23 | 1 << 29);
        let table = usize::try_from(data + 64).unwrap();
        check_section(&bytes, table, tracing);
        let bodies = data + 64 + 5 * 16;
        check_section(&bytes, table + 16, Section { offset: bodies, size: 8 });
        check_section(&bytes, table + 32, Section { offset: bodies + 8, size: 16 });
        check_section(&bytes, table + 48, Section { offset: bodies + 24, size: 8 });
        check_section(&bytes, table + 64, Section { offset: bodies + 32, size: 24 });
        check(&bytes, table + 80, 2 << 32 | 4);
        check_section(&bytes, table + 88, Section { offset: 100, size: 900 });
        check(&bytes, table + 104, 1);
        check(&bytes, table + 112, 1 << 32 | 1);
        check_section(&bytes, table + 120, Section { offset: 5000, size: 100 });
    }

    #[test]
    fn a_lost_record_carries_time_and_cpu_in_its_trailer() {
        let record = lost_record(23, 7, Nanos(800), Cpu(1));
        assert_eq!(record.len(), 56);
        check(&record, 0, 56 << 48 | 2);
        check(&record, 8, 23);
        check(&record, 16, 7);
        check(&record, 32, 800);
        check(&record, 40, 23);
        check(&record, 48, 1);
    }

    fn create() -> PerfFile {
        let event = |system: &str, id: u64| {
            let event = TraceEvent::parse(system, "name", format!("ID: {id}\n")).unwrap();
            (event, vec![id * 2 - 1, id * 2])
        };
        let description = Description {
            events: &[event("block", 11), event("block", 12), event("libata", 13)],
            counts_lost: true,
            watermark: 4096,
            header_page: "page",
            header_event: "event",
        };
        PerfFile::create(sys::memory_file(c"test").unwrap(), &description).unwrap()
    }

    fn contents(mut file: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[track_caller]
    fn check_section(bytes: &[u8], offset: usize, expected: Section) {
        check(bytes, offset, expected.offset);
        check(bytes, offset + 8, expected.size);
    }

    #[track_caller]
    fn check(bytes: &[u8], offset: usize, expected: u64) {
        let word = bytes[offset..offset + 8].try_into().unwrap();
        assert_eq!(u64::from_le_bytes(word), expected, "at byte {offset}");
    }
}
