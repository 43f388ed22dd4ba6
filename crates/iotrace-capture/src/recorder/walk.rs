//! Counts the records of a span without interpreting them.
//!
//! A record begins with `struct perf_event_header`: type u32, misc u16, size u16. Sizes are
//! multiples of 8 and so is the end of the ring, hence no header is cut by it. Of a sample only
//! the event number and, for issue and completion, the device are looked at; they have fixed
//! places because the sample type is ours (pid and tid, time, id, CPU, raw size, raw data).

use iotrace_model::{Cpu, Nanos};

/// `PERF_RECORD_LOST`.
const LOST: u32 = 2;
/// `PERF_RECORD_SAMPLE`.
const SAMPLE: u32 = 9;
/// `PERF_RECORD_LOST_SAMPLES`.
const LOST_SAMPLES: u32 = 13;
const HEADER_BYTES: usize = 8;
/// Offset of a tracepoint's data, which begins with its number, in a sample.
const RAW: usize = 44;
/// Offset of the time in the trailer of other records, from the record's end.
const TRAILER_TIME: usize = 24;
/// Offset of the CPU in that trailer, from the record's end.
const TRAILER_CPU: usize = 8;

/// Bytes of a ring in two parts, the second one empty unless the end of the ring lies between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    /// Up to the end of the ring.
    pub(crate) first: &'a [u8],
    /// From its start.
    pub(crate) second: &'a [u8],
}

/// How to tell the depth of one device from its samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Number of the issue event.
    pub(super) issue: u16,
    /// Numbers of the completion and requeue events; 0, which is no event, where missing.
    pub(super) ends: [u16; 2],
    /// The device as it stands in events.
    pub(super) device: u32,
    /// Offset of the device in the data of these events.
    pub(super) device_offset: usize,
}

/// What a walk counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Bytes up to the first record whose header is wrong, or all.
    pub(super) valid_bytes: usize,
    /// Samples.
    pub(super) samples: u64,
    /// Issues less ends of the watched device.
    pub(super) in_flight: i64,
    /// The losses that are told.
    pub(super) losses: Vec<Lost>,
}

/// One record that tells of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// Time of the event that fitted again.
    pub(super) time: Nanos,
    /// Its CPU.
    pub(super) cpu: Cpu,
    /// How many were lost before.
    pub(super) count: u64,
}

impl<'a> Span<'a> {
    /// Bytes in both parts.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// The first `length` bytes, or all.
    pub(crate) fn up_to(self, length: usize) -> Span<'a> {
        let first = length.min(self.first.len());
        let second = (length - first).min(self.second.len());
        let (first, _) = self.first.split_at(first);
        let (second, _) = self.second.split_at(second);
        Span { first, second }
    }

    /// The bytes at `offset`; `None` beyond the end, or where the end of the ring cuts them,
    /// which it never does to a word at its natural place.
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let (part, start) = match offset.checked_sub(self.first.len()) {
            None => (self.first, offset),
            Some(start) => (self.second, start),
        };
        part.get(start..)?.first_chunk().copied()
    }
}

/// Walks over the headers of `span`.
pub(super) fn walk(span: Span<'_>, watch: &Watch) -> Tally {
    let mut tally = Tally::default();
    let length = span.len();
    while let Some(header) = span.get::<HEADER_BYTES>(tally.valid_bytes) {
        let start = tally.valid_bytes;
        let word = u64::from_le_bytes(header);
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if size < HEADER_BYTES || size % 8 != 0 || size > length - start {
            break;
        }
        match u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default() {
            SAMPLE => {
                tally.samples += 1;
                tally.in_flight += depth_change(span, start, watch);
            }
            LOST => tally.losses.extend(lost(span, start, size, 16)),
            LOST_SAMPLES => tally.losses.extend(lost(span, start, size, 8)),
            _ => {}
        }
        tally.valid_bytes += size;
    }
    tally
}

