//! Our figures against what btt printed for the same records, digit by digit.
//!
//! The records and btt's output (of blktrace 1.2, and of 1.3 where it differs) are kept beside
//! the repository. Every figure that the two have in common is compared; each deliberate
//! difference stands in the case with its reason.

#![expect(clippy::unwrap_used, reason = "a test stops at the first failure")]

use std::collections::BTreeMap;
use std::path::Path;

use iotrace_metrics::Btt;
use iotrace_model::{
    Action, BttMerges, BttOverhead, BttSeeks, BttSummary, Comm, Cpu, DeviceId, Event, Flags, Nanos,
    Op, Remap, Sector,
};
use iotrace_testkit::beside;
use serde_json::Value;

/// A line of btt that is deliberately another one here.
struct Difference {
    section: &'static str,
    btt: &'static str,
    ours: &'static str,
}

const fn differs(section: &'static str, btt: &'static str, ours: &'static str) -> Difference {
    Difference { section, btt, ours }
}

const ALL: &str = "All Devices";
const OVERHEAD: &str = "Device Overhead";
const MERGES: &str = "Device Merge Information";
const Q2Q_SEEKS: &str = "Device Q2Q Seek Information";
const D2D_SEEKS: &str = "Device D2D Seek Information";
const PLUGS: &str = "Plug Information";
const REQUESTS: &str = "Active Requests At Q Information";
const SECTIONS: [&str; 7] = [ALL, OVERHEAD, MERGES, Q2Q_SEEKS, D2D_SEEKS, PLUGS, REQUESTS];

#[test]
fn plain_reads_and_writes_agree() {
    check("a_plain", "", "btt.avg", &[]);
}

#[test]
fn big_endian_and_version_8_give_the_figures_of_their_plain_twin() {
    check("k_big_endian", "", "btt.avg", &[]);
    check("l_version8", "", "../a_plain/btt.avg", &[]);
}

#[test]
fn merges_and_plugs_agree() {
    check("b_merge", "", "btt.avg", &[]);
}

#[test]
fn requeues_agree() {
    check("c_requeue", "", "btt.avg", &[]);
}

#[test]
fn remapping_devices_agree_with_the_newer_btt() {
    check("d_dm", "", "btt-1.3.0.avg", &[]);
}

#[test]
fn the_older_btt_pairs_a_remap_with_a_bio_around_its_sector() {
    // The second piece of a split bio starts inside the bio.
    let longer = "Q2Adm 0.000000500 0.000001575 0.000004500 4";
    let exact = "Q2Adm 0.000000500 0.000000600 0.000000700 3";
    check("d_dm", "", "btt.avg", &[differs(ALL, longer, exact)]);
}

#[test]
fn a_disk_and_its_partition_agree() {
    check("e_part", "sda.", "btt-sda.avg", &[]);
    check("e_part", "sda1.", "btt-sda1.avg", &[]);
}

#[test]
fn flushes_are_left_out_as_by_btt() {
    check("f_flush", "", "btt.avg", &[]);
}

#[test]
fn lost_events_agree() {
    check("g_gap", "", "btt.avg", &[]);
}

#[test]
fn errors_and_partial_completions_agree() {
    check("i_error", "", "btt.avg", &[]);
}

#[test]
fn splits_agree_with_the_newer_btt() {
    check("j_split", "", "btt-1.3.0.avg", &[]);
}

#[test]
fn the_older_btt_pairs_the_pieces_of_a_split_with_the_whole() {
    let both = "Q2G 0.000001500 0.000002750 0.000004000 2";
    let first = "Q2G 0.000001500 0.000001500 0.000001500 1";
    let both_inserts = "G2I 0.000000500 0.000000500 0.000000500 2";
    let first_insert = "G2I 0.000000500 0.000000500 0.000000500 1";
    let differences = [differs(ALL, both, first), differs(ALL, both_inserts, first_insert)];
    check("j_split", "", "btt.avg", &differences);
}

