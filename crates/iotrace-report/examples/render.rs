//! Writes all four outputs for a made-up summary into a folder, to see how they look.
//!
//! `cargo run -p iotrace-report --example render -- FOLDER`

#![expect(clippy::unwrap_used, reason = "an example for developers stops at the first failure")]

use std::path::PathBuf;

use iotrace_report::{Colour, Report};

#[path = "../tests/example/mod.rs"]
mod example;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    let (mut summary, context) = example::example();
    summary.runs.first_mut().unwrap().btt = Some(example::btt());
    let report = Report::new(&summary, &context);
    let outputs = [
        ("report.txt", iotrace_report::terminal(&report, 100, Colour::No)),
        ("report.md", iotrace_report::markdown(&report)),
        ("report.json", iotrace_report::json(&summary, &context).unwrap()),
        ("report.html", iotrace_report::html(&report).unwrap()),
    ];
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in outputs {
        std::fs::write(folder.join(name), text).unwrap();
    }
}
