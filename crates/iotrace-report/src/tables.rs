//! The tables by configuration, run, device and operation.
//!
//! Each takes its rows as groups: groups of one run for the page, groups of all runs of a
//! configuration for short outputs, where a cell is a range over the runs.

use iotrace_model::{DepthSummary, DeviceSummary, Op, OpSummary, Stage, Starvation, Summary};

use crate::document::{Column, Section, Table};
use crate::groups::{Group, Groups, latency};
use crate::number;

/// Rates and where the time went, in one table for a screen.
pub(crate) fn rates_and_stages(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let mut table = rates(groups, rows);
    "Throughput, and share of the total time in each stage".clone_into(&mut table.title);
    table.columns.extend([
        Column::optional("Q2I"),
        Column::optional("I2D"),
        Column::number("waiting Q2D"),
        Column::number("completion D2C"),
    ]);
    for (cells, (group, op)) in table.rows.iter_mut().zip(by_op(rows)) {
        let stages = [Stage::Q2I, Stage::I2D, Stage::Q2D, Stage::D2C];
        cells.extend(stages.map(|stage| share_cell(group, op, stage)));
    }
    table
}

/// Requests, IOPS and MB/s.
pub(crate) fn rates(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let columns = [Column::number("requests"), Column::number("IOPS"), Column::number("MB/s")];
    op_table("Throughput", groups, rows, &columns, |group, op| {
        let significant = |low, high| number::range(low, high, number::significant);
        vec![
            group.op_range(
                op,
                |low, high| number::range(low, high, number::mean_count),
                |one| Some(number::float(one.requests)),
            ),
            group.op_range(op, significant, |one| Some(one.iops)),
            group.op_range(
                op,
                |low, high| number::range(low, high, number::megabytes),
                |one| Some(one.bytes_per_second),
            ),
        ]
    })
}

/// Quantiles of waiting, completion and total latency, one row an operation.
pub(crate) fn latency_by_op(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let columns = [
        Column::optional("Q2D p50"),
        Column::optional("Q2D p99"),
        Column::number("D2C p50"),
        Column::number("D2C p99"),
        Column::number("Q2C p50"),
        Column::number("Q2C p99"),
        Column::number("Q2C max"),
    ];
    op_table("Latency", groups, rows, &columns, |group, op| {
        let mut cells = Vec::new();
        for stage in [Stage::Q2D, Stage::D2C, Stage::Q2C] {
            cells.push(group.quantile(op, stage, |latency| latency.quantiles.p50));
            cells.push(group.quantile(op, stage, |latency| latency.quantiles.p99));
        }
        cells.push(group.quantile(op, Stage::Q2C, |latency| Some(latency.max)));
        cells
    })
}

/// The same for a screen, under a title that explains the names.
pub(crate) fn latency_on_screen(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let mut table = latency_by_op(groups, rows);
    "Latency: waiting Q2D, completion D2C, total Q2C".clone_into(&mut table.title);
    table
}

/// The same with one row a stage, for narrow outputs.
pub(crate) fn latency_by_stage(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let mut columns = groups.key_columns(rows);
    columns.extend([Column::key("op"), Column::key("latency")]);
    columns.extend([Column::number("p50"), Column::number("p99"), Column::number("max")]);
    let mut cells = Vec::new();
    for (group, op) in by_op(rows) {
        let names = [
            (Stage::Q2D, "waiting Q2D"),
            (Stage::D2C, "completion D2C"),
            (Stage::Q2C, "total Q2C"),
        ];
        for (stage, name) in names {
            let mut row = groups.key_cells(group);
            row.extend([op.name().to_owned(), name.to_owned()]);
            row.push(group.quantile(op, stage, |latency| latency.quantiles.p50));
            row.push(group.quantile(op, stage, |latency| latency.quantiles.p99));
            row.push(group.quantile(op, stage, |latency| Some(latency.max)));
            cells.push(row);
        }
    }
    Table { title: "Latency".to_owned(), columns, rows: cells }
}

/// Share of the total time in each stage.
pub(crate) fn stage_shares(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let columns = [
        Column::optional("queue Q2I"),
        Column::optional("dispatch I2D"),
        Column::number("waiting Q2D"),
        Column::number("completion D2C"),
    ];
    op_table("Where the time went", groups, rows, &columns, |group, op| {
        let stages = [Stage::Q2I, Stage::I2D, Stage::Q2D, Stage::D2C];
        stages.map(|stage| share_cell(group, op, stage)).to_vec()
    })
}

