//! Perf files in memory, in every shape that a reader meets.
//!
//! ```text
//! file:  header │ attrs │ ids │ [formats] │ records … │ [feature table │ [formats │ clock]]
//! pipe:  header │ attribute records │ [clock record] │ [formats record] │ records …
//! ```
//!
//! Records other than marks can be compressed, as by `perf record -z`.
//! Formats: `tools/perf/Documentation/perf.data-file-format.txt`, `include/uapi/linux/perf_event.h`.
//! One attribute and one id stand for each tracepoint, whatever the number of CPUs.

mod pack;
mod raw;

use iotrace_model::Event;

use self::raw::{encode, tracepoint};
use crate::layout::Layout;

/// Bits of `sample_type` in the order in which a sample has them, without those at its end.
const FIXED: [u64; 9] = [IDENTIFIER, 1, TID, TIME, 1 << 3, ID, 1 << 9, CPU, 1 << 8];
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
/// The trailer of other records has these, in this order.
const TRAILER: [u64; 6] = [TID, TIME, ID, 1 << 9, CPU, IDENTIFIER];
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const ATTR_SIZE: u64 = 128;
const HEADER_SIZE: u64 = 104;
const PIPE_HEADER_SIZE: u64 = 16;
/// Numbers of features.
const TRACING_DATA: u64 = 1;
const CLOCK_DATA: u64 = 29;
/// The id of the attribute at a place is this and the place.
const FIRST_ID: u64 = 100;

/// Where the file has the descriptions of its tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatsPlace {
    /// Behind the records, as `perf record` puts them.
    End,
    /// Before the records, as iotrace's recorder puts them.
    BeforeData,
    /// Before the records, and the header not completed: the recorder was killed.
    Cut,
    /// Behind the records, which `perf record` did not reach: the file has none.
    Missing,
}

/// How compressed records carry their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `PERF_RECORD_COMPRESSED`: to the end of the record.
    Plain,
    /// `PERF_RECORD_COMPRESSED2`: their number comes first, and their end is padded.
    Counted,
}

/// Puts samples and other records into the bytes of a perf file.
#[derive(Clone, Debug)]
pub struct PerfFileBuilder {
    formats: Vec<(String, String, Layout)>,
    sample_type: u64,
    read_format: u64,
    sample_id_all: bool,
    place: FormatsPlace,
    dummy: Option<u64>,
    is_pipe: bool,
    packing: Option<(Packing, usize)>,
    clock: Option<u32>,
    moment: Option<(u64, u64)>,
    attr_size: u64,
    data: Vec<u8>,
}

impl Default for PerfFileBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl PerfFileBuilder {
    /// A file without records; its samples have thread, time, id, CPU and raw data, its formats
    /// stand before the data.
    pub fn new() -> Self {
        Self {
            formats: Vec::new(),
            sample_type: TID | TIME | ID | CPU | RAW,
            read_format: 1 << 2,
            sample_id_all: true,
            place: FormatsPlace::BeforeData,
            dummy: None,
            is_pipe: false,
            packing: None,
            clock: None,
            moment: None,
            attr_size: ATTR_SIZE,
            data: Vec::new(),
        }
    }

    /// Adds a tracepoint by the text of its `format` file.
    #[track_caller]
    pub fn format(&mut self, system: &str, text: &str) -> &mut Self {
        self.formats.push((system.to_owned(), text.to_owned(), Layout::read(text)));
        self
    }

    /// `sample_type` and `read_format` of the tracepoints; to be set before the first record.
    pub fn layout(&mut self, sample_type: u64, read_format: u64) -> &mut Self {
        (self.sample_type, self.read_format) = (sample_type, read_format);
        self
    }

    /// Leaves out the trailers of records that are no samples.
    pub fn without_trailers(&mut self) -> &mut Self {
        self.sample_id_all = false;
        self
    }

    /// Where the formats stand.
    pub fn place(&mut self, place: FormatsPlace) -> &mut Self {
        self.place = place;
        self
    }