#[test]
fn events_with_a_cgroup_count_here_and_not_in_btt() {
    // The write of the three I/Os is tagged: 500 ns to its request, 50 µs in the drive.
    let differences = [
        differs(
            ALL,
            "Q2Q 0.000300000 0.000300000 0.000300000 1",
            "Q2Q 0.000099600 0.000150000 0.000200400 2",
        ),
        differs(
            ALL,
            "Q2G 0.000001000 0.000001000 0.000001000 2",
            "Q2G 0.000000500 0.000000833 0.000001000 3",
        ),
        differs(
            ALL,
            "D2C 0.000050000 0.000075000 0.000100000 2",
            "D2C 0.000050000 0.000066667 0.000100000 3",
        ),
        differs(
            ALL,
            "Q2C 0.000052000 0.000077000 0.000102000 2",
            "Q2C 0.000051100 0.000068367 0.000102000 3",
        ),
        differs(
            OVERHEAD,
            "(8,0) 1.2987% 0.0000% 0.0000% 0.0000% 97.4026%",
            "(8,0) 1.2189% 0.0000% 0.0000% 0.0000% 97.5134%",
        ),
        differs(
            OVERHEAD,
            "Overall 1.2987% 0.0000% 0.0000% 0.0000% 97.4026%",
            "Overall 1.2189% 0.0000% 0.0000% 0.0000% 97.5134%",
        ),
        differs(MERGES, "(8,0) 2 2 1.0 8 8 8 16", "(8,0) 3 3 1.0 8 8 8 24"),
        differs(Q2Q_SEEKS, "(8,0) 2 2496.0", "(8,0) 3 1661.3"),
        differs(D2D_SEEKS, "(8,0) 2 2496.0", "(8,0) 3 1661.3"),
    ];
    check("h_notify", "", "btt.avg", &differences);
}

/// Holds our figures for the records of some files of a case to a file of btt's.
#[track_caller]
fn check(case: &str, files: &str, golden: &str, differences: &[Difference]) {
    let Some(folder) = beside(&format!("reference/golden/{case}")) else { return };
    let mut btt = Btt::new();
    for event in events(&folder.join("records.jsonl"), files) {
        btt.push(&event);
    }
    let ours = our_lines(&btt.finish());
    let mut theirs = their_lines(&std::fs::read_to_string(folder.join(golden)).unwrap());
    for Difference { section, btt, ours } in differences {
        let mut lines = theirs.get_mut(section).unwrap().iter_mut();
        let line = lines.find(|line| line == btt).expect("btt has the line that differs");
        (*ours).clone_into(line);
    }
    for lines in theirs.values_mut() {
        lines.sort();
    }
    assert_eq!(ours, theirs, "{case}/{golden}");
}

/// The compared sections of btt's output: in each line single blanks, no bars, and only the
/// columns that we have; sorted.
fn their_lines(text: &str) -> BTreeMap<&'static str, Vec<String>> {
    let mut sections: BTreeMap<_, _> = SECTIONS.map(|section| (section, Vec::new())).into();
    let mut section = "";
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("====================") {
            let title = title.trim_matches(['=', ' ']);
            section = SECTIONS.into_iter().find(|known| *known == title).unwrap_or("");
            continue;
        }
        let Some(lines) = sections.get_mut(section) else { continue };
        let mut line = line.replace('|', " ");
        while line.contains("( ") || line.contains(", ") {
            line = line.replace("( ", "(").replace(", ", ",");
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((first, rest)) = words.split_first() else { continue };
        let of_all = ["Overall", "TOTAL"].contains(first) && rest.iter().all(|one| is_number(one));
        let of_stage = section == ALL && rest.len() == 4 && rest.iter().all(|one| is_number(one));
        let of_device = first.starts_with('(') && (section != PLUGS || line.contains('%'));
        if of_all || of_stage || of_device {
            let columns = if [Q2Q_SEEKS, D2D_SEEKS].contains(&section) { 3 } else { words.len() };
            lines.push(words[..columns].join(" "));
        }
    }
    sections
}

fn is_number(word: &str) -> bool {
    word.trim_end_matches('%').parse::<f64>().is_ok()
}

/// Our figures as lines of the same form.
fn our_lines(summary: &BttSummary) -> BTreeMap<&'static str, Vec<String>> {
    let mut sections: BTreeMap<_, _> = SECTIONS.map(|section| (section, Vec::new())).into();
    let mut push = |section, line: String| sections.get_mut(section).unwrap().push(line);
    for line in &summary.stages {
        let [min, max] = [line.min, line.max].map(seconds);
        #[expect(clippy::cast_precision_loss, reason = "as btt divides")]
        let mean = seconds(line.total) / line.count as f64;
        let name = line.stage.name();
        push(ALL, format!("{name} {min:.9} {mean:.9} {max:.9} {}", line.count));
    }
    for device in &summary.devices {
        let name = format!("({},{})", device.device.major, device.device.minor);
        if let Some(overhead) = device.overhead {
            push(OVERHEAD, overhead_line(&name, overhead));
        }
        if let Some(merges) = device.merges {
            push(MERGES, merges_line(&name, merges));
        }
        let seeks = |seeks: BttSeeks| format!("{name} {} {:.1}", seeks.count, seeks.mean);
        device.queue_seeks.iter().for_each(|one| push(Q2Q_SEEKS, seeks(*one)));
        device.issue_seeks.iter().for_each(|one| push(D2D_SEEKS, seeks(*one)));
        if let Some(plugs) = device.plugs {
            let (count, timer) = (plugs.plugs, plugs.timer_unplugs);
            push(PLUGS, format!("{name} {count}({timer}) {:.9}%", plugs.percent_plugged));
        }
        if let Some(requests) = device.requests_at_queue {
            push(REQUESTS, format!("{name} {requests:.1}"));
        }
    }
    if let Some(overhead) = summary.overhead {
        push(OVERHEAD, overhead_line("Overall", overhead));
    }
    if let Some(merges) = summary.merges {
        push(MERGES, merges_line("TOTAL", merges));
    }
    for lines in sections.values_mut() {
        lines.sort();
    }
    sections
}

