//! Why capturing cannot go on, with the remedy where the user has one.

use std::{io, path::PathBuf};

use iotrace_model::Cpu;

/// Why something about the machine could not be captured, read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel lets only privileged processes trace the whole machine.
    #[error(
        "no permission to trace block devices (/proc/sys/kernel/perf_event_paranoid is {paranoid}); \
         run with sudo or grant CAP_PERFMON and CAP_DAC_READ_SEARCH"
    )]
    NotPermitted {
        /// The value found there, or `unknown`.
        paranoid: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no tracefs and it could not be mounted.
    #[error("tracefs is not mounted; run `mount -t tracefs nodev /sys/kernel/tracing` as root")]
    NoTracefs {
        /// Why it could not be mounted.
        #[source]
        source: io::Error,
    },
    /// The kernel has no event that a capture cannot do without.
    #[error(
        "this kernel has no tracepoint {event} under {path}; \
         a kernel built with CONFIG_BLOCK and CONFIG_EVENT_TRACING is needed"
    )]
    NoTracepoint {
        /// Name of the event, such as `block/block_rq_issue`.
        event: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Nothing to trace was named: without a filter every device would be.
    #[error("no device to trace; name one with --device")]
    NoTarget,
    /// The rings take more locked memory than the process may have.
    #[error(
        "cannot get a ring of {bytes} bytes on each of {cpus} CPUs; \
         make it smaller with --ring-size or grant CAP_IPC_LOCK"
    )]
    RingTooBig {
        /// Bytes of one ring.
        bytes: u64,
        /// Online CPUs, each of which needs one.
        cpus: usize,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// One file is needed for each event on each CPU.
    #[error(
        "too many open files: {needed} are needed for tracing; raise the limit, `ulimit -Hn {needed}`"
    )]
    TooManyFiles {
        /// Files needed, with some to spare.
        needed: usize,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel refused an event for another reason.
    #[error("cannot open tracepoint {event} on CPU {}", cpu.0)]
    OpenEvent {
        /// Name of the event.
        event: String,
        /// On which CPU.
        cpu: Cpu,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel refused the filter that limits an event to the traced devices.
    #[error("the kernel refused the filter `{filter}` for tracepoint {event}")]
    Filter {
        /// Name of the event.
        event: String,
        /// The filter.
        filter: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A tracepoint could not be switched on or off, or its counts could not be read.
    #[error("cannot control the tracepoints of CPU {}", cpu.0)]
    Control {
        /// On which CPU.
        cpu: Cpu,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No memory for a file in memory.
    #[error("cannot create a capture buffer in memory")]
    MemoryFile {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The capture cannot grow any more; what was written before is still readable.
    #[error(
        "no space left for the capture after {bytes} bytes; free some or choose another output"
    )]
    DiskFull {
        /// Bytes written before.
        bytes: u64,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The capture could not be written.
    #[error("cannot write the capture after {bytes} bytes")]
    WriteCapture {
        /// Bytes written before.
        bytes: u64,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The thread that copies the rings could not be started or could not wait.
    #[error("cannot run the capture thread")]
    CaptureThread {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A file of the kernel could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A file of the kernel does not hold what it should.
    #[error("{}: expected {expected}", path.display())]
    Unexpected {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
}