/// Depths, reordering and starvation in one table for short outputs.
pub(crate) fn queues(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let mut columns = groups.key_columns(rows);
    columns.extend([
        Column::number("in flight"),
        Column::number("max"),
        Column::number("queued"),
        Column::number("max"),
        Column::number("overtaken"),
        Column::optional("starved: reads"),
        Column::optional("writes"),
    ]);
    let cells = |group: &Group<'_>| {
        let mut row = groups.key_cells(group);
        row.extend(depth_cells(group, |device| seen(&device.in_flight)));
        row.extend(depth_cells(group, |device| seen(&device.queued)));
        row.push(overtaken_cell(group));
        for class in STARVATION {
            row.push(group.range(number::duration_range, |device| {
                class(device).map(|longest| number::float_ns(longest.length))
            }));
        }
        row
    };
    Table {
        title: "In-flight and queue depth (mean, max), reordering, longest starvation".to_owned(),
        columns,
        rows: rows.iter().map(cells).collect(),
    }
}

/// The runs themselves.
pub(crate) fn runs(summary: &Summary, groups: &Groups<'_>) -> Table {
    let columns = vec![
        Column::key("folder"),
        Column::text("configuration"),
        Column::number("run"),
        Column::number("duration"),
        Column::number("requests"),
        Column::number("data"),
        Column::number("exit code"),
        Column::number("events lost"),
    ];
    let mut rows = Vec::new();
    for label in &groups.labels {
        for run in summary.runs.iter().filter(|run| run.configuration.label() == *label) {
            rows.push(vec![
                run.folder.clone(),
                label.clone(),
                number::count(run.repetition.into()),
                number::duration(run.duration),
                number::count(run.devices.iter().map(|device| device.requests).sum()),
                number::bytes(run.devices.iter().map(|device| device.bytes).sum()),
                run.exit_code.map_or_else(|| number::MISSING.to_owned(), |code| code.to_string()),
                number::count(run.ledger.lost()),
            ]);
        }
    }
    Table { title: "Runs".to_owned(), columns, rows }
}

/// Rates and latencies of every run.
pub(crate) fn throughput_and_latency(groups: &Groups<'_>) -> Section {
    let mut rates = rates(groups, &groups.single);
    rates.columns.extend([
        Column::number("errors"),
        Column::number("merges"),
        Column::number("requeues"),
    ]);
    for (cells, (group, op)) in rates.rows.iter_mut().zip(by_op(&groups.single)) {
        let total =
            |count: fn(&OpSummary) -> u64| number::count(group.op_summaries(op).map(count).sum());
        cells.extend([total(|one| one.errors), total(|one| one.merges), total(|one| one.requeues)]);
    }
    Section {
        title: "Throughput and latency".to_owned(),
        notes: vec![
            "Rates are over the time from the first to the last event of the device; MB are 10⁶ \
             bytes. Waiting (Q2D) is the time before the driver had the request, completion \
             (D2C) the time of driver and drive, total (Q2C) their sum. “Too few” stands for a \
             quantile without enough requests behind it."
                .to_owned(),
        ],
        tables: vec![rates, latency_by_op(groups, &groups.single)],
    }
}

/// Means and shares of the stages in every run.
pub(crate) fn stages(groups: &Groups<'_>) -> Section {
    let columns = [
        Column::number("queue Q2I"),
        Column::number("dispatch I2D"),
        Column::number("waiting Q2D"),
        Column::number("completion D2C"),
        Column::number("total Q2C"),
    ];
    let mut means =
        op_table("Mean of each stage", groups, &groups.single, &columns, |group, op| {
            let mean = |stage| {
                group.op_range(op, number::duration_range, |one| {
                    latency(one, stage).map(|latency| latency.mean_ns)
                })
            };
            Stage::ALL.map(mean).to_vec()
        });
    "Mean latency of each stage".clone_into(&mut means.title);
    let mut shares = stage_shares(groups, &groups.single);
    "Share of the total time in each stage".clone_into(&mut shares.title);
    Section {
        title: "Where the time went".to_owned(),
        notes: vec![
            "Queue latency (Q2I) lies before the scheduler, dispatch latency (I2D) in it or in \
             front of a full device queue; a request issued directly has neither, only waiting."
                .to_owned(),
        ],
        tables: vec![shares, means],
    }
}

