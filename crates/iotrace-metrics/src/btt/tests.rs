//! The rules that no golden capture pins.

use iotrace_model::{BttDevice, Cpu, Flags, Op};
use proptest::prelude::*;

use super::*;

const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
const SDB: DeviceId = DeviceId { major: 8, minor: 16 };
const DM: DeviceId = DeviceId { major: 253, minor: 0 };

/// An event of `SDA`; places and lengths in sectors.
fn at(time: i64, action: Action, sector: u64, sectors: u64) -> Event {
    Event {
        time: Nanos(time),
        cpu: Cpu(0),
        sequence: 0,
        device: Some(SDA),
        action,
        op: Op::Write,
        flags: Flags::default(),
        sector: Some(iotrace_model::Sector(sector)),
        length_bytes: sectors * SECTOR_BYTES,
        pid: 1,
        comm: iotrace_model::Comm::default(),
        error: None,
        remap: None,
        cgroup: None,
        io_priority: None,
        tag: None,
        protocol: None,
    }
}

fn on(device: DeviceId, event: Event) -> Event {
    Event { device: Some(device), ..event }
}

fn from(device: DeviceId, sector: u64, event: Event) -> Event {
    let sector = iotrace_model::Sector(sector);
    Event { remap: Some(iotrace_model::Remap { device, sector }), ..event }
}

fn summary(events: &[Event]) -> BttSummary {
    summary_within(Limits::DEFAULT, events)
}

fn summary_within(limits: Limits, events: &[Event]) -> BttSummary {
    let mut btt = Btt::with_limits(limits);
    for event in events {
        btt.push(event);
    }
    btt.finish()
}

fn only_device(events: &[Event]) -> BttDevice {
    let mut devices = summary(events).devices;
    assert_eq!(devices.len(), 1);
    devices.remove(0)
}

/// Holds the stages, as name, count and sum, to what is expected.
#[track_caller]
fn check(events: &[Event], expected: &[(&str, u64, i64)]) {
    let stages = summary(events).stages;
    let found: Vec<_> =
        stages.iter().map(|line| (line.stage.name(), line.count, line.total.0)).collect();
    assert_eq!(found, expected);
}

#[track_caller]
fn check_note(events: &[Event], words: &str, is_there: bool) {
    let notes = summary(events).notes;
    assert_eq!(notes.iter().any(|note| note.contains(words)), is_there, "{notes:?}");
}

#[test]
fn waiting_for_a_request_counts_from_the_last_sleep() {
    let events = [
        at(0, Action::Queue, 8, 8),
        at(10, Action::Sleep, 8, 8),
        at(20, Action::Sleep, 8, 8),
        at(50, Action::Get, 8, 8),
    ];
    check(&events, &[("Q2G", 1, 50), ("S2G", 1, 30)]);
}

#[test]
fn nothing_counts_before_the_first_queue_or_remap_of_a_device() {
    let stray = [at(0, Action::Issue, 8, 8), at(5, Action::Complete, 8, 8)];
    let io = [at(10, Action::Queue, 8, 8), at(30, Action::Complete, 8, 8)];
    let events = [stray[0], stray[1], io[0], io[1]];
    check(&events, &[("Q2C", 1, 20)]);
    check_note(&events, "first Q or A of their device: 2;", true);
    assert_eq!(summary(&stray).devices, []);
    // A wakes the device below, also without a size and a place.
    let remap = Event { sector: None, ..from(DM, 0, at(0, Action::Remap, 0, 0)) };
    let device = only_device(&[remap, stray[0], stray[1]]);
    assert_eq!(device.issue_seeks, Some(iotrace_model::BttSeeks { count: 1, mean: 8.0 }));
    assert_eq!((device.merges, device.requests_at_queue), (None, None));
}

