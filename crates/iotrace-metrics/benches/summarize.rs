//! How many requests a second of CPU time sums up, reading of the table included.
//!
//! The requests are made from a fixed seed: reads and writes of one device at depth 32, a few
//! flushes, one request in a thousand fifty times slower.

#![expect(clippy::print_stdout, reason = "a benchmark tells its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop where it fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use iotrace_dataset::RequestWriter;
use iotrace_metrics::{RunInput, summarize_run};
use iotrace_model::{
    Comm, Configuration, Cpu, DeviceId, Flags, Ledger, Nanos, Op, Request, Sector, Stamp, Status,
};

const REQUESTS: u64 = 1_000_000;
const ROUNDS: u32 = 5;
const DEPTH: usize = 32;
const DISK: DeviceId = DeviceId { major: 8, minor: 0 };
/// Clock ticks of `/proc/self/stat` in a second, the same on every Linux that we build for.
const TICKS: f64 = 100.0;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    write(&path);
    let input = RunInput {
        requests: &path,
        configuration: Configuration::default(),
        repetition: 0,
        folder: String::new(),
        duration: Nanos(0),
        exit_code: None,
        devices: &[],
        ledger: Ledger::default(),
    };
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..ROUNDS {
        let (run, _) = summarize_run(&input).unwrap();
        assert_eq!(run.devices.iter().map(|device| device.requests).sum::<u64>(), REQUESTS);
    }
    let requests = f64::from(ROUNDS * u32::try_from(REQUESTS).unwrap());
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!(
        "summarize: {:.2} million requests/s of CPU time, {:.2} million/s of wall time",
        requests / cpu / 1e6,
        requests / wall / 1e6
    );
}

/// Writes the table in the order of completion.
fn write(path: &Path) {
    let mut writer = RequestWriter::create(path, &[]).unwrap();
    let mut open: BTreeMap<(i64, u64), Request> = BTreeMap::new();
    let (mut random, mut now) = (Random(1), 0);
    for number in 0..REQUESTS {
        now += 500 + random.below(3000);
        while open.len() >= DEPTH {
            let ((time, _), request) = open.pop_first().unwrap();
            now = now.max(time);
            writer.write(&[request]).unwrap();
        }
        let request = request(number, now, &mut random);
        open.insert((request.complete.unwrap().time.0, number), request);
    }
    let rest: Vec<Request> = open.into_values().collect();
    writer.write(&rest).unwrap();
    writer.finish().unwrap();
}

fn request(number: u64, queue: i64, random: &mut Random) -> Request {
    let cpu = Cpu(u32::try_from(random.below(2)).unwrap());
    let stamp = |time| Some(Stamp { time: Nanos(time), cpu });
    let insert = queue + 200 + random.below(800);
    let issue = insert + 200 + random.below(9000);
    let slow = if random.below(1000) == 0 { 3_000_000 } else { 0 };
    let op = match random.below(100) {
        0 => Op::Flush,
        1..60 => Op::Read,
        _ => Op::Write,
    };
    Request {
        request: number,
        device: DISK,
        op,
        flags: Flags::SYNC,
        sector: Some(Sector(number * 8)),
        length_bytes: 4096,
        pid: 1,
        comm: Comm::new(b"fio"),
        cgroup: None,
        io_priority: None,
        queue: stamp(queue),
        get: stamp(queue + 100),
        insert: stamp(insert),
        issue: stamp(issue),
        complete: stamp(issue + 20_000 + random.below(60_000) + slow),
        bios: 1,
        front_merges: 0,
        back_merges: 0,
        requeues: 0,
        splits: 0,
        parent: None,
        in_flight_at_issue: Some(31),
        queued_at_queue: Some(31),
        overtook: Some(0),
        overtaken: Some(u32::try_from(random.below(3)).unwrap()),
        seek_sectors: Some(0),
        tag: None,
        protocol: None,
        error: Some(0),
        status: Status::Complete,
        merged_bios: Vec::new(),
    }
}

/// A linear congruential generator; Knuth's constants.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// CPU time of all threads of this process so far, in user mode and in the kernel.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, numbers) = text.rsplit_once(')').unwrap();
    let ticks: f64 =
        numbers.split_whitespace().skip(11).take(2).map(|word| word.parse::<f64>().unwrap()).sum();
    ticks / TICKS
}
