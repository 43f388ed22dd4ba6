//! The report as one HTML file that needs nothing else: no script, no network, no font.
//!
//! Colours follow the reader's light or dark scheme, tables scroll inside their own box, and
//! a printed page is black on white.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use crate::document::{Column, Figure, Form, Kind, Report, Section, Table};
use crate::{Error, plot};

/// A cell of more bytes is a sentence and needs a wide column.
const LONG: usize = 32;

const CSS: &str = include_str!("page.css");

/// Lays the report out as a page. Fails only if a figure cannot be drawn.
pub fn html(report: &Report) -> Result<String, Error> {
    let figures: Vec<(&Figure, String)> = report
        .figures
        .iter()
        .map(|figure| Ok((figure, plot::svg(figure)?)))
        .collect::<Result<_, Error>>()?;
    Ok(page(report, &figures).into_string())
}

fn page(report: &Report, figures: &[(&Figure, String)]) -> Markup {
    // Comparisons stand before the figures, the tables by run after them.
    let (before, after): (Vec<_>, Vec<_>) = report
        .page
        .iter()
        .enumerate()
        .partition(|(_, section)| section.title.contains(" against "));
    markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "iotrace: " (report.title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                header {
                    h1 { (report.title) }
                    p.origin { (report.origin) }
                    ul.verdicts {
                        @for verdict in &report.verdicts { li { (verdict) } }
                        @for warning in &report.warnings { li.warning { (warning) } }
                    }
                    dl {
                        @for (name, fact) in &report.facts {
                            dt { (name) }
                            dd class=(*name) { (fact) }
                        }
                    }
                    nav aria-label="Contents" {
                        ul {
                            @for (at, section) in &before { (link(*at, &section.title)) }
                            @if !figures.is_empty() { li { a href="#figures" { "Figures" } } }
                            @for (at, section) in &after { (link(*at, &section.title)) }
                        }
                    }
                }
                main {
                    @for (at, section) in &before { (section_markup(*at, section)) }
                    @if !figures.is_empty() {
                        section id="figures" {
                            h2 { "Figures" }
                            div.figures {
                                @for (figure, svg) in figures { (figure_markup(figure, svg)) }
                            }
                        }
                    }
                    @for (at, section) in &after { (section_markup(*at, section)) }
                }
            }
        }
    }
}

fn link(at: usize, title: &str) -> Markup {
    markup! { li { a href={ "#section-" (at) } { (title) } } }
}

fn section_markup(at: usize, section: &Section) -> Markup {
    markup! {
        section id={ "section-" (at) } {
            h2 { (section.title) }
            @for note in &section.notes { p.note { (note) } }
            @for table in section.tables.iter().filter(|table| !table.rows.is_empty()) {
                (table_markup(table, table.title == section.title))
            }
        }
    }
}

fn table_markup(table: &Table, is_titled: bool) -> Markup {
    markup! {
        div.wide tabindex="0" role="region" aria-label=(table.title) {
            table {
                caption class=[is_titled.then_some("unseen")] { span { (table.title) } }
                thead {
                    tr {
                        @for column in &table.columns {
                            th scope="col" class=(class(*column)) { (column.name) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (cell, column) in row.iter().zip(&table.columns) {
                                @if column.kind == Kind::Key {
                                    th scope="row" { (cell) }
                                } @else {
                                    td class=(class(*column)) data-long[cell.len() > LONG] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn class(column: Column) -> &'static str {
    match column.kind {
        Kind::Key => "key",
        Kind::Text => "text",
        Kind::Number | Kind::Optional => "number",
    }
}

fn figure_markup(figure: &Figure, svg: &str) -> Markup {
    let form = match figure.form {
        Form::Distribution => "distribution",
        Form::Lines => "over-time",
        Form::Bars => "bars",
    };
    markup! {
        figure class=(form) {
            h3 { (figure.title) }
            ul.legend {
                @for series in &figure.series {
                    li {
                        svg viewBox="0 0 160 64" aria-hidden="true" {
                            line class={ "line side" (series.side % plot::SIDES) }
                                x1="0" y1="32" x2="160" y2="32" stroke-width="20" {}
                        }
                        (series.label)
                    }
                }
            }
            (PreEscaped(svg))
            figcaption { (figure.caption) }
        }
    }
}