#[test]
fn a_remap_is_timed_on_the_device_above_by_its_kind() {
    let remap = |above| {
        [on(above, at(0, Action::Queue, 100, 8)), from(above, 100, at(7, Action::Remap, 900, 8))]
    };
    check(&remap(DM), &[("Q2Adm", 1, 7)]);
    check(&remap(DeviceId { major: 9, minor: 1 }), &[("Q2Adm", 1, 7)]);
    check(&remap(DeviceId { major: 254, minor: 1 }), &[("Q2Adm", 1, 7)]);
    check(&remap(DeviceId { major: 252, minor: 1 }), &[("Q2A", 1, 7)]);
    // It starts inside the bio, not at its start.
    let inside = from(DM, 104, at(7, Action::Remap, 900, 4));
    check(&[on(DM, at(0, Action::Queue, 100, 8)), inside], &[]);
}

#[test]
fn queues_of_all_devices_follow_each_other_by_the_kind_of_the_later() {
    let events = [
        at(0, Action::Queue, 8, 8),
        on(SDB, at(10, Action::Queue, 8, 8)),
        on(DM, at(30, Action::Queue, 8, 8)),
        at(70, Action::Queue, 80, 8),
    ];
    check(&events, &[("Q2Qdm", 1, 20), ("Q2Q", 2, 50)]);
}

#[test]
fn a_remapping_device_has_its_own_total_and_no_overhead() {
    let events = [on(DM, at(0, Action::Queue, 8, 8)), on(DM, at(9, Action::BioComplete, 8, 8))];
    check(&events, &[("Q2Cdm", 1, 9)]);
    let device = only_device(&events);
    assert_eq!((device.overhead, device.requests_at_queue), (None, None));
    // One that issues requests is told, as a virtio disk is.
    check_note(&events, "issues requests", false);
    let issue = on(DM, at(5, Action::Issue, 8, 8));
    check_note(&[events[0], issue, events[1]], "253:0 issues requests", true);
}

#[test]
fn events_of_no_bytes_and_passthrough_have_no_part() {
    let bare = |action| Event { sector: None, op: Op::Other, ..at(5, action, 0, 8) };
    let mut events = vec![at(0, Action::Queue, 8, 8)];
    for action in [
        Action::Queue,
        Action::Get,
        Action::Insert,
        Action::BackMerge,
        Action::FrontMerge,
        Action::Sleep,
        Action::Issue,
        Action::Complete,
    ] {
        events.push(at(5, action, 8, 0));
        events.push(bare(action));
    }
    events.push(bare(Action::Requeue));
    events.push(at(9, Action::Complete, 8, 8));
    check(&events, &[("Q2C", 1, 9)]);
    check_note(&events, "such as flushes: 8;", true);
    check_note(&events, "such as passthrough: 9;", true);
    assert_eq!(only_device(&events).merges, None);
}

#[test]
fn the_last_issue_counts_for_the_drive_and_every_one_for_the_scheduler() {
    let events = [
        at(0, Action::Queue, 8, 8),
        at(1, Action::Insert, 8, 8),
        at(3, Action::Issue, 8, 8),
        at(4, Action::Requeue, 8, 8),
        at(8, Action::Issue, 8, 8),
        at(9, Action::Complete, 8, 8),
    ];
    check(&events, &[("I2D", 2, 2 + 7), ("D2C", 1, 1), ("Q2C", 1, 9)]);
    let merges = only_device(&events).merges.unwrap();
    assert_eq!((merges.queued, merges.issued), (2, 2));
}

#[test]
fn a_bio_stays_open_until_a_completion_covers_it() {
    let events = [
        at(0, Action::Queue, 8, 8),
        at(5, Action::Complete, 8, 4),
        at(6, Action::Complete, 12, 4),
        at(9, Action::Complete, 0, 64),
    ];
    check(&events, &[("Q2C", 1, 9)]);
    check_note(&events[..3], "open at the end: 1;", true);
}

#[test]
fn a_queue_at_the_same_sector_replaces_the_open_bio() {
    let events = [
        at(0, Action::Queue, 8, 8),
        at(20, Action::Queue, 8, 8),
        at(25, Action::Complete, 8, 8),
        at(30, Action::Complete, 8, 8),
    ];
    check(&events, &[("Q2Q", 1, 20), ("Q2C", 1, 5)]);
    check_note(&events, "to the same sector: 1;", true);
}

