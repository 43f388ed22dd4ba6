//! What writing and reading the tables costs: rows a second of CPU time (all threads together),
//! bytes a row.
//!
//! The rows are those of a busy disk: 4 KiB requests at random sectors, each with its queue, get,
//! insert, issue and completion, from two CPUs, times climbing by some microseconds. The numbers
//! come from a seeded generator, so that every run writes the same files.
//!
//! `cargo bench -p iotrace-dataset [-- EVENTS]`; 5 million events by default.

#![expect(clippy::unwrap_used, reason = "a bench may stop where it fails")]
#![expect(clippy::print_stdout, reason = "its figures are its result")]

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use iotrace_dataset::{EventWriter, RequestWriter, Written, checksum, read_events, read_requests};
use iotrace_model::{
    Action, Comm, Cpu, DeviceId, Event, Flags, Nanos, Op, Request, Sector, Stamp, Status,
};

/// Events made and written at once.
const BATCH: usize = 1 << 14;
/// Requests in flight, about.
const DEPTH: usize = 24;

fn main() {
    let events = std::env::args().find_map(|argument| argument.parse().ok());
    let events: usize = events.unwrap_or(5_000_000);
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("events.parquet"), folder.path().join("r.parquet"));

    let ((), making) = cost(|| each_batch(events, |_, _| {}));
    let (done, all) = cost(|| {
        let mut writer = EventWriter::create(&path, &[]).unwrap();
        each_batch(events, |events, _| writer.write(events).unwrap());
        writer.finish().unwrap()
    });
    report("write events", all.less(making), done);
    let (done_requests, all) = cost(|| {
        let mut writer = RequestWriter::create(&other, &[]).unwrap();
        each_batch(events, |_, requests| writer.write(requests).unwrap());
        writer.finish().unwrap()
    });
    report("write requests", all.less(making), done_requests);

    println!("peak memory so far {} KiB", peak_memory());

    let (rows, all) = cost(|| read_events(&path).unwrap().map(|b| b.unwrap().len()).sum::<usize>());
    assert_eq!(rows as u64, done.rows);
    report("read events", all, done);
    let (rows, all) =
        cost(|| read_requests(&other).unwrap().map(|b| b.unwrap().len()).sum::<usize>());
    assert_eq!(rows as u64, done_requests.rows);
    report("read requests", all, done_requests);
    let (_, all) = cost(|| checksum(&path).unwrap());
    report("checksum", all, done);
    keep(&path, "events");
    keep(&other, "requests");
}

/// Makes the same rows each time, a batch of events and the requests that ended in it at once.
fn each_batch(events: usize, mut take: impl FnMut(&[Event], &[Request])) {
    let mut disk = Disk::new();
    let (mut batch, mut requests) = (Vec::new(), Vec::new());
    let mut made = 0;
    while made < events {
        batch.clear();
        requests.clear();
        while batch.len() < BATCH {
            disk.step(&mut batch, &mut requests);
        }
        made += batch.len();
        take(&batch, &requests);
    }
}

/// Copies a table where `IOTRACE_BENCH_KEEP` says, so that other readers can look at it.
fn keep(path: &Path, name: &str) {
    if let Some(folder) = std::env::var_os("IOTRACE_BENCH_KEEP") {
        std::fs::copy(path, Path::new(&folder).join(format!("{name}.parquet"))).unwrap();
    }
}

#[expect(clippy::cast_precision_loss, reason = "four digits are printed")]
fn report(what: &str, cost: Cost, done: Written) {
    let rows = done.rows as f64;
    println!(
        "{what:15} {:9} rows  {:6.3} s CPU  {:6.3} s wall  {:6.2} M rows/s CPU  {:5.2} bytes/row",
        done.rows,
        cost.cpu,
        cost.wall,
        rows / cost.cpu / 1e6,
        done.bytes as f64 / rows,
    );
}

/// Seconds that some work took: CPU time of all threads, and on the clock.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
}

impl Cost {
    fn less(self, other: Cost) -> Cost {
        Cost { cpu: self.cpu - other.cpu, wall: self.wall - other.wall }
    }
}

fn cost<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let result = work();
    (result, Cost { cpu: cpu_seconds() - cpu, wall: start.elapsed().as_secs_f64() })
}

/// CPU time of the process, threads that have ended included, in steps of 10 ms.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = text.rsplit_once(')').unwrap().1;
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Most memory that the process ever had, in KiB.
fn peak_memory() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

/// A seeded generator (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A disk under load: some requests are in flight, and each step begins one or completes one.
struct Disk {
    random: Random,
    time: i64,
    sequences: [u64; 2],
    made: u64,
    in_flight: VecDeque<Request>,
}

