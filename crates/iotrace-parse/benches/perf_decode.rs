//! How fast perf files are read: events per second of processor time, whole reader.
//!
//! `cargo bench -p iotrace-parse --bench perf_decode` reads a file built in memory: two CPUs, rounds
//! of some thousand events, the five events of a request in turn. `-- FILE…` reads real files, which
//! are in the page cache after the first of five passes; the best pass counts.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints what it measures")]

use std::hint::black_box;
use std::io::{Cursor, Read, Seek};
use std::time::Instant;

use iotrace_model::{Action, Flags, Item, Op};
use iotrace_parse::{Options, PerfReader, Progress, Reader};
use iotrace_testkit::{EventBuilder, PerfFileBuilder};

const REQUESTS: u64 = 200_000;
const REQUESTS_IN_A_ROUND: u64 = 1000;
const PASSES: u32 = 5;
/// `IP | TID | TIME | CPU | PERIOD | RAW | IDENTIFIER`, as perf record takes.
const SAMPLE_TYPE: u64 = 0x1_0587;

fn main() {
    let files: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if files.is_empty() {
        let bytes = built();
        measure("built", bytes.len() as u64, || Cursor::new(bytes.as_slice()));
    }
    for file in files {
        let size = std::fs::metadata(&file).unwrap().len();
        measure(&file, size, || std::fs::File::open(&file).unwrap());
    }
}

fn measure<R: Read + Seek + Send>(name: &str, size: u64, open: impl Fn() -> R) {
    let mut best = u64::MAX;
    let mut sums = (0_u64, 0_u64);
    for _ in 0..PASSES {
        let start = processor_time();
        let mut reader = PerfReader::open(open(), name, Options::default()).unwrap();
        let (mut items, mut events) = (Vec::new(), 0);
        loop {
            let progress = reader.next_batch(&mut items).unwrap();
            events += items.len() as u64;
            black_box(&items);
            items.clear();
            if progress == Progress::End {
                break;
            }
        }
        sums = (events, reader.records().read);
        best = best.min(processor_time() - start);
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let millions = |count: u64| count as f64 * 1e3 / best as f64;
    println!(
        "{name}: {} items, {:.1} million records/s, {:.1} million events/s, {:.0} MB/s",
        sums.0,
        millions(sums.1),
        millions(sums.0),
        millions(size),
    );
}

/// Nanoseconds that this thread has run, user and system; elapsed time where the kernel does not say.
fn processor_time() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    told.unwrap_or_else(|| u64::try_from(elapsed.as_nanos()).unwrap())
}

/// Requests that are queued, issued and completed in turn on two CPUs, in rounds.
fn built() -> Vec<u8> {
    let mut file = PerfFileBuilder::new();
    for text in [
        include_str!("../tests/data/formats-6.18/block_bio_queue"),
        include_str!("../tests/data/formats-6.18/block_getrq"),
        include_str!("../tests/data/formats-6.18/block_rq_insert"),
        include_str!("../tests/data/formats-6.18/block_rq_issue"),
        include_str!("../tests/data/formats-6.18/block_rq_complete"),
    ] {
        file.format("block", text);
    }
    file.layout(SAMPLE_TYPE, 0);
    let mut rounds: [Vec<Item>; 2] = [Vec::new(), Vec::new()];
    for request in 0..REQUESTS {
        let (cpu, other) = (request % 2, (request / 3) % 2);
        let time = i64::try_from(request * 1000).unwrap();
        let stages = [
            (Action::Queue, 0, cpu),
            (Action::Get, 200, cpu),
            (Action::Insert, 300, cpu),
            (Action::Issue, 500, cpu),
            (Action::Complete, 900, other),
        ];
        for (action, after, cpu) in stages {
            let event = EventBuilder::new(action, time + after)
                .cpu(u32::try_from(cpu).unwrap())
                .op(if request % 3 == 0 { Op::Write } else { Op::Read }, Flags::SYNC)
                .sectors(request.wrapping_mul(2_654_435_761) % (1 << 32), 8)
                .thread(700 + u32::try_from(request % 4).unwrap(), "fio");
            rounds[usize::try_from(cpu).unwrap()].push(event.item());
        }
        if request % REQUESTS_IN_A_ROUND == REQUESTS_IN_A_ROUND - 1 {
            for item in rounds.iter_mut().flat_map(|events| events.drain(..)) {
                if let Item::Event(event) = item {
                    file.event(&event);
                }
            }
            file.round();
        }
    }
    file.build()
}
