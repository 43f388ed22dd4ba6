//! `events.parquet`: one row an event, in time order.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use arrow::datatypes::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use iotrace_model::{
    Action, Comm, Cpu, DeviceId, Event, Flags, Nanos, Op, Protocol, Remap, Sector,
};

use crate::Error;
use crate::cells::{Coded, Numbers, Stored};
use crate::columns::{self, EVENTS_SCHEMA};
use crate::rows::{Batches, Columns, get};
use crate::table::{self, Kind, Table, Written};
use crate::text;

/// Rows of one row group.
const ROW_GROUP: usize = 1 << 20;
/// Rows of one page.
const PAGE: usize = 1 << 16;
/// Events whose columns are gathered one after the other; they stay in the nearest cache.
const STEP: usize = 1 << 7;

/// Writes events as they come, encoding them on a thread of its own. Memory is bounded by two
/// encoded row groups and three pages that are not encoded.
pub struct EventWriter<W: Write + Send> {
    table: Table<W>,
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

    /// Adds rows; the events of all calls must be in time order. Waits while the encoding is
    /// more than a page behind. On an error the table is of no use any more.
    pub fn write(&mut self, mut events: &[Event]) -> Result<(), Error> {
        while !events.is_empty() {
            let (step, rest) = events.split_at(events.len().min(STEP).min(self.table.room()));
            self.rows.extend(step).map_err(|Cpu(cpu)| Error::CpuOutOfRange {
                path: self.table.path().to_owned(),
                cpu,
            })?;
            self.table.gathered(step.len(), self.rows.columns())?;
            events = rest;
        }
        Ok(())
    }

    /// Writes what is left and the footer.
    pub fn finish(mut self) -> Result<Written, Error> {
        self.table.finish(self.rows.columns())
    }

    fn start(path: &Path, file: W, metadata: &[(String, String)]) -> Result<Self, Error> {
        let kind = Kind {
            name: EVENTS_SCHEMA,
            schema: columns::events(),
            page: PAGE,
            row_group: ROW_GROUP,
        };
        let mut rows = Rows::new();
        let table = Table::new(path.to_owned(), file, kind, &rows.columns(), metadata)?;
        Ok(Self { table, rows })
    }
}

/// The columns under construction.
struct Rows {
    time: Numbers,
    cpu: Coded<u16>,
    sequence: Numbers,
    device: Coded<DeviceId>,
    action: Coded<Action>,
    op: Coded<Op>,
    flags: Coded<Flags>,
    sector: Numbers,
    length: Coded<u64>,
    pid: Coded<u32>,
    comm: Coded<Comm>,
    error: Coded<i32>,
    remap_device: Coded<DeviceId>,
    remap_sector: Numbers,
    cgroup: Coded<u64>,
    io_priority: Coded<u16>,
    tag: Coded<u16>,
    protocol: Coded<Protocol>,
}

impl Rows {
    fn new() -> Self {
        Self {
            time: Numbers::default(),
            cpu: Coded::new(|cpu| Stored::Small(u32::from(cpu))),
            sequence: Numbers::default(),
            device: Coded::new(text::store_device),
            action: Coded::new(text::store_action),
            op: Coded::new(text::store_op),
            flags: Coded::new(text::store_flags),
            sector: Numbers::default(),
            length: Coded::new(Stored::Large),
            pid: Coded::new(Stored::Small),
            comm: Coded::new(text::store_comm),
            error: Coded::new(Stored::Signed),
            remap_device: Coded::new(text::store_device),
            remap_sector: Numbers::default(),
            cgroup: Coded::new(Stored::Large),
            io_priority: Coded::new(|priority| Stored::Small(u32::from(priority))),
            tag: Coded::new(|tag| Stored::Small(u32::from(tag))),
            protocol: Coded::new(text::store_protocol),
        }
    }

