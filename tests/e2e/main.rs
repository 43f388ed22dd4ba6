//! End-to-end tests: the built program, its files, its exit codes.
//!
//! Tests that need a real kernel run with `IOTRACE_PRIVILEGED=1` and otherwise print
//! `skipped: why`. They trace only loop devices that they make and remove themselves.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![expect(clippy::print_stderr, reason = "a skipped test says why")]

mod btt;
mod golden;
mod import;
mod loop_device;
mod losses;
mod peers;
mod recover;
mod refusals;
mod support;
