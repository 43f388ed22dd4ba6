//! One run as blktrace saw it, through the text of `blkparse`.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::depth::Depth;
use crate::vm::output_of;

/// Action, seconds, nanoseconds, sector and sectors of every event.
const FORMAT: &str = "%a %T %t %S %n\n";

/// What blktrace counted and timed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// Events `D`.
    pub(super) issues: u64,
    /// Events `C`.
    pub(super) completions: u64,
    /// Nanoseconds from `D` to `C`, by first sector, in the order of completion.
    pub(super) latencies: BTreeMap<u64, Vec<i64>>,
    /// The in-flight depth.
    pub(super) in_flight: Depth,
    /// Whether blktrace dropped nothing.
    pub(super) is_whole: bool,
}

impl Trace {
    /// Reads the capture in a folder that `traced-job` filled.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("blktrace.txt");
        let talk =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = output_of(
            Command::new("blkparse").args(["-q", "-i", "trace", "-f", FORMAT]).current_dir(folder),
        )?;
        Ok(Self { is_whole: dropped_nothing(&talk), ..parse(&text) })
    }
}

/// Whether blktrace's last words count no lost event: `Total: N events (dropped 0), …`.
fn dropped_nothing(talk: &str) -> bool {
    talk.lines().any(|line| line.trim().starts_with("Total:") && line.contains("(dropped 0)"))
}

/// Pairs issues and completions of a sector first in, first out.
fn parse(text: &str) -> Trace {
    let mut trace = Trace::default();
    let mut steps = Vec::new();
    let mut open: BTreeMap<u64, VecDeque<i64>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let action = words.next();
        if !matches!(action, Some("D" | "C")) {
            continue;
        }
        let mut number = || words.next()?.parse::<i64>().ok();
        let (Some(seconds), Some(nanos), Some(sector)) = (number(), number(), number()) else {
            continue;
        };
        let (time, sector) = (seconds * 1_000_000_000 + nanos, sector.cast_unsigned());
        if action == Some("D") {
            trace.issues += 1;
            steps.push((time, 1));
            open.entry(sector).or_default().push_back(time);
        } else {
            trace.completions += 1;
            steps.push((time, -1));
            if let Some(issue) = open.get_mut(&sector).and_then(VecDeque::pop_front) {
                trace.latencies.entry(sector).or_default().push(time - issue);
            }
        }
    }
    trace.in_flight = Depth::of(steps);
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_by_blktrace() {
        assert!(dropped_nothing("  Total:   7 events (dropped 0), 5452 KiB data"));
        assert!(!dropped_nothing("  Total:   7 events (dropped 12), 5452 KiB data"));
        assert!(!dropped_nothing(""));
    }

    #[test]
    fn issues_and_completions_pair_by_sector() {
        let text = "Q 0 0 8 8\nD 0 000000100 8 8\nD 0 000000300 16 8\nC 1 000000000 16 8\n\
                    C 1 000000500 8 8\nC 1 000000900 99 0\n";
        let expected = Trace {
            issues: 2,
            completions: 3,
            latencies: BTreeMap::from([(8, vec![1_000_000_400]), (16, vec![999_999_700])]),
            in_flight: Depth { most: 2, above_one: 1 },
            is_whole: false,
        };
        assert_eq!(parse(text), expected);
    }
}