fn overhead_line(name: &str, overhead: BttOverhead) -> String {
    let BttOverhead { q2g, g2i, q2m, i2d, d2c } = overhead;
    format!("{name} {q2g:.4}% {g2i:.4}% {q2m:.4}% {i2d:.4}% {d2c:.4}%")
}

fn merges_line(name: &str, merges: BttMerges) -> String {
    let BttMerges { queued, issued, ratio, smallest, mean, largest, total } = merges;
    format!("{name} {queued} {issued} {ratio:.1} {smallest} {mean} {largest} {total}")
}

#[expect(clippy::cast_precision_loss, reason = "as btt converts")]
fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

/// The events of the files that begin so, in the order of time, CPU and place.
fn events(path: &Path, files: &str) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap();
    let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut events: Vec<Event> = records
        .filter(|record: &Value| record["file"].as_str().unwrap().starts_with(files))
        .filter_map(|record| event(&record))
        .collect();
    events.sort_by_key(|event| (event.time, event.cpu));
    let start = events.first().unwrap().time;
    for event in &mut events {
        event.time = event.time - start;
    }
    events
}

/// A record as an importer makes an event of it; `None` for a notify record.
fn event(record: &Value) -> Option<Event> {
    let number = |name: &str| record[name].as_u64().unwrap();
    let word = record["action"].as_str().unwrap().strip_prefix("0x").unwrap();
    let word = u64::from_str_radix(word, 16).unwrap();
    let has = |category: u64| word >> 16 & category != 0;
    if has(0x0400) {
        return None;
    }
    let is_tagged = word & 0x100 != 0;
    let mut payload = bytes(record["pdu"].as_str().unwrap());
    if is_tagged {
        payload.drain(..8);
    }
    let action = match word & 0xff {
        1 => Action::Queue,
        2 if has(0x0100) => Action::RequestMerge,
        2 => Action::BackMerge,
        3 => Action::FrontMerge,
        4 => Action::Get,
        5 => Action::Sleep,
        6 => Action::Requeue,
        7 => Action::Issue,
        8 if has(0x0300) => Action::Complete,
        8 => Action::BioComplete,
        9 => Action::Plug,
        10 => Action::Unplug,
        11 => Action::UnplugTimer,
        12 => Action::Insert,
        13 => Action::Split,
        15 => Action::Remap,
        code => Action::Unknown(u16::try_from(code).unwrap()),
    };
    let is_passthrough = has(0x0200);
    let device = DeviceId::parse(&record["device"].as_str().unwrap().replace(',', ":"));
    let remap = (action == Action::Remap).then(|| {
        let from = u32::from_be_bytes(payload[..4].try_into().unwrap());
        let sector = u64::from_be_bytes(payload[8..16].try_into().unwrap());
        let to = u32::from_be_bytes(payload[4..8].try_into().unwrap());
        (Remap { device: DeviceId::from_kernel(from), sector: Sector(sector) }, to)
    });
    Some(Event {
        time: Nanos(i64::try_from(number("time")).unwrap()),
        cpu: Cpu(u32::try_from(number("cpu")).unwrap()),
        sequence: number("sequence"),
        device: remap.map(|(_, to)| DeviceId::from_kernel(to)).or(device),
        action,
        op: if is_passthrough {
            Op::Other
        } else if has(0x0002) {
            Op::Write
        } else {
            Op::Read
        },
        flags: Flags::default(),
        sector: (!is_passthrough).then(|| Sector(number("sector"))),
        length_bytes: number("bytes"),
        pid: u32::try_from(number("pid")).unwrap(),
        comm: Comm::default(),
        error: None,
        remap: remap.map(|(from, _)| from),
        cgroup: is_tagged.then_some(1),
        io_priority: None,
        tag: None,
        protocol: None,
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}
