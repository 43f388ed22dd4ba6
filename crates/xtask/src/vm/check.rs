//! Holds what iotrace wrote in the virtual machine against what blktrace wrote.
//!
//! Each bar is one line: what was asked, the figure, and whether it was met.

mod blktrace;
mod depth;
mod round_trip;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use iotrace_dataset::{Dataset, RunEntry};
use serde_json::Value;

use self::blktrace::Trace;
use self::table::Tables;

/// Most the two may differ in the median completion latency of one request.
const MOST_DIFFERENCE_NS: u64 = 50_000;
/// Least in-flight depth that NCQ must reach under a workload of depth 32.
const LEAST_IN_FLIGHT: u32 = 16;
/// Most requests that may be issued while another is in flight and NCQ is off, in percent.
const MOST_ABOVE_ONE_PERCENT: u64 = 1;
/// Least share of reads and writes under an NCQ protocol while it is on, in percent.
const LEAST_QUEUED_PERCENT: u64 = 95;
/// Least share of blktrace's requests that have a counterpart with a latency, in percent.
const LEAST_PAIRED_PERCENT: u64 = 99;

/// One requirement, with its figure.
pub(super) struct Bar {
    what: String,
    figure: String,
    met: bool,
}

impl Bar {
    fn new(what: impl Into<String>, figure: impl Into<String>, met: bool) -> Self {
        Self { what: what.into(), figure: figure.into(), met }
    }

    pub(super) fn is_met(&self) -> bool {
        self.met
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.met { "PASS" } else { "FAIL" };
        write!(f, "{word}  {}: {}", self.what, self.figure)
    }
}

/// Checks the results that the machine left in `out`; `program` is asked for its report.
pub(super) fn check(out: &Path, program: &Path) -> anyhow::Result<Vec<Bar>> {
    let facts = read_facts(&out.join("facts.txt"))?;
    let mut bars = setting_bars(&facts);
    let complaints = fs::read_to_string(out.join("record.stderr")).unwrap_or_default();
    for line in complaints.lines().filter(|line| is_complaint(line)) {
        eprintln!("  iotrace record: {line}");
    }
    if facts.get("record_exit").is_none_or(|code| code != "0") {
        return Ok(bars);
    }
    let root = out.join("ncq.iotrace");
    let dataset = Dataset::open(&root)?;
    let report = report(&root, program)?;
    bars.push(Bar::new("runs", format!("{} of 4", dataset.runs.len()), dataset.runs.len() == 4));
    for entry in &dataset.manifest.runs {
        let folder = root.join(&entry.folder);
        let tables = Tables::read(&folder)?;
        let traced = out.join("blktrace").join(traced_as(&folder)?);
        let trace = Trace::read(&traced)?;
        bars.extend(run_bars(entry, &tables, &trace));
        bars.push(report_bar(entry, &report, &tables));
        bars.extend(round_trip::bars(&label(entry), program, &traced, &folder)?);
    }
    Ok(bars)
}

/// Lines `key=value`; the last of several with one key counts.
fn read_facts(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// Whether a line of the recorder belongs on the terminal.
fn is_complaint(line: &str) -> bool {
    line.contains("warning: ") || line.contains("error: ")
}

/// What the guest noted of exit codes and of the setting that must come back.
fn setting_bars(facts: &BTreeMap<String, String>) -> Vec<Bar> {
    let fact = |key: &str| facts.get(key).map_or("unknown", String::as_str);
    let before = fact("queue_depth_before");
    let depth = |what: &str, key: &str, expected: &str| {
        let met = fact(key) == expected && before != "unknown";
        Bar::new(what, format!("{}, expected {expected}", fact(key)), met)
    };
    let exit = |what: &str, key: &str| {
        Bar::new(what, format!("exit code {}", fact(key)), fact(key) == "0")
    };
    let mut bars = vec![
        exit("iotrace record", "record_exit"),
        depth("queue_depth after record", "queue_depth_after_record", before),
        depth("queue_depth after SIGKILL", "queue_depth_after_kill", "1"),
        exit("iotrace restore", "restore_exit"),
        depth("queue_depth after restore", "queue_depth_after_restore", before),
    ];
    if let Some(error) = facts.get("error") {
        bars.push(Bar::new("virtual machine", error.as_str(), false));
    }
    bars
}

/// The folder of the blktrace of a run, which its workload told in its first line.
fn traced_as(run: &Path) -> anyhow::Result<String> {
    let path = run.join("workload.stdout");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("blktrace="))
        .map(str::to_owned)
        .with_context(|| format!("{} does not name its blktrace", path.display()))
}

fn label(entry: &RunEntry) -> String {
    let settings = entry.configuration.iter().map(|(key, value)| format!("{key}={value} "));
    format!("{}rep={}", settings.collect::<String>(), entry.repetition)
}

