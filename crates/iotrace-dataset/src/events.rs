//! `events.parquet`: one row an event, in time order.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Builder, Int64Builder, RecordBatch, StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{Int32Type, Int64Type, Schema, UInt32Type, UInt64Type};
use iotrace_model::{Comm, Cpu, Event, Nanos, Remap, Sector};

use crate::table::{self, Columns, Layout, Table, Written, get, get_text, get_u16};
use crate::text::{self, Texts};
use crate::{EVENTS_SCHEMA, Error, columns};

/// Rows of one row group.
const ROW_GROUP: usize = 1 << 20;
/// Rows gathered before they are handed to Parquet.
const BATCH: usize = 1 << 14;

/// Writes events as they come, in bounded memory.
pub struct EventWriter<W: Write + Send> {
    schema: Arc<Schema>,
    table: Table<W>,
    texts: Texts,
    rows: Rows,
}

impl<W: Write + Send> EventWriter<W> {
    /// Starts a table whose Parquet key-values hold `metadata`.
    pub fn new(file: W, metadata: &[(String, String)]) -> Result<Self, Error> {
        let schema = Arc::new(columns::events());
        let layouts = [
            Layout::Delta(&["time_ns", "sequence", "sector"]),
            Layout::Plain(&["remap_sector", "cgroup"]),
        ];
        let table = Table::new(EVENTS_SCHEMA, file, &schema, ROW_GROUP, &layouts, metadata)?;
        Ok(Self { schema, table, texts: Texts::default(), rows: Rows::default() })
    }

    /// Adds rows; the events of all calls must be in time order.
    pub fn write(&mut self, events: &[Event]) -> Result<(), Error> {
        for chunk in events.chunks(BATCH) {
            for event in chunk {
                self.rows.push(event, &mut self.texts);
            }
            if self.rows.count >= BATCH {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what is left and the footer.
    pub fn finish(mut self) -> Result<Written, Error> {
        self.flush()?;
        self.table.finish()
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.rows.count == 0 {
            return Ok(());
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.rows.take())
            .map_err(|source| Error::Arrow { table: EVENTS_SCHEMA.to_owned(), source })?;
        self.table.write(&batch)
    }
}

/// The columns under construction.
#[derive(Default)]
struct Rows {
    count: usize,
    time: Int64Builder,
    cpu: UInt32Builder,
    sequence: UInt64Builder,
    device: StringBuilder,
    action: StringBuilder,
    op: StringBuilder,
    flags: StringBuilder,
    sector: UInt64Builder,
    length: UInt64Builder,
    pid: UInt32Builder,
    comm: StringBuilder,
    error: Int32Builder,
    remap_device: StringBuilder,
    remap_sector: UInt64Builder,
    cgroup: UInt64Builder,
    io_priority: UInt32Builder,
    tag: UInt32Builder,
    protocol: StringBuilder,
}

impl Rows {
    fn push(&mut self, event: &Event, texts: &mut Texts) {
        self.count += 1;
        self.time.append_value(event.time.0);
        self.cpu.append_value(event.cpu.0);
        self.sequence.append_value(event.sequence);
        self.device.append_option(event.device.map(|device| texts.device(device)));
        self.action.append_value(texts.action(event.action));
        self.op.append_value(event.op.name());
        self.flags.append_value(texts.flags(event.flags));
        self.sector.append_option(event.sector.map(|sector| sector.0));
        self.length.append_value(event.length_bytes);
        self.pid.append_value(event.pid);
        self.comm.append_option(texts.comm(event.comm));
        self.error.append_option(event.error);
        self.remap_device.append_option(event.remap.map(|remap| texts.device(remap.device)));
        self.remap_sector.append_option(event.remap.map(|remap| remap.sector.0));
        self.cgroup.append_option(event.cgroup);
        self.io_priority.append_option(event.io_priority.map(u32::from));
        self.tag.append_option(event.tag.map(u32::from));
        self.protocol.append_option(event.protocol.map(|protocol| texts.protocol(protocol)));
    }

    /// The columns in the order of the schema; leaves the builders empty.
    fn take(&mut self) -> Vec<ArrayRef> {
        self.count = 0;
        vec![
            Arc::new(self.time.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.sequence.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.action.finish()),
            Arc::new(self.op.finish()),
            Arc::new(self.flags.finish()),
            Arc::new(self.sector.finish()),
            Arc::new(self.length.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.comm.finish()),
            Arc::new(self.error.finish()),
            Arc::new(self.remap_device.finish()),
            Arc::new(self.remap_sector.finish()),
            Arc::new(self.cgroup.finish()),
            Arc::new(self.io_priority.finish()),
            Arc::new(self.tag.finish()),
            Arc::new(self.protocol.finish()),
        ]
    }
}

/// Reads the events of a table in batches, in the order of the rows.
///
/// # Errors
/// When the file is no table of this version, or a row holds what no version writes.
pub fn read_events(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Vec<Event>, Error>> + use<>, Error> {
    let name = path.display().to_string();
    Ok(table::open(path, EVENTS_SCHEMA)?.map(move |batch| {
        let batch = batch.map_err(|source| Error::Arrow { table: name.clone(), source })?;
        read_batch(&Columns { table: &name, batch: &batch })
    }))
}

fn read_batch(columns: &Columns<'_>) -> Result<Vec<Event>, Error> {
    let time = columns.numbers::<Int64Type>("time_ns")?;
    let cpu = columns.numbers::<UInt32Type>("cpu")?;
    let sequence = columns.numbers::<UInt64Type>("sequence")?;
    let device = columns.strings("device")?;
    let action = columns.strings("action")?;
    let op = columns.strings("op")?;
    let flags = columns.strings("flags")?;
    let sector = columns.numbers::<UInt64Type>("sector")?;
    let length = columns.numbers::<UInt64Type>("length_bytes")?;
    let pid = columns.numbers::<UInt32Type>("pid")?;
    let comm = columns.strings("comm")?;
    let error = columns.numbers::<Int32Type>("error")?;
    let remap_device = columns.strings("remap_device")?;
    let remap_sector = columns.numbers::<UInt64Type>("remap_sector")?;
    let cgroup = columns.numbers::<UInt64Type>("cgroup")?;
    let io_priority = columns.numbers::<UInt32Type>("io_priority")?;
    let tag = columns.numbers::<UInt32Type>("tag")?;
    let protocol = columns.strings("protocol")?;
    let row = |row: usize| {
        let remap = get_text(remap_device, row).zip(get(remap_sector, row));
        Ok(Event {
            time: Nanos(time.value(row)),
            cpu: Cpu(cpu.value(row)),
            sequence: sequence.value(row),
            device: get_text(device, row).map(|text| columns.device("device", text)).transpose()?,
            action: columns.value("action", action.value(row), text::action)?,
            op: columns.value("op", op.value(row), text::op)?,
            flags: columns.value("flags", flags.value(row), text::flags)?,
            sector: get(sector, row).map(Sector),
            length_bytes: length.value(row),
            pid: pid.value(row),
            comm: Comm::new(get_text(comm, row).unwrap_or_default().as_bytes()),
            error: get(error, row),
            remap: remap
                .map(|(text, sector)| {
                    let device = columns.device("remap_device", text)?;
                    Ok(Remap { device, sector: Sector(sector) })
                })
                .transpose()?,
            cgroup: get(cgroup, row),
            io_priority: get_u16(io_priority, row),
            tag: get_u16(tag, row),
            protocol: get_text(protocol, row)
                .map(|text| columns.value("protocol", text, text::protocol))
                .transpose()?,
        })
    };
    (0..columns.batch.num_rows()).map(row).collect()
}
