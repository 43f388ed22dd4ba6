//! One run's raw capture to `events.parquet` and `requests.parquet`, streaming.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;
use iotrace_dataset::{EventWriter, RequestWriter};
use iotrace_model::{DeviceFacts, Event, Item, Ledger, Loss, Nanos, Request};
use iotrace_parse::{Options, PerfReader, Progress, Reader};
use iotrace_requests::Assembler;

/// What came out.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) records_read: u64,
    pub(super) events: u64,
    pub(super) requests: u64,
    pub(super) statuses: BTreeMap<&'static str, u64>,
    /// What the parser and the state machine counted instead of using it.
    pub(super) ledger: Ledger,
}

/// Reads the capture from its start and writes both tables into the run's folder.
pub(super) fn decode(
    mut capture: File,
    name: &str,
    origin: Nanos,
    devices: &[DeviceFacts],
    gaps: &[Loss],
    folder: &Path,
    metadata: &[(String, String)],
) -> anyhow::Result<Decoded> {
    capture.seek(SeekFrom::Start(0)).context("cannot read the raw capture again")?;
    let ports = devices.iter().filter_map(|facts| Some((facts.ata_port?, facts.device))).collect();
    let mut reader =
        PerfReader::open(capture, name, Options { origin: Some(origin), devices: ports })?;
    let mut event_writer = EventWriter::create(&folder.join("events.parquet"), metadata)?;
    let mut request_writer = RequestWriter::create(&folder.join("requests.parquet"), metadata)?;
    let mut assembler = Assembler::new();
    let mut decoded = Decoded::default();
    let mut gaps = gaps.iter().peekable();
    let (mut items, mut events, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        items.clear();
        let progress = reader.next_batch(&mut items)?;
        for item in &items {
            let time = match item {
                Item::Event(event) => {
                    events.push(*event);
                    event.time
                }
                Item::Loss(loss) => loss.from,
            };
            while let Some(gap) = gaps.next_if(|gap| gap.from <= time) {
                assembler.push(&Item::Loss(*gap), &mut requests);
            }
            assembler.push(item, &mut requests);
        }
        flush(&mut events, &mut requests, &mut event_writer, &mut request_writer, &mut decoded)?;
        if progress == Progress::End {
            break;
        }
    }
    for gap in gaps {
        assembler.push(&Item::Loss(*gap), &mut requests);
    }
    decoded.ledger.merge(&assembler.finish(&mut requests));
    flush(&mut events, &mut requests, &mut event_writer, &mut request_writer, &mut decoded)?;
    decoded.ledger.merge(&reader.take_ledger());
    decoded.records_read = reader.records().read;
    event_writer.finish()?;
    request_writer.finish()?;
    Ok(decoded)
}

fn flush(
    events: &mut Vec<Event>,
    requests: &mut Vec<Request>,
    event_writer: &mut EventWriter<File>,
    request_writer: &mut RequestWriter<File>,
    decoded: &mut Decoded,
) -> anyhow::Result<()> {
    event_writer.write(events)?;
    request_writer.write(requests)?;
    decoded.events += events.len() as u64;
    decoded.requests += requests.len() as u64;
    for request in requests.iter() {
        *decoded.statuses.entry(request.status.name()).or_default() += 1;
    }
    events.clear();
    requests.clear();
    Ok(())
}
