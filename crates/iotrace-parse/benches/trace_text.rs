//! How fast texts of ftrace and perf script become events: `cargo bench -p iotrace-parse`.
//!
//! Two million lines in memory, the lives of 400000 requests on two CPUs. CPU time is the kernel's
//! own figure for this thread; the best of five rounds is printed, so that neighbours count little.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use iotrace_parse::{Progress, Reader, TraceTextOptions, TraceTextReader};

const REQUESTS: u64 = 400_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let [ftrace, perf] = texts();
    for (name, text) in [("ftrace", ftrace), ("perf script", perf)] {
        let lines = REQUESTS * 5;
        let mut best = u64::MAX;
        for _ in 0..ROUNDS {
            let start = cpu_nanos()?;
            let events = read(&text)?;
            best = best.min(cpu_nanos()? - start);
            assert_eq!(events, lines, "every line is an event");
        }
        let rate = |count: u64| count.saturating_mul(1000).checked_div(best.max(1)).unwrap_or(0);
        writeln!(
            io::stdout(),
            "{name}: {} ns a line, {}.{:02} million lines/s, {} MB/s of CPU time",
            best / lines,
            rate(lines),
            rate(lines * 100) % 100,
            rate(text.len() as u64),
        )?;
    }
    Ok(())
}

fn read(text: &str) -> Result<u64, Box<dyn Error>> {
    let mut reader = TraceTextReader::open(text.as_bytes(), "bench", TraceTextOptions::default())?;
    let mut items = Vec::new();
    let mut events = 0;
    loop {
        let progress = reader.next_batch(&mut items)?;
        events += items.drain(..).count() as u64;
        if progress == Progress::End {
            return Ok(events);
        }
    }
}

/// The same events as both tools print them.
fn texts() -> [String; 2] {
    let (mut ftrace, mut perf) = (String::new(), String::new());
    let (mut seed, mut time) = (1_u64, 100_000_000_u64);
    for request in 0..REQUESTS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (sector, cpu) = ((seed >> 33) * 8, request % 2);
        let lives = [
            ("block_bio_queue", format!("{sector} + 8 [fio]")),
            ("block_getrq", format!("{sector} + 8 [fio]")),
            ("block_rq_insert", format!("4096 () {sector} + 8 be,0,4 [fio]")),
            ("block_rq_issue", format!("4096 () {sector} + 8 be,0,4 [kworker/0:1H]")),
            ("block_rq_complete", format!("() {sector} + 8 be,0,4 [0]")),
        ];
        for (name, fields) in lives {
            time += seed % 7;
            let (seconds, micros) = (time / 1_000_000, time % 1_000_000);
            let stamp = format!("{seconds:>5}.{micros:06}");
            // Writing to a string cannot fail.
            let _ = writeln!(
                ftrace,
                "{:>16}-{:<7} [{cpu:03}] d..1. {stamp}: {name}: 8,0 WS {fields}",
                "kworker/0:1H", 1234
            );
            let _ = writeln!(
                perf,
                "{:>16} {:>5} [{cpu:03}] {stamp}:  block:{name}: 8,0 WS {fields}",
                "kworker/0:1H", 1234
            );
        }
    }
    [ftrace, perf]
}

/// Time that this thread was on a CPU.
fn cpu_nanos() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?)
}
