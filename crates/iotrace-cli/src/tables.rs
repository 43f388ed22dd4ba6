//! A trace to the tables of one run, streaming: events as they come, requests as they end.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use iotrace_dataset::{EventWriter, RequestWriter, RowsDocument};
use iotrace_model::{Action, DeviceId, Event, Item, Ledger, Nanos, Request};
use iotrace_requests::Assembler;

/// Events that are handed to their table at once: few enough to stay in the nearest cache.
const STEP: usize = 1 << 7;

/// Whether a run gets a table of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    Keep,
    /// Only requests are kept.
    Omit,
}

/// What went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) events: u64,
    pub(crate) requests: u64,
    /// Requests by the word of their status.
    pub(crate) statuses: BTreeMap<&'static str, u64>,
    /// Requests by device.
    pub(crate) devices: BTreeMap<DeviceId, u64>,
    pub(crate) seen: Seen,
    /// Times of the first and of the last event.
    pub(crate) first: Option<Nanos>,
    pub(crate) last: Option<Nanos>,
    /// What the state machine counted instead of using it.
    pub(crate) ledger: Ledger,
}

/// Events of the kinds without which some latency cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) queues: u64,
    pub(crate) issues: u64,
    pub(crate) completions: u64,
}

/// The tables of a run while they are filled.
pub(crate) struct Tables {
    events: Option<EventWriter<File>>,
    requests: RequestWriter<File>,
    assembler: Assembler,
    /// Room for the events of a step.
    step: Vec<Event>,
    ended: Vec<Request>,
    filled: Filled,
}

impl Tables {
    /// Starts the tables in a run's folder; `metadata` goes into their key-values.
    pub(crate) fn create(
        folder: &Path,
        metadata: &[(String, String)],
        events: Events,
    ) -> anyhow::Result<Self> {
        let events = match events {
            Events::Keep => Some(EventWriter::create(&folder.join("events.parquet"), metadata)?),
            Events::Omit => None,
        };
        let requests = RequestWriter::create(&folder.join("requests.parquet"), metadata)?;
        let (assembler, step, ended) = (Assembler::new(), Vec::new(), Vec::new());
        Ok(Self { events, requests, assembler, step, ended, filled: Filled::default() })
    }

    /// Takes the next items, in order.
    pub(crate) fn push(&mut self, items: &[Item]) -> anyhow::Result<()> {
        for items in items.chunks(STEP) {
            self.step.clear();
            for item in items {
                if let Item::Event(event) = item {
                    self.filled.take(event);
                    if self.events.is_some() {
                        self.step.push(*event);
                    }
                }
                self.assembler.push(item, &mut self.ended);
            }
            if let Some(events) = &mut self.events {
                events.write(&self.step)?;
            }
        }
        self.write_ended()
    }

    /// Ends both tables.
    pub(crate) fn finish(mut self) -> anyhow::Result<Filled> {
        let assembler = std::mem::take(&mut self.assembler);
        self.filled.ledger = assembler.finish(&mut self.ended);
        self.write_ended()?;
        if let Some(events) = self.events {
            events.finish()?;
        }
        self.requests.finish()?;
        Ok(self.filled)
    }

    fn write_ended(&mut self) -> anyhow::Result<()> {
        self.requests.write(&self.ended)?;
        let filled = &mut self.filled;
        filled.requests += self.ended.len() as u64;
        // Neighbours are mostly of one device and status.
        let same = |one: &Request, other: &Request| {
            (one.device, one.status) == (other.device, other.status)
        };
        for alike in self.ended.chunk_by(same) {
            if let Some(request) = alike.first() {
                let count = alike.len() as u64;
                *filled.statuses.entry(request.status.name()).or_default() += count;
                *filled.devices.entry(request.device).or_default() += count;
            }
        }
        self.ended.clear();
        Ok(())
    }
}

impl Filled {
    /// As `run.json` has them.
    pub(crate) fn rows(&self) -> RowsDocument {
        let statuses = self.statuses.iter();
        RowsDocument {
            events: self.events,
            requests: self.requests,
            by_status: statuses.map(|(status, count)| ((*status).to_owned(), *count)).collect(),
        }
    }

    fn take(&mut self, event: &Event) {
        self.events += 1;
        self.seen.count(event.action);
        self.first.get_or_insert(event.time);
        self.last = self.last.max(Some(event.time));
    }
}

impl Seen {
    fn count(&mut self, action: Action) {
        match action {
            Action::Queue => self.queues += 1,
            Action::Issue => self.issues += 1,
            Action::Complete | Action::BioComplete => self.completions += 1,
            _ => {}
        }
    }
}
