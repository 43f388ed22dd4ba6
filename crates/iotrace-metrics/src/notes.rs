//! What else a reader of a comparison must know: how its numbers came about, and what else
//! differed between the sides.

use std::collections::{BTreeMap, BTreeSet};

use iotrace_model::{Fact, Facts, RunSummary};

use crate::compare::Side;
use crate::difference::FEWEST_PAIRS;

/// More settings than this are only counted.
const MOST_SETTINGS: usize = 8;
/// Facts that name a device or a place and are no settings.
const NAMES: [&str; 6] = ["serial", "wwid", "backing_file", "dm_name", "partition", "mounts"];

/// How the numbers of a comparison came about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) pairs: usize,
    pub(crate) primaries: usize,
    pub(crate) secondaries: usize,
    /// Whether repetitions of a device are copies of each other.
    pub(crate) has_copies: bool,
}

/// One sentence each.
pub(crate) fn notes(
    baseline: &Side<'_>,
    candidate: &Side<'_>,
    situation: Situation,
) -> Vec<String> {
    let mut notes = on_method(baseline.len().max(candidate.len()), situation);
    for (name, side) in [("baseline", baseline), ("candidate", candidate)] {
        notes.extend(on_side(name, side));
    }
    let settings = on_settings(baseline, candidate);
    let left_out = settings.len().saturating_sub(MOST_SETTINGS);
    notes.extend(settings.into_iter().take(MOST_SETTINGS));
    if left_out > 0 {
        notes.push(format!("{left_out} more settings of the devices differ between the sides"));
    }
    notes
}

fn on_method(runs: usize, situation: Situation) -> Vec<String> {
    let Situation { pairs, primaries, secondaries, has_copies } = situation;
    let mut notes = Vec::new();
    if pairs < FEWEST_PAIRS {
        notes.push(format!(
            "{pairs} paired {} a side: intervals are within these runs only and decide nothing; \
             a verdict needs {FEWEST_PAIRS} repetitions or more",
            if pairs == 1 { "run" } else { "runs" }
        ));
    } else if has_copies {
        notes.push(format!(
            "all {pairs} pairs of runs give the same ratio of throughput: copies of a run are no \
             repetitions, so intervals are within these runs only and decide nothing"
        ));
    } else {
        if primaries > 1 {
            notes.push(format!(
                "throughput was named in advance; its intervals on {primaries} devices are 95 % \
                 for all of them together (Bonferroni)"
            ));
        }
        if secondaries > 0 {
            notes.push(format!(
                "throughput was named in advance; the intervals of the {secondaries} other \
                 differences are wider, 95 % for all of them together (Bonferroni)"
            ));
        }
    }
    if pairs > 0 && runs > pairs {
        notes.push("runs without a partner of the same repetition are not compared".to_owned());
    }
    notes
}

fn on_side(name: &str, side: &Side<'_>) -> Vec<String> {
    let runs = || side.iter().map(|(run, _)| run);
    let count = |is: fn(&RunSummary) -> bool| runs().filter(|run| is(run)).count();
    let mut notes = Vec::new();
    let lost: u64 = runs().map(|run| run.ledger.lost()).sum();
    if lost > 0 {
        notes.push(format!("{name}: {lost} events were lost"));
    } else if runs().any(|run| run.ledger.is_incomplete()) {
        notes.push(format!("{name}: the capture is incomplete"));
    }
    let devices = || runs().flat_map(|run| &run.devices);
    let left_out: u64 = devices().flat_map(|one| &one.left_out).map(|(_, count)| count).sum();
    if left_out > 0 {
        notes.push(format!("{name}: {left_out} requests are left out, as the run tables say"));
    }
    let errors: u64 = devices().flat_map(|one| &one.ops).map(|op| op.errors).sum();
    if errors > 0 {
        notes.push(format!("{name}: {errors} requests completed with an error"));
    }
    let failed = count(|run| run.exit_code.is_some_and(|code| code != 0));
    if failed > 0 {
        notes.push(format!("{name}: the workload failed in {failed} of {} runs", side.len()));
    }
    let unknown = count(|run| run.exit_code.is_none());
    if unknown > 0 {
        notes.push(format!(
            "{name}: {unknown} of {} runs have no exit code: the workload was killed or not run \
             by iotrace",
            side.len()
        ));
    }
    notes
}

/// Settings with other values on one side than on the other.
fn on_settings(baseline: &Side<'_>, candidate: &Side<'_>) -> Vec<String> {
    let (baseline, candidate) = (settings(baseline), settings(candidate));
    let names: BTreeSet<_> = baseline.keys().chain(candidate.keys()).collect();
    let mut notes = Vec::new();
    for name in names {
        let (one, other) = (baseline.get(name), candidate.get(name));
        if one != other {
            let words = |values: Option<&BTreeSet<String>>| {
                values.map_or_else(
                    || "not known".to_owned(),
                    |values| values.iter().map(String::as_str).collect::<Vec<_>>().join(" or "),
                )
            };
            let (device, setting) = name;
            notes.push(format!(
                "{setting} of {device}: {} on the baseline, {} on the candidate",
                words(one),
                words(other)
            ));
        }
    }
    notes
}

