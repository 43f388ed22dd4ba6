//! One run's raw capture to its tables.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;
use iotrace_model::{DeviceFacts, Item, Ledger, Loss, Nanos};
use iotrace_parse::{Options, PerfReader, Progress, Reader};

use crate::tables::{Events, Filled, Tables};

/// What came out.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) records_read: u64,
    pub(crate) filled: Filled,
    /// What the parser and the state machine counted instead of using it.
    pub(crate) ledger: Ledger,
}

/// Reads the capture from its start and writes both tables into the run's folder.
pub(crate) fn decode(
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
    let options = Options { origin: Some(origin), devices: ports };
    let mut reader = PerfReader::open(capture, name, options)?;
    let mut tables = Tables::create(folder, metadata, Events::Keep)?;
    let mut gaps = gaps.iter().peekable();
    let (mut items, mut with_gaps) = (Vec::new(), Vec::new());
    loop {
        items.clear();
        let progress = reader.next_batch(&mut items)?;
        if gaps.peek().is_none() {
            tables.push(&items)?;
        } else {
            with_gaps.clear();
            for item in &items {
                let time = match item {
                    Item::Event(event) => event.time,
                    Item::Loss(loss) => loss.from,
                };
                while let Some(gap) = gaps.next_if(|gap| gap.from <= time) {
                    with_gaps.push(Item::Loss(*gap));
                }
                with_gaps.push(*item);
            }
            tables.push(&with_gaps)?;
        }
        if progress == Progress::End {
            break;
        }
    }
    let rest: Vec<_> = gaps.map(|gap| Item::Loss(*gap)).collect();
    tables.push(&rest)?;
    let filled = tables.finish()?;
    let mut ledger = filled.ledger.clone();
    ledger.merge(&reader.take_ledger());
    Ok(Decoded { records_read: reader.records().read, filled, ledger })
}
