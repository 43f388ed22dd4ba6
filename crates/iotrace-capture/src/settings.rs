//! Settings of a device: changed with a journal, read back, and put back.
//!
//! Before a setting is written, a file in the journal's folder says what it was; the file goes
//! away when the setting is back. A process that dies between leaves its files behind, and the
//! next `record` or `restore` undoes them. Invariant: while a setting differs from what it was
//! because of us, its file exists.

mod knobs;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{fmt, process};

use crate::Error;

pub use knobs::{ncq_change, queue_depth_change, scheduler_change, write_cache_change};

/// First line of a journal file.
const VERSION: &str = "iotrace journal 1";

/// A setting that is to be given a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The file in sysfs.
    pub path: PathBuf,
    /// What to call it: `queue_depth of sda`.
    pub label: String,
    /// What to write.
    pub wanted: Wanted,
    /// How the kernel shows the value when it is read.
    pub shape: Shape,
}

/// The value that a setting is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Value(String),
    /// What it was before the first change.
    Original {
        /// Used when it was 1 before already.
        instead_of_one: String,
    },
}

/// How the kernel shows a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As it is written.
    Plain,
    /// Among others, in brackets: `none [mq-deadline]`.
    Bracketed,
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The value as read back.
    pub value: String,
    /// Whether anything had to be written.
    pub changed: bool,
}

/// A setting that was put back, or not.
#[derive(Debug)]
pub struct Restored {
    label: String,
    value: String,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Done,
    /// The machine was booted since: the kernel has its own value again.
    Rebooted,
    Failed(io::Error),
}

impl Restored {
    /// Whether the setting is as it was.
    pub fn is_done(&self) -> bool {
        match self.outcome {
            Outcome::Done | Outcome::Rebooted => true,
            Outcome::Failed(_) => false,
        }
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Restored { label, value, outcome } = self;
        match outcome {
            Outcome::Done => write!(f, "{label} is {value} again"),
            Outcome::Rebooted => write!(f, "{label} was reset by a reboot; it was {value}"),
            Outcome::Failed(error) => {
                write!(f, "{label} could not be set back to {value}: {error}; set it by hand")
            }
        }
    }
}

/// The changes of this process. Dropping it puts every setting back.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    entries: Vec<Entry>,
}

/// One journal file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    file: PathBuf,
    path: PathBuf,
    label: String,
    original: String,
    boot: String,
    pid: u32,
}

impl Journal {
    /// A journal in a folder, which is made with the first change.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), entries: Vec::new() }
    }

    /// Gives a setting a value, unless it has it, and reads it back.
    ///
    /// # Errors
    /// When the journal cannot be written, or the driver refuses or ignores the value; the
    /// setting is then as it was.
    pub fn apply(&mut self, change: &SettingChange) -> Result<Applied, Error> {
        let now = read(change).map_err(|source| self.setting_error(change, source))?;
        let known = self.entries.iter().find(|entry| entry.path == change.path);
        let wanted = match &change.wanted {
            Wanted::Value(value) => value.clone(),
            Wanted::Original { instead_of_one } => {
                let original = known.map_or(&now, |entry| &entry.original);
                if original == "1" { instead_of_one.clone() } else { original.clone() }
            }
        };
        if now == wanted {
            return Ok(Applied { value: now, changed: false });
        }
        if known.is_none() {
            let entry = self.note(change, &now)?;
            self.entries.push(entry);
        }
        let written = fs::write(&change.path, &wanted);
        let after = read(change).map_err(|source| self.setting_error(change, source))?;
        if after == wanted {
            return Ok(Applied { value: after, changed: true });
        }
        self.undo();
        Err(match written {
            Err(source) => self.setting_error(change, source),
            Ok(()) => Error::Ignored { label: change.label.clone(), wanted, found: after },
        })
    }

    /// Puts every setting back, the last one changed first.
    pub fn undo(&mut self) -> Vec<Restored> {
        self.entries.drain(..).rev().map(|entry| put_back(&entry)).collect()
    }

    #[expect(clippy::unused_self, reason = "keeps the callers short")]
    fn setting_error(&self, change: &SettingChange, source: io::Error) -> Error {
        Error::Setting { label: change.label.clone(), path: change.path.clone(), source }
    }

    /// Writes the journal file of a setting, and makes sure that it is on the disk.
    fn note(&self, change: &SettingChange, original: &str) -> Result<Entry, Error> {
        let file = self.folder.join(format!("{}-{}", process::id(), self.entries.len()));
        let entry = Entry {
            file: file.clone(),
            path: change.path.clone(),
            label: change.label.clone(),
            original: original.to_owned(),
            boot: boot(),
            pid: process::id(),
        };
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            let mut out = File::create(&file)?;
            out.write_all(entry.text().as_bytes())?;
            out.sync_all()?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|source| Error::Journal { path: file.clone(), source })?;
        Ok(entry)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.undo();
    }
}

/// Undoes what dead processes left changed. A folder that is not there holds nothing.
///
/// # Errors
/// When the journal cannot be read.
pub fn restore(folder: &Path) -> Result<Vec<Restored>, Error> {
    let journal = |source| Error::Journal { path: folder.to_owned(), source };
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        files => files.map_err(journal)?,
    };
    let mut entries = Vec::new();
    for file in files {
        let path = file.map_err(journal)?.path();
        let text = fs::read_to_string(&path).map_err(journal)?;
        // A file that was cut while it was written stands for no change: it comes first.
        entries.extend(Entry::parse(&path, &text).filter(|entry| !entry.is_alive()));
    }
    entries.sort_by(|a, b| b.file.cmp(&a.file));
    Ok(entries.iter().map(put_back).collect())
}