    /// Adds events column by column. A CPU that the column cannot hold is the error.
    fn extend(&mut self, events: &[Event]) -> Result<(), Cpu> {
        if let Some(event) = events.iter().find(|event| u16::try_from(event.cpu.0).is_err()) {
            return Err(event.cpu);
        }
        let all = || events.iter();
        self.time.extend(all().map(|event| event.time.0.cast_unsigned()));
        self.cpu.extend(all().map(|event| u16::try_from(event.cpu.0).unwrap_or(u16::MAX)));
        self.sequence.extend(all().map(|event| event.sequence));
        self.device.extend_optional(all().map(|event| event.device));
        self.action.extend(all().map(|event| event.action));
        self.op.extend(all().map(|event| event.op));
        self.flags.extend(all().map(|event| event.flags));
        self.sector.extend_optional(all().map(|event| event.sector.map(|sector| sector.0)));
        self.length.extend(all().map(|event| event.length_bytes));
        self.pid.extend(all().map(|event| event.pid));
        self.comm
            .extend_optional(all().map(|event| (!event.comm.is_empty()).then_some(event.comm)));
        self.error.extend_optional(all().map(|event| event.error));
        self.remap_device.extend_optional(all().map(|event| event.remap.map(|to| to.device)));
        self.remap_sector.extend_optional(all().map(|event| event.remap.map(|to| to.sector.0)));
        self.cgroup.extend_optional(all().map(|event| event.cgroup));
        self.io_priority.extend_optional(all().map(|event| event.io_priority));
        self.tag.extend_optional(all().map(|event| event.tag));
        self.protocol.extend_optional(all().map(|event| event.protocol));
        Ok(())
    }

    /// The columns in the order of the schema.
    fn columns(&mut self) -> table::Columns<'_> {
        vec![
            &mut self.time,
            &mut self.cpu,
            &mut self.sequence,
            &mut self.device,
            &mut self.action,
            &mut self.op,
            &mut self.flags,
            &mut self.sector,
            &mut self.length,
            &mut self.pid,
            &mut self.comm,
            &mut self.error,
            &mut self.remap_device,
            &mut self.remap_sector,
            &mut self.cgroup,
            &mut self.io_priority,
            &mut self.tag,
            &mut self.protocol,
        ]
    }
}

/// Reads the events of a table in batches, in the order of the rows. Fails when the file is no
/// table of this version, or a row holds what no version writes.
pub fn read_events(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Vec<Event>, Error>> + use<>, Error> {
    let mut batches = Batches::open(path, EVENTS_SCHEMA)?;
    let path = path.to_owned();
    Ok(std::iter::from_fn(move || {
        let batch = batches.next(&path)?;
        let unread = &batches.unread;
        Some(batch.and_then(|batch| read_batch(&Columns { path: &path, batch: &batch, unread })))
    }))
}

fn read_batch(columns: &Columns<'_>) -> Result<Vec<Event>, Error> {
    let time = columns.always_numbers::<Int64Type>(columns::TIME_NS)?;
    let cpu = columns.always_numbers::<UInt16Type>(columns::CPU)?;
    let sequence = columns.always_numbers::<UInt64Type>(columns::SEQUENCE)?;
    let device = columns.words(columns::DEVICE, DeviceId::parse)?;
    let action = columns.words(columns::ACTION, text::action)?;
    let op = columns.words(columns::OP, text::op)?;
    let flags = columns.words(columns::FLAGS, text::flags)?;
    let sector = columns.numbers::<UInt64Type>(columns::SECTOR)?;
    let length = columns.always_numbers::<UInt64Type>(columns::LENGTH_BYTES)?;
    let pid = columns.always_numbers::<UInt32Type>(columns::PID)?;
    let comm = columns.words(columns::COMM, text::comm)?;
    let error = columns.numbers::<Int32Type>(columns::ERROR)?;
    let remap_device = columns.words(columns::REMAP_DEVICE, DeviceId::parse)?;
    let remap_sector = columns.numbers::<UInt64Type>(columns::REMAP_SECTOR)?;
    let cgroup = columns.numbers::<UInt64Type>(columns::CGROUP)?;
    let io_priority = columns.numbers::<UInt16Type>(columns::IO_PRIORITY)?;
    let tag = columns.numbers::<UInt16Type>(columns::TAG)?;
    let protocol = columns.words(columns::PROTOCOL, text::protocol)?;
    let row = |row: usize| {
        let source = remap_device.get(row)?.zip(get(remap_sector, row));
        Ok(Event {
            time: Nanos(time[row]),
            cpu: Cpu(u32::from(cpu[row])),
            sequence: sequence[row],
            device: device.get(row)?,
            action: action.always(row)?,
            op: op.always(row)?,
            flags: flags.always(row)?,
            sector: get(sector, row).map(Sector),
            length_bytes: length[row],
            pid: pid[row],
            comm: comm.get(row)?.unwrap_or_default(),
            error: get(error, row),
            remap: source.map(|(device, sector)| Remap { device, sector: Sector(sector) }),
            cgroup: get(cgroup, row),
            io_priority: get(io_priority, row),
            tag: get(tag, row),
            protocol: protocol.get(row)?,
        })
    };
    let mut events = Vec::with_capacity(columns.batch.num_rows());
    for place in 0..columns.batch.num_rows() {
        events.push(row(place)?);
    }
    Ok(events)
}
