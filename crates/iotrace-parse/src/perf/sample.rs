//! The fields of a sample and the trailer of other records, by `sample_type`.
//!
//! Order as in `PERF_RECORD_SAMPLE` of `include/uapi/linux/perf_event.h`.

use crate::bytes::{u32_at, u64_at};

const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

/// How samples are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    sample_type: u64,
    read_format: u64,
    sample_id_all: bool,
}

impl Layout {
    pub(super) fn new(sample_type: u64, read_format: u64, sample_id_all: bool) -> Self {
        Self { sample_type, read_format, sample_id_all }
    }

    fn has(self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// What events need and these samples do not have.
    pub(super) fn missing(self) -> Option<&'static str> {
        [(TIME, "the time"), (CPU, "the CPU"), (RAW, "the raw data")]
            .into_iter()
            .find(|(bit, _)| !self.has(*bit))
            .map(|(_, what)| what)
    }
}

/// What an event needs of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    pub(super) time: u64,
    pub(super) cpu: u32,
    pub(super) tid: u32,
    pub(super) raw: &'a [u8],
}

impl<'a> Sample<'a> {
    /// `None` when the record is shorter than its layout.
    pub(super) fn read(body: &'a [u8], layout: &Layout) -> Option<Self> {
        let words = |bits: &[u64]| bits.iter().filter(|bit| layout.has(**bit)).count() * 8;
        let mut at = words(&[IDENTIFIER, IP]);
        let tid = if layout.has(TID) { u32_at(body, at + 4)? } else { 0 };
        at += words(&[TID]);
        let time = u64_at(body, at)?;
        at += words(&[TIME, ADDR, ID, STREAM_ID]);
        let cpu = u32_at(body, at)?;
        at += words(&[CPU, PERIOD]);
        if layout.has(READ) {
            at = at.checked_add(read_size(body, at, layout.read_format)?)?;
        }
        if layout.has(CALLCHAIN) {
            let frames = usize::try_from(u64_at(body, at)?).ok()?;
            at = at.checked_add(8)?.checked_add(frames.checked_mul(8)?)?;
        }
        let size = usize::try_from(u32_at(body, at)?).ok()?;
        let raw = body.get(at.checked_add(4)?..)?.get(..size)?;
        Some(Self { time, cpu, tid, raw })
    }
}

/// Bytes of the counter values in a sample.
fn read_size(body: &[u8], at: usize, format: u64) -> Option<usize> {
    const TIMES: u64 = 0b11;
    const GROUP: u64 = 1 << 3;
    let times = usize::try_from((format & TIMES).count_ones()).ok()?;
    // An id and a lost count stand beside each value.
    let extra = usize::from(format & (1 << 2) != 0) + usize::from(format & (1 << 4) != 0);
    let (header, values) = if format & GROUP != 0 {
        (1 + times, usize::try_from(u64_at(body, at)?).ok()?)
    } else {
        (times, 1)
    };
    values.checked_mul(1 + extra)?.checked_add(header)?.checked_mul(8)
}

/// Time and CPU behind a record that is no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) time: u64,
    pub(super) cpu: u32,
}

impl Trailer {
    /// `None` without `sample_id_all`, or when the record is too short.
    pub(super) fn read(body: &[u8], layout: &Layout) -> Option<Self> {
        if !layout.sample_id_all {
            return None;
        }
        let words = |bits: &[u64]| bits.iter().filter(|bit| layout.has(**bit)).count() * 8;
        let size = words(&[TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER]);
        let trailer = body.get(body.len().checked_sub(size)?..)?;
        let time = words(&[TID]);
        let cpu = words(&[TID, TIME, ID, STREAM_ID]);
        Some(Self { time: u64_at(trailer, time)?, cpu: u32_at(trailer, cpu)? })
    }
}
