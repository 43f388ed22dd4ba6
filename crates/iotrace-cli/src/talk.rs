//! What the program says on stderr while it works.

/// Whether to talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Talk {
    /// Say what happens.
    Normal,
    /// Only errors and warnings.
    Quiet,
}

impl Talk {
    pub(crate) fn from_flag(quiet: bool) -> Self {
        if quiet { Talk::Quiet } else { Talk::Normal }
    }

    /// A line about progress.
    pub(crate) fn say(self, line: &str) {
        if self == Talk::Normal {
            eprintln!("{line}");
        }
    }

    /// A line that the user must see.
    #[expect(clippy::unused_self, reason = "reads like `say`, and quiet never silences a warning")]
    pub(crate) fn warn(self, line: &str) {
        eprintln!("iotrace: warning: {line}");
    }
}
