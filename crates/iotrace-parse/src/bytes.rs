//! Little-endian numbers at checked places.

/// The bytes of a place; `None` outside.
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    at(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    at(bytes, offset).map(u64::from_le_bytes)
}

/// An unsigned number of 1, 2, 4 or 8 bytes.
pub(crate) fn number_at(bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
    match size {
        1 => bytes.get(offset).copied().map(u64::from),
        2 => u16_at(bytes, offset).map(u64::from),
        4 => u32_at(bytes, offset).map(u64::from),
        8 => u64_at(bytes, offset),
        _ => None,
    }
}