    /// Puts a software event with another `sample_type` before the tracepoints, as `perf record`
    /// does for its side band. Its id is 99.
    pub fn dummy(&mut self, sample_type: u64) -> &mut Self {
        self.dummy = Some(sample_type);
        self
    }

    /// Writes the file as to a pipe: what is in the header otherwise comes as records. The formats
    /// come before the data, or are missing.
    pub fn pipe(&mut self) -> &mut Self {
        self.is_pipe = true;
        self
    }

    /// Compresses the records, in pieces of at most so many bytes.
    pub fn compress(&mut self, packing: Packing, piece: usize) -> &mut Self {
        self.packing = Some((packing, piece));
        self
    }

    /// The clock of the times, and one moment on the wall clock and on it, if the file shall know.
    pub fn clock(&mut self, clock: u32, moment: Option<(u64, u64)>) -> &mut Self {
        (self.clock, self.moment) = (Some(clock), moment);
        self
    }

    /// Bytes of an attribute, 128 otherwise; at least 96. Kernels make it longer.
    pub fn attr_size(&mut self, bytes: u64) -> &mut Self {
        self.attr_size = bytes;
        self
    }

    /// Adds an event as a sample of its tracepoint. Driver commands come from port 1, device 0.
    #[track_caller]
    pub fn event(&mut self, event: &Event) -> &mut Self {
        let name = tracepoint(event);
        let layout = self.formats.iter().map(|(.., layout)| layout);
        let layout = layout.clone().find(|layout| layout.name == name);
        let layout = layout.unwrap_or_else(|| panic!("no format of {name} was given"));
        let raw = encode(event, layout);
        let time = u64::try_from(event.time.0).expect("a test's times are not negative");
        self.sample(time, event.cpu.0, event.pid, &raw)
    }

    /// Adds a sample with these raw data.
    pub fn sample(&mut self, time: u64, cpu: u32, tid: u32, raw: &[u8]) -> &mut Self {
        let place =
            self.formats.iter().position(|(.., layout)| raw.starts_with(&layout.id.to_le_bytes()));
        let id = FIRST_ID + place.unwrap_or(0) as u64;
        let mut body = Vec::new();
        for bit in FIXED.into_iter().filter(|bit| self.sample_type & bit != 0) {
            body.extend(word(bit, time, cpu, tid, id));
        }
        if self.sample_type & READ != 0 {
            body.extend(counters(self.read_format));
        }
        if self.sample_type & CALLCHAIN != 0 {
            put(&mut body, &[2, 0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000]);
        }
        // The kernel pads the raw data so that the record ends on eight bytes.
        let size = (raw.len() + 4).next_multiple_of(8) - 4;
        body.extend(u32::try_from(size).expect("a test's sample is short").to_le_bytes());
        body.extend(raw);
        body.resize(body.len() + size - raw.len(), 0);
        self.record(9, &body)
    }

    /// Adds a `PERF_RECORD_LOST` of the first tracepoint.
    pub fn lost(&mut self, time: u64, cpu: u32, count: u64) -> &mut Self {
        self.lost_by(self.sample_type, FIRST_ID, time, cpu, count)
    }

    /// Adds a `PERF_RECORD_LOST` whose trailer is that of the event with this layout and id.
    pub fn lost_by(
        &mut self,
        sample_type: u64,
        id: u64,
        time: u64,
        cpu: u32,
        count: u64,
    ) -> &mut Self {
        let mut body = Vec::new();
        put(&mut body, &[id, count]);
        body.extend(self.trailer(sample_type, id, time, cpu));
        self.record(2, &body)
    }

    /// Adds a `PERF_RECORD_LOST_SAMPLES`.
    pub fn lost_samples(&mut self, time: u64, cpu: u32, count: u64) -> &mut Self {
        let mut body = count.to_le_bytes().to_vec();
        body.extend(self.trailer(self.sample_type, FIRST_ID, time, cpu));
        self.record(13, &body)
    }

    /// Ends a round in which every CPU's ring was emptied.
    pub fn round(&mut self) -> &mut Self {
        self.record(68, &[])
    }

    /// Adds any record.
    pub fn record(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        put_record(&mut self.data, kind, body);
        self
    }

