//! Pipe mode (`perf record -o -`): what a file has in its header comes as records before the samples.
//!
//! ```text
//! header, 16 bytes │ HEADER_ATTR … │ HEADER_FEATURE … │ HEADER_TRACING_DATA, formats │ samples …
//! ```
//!
//! `tools/perf/util/header.c`, `tools/perf/util/synthetic-events.c`. An attribute carries its ids;
//! the formats follow their record, whose size does not count them.

use std::io::{Read, Seek};

use super::attribute::{self, Attribute, Ids, MOST_IDS};
use super::clock::{ClockFacts, Pair};
use super::file::{File, Section};
use super::header::{Header, feature};
use super::records::{Next, Record, RecordStream, State};
use super::{kind, tracing_data};
use crate::Error;
use crate::bytes::{u32_at, u64_at};

/// What the records before the samples say.
#[derive(Debug, Default)]
struct Prelude {
    attributes: Vec<Attribute>,
    ids: usize,
    formats: Vec<Section>,
    pair: Option<Pair>,
}

/// Passes over the records of `data` up to the first sample.
pub(super) fn read<R: Read + Seek>(file: &mut File<'_, R>, data: Section) -> Result<Header, Error> {
    let mut prelude = Prelude::default();
    let mut records = RecordStream::new(&mut *file.reader, file.path);
    records.start(data)?;
    'blocks: loop {
        records.fill()?;
        let mut offset = records.offset();
        loop {
            match records.next() {
                Next::Record(record) if prelude.take(record, offset) => {}
                Next::Record(_) => break 'blocks,
                Next::Damaged => {}
                Next::Broken | Next::Used => break,
            }
            offset = records.offset();
        }
        if records.state() != State::More {
            break;
        }
    }
    let (layouts, clock) = attribute::layouts(file, &prelude.attributes)?;
    let formats = tracing_data::read(file, &prelude.formats)?;
    let clock = ClockFacts { id: clock, pair: prelude.pair };
    Ok(Header { data, layouts, formats, clock, is_pipe: true })
}

impl Prelude {
    /// Takes one record, which begins at `offset`; false at the first one behind the prelude.
    fn take(&mut self, record: Record<'_>, offset: u64) -> bool {
        let body = record.body;
        match record.kind {
            kind::SAMPLE => return self.formats.is_empty() || self.attributes.is_empty(),
            kind::HEADER_ATTR => {
                if let Some(attribute) = Attribute::from_record(body) {
                    // An attribute counts as an id, so that those without ids are bounded too.
                    let Ids::Here(ids) = &attribute.ids else { return true };
                    self.ids = self.ids.saturating_add(ids.len() + 1);
                    if self.ids <= MOST_IDS {
                        self.attributes.push(attribute);
                    }
                }
            }
            kind::HEADER_TRACING_DATA if self.formats.is_empty() => {
                let size = u32_at(body, 0).map_or(0, u64::from);
                let behind = offset.saturating_add(8 + body.len() as u64);
                self.formats.push(Section { offset: behind, size });
            }
            kind::HEADER_FEATURE if u64_at(body, 0) == Some(feature::CLOCK_DATA) => {
                self.pair = body.get(8..).and_then(Pair::read);
            }
            _ => {}
        }
        true
    }
}
