//! Decoding blktrace files on one core, beside just reading them.
//!
//! `cargo bench -p iotrace-parse --bench blktrace -- FILE…`; without files, half a million records
//! are made up. Prints events per second and bytes per second, the best of five.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may stop")]

use std::fs::File;
use std::io::{Cursor, Read};
use std::time::{Duration, Instant};

use iotrace_parse::{BlktraceReader, Progress, Reader};
use iotrace_testkit::BlktraceBuilder;

fn main() {
    let paths: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut read = Duration::MAX;
    let mut files = Vec::new();
    if paths.is_empty() {
        files.push(made_up());
    }
    for _ in 0..5 {
        let start = Instant::now();
        for path in &paths {
            let mut file = File::open(path).unwrap();
            let mut block = vec![0; 1 << 20];
            while file.read(&mut block).unwrap() > 0 {}
        }
        read = read.min(start.elapsed());
    }
    for path in &paths {
        files.push(std::fs::read(path).unwrap());
    }
    let bytes: usize = files.iter().map(Vec::len).sum();
    let mut decode = Duration::MAX;
    let mut events = 0;
    for _ in 0..5 {
        let streams: Vec<(Box<dyn Read + Send>, String)> = files
            .iter()
            .map(|file| {
                let reader: Box<dyn Read + Send> = Box::new(Cursor::new(file.clone()));
                (reader, "sda.blktrace.0".to_owned())
            })
            .collect();
        let start = Instant::now();
        let mut reader = BlktraceReader::open(streams).unwrap();
        let mut items = Vec::new();
        events = 0;
        loop {
            items.clear();
            let progress = reader.next_batch(&mut items).unwrap();
            events += items.len();
            if progress == Progress::End {
                break;
            }
        }
        decode = decode.min(start.elapsed());
    }
    println!("blktrace: {}", rate(events, bytes, decode));
    if !paths.is_empty() {
        println!("reading the same files: {}", rate(events, bytes, read));
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn rate(events: usize, bytes: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (events, bytes) = (events as f64 / seconds / 1e6, bytes as f64 / seconds / 1e9);
    format!("{events:.1} million events/s, {bytes:.2} GB/s")
}

fn made_up() -> Vec<u8> {
    let mut builder = BlktraceBuilder::new();
    for io in 0..100_000 {
        let time = io * 5000;
        builder = builder.queue(time, io * 8, 8).issue(time + 1000, io * 8, 8);
        builder = builder.complete(time + 3000, io * 8, 8);
    }
    builder.build()
}
