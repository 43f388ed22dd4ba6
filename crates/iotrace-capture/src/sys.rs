//! System calls that no safe crate offers. Each is made, checked and returned; nothing is decided.
//!
//! `ring` holds the one hard part, the memory shared with the kernel; `calls` and `clock` wrap
//! single calls of libc.

#![expect(unsafe_code, reason = "system calls and memory shared with the kernel have no safe form")]

mod calls;
mod clock;
pub(crate) mod process;
mod ring;

pub(crate) use calls::{
    Mount, memory_file, mount_tracefs, page_size, raise_descriptor_limit, redirect_output, wait,
};
pub(crate) use clock::{monotonic, realtime, thread_cpu_time};
pub(crate) use process::clock_ticks;
pub(crate) use ring::Ring;