fn put_back(entry: &Entry) -> Restored {
    let outcome = if entry.boot == boot() {
        match fs::write(&entry.path, &entry.original) {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error),
        }
    } else {
        Outcome::Rebooted
    };
    let outcome = match outcome {
        Outcome::Failed(error) => Outcome::Failed(error),
        done => match fs::remove_file(&entry.file) {
            Ok(()) => done,
            Err(error) => Outcome::Failed(error),
        },
    };
    Restored { label: entry.label.clone(), value: entry.original.clone(), outcome }
}

impl Entry {
    fn text(&self) -> String {
        let Entry { path, label, original, boot, pid, .. } = self;
        let path = path.display();
        format!("{VERSION}\n{path}\n{label}\n{original}\n{boot}\n{pid}\nend\n")
    }

    /// `None` for a file that is no whole entry.
    fn parse(file: &Path, text: &str) -> Option<Entry> {
        let mut lines = text.lines();
        (lines.next()? == VERSION).then_some(())?;
        let entry = Entry {
            file: file.to_owned(),
            path: PathBuf::from(lines.next()?),
            label: lines.next()?.to_owned(),
            original: lines.next()?.to_owned(),
            boot: lines.next()?.to_owned(),
            pid: lines.next()?.parse().ok()?,
        };
        (lines.next()? == "end").then_some(entry)
    }

    /// Whether the process that made the change still runs and will put it back itself.
    fn is_alive(&self) -> bool {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        self.boot == boot() && self.pid != process::id() && name.trim() == "iotrace"
    }
}

fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn read(change: &SettingChange) -> io::Result<String> {
    let text = fs::read_to_string(&change.path)?;
    let chosen = || Some(text.split_once('[')?.1.split_once(']')?.0);
    Ok(match change.shape {
        Shape::Plain => text.trim(),
        Shape::Bracketed => chosen().unwrap_or(text.trim()),
    }
    .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Knob {
        folder: tempfile::TempDir,
    }

    impl Knob {
        fn new(value: &str) -> Self {
            let knob = Self { folder: tempfile::tempdir().unwrap() };
            fs::write(knob.path(), value).unwrap();
            knob
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("queue_depth")
        }

        fn journal(&self) -> PathBuf {
            self.folder.path().join("journal")
        }

        fn change(&self, wanted: Wanted) -> SettingChange {
            SettingChange {
                path: self.path(),
                label: "queue_depth of sda".to_owned(),
                wanted,
                shape: Shape::Plain,
            }
        }

        fn value(&self) -> String {
            fs::read_to_string(self.path()).unwrap()
        }
    }

    fn one() -> Wanted {
        Wanted::Value("1".to_owned())
    }

    fn original() -> Wanted {
        Wanted::Original { instead_of_one: "31".to_owned() }
    }

    #[test]
    fn a_dropped_journal_puts_the_setting_back() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        let applied = journal.apply(&knob.change(one())).unwrap();
        assert_eq!(applied, Applied { value: "1".to_owned(), changed: true });
        assert_eq!(fs::read_dir(knob.journal()).unwrap().count(), 1);
        drop(journal);
        assert_eq!(knob.value(), "32");
        assert_eq!(fs::read_dir(knob.journal()).unwrap().count(), 0);
    }

    #[test]
    fn the_original_is_what_was_there_before_the_first_change() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        journal.apply(&knob.change(original())).unwrap();
        assert_eq!(knob.value(), "32");
        assert!(!journal.apply(&knob.change(original())).unwrap().changed);
    }

    #[test]
    fn ncq_that_was_off_before_is_switched_on_to_its_full_depth() {
        let knob = Knob::new("1");
        let mut journal = Journal::new(&knob.journal());
        assert_eq!(journal.apply(&knob.change(original())).unwrap().value, "31");
        journal.undo();
        assert_eq!(knob.value(), "1");
    }

    #[test]
    fn a_dead_process_is_undone_and_a_reboot_is_told() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        std::mem::forget(journal);
        let restored = restore(&knob.journal()).unwrap();
        assert_eq!(restored[0].to_string(), "queue_depth of sda is 32 again");
        assert_eq!(knob.value(), "32");
        assert!(restore(&knob.journal()).unwrap().is_empty());

        fs::write(
            knob.journal().join("9-0"),
            format!(
                "{VERSION}\n{}\nqueue_depth of sda\n8\nan-earlier-boot\n9\nend\n",
                knob.path().display()
            ),
        )
        .unwrap();
        let restored = restore(&knob.journal()).unwrap();
        assert!(restored[0].is_done() && restored[0].to_string().contains("reboot"));
        assert_eq!(knob.value(), "32");
    }

    #[test]
    fn a_cut_journal_file_changes_nothing() {
        let knob = Knob::new("32");
        fs::create_dir(knob.journal()).unwrap();
        fs::write(knob.journal().join("9-0"), format!("{VERSION}\n{}\n", knob.path().display()))
            .unwrap();
        assert!(restore(&knob.journal()).unwrap().is_empty());
        assert_eq!(knob.value(), "32");
    }

    #[test]
    fn a_driver_that_ignores_the_value_is_found_out() {
        // A file that swallows every write and always reads the same.
        let mut journal = Journal::new(tempfile::tempdir().unwrap().path());
        let change = SettingChange {
            path: PathBuf::from("/dev/null"),
            label: "queue_depth of sda".to_owned(),
            wanted: one(),
            shape: Shape::Plain,
        };
        let error = journal.apply(&change).unwrap_err();
        assert!(matches!(error, Error::Ignored { wanted, .. } if wanted == "1"));
    }
}