/// The three depths of every run.
pub(crate) fn depths(groups: &Groups<'_>) -> Section {
    let mut columns = groups.key_columns(&groups.single);
    columns.extend([
        Column::number("in flight, mean"),
        Column::number("max"),
        Column::number("queued, mean"),
        Column::number("max"),
        Column::number("in scheduler, mean"),
        Column::number("max"),
        Column::number("Little’s law"),
    ]);
    let cells = |group: &Group<'_>| {
        let mut row = groups.key_cells(group);
        row.extend(depth_cells(group, |device| seen(&device.in_flight)));
        row.extend(depth_cells(group, |device| seen(&device.queued)));
        row.extend(depth_cells(group, |device| device.scheduled.as_ref()));
        row.push(group.range(ratio_range, |device| device.little));
        row
    };
    let rows = groups.single.iter().map(cells).collect();
    Section {
        title: "In-flight and queue depth".to_owned(),
        notes: vec![
            "Means are weighted by time. In flight: issued and not complete. Queued: queued and \
             not complete. In scheduler: inserted and not issued. Little’s law: completions per \
             second × mean completion latency ÷ mean in-flight depth, ×1.00 when every request \
             is accounted for."
                .to_owned(),
        ],
        tables: vec![Table { title: "Depths".to_owned(), columns, rows }],
    }
}

/// Reordering by the drive.
pub(crate) fn reordering(groups: &Groups<'_>, rows: &[Group<'_>]) -> Table {
    let mut columns = groups.key_columns(rows);
    columns.extend([
        Column::number("overtaken"),
        Column::number("of reads"),
        Column::number("of writes"),
        Column::number("most overtakes of one request"),
        Column::number("time with more than one in flight"),
    ]);
    let of = |group: &Group<'_>, wanted: Op| {
        group.range(number::percent_range, |device| {
            let by_op = &device.reordering.by_op;
            let &(_, requests, overtaken) = by_op.iter().find(|(op, ..)| *op == wanted)?;
            (requests > 0).then(|| number::float(overtaken) / number::float(requests))
        })
    };
    let cells = |group: &Group<'_>| {
        let mut row = groups.key_cells(group);
        row.push(overtaken_cell(group));
        row.extend([of(group, Op::Read), of(group, Op::Write)]);
        row.push(group.range(significant_range, |device| {
            let reordering = &device.reordering;
            (reordering.requests > 0).then(|| f64::from(reordering.most_overtaken))
        }));
        row.push(group.range(number::percent_range, |device| {
            seen(&device.in_flight).map(|_| device.reordering.time_above_one)
        }));
        row
    };
    Table {
        title: "Reordering by the drive".to_owned(),
        columns,
        rows: rows.iter().map(cells).collect(),
    }
}

/// Reads against writes in every run that has both.
pub(crate) fn fairness(groups: &Groups<'_>) -> Section {
    let mut columns = groups.key_columns(&groups.single);
    columns.extend([
        Column::number("both outstanding"),
        Column::number("reads’ share of bytes"),
        Column::number("Jain’s index"),
        Column::number("p50 read ÷ write"),
        Column::number("p99 read ÷ write"),
        Column::number("reads starved"),
        Column::number("writes starved"),
    ]);
    let mut rows = Vec::new();
    for group in &groups.single {
        let Some(fairness) = group.members.iter().find_map(|(_, one)| one.fairness.as_ref()) else {
            continue;
        };
        let ratio = |value: Option<f64>| value.map_or_else(|| "too few".to_owned(), number::ratio);
        let mut row = groups.key_cells(group);
        row.extend([
            number::duration(fairness.shared_time),
            number::percent(fairness.read_share),
            number::significant(fairness.jain),
            ratio(fairness.latency_ratio_p50),
            ratio(fairness.latency_ratio_p99),
            starvation(fairness.read_starvation, "writes"),
            starvation(fairness.write_starvation, "reads"),
        ]);
        rows.push(row);
    }
    let notes = if rows.is_empty() {
        Vec::new()
    } else {
        vec![
            "Over the time in which reads and writes both had requests outstanding. Jain’s index \
             is 1 when both get the same throughput and 0.5 when one gets all. Starved: the \
             longest stretch in which a class had a request outstanding and none completed; in \
             brackets, what completed for the other class meanwhile."
                .to_owned(),
        ]
    };
    let table = Table { title: "Reads against writes".to_owned(), columns, rows };
    Section { title: "Fairness and starvation".to_owned(), notes, tables: vec![table] }
}

