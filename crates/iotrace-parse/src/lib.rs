//! From raw capture files to ordered events.
//!
//! `perf` reads perf files (`perf.data`, and what iotrace itself captures); `format` reads the
//! kernel's descriptions of its tracepoints, `tracepoint` turns a raw sample into an event by the
//! names in them, `merge` brings the CPUs' streams into one order. `trace_text` reads the same
//! tracepoints where perf script or ftrace printed them. Input is only data: no bytes make this
//! crate panic or allocate from a length that it has not checked.

#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing)]

mod ata;
mod blkparse;
mod blktrace;
mod bytes;
mod error;
mod format;
mod input;
mod lines;
mod merge;
mod open;
mod perf;
mod reader;
mod rwbs;
mod split;
mod trace_text;
mod tracepoint;
mod window;

pub use blkparse::{BlkparseReader, looks_like_blkparse};
pub use blktrace::BlktraceReader;
pub use error::Error;
pub use open::{Format, OpenOptions, Trace, open};
pub use perf::{Options, PerfReader, Records};
pub use reader::{About, Progress, Reader};
pub use trace_text::{
    TextKind, TraceTextOptions, TraceTextReader, looks_like_biosnoop, looks_like_ftrace,
    looks_like_perf_script,
};
