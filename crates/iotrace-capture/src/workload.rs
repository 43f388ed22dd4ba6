//! The command whose I/O is recorded.
//!
//! It runs in a process group of its own, so that a ^C for iotrace reaches it only when iotrace
//! passes it on. Its output is kept in files and, when asked, shown on our stderr, since stdout is
//! for results.
//!
//! The command has ended when its first process has and nobody holds its output any more. What it
//! leaves in the background with that output has a moment, then its group is killed. The first
//! process is waited for last, so that until then its number means nobody else.

mod user;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iotrace_model::Nanos;

use crate::{Error, sys};

pub use user::{RunAs, give_to};

/// How long output may stay open after the command's end before its group is killed, and how long
/// after that before it is given up.
const GRACE: Duration = Duration::from_millis(500);
/// How often `wait` looks.
const TICK: Duration = Duration::from_millis(5);

/// Whether the command's output is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// On our stderr.
    Show,
    /// Nowhere; it is only kept.
    Quiet,
}

/// What a command can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Stop, please (`SIGINT`).
    Interrupt,
    /// Stop now (`SIGKILL`).
    Kill,
}

/// A command that runs.
#[derive(Debug)]
pub struct Workload {
    pid: u32,
    started: Instant,
    /// When its first process was seen to have ended.
    ended: Option<Instant>,
    copies: Vec<JoinHandle<io::Result<()>>>,
    finished: Option<Finished>,
}

/// How a command ended and what it used, its children included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Wall time from start to end.
    pub wall: Nanos,
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// Largest resident memory.
    pub max_rss_bytes: u64,
    /// How often it gave its CPU up, mostly to wait.
    pub voluntary_switches: u64,
    /// How often its CPU was taken from it.
    pub involuntary_switches: u64,
    /// Whether it left processes in the background that held its output: they were killed or, in
    /// another group, left alone, and later output of theirs is not kept.
    pub left_behind: bool,
}

impl Workload {
    /// Starts a command; what it says goes to the two files.
    ///
    /// # Errors
    /// When it cannot be found or started.
    pub fn spawn(
        words: &[OsString],
        run_as: Option<&RunAs>,
        stdout: File,
        stderr: File,
        show: Show,
    ) -> Result<Self, Error> {
        let (program, arguments) = words.split_first().ok_or(Error::NoCommand)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(user) = run_as {
            user.run(&mut command);
        }
        let started = Instant::now();
        let mut child = command.spawn().map_err(|source| spawn_error(program, run_as, source))?;
        let mut copies = Vec::new();
        if let Some(from) = child.stdout.take() {
            copies.push(std::thread::spawn(move || copy(from, stdout, show)));
        }
        if let Some(from) = child.stderr.take() {
            copies.push(std::thread::spawn(move || copy(from, stderr, show)));
        }
        Ok(Self { pid: child.id(), started, ended: None, copies, finished: None })
    }

