//! Real texts of other people, and the right answers that were found by hand.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

use iotrace_model::{Cause, Item, Ledger, Request, Status};
use iotrace_parse::{
    About, Progress, Reader, Records, TraceTextOptions, TraceTextReader, looks_like_biosnoop,
    looks_like_ftrace, looks_like_perf_script,
};
use iotrace_requests::Assembler;
use iotrace_testkit::beside;

/// What a text holds.
struct Whole {
    /// Events by the name of their action.
    counts: BTreeMap<&'static str, u64>,
    /// By section.
    requests: Vec<Vec<Request>>,
    ledger: Ledger,
    records: Records,
    about: About,
}

fn read(name: &str) -> Option<Whole> {
    let path = beside(&format!("corpus/samples/{name}"))?;
    let file = BufReader::new(File::open(path).unwrap());
    let mut reader = TraceTextReader::open(file, name, TraceTextOptions::default()).unwrap();
    let (mut counts, mut ledger) = (BTreeMap::new(), Ledger::default());
    let (mut requests, mut items) = (vec![Vec::new()], Vec::new());
    let mut assembler = Assembler::new();
    loop {
        let progress = reader.next_batch(&mut items).unwrap();
        let section = requests.last_mut().unwrap();
        for item in items.drain(..) {
            if let Item::Event(event) = item {
                *counts.entry(event.action.name().unwrap()).or_default() += 1;
            }
            assembler.push(&item, section);
        }
        match progress {
            Progress::More => {}
            Progress::Restart => {
                std::mem::take(&mut assembler).finish(section);
                requests.push(Vec::new());
            }
            Progress::End => {
                assembler.finish(section);
                break;
            }
        }
    }
    ledger.merge(&reader.take_ledger());
    Some(Whole { counts, requests, ledger, records: reader.records(), about: reader.about() })
}

impl Whole {
    /// Microseconds from issue to completion, by section, in the order of completion.
    fn d2c(&self) -> Vec<Vec<i64>> {
        let of = |section: &Vec<Request>| {
            let mut done: Vec<_> = section
                .iter()
                .filter_map(|r| Some((r.complete?.time, r.d2c()?.0 / 1000)))
                .collect();
            done.sort_unstable();
            done.into_iter().map(|(_, d2c)| d2c).collect()
        };
        self.requests.iter().map(of).collect()
    }

    #[track_caller]
    fn check(&self, counts: &[(&str, u64)], foreign: u64, malformed: u64) {
        let found: Vec<_> = self.counts.iter().map(|(name, count)| (*name, *count)).collect();
        assert_eq!(found, counts);
        let used = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(self.records, Records { read: used + foreign + malformed, used });
        assert_eq!(self.ledger.count(Cause::Foreign), foreign);
        assert_eq!(self.ledger.count(Cause::Malformed), malformed);
    }
}

#[test]
fn two_captures_in_one_text_are_kept_apart() {
    let Some(whole) = read("s25-scsi-iomap-6.9.ftrace.txt") else { return };
    let counts = [
        ("back_merge", 1),
        ("complete", 5),
        ("get", 5),
        ("insert", 2),
        ("issue", 5),
        ("plug", 4),
        ("queue", 6),
        ("unplug", 2),
    ];
    whole.check(&counts, 22, 0);
    assert_eq!(whole.d2c(), [vec![671, 524, 523], vec![591, 396]]);
}

#[test]
fn a_text_that_a_mailer_wrapped_is_read() {
    let Some(whole) = read("s27-ufs-direct-io-wrapped.ftrace.txt") else { return };
    let counts = [
        ("complete", 6),
        ("get", 9),
        ("insert", 8),
        ("issue", 8),
        ("queue", 7),
        ("remap", 7),
        ("split", 6),
    ];
    whole.check(&counts, 2, 9);
    assert_eq!(whole.d2c(), [[1354, 4098, 2194, 2096, 2616, 3135]]);
    let issued = whole.requests[0].iter().filter(|r| r.issue.is_some() && r.complete.is_none());
    let mut pending: Vec<_> = issued.map(|request| request.sector.unwrap().0).collect();
    pending.sort_unstable();
    assert_eq!(pending, [138_581_352, 138_582_376]);
}

#[test]
fn a_failed_request_is_one_request() {
    let Some(whole) = read("s28-nullblk-error-5.17.ftrace.txt") else { return };
    whole.check(&[("complete", 1)], 1, 0);
    assert_eq!(whole.d2c(), [Vec::<i64>::new()]);
    let errors: Vec<_> = whole.requests[0].iter().map(|r| (r.error, r.status)).collect();
    assert_eq!(errors, [(Some(-5), Status::StartedBefore)]);
    assert!(whole.about.notes.iter().all(|note| !note.contains("overwrote")));
}

#[test]
fn a_record_of_one_task_has_no_completions() {
    let Some(whole) = read("s31-luks-lvm-nvme.perfscript.txt") else { return };
    let counts = [("get", 4), ("issue", 4), ("plug", 4), ("queue", 12), ("remap", 12)];
    whole.check(&counts, 14, 0);
    assert_eq!(whole.d2c(), [Vec::<i64>::new()]);
}

#[test]
fn issues_alone_are_read_with_their_priority() {
    let Some(whole) = read("s33-issue-only-mixed-6.x.perfscript.txt") else { return };
    whole.check(&[("issue", 9)], 1, 0);
    let lengths: Vec<_> = whole.requests[0].iter().map(|request| request.length_bytes).collect();
    assert_eq!(lengths, [[131_072; 8].as_slice(), &[4096]].concat());
    assert!(whole.requests[0].iter().all(|request| request.io_priority == Some(16388)));
}

#[test]
fn every_text_of_the_corpus_tells_its_kind() {
    let Some(folder) = beside("corpus/samples") else { return };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let has = |is: fn(&[u8]) -> bool| text.lines().any(|line| is(line.as_bytes()));
        let kinds = [has(looks_like_perf_script), has(looks_like_ftrace), has(looks_like_biosnoop)];
        if kinds != [false; 3] {
            found.push((name.split_once('-').unwrap().0.to_owned(), kinds));
        }
    }
    found.sort_unstable();
    let (perf, ftrace, biosnoop) =
        ([true, false, false], [false, true, false], [false, false, true]);
    let expected = [
        ("s25", ftrace),
        ("s27", ftrace),
        ("s28", ftrace),
        ("s31", perf),
        ("s33", perf),
        ("s34", biosnoop),
    ];
    assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
}
