//! One ring of perf records, shared with the kernel.
//!
//! Layout and rules: `struct perf_event_mmap_page` in `include/uapi/linux/perf_event.h`. One page
//! of metadata, then 2^n pages of records. The kernel writes at `data_head`, we read from
//! `data_tail`; both only grow, and the place in the ring is the value modulo its size.
//!
//! Invariant: what lies between tail and head is not written by the kernel until we publish a
//! new tail. `drain` is the only way to see those bytes and publishes after its closure returned.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicU64, Ordering},
};

use super::page_size;
use crate::recorder::{ByteRing, Span};

/// Offset of `data_head` in the metadata page.
const DATA_HEAD: usize = 1024;
/// Offset of `data_tail` in the metadata page.
const DATA_TAIL: usize = 1032;

/// The mapping of one event's ring; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    /// Bytes of metadata before the records.
    data_offset: usize,
    /// Bytes for records; a power of two.
    capacity: usize,
    /// Our copy of `data_tail`, which only we write.
    tail: u64,
}

// SAFETY: the mapping belongs to the process, not to a thread, and `Ring` is its only owner.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps 2^`pages_exp` pages for the records of `event`, which then collects into them.
    pub(crate) fn map(event: BorrowedFd<'_>, pages_exp: u8) -> io::Result<Ring> {
        let page = page_size();
        let too_big = || io::Error::from(io::ErrorKind::InvalidInput);
        let pages = 1_usize.checked_shl(pages_exp.into()).ok_or_else(too_big)?;
        let capacity = pages.checked_mul(page).ok_or_else(too_big)?;
        let length = capacity.checked_add(page).ok_or_else(too_big)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = event.as_raw_fd();
        // SAFETY: a new shared mapping at an address of the kernel's choice overlaps nothing.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("the kernel never maps a ring at address 0");
        Ok(Ring { base, data_offset: page, capacity, tail: 0 })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        let address = self.base.as_ptr().wrapping_add(offset).cast();
        // SAFETY: `offset` is a multiple of 8 within the metadata page, which stays mapped as
        // long as `self`; the kernel, too, accesses these words only as whole words.
        unsafe { AtomicU64::from_ptr(address) }
    }

    fn bytes(&self, start: usize, length: usize) -> &[u8] {
        debug_assert!(start + length <= self.capacity, "callers split spans at the end");
        let address = self.base.as_ptr().wrapping_add(self.data_offset + start);
        // SAFETY: the callers in this file ask only for bytes between tail and head and within
        // the mapping; the kernel leaves those alone until `drain` publishes a new tail, which
        // needs `&mut self` and so ends this borrow.
        unsafe { slice::from_raw_parts(address, length) }
    }
}

impl ByteRing for Ring {
    fn pending(&self) -> usize {
        // Pairs with the store of `data_head` in `perf_output_put_handle`
        // (kernel/events/ring_buffer.c): the records before head are visible after this load.
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        // The kernel keeps head within one capacity of tail; a larger distance is cut off, so
        // that no value of head can lead out of the mapping.
        usize::try_from(head.wrapping_sub(self.tail)).unwrap_or(usize::MAX).min(self.capacity)
    }

    fn drain<T>(&mut self, length: usize, read: impl FnOnce(Span<'_>) -> T) -> T {
        let length = length.min(self.pending());
        let mask = u64::try_from(self.capacity - 1).expect("usize is at most 64 bits");
        let start = usize::try_from(self.tail & mask).expect("the mask is below a usize");
        let first = length.min(self.capacity - start);
        let span = Span { first: self.bytes(start, first), second: self.bytes(0, length - first) };
        let result = read(span);
        self.tail = self.tail.wrapping_add(u64::try_from(length).expect("usize fits in 64 bits"));
        // Pairs with the load of `data_tail` in `__perf_output_begin`: our reads above are done
        // before the kernel may write there again.
        self.word(DATA_TAIL).store(self.tail, Ordering::Release);
        result
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let length = self.data_offset + self.capacity;
        // SAFETY: base and length are those of the mapping made in `map`, and no borrow of it
        // outlives `self`. A failure would only leave the memory mapped.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), length) };
    }
}
