//! The report as a document: finished lines, tables and figures, ready to be laid out.
//!
//! Three selections of the same facts: `screen` for a terminal, `mail` for Markdown, `page`
//! for HTML. Invariant: no string here holds a control character, whatever the input held.

use iotrace_model::Summary;

use crate::{
    btt, comparison, figures,
    groups::{Groups, Labels},
    number, quality, tables, verdict,
};

/// What a report says about its dataset besides the numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Name of the dataset.
    pub title: String,
    /// The workload's command line; empty for an import.
    pub command: String,
    /// What it was imported from, one line for each kind of source; empty for a recording.
    pub imported: Vec<String>,
    /// The clock of all times; `unknown` where an imported trace does not tell.
    pub clock: String,
    /// Version of iotrace that makes the report.
    pub tool_version: String,
    /// When the dataset was made.
    pub created: String,
    /// Version of the kernel that was traced.
    pub kernel: String,
    /// One line for each device: name, model, size, scheduler.
    pub devices: Vec<String>,
    /// Warm-up runs, left out of every number.
    pub warmups: u32,
    /// Whether the drive was simulated.
    pub simulated: bool,
    /// What the reader must know about the dataset, one sentence each.
    pub warnings: Vec<String>,
}

/// A finished report: everything that is shown, nothing left to compute.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Name of the dataset.
    pub(crate) title: String,
    /// `iotrace 0.1.0, 2026-…`.
    pub(crate) origin: String,
    /// The answers first: comparisons, then NCQ.
    pub(crate) verdicts: Vec<String>,
    /// Losses and everything else that weakens the numbers.
    pub(crate) warnings: Vec<String>,
    /// Command, kernel, devices, runs.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// For one screen of a terminal.
    pub(crate) screen: Vec<Section>,
    /// For a mail.
    pub(crate) mail: Vec<Section>,
    /// Everything.
    pub(crate) page: Vec<Section>,
    /// The figures, in the order of the page.
    pub(crate) figures: Vec<Figure>,
}

/// A heading, some sentences, and tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Section {
    /// The heading.
    pub(crate) title: String,
    /// Sentences that say how to read the tables.
    pub(crate) notes: Vec<String>,
    /// The tables.
    pub(crate) tables: Vec<Table>,
}

/// A finished table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    /// The caption.
    pub(crate) title: String,
    /// The columns.
    pub(crate) columns: Vec<Column>,
    /// The rows; each has one cell for each column.
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The heading, with the unit where the cells have none.
    pub(crate) name: &'static str,
    /// How it is laid out.
    pub(crate) kind: Kind,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Names the row.
    Key,
    /// Words.
    Text,
    /// Numbers, aligned to the right.
    Number,
    /// Numbers that a narrow output may leave out.
    Optional,
}

/// A chart, in the units of its axes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// The device and what is drawn.
    pub(crate) title: String,
    /// How to read it, in a sentence or two.
    pub(crate) caption: String,
    /// Lines or bars.
    pub(crate) form: Form,
    /// The horizontal axis.
    pub(crate) x: Axis,
    /// The vertical axis, from its zero.
    pub(crate) y: Axis,
    /// One for each configuration.
    pub(crate) series: Vec<Series>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// A cumulative distribution: lines, the second dashed for those who see no colours.
    Distribution,
    /// Lines over time.
    Lines,
    /// Bars from the axis; one of width 1 starts at each point.
    Bars,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// What it shows and the unit.
    pub(crate) label: String,
    /// The lower end; the logarithm on a logarithmic axis, like everything on it.
    pub(crate) low: f64,
    /// The upper end, above the lower.
    pub(crate) high: f64,
    /// Where the ticks are and what is written there.
    pub(crate) ticks: Vec<(f64, String)>,
}

/// The points of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// The configuration.
    pub(crate) label: String,
    /// Its place in the plan, from 0: decides the colour.
    pub(crate) side: usize,
    /// The points, by x; all finite.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Column {
    /// A column that names the row.
    pub(crate) const fn key(name: &'static str) -> Self {
        Self { name, kind: Kind::Key }
    }

    /// A column of words.
    pub(crate) const fn text(name: &'static str) -> Self {
        Self { name, kind: Kind::Text }
    }

    /// A column of numbers.
    pub(crate) const fn number(name: &'static str) -> Self {
        Self { name, kind: Kind::Number }
    }

    /// A column of numbers that a narrow output may leave out.
    pub(crate) const fn optional(name: &'static str) -> Self {
        Self { name, kind: Kind::Optional }
    }
}

impl Report {
    /// Makes every line, table and figure of the report.
    pub fn new(summary: &Summary, context: &Context) -> Report {
        let groups = Groups::of(summary, Labels::Full);
        let short = Groups::of(summary, Labels::Short);
        let mut report = Report {
            title: context.title.clone(),
            origin: origin(context),
            verdicts: verdict::lines(summary, &groups),
            warnings: quality::warnings(summary, context),
            facts: facts(summary, context),
            screen: screen(summary, &short),
            mail: mail(summary, &short),
            page: page(summary, &groups),
            figures: figures::all(&groups),
        };
        report.clean();
        report
    }

