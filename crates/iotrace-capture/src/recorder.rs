//! Live capture: block tracepoints of every CPU into one perf file.
//!
//! ```text
//! tracepoints of CPU 0 ─► ring 0 ─┐
//! tracepoints of CPU 1 ─► ring 1 ─┼─► one thread: poll, copy whole spans ─► perf file
//! tracepoints of CPU 2 ─► ring 2 ─┘
//! ```
//!
//! `open` decides what is traced, `filter` writes the kernel's filters, `drain` is the thread and
//! `walk` counts the records that pass. Records are not interpreted here: the file is read back by
//! the same parser that reads files of `perf record`.

mod drain;
mod filter;
mod open;
mod walk;

use std::{
    ffi::CString,
    fs::File,
    io::{self, PipeWriter},
    panic,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use iotrace_model::{Ledger, Loss, Nanos};

use crate::{Error, Target, sys};

pub(crate) use walk::Span;

/// What does not depend on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Each CPU's ring has 2^this pages. The default, 12, is 16 MiB with pages of 4 KiB.
    pub ring_pages_exp: u8,
    /// Where the capture stays in memory: it never grows beyond this. What comes later is
    /// counted as `Cause::BufferFull`. `None` is no limit.
    pub limit_bytes: Option<u64>,
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self { ring_pages_exp: 12, limit_bytes: None }
    }
}

/// A capture that is running. Dropping it ends the capture and leaves a readable file.
#[derive(Debug)]
pub struct Recorder {
    /// Dropping it tells the thread to stop. `None` once that was done.
    stop: Option<PipeWriter>,
    /// `None` once it was joined.
    thread: Option<JoinHandle<Result<Capture, Error>>>,
    shared: Arc<Shared>,
    started: Nanos,
}

/// How far a capture is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events in the file.
    pub events: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Events known to be lost so far: the kernel tells when the next one fits again.
    pub lost: u64,
    /// Issues less completions and requeues of the first target since the start. Only an
    /// indication: below zero if requests were in flight at the start, and too low after
    /// completions in parts.
    pub in_flight: i64,
}

/// A capture that is over.
#[derive(Debug)]
pub struct Capture {
    /// The perf file.
    pub file: File,
    /// Events in it.
    pub events: u64,
    /// Its size.
    pub bytes: u64,
    /// What was lost, by CPU. Times are relative to `started`. Losses that the kernel told are
    /// in the file as well, as `PERF_RECORD_LOST`.
    pub ledger: Ledger,
    /// Gaps that no record of the file tells of, in the order of their starts, relative to
    /// `started`: events that the kernel counted and never wrote. They are in the ledger too.
    pub gaps: Vec<Loss>,
    /// Processor time of the thread that copied the rings.
    pub cpu_time: Nanos,
    /// `CLOCK_MONOTONIC` just before the first event was switched on.
    pub started: Nanos,
    /// `CLOCK_MONOTONIC` just after the last event was switched off.
    pub stopped: Nanos,
    /// The tracepoints that were opened, such as `block/block_rq_issue`.
    pub trace_events: Vec<String>,
}

/// The records waiting in one CPU's ring; a fake stands in for the kernel in tests.
pub(crate) trait ByteRing {
    /// Bytes that wait.
    fn pending(&self) -> usize;

    /// Shows the first `length` bytes that wait, at most `pending`, and then gives their place
    /// back to the writer.
    fn drain<T>(&mut self, length: usize, read: impl FnOnce(Span<'_>) -> T) -> T;
}

/// Numbers that the thread publishes; each stands for itself, so the order does not matter.
#[derive(Debug, Default)]
struct Shared {
    events: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    in_flight: AtomicI64,
}

impl Recorder {
    /// Opens the tracepoints for `targets` and starts to copy their records into `sink`, an
    /// empty file open for reading and writing. Needs `CAP_PERFMON` and access to tracefs.
    pub fn start(
        targets: &[Target],
        options: &RecorderOptions,
        sink: File,
    ) -> Result<Recorder, Error> {
        let opened = open::open(targets, options)?;
        let shared = Arc::new(Shared::default());
        let (stopped, stop) = io::pipe().map_err(thread_error)?;
        let session = drain::Session::begin(opened, options, sink, Arc::clone(&shared))?;
        let started = session.started();
        let thread = thread::Builder::new()
            .name("iotrace-capture".to_owned())
            .spawn(move || session.run(&stopped))
            .map_err(thread_error)?;
        Ok(Recorder { stop: Some(stop), thread: Some(thread), shared, started })
    }

    /// `CLOCK_MONOTONIC` just before the first event was switched on.
    pub fn started(&self) -> Nanos {
        self.started
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            events: self.shared.events.load(Ordering::Relaxed),
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            in_flight: self.shared.in_flight.load(Ordering::Relaxed),
        }
    }

    /// Whether the capture ended by itself, which only an error does; `stop` then returns it.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Switches the events off, copies what is left and completes the file.
    pub fn stop(mut self) -> Result<Capture, Error> {
        drop(self.stop.take());
        let thread = self.thread.take().expect("only stop and drop take the thread");
        thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The result has no taker: the recorder was dropped because of another error.
            let _ = thread.join();
        }
    }
}

/// Now on `CLOCK_MONOTONIC`, the clock of the capture.
pub fn monotonic_now() -> Nanos {
    sys::monotonic()
}

/// Now on `CLOCK_REALTIME`, since the epoch.
pub fn realtime_now() -> Nanos {
    sys::realtime()
}

/// Bytes of a page of memory.
pub fn page_size() -> u64 {
    u64::try_from(sys::page_size()).expect("a usize is at most 64 bits")
}

/// A file in memory, for captures that must not disturb the traced device.
pub fn memory_file(name: &str) -> Result<File, Error> {
    let name: Vec<u8> = name.bytes().filter(|&byte| byte != 0).collect();
    let name = CString::new(name).expect("the zero bytes were filtered out");
    sys::memory_file(&name).map_err(|source| Error::MemoryFile { source })
}

fn thread_error(source: io::Error) -> Error {
    Error::CaptureThread { source }
}
