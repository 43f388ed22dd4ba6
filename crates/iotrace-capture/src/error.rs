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
    /// No such block device.
    #[error("no block device {name}; lsblk lists those of this machine")]
    NoSuchDevice {
        /// As it was named.
        name: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The path leads to something else.
    #[error("{name} is not a block device{home}; name the disk, or attach a file with losetup")]
    NotABlockDevice {
        /// As it was named.
        name: String,
        /// Where it lies, if known: `; it lies on /dev/sda`.
        home: String,
    },
    /// A device without sectors, such as a loop device that nothing is attached to.
    #[error("{name} has no size; attach a file to it with losetup, or insert a medium")]
    NoSize {
        /// Its kernel name.
        name: String,
    },
    /// NCQ is a knob of ATA disks.
    #[error("{name} has no NCQ to switch: it is not driven by libata; {instead}")]
    NoNcq {
        /// Its kernel name.
        name: String,
        /// What to use instead.
        instead: &'static str,
    },
    /// The device has no such setting.
    #[error("{name} has no {setting} to set; {instead}")]
    NoKnob {
        /// Its kernel name.
        name: String,
        /// The setting.
        setting: &'static str,
        /// What to use instead.
        instead: &'static str,
    },
    /// The kernel does not offer the scheduler.
    #[error("{name} has no scheduler {scheduler}; it offers {offered}")]
    NoScheduler {
        /// Its kernel name.
        name: String,
        /// The scheduler that was asked for.
        scheduler: String,
        /// Those that there are.
        offered: String,
    },
    /// A setting could not be read or written.
    #[error("cannot set {label} ({}); changing settings needs root", path.display())]
    Setting {
        /// The setting.
        label: String,
        /// Its file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The driver does not take the value.
    #[error("the driver refuses {wanted} for {label}")]
    Refused {
        /// The setting.
        label: String,
        /// What was written.
        wanted: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Two processes would each put back what it found.
    #[error(
        "{label} is changed by process {pid} already; \
         wait until that has ended, or run `iotrace restore` if it has"
    )]
    Contested {
        /// The setting.
        label: String,
        /// The process that changed it.
        pid: u32,
    },
    /// The driver took the value and did not use it.
    #[error("{label} reads {found} after {wanted} was written: the driver ignores it")]
    Ignored {
        /// The setting.
        label: String,
        /// What was written.
        wanted: String,
        /// What was read.
        found: String,
    },
    /// Without a journal no setting is changed.
    #[error("cannot keep the journal of changed settings at {}; nothing was changed", path.display())]
    Journal {
        /// The journal file or folder.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no command to run.
    #[error("no command to run; give one after --")]
    NoCommand,
    /// The command does not exist.
    #[error("{command}: command not found; give its path or install it")]
    CommandNotFound {
        /// Its first word.
        command: String,
    },
    /// The command could not be started.
    #[error("cannot run {command}")]
    Spawn {
        /// Its first word.
        command: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The command is to run as somebody else, which only root may decide.
    #[error("cannot run the command as {user}; only root can choose its user")]
    CannotBecome {
        /// Login name.
        user: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel did not tell how the command ended.
    #[error("cannot wait for the command")]
    Wait {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// What the command said could not be kept.
    #[error("cannot keep the output of the command")]
    KeepOutput {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No such user.
    #[error("no user {name}")]
    NoSuchUser {
        /// As it was named.
        name: String,
    },
    /// The output could not be given to its owner.
    #[error("cannot give {} to the user who asked for it", path.display())]
    GiveAway {
        /// The file or folder.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}
