//! The exit codes, which scripts rely on.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All was done.
    Done,
    /// Done, but data are incomplete or a gate that the user set tripped.
    Incomplete,
    /// The workload itself failed; its code is in the manifest.
    WorkloadFailed,
    /// An error stopped the command.
    Failed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            // 2 is bad usage, which clap exits with.
            Exit::Incomplete => 3,
            Exit::WorkloadFailed => 4,
        })
    }
}
