//! One record of a blktrace stream, cut out with checked bounds.
//!
//! ```text
//!             0      4         8     16      24     28      32   36      40   44     46       48
//! version 7   magic  sequence  time  sector  bytes  action  pid  device  cpu  error  pdu_len  payload
//!             0      4         8     16      24     28      32           40   44     48  50   52   64
//! version 8   magic  sequence  time  sector  bytes  pid     action       dev  cpu    err len  pad  payload
//! ```
//! (`struct blk_io_trace` and `blk_io_trace2` of `include/uapi/linux/blktrace_api.h`.) The low byte
//! of the magic is the version. Everything is in the byte order of the traced machine.

use crate::bytes::at;

/// Bytes of the header of version 7, and of version 8.
const HEADER_7: usize = 48;
const HEADER_8: usize = 64;
/// The magic without its low byte, which is the version.
const MAGIC: u32 = 0x6561_7400;
/// Above the largest `CONFIG_NR_CPUS` of any architecture.
const MOST_CPUS: u32 = 1 << 16;

/// Byte order of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// A record as it stands in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) version: u8,
    pub(crate) sequence: u32,
    /// Nanoseconds; in a merged dump since its first event.
    pub(crate) time: u64,
    pub(crate) sector: u64,
    pub(crate) bytes: u32,
    /// Codes in the low 16 bits, categories above.
    pub(crate) action: u64,
    pub(crate) pid: u32,
    /// `major << 20 | minor`.
    pub(crate) device: u32,
    pub(crate) cpu: u32,
    pub(crate) error: u16,
    /// Bytes of the payload, which follows the header.
    pub(crate) payload: u16,
}

/// What stands at a place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A record, and how long it is with its payload.
    Record(Record, usize),
    /// The beginning of a record whose rest is not there.
    Cut,
    /// Something else.
    Nothing,
}

impl Order {
    /// The byte order of the stream that begins so; `None` when it is no blktrace stream.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        let magic = at::<4>(start, 0)?;
        if is_magic(u32::from_le_bytes(magic)) {
            Some(Self::Little)
        } else if is_magic(u32::from_be_bytes(magic)) {
            Some(Self::Big)
        } else {
            None
        }
    }

    /// The record at the start of `bytes`.
    #[inline]
    pub(crate) fn record(self, bytes: &[u8]) -> Found {
        match self {
            Self::Little => read(bytes, u16::from_le_bytes, u32::from_le_bytes, u64::from_le_bytes),
            Self::Big => read(bytes, u16::from_be_bytes, u32::from_be_bytes, u64::from_be_bytes),
        }
    }

    /// Bytes to the next place in `bytes`, behind the first, at which a record can begin.
    pub(crate) fn next_plausible(self, bytes: &[u8]) -> Option<usize> {
        // The three bytes of the magic that do not change, and how many bytes stand before them.
        let (word, before) = match self {
            Self::Little => (b"tae", 1),
            Self::Big => (b"eat", 0),
        };
        let places = memchr::memmem::find_iter(bytes, word);
        let mut starts = places.filter_map(|place| place.checked_sub(before));
        starts.find(|start| {
            let rest = bytes.get(*start..).unwrap_or_default();
            *start > 0 && !matches!(self.record(rest), Found::Nothing)
        })
    }

    /// A number of the machine in a payload.
    pub(crate) fn u64_at(self, payload: &[u8], offset: usize) -> Option<u64> {
        let bytes = at(payload, offset)?;
        Some(match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        })
    }

    /// A number of the machine in a payload.
    pub(crate) fn u32_at(self, payload: &[u8], offset: usize) -> Option<u32> {
        let bytes = at(payload, offset)?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }
}

fn is_magic(word: u32) -> bool {
    word & 0xffff_ff00 == MAGIC && matches!(word & 0xff, 7 | 8)
}

