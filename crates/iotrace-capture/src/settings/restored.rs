//! What came of putting a setting back.

use std::path::Path;
use std::{fmt, io};

/// A setting that was put back, or not. It is shown as a sentence.
#[derive(Debug)]
pub struct Restored {
    pub(super) label: String,
    pub(super) value: String,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    /// It reads as it was.
    Done,
    /// The machine was booted since: the kernel has its own value again.
    Rebooted,
    /// The device was removed, and the setting with it.
    Gone,
    /// It reads this instead.
    Ignored(String),
    Failed(io::Error),
    /// The journal file cannot be understood.
    Strange,
}

impl Restored {
    pub(super) fn strange(file: &Path) -> Self {
        Self { label: file.display().to_string(), value: String::new(), outcome: Outcome::Strange }
    }

    /// Whether the setting no longer is what this tool made of it.
    pub fn is_done(&self) -> bool {
        match self.outcome {
            Outcome::Done | Outcome::Rebooted | Outcome::Gone => true,
            Outcome::Ignored(_) | Outcome::Failed(_) | Outcome::Strange => false,
        }
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Restored { label, value, outcome } = self;
        match outcome {
            Outcome::Done => write!(f, "{label} is {value} again"),
            Outcome::Rebooted => write!(f, "{label} was reset by a reboot; it was {value}"),
            Outcome::Gone => write!(f, "{label} is gone with its device; it was {value}"),
            Outcome::Ignored(found) => {
                write!(f, "{label} reads {found} after {value} was written back; set it by hand")
            }
            Outcome::Failed(error) => {
                write!(f, "{label} could not be set back to {value}: {error}; set it by hand")
            }
            Outcome::Strange => write!(
                f,
                "{label} is no journal file of this version; undo by hand what it tells, and remove it"
            ),
        }
    }
}
