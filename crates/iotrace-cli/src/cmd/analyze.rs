//! `iotrace analyze`: requests to numbers, comparison and reports.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use iotrace_dataset::{Dataset, Run, ledger_from_documents, read_events};
use iotrace_metrics::{Btt, CompareOptions, RunInput, compare, summarize_run};
use iotrace_model::{BttSummary, Configuration, DeviceFacts, Fact, Facts, Nanos, Summary};
use iotrace_report::{Colour, Context, Report};

use crate::exit::Exit;
use crate::talk::Talk;

/// The table of events in the folder of a run.
const EVENTS: &str = "events.parquet";

/// Arguments of `iotrace analyze`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Writes report.html, report.md and report.json into the dataset and prints \
                        a one-screen summary.\nExit code 3: events were lost, more than \
                        --max-loss allows."
)]
pub(crate) struct Args {
    /// A dataset written by `iotrace record`
    dataset: PathBuf,
    /// Folder for the reports [default: the dataset itself]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Add btt's figures by btt's rules: the tables "All Devices", device overhead, merges, seeks,
    /// plugs and requests at queue, in its units and digits. Needs events.parquet and reads it
    /// whole
    #[arg(long)]
    btt: bool,
    /// Print report.json instead of the summary
    #[arg(long)]
    json: bool,
    /// Events that may be lost before the exit code becomes 3
    #[arg(long, value_name = "EVENTS", default_value_t = 0)]
    max_loss: u64,
    /// Say nothing but the result
    #[arg(short, long)]
    quiet: bool,
}

/// What is to be done, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    dataset: Dataset,
    output: PathBuf,
    btt: bool,
    json: bool,
    max_loss: u64,
    talk: Talk,
}

impl Plan {
    pub(crate) fn new(args: Args) -> anyhow::Result<Self> {
        let dataset = Dataset::open(&args.dataset)?;
        if args.btt {
            check_events(&dataset)?;
        }
        let output = args.output.unwrap_or_else(|| args.dataset.clone());
        std::fs::create_dir_all(&output)
            .with_context(|| format!("cannot make the folder {}", output.display()))?;
        Ok(Self {
            dataset,
            output,
            btt: args.btt,
            json: args.json,
            max_loss: args.max_loss,
            talk: Talk::from_flag(args.quiet),
        })
    }

    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let summary = summarize(&self.dataset, self.btt)?;
        let context = context(&self.dataset);
        let report = Report::new(&summary, &context);
        let json = iotrace_report::json(&summary, &context)?;
        write(&self.output, "report.json", &json)?;
        write(&self.output, "report.md", &iotrace_report::markdown(&report))?;
        write(&self.output, "report.html", &iotrace_report::html(&report)?)?;
        let text = if self.json { json } else { terminal(&report) };
        std::io::stdout().write_all(text.as_bytes())?;
        self.talk.say(&format!("reports: {}", self.output.join("report.{html,md,json}").display()));
        let lost: u64 = summary.runs.iter().map(|run| run.ledger.lost()).sum();
        Ok(if lost > self.max_loss { Exit::Incomplete } else { Exit::Done })
    }
}

fn terminal(report: &Report) -> String {
    let stdout = std::io::stdout();
    let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    iotrace_report::terminal(report, width, if colour { Colour::Yes } else { Colour::No })
}

/// Written beside the target and renamed, so that no reader sees half a file.
fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let target = folder.join(name);
    let beside = folder.join(format!(".{name}.new"));
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, &target))
        .with_context(|| format!("cannot write {}", target.display()))
}

/// btt's figures come from events, which an import may have left out.
fn check_events(dataset: &Dataset) -> anyhow::Result<()> {
    for run in measured(dataset) {
        let path = dataset.root.join(&run.folder).join(EVENTS);
        if !path.is_file() {
            bail!(
                "{}: not there, and --btt computes from it; import again without --no-events",
                path.display()
            );
        }
    }
    Ok(())
}

fn measured(dataset: &Dataset) -> impl Iterator<Item = &Run> {
    dataset.runs.iter().filter(|run| !run.document.warmup)
}

fn summarize(dataset: &Dataset, btt: bool) -> anyhow::Result<Summary> {
    let mut runs = Vec::new();
    for run in measured(dataset) {
        let (mut summary, sample) = summarize_one(&dataset.root, run)?;
        if btt {
            summary.btt = Some(summarize_btt(&dataset.root.join(&run.folder).join(EVENTS))?);
        }
        runs.push((summary, sample));
    }
    let comparisons = compare(&runs, &CompareOptions::default());
    Ok(Summary { runs: runs.into_iter().map(|(summary, _)| summary).collect(), comparisons })
}