/// Version 7 or 8, with the byte order in the functions, so that it costs nothing per field.
#[inline]
fn read(
    bytes: &[u8],
    short: fn([u8; 2]) -> u16,
    word: fn([u8; 4]) -> u32,
    long: fn([u8; 8]) -> u64,
) -> Found {
    let Some(magic) = at(bytes, 0).map(word) else { return Found::Cut };
    if !is_magic(magic) {
        return Found::Nothing;
    }
    let (version, header) = if magic & 0xff == 7 { (7, HEADER_7) } else { (8, HEADER_8) };
    let fields = |start: &[u8]| {
        let places = if version == 7 {
            Places { pid: 32, device: 36, cpu: 40, error: 44, length: 46 }
        } else {
            Places { pid: 28, device: 40, cpu: 44, error: 48, length: 50 }
        };
        let action =
            if version == 7 { u64::from(word(at(start, 28)?)) } else { long(at(start, 32)?) };
        let record = Record {
            version,
            sequence: word(at(start, 4)?),
            time: long(at(start, 8)?),
            sector: long(at(start, 16)?),
            bytes: word(at(start, 24)?),
            action,
            pid: word(at(start, places.pid)?),
            device: word(at(start, places.device)?),
            cpu: word(at(start, places.cpu)?),
            error: short(at(start, places.error)?),
            payload: short(at(start, places.length)?),
        };
        Some(record)
    };
    let Some(record) = bytes.get(..header).and_then(fields) else { return Found::Cut };
    if record.cpu >= MOST_CPUS {
        return Found::Nothing;
    }
    let size = header + usize::from(record.payload);
    if bytes.len() < size { Found::Cut } else { Found::Record(record, size) }
}

/// Where the fields lie that moved between the versions.
struct Places {
    pid: usize,
    device: usize,
    cpu: usize,
    error: usize,
    length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_and_byte_orders_give_the_same_record() {
        let expected = Record {
            version: 7,
            sequence: 3,
            time: 1_000_000_007,
            sector: 1 << 40,
            bytes: 4096,
            action: 0x0041_0007,
            pid: 42,
            device: 0x0080_0001,
            cpu: 5,
            error: 0xffc3,
            payload: 3,
        };
        let little = encode(&expected, true);
        check(Order::Little, &little, expected);
        check(Order::Big, &encode(&expected, false), expected);
        let newer = Record { version: 8, ..expected };
        check(Order::Little, &encode(&newer, true), newer);
        check(Order::Big, &encode(&newer, false), newer);
        for end in 0..little.len() {
            let (cut, _) = little.split_at(end);
            assert_eq!(Order::Little.record(cut), Found::Cut, "{end} bytes");
        }
    }

    #[test]
    fn what_is_no_record_is_told() {
        assert_eq!(Order::of(b"taeb"), None);
        assert_eq!(Order::of(&[9, b't', b'a', b'e']), None);
        assert_eq!(Order::of(&[7, b't']), None);
        assert_eq!(Order::Little.record(&[0; 64]), Found::Nothing);
        let record = Record { cpu: u32::MAX, ..any() };
        assert_eq!(Order::Little.record(&encode(&record, true)), Found::Nothing);
    }

    #[test]
    fn the_next_record_is_found_behind_rubbish() {
        let record = encode(&any(), true);
        let mut bytes = b"\x07tae and more tae".to_vec();
        let rubbish = bytes.len();
        bytes.extend(&record);
        // The first bytes look like a record of an impossible CPU.
        bytes.splice(4..4, [0xff; 60]);
        assert_eq!(Order::Little.next_plausible(&bytes), Some(rubbish + 60));
        assert_eq!(Order::Little.next_plausible(&record), None);
    }

    #[track_caller]
    fn check(order: Order, bytes: &[u8], expected: Record) {
        assert_eq!(Order::of(bytes), Some(order));
        assert_eq!(order.record(bytes), Found::Record(expected, bytes.len()));
    }

    fn any() -> Record {
        Record {
            version: 7,
            sequence: 1,
            time: 1,
            sector: 8,
            bytes: 512,
            action: 1,
            pid: 1,
            device: 1 << 20,
            cpu: 0,
            error: 0,
            payload: 0,
        }
    }

    fn encode(record: &Record, is_little: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |bytes: &[u8]| {
            if is_little {
                out.extend(bytes);
            } else {
                out.extend(bytes.iter().rev());
            }
        };
        put(&(MAGIC | u32::from(record.version)).to_le_bytes());
        put(&record.sequence.to_le_bytes());
        put(&record.time.to_le_bytes());
        put(&record.sector.to_le_bytes());
        put(&record.bytes.to_le_bytes());
        if record.version == 7 {
            put(&record.action.to_le_bytes()[..4]);
            put(&record.pid.to_le_bytes());
        } else {
            put(&record.pid.to_le_bytes());
            put(&record.action.to_le_bytes());
        }
        put(&record.device.to_le_bytes());
        put(&record.cpu.to_le_bytes());
        put(&record.error.to_le_bytes());
        put(&record.payload.to_le_bytes());
        if record.version == 8 {
            out.extend([0; 12]);
        }
        out.resize(out.len() + usize::from(record.payload), 0);
        out
    }
}
