//! Text in a fixed width: wrapped lines and aligned columns.
//!
//! Invariant: no line is wider than asked for. A table that does not fit loses its optional
//! columns from the right; one that still does not fit wraps its cells.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table as Grid};

use crate::document::{Kind, Table};

/// Breaks `text` into lines of at most `width`; all but the first are indented by `indent`.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let width = width.max(indent + 8);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let mut rest: Vec<char> = word.chars().collect();
        let at_start = line.trim().is_empty() && !lines.is_empty();
        let fits = used + 1 + rest.len() <= width;
        // A word that fits on no line is cut where it stands.
        let is_cut = indent + rest.len() > width && used + 1 < width;
        if !at_start && used > 0 && !fits && !is_cut {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            used = indent;
        } else if !at_start && used > 0 {
            line.push(' ');
            used += 1;
        }
        while used + rest.len() > width {
            let tail = rest.split_off(width - used);
            line.extend(rest);
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            used = indent;
            rest = tail;
        }
        used += rest.len();
        line.extend(rest);
    }
    lines.push(line);
    lines
}

/// The header and the rows as lines.
pub(crate) fn lines(table: &Table, width: usize) -> Vec<String> {
    let mut shown: Vec<usize> = (0..table.columns.len()).collect();
    loop {
        let natural = render(table, &shown, None);
        if widest(&natural) <= width {
            return natural;
        }
        let optional =
            |at: &usize| table.columns.get(*at).is_some_and(|one| one.kind == Kind::Optional);
        match shown.iter().rposition(optional) {
            Some(place) => {
                shown.remove(place);
            }
            None => return render(table, &shown, Some(width)),
        }
    }
}

fn widest(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn render(table: &Table, shown: &[usize], width: Option<usize>) -> Vec<String> {
    let mut grid = Grid::new();
    grid.load_style(NOTHING);
    match width.and_then(|width| u16::try_from(width).ok()) {
        Some(width) => {
            grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        None => {
            grid.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    grid.set_header(shown.iter().filter_map(|&at| table.columns.get(at)).map(|one| one.name));
    for row in &table.rows {
        grid.add_row(shown.iter().filter_map(|&at| row.get(at)));
    }
    for (column, &at) in grid.column_iter_mut().zip(shown) {
        let place = usize::from(at > 0);
        column.set_padding((u16::try_from(place * 2).unwrap_or(0), 0));
        match table.columns.get(at).map(|one| one.kind) {
            Some(Kind::Number | Kind::Optional) => {
                column.set_cell_alignment(CellAlignment::Right);
            }
            Some(Kind::Key | Kind::Text) | None => {
                column.set_cell_alignment(CellAlignment::Left);
            }
        }
    }
    grid.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Column;

    #[test]
    fn text_is_wrapped_at_words_and_long_words_are_cut() {
        check("- one two three four", 12, 2, &["- one two", "  three four"]);
        check("- abcdefghijklmnop", 12, 2, &["- abcdefghij", "  klmnop"]);
        check("short", 12, 2, &["short"]);
        check("", 12, 2, &[""]);
    }

    #[track_caller]
    fn check(text: &str, width: usize, indent: usize, expected: &[&str]) {
        let lines = wrap(text, width, indent);
        assert_eq!(lines, expected);
        assert!(widest(&lines) <= width);
    }

    #[test]
    fn a_narrow_table_loses_its_optional_columns_first() {
        let table = Table {
            title: String::new(),
            columns: vec![Column::key("op"), Column::optional("idle"), Column::number("p50")],
            rows: vec![vec!["read".to_owned(), "1".to_owned(), "12 ms".to_owned()]],
        };
        assert_eq!(lines(&table, 40), ["op    idle    p50", "read     1  12 ms"]);
        assert_eq!(lines(&table, 12), ["op      p50", "read  12 ms"]);
        assert!(widest(&lines(&table, 9)) <= 9);
    }
}