fn summarize_one(
    root: &Path,
    run: &Run,
) -> anyhow::Result<(iotrace_model::RunSummary, iotrace_metrics::RunSample)> {
    let document = &run.document;
    let only_named = document.imported.is_some();
    let devices = document.devices.iter().map(DeviceFacts::from);
    let devices: Vec<_> = devices.map(|facts| DeviceFacts { only_named, ..facts }).collect();
    let ledger = ledger_from_documents(&document.ledger);
    let requests = root.join(&run.folder).join("requests.parquet");
    let input = RunInput {
        requests: &requests,
        configuration: configuration(run),
        repetition: document.repetition,
        folder: run.folder.display().to_string(),
        duration: Nanos(document.wall_ns),
        exit_code: document.exit_code,
        devices: &devices,
        ledger,
    };
    Ok(summarize_run(&input)?)
}

fn summarize_btt(events: &Path) -> anyhow::Result<BttSummary> {
    let mut btt = Btt::new();
    for batch in read_events(events)? {
        for event in &batch? {
            btt.push(event);
        }
    }
    Ok(btt.finish())
}

fn configuration(run: &Run) -> Configuration {
    Configuration { settings: run.document.configuration.clone() }
}

fn context(dataset: &Dataset) -> Context {
    let manifest = &dataset.manifest;
    let title = dataset.root.file_name().map_or_else(
        || dataset.root.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    );
    let first = dataset.runs.first();
    let devices = first.map_or_else(Vec::new, |run| {
        run.document.devices.iter().map(|device| describe(&DeviceFacts::from(device))).collect()
    });
    // The report tells of losses itself, in more detail.
    let losses = super::record::loss_sentence(&ledger_from_documents(&manifest.ledger));
    let mut warnings: Vec<String> =
        manifest.incomplete.iter().filter(|reason| **reason != losses).cloned().collect();
    for run in &dataset.runs {
        warnings.extend(exit_sentence(run));
    }
    let (imported, notes) = imports(dataset);
    warnings.extend(notes);
    Context {
        title,
        command: manifest.plan.command.join(" "),
        imported,
        clock: clock(dataset),
        tool_version: manifest.tool_version.clone(),
        created: manifest.created.clone(),
        kernel: text(&Facts::from(&manifest.host), "kernel_release"),
        devices,
        warmups: u32::try_from(dataset.runs.iter().filter(|run| run.document.warmup).count())
            .unwrap_or(u32::MAX),
        simulated: manifest.simulated,
        warnings,
    }
}

/// The clock of the runs, `unknown` where they differ.
fn clock(dataset: &Dataset) -> String {
    let mut clocks = dataset.runs.iter().map(|run| &run.document.clock);
    let first = clocks.next();
    let same = first.filter(|first| clocks.all(|clock| clock == *first));
    same.cloned().unwrap_or_else(|| "unknown".to_owned())
}

/// How the workload of a measured run went wrong; `None` where it did not, or none was run.
fn exit_sentence(run: &Run) -> Option<String> {
    let document = &run.document;
    if document.warmup || document.command.is_empty() {
        return None;
    }
    let folder = run.folder.display();
    match document.exit_code {
        Some(0) => None,
        Some(code) => Some(format!("the workload of {folder} failed with exit code {code}")),
        None => Some(format!("the workload of {folder} was killed by a signal")),
    }
}

/// What runs were imported from, and what the importer noted of it. Each once.
fn imports(dataset: &Dataset) -> (Vec<String>, Vec<String>) {
    let (mut sources, mut notes): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for document in dataset.runs.iter().map(|run| &run.document) {
        let Some(imported) = &document.imported else { continue };
        let source = &document.capture.source;
        if !sources.contains(source) {
            sources.push(source.clone());
        }
        for note in &imported.notes {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
    }
    (sources, notes)
}

/// One line on a device: name, model, size, scheduler.
fn describe(device: &DeviceFacts) -> String {
    let number = device.device.to_string();
    let is_named = !device.name.is_empty() && device.name != number;
    let mut words = vec![if is_named { format!("{} ({number})", device.name) } else { number }];
    let model = text(&device.facts, "model");
    if !model.is_empty() {
        words.push(model);
    }
    if let Some(Fact::Number(bytes)) = device.facts.get("size_bytes") {
        words.push(format!("{} MiB", bytes / (1 << 20)));
    }
    let scheduler = text(&device.facts, "scheduler");
    if !scheduler.is_empty() {
        words.push(format!("scheduler {scheduler}"));
    }
    words.join(", ")
}

fn text(facts: &Facts, name: &str) -> String {
    match facts.get(name) {
        Some(Fact::Text(text)) => text.clone(),
        Some(Fact::Number(_) | Fact::Flag(_) | Fact::List(_) | Fact::Table(_)) | None => {
            String::new()
        }
    }
}
