//! Processes: becoming a user before exec, waiting with resource usage, signals to a group.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use iotrace_model::Nanos;

use crate::workload::{Finished, Signal};

/// Makes a command run as a user with the groups that were looked up before.
pub(crate) fn become_user(command: &mut Command, uid: u32, gid: u32, groups: Vec<u32>) {
    let change = move || {
        // SAFETY: pointer and length are those of the vector, which the closure owns.
        check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
        // SAFETY: takes numbers only.
        check(unsafe { libc::setgid(gid) })?;
        // SAFETY: takes numbers only; last, since it gives the right to the others away.
        check(unsafe { libc::setuid(uid) })
    };
    // SAFETY: between fork and exec the closure makes system calls only: it neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(change) };
}

/// Whether a child has ended; nothing is taken from what `wait` will tell.
pub(crate) fn has_ended(pid: u32) -> io::Result<bool> {
    // SAFETY: a siginfo of zeros is a valid one.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a local that outlives the call.
    let result = check(unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, flags) });
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
        // SAFETY: waitid fills the fields of a child, or leaves the zeros, whose pid is 0.
        Ok(()) => Ok(unsafe { info.si_pid() } != 0),
    }
}

/// How a child ended, or `None` while it runs. Wall time and `left_behind` are left out.
pub(crate) fn wait(pid: u32) -> io::Result<Option<Finished>> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: an rusage of zeros is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that outlive the call.
    let waited = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
    match waited {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
        _ => Ok(Some(Finished {
            exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            wall: Nanos(0),
            left_behind: false,
            user: nanos(usage.ru_utime),
            system: nanos(usage.ru_stime),
            // In KiB on Linux.
            max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
            voluntary_switches: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
            involuntary_switches: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
        })),
    }
}

/// Signals every process of a group; one that is gone is no error.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    let number = match signal {
        Signal::Interrupt => libc::SIGINT,
        Signal::Kill => libc::SIGKILL,
    };
    if let Ok(pid) = i32::try_from(leader) {
        // SAFETY: takes numbers only.
        let _ = unsafe { libc::kill(-pid, number) };
    }
}

/// The user whose rights this process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Ticks of the kernel's CPU times in a second.
pub(crate) fn clock_ticks() -> i64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }
}

fn nanos(time: libc::timeval) -> Nanos {
    Nanos(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_usec * 1000))
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
