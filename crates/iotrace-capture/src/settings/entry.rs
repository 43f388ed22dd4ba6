//! One journal file: a setting that this tool changed, and what it was before.
//!
//! Text of one `name value` line each between a version and `end`, so that a person can put the
//! setting back by hand. A file without its `end` was cut while it was written; since the setting
//! is written only after the file is on the disk, such a file stands for no change.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

use iotrace_model::DeviceId;

use super::restored::{Outcome, Restored};
use super::{SettingChange, is_shown, write};

/// First line of a journal file.
const VERSION: &str = "iotrace journal 1";

/// What a journal file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The journal file itself.
    pub(super) file: PathBuf,
    pub(super) label: String,
    device: DeviceId,
    /// The setting's file.
    pub(super) path: PathBuf,
    pub(super) original: String,
    /// The first value that was asked for.
    wanted: String,
    boot: String,
    pub(super) pid: u32,
    /// When that process started, in clock ticks since boot: a number of a process comes again.
    started: String,
}

/// A journal file as it was found.
pub(super) enum Found {
    Entry(Entry),
    /// Cut while it was written.
    Cut,
    /// Whole, and not of this version.
    Strange(PathBuf),
}

impl Entry {
    /// Writes the entry of a change into a new file, and makes sure that it is on the disk.
    pub(super) fn note(
        folder: &Path,
        change: &SettingChange,
        original: &str,
        wanted: &str,
    ) -> io::Result<Entry> {
        fs::create_dir_all(folder)?;
        let pid = process::id();
        let file = folder.join(format!("{:08}-{pid}", next_number(folder)?));
        let entry = Entry {
            file,
            label: change.label.clone(),
            device: change.device,
            path: change.path.clone(),
            original: original.to_owned(),
            wanted: wanted.to_owned(),
            boot: boot(),
            pid,
            started: started(pid).unwrap_or_default(),
        };
        let mut out = File::create_new(&entry.file)?;
        out.write_all(entry.text().as_bytes())?;
        out.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(entry)
    }

    fn text(&self) -> String {
        let Entry { label, device, path, original, wanted, boot, pid, started, .. } = self;
        let path = path.display();
        format!(
            "{VERSION}\nlabel {label}\ndevice {device}\npath {path}\noriginal {original}\n\
             wanted {wanted}\nboot {boot}\npid {pid}\nstarted {started}\nend\n"
        )
    }

    fn parse(file: &Path, text: &str) -> Option<Entry> {
        let mut lines = text.lines();
        (lines.next()? == VERSION).then_some(())?;
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Entry {
            file: file.to_owned(),
            label: value("label")?.to_owned(),
            device: DeviceId::parse(value("device")?)?,
            path: PathBuf::from(value("path")?),
            original: value("original")?.to_owned(),
            wanted: value("wanted")?.to_owned(),
            boot: value("boot")?.to_owned(),
            pid: value("pid")?.parse().ok()?,
            started: value("started")?.to_owned(),
        })
    }

    /// Whether the process that made the change still runs and will put it back itself.
    pub(super) fn is_alive(&self) -> bool {
        self.is_of_this_boot() && started(self.pid).is_some_and(|started| started == self.started)
    }

    /// A reboot resets every setting.
    pub(super) fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }

    /// Gives the setting its original value and removes the file once it has it.
    pub(super) fn put_back(&self) -> Restored {
        let outcome = match self.write_back() {
            Outcome::Failed(error) => Outcome::Failed(error),
            Outcome::Ignored(found) => Outcome::Ignored(found),
            Outcome::Strange => Outcome::Strange,
            done @ (Outcome::Done | Outcome::Rebooted | Outcome::Gone) => {
                fs::remove_file(&self.file).map_or_else(Outcome::Failed, |()| done)
            }
        };
        Restored { label: self.label.clone(), value: self.original.clone(), outcome }
    }

    fn write_back(&self) -> Outcome {
        if !self.is_of_this_boot() {
            return Outcome::Rebooted;
        }
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Outcome::Gone,
            Err(error) => return Outcome::Failed(error),
            Ok(text) => text,
        };
        // Some drivers refuse the value that they have.
        if is_shown(&text, &self.original) {
            return Outcome::Done;
        }
        let after = write(&self.path, &self.original).and_then(|()| fs::read_to_string(&self.path));
        match after {
            Err(error) => Outcome::Failed(error),
            Ok(text) if is_shown(&text, &self.original) => Outcome::Done,
            Ok(text) => Outcome::Ignored(text.trim().to_owned()),
        }
    }
}

/// The files of a journal in the order in which they were made; none where it has no folder.
pub(super) fn read_all(folder: &Path) -> io::Result<Vec<Found>> {
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let mut paths: Vec<_> = files.map(|file| Ok(file?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let text = match fs::read(&path) {
            // Another process has just put its setting back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            bytes => String::from_utf8_lossy(&bytes?).into_owned(),
        };
        found.push(if text.ends_with("\nend\n") {
            Entry::parse(&path, &text).map_or(Found::Strange(path), Found::Entry)
        } else {
            Found::Cut
        });
    }
    Ok(found)
}

/// One more than the highest number in a journal, so that the names of its files keep their order.
fn next_number(folder: &Path) -> io::Result<u64> {
    let mut next = 0;
    for file in fs::read_dir(folder)? {
        let name = file?.file_name();
        let number = name.to_str().and_then(|name| name.split('-').next()?.parse::<u64>().ok());
        next = next.max(number.map_or(0, |number| number.saturating_add(1)));
    }
    Ok(next)
}

fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// When a process started; `None` if it has ended, be it that nobody has waited for it yet.
fn started(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything. State and start are fields 3 and 22 of proc(5).
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then_some(())?;
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let change = super::super::tests::change(Path::new("/sys/block/sda/queue_depth"), "1");
        let entry = Entry::note(folder.path(), &change, "32", "1").unwrap();
        let text = fs::read_to_string(&entry.file).unwrap();
        assert_eq!(Entry::parse(&entry.file, &text), Some(entry.clone()));
        assert!(entry.is_alive());
        assert!(!Entry { started: "1".to_owned(), ..entry.clone() }.is_alive());
        assert!(!Entry { boot: "earlier".to_owned(), ..entry }.is_alive());
    }

    #[test]
    fn files_are_numbered_on_in_the_order_of_the_changes() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("00000009-1"), "").unwrap();
        let change = super::super::tests::change(Path::new("/sys/a"), "1");
        let names = [(); 2].map(|()| Entry::note(folder.path(), &change, "2", "1").unwrap().file);
        let pid = process::id();
        assert!(names[0].ends_with(format!("00000010-{pid}")));
        assert!(names[1].ends_with(format!("00000011-{pid}")));
    }

    #[test]
    fn a_process_that_is_not_there_has_not_started() {
        assert!(started(process::id()).is_some());
        assert_eq!(started(u32::MAX), None);
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_yet_has_ended() {
        let mut child =
            process::Command::new("true").stdout(process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        while started(pid).is_some() {
            std::thread::yield_now();
        }
        assert!(fs::exists(format!("/proc/{pid}/stat")).unwrap());
        child.wait().unwrap();
    }
}
