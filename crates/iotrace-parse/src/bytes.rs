//! Little-endian numbers at checked places, and places themselves.

/// A stretch of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes from the start of the raw sample.
    pub(crate) offset: usize,
    /// Bytes.
    pub(crate) size: usize,
}

impl Place {
    /// `None` outside of the sample.
    #[inline]
    pub(crate) fn slice(self, raw: &[u8]) -> Option<&[u8]> {
        raw.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// An unsigned number of 1, 2, 4 or 8 bytes; `None` outside of the sample.
    #[inline]
    pub(crate) fn number(self, raw: &[u8]) -> Option<u64> {
        match self.size {
            1 => raw.get(self.offset).copied().map(u64::from),
            2 => u16_at(raw, self.offset).map(u64::from),
            4 => u32_at(raw, self.offset).map(u64::from),
            8 => u64_at(raw, self.offset),
            _ => None,
        }
    }
}

/// The bytes of a place; `None` outside.
#[inline]
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    at(bytes, offset).map(u16::from_le_bytes)
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_le_bytes)
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    at(bytes, offset).map(u64::from_le_bytes)
}