/// The evidence on NCQ in every run.
pub(crate) fn ncq(groups: &Groups<'_>) -> Table {
    let mut columns = groups.key_columns(&groups.single);
    columns.extend([
        Column::text("verdict"),
        Column::number("configured: queue_depth"),
        Column::number("used: NCQ commands"),
        Column::number("of commands"),
        Column::number("observed: most in flight"),
        Column::number("overtaken"),
        Column::text("rests on"),
    ]);
    let missing = || number::MISSING.to_owned();
    let mut rows = Vec::new();
    for group in &groups.single {
        for (_, device) in &group.members {
            let evidence = &device.ncq;
            let mut row = groups.key_cells(group);
            row.extend([
                evidence.verdict.words().to_owned(),
                evidence.queue_depth.map_or_else(missing, |depth| number::count(depth.into())),
                evidence.queued_commands.map_or_else(missing, number::count),
                evidence.commands.map_or_else(missing, number::count),
                number::count(evidence.max_in_flight.into()),
                number::count(evidence.overtaken),
                evidence.rests_on.clone(),
            ]);
            rows.push(row);
        }
    }
    Table { title: "Evidence on NCQ".to_owned(), columns, rows }
}

/// The longest starvation of reads and of writes, where both occur.
const STARVATION: [fn(&DeviceSummary) -> Option<Starvation>; 2] = [
    |device| Some(device.fairness.as_ref()?.read_starvation),
    |device| Some(device.fairness.as_ref()?.write_starvation),
];

fn by_op<'r, 'a>(rows: &'r [Group<'a>]) -> impl Iterator<Item = (&'r Group<'a>, Op)> {
    rows.iter().flat_map(|group| group.ops().into_iter().map(move |op| (group, op)))
}

fn op_table(
    title: &str,
    groups: &Groups<'_>,
    rows: &[Group<'_>],
    columns: &[Column],
    cells: impl Fn(&Group<'_>, Op) -> Vec<String>,
) -> Table {
    let mut all = groups.key_columns(rows);
    all.push(Column::key("op"));
    all.extend(columns);
    let row = |(group, op): (&Group<'_>, Op)| {
        let mut row = groups.key_cells(group);
        row.push(op.name().to_owned());
        row.extend(cells(group, op));
        row
    };
    Table { title: title.to_owned(), columns: all, rows: by_op(rows).map(row).collect() }
}

/// Sum of one stage over sum of Q2C: requests without the stage count in full.
fn share_cell(group: &Group<'_>, op: Op, stage: Stage) -> String {
    group.op_range(op, number::percent_range, |one| {
        let sum = |stage| {
            latency(one, stage).map(|latency| latency.mean_ns * number::float(latency.count))
        };
        Some(sum(stage)? / sum(Stage::Q2C)?)
    })
}

fn depth_cells(
    group: &Group<'_>,
    depth: fn(&DeviceSummary) -> Option<&DepthSummary>,
) -> [String; 2] {
    [
        group.range(significant_range, |device| Some(depth(device)?.mean)),
        group.range(significant_range_whole, |device| Some(f64::from(depth(device)?.max))),
    ]
}

/// A depth that never rose above zero was not seen: its events are not in the trace.
fn seen(depth: &DepthSummary) -> Option<&DepthSummary> {
    (depth.max > 0).then_some(depth)
}

fn overtaken_cell(group: &Group<'_>) -> String {
    group.range(number::percent_range, |device| {
        let reordering = &device.reordering;
        (reordering.requests > 0)
            .then(|| number::float(reordering.overtaken) / number::float(reordering.requests))
    })
}

fn starvation(longest: Starvation, others: &str) -> String {
    format!(
        "{} ({} {others})",
        number::duration(longest.length),
        number::count(longest.others_completed)
    )
}

fn significant_range(low: f64, high: f64) -> String {
    number::range(low, high, number::significant)
}

fn significant_range_whole(low: f64, high: f64) -> String {
    number::range(low, high, number::tick)
}

fn ratio_range(low: f64, high: f64) -> String {
    number::range(low, high, number::ratio)
}