    /// Adds bytes that are no record.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.data.extend(bytes);
        self
    }

    /// Where the records begin.
    pub fn data_offset(&self) -> u64 {
        if self.is_pipe {
            return PIPE_HEADER_SIZE + self.prelude().len() as u64;
        }
        let blob = match self.place {
            FormatsPlace::BeforeData | FormatsPlace::Cut => self.blob().len() as u64,
            FormatsPlace::End | FormatsPlace::Missing => 0,
        };
        HEADER_SIZE + self.attr_count() * (self.attr_size + 16 + 8) + blob
    }

    /// The file.
    pub fn build(&self) -> Vec<u8> {
        let packed;
        let data = match self.packing {
            None => &self.data,
            Some((packing, piece)) => {
                packed = pack::pack(&self.data, packing, piece);
                &packed
            }
        };
        let mut file = b"PERFILE2".to_vec();
        if self.is_pipe {
            put(&mut file, &[PIPE_HEADER_SIZE]);
            file.extend(self.prelude());
            file.extend(data);
            return file;
        }
        let start = self.data_offset();
        let end = start + data.len() as u64;
        let blob = self.blob();
        let is_whole = matches!(self.place, FormatsPlace::End | FormatsPlace::BeforeData);
        let moment = self.moment.filter(|_| is_whole).map(|moment| self.clock_data(moment));
        let entries = u64::from(is_whole) + u64::from(moment.is_some());
        let behind = end + 16 * entries;
        let formats = if self.place == FormatsPlace::End {
            behind
        } else {
            start.saturating_sub(blob.len() as u64)
        };
        let clock = behind + if self.place == FormatsPlace::End { blob.len() as u64 } else { 0 };
        let features = u64::from(is_whole) << TRACING_DATA | u64::from(entries == 2) << CLOCK_DATA;
        let size = if is_whole { end - start } else { 0 };
        let attrs = self.attr_count() * (self.attr_size + 16);
        put(&mut file, &[HEADER_SIZE, self.attr_size + 16, HEADER_SIZE, attrs, start, size, 0, 0]);
        put(&mut file, &[features, 0, 0, 0]);
        file.extend(self.attrs());
        if matches!(self.place, FormatsPlace::BeforeData | FormatsPlace::Cut) {
            file.extend(&blob);
        }
        file.extend(data);
        if is_whole {
            put(&mut file, &[formats, blob.len() as u64]);
        }
        if let Some(moment) = &moment {
            put(&mut file, &[clock, moment.len() as u64]);
        }
        if self.place == FormatsPlace::End {
            file.extend(&blob);
        }
        file.extend(moment.unwrap_or_default());
        file
    }

    /// The records of a pipe before its data.
    fn prelude(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (id, attr) in self.attr_list() {
            put_record(&mut out, 64, &[attr, id.to_le_bytes().to_vec()].concat());
        }
        if let Some(moment) = self.moment {
            put_record(
                &mut out,
                80,
                &[CLOCK_DATA.to_le_bytes().to_vec(), self.clock_data(moment)].concat(),
            );
        }
        if self.place != FormatsPlace::Missing {
            let mut blob = self.blob();
            blob.resize(blob.len().next_multiple_of(8), 0);
            let size = u32::try_from(blob.len()).expect("a test has few formats");
            put_record(&mut out, 66, &[size.to_le_bytes(), [0; 4]].concat());
            out.extend(blob);
        }
        out
    }

    /// `HEADER_CLOCK_DATA`, version 1.
    fn clock_data(&self, (wall, file): (u64, u64)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, &[1 | u64::from(self.clock.unwrap_or(0)) << 32, wall, file]);
        out
    }

    fn attr_count(&self) -> u64 {
        self.formats.len() as u64 + u64::from(self.dummy.is_some())
    }

    /// Every `perf_event_attr` with the place of its id, then the ids.
    fn attrs(&self) -> Vec<u8> {
        let (mut attrs, mut ids) = (Vec::new(), Vec::new());
        let first = HEADER_SIZE + self.attr_count() * (self.attr_size + 16);
        for (id, attr) in self.attr_list() {
            attrs.extend(attr);
            put(&mut attrs, &[first + ids.len() as u64, 8]);
            put(&mut ids, &[id]);
        }
        [attrs, ids].concat()
    }

    /// The id and the `perf_event_attr` of every event.
    fn attr_list(&self) -> Vec<(u64, Vec<u8>)> {
        let dummy = self.dummy.map(|sample_type| (1_u64, 9, FIRST_ID - 1, sample_type, 0));
        let points = self.formats.iter().zip(FIRST_ID..).map(|((.., layout), id)| {
            (2, u64::from(layout.id), id, self.sample_type, self.read_format)
        });
        let trailers = if self.sample_id_all { FLAG_SAMPLE_ID_ALL } else { 0 };
        let flags = trailers | if self.clock.is_some() { FLAG_USE_CLOCKID } else { 0 };
        let attr = |(kind, config, id, sample_type, read_format): (u64, u64, u64, u64, u64)| {
            let mut attr = Vec::new();
            let first = kind | self.attr_size << 32;
            put(&mut attr, &[first, config, 1, sample_type, read_format, flags]);
            attr.resize(92, 0);
            attr.extend(self.clock.unwrap_or(0).to_le_bytes());
            attr.resize(usize::try_from(self.attr_size).expect("an attribute is small"), 0);
            (id, attr)
        };
        dummy.into_iter().chain(points).map(attr).collect()
    }

    /// The tracing data: what trace-cmd writes at the head of its files.
    fn blob(&self) -> Vec<u8> {
        let mut blob = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
        for (name, text) in [("header_page\0", "page"), ("header_event\0", "event")] {
            blob.extend(name.as_bytes());
            put_text(&mut blob, text);
        }
        blob.extend(1_u32.to_le_bytes());
        put_text(&mut blob, "name: function\nID: 1\nformat:\n");
        let systems: Vec<_> = self.formats.chunk_by(|(a, ..), (b, ..)| a == b).collect();
        put_count(&mut blob, systems.len());
        for events in systems {
            blob.extend(events[0].0.as_bytes());
            blob.push(0);
            put_count(&mut blob, events.len());
            for (_, text, _) in events {
                put_text(&mut blob, text);
            }
        }
        // No kernel symbols, no formats of trace_printk, no names of tasks.
        blob.extend([0; 16]);
        blob
    }

    fn trailer(&self, sample_type: u64, id: u64, time: u64, cpu: u32) -> Vec<u8> {
        let bits = TRAILER.into_iter().filter(|bit| self.sample_id_all && sample_type & bit != 0);
        bits.flat_map(|bit| word(bit, time, cpu, 0, id)).collect()
    }
}

