//! Settings of a device: changed with a journal, read back, and put back.
//!
//! Before a setting is written, a file in the journal's folder says what it was; the file goes
//! away when the setting is seen to be back. A process that dies between leaves its files behind,
//! and the next `record` or `restore` undoes them. Invariant: while a setting differs from what
//! it was because of us, its file exists.

mod entry;
mod knobs;
mod restored;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use iotrace_model::DeviceId;

use crate::Error;

use self::entry::{Entry, Found};

pub use knobs::{ncq_change, queue_depth_change, scheduler_change, write_cache_change};
pub use restored::Restored;

/// A setting that is to be given a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The device that it belongs to.
    pub device: DeviceId,
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
        /// Written when it was 1 before already. The driver may make less of it, but not 1.
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

/// The changes of this process. Dropping it puts every setting back.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    entries: Vec<Entry>,
}

impl Journal {
    /// A journal in a folder, which is made with the first change.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), entries: Vec::new() }
    }

    /// Gives a setting a value, unless it has it, and reads it back.
    ///
    /// # Errors
    /// When the journal cannot be written, when another process has changed the setting, or when
    /// the driver refuses or ignores the value; the setting is then put back, and if that fails
    /// it stays in the journal.
    pub fn apply(&mut self, change: &SettingChange) -> Result<Applied, Error> {
        let now = read(change).map_err(|source| failure(change, source))?;
        let known = self.entries.iter().position(|entry| entry.path == change.path);
        let original = known.and_then(|place| self.entries.get(place));
        let target = Goal::new(change, original.map_or(&now, |entry| &entry.original));
        if target.is_met_by(&now) {
            return Ok(Applied { value: now, changed: false });
        }
        if known.is_none() {
            self.refuse_contested(change)?;
            let entry = Entry::note(&self.folder, change, &now, &target.text)
                .map_err(|source| Error::Journal { path: self.folder.clone(), source })?;
            self.entries.push(entry);
        }
        let written = write(&change.path, &target.text);
        let after = read(change);
        let error = match (written, after) {
            (Ok(()) | Err(_), Ok(after)) if target.is_met_by(&after) => {
                return Ok(Applied { value: after, changed: true });
            }
            (Err(source), _) => refusal(change, target.text, source),
            (Ok(()), Err(source)) => failure(change, source),
            (Ok(()), Ok(found)) => {
                Error::Ignored { label: change.label.clone(), wanted: target.text, found }
            }
        };
        self.undo_where(|entry| entry.path == change.path);
        Err(error)
    }

    /// Puts every setting back, the last one changed first. One that cannot be put back stays in
    /// the journal, for the next try.
    pub fn undo(&mut self) -> Vec<Restored> {
        self.undo_where(|_| true)
    }

    fn undo_where(&mut self, is_meant: impl Fn(&Entry) -> bool) -> Vec<Restored> {
        let mut restored = Vec::new();
        let mut kept = Vec::new();
        for entry in self.entries.drain(..).rev() {
            if is_meant(&entry) {
                let result = entry.put_back();
                if !result.is_done() {
                    kept.push(entry);
                }
                restored.push(result);
            } else {
                kept.push(entry);
            }
        }
        kept.reverse();
        self.entries = kept;
        restored
    }

    /// A setting that another process changed has lost its original value for us: that process,
    /// or what undoes it, would put back its own in the middle of our run.
    fn refuse_contested(&self, change: &SettingChange) -> Result<(), Error> {
        let all = entry::read_all(&self.folder)
            .map_err(|source| Error::Journal { path: self.folder.clone(), source })?;
        for found in all {
            match found {
                Found::Entry(entry) if entry.path == change.path && entry.is_of_this_boot() => {
                    return Err(Error::Contested { label: change.label.clone(), pid: entry.pid });
                }
                Found::Entry(_) | Found::Cut | Found::Strange(_) => {}
            }
        }
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.undo();
    }
}

/// Undoes what dead processes left changed, the last change first. A folder that is not there
/// holds nothing.
///
/// # Errors
/// When the journal cannot be read.
pub fn restore(folder: &Path) -> Result<Vec<Restored>, Error> {
    let found = entry::read_all(folder)
        .map_err(|source| Error::Journal { path: folder.to_owned(), source })?;
    let restored = found.into_iter().rev().filter_map(|found| match found {
        Found::Entry(entry) => (!entry.is_alive()).then(|| entry.put_back()),
        Found::Cut => None,
        Found::Strange(file) => Some(Restored::strange(&file)),
    });
    Ok(restored.collect())
}

/// What is to be written, and what may be read afterwards.
struct Goal {
    text: String,
    /// Every value but 1 will do, since the driver knows the most that the drive can.
    any_but_one: bool,
}