    /// Replaces control characters: a name in a trace must not command a terminal.
    fn clean(&mut self) {
        let mut strings: Vec<&mut String> = vec![&mut self.title, &mut self.origin];
        strings.extend(&mut self.verdicts);
        strings.extend(&mut self.warnings);
        strings.extend(self.facts.iter_mut().map(|(_, text)| text));
        for section in self.screen.iter_mut().chain(&mut self.mail).chain(&mut self.page) {
            strings.push(&mut section.title);
            strings.extend(&mut section.notes);
            for table in &mut section.tables {
                strings.push(&mut table.title);
                strings.extend(table.rows.iter_mut().flatten());
            }
        }
        for figure in &mut self.figures {
            strings.extend([&mut figure.title, &mut figure.caption]);
            strings.extend(figure.series.iter_mut().map(|series| &mut series.label));
        }
        for text in strings {
            if text.chars().any(char::is_control) {
                *text = text.replace(char::is_control, "\u{fffd}");
            }
        }
    }
}

fn origin(context: &Context) -> String {
    let mut words = format!("iotrace {}", context.tool_version);
    if !context.created.is_empty() {
        words.push_str(", ");
        words.push_str(&context.created);
    }
    words
}

fn facts(summary: &Summary, context: &Context) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for (name, text) in [("command", &context.command), ("kernel", &context.kernel)] {
        if !text.is_empty() {
            facts.push((name, text.clone()));
        }
    }
    facts.extend(context.imported.iter().map(|source| ("imported", source.clone())));
    facts.extend(context.devices.iter().map(|device| ("device", device.clone())));
    let runs = summary.runs.len();
    let mut text = format!("{runs} {}", if runs == 1 { "run" } else { "runs" });
    let full = Groups::of(summary, Labels::Full);
    if full.labels.len() > 1 {
        text = format!("{text} of {} configurations", full.labels.len());
    }
    if context.warmups > 0 {
        let warmups = number::count(context.warmups.into());
        text = format!("{text}; warm-up runs left out: {warmups}");
    }
    facts.push(("runs", text));
    let short = Groups::of(summary, Labels::Short);
    for (short, full) in short.labels.iter().zip(&full.labels).filter(|(one, other)| one != other) {
        facts.push(("setting", format!("{short} is {full}")));
    }
    facts
}

fn screen(summary: &Summary, groups: &Groups<'_>) -> Vec<Section> {
    let merged = &groups.merged;
    let mut sections = vec![
        Section::of(tables::rates_and_stages(groups, merged)),
        Section::of(tables::latency_on_screen(groups, merged)),
        Section::of(tables::queues(groups, merged)),
    ];
    sections.extend(comparison::short(summary, 8));
    sections.retain(Section::is_useful);
    for section in &mut sections {
        section.limit_rows(12);
    }
    sections.extend(btt::short(summary));
    sections
}

fn mail(summary: &Summary, groups: &Groups<'_>) -> Vec<Section> {
    let merged = &groups.merged;
    let mut sections = comparison::short(summary, 24);
    sections.extend([
        Section::of(tables::rates(groups, merged)),
        Section::of(tables::latency_by_stage(groups, merged)),
        Section::of(tables::stage_shares(groups, merged)),
        Section::of(tables::queues(groups, merged)),
        quality::merged_section(summary),
    ]);
    if merged.len() < groups.single.len()
        && let Some(rates) = sections.iter_mut().find(|section| section.title == "Throughput")
    {
        rates.title.push_str(" (a range: smallest and largest of the runs)");
    }
    sections.retain(Section::is_useful);
    for section in &mut sections {
        section.limit_rows(16);
    }
    sections.extend(btt::short(summary));
    sections
}

fn page(summary: &Summary, groups: &Groups<'_>) -> Vec<Section> {
    let single = &groups.single;
    let mut sections = comparison::full(summary);
    sections.extend([
        Section::of(tables::runs(summary, groups)),
        tables::throughput_and_latency(groups),
        tables::stages(groups),
        tables::depths(groups),
        Section::of(tables::reordering(groups, single)),
        tables::fairness(groups),
        Section::of(tables::ncq(groups)),
        quality::section(summary),
    ]);
    sections.extend(btt::page(summary));
    sections.retain(Section::is_useful);
    sections
}

impl Section {
    /// A section of one table under the table's title.
    pub(crate) fn of(table: Table) -> Self {
        Self { title: table.title.clone(), notes: Vec::new(), tables: vec![table] }
    }

    fn is_useful(&self) -> bool {
        !self.notes.is_empty() || self.tables.iter().any(|table| !table.rows.is_empty())
    }

    fn limit_rows(&mut self, limit: usize) {
        let mut left_out = 0;
        for table in &mut self.tables {
            left_out += table.rows.len().saturating_sub(limit);
            table.rows.truncate(limit);
        }
        if left_out > 0 {
            self.notes.push(format!("{left_out} more rows are in report.html."));
        }
    }
}