#[test]
fn waiting_bios_are_lowered_by_merge_and_issue_but_not_by_completion() {
    let events = [
        at(0, Action::Issue, 0, 8),
        at(1, Action::Queue, 8, 8),
        at(2, Action::BackMerge, 8, 8),
        at(3, Action::Issue, 8, 8),
        at(4, Action::Queue, 16, 8),
        at(5, Action::Complete, 16, 8),
        at(6, Action::Queue, 24, 8),
        at(7, Action::Requeue, 24, 8),
    ];
    // 0, 0, 1 and 2 at the four events that count.
    assert_eq!(only_device(&events).requests_at_queue, Some(0.75));
}

#[test]
fn fewer_queues_than_issues_are_raised_to_them() {
    let events = [
        at(0, Action::Queue, 0, 16),
        at(1, Action::Queue, 16, 16),
        at(1, Action::Issue, 0, 8),
        at(2, Action::Issue, 8, 8),
        at(2, Action::Issue, 16, 8),
        at(2, Action::Issue, 24, 8),
    ];
    let device = only_device(&events);
    let merges = device.merges.unwrap();
    assert_eq!((merges.queued, merges.issued, merges.smallest), (4, 4, 0));
    // Also where it divides another sum: 0 + 1.
    assert_eq!(device.requests_at_queue, Some(0.25));
}

#[test]
fn plugs_of_a_known_device_are_timed_from_the_first_to_the_unplug() {
    let events = [
        at(0, Action::Plug, 0, 0),
        at(0, Action::Unplug, 0, 0),
        at(0, Action::Queue, 8, 8),
        at(10, Action::Plug, 0, 0),
        at(20, Action::Plug, 0, 0),
        at(30, Action::Unplug, 0, 0),
        at(40, Action::Unplug, 0, 0),
        at(50, Action::Plug, 0, 0),
        at(60, Action::UnplugTimer, 0, 0),
        at(90, Action::Plug, 0, 0),
        at(100, Action::Complete, 8, 8),
    ];
    let plugs = |events: &[Event]| {
        let plugs = only_device(events).plugs.unwrap();
        (plugs.plugs, plugs.timer_unplugs, plugs.percent_plugged)
    };
    // 20, 10 and, to the end, 10 of 100.
    assert_eq!(plugs(&events), (2, 1, 40.0));
    // A plug after the last event adds a plug and no time.
    let late = [events[2], events[10], at(120, Action::Plug, 0, 0)];
    assert_eq!(plugs(&late), (1, 0, 0.0));
    check_note(&late, "8:0 was plugged after its last event", true);
    check_note(&events, "was plugged after", false);
    let nameless = Event { device: None, ..events[3] };
    check_note(&[events[2], nameless], "such as plugs outside blktrace: 1;", true);
}

#[test]
fn splits_and_cgroups_are_told() {
    let io = at(0, Action::Queue, 8, 8);
    check_note(&[io, at(1, Action::Split, 8, 8)], "Splits: 1;", true);
    check_note(&[Event { cgroup: Some(7), ..io }], "with a cgroup: 1;", true);
}

#[test]
fn sums_over_devices_weigh_by_device() {
    let io = |device, time, sectors| {
        [
            on(device, at(time, Action::Queue, 8, sectors)),
            on(device, at(time + 10, Action::Issue, 8, sectors)),
            on(device, at(time + 100, Action::Complete, 8, sectors)),
        ]
    };
    let [one, two] = [io(SDA, 0, 8), io(SDB, 1000, 24)];
    let both = summary(&[one, two].concat());
    let merges = both.merges.unwrap();
    assert_eq!((merges.queued, merges.issued, merges.total), (2, 2, 32));
    assert_eq!((merges.smallest, merges.mean, merges.largest), (8, 16, 24));
    assert_eq!(both.overhead.unwrap().d2c.to_bits(), 90.0_f64.to_bits());
    assert_eq!(summary(&one).merges, None);
}