/// One word of a sample; the words that no event needs are all ones.
fn word(bit: u64, time: u64, cpu: u32, tid: u32, id: u64) -> [u8; 8] {
    let word = match bit {
        TID => u64::from(tid) << 32 | u64::from(tid),
        TIME => time,
        ID | IDENTIFIER => id,
        CPU => u64::from(cpu),
        _ => u64::MAX,
    };
    word.to_le_bytes()
}

/// Counter values: a group of two where the format says group.
fn counters(read_format: u64) -> Vec<u8> {
    let times = u64::from((read_format & 0b11).count_ones());
    let each = 1 + u64::from((read_format & 0b1_0100).count_ones());
    let words = if read_format & 1 << 3 == 0 { times + each } else { times + 2 * each };
    let mut out = Vec::new();
    if read_format & 1 << 3 != 0 {
        put(&mut out, &[2]);
    }
    for _ in 0..words {
        put(&mut out, &[u64::MAX]);
    }
    out
}

fn put_record(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let size = u16::try_from(body.len() + 8).expect("a test's record is short");
    out.extend(kind.to_le_bytes());
    out.extend([0, 0]);
    out.extend(size.to_le_bytes());
    out.extend(body);
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, &[text.len() as u64]);
    out.extend(text.as_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).expect("a test has few events").to_le_bytes());
}
