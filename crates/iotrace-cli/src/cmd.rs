//! The commands, one file each.

mod analyze;
mod import;
mod record;
mod restore;
mod shell;

use clap::{Parser, Subcommand};

use crate::exit::Exit;

/// Records what a Linux block device does while a workload runs, and says where each request's
/// time went and whether a setting made a difference.
#[derive(Debug, Parser)]
#[command(name = "iotrace", version, about, propagate_version = true, max_term_width = 100)]
pub(crate) struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a command while capturing devices, and writes a dataset
    Record(record::Args),
    /// Turns existing traces of blktrace, perf and ftrace into a dataset
    Import(import::Args),
    /// Turns a dataset into requests' latencies, depths, comparison and reports
    Analyze(analyze::Args),
    /// Puts back device settings that an interrupted run left changed
    Restore(restore::Args),
    /// Prints completions for a shell
    Completions(shell::CompletionsArgs),
    /// Prints the manual page
    Man,
}

/// Runs the command that was asked for.
pub(crate) fn run(program: Program) -> anyhow::Result<Exit> {
    match program.command {
        Command::Record(args) => record::Plan::new(args)?.run(),
        Command::Import(args) => import::Plan::new(args)?.run(),
        Command::Analyze(args) => analyze::Plan::new(args)?.run(),
        Command::Restore(args) => restore::run(&args),
        Command::Completions(args) => shell::completions::<Program>(&args),
        Command::Man => shell::man::<Program>(),
    }
}

/// A wall-clock time as RFC 3339 writes it, in UTC and whole seconds.
fn timestamp(time: iotrace_model::Nanos) -> String {
    let seconds = jiff::Timestamp::from_second(time.0 / 1_000_000_000);
    seconds.map_or_else(|_| String::new(), |time| time.to_string())
}
