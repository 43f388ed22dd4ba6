//! What holds for every trace: well-formed ones, ones with gaps, and ones that mean nothing.

use std::collections::BTreeMap;

use iotrace_model::{
    Action, Cause, Comm, Cpu, DeviceId, Event, Flags, Item, Ledger, Loss, Nanos, Op, Protocol,
    Remap, Request, Sector, Status,
};
use iotrace_requests::Assembler;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// One request of a well-formed trace: delays between its events, and its shape.
#[derive(Clone, Copy, Debug)]
struct Plan {
    start: i64,
    delays: [i64; 4],
    place: u64,
    op: Op,
    cpu: u32,
    is_inserted: bool,
    requeues: u8,
    parts: u8,
}

/// What the machine ought to find for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Truth {
    queue: i64,
    issue: i64,
    complete: i64,
}

fn plan(places: u64) -> impl Strategy<Value = Plan> {
    let shape = (any::<bool>(), 0..3_u8, 1..3_u8);
    (0..2_000_i64, [1..50_i64, 1..50, 1..50, 1..900], 0..places, any::<bool>(), 0..3_u32, shape)
        .prop_map(|(start, delays, place, is_read, cpu, (is_inserted, requeues, parts))| Plan {
            start,
            delays,
            place,
            op: if is_read { Op::Read } else { Op::Write },
            cpu,
            is_inserted,
            requeues,
            parts,
        })
}

fn event(time: i64, cpu: u32, action: Action, op: Op, sector: u64, sectors: u64) -> Event {
    Event {
        time: Nanos(time),
        cpu: Cpu(cpu),
        sequence: 0,
        device: Some(DeviceId { major: 8, minor: 0 }),
        action,
        op,
        flags: Flags::default(),
        sector: Some(Sector(sector)),
        length_bytes: sectors * 512,
        pid: cpu,
        comm: Comm::default(),
        error: (action == Action::Complete).then_some(0),
        remap: None,
        cgroup: None,
        io_priority: None,
        tag: None,
        protocol: None,
    }
}

/// The events of all plans in time order, and the truth by sector, in the order of issue.
fn play(plans: &[Plan]) -> (Vec<Event>, BTreeMap<u64, Vec<Truth>>) {
    let mut events = Vec::new();
    let mut truths: BTreeMap<u64, Vec<Truth>> = BTreeMap::new();
    for plan in plans {
        let sector = plan.place * 64;
        let mut say = |time, action, from, sectors| {
            events.push(event(time, plan.cpu, action, plan.op, sector + from, sectors));
        };
        let [to_get, to_insert, to_issue, to_complete] = plan.delays;
        say(plan.start, Action::Queue, 0, 16);
        let mut time = plan.start + to_get;
        say(time, Action::Get, 0, 16);
        if plan.is_inserted {
            time += to_insert;
            say(time, Action::Insert, 0, 16);
        }
        time += to_issue;
        say(time, Action::Issue, 0, 16);
        for _ in 0..plan.requeues {
            say(time + 1, Action::Requeue, 0, 16);
            time += 3;
            say(time, Action::Issue, 0, 16);
        }
        let issue = time;
        time += to_complete;
        if plan.parts == 2 {
            say(time, Action::Complete, 0, 8);
            time += 5;
            say(time, Action::Complete, 8, 8);
        } else {
            say(time, Action::Complete, 0, 16);
        }
        let truth = Truth { queue: plan.start, issue, complete: time };
        truths.entry(sector).or_default().push(truth);
    }
    events.sort_by_key(|event| (event.time, event.cpu));
    (events, truths)
}

/// Plans of which no two are under way on one place at once.
fn apart(count: usize) -> impl Strategy<Value = Vec<Plan>> {
    prop::collection::vec(plan(1 << 20), 1..count).prop_map(|mut plans| {
        plans.sort_by_key(|plan| plan.place);
        plans.dedup_by_key(|plan| plan.place);
        plans
    })
}

