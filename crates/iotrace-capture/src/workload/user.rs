//! Whom the command runs as, and who gets what is written.
//!
//! Users are those of `/etc/passwd` and `/etc/group`. Files are given away by root in folders that
//! others may write to, so no link is followed: each file is opened below its open folder, and
//! changed through its descriptor.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// Makes a command run as this user, with that home. Nothing is to be changed for one's own
    /// user, and without root nothing could be.
    pub(super) fn run(&self, command: &mut Command) {
        command.env("HOME", &self.home).env("USER", &self.name).env("LOGNAME", &self.name);
        if sys::process::effective_user() != self.uid {
            sys::process::become_user(command, self.uid, self.gid, self.groups());
        }
    }

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

/// Gives a folder and all in it to a user, readable by the group and nobody else: traces hold the
/// names of processes. Links stay as they are.
///
/// # Errors
/// When the file system refuses.
pub fn give_to(path: &Path, owner: Option<&RunAs>) -> Result<(), Error> {
    give(path, path, owner)
}

/// `path` is how the file is reached, `shown` what it is called.
fn give(path: &Path, shown: &Path, owner: Option<&RunAs>) -> Result<(), Error> {
    let failure = |source| Error::GiveAway { path: shown.to_owned(), source };
    // Neither follows a link nor waits for the other end of a pipe.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(()),
        file => file.map_err(failure)?,
    };
    let is_folder = file.metadata().map_err(failure)?.is_dir();
    if is_folder {
        for name in names(&file).map_err(failure)? {
            give(&below(&file, &name), &shown.join(&name), owner)?;
        }
    }
    let mode = if is_folder { 0o750 } else { 0o640 };
    file.set_permissions(Permissions::from_mode(mode)).map_err(failure)?;
    if let Some(owner) = owner {
        fchown(&file, Some(owner.uid), Some(owner.gid)).map_err(failure)?;
    }
    Ok(())
}

fn names(folder: &File) -> io::Result<Vec<std::ffi::OsString>> {
    fs::read_dir(below(folder, OsStr::new("")))?.map(|entry| Ok(entry?.file_name())).collect()
}

/// A file of an open folder, wherever that may have been moved to.
fn below(folder: &File, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(RunAs::by_name("root").unwrap().uid, 0);
        assert_eq!(RunAs::from_sudo("0", "0").unwrap().name, "root");
        assert!(matches!(RunAs::by_name("no such user"), Err(Error::NoSuchUser { .. })));
    }

    #[test]
    fn the_own_group_comes_first_and_once() {
        let root = RunAs::by_name("root").unwrap();
        let groups = root.groups();
        assert_eq!(groups.iter().position(|gid| *gid == root.gid), Some(0));
        assert_eq!(groups.iter().filter(|gid| **gid == root.gid).count(), 1);
    }

    #[test]
    fn a_folder_is_given_with_all_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("runs/ncq=on");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("run.json"), "{}").unwrap();
        let own = fs::metadata(folder.path()).unwrap();
        // Root can give to somebody else; anybody can to oneself.
        let (uid, gid) = if own.uid() == 0 { (12345, 12346) } else { (own.uid(), own.gid()) };
        let owner = RunAs { uid, gid, name: "user".to_owned(), home: PathBuf::from("/") };
        give_to(folder.path(), Some(&owner)).unwrap();
        for (path, mode) in [
            (folder.path().to_owned(), 0o750),
            (inner.clone(), 0o750),
            (inner.join("run.json"), 0o640),
        ] {
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (uid, gid), "{}", path.display());
            assert_eq!(metadata.mode() & 0o777, mode, "{}", path.display());
        }
    }

    #[test]
    fn what_a_link_leads_to_is_not_given() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        fs::create_dir(&output).unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        symlink(&secret, output.join("link")).unwrap();
        symlink(folder.path(), output.join("folder")).unwrap();
        give_to(&output, None).unwrap();
        assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&output).unwrap().mode() & 0o777, 0o750);
    }
}
