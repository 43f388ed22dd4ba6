//! How fast events become requests: a made-up trace of one disk, two CPUs and 32 requests in
//! flight, each with queue, get, insert, issue and completion.
//!
//! `cargo bench -p iotrace-requests --bench assemble`, with a number of requests as argument if
//! other than a million. Prints events a second of each of five passes and of the best; making the
//! trace is not counted.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::hint::black_box;
use std::time::Instant;

use iotrace_model::{Action, Item, Op, Request};
use iotrace_requests::Assembler;
use iotrace_testkit::EventBuilder;

/// Requests that the trace holds in flight.
const DEPTH: usize = 32;

/// Events between two looks at the rows, as an importer takes them.
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

fn main() {
    let requests = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(1_000_000);
    let items = made_up(requests);
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let start = Instant::now();
        let rows = assemble(&items);
        let rate = count(items.len()) / start.elapsed().as_secs_f64();
        assert_eq!(rows, requests, "every request of a whole trace completes");
        best = best.max(rate);
        println!("{:.2} million events/s", rate / 1e6);
    }
    println!("best {:.2} million events/s, {:.1} ns an event", best / 1e6, 1e9 / best);
}

#[expect(clippy::cast_precision_loss, reason = "a count of events is far below 2^53")]
fn count(events: usize) -> f64 {
    events as f64
}

fn assemble(items: &[Item]) -> usize {
    let mut assembler = Assembler::new();
    let mut rows: Vec<Request> = Vec::new();
    let mut count = 0;
    for batch in items.chunks(BATCH) {
        for item in batch {
            assembler.push(item, &mut rows);
        }
        count += black_box(&rows).len();
        rows.clear();
    }
    assembler.finish(&mut rows);
    count + rows.len()
}

/// Requests come in at random places and complete in random order.
fn made_up(requests: usize) -> Vec<Item> {
    let mut random = Random(0x10_7ace);
    let mut items = Vec::with_capacity(requests * 5);
    let mut in_flight: Vec<EventBuilder> = Vec::with_capacity(DEPTH);
    let mut time = 0_i64;
    for number in 0..requests {
        if in_flight.len() == DEPTH {
            let place = usize::try_from(random.below(DEPTH as u64)).expect("it is below 32");
            time += 900;
            items.push(at(in_flight.swap_remove(place), Action::Complete, time));
        }
        let op = if random.below(10) < 7 { Op::Read } else { Op::Write };
        let cpu = u32::from(number % 2 == 1);
        let request = EventBuilder::new(Action::Queue, 0)
            .op(op, iotrace_model::Flags::default())
            .sectors(random.below(1 << 28) * 8, 8)
            .cpu(cpu)
            .thread(100 + cpu, "fio");
        for action in [Action::Queue, Action::Get, Action::Insert, Action::Issue] {
            time += 400;
            items.push(at(request, action, time));
        }
        in_flight.push(request);
    }
    for request in in_flight {
        time += 900;
        items.push(at(request, Action::Complete, time));
    }
    items
}

fn at(request: EventBuilder, action: Action, time: i64) -> Item {
    let mut event = request.build();
    (event.action, event.time.0) = (action, time);
    event.error = (action == Action::Complete).then_some(0);
    Item::Event(event)
}