/// Plans that use a few places again and again, each only when it is free.
fn in_turn(count: usize) -> impl Strategy<Value = Vec<Plan>> {
    prop::collection::vec(plan(4), 1..count).prop_map(|mut plans| {
        let mut free = [0_i64; 4];
        for plan in &mut plans {
            let free = &mut free[usize::try_from(plan.place).expect("there are four places")];
            plan.start = plan.start % 100 + *free;
            *free = plan.start + 1_200;
        }
        plans
    })
}

fn assemble(items: impl IntoIterator<Item = Item>) -> (Vec<Request>, Ledger) {
    let mut assembler = Assembler::new();
    let mut requests = Vec::new();
    for item in items {
        assembler.push(&item, &mut requests);
    }
    let ledger = assembler.finish(&mut requests);
    (requests, ledger)
}

/// Cuts the events of one CPU between two moments out and says so, as a parser would.
fn with_gap(events: &[Event], cpu: u32, from: i64, length: i64) -> Vec<Item> {
    let is_lost =
        |event: &&Event| event.cpu == Cpu(cpu) && (from..from + length).contains(&event.time.0);
    let own = || events.iter().filter(|event| event.cpu == Cpu(cpu));
    let count = events.iter().filter(is_lost).count();
    let before = own().rfind(|event| event.time.0 < from).map_or(0, |event| event.time.0);
    let after = own().find(|event| event.time.0 >= from + length);
    let after = after.map_or(i64::MAX, |event| event.time.0);
    let loss = Item::Loss(Loss {
        cpu: Cpu(cpu),
        from: Nanos(before),
        to: Nanos(after),
        count: count as u64,
    });
    let mut items: Vec<_> =
        events.iter().filter(|event| !is_lost(event)).map(|event| Item::Event(*event)).collect();
    let place = items.iter().position(
        |item| matches!(item, Item::Event(event) if (event.time.0, event.cpu.0) > (before, cpu)),
    );
    if count > 0 {
        items.insert(place.unwrap_or(items.len()), loss);
    }
    items
}

fn stranger() -> impl Strategy<Value = Item> {
    let action = prop::sample::select(Action::NAMED.to_vec());
    let op = prop::sample::select(Op::ALL.to_vec());
    let sector = prop_oneof![
        1 => Just(None),
        6 => (0..6_u64).prop_map(|place| Some(place * 8)),
        1 => any::<u64>().prop_map(Some),
    ];
    let length = prop_oneof![
        1 => Just(0_u64),
        6 => (1..4_u64).prop_map(|sectors| sectors * 4096),
        1 => any::<u64>(),
    ];
    let remap = prop::option::of((0..3_u32, prop_oneof![0..48_u64, any::<u64>()]));
    let rest = (any::<u8>(), prop::sample::select(vec![0, -5]), 0..3_u32, remap, 0..40_u8);
    (0..60_i64, action, op, sector, length, rest).prop_map(
        |(time, action, op, sector, length_bytes, (flags, error, minor, remap, kind))| {
            if kind == 0 {
                let (from, to) = (Nanos(time), Nanos(time + 3));
                return Item::Loss(Loss { cpu: Cpu(0), from, to, count: 1 });
            }
            let device = |minor| DeviceId { major: 8, minor };
            Item::Event(Event {
                length_bytes,
                sector: sector.map(Sector),
                device: (kind > 1).then_some(device(minor)),
                flags: Flags(flags),
                error: Some(error),
                remap: remap
                    .map(|(minor, sector)| Remap { device: device(minor), sector: Sector(sector) }),
                protocol: Some(Protocol::AtaNcq),
                ..event(time, u32::from(kind) % 2, action, op, 0, 0)
            })
        },
    )
}