/// Device and setting, and its values in all runs of a side.
fn settings(side: &Side<'_>) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut settings: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for device in side.iter().flat_map(|(_, sample)| &sample.facts) {
        let mut add = |name: String, value: String| {
            settings.entry((device.name.clone(), name)).or_default().insert(value);
        };
        if let Some(depth) = device.queue_depth {
            add("queue_depth".to_owned(), depth.to_string());
        }
        flatten("", &device.facts, &mut add);
    }
    settings
}

fn flatten(prefix: &str, Facts(facts): &Facts, add: &mut impl FnMut(String, String)) {
    for (name, fact) in facts.iter().filter(|(name, _)| !NAMES.contains(&name.as_str())) {
        let name = format!("{prefix}{name}");
        match fact {
            Fact::Table(inner) => flatten(&format!("{name}."), inner, &mut *add),
            Fact::Text(text) => add(name, text.clone()),
            Fact::Number(number) => add(name, number.to_string()),
            Fact::Flag(flag) => add(name, if *flag { "yes" } else { "no" }.to_owned()),
            // Lists hold hardware queues and the like: no settings.
            Fact::List(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use iotrace_model::{Cause, DeviceFacts, DeviceSummary, Ledger, Status};

    use super::*;
    use crate::bootstrap::RunSample;

    fn run(queue_depth: u32, scheduler: &str) -> (RunSummary, RunSample) {
        let mut facts = Facts::default();
        facts.set("scheduler", Some(scheduler));
        facts.set("serial", Some(format!("serial of depth {queue_depth}")));
        let mut parameters = Facts::default();
        parameters.set("fifo", Some(i64::from(queue_depth)));
        facts.set("scheduler_parameters", Some(parameters));
        let name = "sda".to_owned();
        let facts =
            DeviceFacts { name, queue_depth: Some(queue_depth), facts, ..DeviceFacts::default() };
        let run = RunSummary { exit_code: Some(0), ..RunSummary::default() };
        (run, RunSample::new(&[facts]))
    }

    const PLAIN: Situation =
        Situation { pairs: 3, primaries: 1, secondaries: 0, has_copies: false };

    #[track_caller]
    fn check(
        baseline: &(RunSummary, RunSample),
        candidate: &(RunSummary, RunSample),
        situation: Situation,
        expected: &[&str],
    ) {
        assert_eq!(notes(&vec![baseline], &vec![candidate], situation), expected);
    }

    #[test]
    fn equal_sides_need_no_note() {
        check(&run(32, "none"), &run(32, "none"), PLAIN, &[]);
    }

    #[test]
    fn settings_that_differ_are_told_and_names_are_not() {
        check(
            &run(32, "none"),
            &run(1, "none"),
            PLAIN,
            &[
                "queue_depth of sda: 32 on the baseline, 1 on the candidate",
                "scheduler_parameters.fifo of sda: 32 on the baseline, 1 on the candidate",
            ],
        );
        check(
            &run(32, "none"),
            &run(32, "bfq"),
            PLAIN,
            &["scheduler of sda: none on the baseline, bfq on the candidate"],
        );
    }

    #[test]
    fn what_weakens_a_side_is_told() {
        let (mut broken, sample) = run(32, "none");
        let mut ledger = Ledger::default();
        ledger.add(Cause::KernelLost, None, None, 5);
        broken.ledger = ledger;
        broken.exit_code = Some(2);
        let left_out = vec![(Status::Lost, 3)];
        broken.devices = vec![DeviceSummary { left_out, ..DeviceSummary::default() }];
        check(
            &(broken, sample),
            &run(32, "none"),
            PLAIN,
            &[
                "baseline: 5 events were lost",
                "baseline: 3 requests are left out, as the run tables say",
                "baseline: the workload failed in 1 of 1 runs",
            ],
        );
    }

    #[test]
    fn the_method_is_told() {
        let one = run(32, "none");
        check(
            &one,
            &one,
            Situation { pairs: 1, ..PLAIN },
            &["1 paired run a side: intervals are within these runs only and decide nothing; a \
               verdict needs 3 repetitions or more"],
        );
        check(
            &one,
            &one,
            Situation { secondaries: 6, ..PLAIN },
            &["throughput was named in advance; the intervals of the 6 other differences are \
               wider, 95 % for all of them together (Bonferroni)"],
        );
    }
}
