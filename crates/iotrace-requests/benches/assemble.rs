//! How fast events become requests: a made-up trace of one disk, two CPUs and 32 requests in
//! flight, each with queue, get, insert, issue and completion.
//!
//! `cargo bench -p iotrace-requests --bench assemble`, with a number of requests as argument if
//! other than a million. Prints events per second of CPU time of each of five passes and of the
//! best; making the trace is not counted.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use iotrace_model::{Action, Flags, Item, Op, Request};
use iotrace_requests::Assembler;
use iotrace_testkit::EventBuilder;

/// Requests that the trace holds in flight.
const DEPTH: usize = 32;

/// Events that are made, assembled and forgotten at once.
const BATCH: usize = 4096;

/// A linear congruential generator (Knuth, The Art of Computer Programming 2, 3.3.4).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// CPU time of this thread where Linux tells it, so that a busy machine does not count; else the
/// time of the day.
struct Clock {
    on_cpu_ns: Option<u64>,
    wall: Instant,
}

impl Clock {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let on_cpu_ns = text.split(' ').next().and_then(|word| word.parse().ok());
        Self { on_cpu_ns, wall: Instant::now() }
    }

    /// Seconds since it was read.
    fn elapsed(&self) -> f64 {
        match (self.on_cpu_ns, Self::read().on_cpu_ns) {
            (Some(from), Some(to)) => Duration::from_nanos(to - from).as_secs_f64(),
            (None, _) | (_, None) => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn main() {
    let requests = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(1_000_000);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let (events, seconds) = pass(requests);
        best = best.min(seconds / count(events));
        println!("{:.2} million events/s", count(events) / seconds / 1e6);
    }
    println!("best {:.2} million events/s, {:.1} ns an event", 1e-6 / best, best * 1e9);
}

#[expect(clippy::cast_precision_loss, reason = "a count of events is far below 2^53")]
fn count(events: usize) -> f64 {
    events as f64
}

/// Events of a trace, and the seconds that it took to assemble them.
fn pass(requests: usize) -> (usize, f64) {
    let mut trace = Trace::new(requests);
    let mut assembler = Assembler::new();
    let (mut items, mut rows) = (Vec::new(), Vec::<Request>::new());
    let (mut events, mut found, mut seconds) = (0, 0, 0.0);
    while trace.fill(&mut items) {
        let before = Clock::read();
        for item in &items {
            assembler.push(item, &mut rows);
        }
        seconds += before.elapsed();
        events += items.len();
        found += black_box(&rows).len();
        items.clear();
        rows.clear();
    }
    assembler.finish(&mut rows);
    assert_eq!(found + rows.len(), requests, "every request of a whole trace completes");
    (events, seconds)
}

/// A trace that is made as it is read, a batch at a time, like that of an importer. Requests come
/// in at random places and complete in random order.
struct Trace {
    random: Random,
    time: i64,
    left: usize,
    in_flight: Vec<EventBuilder>,
}

impl Trace {
    fn new(requests: usize) -> Self {
        let in_flight = Vec::with_capacity(DEPTH);
        Self { random: Random(0x10_7ace), time: 0, left: requests, in_flight }
    }

    /// Adds a batch; false when there is nothing to add.
    fn fill(&mut self, items: &mut Vec<Item>) -> bool {
        while items.len() < BATCH && (self.left > 0 || !self.in_flight.is_empty()) {
            if self.in_flight.len() == DEPTH || self.left == 0 {
                let depth = u64::try_from(self.in_flight.len()).expect("it is at most 32");
                let place = usize::try_from(self.random.below(depth)).expect("it is below 32");
                let done = self.in_flight.swap_remove(place);
                self.say(items, done, Action::Complete, 900);
            }
            if self.left > 0 {
                self.left -= 1;
                let request = self.request();
                for action in [Action::Queue, Action::Get, Action::Insert, Action::Issue] {
                    self.say(items, request, action, 400);
                }
                self.in_flight.push(request);
            }
        }
        !items.is_empty()
    }

    fn request(&mut self) -> EventBuilder {
        let op = if self.random.below(10) < 7 { Op::Read } else { Op::Write };
        let cpu = u32::from(self.left % 2 == 1);
        EventBuilder::new(Action::Queue, 0)
            .op(op, Flags::default())
            .sectors(self.random.below(1 << 28) * 8, 8)
            .cpu(cpu)
            .thread(100 + cpu, "fio")
    }

    fn say(&mut self, items: &mut Vec<Item>, request: EventBuilder, action: Action, pause: i64) {
        self.time += pause;
        let mut event = request.build();
        (event.action, event.time.0) = (action, self.time);
        event.error = (action == Action::Complete).then_some(0);
        items.push(Item::Event(event));
    }
}
