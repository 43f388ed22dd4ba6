//! The reports of imports: where they came from, and what their traces could not tell.

#![expect(clippy::unwrap_used, reason = "a test stops at the first failure")]

use iotrace_model::{
    DeviceSummary, LatencySummary, Nanos, Op, OpSummary, RunSummary, Stage, Status, Summary,
};
use iotrace_report::{Colour, Context, Report};

/// A device whose reads have the given latencies, and no others.
fn device(stages: &[Stage]) -> DeviceSummary {
    let latency = |stage: Stage| {
        let count = if stages.contains(&stage) { 3 } else { 0 };
        let (min, max) = (Nanos(10), Nanos(10));
        (stage, LatencySummary { count, mean_ns: 10.0, min, max, ..LatencySummary::default() })
    };
    let read = OpSummary {
        op: Op::Read,
        requests: 3,
        bytes: 1536,
        errors: 0,
        iops: 1.0,
        bytes_per_second: 512.0,
        merges: 0,
        requeues: 0,
        latencies: Stage::ALL.map(latency).to_vec(),
    };
    DeviceSummary { requests: 3, ops: vec![read], ..unnamed() }
}

fn unnamed() -> DeviceSummary {
    DeviceSummary { name: "8:0".to_owned(), ..DeviceSummary::default() }
}

/// The text on a wide terminal, and that of the other two outputs.
fn outputs(device: DeviceSummary) -> [String; 3] {
    let run = RunSummary { devices: vec![device], ..RunSummary::default() };
    let summary = Summary { runs: vec![run], comparisons: Vec::new() };
    let imported = vec!["blktrace 7, little-endian".to_owned()];
    let context = Context { title: "old.iotrace".to_owned(), imported, ..Context::default() };
    let report = Report::new(&summary, &context);
    let json = iotrace_report::json(&summary, &context).unwrap();
    assert!(json.contains("\"imported\": [\n    \"blktrace 7, little-endian\"\n  ]"), "{json}");
    [
        iotrace_report::terminal(&report, 1000, Colour::No),
        iotrace_report::markdown(&report),
        iotrace_report::html(&report).unwrap(),
    ]
}

#[track_caller]
fn check(device: DeviceSummary, expected: &[&str], not: &[&str]) {
    let outputs = outputs(device);
    let [terminal, ..] = &outputs;
    for sentence in expected {
        let terminal = terminal.replace('\u{202f}', " ");
        assert!(terminal.contains(&format!("! {sentence}\n")), "{terminal}");
    }
    for words in not {
        assert!(!terminal.contains(words), "{terminal}");
    }
    for text in &outputs {
        assert!(text.contains("blktrace 7, little-endian"), "{text}");
    }
    let [_, mail, page] = &outputs;
    for (text, label) in [(terminal, "command "), (mail, "command"), (page, "<dt>command")] {
        assert!(!text.contains(label), "{text}");
    }
}

#[test]
fn a_whole_import_says_only_where_it_came_from() {
    check(device(&Stage::ALL), &[], &["!"]);
}

#[test]
fn what_no_event_tells_is_said_to_be_missing() {
    let no_queue = "8:0: no queue event of a request was seen, so waiting, total latency and \
                    queue depth are missing";
    let no_issue = "8:0: no issue of a request was seen, so completion latency, in-flight depth \
                    and reordering are missing";
    check(device(&[Stage::D2C]), &[no_queue], &[no_issue]);
    check(device(&[Stage::Q2C]), &[no_issue], &[no_queue]);
    check(device(&[]), &[no_queue, no_issue], &[]);
}

#[test]
fn a_depth_that_was_not_seen_is_not_zero() {
    let [terminal, ..] = outputs(device(&[Stage::Q2C]));
    let mut lines = terminal.lines().skip_while(|line| !line.contains("in flight"));
    let (head, row) =
        (lines.next().unwrap(), lines.find(|line| line.starts_with("default")).unwrap());
    assert_eq!(row.split_whitespace().skip(1).collect::<Vec<_>>(), ["–"; 7], "{head}");
}

#[test]
fn a_trace_of_completions_alone_says_that_nothing_was_measured() {
    let left_out = vec![(Status::Unfinished, 1), (Status::StartedBefore, 1200)];
    let sentence = "8:0: nothing could be measured, none of the 1 201 requests was seen whole: \
                    1 not completed, 1 200 with no beginning in the trace";
    check(DeviceSummary { left_out, ..unnamed() }, &[sentence], &["no queue event"]);
}