impl Goal {
    fn new(change: &SettingChange, original: &str) -> Self {
        match &change.wanted {
            Wanted::Value(value) => Self { text: value.clone(), any_but_one: false },
            Wanted::Original { instead_of_one } if original == "1" => {
                Self { text: instead_of_one.clone(), any_but_one: true }
            }
            Wanted::Original { .. } => Self { text: original.to_owned(), any_but_one: false },
        }
    }

    fn is_met_by(&self, value: &str) -> bool {
        value == self.text || (self.any_but_one && value != "1")
    }
}

fn refusal(change: &SettingChange, wanted: String, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            failure(change, source)
        }
        _ => Error::Refused { label: change.label.clone(), wanted, source },
    }
}

fn failure(change: &SettingChange, source: io::Error) -> Error {
    Error::Setting { label: change.label.clone(), path: change.path.clone(), source }
}

/// The value of a setting as the kernel shows it.
fn read(change: &SettingChange) -> io::Result<String> {
    let text = fs::read_to_string(&change.path)?;
    Ok(match change.shape {
        Shape::Plain => text.trim(),
        Shape::Bracketed => bracketed(&text).unwrap_or(text.trim()),
    }
    .to_owned())
}

/// Whether a setting that reads as `text` has a value, in either shape.
fn is_shown(text: &str, value: &str) -> bool {
    text.trim() == value || bracketed(text) == Some(value)
}

