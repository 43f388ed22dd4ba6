//! Single calls of libc, each with its result turned into an `io::Result`.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// `PERF_EVENT_IOC_SET_OUTPUT`, `_IO('$', 5)` in `include/uapi/linux/perf_event.h`.
const SET_OUTPUT: libc::Ioctl = 0x2405;

/// Bytes of a page of memory.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).expect("Linux always knows its page size")
}

/// A file that lives in memory only; `name` is shown under `/proc`.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: `name` ends with a zero byte and outlives the call.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    check(fd)?;
    // SAFETY: the kernel just returned this descriptor, so nobody else owns it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Sends the records of one event into the ring of another of the same CPU.
pub(crate) fn redirect_output(event: BorrowedFd<'_>, into: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: this request takes a descriptor by value and touches no memory of ours.
    check(unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, into.as_raw_fd()) })
}

/// Waits until one of `files` has something to say; tells whether `stop` is among them.
/// A timeout and a signal both return `false`.
pub(crate) fn wait(
    files: &[BorrowedFd<'_>],
    stop: BorrowedFd<'_>,
    timeout: Duration,
) -> io::Result<bool> {
    let entry = |file: &BorrowedFd<'_>| libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<_> = [stop].iter().chain(files).map(entry).collect();
    let length = libc::nfds_t::try_from(entries.len()).map_err(io::Error::other)?;
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the pointer and length are those of `entries`, which outlives the call.
    let result = check(unsafe { libc::poll(entries.as_mut_ptr(), length, timeout) });
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(entries.first().is_some_and(|stop| stop.revents != 0)),
    }
}

/// Raises the soft limit of open files to the hard one, as far as it can.
pub(crate) fn raise_descriptor_limit() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is an rlimit that outlives the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is an initialised rlimit that outlives the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })
}

/// A file system that we mounted; it is unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    path: CString,
}

/// Mounts tracefs at `path`.
pub(crate) fn mount_tracefs(path: &Path) -> io::Result<(PathBuf, Mount)> {
    let target = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let (source, kind) = (c"nodev", c"tracefs");
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the three texts end with a zero byte and outlive the call; no data is passed.
    let result = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null())
    };
    check(result)?;
    Ok((path.to_owned(), Mount { path: target }))
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A failure leaves tracefs mounted where every tool expects it, which harms nobody.
        // SAFETY: the path ends with a zero byte and outlives the call.
        let _ = unsafe { libc::umount2(self.path.as_ptr(), libc::MNT_DETACH) };
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek, Write},
        os::fd::AsFd,
    };

    use super::*;

    #[test]
    fn a_memory_file_keeps_what_is_written() {
        let mut file = memory_file(c"test").unwrap();
        file.write_all(b"kept").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "kept");
    }

    #[test]
    fn closing_the_other_end_of_a_pipe_is_the_stop_signal() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(!wait(&[], reader.as_fd(), Duration::ZERO).unwrap());
        drop(writer);
        assert!(wait(&[], reader.as_fd(), Duration::ZERO).unwrap());
    }
}
