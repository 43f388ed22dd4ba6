//! What tests are built from: traces written as text, single events, and perf files in memory.
//!
//! `trace` reads a trace from lines, `EventBuilder` makes one event, `PerfFileBuilder` puts events
//! into the bytes of a perf file. Nothing here shares code with the crates under test, so that a
//! mistake there is not repeated here; a wrong call stops the test at once.

#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a skipped test says why")]

mod beside;
mod blktrace;
mod event_builder;
mod layout;
mod letters;
mod perf_file;
mod text;

use iotrace_model::DeviceId;

pub use beside::beside;
pub use blktrace::BlktraceBuilder;
pub use event_builder::EventBuilder;
pub use perf_file::{FormatsPlace, Packing, PerfFileBuilder};
pub use text::trace;

/// The device of an event that names none.
pub const DISK: DeviceId = DeviceId { major: 8, minor: 0 };