fn bracketed(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

/// Writes a setting at once, as sysfs wants it; a file that is not there is never made.
fn write(path: &Path, value: &str) -> io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
pub(super) mod tests {
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
            SettingChange { wanted, ..change(&self.path(), "1") }
        }

        fn value(&self) -> String {
            fs::read_to_string(self.path()).unwrap()
        }

        #[track_caller]
        fn check(&self, value: &str, files: usize) {
            assert_eq!(self.value(), value);
            assert_eq!(fs::read_dir(self.journal()).unwrap().count(), files);
        }

        /// Leaves the journal as a process would that was killed.
        fn die(&self, journal: Journal) {
            for entry in &journal.entries {
                let text = fs::read_to_string(&entry.file).unwrap();
                let text = text.replace(&format!("pid {}\n", entry.pid), "pid 4294967295\n");
                fs::write(&entry.file, text).unwrap();
            }
            std::mem::forget(journal);
            self.check("1", 1);
        }
    }

    pub(in crate::settings) fn change(path: &Path, wanted: &str) -> SettingChange {
        SettingChange {
            device: DeviceId { major: 8, minor: 0 },
            path: path.to_owned(),
            label: "queue_depth of sda".to_owned(),
            wanted: Wanted::Value(wanted.to_owned()),
            shape: Shape::Plain,
        }
    }

    fn one() -> Wanted {
        Wanted::Value("1".to_owned())
    }

    fn original() -> Wanted {
        Wanted::Original { instead_of_one: "31".to_owned() }
    }

    fn shown(restored: &[Restored]) -> Vec<String> {
        restored.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dropped_journal_puts_the_setting_back() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        let applied = journal.apply(&knob.change(one())).unwrap();
        assert_eq!(applied, Applied { value: "1".to_owned(), changed: true });
        knob.check("1", 1);
        drop(journal);
        knob.check("32", 0);
    }

    #[test]
    fn the_original_is_what_was_there_before_the_first_change() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        journal.apply(&knob.change(original())).unwrap();
        knob.check("32", 1);
        assert!(!journal.apply(&knob.change(original())).unwrap().changed);
    }

    #[test]
    fn ncq_that_was_off_before_is_switched_on_to_its_full_depth() {
        let knob = Knob::new("1");
        let mut journal = Journal::new(&knob.journal());
        assert_eq!(journal.apply(&knob.change(original())).unwrap().value, "31");
        journal.undo();
        knob.check("1", 0);
    }

    #[test]
    fn a_drive_with_a_shorter_queue_is_on_as_well() {
        let change = SettingChange { wanted: original(), ..change(Path::new(""), "") };
        let goal = Goal::new(&change, "1");
        assert!(goal.is_met_by("31") && goal.is_met_by("16") && !goal.is_met_by("1"));
        let goal = Goal::new(&change, "32");
        assert!(goal.is_met_by("32") && !goal.is_met_by("16"));
    }

    #[test]
    fn a_dead_process_is_undone() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        knob.die(journal);
        let restored = restore(&knob.journal()).unwrap();
        assert_eq!(shown(&restored), ["queue_depth of sda is 32 again"]);
        knob.check("32", 0);
        assert!(restore(&knob.journal()).unwrap().is_empty());
    }

    #[test]
    fn a_live_process_is_left_alone() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        assert!(restore(&knob.journal()).unwrap().is_empty());
        knob.check("1", 1);
    }

    #[test]
    fn a_setting_that_another_process_changed_is_refused() {
        let knob = Knob::new("32");
        let mut first = Journal::new(&knob.journal());
        first.apply(&knob.change(one())).unwrap();
        let mut second = Journal::new(&knob.journal());
        let error = second.apply(&change(&knob.path(), "2")).unwrap_err();
        assert!(matches!(error, Error::Contested { pid, .. } if pid == std::process::id()));
        drop(second);
        knob.check("1", 1);
        drop(first);
        knob.check("32", 0);
    }

    #[test]
    fn a_reboot_is_told_and_nothing_written() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        let file = journal.entries[0].file.clone();
        knob.die(journal);
        let text = fs::read_to_string(&file).unwrap();
        let boot = text.lines().find(|line| line.starts_with("boot ")).unwrap();
        fs::write(&file, text.replace(boot, "boot an-earlier-one")).unwrap();
        let restored = restore(&knob.journal()).unwrap();
        assert!(restored[0].is_done());
        assert_eq!(shown(&restored), ["queue_depth of sda was reset by a reboot; it was 32"]);
        knob.check("1", 0);
    }

    #[test]
    fn a_setting_goes_with_its_device() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        fs::remove_file(knob.path()).unwrap();
        let restored = journal.undo();
        assert_eq!(shown(&restored), ["queue_depth of sda is gone with its device; it was 32"]);
        assert!(!knob.path().exists());
    }

    #[test]
    fn what_cannot_be_put_back_stays_in_the_journal() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        // A file that swallows every write and always reads the same.
        fs::remove_file(knob.path()).unwrap();
        std::os::unix::fs::symlink("/dev/null", knob.path()).unwrap();
        let restored = journal.undo();
        assert!(!restored[0].is_done());
        assert_eq!(
            shown(&restored),
            ["queue_depth of sda reads  after 32 was written back; set it by hand"]
        );
        let other = knob.folder.path().join("other");
        fs::write(&other, "8").unwrap();
        journal.apply(&change(&other, "1")).unwrap();
        assert_eq!(fs::read_dir(knob.journal()).unwrap().count(), 2);

        fs::remove_file(knob.path()).unwrap();
        fs::write(knob.path(), "1").unwrap();
        drop(journal);
        knob.check("32", 0);
        assert_eq!(fs::read_to_string(&other).unwrap(), "8");
    }

    #[test]
    fn a_cut_journal_file_changes_nothing_and_a_strange_one_is_told() {
        let knob = Knob::new("32");
        fs::create_dir(knob.journal()).unwrap();
        let file = knob.journal().join("00000000-9");
        fs::write(&file, format!("iotrace journal 1\npath {}\n", knob.path().display())).unwrap();
        assert!(restore(&knob.journal()).unwrap().is_empty());
        fs::write(&file, "iotrace journal 9\nend\n").unwrap();
        let restored = restore(&knob.journal()).unwrap();
        assert_eq!(restored.len(), 1);
        assert!(!restored[0].is_done());
        knob.check("32", 1);
    }

    #[test]
    fn a_driver_that_ignores_the_value_is_found_out_and_others_keep_theirs() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        journal.apply(&knob.change(one())).unwrap();
        let error = journal.apply(&change(Path::new("/dev/null"), "1")).unwrap_err();
        assert!(matches!(error, Error::Ignored { wanted, .. } if wanted == "1"));
        knob.check("1", 1);
    }

    #[test]
    fn a_driver_that_refuses_the_value_is_quoted() {
        let knob = Knob::new("32");
        let mut journal = Journal::new(&knob.journal());
        // A file of the kernel that takes numbers only.
        let number = change(Path::new("/proc/self/coredump_filter"), "no number");
        let error = journal.apply(&number).unwrap_err();
        assert!(matches!(error, Error::Refused { wanted, .. } if wanted == "no number"));
        assert_eq!(fs::read_dir(knob.journal()).unwrap().count(), 0);
    }

    #[test]
    fn the_scheduler_in_brackets_is_the_value() {
        let knob = Knob::new("none [mq-deadline] kyber\n");
        let change = SettingChange { shape: Shape::Bracketed, ..knob.change(one()) };
        assert_eq!(read(&change).unwrap(), "mq-deadline");
        assert!(is_shown("none [mq-deadline]\n", "mq-deadline") && is_shown("32\n", "32"));
        assert!(!is_shown("none [mq-deadline]\n", "none"));
    }
}
