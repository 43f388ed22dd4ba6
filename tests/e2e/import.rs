//! `iotrace import`: real traces of other people, with the answers that were found by hand.
//!
//! Latencies are issue to completion in nanoseconds, from the last issue.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use iotrace_model::{Op, Request, Status};
use iotrace_testkit::beside;

use crate::support::{check_exit, iotrace, requests, run};

/// An import of a sample: what was said, and where the dataset lies.
struct Imported {
    output: Output,
    dataset: PathBuf,
    _folder: tempfile::TempDir,
}

impl Imported {
    fn rows(&self, run: usize) -> Vec<Request> {
        requests(&self.dataset.join(format!("runs/rep={run}")))
    }

    fn runs(&self) -> usize {
        std::fs::read_dir(self.dataset.join("runs")).unwrap().count()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// Imports a sample of the corpus; `None` where there is none.
#[track_caller]
fn import(sample: &str, code: i32) -> Option<Imported> {
    let path = beside("corpus/samples")?.join(sample);
    Some(import_with(&path, &[], code))
}

#[track_caller]
fn import_with(path: &Path, arguments: &[&str], code: i32) -> Imported {
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("t.iotrace");
    let output = run(iotrace().args(["import", "-o"]).arg(&dataset).args(arguments).arg(path));
    check_exit(&output, code);
    Imported { output, dataset, _folder: folder }
}

/// Latencies of the complete requests that fit, in the order of their completions.
fn d2c(rows: &[Request], fits: impl Fn(&Request) -> bool) -> Vec<i64> {
    let mut complete: Vec<_> =
        rows.iter().filter(|row| row.status == Status::Complete && fits(row)).collect();
    complete.sort_by_key(|row| row.complete.map(|stamp| stamp.time));
    complete.iter().filter_map(|row| row.d2c()).map(|latency| latency.0).collect()
}

fn has_data(row: &Request) -> bool {
    row.sector.is_some() && row.op != Op::Flush
}

/// Number, smallest, largest and rounded mean.
fn sum_up(latencies: &[i64]) -> (usize, i64, i64, i64) {
    let count = i64::try_from(latencies.len()).unwrap();
    let (min, max) = (latencies.iter().min().unwrap(), latencies.iter().max().unwrap());
    (latencies.len(), *min, *max, (latencies.iter().sum::<i64>() + count / 2) / count)
}

#[test]
fn issues_and_completions_alone_give_the_latency_of_the_drive() {
    let Some(trace) = import("s01-sdd4-zfs-trim-8cpu/sdd4", 0) else { return };
    let rows = trace.rows(0);
    let all = d2c(&rows, |_| true);
    assert_eq!((all.len(), d2c(&rows, has_data).len()), (1182, 1158));
    assert_eq!(sum_up(&all).3, 210_470);
    assert_eq!((all.first(), all.last()), (Some(&843_237), Some(&2_777_637)));
    assert!(rows.iter().all(|row| row.status != Status::Unfinished));
    assert!(trace.stderr().contains("no queue events"), "{}", trace.stderr());
    // The partition is the only disk.
    assert!(rows.iter().all(|row| row.device.to_string() == "8:52"));
}

#[test]
fn a_merged_dump_needs_no_name_of_blktrace() {
    let Some(trace) = import("s03-loop-merged-dump/loop.bin", 0) else { return };
    let all = d2c(&trace.rows(0), |_| true);
    assert_eq!(sum_up(&all), (768, 3301, 187_163, 12_146));
    assert_eq!((all.first(), all.last()), (Some(&48_027), Some(&3301)));
}

#[test]
fn a_trace_that_begins_in_the_middle_says_what_started_before() {
    let Some(trace) = import("s04-sda-lvm-3.10-cpu0-only/sda", 0) else { return };
    let rows = trace.rows(0);
    let mut matched: Vec<_> = rows.iter().filter(|row| row.d2c().is_some()).collect();
    matched.sort_by_key(|row| row.complete.map(|stamp| stamp.time));
    let all: Vec<_> = matched.iter().filter_map(|row| row.d2c()).map(|ns| ns.0).collect();
    let (count, min, max, mean) = sum_up(&all);
    let micros = |ns: i64| (ns + 500) / 1000;
    assert_eq!((count, micros(min), micros(max), micros(mean)), (31, 231, 75_189, 10_537));
    assert_eq!((all.first(), all.last()), (Some(&383_903), Some(&308_903)));
    assert!(trace.stderr().contains("only the file of CPU 0 is there"), "{}", trace.stderr());
    // One was allocated in the trace but queued before, another has no issue in it.
    let before = rows.iter().filter(|row| row.status == Status::StartedBefore);
    assert_eq!(before.map(|row| row.d2c().is_some()).collect::<Vec<_>>(), [true, false]);
    assert!(rows.iter().all(|row| row.device.to_string() == "8:0"), "{rows:?}");
}

#[test]
fn flushes_are_a_class_of_their_own() {
    let Some(trace) = import("s06-nvme-dmcrypt-flush.blkparse.txt", 0) else { return };
    let rows = trace.rows(0);
    let data = d2c(&rows, has_data);
    assert_eq!(sum_up(&data), (119, 6743, 23_651_095, 1_439_475));
    assert_eq!((data.first(), data.last()), (Some(&23_549_326), Some(&375_871)));
    let flushes = d2c(&rows, |row| row.op == Op::Flush);
    assert_eq!((flushes.len(), flushes.first()), (23, Some(&765_385)));
    assert!(rows.iter().all(|row| row.op != Op::Read));
}

#[test]
fn completions_alone_have_no_latency_and_say_so() {
    for (sample, count) in
        [("s08-ramdisk-complete-only.blkparse.txt", 840), ("s15-track-ios-delta.blkparse.txt", 38)]
    {
        let Some(trace) = import(sample, 3) else { return };
        let rows = trace.rows(0);
        assert_eq!((rows.len(), d2c(&rows, |_| true).len()), (count, 0), "{sample}");
        assert!(trace.stderr().contains("completions only, so there is no latency"));
        let output = run(iotrace().arg("analyze").arg(&trace.dataset));
        check_exit(&output, 0);
    }
}

#[test]
fn captures_in_one_file_become_runs() {
    let Some(trace) = import("s09-nullblk-5.11-sections.blkparse.txt", 0) else { return };
    assert_eq!(trace.runs(), 6);
    for (place, latency) in [35_006, 43_902, 31_118, 44_523].into_iter().enumerate() {
        assert_eq!(d2c(&trace.rows(place), |_| true), [latency], "section {place}");
    }
    let discards = trace.rows(4);
    let discards = d2c(&discards, |row| row.op == Op::Discard && row.length_bytes == 4 * 512);
    assert_eq!((discards.len(), discards.first()), (20, Some(&31_449)));
    let requeued = trace.rows(5);
    let latencies = d2c(&requeued, |_| true);
    assert_eq!((latencies.len(), latencies[0], latencies[9]), (10, 28_043, 12_423));
    assert_eq!(requeued.iter().map(|row| row.requeues).sum::<u32>(), 3);
    assert!(requeued.iter().any(|row| row.q2c().map(|ns| ns.0) == Some(115_106)));
}

#[test]
fn a_live_text_is_put_in_order() {
    let Some(trace) = import("s10a-raid0-live-unsorted-5.4.blkparse.txt", 0) else { return };
    let all = d2c(&trace.rows(0), |_| true);
    assert_eq!(all, [42_108, 39_725, 42_996, 40_934, 31_290]);
}

#[test]
fn an_error_that_closes_a_chain_belongs_to_its_last_piece() {
    let Some(trace) = import("s11-zoned-nullblk-eio.blkparse.txt", 0) else { return };
    let rows = trace.rows(0);
    let with = |error| d2c(&rows, move |row: &Request| row.error == Some(error));
    assert_eq!((with(0), with(-5)), (vec![253_924], vec![1965]));
}

#[test]
fn priorities_in_the_columns_are_no_sectors() {
    let Some(trace) = import("s13-ioprio-columns.blkparse.txt", 0) else { return };
    let rows: Vec<_> = (0..trace.runs()).flat_map(|run| trace.rows(run)).collect();
    let expected = [38_990, 37_253, 33_239, 36_240, 42_951, 32_970, 23_467, 22_971];
    let latencies: Vec<_> = rows.iter().filter_map(Request::d2c).map(|ns| ns.0).collect();
    assert_eq!(latencies, expected);
    assert!(rows.iter().all(|row| row.sector.map(|sector| sector.0) == Some(0)));
}

#[test]
fn passthrough_is_matched_first_in_first_out() {
    let Some(trace) = import("s17-sdc-partition-annotated.blkparse.txt", 0) else { return };
    let rows = trace.rows(0);
    let data = d2c(&rows, has_data);
    assert_eq!(sum_up(&data), (7, 478_384, 2_096_625, 1_244_163));
    assert_eq!((data.first(), data.last()), (Some(&596_923), Some(&841_254)));
    let passthrough = d2c(&rows, |row| !has_data(row));
    assert_eq!(passthrough, [386_405, 307_364, 217_413]);
}

#[test]
fn a_device_without_requests_has_the_time_of_its_bios() {
    let Some(trace) = import("s18-pmem-bio-only.btrace.txt", 0) else { return };
    let rows = trace.rows(0);
    assert!(d2c(&rows, |_| true).is_empty());
    let q2c: Vec<_> = rows.iter().filter_map(Request::q2c).map(|ns| ns.0).collect();
    assert_eq!((q2c.len(), q2c.first(), q2c.last()), (13, Some(&3283), Some(&1571)));
    assert!(trace.stderr().contains("works on bios"), "{}", trace.stderr());
}

#[test]
fn a_cut_text_gives_what_is_left_of_it() {
    let Some(trace) = import("s21-ide-2.6.17-live.blkparse.txt", 0) else { return };
    let rows = trace.rows(0);
    let matched: Vec<_> = rows.iter().filter_map(Request::d2c).map(|ns| ns.0).collect();
    assert_eq!(matched, [3_275_060]);
    assert!(trace.stderr().contains("sequence numbers jump"), "{}", trace.stderr());
}

#[test]
fn a_traced_partition_is_one_disk() {
    let Some(trace) = import("s23-sda3-partition-fua-requeue.blkparse.txt", 0) else { return };
    let rows = trace.rows(0);
    assert!(rows.iter().all(|row| row.device.to_string() == "8:3"));
    let flushes = d2c(&rows, |row| row.op == Op::Flush);
    assert_eq!(flushes.first(), Some(&37_633));
    let at = |sector| {
        let rows = rows.iter().filter(move |row| row.sector.map(|s| s.0) == Some(sector));
        rows.filter_map(Request::d2c).map(|ns| ns.0).collect::<Vec<_>>()
    };
    assert_eq!((at(3_328_128), at(3_459_072)), (vec![52_149], vec![177_482]));
}

#[test]
fn text_of_tracepoints_gives_its_requests() {
    let Some(trace) = import("s25-scsi-iomap-6.9.ftrace.txt", 0) else { return };
    let micros = |run| -> Vec<i64> {
        d2c(&trace.rows(run), |_| true).iter().map(|ns| (ns + 500) / 1000).collect()
    };
    assert_eq!((micros(0), micros(1)), (vec![671, 524, 523], vec![591, 396]));

    let trace = import("s27-ufs-direct-io-wrapped.ftrace.txt", 0).unwrap();
    let rows = trace.rows(0);
    let mut micros: Vec<_> = d2c(&rows, |row| row.device.to_string() == "8:0");
    for ns in &mut micros {
        *ns = (*ns + 500) / 1000;
    }
    micros.sort_unstable();
    assert_eq!(micros, [1354, 2096, 2194, 2616, 3135, 4098]);
    let pending = rows.iter().filter(|row| row.issue.is_some() && row.complete.is_none());
    assert_eq!(pending.count(), 2);

    let trace = import("s28-nullblk-error-5.17.ftrace.txt", 3).unwrap();
    let rows = trace.rows(0);
    let facts: Vec<_> = rows.iter().map(|row| (row.error, row.d2c())).collect();
    assert_eq!(facts, [(Some(-5), None)]);
}

#[test]
fn a_trace_without_completions_says_why_there_is_no_latency() {
    for (sample, issues) in
        [("s31-luks-lvm-nvme.perfscript.txt", 4), ("s33-issue-only-mixed-6.x.perfscript.txt", 9)]
    {
        let Some(trace) = import(sample, 3) else { return };
        let rows = trace.rows(0);
        assert_eq!(rows.iter().filter(|row| row.issue.is_some()).count(), issues, "{sample}");
        assert!(rows.iter().all(|row| row.complete.is_none()));
        assert!(trace.stderr().contains("perf needs -a"), "{}", trace.stderr());
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    for (sample, reason) in [
        ("s34-biosnoop-blank-disk.txt", "a table of biosnoop"),
        ("s37-custom-format-semicolon-mysql.txt", "no trace that can be read: it begins with"),
        ("s38-32bit-sched-only.trace.dat.xz", "a trace.dat of trace-cmd"),
        ("s39-no-tracepoints-perf6.16.perf.data", "no tracepoints in this file"),
    ] {
        let Some(trace) = import(sample, 1) else { return };
        assert!(trace.stderr().contains(reason), "{}", trace.stderr());
        assert!(!trace.dataset.exists(), "{sample} leaves nothing behind");
    }
}

#[test]
fn a_text_of_ones_own_format_is_read_when_it_is_declared() {
    let Some(path) = beside("corpus/samples/s37-custom-format-semicolon-mysql.txt") else { return };
    let format = "%T.%t ; %S ; %n ; %d ;";
    let trace = import_with(&path, &["--blkparse-format", format], 3);
    let rows = trace.rows(0);
    let writes = rows.iter().filter(|row| row.op == Op::Write).count();
    assert_eq!((rows.len(), writes), (2499, 2336));
}

#[test]
fn what_is_imported_is_analysed_like_a_recording() {
    let Some(golden) = beside("reference/golden/a_plain") else { return };
    let trace = import_with(&golden.join("sda"), &[], 0);
    let output = run(iotrace().args(["analyze", "--btt"]).arg(&trace.dataset));
    check_exit(&output, 0);
    let text = String::from_utf8_lossy(&output.stdout);
    for figure in ["0.000133333", "0.000141000", "0.000005750"] {
        assert!(text.contains(figure), "{figure} is not in {text}");
    }
    let report = std::fs::read_to_string(trace.dataset.join("report.md")).unwrap();
    assert!(report.contains("blktrace 7, little-endian"), "{report}");
}

#[test]
fn what_stands_before_damage_is_kept() {
    let Some(sample) = beside("corpus/samples/s06-nvme-dmcrypt-flush.blkparse.txt") else { return };
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("trace.txt.gz");
    let output = run(Command::new("gzip").arg("-c").arg(sample));
    check_exit(&output, 0);
    std::fs::write(&packed, &output.stdout[..output.stdout.len() / 2]).unwrap();
    let trace = import_with(&packed, &[], 3);
    let rows = trace.rows(0).len();
    assert!((50..165).contains(&rows), "{rows} requests in half of the file");
    assert!(trace.stderr().contains("reading stopped: cannot read"), "{}", trace.stderr());
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let Some(golden) = beside("reference/golden/a_plain") else { return };
    let folder = tempfile::tempdir().unwrap();
    let dataset = folder.path().join("t.iotrace");
    let mut child = iotrace()
        .args(["import", "--quiet", "-", "-o"])
        .arg(&dataset)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut bytes = std::fs::read(golden.join("sda.blktrace.0")).unwrap();
    bytes.extend(std::fs::read(golden.join("sda.blktrace.1")).unwrap());
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait().unwrap().success());
    let piped = requests(&dataset.join("runs/rep=0"));
    assert_eq!(piped, import_with(&golden.join("sda"), &[], 0).rows(0));
}

#[test]
fn a_big_endian_and_a_newer_trace_give_the_same_requests() {
    let Some(golden) = beside("reference/golden") else { return };
    let rows = |case: &str| import_with(&golden.join(case).join("sda"), &[], 0).rows(0);
    let plain = rows("a_plain");
    assert_eq!(plain.len(), 3);
    for twin in ["k_big_endian", "l_version8"] {
        assert_eq!(rows(twin), plain, "{twin}");
    }
    let text = import_with(&golden.join("a_plain/blkparse-1.3.0.txt"), &[], 0);
    assert_eq!(text.rows(0), plain);
}

#[test]
fn a_name_without_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = import_with(&folder.path().join("sdx"), &[], 1);
    assert!(trace.stderr().contains("there is no file"), "{}", trace.stderr());
    let other = folder.path().join("notes.txt");
    std::fs::write(&other, "nothing of the kind\n").unwrap();
    let trace = import_with(&other, &[], 1);
    assert!(trace.stderr().contains("if it is one of them, name it with --format"));
}

#[test]
fn requests_alone_can_be_kept() {
    let Some(golden) = beside("reference/golden/a_plain") else { return };
    let trace = import_with(&golden.join("sda"), &["--no-events"], 0);
    assert_eq!(trace.rows(0).len(), 3);
    assert!(!trace.dataset.join("runs/rep=0/events.parquet").exists());
    let output = run(iotrace().args(["analyze", "--btt"]).arg(&trace.dataset));
    check_exit(&output, 1);
}
