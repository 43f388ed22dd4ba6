//! The fields of a sample and the trailer of other records, by `sample_type`.
//!
//! Order as in `PERF_RECORD_SAMPLE` and `struct sample_id` of `include/uapi/linux/perf_event.h`.
//! Everything up to the counter values has a fixed place, worked out once for each layout.

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

/// How the samples of an event, and the trailers of other records, are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    sample_type: u64,
    read_format: u64,
    has_trailer: bool,
    tid_at: Option<usize>,
    time_at: usize,
    cpu_at: usize,
    /// Where the fields of fixed place end.
    rest_at: usize,
    trailer: usize,
    trailer_time_at: usize,
    trailer_cpu_at: usize,
}

impl Layout {
    pub(super) fn new(sample_type: u64, read_format: u64, has_trailer: bool) -> Self {
        let words = |bits: &[u64]| bits.iter().filter(|bit| sample_type & **bit != 0).count() * 8;
        let tid_at = words(&[IDENTIFIER, IP]) + 4;
        Self {
            sample_type,
            read_format,
            has_trailer,
            tid_at: (sample_type & TID != 0).then_some(tid_at),
            time_at: words(&[IDENTIFIER, IP, TID]),
            cpu_at: words(&[IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID]),
            rest_at: words(&[IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD]),
            trailer: words(&[TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER]),
            trailer_time_at: words(&[TID]),
            trailer_cpu_at: words(&[TID, TIME, ID, STREAM_ID]),
        }
    }

    /// What events need and these samples do not have.
    pub(super) fn missing(&self) -> Option<&'static str> {
        [(TIME, "the time"), (CPU, "the CPU"), (RAW, "the raw data")]
            .into_iter()
            .find(|(bit, _)| self.sample_type & bit == 0)
            .map(|(_, what)| what)
    }

    /// Whether samples begin, and trailers end, with the id of their event.
    pub(super) fn has_identifier(&self) -> bool {
        self.sample_type & IDENTIFIER != 0
    }

    /// When and where a sample was taken; `None` when it is shorter than its layout.
    #[inline]
    pub(super) fn stamp(&self, body: &[u8]) -> Option<Stamp> {
        Some(Stamp { time: u64_at(body, self.time_at)?, cpu: u32_at(body, self.cpu_at)? })
    }

    /// The thread; `None` where samples do not have it.
    #[inline]
    pub(super) fn tid(&self, body: &[u8]) -> Option<u32> {
        self.tid_at.and_then(|at| u32_at(body, at))
    }

    /// The raw data of a sample; `None` when it is shorter than its layout.
    #[inline]
    pub(super) fn raw<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let mut at = self.rest_at;
        if self.sample_type & READ != 0 {
            at = at.checked_add(read_size(body, at, self.read_format)?)?;
        }
        if self.sample_type & CALLCHAIN != 0 {
            let frames = usize::try_from(u64_at(body, at)?).ok()?;
            at = at.checked_add(8)?.checked_add(frames.checked_mul(8)?)?;
        }
        let size = usize::try_from(u32_at(body, at)?).ok()?;
        body.get(at.checked_add(4)?..)?.get(..size)
    }

    /// When and where another record was written; `None` without a trailer.
    pub(super) fn trailer_stamp(&self, body: &[u8]) -> Option<Stamp> {
        if !self.has_trailer || self.sample_type & TIME == 0 || self.sample_type & CPU == 0 {
            return None;
        }
        let trailer = body.get(body.len().checked_sub(self.trailer)?..)?;
        Some(Stamp {
            time: u64_at(trailer, self.trailer_time_at)?,
            cpu: u32_at(trailer, self.trailer_cpu_at)?,
        })
    }
}

/// When and where a record was written, on the capture's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) time: u64,
    pub(super) cpu: u32,
}

/// Bytes of the counter values in a sample (`struct read_format`).
fn read_size(body: &[u8], at: usize, format: u64) -> Option<usize> {
    const TIMES: u64 = 0b11;
    const GROUP: u64 = 1 << 3;
    let times = usize::try_from((format & TIMES).count_ones()).ok()?;
    // An id and a lost count may stand beside each value.
    let extra = usize::from(format & (1 << 2) != 0) + usize::from(format & (1 << 4) != 0);
    let (header, values) = if format & GROUP != 0 {
        (1 + times, usize::try_from(u64_at(body, at)?).ok()?)
    } else {
        (times, 1)
    };
    values.checked_mul(1 + extra)?.checked_add(header)?.checked_mul(8)
}