#[test]
fn memory_is_bounded_and_what_was_forgotten_is_counted() {
    let limits = Limits { open: 4, covered: 2, devices: 1 };
    let queues: Vec<Event> =
        (0..5).map(|n| at(n, Action::Queue, 8 * n.unsigned_abs(), 8)).collect();
    let mut events = queues.clone();
    events.push(on(SDB, at(9, Action::Queue, 0, 8)));
    events.push(at(10, Action::Complete, 0, 80));
    let summary = summary_within(limits, &events);
    let has = |words: &str| summary.notes.iter().any(|note| note.contains(words));
    // The three oldest of five are gone, the two others complete.
    assert!(has("to bound memory: 3;"), "{:?}", summary.notes);
    assert!(has("beyond the first 4096: 1;"), "{:?}", summary.notes);
    assert!(!has("open at the end:"), "{:?}", summary.notes);
    let cut = summary_within(Limits { open: 9, ..limits }, &events);
    assert!(cut.notes.iter().any(|note| note.contains("than are looked at: 1;")));
}

#[test]
fn hostile_places_and_times_do_no_harm() {
    let end = u64::MAX;
    let mut events = vec![at(i64::MAX, Action::Queue, end, 8), at(i64::MIN, Action::Get, end, 8)];
    events.push(Event { length_bytes: u64::MAX, ..at(0, Action::Queue, end - 1, 8) });
    events.push(Event { length_bytes: u64::MAX, ..at(0, Action::Issue, 0, 8) });
    events.push(Event { length_bytes: u64::MAX, ..at(i64::MIN, Action::Complete, 0, 8) });
    events.push(at(i64::MAX, Action::Plug, 0, 0));
    events.push(at(i64::MIN, Action::Unplug, 0, 0));
    let summary = summary(&events);
    assert!(summary.stages.iter().all(|line| line.min >= Nanos(1)));
}

proptest! {
    /// Q2C samples, bios still open, replaced and forgotten ones add up to the bios queued, and
    /// no sum contradicts its ends.
    #[test]
    fn every_queued_bio_is_accounted_for(
        events in prop::collection::vec((0..22_usize, 0..3_usize, 0..40_u64, 0..4_u64, -5..5_i64), 0..200),
    ) {
        let limits = Limits { open: 6, covered: 3, devices: 2 };
        let mut btt = Btt::with_limits(limits);
        let (mut time, mut queued) = (0, 0);
        for (action, device, sector, sectors, step) in events {
            let action = Action::NAMED[action];
            time += step;
            let event = on([SDA, SDB, DM][device], at(time, action, sector, sectors));
            let before = btt.counts.beyond_devices;
            btt.push(&from(SDA, sector, event));
            let is_followed = btt.counts.beyond_devices == before;
            queued += u64::from(action == Action::Queue && sectors > 0 && is_followed);
        }
        let open: usize = btt.devices.values().map(|device| device.table.len()).sum();
        prop_assert_eq!(open, btt.open);
        prop_assert!(open <= limits.open);
        let kept = table::count(open) + btt.counts.replaced + btt.counts.forgotten;
        let mut done = 0;
        for line in btt.finish().stages {
            if matches!(line.stage, BttStage::Q2C | BttStage::Q2Cdm) {
                done += line.count;
            }
            let count = i64::try_from(line.count).unwrap();
            prop_assert!(Nanos(1) <= line.min && line.min <= line.max);
            prop_assert!(line.min.0 * count <= line.total.0 && line.total.0 <= line.max.0 * count);
        }
        prop_assert_eq!(done + kept, queued);
    }
}

#[test]
fn nothing_gives_nothing() {
    let nothing = summary(&[]);
    assert_eq!((nothing.stages.len(), nothing.devices.len()), (0, 0));
    assert_eq!((nothing.overhead, nothing.merges), (None, None));
}
