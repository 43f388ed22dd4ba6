//! The encodings of Parquet that the tables use, appended to a byte buffer.
//!
//! Written out here because the tables know more than a general writer does: dictionary codes
//! and levels are there already, so nothing is hashed, and a column's best encoding is chosen by
//! trying. The forms are those of the Parquet format's `Encodings.md`: RLE/bit-packed hybrid
//! (3), `DELTA_BINARY_PACKED` (5) and PLAIN (0).

/// Values of one block of differences.
const BLOCK: usize = 128;
/// Values of one miniblock, which has a width of its own.
const MINIBLOCK: usize = 32;

/// Which widths the differences are stored in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Widths {
    /// As few bits as hold the largest of a miniblock.
    Tight,
    /// Whole bytes, so that a compressor behind sees what repeats.
    Bytes,
}

/// Bits that hold every number up to `largest`, at least one.
pub(crate) fn width_of(largest: u64) -> usize {
    (u64::BITS - (largest | 1).leading_zeros()) as usize
}

/// The hybrid form of values of at most `width` bits (1 to 16), without length or width before it.
pub(crate) fn hybrid<T: Copy + PartialEq + Into<u64>>(
    values: &[T],
    width: usize,
    out: &mut Vec<u8>,
) {
    // A run costs about four bytes, with the header of the packed values that follow.
    let shortest = (32 / width + 1).max(8);
    let (mut packed_from, mut place) = (0, 0);
    while let Some(group) = values.get(place..place + 8) {
        let first = group[0];
        let bits = first.into();
        if group.iter().fold(0, |differing, value| differing | ((*value).into() ^ bits)) != 0 {
            place += 8;
            continue;
        }
        let more = values[place + 8..].iter().take_while(|value| **value == first).count();
        let run = 8 + more;
        if run >= shortest {
            pack_groups(&values[packed_from..place], width, out);
            repeat(bits, run, width, out);
            place += run;
            packed_from = place;
        } else {
            place += run / 8 * 8;
        }
    }
    pack_groups(&values[packed_from..], width, out);
}

/// One run of the hybrid form: `value`, `count` times.
pub(crate) fn repeat(value: u64, count: usize, width: usize, out: &mut Vec<u8>) {
    varint((count as u64) << 1, out);
    out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8)]);
}

/// Packed values of the hybrid form, filled up with zeros to a multiple of eight.
fn pack_groups<T: Copy + Into<u64>>(values: &[T], width: usize, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    varint((groups as u64) << 1 | 1, out);
    let start = out.len();
    out.resize(start + groups * width, 0);
    for (group, bytes) in values.chunks(8).zip(out[start..].chunks_exact_mut(width)) {
        if width <= 8 {
            let bits = group.iter().rev().fold(0_u64, |bits, v| bits << width | (*v).into());
            bytes.copy_from_slice(&bits.to_le_bytes()[..width]);
        } else {
            let bits =
                group.iter().rev().fold(0_u128, |bits, v| bits << width | u128::from((*v).into()));
            bytes.copy_from_slice(&bits.to_le_bytes()[..width]);
        }
    }
}

/// `DELTA_BINARY_PACKED` of 64-bit values, whose differences wrap.
pub(crate) fn delta(values: &[u64], widths: Widths, out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINIBLOCK) as u64, out);
    varint(values.len() as u64, out);
    let Some((first, rest)) = values.split_first() else { return varint(0, out) };
    zigzag(first.cast_signed(), out);
    let mut before = values;
    let (mut deltas, mut above) = ([0; BLOCK], [0; BLOCK]);
    for block in rest.chunks(BLOCK) {
        let deltas = &mut deltas[..block.len()];
        for ((delta, value), before) in deltas.iter_mut().zip(block).zip(before) {
            *delta = value.wrapping_sub(*before).cast_signed();
        }
        before = &before[block.len()..];
        let least = deltas.iter().fold(i64::MAX, |least, delta| least.min(*delta));
        zigzag(least, out);
        for (above, delta) in above.iter_mut().zip(&*deltas) {
            *above = delta.wrapping_sub(least).cast_unsigned();
        }
        above[block.len()..].fill(0);
        pack_block(&above, block.len().div_ceil(MINIBLOCK), widths, out);
    }
}

/// The widths of a block's miniblocks, then the first `used` of them.
fn pack_block(above: &[u64; BLOCK], used: usize, widths: Widths, out: &mut Vec<u8>) {
    let (miniblocks, _) = above.as_chunks::<MINIBLOCK>();
    let mut bits = [0; BLOCK / MINIBLOCK];
    for (bits, miniblock) in bits.iter_mut().zip(miniblocks) {
        let all = miniblock.iter().fold(0, |all, value| all | value);
        *bits = (u64::BITS - all.leading_zeros()) as usize;
        if widths == Widths::Bytes {
            *bits = bits.next_multiple_of(8);
        }
    }
    out.extend(bits.map(|bits| bits.to_le_bytes()[0]));
    for (bits, miniblock) in bits.into_iter().zip(miniblocks).take(used) {
        PACK[bits](miniblock, out);
    }
}

macro_rules! packers {
    ($($width:literal)*) => { [$(pack::<$width>),*] };
}
type Pack = fn(&[u64; MINIBLOCK], &mut Vec<u8>);

/// The packer of each width: with the width known, all shifts are constants.
const PACK: [Pack; 65] = packers![
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    63 64
];

