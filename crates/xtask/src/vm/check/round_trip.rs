//! One run in three formats: blktrace's files, the text of blkparse, and the raw capture, which is a
//! perf.data. The same requests must come out of all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iotrace_dataset::read_requests;
use iotrace_model::{Flags, Op, Request, Status};

use super::Bar;
use crate::vm::{output_of, succeed};

/// Most that a time may differ between blktrace's files and their text, in nanoseconds.
const MOST_TEXT_NS: u64 = 1000;

/// What makes a request the same in two sources that stamp it at different times: operation,
/// modifiers, first sector, length. Those of one kind are compared in the order of completion.
type Kind = (Op, Flags, Option<u64>, u64);

/// Imports the three and compares them; `folder` holds blktrace's files, `run` the raw capture.
pub(super) fn bars(
    label: &str,
    program: &Path,
    folder: &Path,
    run: &Path,
) -> anyhow::Result<Vec<Bar>> {
    let work = tempfile::tempdir()?;
    let text = work.path().join("trace.txt");
    let printed =
        output_of(Command::new("blkparse").args(["-q", "-i", "trace"]).current_dir(folder))?;
    fs::write(&text, printed)?;
    let import = |name: &str, file: PathBuf| -> anyhow::Result<Vec<Request>> {
        let dataset = work.path().join(name);
        succeed(Command::new(program).args(["import", "--quiet", "-o"]).arg(&dataset).arg(file))?;
        let mut requests = Vec::new();
        for batch in read_requests(&dataset.join("runs/rep=0/requests.parquet"))? {
            requests.extend(batch?);
        }
        Ok(requests)
    };
    let binary = by_kind(import("binary", folder.join("trace"))?);
    let text = by_kind(import("text", text)?);
    let perf = by_kind(import("perf", run.join("capture.perf"))?);
    Ok(vec![
        compare(&format!("{label}: blktrace's files and their text"), &binary, &text, true),
        compare(&format!("{label}: blktrace's files and perf.data"), &binary, &perf, false),
    ])
}

/// Complete requests of each kind, in the order of completion: every latency that they have.
fn by_kind(mut requests: Vec<Request>) -> BTreeMap<Kind, Vec<[Option<i64>; 5]>> {
    requests.retain(|request| request.status == Status::Complete);
    requests.sort_by_key(|request| (request.complete.map(|stamp| stamp.time), request.request));
    let mut kinds: BTreeMap<Kind, Vec<_>> = BTreeMap::new();
    for request in requests {
        let sector = request.sector.map(|sector| sector.0);
        let latencies = [request.q2i(), request.i2d(), request.q2d(), request.d2c(), request.q2c()];
        let kind = (request.op, request.flags, sector, request.length_bytes);
        kinds.entry(kind).or_default().push(latencies.map(|latency| latency.map(|ns| ns.0)));
    }
    kinds
}

/// Both must hold the same requests with the same stages; the times must agree when `exact`.
fn compare(
    what: &str,
    ours: &BTreeMap<Kind, Vec<[Option<i64>; 5]>>,
    theirs: &BTreeMap<Kind, Vec<[Option<i64>; 5]>>,
    exact: bool,
) -> Bar {
    let count = |kinds: &BTreeMap<Kind, Vec<_>>| kinds.values().map(Vec::len).sum::<usize>();
    let (mut paired, mut stages, mut most) = (0, 0, 0);
    for (kind, latencies) in ours {
        let others = theirs.get(kind).map_or(&[][..], Vec::as_slice);
        for (one, other) in latencies.iter().zip(others) {
            paired += 1;
            for (one, other) in one.iter().zip(other) {
                match (one, other) {
                    (Some(one), Some(other)) => most = most.max(one.abs_diff(*other)),
                    (None, None) => {}
                    (Some(_), None) | (None, Some(_)) => stages += 1,
                }
            }
        }
    }
    let (ours, theirs) = (count(ours), count(theirs));
    let is_same = paired > 0 && (paired, paired) == (ours, theirs) && stages == 0;
    let times = if exact { format!(", expected at most {MOST_TEXT_NS} ns") } else { String::new() };
    Bar::new(
        what,
        format!(
            "{paired} requests in both of {ours} and {theirs}, {stages} stages in one only, times \
             differ by at most {most} ns{times}"
        ),
        is_same && (!exact || most <= MOST_TEXT_NS),
    )
}
