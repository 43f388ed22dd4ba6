//! The report as Markdown that reads well as plain text, for a mail to a mailing list.
//!
//! Invariant: no line is wider than 78 columns. Tables are preformatted text, so that they
//! stay aligned in a mail client and in a bug tracker alike.

use crate::document::Report;
use crate::grid;

const WIDTH: usize = 78;

/// Lays the report out in 78 columns.
pub fn markdown(report: &Report) -> String {
    let mut lines = grid::wrap(&format!("# iotrace: {}", report.title), WIDTH, 2);
    lines.push(String::new());
    for verdict in &report.verdicts {
        lines.extend(grid::wrap(&format!("- {verdict}"), WIDTH, 2));
    }
    for warning in &report.warnings {
        lines.extend(grid::wrap(&format!("- **{warning}**"), WIDTH, 2));
    }
    lines.push(String::new());
    lines.push("```".to_owned());
    for (name, fact) in &report.facts {
        lines.extend(grid::wrap(&format!("{name:8} {fact}"), WIDTH, 9));
    }
    lines.push("```".to_owned());
    for section in &report.mail {
        lines.push(String::new());
        lines.extend(grid::wrap(&format!("## {}", section.title), WIDTH, 3));
        lines.push(String::new());
        for note in &section.notes {
            lines.extend(grid::wrap(note, WIDTH, 0));
            lines.push(String::new());
        }
        for table in section.tables.iter().filter(|table| !table.rows.is_empty()) {
            lines.push("```".to_owned());
            lines.extend(grid::lines(table, WIDTH));
            lines.push("```".to_owned());
        }
    }
    if lines.last().is_some_and(|line| !line.is_empty()) {
        lines.push(String::new());
    }
    lines.extend(grid::wrap(&format!("Made by {}.", report.origin), WIDTH, 0));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}
