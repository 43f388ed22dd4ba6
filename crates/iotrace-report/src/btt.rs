//! btt's tables, in its columns and its number formats, so that a digit can be compared.
//!
//! Short outputs get a section for each table, the page one section for each run.

use iotrace_model::{
    BttDevice, BttMerges, BttOverhead, BttSeeks, BttSummary, BttTime, DeviceId, RunSummary, Summary,
};

use crate::document::{Column, Section, Table};
use crate::number;

/// Every run's tables, each under its own title; at the end the notes, once where all runs share
/// them.
pub(crate) fn short(summary: &Summary) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut shared: Option<Vec<String>> = None;
    for (title, btt) in titled(summary) {
        let tables = tables(btt).into_iter().filter(|table| !table.rows.is_empty());
        sections.extend(tables.map(|table| Section {
            title: format!("{title}: {}", table.title),
            notes: Vec::new(),
            tables: vec![table],
        }));
        let notes = shared.get_or_insert_with(|| btt.notes.clone());
        notes.retain(|note| btt.notes.contains(note));
    }
    let shared = shared.unwrap_or_default();
    for (title, btt) in titled(summary) {
        let own = btt.notes.iter().filter(|note| !shared.contains(note)).cloned().collect();
        sections.push(notes(&title, own));
    }
    sections.push(notes("btt", shared));
    sections.retain(|section| !section.notes.is_empty() || !section.tables.is_empty());
    sections
}

fn notes(title: &str, notes: Vec<String>) -> Section {
    Section { title: format!("{title}: notes"), notes, tables: Vec::new() }
}

/// Every run's tables and notes in one section.
pub(crate) fn page(summary: &Summary) -> Vec<Section> {
    let section = |(title, btt): (String, &BttSummary)| Section {
        title,
        notes: btt.notes.clone(),
        tables: tables(btt),
    };
    titled(summary).map(section).collect()
}

/// The runs that have figures, with the folder in the title when there is more than one run.
fn titled(summary: &Summary) -> impl Iterator<Item = (String, &BttSummary)> {
    let title = |run: &RunSummary| {
        if summary.runs.len() > 1 { format!("btt of {}", run.folder) } else { "btt".to_owned() }
    };
    summary.runs.iter().filter_map(move |run| Some((title(run), run.btt.as_ref()?)))
}

fn tables(btt: &BttSummary) -> Vec<Table> {
    let of_devices =
        |title: &str, columns: &[Column], row: fn(&BttDevice) -> Option<Vec<String>>| {
            let named = |device: &BttDevice| {
                let mut cells = vec![name(device.device)];
                cells.extend(row(device)?);
                Some(cells)
            };
            Table {
                title: title.to_owned(),
                columns: [&[Column::key("DEV")], columns].concat(),
                rows: btt.devices.iter().filter_map(named).collect(),
            }
        };
    let mut overhead = of_devices(
        "Device Overhead",
        &["Q2G", "G2I", "Q2M", "I2D", "D2C"].map(Column::number),
        |device| device.overhead.map(overhead_cells),
    );
    overhead.rows.extend(btt.overhead.map(|all| totalled("Overall", overhead_cells(all))));
    let mut merges = of_devices(
        "Device Merge Information",
        &["#Q", "#D", "Ratio", "BLKmin", "BLKavg", "BLKmax", "Total"].map(Column::number),
        |device| device.merges.map(merge_cells),
    );
    merges.rows.extend(btt.merges.map(|all| totalled("TOTAL", merge_cells(all))));
    let seeks = ["NSEEKS", "MEAN"].map(Column::number);
    vec![
        Table {
            title: "All Devices (seconds)".to_owned(),
            columns: vec![
                Column::key("ALL"),
                Column::number("MIN"),
                Column::number("AVG"),
                Column::number("MAX"),
                Column::number("N"),
            ],
            rows: btt.stages.iter().map(stage_cells).collect(),
        },
        overhead,
        merges,
        of_devices("Device Q2Q Seek Information", &seeks, |device| {
            device.queue_seeks.map(seek_cells)
        }),
        of_devices("Device D2D Seek Information", &seeks, |device| {
            device.issue_seeks.map(seek_cells)
        }),
        of_devices(
            "Plug Information",
            &["# Plugs", "# Timer Us", "% Time Q Plugged"].map(Column::number),
            |device| {
                let plugs = device.plugs?;
                let percent = number::fixed_percent(plugs.percent_plugged, 9);
                Some(vec![plugs.plugs.to_string(), plugs.timer_unplugs.to_string(), percent])
            },
        ),
        of_devices(
            "Active Requests At Q Information",
            &[Column::number("Avg Reqs @ Q")],
            |device| Some(vec![number::fixed(device.requests_at_queue?, 1)]),
        ),
    ]
}

/// As btt writes a device.
fn name(device: DeviceId) -> String {
    format!("({:3},{:3})", device.major, device.minor)
}

fn totalled(name: &str, cells: Vec<String>) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    row.extend(cells);
    row
}

fn stage_cells(line: &BttTime) -> Vec<String> {
    vec![
        line.stage.name().to_owned(),
        number::seconds(line.min),
        number::mean_seconds(line.total, line.count),
        number::seconds(line.max),
        line.count.to_string(),
    ]
}

fn overhead_cells(overhead: BttOverhead) -> Vec<String> {
    let BttOverhead { q2g, g2i, q2m, i2d, d2c } = overhead;
    [q2g, g2i, q2m, i2d, d2c].map(|percent| number::fixed_percent(percent, 4)).to_vec()
}

fn merge_cells(merges: BttMerges) -> Vec<String> {
    let BttMerges { queued, issued, ratio, smallest, mean, largest, total } = merges;
    let mut cells = vec![queued.to_string(), issued.to_string(), number::fixed(ratio, 1)];
    cells.extend([smallest, mean, largest, total].map(|blocks| blocks.to_string()));
    cells
}

fn seek_cells(seeks: BttSeeks) -> Vec<String> {
    vec![seeks.count.to_string(), number::fixed(seeks.mean, 1)]
}
