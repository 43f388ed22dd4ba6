//! What weakens the numbers: losses, broken input, rows left out, errors.
//!
//! Losses are said at the top in words and listed in full with every count at the end.

use std::collections::BTreeMap;

use iotrace_model::{Cause, Cpu, Entry, Ledger, Severity, Status, Summary};

use crate::document::{Column, Context, Section, Table};
use crate::{missing, number};

/// How many losses are spelled out at the top; the rest is counted there.
const SPELLED_OUT: usize = 4;

/// The lines at the top, the loudest first.
pub(crate) fn warnings(summary: &Summary, context: &Context) -> Vec<String> {
    let mut lines = losses(summary);
    if context.simulated {
        lines.push("the drive was simulated: no number here is of real hardware".to_owned());
    }
    let errors: u64 = summary
        .runs
        .iter()
        .flat_map(|run| &run.devices)
        .flat_map(|device| &device.ops)
        .map(|op| op.errors)
        .sum();
    if errors > 0 {
        lines.push(format!("requests that completed with an error: {}", number::count(errors)));
    }
    lines.extend(missing::lines(summary));
    lines.extend(context.warnings.iter().cloned());
    lines
}

/// The ledger and the rows left out, run by run.
pub(crate) fn section(summary: &Summary) -> Section {
    of_tables(vec![ledger(summary), left_out(summary)])
}

/// The same with all runs together.
pub(crate) fn merged_section(summary: &Summary) -> Section {
    of_tables(vec![merged_ledger(summary), merged_left_out(summary)])
}

fn of_tables(tables: Vec<Table>) -> Section {
    let clean = tables.iter().all(|table| table.rows.is_empty());
    let note = if clean {
        "Nothing was lost, and every request is in the statistics."
    } else {
        "What is counted here is in none of the statistics above."
    };
    Section { title: "Data quality".to_owned(), notes: vec![note.to_owned()], tables }
}

fn losses(summary: &Summary) -> Vec<String> {
    let all = all_runs(summary);
    let weakening: Vec<(Cause, Option<Cpu>, Entry)> =
        all.entries().filter(|(cause, ..)| cause.severity() > Severity::Info).collect();
    let mut lines = Vec::new();
    for &(cause, cpu, entry) in weakening.iter().take(SPELLED_OUT) {
        let runs = runs_with(summary, cause, cpu);
        let place = cpu.map_or_else(String::new, |Cpu(cpu)| format!(" on CPU {cpu}"));
        let things = match (cause.severity(), entry.count) {
            (Severity::Loss, 0) => "LOSS: an unknown number of events lost".to_owned(),
            (Severity::Loss, count) => format!("LOSS: {} events lost", number::count(count)),
            (Severity::Info | Severity::Error, count) => {
                format!("BROKEN INPUT: {} records", number::count(count))
            }
        };
        let total = summary.runs.len();
        lines.push(format!("{things}{place} in {runs} of {total} runs: {}", cause.sentence()));
    }
    if weakening.len() > SPELLED_OUT {
        let more = weakening.len() - SPELLED_OUT;
        lines.push(format!("LOSS: {more} more causes and CPUs, listed under data quality"));
    }
    let lost: u64 = left_out_by_status(summary).get(&Status::Lost).copied().unwrap_or(0);
    if let (true, Some(last)) = (lost > 0, lines.last_mut()) {
        *last = format!("{last}; latencies of {} requests are left out", number::count(lost));
    }
    lines
}

fn left_out_by_status(summary: &Summary) -> BTreeMap<Status, u64> {
    let mut counts = BTreeMap::new();
    for device in summary.runs.iter().flat_map(|run| &run.devices) {
        for &(status, count) in &device.left_out {
            *counts.entry(status).or_insert(0) += count;
        }
    }
    counts
}

fn ledger(summary: &Summary) -> Table {
    let columns = vec![
        Column::key("run"),
        Column::text("severity"),
        Column::text("CPU"),
        Column::number("records"),
        Column::number("times"),
        Column::optional("from"),
        Column::optional("to"),
        Column::text("cause"),
    ];
    let missing = || number::MISSING.to_owned();
    let mut rows = Vec::new();
    for run in &summary.runs {
        for (cause, cpu, entry) in run.ledger.entries() {
            rows.push(vec![
                run_name(&run.configuration.label(), run.repetition),
                cause.severity().name().to_owned(),
                cpu.map_or_else(missing, |Cpu(cpu)| number::count(cpu.into())),
                number::count(entry.count),
                number::count(entry.occasions),
                entry.first.map_or_else(missing, number::duration),
                entry.last.map_or_else(missing, number::duration),
                cause.sentence().to_owned(),
            ]);
        }
    }
    Table { title: "Lost, broken or not used, by run".to_owned(), columns, rows }
}

fn left_out(summary: &Summary) -> Table {
    let columns = vec![
        Column::key("run"),
        Column::key("device"),
        Column::text("status"),
        Column::number("requests left out"),
        Column::number("share"),
    ];
    let mut rows = Vec::new();
    for run in &summary.runs {
        for device in &run.devices {
            let left_out: u64 = device.left_out.iter().map(|(_, count)| count).sum();
            let all = number::float(device.requests.saturating_add(left_out));
            for &(status, count) in &device.left_out {
                rows.push(vec![
                    run_name(&run.configuration.label(), run.repetition),
                    device.name.clone(),
                    status.name().replace('_', " "),
                    number::count(count),
                    number::percent(number::float(count) / all),
                ]);
            }
        }
    }
    Table { title: "Requests left out of the statistics".to_owned(), columns, rows }
}

fn merged_ledger(summary: &Summary) -> Table {
    let columns = vec![
        Column::key("severity"),
        Column::text("CPU"),
        Column::number("records"),
        Column::number("runs"),
        Column::text("cause"),
    ];
    let mut rows = Vec::new();
    for (cause, cpu, entry) in all_runs(summary).entries() {
        rows.push(vec![
            cause.severity().name().to_owned(),
            cpu.map_or_else(|| number::MISSING.to_owned(), |Cpu(cpu)| number::count(cpu.into())),
            number::count(entry.count),
            number::count(runs_with(summary, cause, cpu)),
            cause.sentence().to_owned(),
        ]);
    }
    Table { title: "Lost, broken or not used".to_owned(), columns, rows }
}

fn merged_left_out(summary: &Summary) -> Table {
    let devices = || summary.runs.iter().flat_map(|run| &run.devices);
    let complete: u64 = devices().map(|device| device.requests).sum();
    let counts = left_out_by_status(summary);
    let all = number::float(complete.saturating_add(counts.values().sum()));
    let row = |(status, &count): (&Status, &u64)| {
        vec![
            status.name().replace('_', " "),
            number::count(count),
            number::percent(number::float(count) / all),
        ]
    };
    let columns =
        vec![Column::key("status"), Column::number("requests left out"), Column::number("share")];
    let title = "Requests left out of the statistics".to_owned();
    Table { title, columns, rows: counts.iter().map(row).collect() }
}

fn all_runs(summary: &Summary) -> Ledger {
    let mut all = Ledger::default();
    for run in &summary.runs {
        all.merge(&run.ledger);
    }
    all
}

fn runs_with(summary: &Summary, cause: Cause, cpu: Option<Cpu>) -> u64 {
    let has = |ledger: &Ledger| ledger.entries().any(|(c, on, _)| (c, on) == (cause, cpu));
    summary.runs.iter().map(|run| u64::from(has(&run.ledger))).sum()
}

fn run_name(label: &str, repetition: u32) -> String {
    format!("{label} run {repetition}")
}
