//! Clocks. `CLOCK_MONOTONIC` is the one that the tracepoints are stamped with.

use iotrace_model::Nanos;

/// `CLOCK_MONOTONIC`: nanoseconds since the machine started, not counting sleep.
pub(crate) fn monotonic() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`: nanoseconds since the epoch.
pub(crate) fn realtime() -> Nanos {
    read(libc::CLOCK_REALTIME)
}

/// Processor time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that outlives the call, which writes nothing else.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "every clock named above exists on every Linux");
    Nanos(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))
}