fn time_of(item: &Item) -> Nanos {
    match item {
        Item::Event(event) => event.time,
        Item::Loss(loss) => loss.from,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x10_7ace),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_request_of_a_whole_trace_is_found_exactly(
        plans in prop_oneof![apart(40), in_turn(40)]
    ) {
        let (events, truths) = play(&plans);
        let (requests, ledger) = assemble(events.into_iter().map(Item::Event));
        prop_assert_eq!(&ledger, &Ledger::default());
        prop_assert_eq!(requests.len(), plans.len());
        let mut found: BTreeMap<u64, Vec<Truth>> = BTreeMap::new();
        for request in &requests {
            prop_assert_eq!(request.status, Status::Complete);
            let time = |stamp: Option<iotrace_model::Stamp>| stamp.unwrap().time.0;
            found.entry(request.sector.unwrap().0).or_default().push(Truth {
                queue: time(request.queue),
                issue: time(request.issue),
                complete: time(request.complete),
            });
        }
        prop_assert_eq!(found, truths);
    }

    #[test]
    fn stages_add_up(plans in prop_oneof![apart(40), in_turn(40)]) {
        let (requests, _) = assemble(play(&plans).0.into_iter().map(Item::Event));
        for request in &requests {
            let (Some(q2d), Some(d2c), Some(q2c)) = (request.q2d(), request.d2c(), request.q2c())
            else { return Err(TestCaseError::fail("a stage is missing")) };
            prop_assert_eq!(q2d.0 + d2c.0, q2c.0);
            if let (Some(q2i), Some(i2d)) = (request.q2i(), request.i2d()) {
                prop_assert_eq!(q2i.0 + i2d.0, q2d.0);
            }
        }
    }

    #[test]
    fn depth_is_never_negative_and_ends_at_the_unfinished(
        plans in apart(40), cut in 0..400_usize
    ) {
        let (mut events, _) = play(&plans);
        events.truncate(cut);
        let (requests, ledger) = assemble(events.into_iter().map(Item::Event));
        let mut steps = Vec::new();
        for request in &requests {
            steps.extend(request.issue.map(|stamp| (stamp.time, 1)));
            if request.issue.is_some() {
                steps.extend(request.complete.map(|stamp| (stamp.time, -1)));
            }
        }
        steps.sort_unstable_by_key(|(time, step)| (*time, -step));
        let mut depth = 0_i32;
        for (_, step) in steps {
            depth += step;
            prop_assert!(depth >= 0);
        }
        let open = |request: &&Request| request.status == Status::Unfinished;
        let unfinished = requests.iter().filter(open);
        let in_flight = unfinished.clone().filter(|request| request.issue.is_some()).count();
        prop_assert_eq!(usize::try_from(depth).unwrap(), in_flight);
        prop_assert_eq!(ledger.count(Cause::Unfinished), unfinished.count() as u64);
    }

    #[test]
    fn overtakes_are_counted_as_defined(plans in apart(30)) {
        // Of equal times the order of the stream decides, which rows do not show: every plan
        // gets times of its own.
        let own = |(place, plan): (usize, Plan)| Plan {
            start: plan.start * 64 + i64::try_from(place).unwrap(),
            delays: plan.delays.map(|delay| delay * 64),
            requeues: 0,
            parts: 1,
            ..plan
        };
        let plans: Vec<_> = plans.into_iter().enumerate().map(own).collect();
        let (requests, _) = assemble(play(&plans).0.into_iter().map(Item::Event));
        for one in &requests {
            let passes = |a: &Request, b: &Request| {
                b.issue.unwrap().time < a.issue.unwrap().time
                    && a.complete.unwrap().time < b.complete.unwrap().time
            };
            let overtook = requests.iter().filter(|other| passes(one, other)).count();
            let overtaken = requests.iter().filter(|other| passes(other, one)).count();
            prop_assert_eq!(one.overtook, u32::try_from(overtook).ok());
            prop_assert_eq!(one.overtaken, u32::try_from(overtaken).ok());
        }
    }

    #[test]
    fn a_gap_never_makes_up_a_latency(
        plans in prop_oneof![apart(40), in_turn(40)],
        cpu in 0..3_u32, from in 0..4_000_i64, length in 1..1_500_i64
    ) {
        let (events, truths) = play(&plans);
        let (requests, _) = assemble(with_gap(&events, cpu, from, length));
        for request in &requests {
            let truths = &truths[&(request.sector.unwrap().0 / 64 * 64)];
            if let (Some(issue), Some(complete)) = (request.issue, request.complete) {
                let is_true = truths
                    .iter()
                    .any(|t| (t.issue, t.complete) == (issue.time.0, complete.time.0));
                prop_assert!(is_true, "{:?} is none of {:?}", request, truths);
            }
            if let (Some(queue), Some(complete)) = (request.queue, request.complete) {
                let is_true = truths
                    .iter()
                    .any(|t| (t.queue, t.complete) == (queue.time.0, complete.time.0));
                prop_assert!(is_true, "{:?} is none of {:?}", request, truths);
            }
        }
    }

    #[test]
    fn a_filter_never_makes_up_a_latency(
        plans in prop_oneof![apart(40), in_turn(40)], hidden in 0..32_u8
    ) {
        let (mut events, truths) = play(&plans);
        let kinds =
            [Action::Queue, Action::Get, Action::Insert, Action::Issue, Action::Requeue];
        let is_hidden = |event: &Event| {
            kinds.iter().position(|kind| *kind == event.action).is_some_and(|k| hidden >> k & 1 == 1)
        };
        events.retain(|event| !is_hidden(event));
        let (requests, _) = assemble(events.into_iter().map(Item::Event));
        for request in &requests {
            let truths = &truths[&(request.sector.unwrap().0 / 64 * 64)];
            let (queue, complete) = (request.queue, request.complete);
            if let (Some(issue), Some(complete)) = (request.issue, complete) {
                let is_true = truths
                    .iter()
                    .any(|t| (t.issue, t.complete) == (issue.time.0, complete.time.0));
                prop_assert!(is_true, "{:?} is none of {:?}", request, truths);
            }
            if let (Some(queue), Some(complete)) = (queue, complete) {
                let is_true = truths
                    .iter()
                    .any(|t| (t.queue, t.complete) == (queue.time.0, complete.time.0));
                prop_assert!(is_true, "{:?} is none of {:?}", request, truths);
            }
        }
    }

    #[test]
    fn issue_and_completion_are_enough_for_completion_latencies(
        plans in prop_oneof![apart(40), in_turn(40)]
    ) {
        let (mut events, truths) = play(&plans);
        let kept = [Action::Issue, Action::Requeue, Action::Complete];
        events.retain(|event| kept.contains(&event.action));
        let (requests, ledger) = assemble(events.into_iter().map(Item::Event));
        prop_assert_eq!(ledger, Ledger::default());
        let mut found: Vec<_> = requests
            .iter()
            .map(|r| (r.status, r.issue.unwrap().time.0, r.complete.unwrap().time.0))
            .collect();
        found.sort_unstable();
        let truths = truths.values().flatten();
        let mut expected: Vec<_> =
            truths.map(|truth| (Status::Complete, truth.issue, truth.complete)).collect();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_gap_on_busy_places_never_makes_a_latency_longer(
        plans in prop::collection::vec(plan(3), 1..40),
        cpu in 0..3_u32, from in 0..3_000_i64, length in 1..1_500_i64
    ) {
        let (events, truths) = play(&plans);
        let longest = truths.values().flatten().map(|t| t.complete - t.issue).max();
        let (requests, _) = assemble(with_gap(&events, cpu, from, length));
        let found = requests.iter().filter_map(Request::d2c).map(|nanos| nanos.0).max();
        prop_assert!(found <= longest, "{:?} > {:?}", found, longest);
    }

    #[test]
    fn strangers_never_stop_the_machine(
        items in prop::collection::vec(stranger(), 0..200)
    ) {
        let mut items = items;
        items.sort_by_key(time_of);
        let (requests, _) = assemble(items.iter().copied());
        let (again, _) = assemble(items);
        prop_assert_eq!(&requests, &again, "the same events give the same rows");
        let mut numbers: Vec<_> = requests.iter().map(|request| request.request).collect();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), requests.len(), "a number is used once");
        for request in &requests {
            let latencies = [request.q2d(), request.d2c(), request.q2c(), request.i2d()];
            prop_assert!(latencies.into_iter().flatten().all(|latency| latency.0 >= 0));
            let bios = request.merged_bios.len();
            prop_assert!(bios == 0 || bios <= request.bios as usize);
        }
    }
}
