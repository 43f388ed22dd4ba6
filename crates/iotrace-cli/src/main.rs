//! The `iotrace` program: arguments, wiring, exit codes.
//!
//! Each command is a file in `cmd`: what was typed becomes a checked plan, the plan is run. Only
//! this crate prints, reads the environment and exits. stdout is the result, stderr the talk.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the program that prints")]

mod cmd;
mod exit;
mod interrupt;
mod progress;
mod tables;
mod talk;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Exit;

fn main() -> ExitCode {
    let program = cmd::Program::parse();
    match cmd::run(program) {
        Ok(exit) => exit.into(),
        Err(error) if is_closed_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            eprintln!("iotrace: {error:#}");
            Exit::Failed.into()
        }
    }
}

/// A reader such as `head` that has seen enough ends the program quietly.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