fn run_bars(entry: &RunEntry, tables: &Tables, trace: &Trace) -> Vec<Bar> {
    let label = label(entry);
    let same = |what: &str, ours: u64, theirs: u64| {
        let figure = format!("{ours}, blktrace {theirs}");
        Bar::new(format!("{label}: {what}"), figure, ours == theirs && ours > 0)
    };
    let mut bars = vec![
        Bar::new(
            format!("{label}: blktrace's losses"),
            if trace.is_whole { "none" } else { "events were dropped" },
            trace.is_whole,
        ),
        same("issues", tables.issues, trace.issues),
        same("completions", tables.completions, trace.completions),
        difference_bar(&label, tables, trace),
    ];
    let is_on = entry.configuration.iter().any(|(key, value)| key == "ncq" && value == "on");
    let (ours, theirs) = (tables.in_flight, trace.in_flight);
    let (queued, commands) = (tables.queued_commands, tables.commands);
    let (depth_met, queued_met) = if is_on {
        let queued_met = queued > 0 && queued * 100 >= commands * LEAST_QUEUED_PERCENT;
        (ours.most >= LEAST_IN_FLIGHT, queued_met)
    } else {
        (ours.above_one * 100 <= commands * MOST_ABOVE_ONE_PERCENT, queued == 0)
    };
    let wanted = if is_on {
        format!("at least {LEAST_IN_FLIGHT} in flight")
    } else {
        format!("at most {MOST_ABOVE_ONE_PERCENT} % above one")
    };
    bars.push(Bar::new(
        format!("{label}: in-flight depth"),
        format!(
            "at most {} (blktrace {}), {} issues above one (blktrace {}), expected {wanted}",
            ours.most, theirs.most, ours.above_one, theirs.above_one
        ),
        depth_met,
    ));
    let wanted =
        if is_on { format!("at least {LEAST_QUEUED_PERCENT} %") } else { "none".to_owned() };
    bars.push(Bar::new(
        format!("{label}: reads and writes under NCQ"),
        format!("{queued} of {commands}, expected {wanted}"),
        queued_met,
    ));
    bars
}

/// The median difference of the completion latency, request by request.
fn difference_bar(label: &str, tables: &Tables, trace: &Trace) -> Bar {
    let mut differences = Vec::new();
    let mut theirs_count = 0;
    for (sector, theirs) in &trace.latencies {
        theirs_count += theirs.len();
        let ours = tables.latencies.get(sector).map_or(&[][..], Vec::as_slice);
        differences.extend(ours.iter().zip(theirs).map(|(ours, theirs)| ours.abs_diff(*theirs)));
    }
    differences.sort_unstable();
    let what = format!("{label}: D2C, median difference of a request");
    let paired = differences.len();
    match differences.get(paired / 2) {
        Some(median) => {
            let most = differences.last().copied().unwrap_or_default();
            let met = *median <= MOST_DIFFERENCE_NS
                && paired as u64 * 100 >= theirs_count as u64 * LEAST_PAIRED_PERCENT;
            let figure = format!(
                "{median} ns, most {most} ns, over {paired} of {theirs_count} requests, \
                 expected at most {MOST_DIFFERENCE_NS} ns"
            );
            Bar::new(what, figure, met)
        }
        None => Bar::new(what, "no request could be compared", false),
    }
}

/// `report.json`, as `iotrace analyze --json` prints it.
fn report(root: &Path, program: &Path) -> anyhow::Result<Value> {
    let output = Command::new(program)
        .arg("analyze")
        .arg(root)
        .args(["--json", "--quiet"])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        format!("iotrace analyze ended with {}: {}", output.status, complaint.trim())
    })
}

/// The report must count what the tables hold.
fn report_bar(entry: &RunEntry, report: &Value, tables: &Tables) -> Bar {
    let runs = report.get("runs").and_then(Value::as_array).into_iter().flatten();
    let devices = runs
        .filter(|run| run.get("folder").and_then(Value::as_str) == Some(&entry.folder))
        .filter_map(|run| run.get("devices")?.as_array())
        .flatten();
    let (mut requests, mut depth) = (0, 0);
    for device in devices {
        let number = |path: &str| device.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        requests += number("/requests");
        depth = depth.max(number("/in_flight/max"));
    }
    let (expected, expected_depth) = (tables.complete, u64::from(tables.in_flight.most));
    Bar::new(
        format!("{}: report.json", label(entry)),
        format!("{requests} requests, {depth} in flight; tables {expected}, {expected_depth}"),
        (requests, depth) == (expected, expected_depth),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_must_come_back() {
        let good = [
            ("record_exit", "0"),
            ("queue_depth_before", "32"),
            ("queue_depth_after_record", "32"),
            ("queue_depth_after_kill", "1"),
            ("restore_exit", "0"),
            ("queue_depth_after_restore", "32"),
        ];
        check_settings(&good, &[true; 5]);
        check_settings(&good[..5], &[true, true, true, true, false]);
        check_settings(&[], &[false; 5]);
        check_settings(&[("error", "no /dev/sda")], &[false; 6]);
    }

    #[track_caller]
    fn check_settings(facts: &[(&str, &str)], expected: &[bool]) {
        let facts = facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let bars = setting_bars(&facts.collect());
        assert_eq!(bars.iter().map(Bar::is_met).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn latencies_are_compared_by_sector_in_order() {
        let ours = [(8, vec![1_000, 9_000]), (16, vec![5_000])];
        check_difference(&ours, &[(8, vec![1_000, 9_100]), (16, vec![5_010])], true);
        check_difference(&ours, &[(8, vec![90_000, 90_000]), (16, vec![5_010])], false);
        check_difference(&ours, &[(8, vec![1_000, 9_000]), (24, vec![5_000])], false);
        check_difference(&ours, &[], false);
    }

    #[track_caller]
    fn check_difference(ours: &[(u64, Vec<i64>)], theirs: &[(u64, Vec<i64>)], met: bool) {
        let tables = Tables { latencies: ours.iter().cloned().collect(), ..Tables::default() };
        let trace = Trace { latencies: theirs.iter().cloned().collect(), ..Trace::default() };
        assert_eq!(difference_bar("run", &tables, &trace).is_met(), met);
    }
}
