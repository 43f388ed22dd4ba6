//! The command whose I/O is recorded.
//!
//! It runs in a process group of its own, so that a ^C for iotrace reaches it only when iotrace
//! passes it on. Its output is kept in files and, when asked, shown on our stderr, since stdout is
//! for results.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use iotrace_model::Nanos;

use crate::{Error, sys};

/// The user that the command runs as, and that gets the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAs {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
    /// Login name.
    pub name: String,
    /// Home folder.
    pub home: PathBuf,
}

impl RunAs {
    /// The user who called sudo, by the numbers that sudo leaves in the environment.
    ///
    /// # Errors
    /// When these are no numbers.
    pub fn from_sudo(uid: &str, gid: &str) -> Result<Self, Error> {
        let unknown = || Error::NoSuchUser { name: uid.to_owned() };
        let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse()) else { return Err(unknown()) };
        let known = passwd().into_iter().find(|user| user.uid == uid);
        let nameless = || Self { uid, gid, name: uid.to_string(), home: PathBuf::from("/") };
        Ok(Self { gid, ..known.unwrap_or_else(nameless) })
    }

    /// A user by login name or number.
    ///
    /// # Errors
    /// When there is none.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        passwd()
            .into_iter()
            .find(|user| user.name == name || name.parse() == Ok(user.uid))
            .ok_or_else(|| Error::NoSuchUser { name: name.to_owned() })
    }
}

impl RunAs {
    /// The group and every group of `/etc/group` that lists the user.
    fn groups(&self) -> Vec<u32> {
        let text = fs::read_to_string("/etc/group").unwrap_or_default();
        let listed = text.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let gid = fields.nth(2)?.parse().ok()?;
            fields.next()?.split(',').any(|name| name == self.name).then_some(gid)
        });
        std::iter::once(self.gid).chain(listed.filter(|gid| *gid != self.gid)).collect()
    }
}

/// The users of `/etc/passwd`.
fn passwd() -> Vec<RunAs> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let users = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(RunAs { uid, gid, name, home: PathBuf::from(fields.nth(1)?) })
    });
    users.collect()
}

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
            command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name);
            sys::process::become_user(&mut command, user.uid, user.gid, user.groups());
        }
        let started = Instant::now();
        let mut child = command.spawn().map_err(|source| {
            let command = program.to_string_lossy().into_owned();
            match source.kind() {
                io::ErrorKind::NotFound => Error::CommandNotFound { command },
                _ => Error::Spawn { command, source },
            }
        })?;
        let mut copies = Vec::new();
        if let Some(from) = child.stdout.take() {
            copies.push(std::thread::spawn(move || copy(from, stdout, show)));
        }
        if let Some(from) = child.stderr.take() {
            copies.push(std::thread::spawn(move || copy(from, stderr, show)));
        }
        Ok(Self { pid: child.id(), started, copies, finished: None })
    }

    /// How it ended, or `None` while it runs.
    ///
    /// # Errors
    /// When the kernel does not tell, or its output could not be kept.
    pub fn try_wait(&mut self) -> Result<Option<Finished>, Error> {
        if self.finished.is_some() {
            return Ok(self.finished);
        }
        let ended = sys::process::wait(self.pid).map_err(|source| Error::Wait { source })?;
        let Some(usage) = ended else { return Ok(None) };
        let wall = i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.finished = Some(Finished { wall: Nanos(wall), ..usage });
        for copy in self.copies.drain(..) {
            match copy.join() {
                Ok(result) => result.map_err(|source| Error::KeepOutput { source })?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(self.finished)
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

fn copy(mut from: impl Read, mut to: File, show: Show) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return to.flush(),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        to.write_all(bytes)?;
        if show == Show::Show {
            // A closed stderr must not end the workload.
            drop(io::stderr().write_all(bytes));
        }
    }
}

/// Gives a folder and all in it to a user, readable by the group and nobody else: traces hold the
/// names of processes.
///
/// # Errors
/// When the file system refuses.
pub fn give_to(path: &Path, owner: Option<&RunAs>) -> Result<(), Error> {
    let give = || -> io::Result<()> {
        let is_folder = fs::symlink_metadata(path)?.is_dir();
        let mode = if is_folder { 0o750 } else { 0o640 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        if let Some(owner) = owner {
            chown(path, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(())
    };
    give().map_err(|source| Error::GiveAway { path: path.to_owned(), source })?;
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            give_to(&entry.path(), owner)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn run(script: &str) -> (Finished, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["out", "err"].map(|name| folder.path().join(name));
        let files = [&paths[0], &paths[1]].map(|path| File::create(path).unwrap());
        let [out, err] = files;
        let words: Vec<OsString> = ["sh", "-c", script].map(OsString::from).to_vec();
        let mut workload = Workload::spawn(&words, None, out, err, Show::Quiet).unwrap();
        let finished = loop {
            if let Some(finished) = workload.try_wait().unwrap() {
                break finished;
            }
            std::thread::yield_now();
        };
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
        let file = || tempfile::tempfile().unwrap();
        let words = [OsString::from("no-such-command")];
        let error = Workload::spawn(&words, None, file(), file(), Show::Quiet).unwrap_err();
        assert!(
            matches!(error, Error::CommandNotFound { command } if command == "no-such-command")
        );
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(RunAs::by_name("root").unwrap().uid, 0);
        assert_eq!(RunAs::from_sudo("0", "0").unwrap().name, "root");
        assert!(matches!(RunAs::by_name("no such user"), Err(Error::NoSuchUser { .. })));
    }
}
