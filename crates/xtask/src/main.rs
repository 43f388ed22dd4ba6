//! `cargo xtask`: housekeeping of the workspace.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers: its result and its progress are text"
)]

mod bench;
mod loop_device;
mod tidy;
mod vm;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

/// Housekeeping of the workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Record on an NCQ drive in a virtual machine, and compare with blktrace
    Vm(vm::Args),
    /// Record fio on a loop device, analyze, and clean up
    Loop(loop_device::Args),
    /// Measure what recording costs, beside perf record
    Bench(bench::Args),
    /// Check file headers and sizes, crate edges, schemas and datasets
    Tidy,
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Vm(args) => vm::run(&args),
        Command::Loop(args) => loop_device::run(&args).map(|()| true),
        Command::Bench(args) => bench::run(&args).map(|()| true),
        Command::Tidy => tidy::run(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace.
fn root() -> &'static Path {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).expect("the crate lies two folders below the workspace")
}