impl Disk {
    fn new() -> Self {
        Self { random: Random(3), time: 0, sequences: [0; 2], made: 0, in_flight: VecDeque::new() }
    }

    fn step(&mut self, events: &mut Vec<Event>, requests: &mut Vec<Request>) {
        let depth = self.in_flight.len();
        if depth < DEPTH / 2 || (depth < DEPTH && self.random.below(2) == 0) {
            self.begin(events);
        } else {
            self.complete(events, requests);
        }
    }

    /// Queue, get and insert from a thread of fio; issue from it or from a worker of the kernel.
    fn begin(&mut self, events: &mut Vec<Event>) {
        let cpu = Cpu(u32::try_from(self.random.below(2)).unwrap());
        let pid = 4000 + u32::try_from(self.random.below(4)).unwrap();
        let op = if self.random.below(3) == 0 { Op::Write } else { Op::Read };
        let mut request = Request {
            request: self.made,
            op,
            sector: Some(Sector(self.random.below(1 << 29) * 8)),
            pid,
            comm: Comm::new(b"fio"),
            queued_at_queue: u32::try_from(self.in_flight.len()).ok(),
            in_flight_at_issue: u32::try_from(self.in_flight.len()).ok(),
            ..blank()
        };
        self.made += 1;
        let worker = self.random.below(4) == 0;
        for action in [Action::Queue, Action::Get, Action::Insert, Action::Issue] {
            let (pid, comm) = match action {
                Action::Issue if worker => (77, Comm::new(b"kworker/0:1H")),
                _ => (request.pid, request.comm),
            };
            let stamp = Some(self.event(events, &request, action, cpu, pid, comm));
            match action {
                Action::Queue => request.queue = stamp,
                Action::Get => request.get = stamp,
                Action::Insert => request.insert = stamp,
                _ => request.issue = stamp,
            }
        }
        let last = self.in_flight.back().and_then(|last| last.sector);
        request.seek_sectors = request
            .sector
            .zip(last)
            .map(|(to, from)| to.0.cast_signed() - from.0.cast_signed() - 8);
        self.in_flight.push_back(request);
    }

    /// One of the oldest requests completes in an interrupt, mostly over the idle task.
    fn complete(&mut self, events: &mut Vec<Event>, requests: &mut Vec<Request>) {
        let place = usize::try_from(self.random.below(8)).unwrap().min(self.in_flight.len() - 1);
        let mut request = self.in_flight.remove(place).unwrap();
        let cpu = Cpu(u32::try_from(self.random.below(2)).unwrap());
        let idle = self.random.below(4) != 0;
        let (pid, comm) =
            if idle { (0, Comm::new(b"swapper/0")) } else { (request.pid, request.comm) };
        request.error = Some(0);
        request.complete = Some(self.event(events, &request, Action::Complete, cpu, pid, comm));
        request.status = Status::Complete;
        request.overtook = u32::try_from(place).ok();
        request.overtaken = u32::try_from(self.random.below(8)).ok();
        requests.push(request);
    }

    fn event(
        &mut self,
        events: &mut Vec<Event>,
        request: &Request,
        action: Action,
        cpu: Cpu,
        pid: u32,
        comm: Comm,
    ) -> Stamp {
        self.time += 300 + i64::try_from(self.random.below(1 << 12)).unwrap();
        let sequence = &mut self.sequences[usize::try_from(cpu.0).unwrap()];
        *sequence += 1;
        let stamp = Stamp { time: Nanos(self.time), cpu };
        events.push(Event {
            time: stamp.time,
            cpu,
            sequence: *sequence,
            device: Some(request.device),
            action,
            op: request.op,
            flags: request.flags,
            sector: request.sector,
            length_bytes: request.length_bytes,
            pid,
            comm,
            error: request.error,
            remap: None,
            cgroup: None,
            io_priority: None,
            tag: None,
            protocol: None,
        });
        stamp
    }
}

fn blank() -> Request {
    Request {
        request: 0,
        device: DeviceId { major: 8, minor: 0 },
        op: Op::Read,
        flags: Flags::SYNC,
        sector: None,
        length_bytes: 4096,
        pid: 0,
        comm: Comm::default(),
        cgroup: None,
        io_priority: None,
        queue: None,
        get: None,
        insert: None,
        issue: None,
        complete: None,
        bios: 1,
        front_merges: 0,
        back_merges: 0,
        requeues: 0,
        splits: 0,
        parent: None,
        in_flight_at_issue: None,
        queued_at_queue: None,
        overtook: None,
        overtaken: None,
        seek_sectors: None,
        tag: None,
        protocol: None,
        error: None,
        status: Status::Unfinished,
        merged_bios: Vec::new(),
    }
}