    /// How it ended, or `None` while it runs. Never waits.
    ///
    /// # Errors
    /// When the kernel does not tell, or its output could not be kept; it has ended then, too.
    pub fn try_wait(&mut self) -> Result<Option<Finished>, Error> {
        if self.finished.is_some() {
            return Ok(self.finished);
        }
        let failure = |source| Error::Wait { source };
        let ended = match self.ended {
            Some(ended) => ended,
            None if sys::process::has_ended(self.pid).map_err(failure)? => Instant::now(),
            None => return Ok(None),
        };
        self.ended = Some(ended);
        let is_open = self.copies.iter().any(|copy| !copy.is_finished());
        if is_open && ended.elapsed() < GRACE {
            return Ok(None);
        }
        if is_open && ended.elapsed() < 2 * GRACE {
            sys::process::signal_group(self.pid, Signal::Kill);
            return Ok(None);
        }
        let Some(usage) = sys::process::wait(self.pid).map_err(failure)? else { return Ok(None) };
        let wall = i64::try_from((ended - self.started).as_nanos()).unwrap_or(i64::MAX);
        let left_behind = ended.elapsed() >= GRACE;
        self.finished = Some(Finished { wall: Nanos(wall), left_behind, ..usage });
        self.join_copies().map_err(|source| Error::KeepOutput { source })?;
        Ok(self.finished)
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// Those of `try_wait`.
    pub fn wait(&mut self) -> Result<Finished, Error> {
        loop {
            if let Some(finished) = self.try_wait()? {
                return Ok(finished);
            }
            std::thread::sleep(TICK);
        }
    }

    /// The result of the copies that are done; one that somebody keeps open goes on by itself.
    fn join_copies(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for copy in self.copies.drain(..).filter(JoinHandle::is_finished) {
            match copy.join() {
                Ok(copied) => result = result.and(copied),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    }

    /// Tells the whole group of processes; one that is gone needs no telling.
    pub fn signal(&self, signal: Signal) {
        if self.finished.is_none() {
            sys::process::signal_group(self.pid, signal);
        }
    }
}

impl Drop for Workload {
    /// A workload never outlives its recording.
    fn drop(&mut self) {
        if self.finished.is_none() {
            sys::process::signal_group(self.pid, Signal::Kill);
            while matches!(sys::process::wait(self.pid), Ok(None)) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

fn spawn_error(program: &OsStr, run_as: Option<&RunAs>, source: io::Error) -> Error {
    let command = program.to_string_lossy().into_owned();
    let is_missing = if command.contains('/') {
        // One that is there and still not found lacks its interpreter.
        source.kind() == io::ErrorKind::NotFound && !Path::new(program).exists()
    } else {
        // Permission is denied when a folder of the search path is closed to the user.
        matches!(source.raw_os_error(), Some(libc::ENOENT | libc::EACCES))
    };
    match run_as {
        _ if is_missing => Error::CommandNotFound { command },
        // Becoming the user fails with this, exec with EACCES.
        Some(user) if source.raw_os_error() == Some(libc::EPERM) => {
            Error::CannotBecome { user: user.name.clone(), source }
        }
        Some(_) | None => Error::Spawn { command, source },
    }
}

/// Copies until the end. When the file takes no more, the rest is still read, so that a full disk
/// does not end the command, and the failure is told afterwards.
fn copy(mut from: impl Read, mut to: File, show: Show) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut kept = Ok(());
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return kept,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        if kept.is_ok() {
            kept = to.write_all(bytes);
        }
        if show == Show::Show {
            // A closed stderr must not end the workload.
            drop(io::stderr().write_all(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn spawn(script: &str, out: File, err: File) -> Workload {
        let words = ["sh", "-c", script].map(OsString::from);
        Workload::spawn(&words, None, out, err, Show::Quiet).unwrap()
    }

    fn file() -> File {
        tempfile::tempfile().unwrap()
    }

    #[track_caller]
    fn run(script: &str) -> (Finished, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["out", "err"].map(|name| folder.path().join(name));
        let files = [&paths[0], &paths[1]].map(|path| File::create(path).unwrap());
        let [out, err] = files;
        let finished = spawn(script, out, err).wait().unwrap();
        let [out, err] = [&paths[0], &paths[1]].map(|path| fs::read_to_string(path).unwrap());
        (finished, out, err)
    }

    #[test]
    fn output_and_exit_code_are_kept() {
        let (finished, out, err) = run("echo said; echo warned >&2; exit 3");
        assert_eq!((finished.exit_code, finished.signal), (Some(3), None));
        assert_eq!((out.as_str(), err.as_str()), ("said\n", "warned\n"));
        assert!(finished.wall.0 > 0 && finished.max_rss_bytes > 0);
    }

    #[test]
    fn a_signal_is_no_exit_code() {
        let (finished, ..) = run("kill -TERM $$");
        assert_eq!((finished.exit_code, finished.signal), (None, Some(15)));
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let words = [OsString::from("no-such-command")];
        let error = Workload::spawn(&words, None, file(), file(), Show::Quiet).unwrap_err();
        assert!(
            matches!(error, Error::CommandNotFound { command } if command == "no-such-command")
        );
    }

    #[test]
    fn what_the_kernel_says_of_a_start_is_told_apart() {
        let missing = |error: &Error| matches!(error, Error::CommandNotFound { .. });
        let failed = |error: &Error| matches!(error, Error::Spawn { .. });
        let refused = |error: &Error| matches!(error, Error::CannotBecome { .. });
        check_start("fio", libc::ENOENT, missing);
        check_start("fio", libc::EACCES, missing);
        check_start("/no/such/fio", libc::ENOENT, missing);
        check_start("/dev/null", libc::ENOENT, failed);
        check_start("/dev/null", libc::EACCES, failed);
        check_start("fio", libc::ENOMEM, failed);
        check_start("fio", libc::EPERM, refused);
    }

    #[track_caller]
    fn check_start(program: &str, number: i32, is_expected: impl Fn(&Error) -> bool) {
        let user = RunAs { uid: 1, gid: 1, name: "user".to_owned(), home: "/".into() };
        let source = io::Error::from_raw_os_error(number);
        let error = spawn_error(OsStr::new(program), Some(&user), source);
        assert!(is_expected(&error), "{error:?}");
    }

    #[test]
    fn a_program_that_is_there_but_cannot_run_is_no_missing_command() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let words = [script.clone().into_os_string()];
        let spawn = || Workload::spawn(&words, None, file(), file(), Show::Quiet).unwrap_err();
        assert!(matches!(spawn(), Error::Spawn { .. }));
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        assert!(matches!(spawn(), Error::Spawn { .. }));
    }

    #[test]
    fn a_workload_can_be_interrupted() {
        let mut workload = spawn("kill -STOP $$", file(), file());
        // Stopped, it sees the signals only when the second one ends it for certain.
        workload.signal(Signal::Interrupt);
        workload.signal(Signal::Kill);
        let finished = workload.wait().unwrap();
        assert!(matches!(finished.signal, Some(2 | 9)));
        assert_eq!(finished.exit_code, None);
    }

    #[test]
    fn the_background_does_not_hold_the_end_up() {
        let mut workload = spawn("sleep 1000 & echo said; exit 3", file(), file());
        let finished = workload.wait().unwrap();
        assert_eq!((finished.exit_code, finished.left_behind), (Some(3), true));
        assert!(!run("exit 3").0.left_behind);
    }

    #[test]
    fn a_full_disk_does_not_end_the_command() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let script = "i=0; while [ $i -lt 9999 ]; do echo 0123456789 || exit 77; i=$((i+1)); done";
        let mut workload = spawn(script, full, file());
        assert!(matches!(workload.wait(), Err(Error::KeepOutput { .. })));
        assert_eq!(workload.wait().unwrap().exit_code, Some(0));
    }

    #[test]
    fn a_dropped_workload_is_gone() {
        let workload = spawn("exec sleep 1000", file(), file());
        let pid = workload.pid;
        drop(workload);
        assert!(sys::process::wait(pid).is_err());
    }
}
