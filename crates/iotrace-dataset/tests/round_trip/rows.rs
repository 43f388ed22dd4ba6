//! Rows to write: plain ones, those of a busy disk, and any whatever.

use iotrace_model::{
    Action, Bio, Comm, Cpu, DeviceId, Event, Flags, Nanos, Op, Protocol, Remap, Request, Sector,
    Stamp, Status,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

/// An event in which nothing is of interest.
pub(crate) fn plain_event() -> Event {
    Event {
        time: Nanos(0),
        cpu: Cpu(1),
        sequence: 0,
        device: Some(DeviceId { major: 8, minor: 0 }),
        action: Action::Issue,
        op: Op::Read,
        flags: Flags::SYNC,
        sector: Some(Sector(0)),
        length_bytes: 4096,
        pid: 7,
        comm: Comm::new(b"fio"),
        error: None,
        remap: None,
        cgroup: None,
        io_priority: None,
        tag: None,
        protocol: None,
    }
}

/// A request in which nothing is of interest.
pub(crate) fn plain_request() -> Request {
    Request {
        request: 0,
        device: DeviceId { major: 8, minor: 0 },
        op: Op::Read,
        flags: Flags::default(),
        sector: Some(Sector(8)),
        length_bytes: 4096,
        pid: 7,
        comm: Comm::new(b"fio"),
        cgroup: Some(1),
        io_priority: Some(0),
        queue: Some(Stamp { time: Nanos(5), cpu: Cpu(0) }),
        get: Some(Stamp { time: Nanos(6), cpu: Cpu(0) }),
        insert: Some(Stamp { time: Nanos(7), cpu: Cpu(0) }),
        issue: Some(Stamp { time: Nanos(8), cpu: Cpu(0) }),
        complete: Some(Stamp { time: Nanos(9), cpu: Cpu(0) }),
        bios: 2,
        front_merges: 0,
        back_merges: 1,
        requeues: 0,
        splits: 0,
        parent: Some(3),
        in_flight_at_issue: Some(0),
        queued_at_queue: Some(0),
        overtook: Some(0),
        overtaken: Some(0),
        seek_sectors: Some(-8),
        tag: Some(1),
        protocol: Some(Protocol::AtaNcq),
        error: Some(0),
        status: Status::Complete,
        merged_bios: Vec::new(),
    }
}

/// An event of a busy disk: most columns hold a value, and it changes.
pub(crate) fn busy_event(n: u64) -> Event {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let small = u16::try_from(mixed >> 60).unwrap();
    Event {
        time: Nanos((n * 1000 + mixed % 700).cast_signed()),
        cpu: Cpu(u32::from(small % 3)),
        sequence: n / 2,
        device: Some(DeviceId { major: 8, minor: u32::from(small % 4) }),
        action: if small > 7 { Action::Queue } else { Action::Unknown(small) },
        sector: Some(Sector(mixed % (1 << 40))),
        pid: u32::from(small),
        error: Some(-i32::from(small)),
        remap: Some(Remap {
            device: DeviceId { major: 9, minor: u32::from(small) },
            sector: Sector(n * 8),
        }),
        cgroup: Some(u64::from(small)),
        io_priority: Some(small),
        tag: Some(small),
        protocol: Some(Protocol::AtaNcq),
        ..plain_event()
    }
}

/// The same event without what can be missing.
pub(crate) fn bare(event: Event) -> Event {
    Event {
        device: None,
        sector: None,
        comm: Comm::default(),
        error: None,
        remap: None,
        cgroup: None,
        io_priority: None,
        tag: None,
        protocol: None,
        ..event
    }
}

/// A request of a busy disk; a third of them have bios of their own, and every second lacks what
/// can be missing, but for a stretch of two pages.
pub(crate) fn busy_request(n: u64) -> Request {
    let event = busy_event(n);
    let stamp = |later| Some(Stamp { time: Nanos(event.time.0 + later), cpu: event.cpu });
    let bio =
        |n: u64| Bio { queue: Nanos(n.cast_signed()), sector: Sector(n), length_bytes: n % 9 };
    let is_whole = n.is_multiple_of(2) && n > 65_000;
    let bios =
        if n.is_multiple_of(3) && n > 40_000 { (0..n % 5 + 2).map(bio).collect() } else { vec![] };
    Request {
        request: n,
        device: DeviceId { major: 8, minor: event.pid },
        sector: event.sector,
        queue: stamp(0),
        get: if is_whole { stamp(5) } else { None },
        insert: if is_whole { stamp(7) } else { None },
        parent: is_whole.then_some(n / 2),
        overtook: is_whole.then_some(event.pid),
        seek_sectors: Some(-event.time.0),
        merged_bios: bios,
        ..plain_request()
    }
}

fn device() -> impl Strategy<Value = DeviceId> {
    (0_u32..1 << 12, 0_u32..1 << 20).prop_map(|(major, minor)| DeviceId { major, minor })
}

fn comm() -> impl Strategy<Value = Comm> {
    prop_oneof![Just(Comm::default()), "[ -~]{1,15}".prop_map(|name| Comm::new(name.as_bytes()))]
}

fn flags() -> impl Strategy<Value = Flags> {
    (0_u8..64).prop_map(Flags)
}

fn op() -> impl Strategy<Value = Op> {
    select(Op::ALL.to_vec())
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![select(Action::NAMED.to_vec()), any::<u16>().prop_map(Action::Unknown)]
}

fn protocol() -> impl Strategy<Value = Protocol> {
    let named = [
        Protocol::AtaNcq,
        Protocol::AtaNcqNoData,
        Protocol::AtaDma,
        Protocol::AtaPio,
        Protocol::AtaNoData,
        Protocol::Atapi,
    ];
    prop_oneof![select(named.to_vec()), any::<u16>().prop_map(Protocol::Unknown)]
}

fn cpu() -> impl Strategy<Value = Cpu> {
    any::<u16>().prop_map(|cpu| Cpu(u32::from(cpu)))
}

fn stamp() -> impl Strategy<Value = Option<Stamp>> {
    of((any::<i64>(), cpu()).prop_map(|(time, cpu)| Stamp { time: Nanos(time), cpu }))
}

fn bios() -> impl Strategy<Value = Vec<Bio>> {
    let bio = (any::<i64>(), any::<u64>(), any::<u64>()).prop_map(|(queue, sector, length)| Bio {
        queue: Nanos(queue),
        sector: Sector(sector),
        length_bytes: length,
    });
    prop_oneof![Just(Vec::new()), vec(bio, 2..5)]
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let identity = (any::<i64>(), cpu(), any::<u64>(), of(device()), action(), op(), flags());
    let place = (of(any::<u64>()), any::<u64>(), any::<u32>(), comm(), of(any::<i32>()));
    let rest = (
        of((device(), any::<u64>())),
        of(any::<u64>()),
        of(any::<u16>()),
        of(any::<u16>()),
        of(protocol()),
    );
    (identity, place, rest).prop_map(|(identity, place, rest)| {
        let (time, cpu, sequence, device, action, op, flags) = identity;
        let (sector, length_bytes, pid, comm, error) = place;
        let (remap, cgroup, io_priority, tag, protocol) = rest;
        Event {
            time: Nanos(time),
            cpu,
            sequence,
            device,
            action,
            op,
            flags,
            sector: sector.map(Sector),
            length_bytes,
            pid,
            comm,
            error,
            remap: remap.map(|(device, sector)| Remap { device, sector: Sector(sector) }),
            cgroup,
            io_priority,
            tag,
            protocol,
        }
    })
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    let identity = (any::<u64>(), device(), op(), flags(), of(any::<u64>()), any::<u64>());
    let owner = (any::<u32>(), comm(), of(any::<u64>()), of(any::<u16>()));
    let times = (stamp(), stamp(), stamp(), stamp(), stamp());
    let shape = (any::<[u32; 5]>(), of(any::<u64>()), vec(of(any::<u32>()), 4));
    let rest = (
        of(any::<i64>()),
        of(any::<u16>()),
        of(protocol()),
        of(any::<i32>()),
        select(Status::ALL.to_vec()),
        bios(),
    );
    (identity, owner, times, shape, rest).prop_map(|(identity, owner, times, shape, rest)| {
        let (request, device, op, flags, sector, length_bytes) = identity;
        let (pid, comm, cgroup, io_priority) = owner;
        let (queue, get, insert, issue, complete) = times;
        let ([bios, front_merges, back_merges, requeues, splits], parent, context) = shape;
        let (seek_sectors, tag, protocol, error, status, merged_bios) = rest;
        Request {
            request,
            device,
            op,
            flags,
            sector: sector.map(Sector),
            length_bytes,
            pid,
            comm,
            cgroup,
            io_priority,
            queue,
            get,
            insert,
            issue,
            complete,
            bios,
            front_merges,
            back_merges,
            requeues,
            splits,
            parent,
            in_flight_at_issue: context[0],
            queued_at_queue: context[1],
            overtook: context[2],
            overtaken: context[3],
            seek_sectors,
            tag,
            protocol,
            error,
            status,
            merged_bios,
        }
    })
}
