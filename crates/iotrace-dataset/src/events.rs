//! `events.parquet`: one row an event, in time order.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Builder, Int64Builder, StringBuilder, UInt16Builder, UInt32Builder,
    UInt64Builder,
};
use arrow::datatypes::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use iotrace_model::{Comm, Cpu, DeviceId, Event, Nanos, Remap, Sector};

use crate::Error;
use crate::columns::{self, EVENTS_SCHEMA};
use crate::table::{self, Columns, Kind, Table, Written, get, get_text};
use crate::text::{self, Texts};

/// Rows of one row group.
const ROW_GROUP: usize = 1 << 20;
/// Rows gathered before they are handed to Parquet.
const BATCH: usize = 1 << 14;

/// Writes events as they come. Memory is bounded by one encoded row group.
pub struct EventWriter<W: Write + Send> {
    table: Table<W>,
    texts: Texts,
    rows: Rows,
}

impl EventWriter<File> {
    /// Starts a table in a new file, which errors name; fails if there is one already.
    pub fn create(path: &Path, metadata: &[(String, String)]) -> Result<Self, Error> {
        Self::start(path, table::create(path)?, metadata)
    }
}

impl<W: Write + Send> EventWriter<W> {
    /// Starts a table whose Parquet key-values hold `metadata`. Errors call it
    /// `events.parquet`.
    pub fn new(file: W, metadata: &[(String, String)]) -> Result<Self, Error> {
        Self::start(Path::new("events.parquet"), file, metadata)
    }

    /// Adds rows; the events of all calls must be in time order. On an error the table is of
    /// no use any more.
    pub fn write(&mut self, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let Ok(cpu) = u16::try_from(event.cpu.0) else {
                let path = self.table.path().to_owned();
                return Err(Error::CpuOutOfRange { path, cpu: event.cpu.0 });
            };
            self.rows.push(event, cpu, &mut self.texts);
            if self.rows.count == BATCH {
                self.table.write(self.rows.take())?;
            }
        }
        Ok(())
    }

    /// Writes what is left and the footer.
    pub fn finish(mut self) -> Result<Written, Error> {
        self.table.write(self.rows.take())?;
        self.table.finish()
    }

    fn start(path: &Path, file: W, metadata: &[(String, String)]) -> Result<Self, Error> {
        let kind = Kind {
            name: EVENTS_SCHEMA,
            schema: Arc::new(columns::events()),
            row_group: ROW_GROUP,
            delta: &[columns::TIME_NS, columns::SEQUENCE, columns::SECTOR, columns::REMAP_SECTOR],
        };
        let table = Table::new(path.to_owned(), file, kind, metadata)?;
        Ok(Self { table, texts: Texts::default(), rows: Rows::default() })
    }
}

/// The columns under construction.
#[derive(Default)]
struct Rows {
    count: usize,
    time: Int64Builder,
    cpu: UInt16Builder,
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
    io_priority: UInt16Builder,
    tag: UInt16Builder,
    protocol: StringBuilder,
}

impl Rows {
    fn push(&mut self, event: &Event, cpu: u16, texts: &mut Texts) {
        self.count += 1;
        self.time.append_value(event.time.0);
        self.cpu.append_value(cpu);
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
        self.io_priority.append_option(event.io_priority);
        self.tag.append_option(event.tag);
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

/// Reads the events of a table in batches, in the order of the rows. Fails when the file is no
/// table of this version, or a row holds what no version writes.
pub fn read_events(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Vec<Event>, Error>> + use<>, Error> {
    let batches = table::batches(path, EVENTS_SCHEMA)?;
    let path = path.to_owned();
    Ok(batches.map(move |batch| read_batch(&Columns { path: &path, batch: &batch? })))
}

fn read_batch(columns: &Columns<'_>) -> Result<Vec<Event>, Error> {
    let time = columns.always_numbers::<Int64Type>(columns::TIME_NS)?;
    let cpu = columns.always_numbers::<UInt16Type>(columns::CPU)?;
    let sequence = columns.always_numbers::<UInt64Type>(columns::SEQUENCE)?;
    let device = columns.strings(columns::DEVICE)?;
    let action = columns.always_strings(columns::ACTION)?;
    let op = columns.always_strings(columns::OP)?;
    let flags = columns.always_strings(columns::FLAGS)?;
    let sector = columns.numbers::<UInt64Type>(columns::SECTOR)?;
    let length = columns.always_numbers::<UInt64Type>(columns::LENGTH_BYTES)?;
    let pid = columns.always_numbers::<UInt32Type>(columns::PID)?;
    let comm = columns.strings(columns::COMM)?;
    let error = columns.numbers::<Int32Type>(columns::ERROR)?;
    let remap_device = columns.strings(columns::REMAP_DEVICE)?;
    let remap_sector = columns.numbers::<UInt64Type>(columns::REMAP_SECTOR)?;
    let cgroup = columns.numbers::<UInt64Type>(columns::CGROUP)?;
    let io_priority = columns.numbers::<UInt16Type>(columns::IO_PRIORITY)?;
    let tag = columns.numbers::<UInt16Type>(columns::TAG)?;
    let protocol = columns.strings(columns::PROTOCOL)?;
    let remap = |row| {
        let source = get_text(remap_device, row).zip(get(remap_sector, row));
        source
            .map(|(text, sector)| {
                let device = columns.device(columns::REMAP_DEVICE, text)?;
                Ok(Remap { device, sector: Sector(sector) })
            })
            .transpose()
    };
    let row = |row: usize| {
        Ok(Event {
            time: Nanos(time.value(row)),
            cpu: Cpu(u32::from(cpu.value(row))),
            sequence: sequence.value(row),
            device: columns.optional(columns::DEVICE, get_text(device, row), DeviceId::parse)?,
            action: columns.value(columns::ACTION, action.value(row), text::action)?,
            op: columns.value(columns::OP, op.value(row), text::op)?,
            flags: columns.value(columns::FLAGS, flags.value(row), text::flags)?,
            sector: get(sector, row).map(Sector),
            length_bytes: length.value(row),
            pid: pid.value(row),
            comm: Comm::new(get_text(comm, row).unwrap_or_default().as_bytes()),
            error: get(error, row),
            remap: remap(row)?,
            cgroup: get(cgroup, row),
            io_priority: get(io_priority, row),
            tag: get(tag, row),
            protocol: {
                let text = get_text(protocol, row);
                columns.optional(columns::PROTOCOL, text, text::protocol)?
            },
        })
    };
    (0..columns.batch.num_rows()).map(row).collect()
}
