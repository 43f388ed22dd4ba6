//! One run as iotrace saw it, through its tables.

use std::collections::BTreeMap;
use std::path::Path;

use iotrace_dataset::{read_events, read_requests};
use iotrace_model::{Action, Op, Protocol, Request, Status};

use super::depth::Depth;

/// What the tables of a run say.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Events `issue`.
    pub(super) issues: u64,
    /// Events `complete`.
    pub(super) completions: u64,
    /// Rows with status complete.
    pub(super) complete: u64,
    /// Completion latencies in nanoseconds, by first sector, in the order of completion.
    pub(super) latencies: BTreeMap<u64, Vec<i64>>,
    /// The in-flight depth.
    pub(super) in_flight: Depth,
    /// Reads and writes.
    pub(super) commands: u64,
    /// Of these, under an NCQ protocol.
    pub(super) queued_commands: u64,
}

impl Tables {
    /// Reads both tables of a run's folder.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut tables = Self::default();
        for batch in read_events(&folder.join("events.parquet"))? {
            for event in batch? {
                tables.issues += u64::from(event.action == Action::Issue);
                tables.completions += u64::from(event.action == Action::Complete);
            }
        }
        let mut requests = Vec::new();
        for batch in read_requests(&folder.join("requests.parquet"))? {
            requests.extend(batch?);
        }
        tables.add(&mut requests);
        Ok(tables)
    }

    fn add(&mut self, requests: &mut [Request]) {
        requests.sort_by_key(|request| (request.complete.map(|stamp| stamp.time), request.request));
        for request in requests.iter() {
            self.complete += u64::from(request.status == Status::Complete);
            if matches!(request.op, Op::Read | Op::Write) {
                self.commands += 1;
                self.queued_commands += u64::from(request.protocol == Some(Protocol::AtaNcq));
            }
            if let (Some(sector), Some(d2c)) = (request.sector, request.d2c()) {
                self.latencies.entry(sector.0).or_default().push(d2c.0);
            }
        }
        self.in_flight = depth(requests);
    }
}

fn depth(requests: &[Request]) -> Depth {
    let mut steps = Vec::new();
    for request in requests {
        if let (Some(issue), Some(complete)) = (request.issue, request.complete) {
            steps.push((issue.time.0, 1));
            steps.push((complete.time.0, -1));
        }
    }
    Depth::of(steps)
}

#[cfg(test)]
mod tests {
    use iotrace_model::{Comm, Cpu, DeviceId, Flags, Nanos, Sector, Stamp};

    use super::*;

    #[test]
    fn latencies_stand_in_the_order_of_completion() {
        let mut requests = [request(8, (50, 90)), request(8, (10, 20)), request(16, (0, 5))];
        requests[0].protocol = Some(Protocol::AtaNcq);
        requests[2].op = Op::Flush;
        let mut tables = Tables::default();
        tables.add(&mut requests);
        assert_eq!(tables.latencies, BTreeMap::from([(8, vec![10, 40]), (16, vec![5])]));
        assert_eq!((tables.complete, tables.commands, tables.queued_commands), (3, 2, 1));
    }

    fn request(sector: u64, (issue, complete): (i64, i64)) -> Request {
        let stamp = |time| Some(Stamp { time: Nanos(time), cpu: Cpu(0) });
        Request {
            request: 0,
            device: DeviceId { major: 8, minor: 0 },
            op: Op::Read,
            flags: Flags::default(),
            sector: Some(Sector(sector)),
            length_bytes: 4096,
            pid: 0,
            comm: Comm::default(),
            cgroup: None,
            io_priority: None,
            queue: stamp(issue),
            get: None,
            insert: None,
            issue: stamp(issue),
            complete: stamp(complete),
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
            error: Some(0),
            status: Status::Complete,
            merged_bios: Vec::new(),
        }
    }
}