/// Appends 32 values of `WIDTH` bits, lowest bit first.
fn pack<const WIDTH: usize>(values: &[u64; MINIBLOCK], out: &mut Vec<u8>) {
    let (mut word, mut filled) = (0, 0);
    for value in values {
        word |= value << filled;
        filled += WIDTH;
        if filled >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= 64;
            // What did not fit; a shift by all 64 bits means that all did.
            word = value.checked_shr(u32::try_from(WIDTH - filled).unwrap_or(64)).unwrap_or(0);
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled / 8]);
}

/// PLAIN of 64-bit values.
pub(crate) fn plain(values: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * 8, 0);
    for (bytes, value) in out[start..].chunks_exact_mut(8).zip(values) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint((value << 1 ^ value >> 63).cast_unsigned(), out);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_format_come_out_as_printed_there() {
        check(|out| hybrid(&[0_u16, 1, 2, 3, 4, 5, 6, 7], 3, out), &[3, 0x88, 0xc6, 0xfa]);
        // Ten values 1 to 10 are one block whose differences are all 1.
        let climbing: Vec<u64> = (1..11).collect();
        let tight = [128, 1, 4, 10, 2, 2, 0, 0, 0, 0];
        check(|out| delta(&climbing, Widths::Tight, out), &tight);
        check(|out| delta(&[], Widths::Tight, out), &[128, 1, 4, 0, 0]);
        check(|out| plain(&[1, u64::MAX], out), &{
            let mut bytes = [255; 16];
            bytes[..8].copy_from_slice(&1_u64.to_le_bytes());
            bytes
        });
    }

    #[test]
    fn a_long_run_is_one_run_and_a_short_one_is_packed() {
        check(|out| hybrid(&[5_u16; 1000], 3, out), &[0xd0, 0x0f, 5]);
        check(|out| hybrid(&[1_u8; 8], 1, out), &[3, 0xff]);
        check(|out| hybrid(&[1_u8; 3], 1, out), &[3, 0x07]);
        check(|out| hybrid::<u8>(&[], 1, out), &[]);
        let mut mixed = vec![0_u16; 40];
        mixed.extend([1, 2, 1]);
        check(|out| hybrid(&mixed, 2, out), &[80, 0, 3, 0x19, 0]);
    }

    #[test]
    fn a_width_holds_the_largest_value_and_is_never_zero() {
        for (largest, width) in [(0, 1), (1, 1), (2, 2), (255, 8), (256, 9), (u64::MAX, 64)] {
            assert_eq!(width_of(largest), width, "{largest}");
        }
    }

    proptest! {
        #[test]
        fn codes_read_back(
            runs in vec((0_u16..600, 1_usize..70), 0..30),
            width in 10_usize..17,
        ) {
            let values: Vec<u16> =
                runs.iter().flat_map(|(value, count)| vec![*value; *count]).collect();
            let mut bytes = Vec::new();
            hybrid(&values, width, &mut bytes);
            prop_assert_eq!(read_hybrid(&bytes, width, values.len()), values);
        }

        #[test]
        fn differences_read_back(
            values in prop_oneof![
                vec(any::<u64>(), 0..300),
                vec(0_u64..50, 0..300),
                vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 0..40),
            ],
            widths in prop_oneof![Just(Widths::Tight), Just(Widths::Bytes)],
        ) {
            let mut bytes = Vec::new();
            delta(&values, widths, &mut bytes);
            prop_assert_eq!(read_delta(&mut &bytes[..]), values);
        }
    }

    #[track_caller]
    fn check(write: impl FnOnce(&mut Vec<u8>), expected: &[u8]) {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(out, expected);
    }

    fn read_varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }

    fn read_zigzag(bytes: &mut &[u8]) -> i64 {
        let value = read_varint(bytes);
        (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
    }

    /// Value `place` of packed ones, bit by bit.
    fn read_bits(bytes: &[u8], place: usize, width: usize) -> u64 {
        let bit = |bit: usize| u64::from(bytes[bit / 8] >> (bit % 8) & 1);
        (0..width).fold(0, |value, low| value | bit(place * width + low) << low)
    }

    fn read_hybrid(mut bytes: &[u8], width: usize, count: usize) -> Vec<u16> {
        let mut values = Vec::new();
        while values.len() < count {
            let head = usize::try_from(read_varint(&mut bytes)).unwrap();
            let (length, many) = if head & 1 == 1 {
                (head / 2 * width, head / 2 * 8)
            } else {
                (width.div_ceil(8), head / 2)
            };
            let (run, rest) = bytes.split_at(length);
            bytes = rest;
            let place = |value: usize| if head & 1 == 1 { value } else { 0 };
            let run = (0..many).map(|value| read_bits(run, place(value), width));
            values.extend(run.map(|value| u16::try_from(value).unwrap()));
        }
        assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
        values.truncate(count);
        values
    }

    fn read_delta(bytes: &mut &[u8]) -> Vec<u64> {
        assert_eq!((read_varint(bytes), read_varint(bytes)), (128, 4));
        let count = usize::try_from(read_varint(bytes)).unwrap();
        let first = read_zigzag(bytes).cast_unsigned();
        let mut values = if count == 0 { vec![] } else { vec![first] };
        while values.len() < count {
            let least = read_zigzag(bytes).cast_unsigned();
            let (widths, rest) = bytes.split_at(4);
            *bytes = rest;
            for width in widths {
                if values.len() >= count {
                    break;
                }
                let (miniblock, rest) = bytes.split_at(usize::from(*width) * 4);
                *bytes = rest;
                for place in 0..32 {
                    let above = read_bits(miniblock, place, usize::from(*width));
                    let before = *values.last().unwrap();
                    values.push(before.wrapping_add(least).wrapping_add(above));
                }
            }
            values.truncate(count);
        }
        assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
        values
    }
}
