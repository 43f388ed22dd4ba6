//! The report on one screen of a terminal: the answers, four tables, where to read on.

use crate::document::Report;
use crate::grid;

/// Whether a terminal output may use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// ANSI escape codes are written.
    Yes,
    /// Plain text.
    No,
}

const BOLD: &str = "\u{1b}[1m";
const ALARM: &str = "\u{1b}[1;31m";
const RESET: &str = "\u{1b}[0m";

/// Lays the report out in `width` columns, at least 40.
pub fn terminal(report: &Report, width: usize, colour: Colour) -> String {
    let width = width.max(40);
    let mut text = String::new();
    let mut write = |line: &str, style: &str| {
        match colour {
            Colour::Yes if !style.is_empty() => {
                text.push_str(style);
                text.push_str(line);
                text.push_str(RESET);
            }
            Colour::Yes | Colour::No => text.push_str(line),
        }
        text.push('\n');
    };
    for line in grid::wrap(&format!("{} ({})", report.title, report.origin), width, 2) {
        write(&line, BOLD);
    }
    for (name, fact) in &report.facts {
        for line in grid::wrap(&format!("{name:8} {fact}"), width, 9) {
            write(&line, "");
        }
    }
    write("", "");
    for verdict in &report.verdicts {
        for line in grid::wrap(verdict, width, 2) {
            write(&line, BOLD);
        }
    }
    for warning in &report.warnings {
        for line in grid::wrap(&format!("! {warning}"), width, 2) {
            write(&line, ALARM);
        }
    }
    for section in &report.screen {
        write("", "");
        for line in grid::wrap(&section.title, width, 2) {
            write(&line, BOLD);
        }
        for table in section.tables.iter().filter(|table| !table.rows.is_empty()) {
            for line in grid::lines(table, width) {
                write(&line, "");
            }
        }
        for note in &section.notes {
            for line in grid::wrap(note, width, 2) {
                write(&line, "");
            }
        }
    }
    text
}
