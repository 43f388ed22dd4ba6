//! Requests out of small traces written as text, with times worked out by hand.

mod blktrace;
mod filtered;
mod lives;
mod traps;

use iotrace_model::{Ledger, Request, Status};
use iotrace_requests::Assembler;
use iotrace_testkit::trace;

const NOTHING: [Option<i64>; 3] = [None, None, None];

fn assemble(text: &str) -> (Vec<Request>, Ledger) {
    let mut assembler = Assembler::new();
    let mut requests = Vec::new();
    for item in trace(text) {
        assembler.push(&item, &mut requests);
    }
    let ledger = assembler.finish(&mut requests);
    (requests, ledger)
}

/// Status, Q2D, D2C and Q2C of every row; gives back what was counted beside them.
#[track_caller]
fn check(text: &str, expected: &[(Status, [Option<i64>; 3])]) -> Ledger {
    let (requests, ledger) = assemble(text);
    let found: Vec<_> = requests
        .iter()
        .map(|request| {
            let latencies = [request.q2d(), request.d2c(), request.q2c()];
            (request.status, latencies.map(|latency| latency.map(|nanos| nanos.0)))
        })
        .collect();
    assert_eq!(found, expected, "{text}");
    ledger
}