fn depth_change(span: Span<'_>, start: usize, watch: &Watch) -> i64 {
    let Some(event) = span.get(start + RAW).map(u16::from_le_bytes) else { return 0 };
    let change = match event {
        event if event == watch.issue => 1,
        event if watch.ends.contains(&event) => -1,
        _ => return 0,
    };
    let device = span.get(start + RAW + watch.device_offset).map(u32::from_le_bytes);
    if device == Some(watch.device) { change } else { 0 }
}

/// Reads a loss whose count stands at `count_offset`; `None` if the record is too short.
fn lost(span: Span<'_>, start: usize, size: usize, count_offset: usize) -> Option<Lost> {
    let end = start + size;
    let fits = size >= count_offset + 8 + 32;
    fits.then_some(())?;
    Some(Lost {
        time: Nanos(i64::from_le_bytes(span.get(end - TRAILER_TIME)?)),
        cpu: Cpu(u32::from_le_bytes(span.get(end - TRAILER_CPU)?)),
        count: u64::from_le_bytes(span.get(start + count_offset)?),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::perf_file::lost_record;

    const WATCH: Watch = Watch { issue: 7, ends: [8, 9], device: 0x80_0010, device_offset: 8 };

    #[test]
    fn samples_losses_and_depth_are_counted() {
        let records = [
            sample(7, 0x80_0010),
            sample(7, 0x80_0010),
            sample(7, 0x80_0000),
            lost_record(5, 30, Nanos(77), Cpu(3)),
            sample(8, 0x80_0010),
            sample(1, 0x80_0010),
            vec![68, 0, 0, 0, 0, 0, 8, 0],
        ]
        .concat();
        let expected = Tally {
            valid_bytes: records.len(),
            samples: 5,
            in_flight: 1,
            losses: vec![Lost { time: Nanos(77), cpu: Cpu(3), count: 30 }],
        };
        // The end of the ring may lie at any multiple of 8.
        for cut in (0..=records.len()).step_by(8) {
            let (first, second) = records.split_at(cut);
            check(first, second, &expected);
        }
    }

    #[test]
    fn a_torn_record_ends_the_walk() {
        let whole = sample(7, 0x80_0010);
        let expected =
            Tally { valid_bytes: whole.len(), samples: 1, in_flight: 1, losses: Vec::new() };
        check(&whole, &whole[..whole.len() - 8], &expected);
        check(&whole, &[9, 0, 0, 0, 0, 0, 0, 0], &expected);
        check(&whole, &[9, 0, 0, 0, 0, 0, 4, 0], &expected);
        check(&whole, &[9, 0, 0, 0], &expected);
    }

    #[test]
    fn short_records_are_passed_over() {
        let short = [9, 0, 0, 0, 0, 0, 8, 0, 2, 0, 0, 0, 0, 0, 16, 0, 1, 1, 1, 1, 1, 1, 1, 1];
        let expected = Tally { valid_bytes: 24, samples: 1, in_flight: 0, losses: Vec::new() };
        check(&short, &[], &expected);
    }

    #[test]
    fn a_span_is_shortened_across_its_cut() {
        let span = Span { first: b"abc", second: b"def" };
        let parts = |length| {
            let span = span.up_to(length);
            (span.first, span.second)
        };
        assert_eq!(parts(2), (&b"ab"[..], &b""[..]));
        assert_eq!(parts(4), (&b"abc"[..], &b"d"[..]));
        assert_eq!(parts(9), (&b"abc"[..], &b"def"[..]));
    }

    #[track_caller]
    fn check(first: &[u8], second: &[u8], expected: &Tally) {
        assert_eq!(&walk(Span { first, second }, &WATCH), expected, "cut at {}", first.len());
    }

    /// A sample of the event with that number on that device, 64 bytes long.
    pub(in crate::recorder) fn sample(event: u16, device: u32) -> Vec<u8> {
        let mut out = vec![9, 0, 0, 0, 0, 0, 64, 0];
        out.resize(40, 0);
        out.extend(20_u32.to_le_bytes());
        out.extend(event.to_le_bytes());
        out.resize(52, 0);
        out.extend(device.to_le_bytes());
        out.resize(64, 0);
        out
    }
}
