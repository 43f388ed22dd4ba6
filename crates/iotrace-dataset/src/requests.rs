//! `requests.parquet`: one row a request, in the order in which they are written.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use arrow::array::{Array, AsArray, ListArray};
use arrow::datatypes::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use iotrace_model::{
    Bio, Comm, Cpu, DeviceId, Flags, Nanos, Op, Protocol, Request, Sector, Stamp, Status,
};

use crate::Error;
use crate::cells::{Coded, Column, Numbers, Stored};
use crate::columns::{self, REQUESTS_SCHEMA};
use crate::rows::{Batches, Columns, get};
use crate::table::{self, Kind, Table, Written};
use crate::text;

/// Rows of one row group.
const ROW_GROUP: usize = 1 << 18;
/// Rows of one page.
const PAGE: usize = 1 << 15;
/// Requests whose columns are gathered one after the other; they stay in the nearest cache.
const STEP: usize = 1 << 6;

/// Writes requests as they come, encoding them on a thread of its own. Memory is bounded by two
/// encoded row groups and three pages that are not encoded.
pub struct RequestWriter<W: Write + Send> {
    table: Table<W>,
    rows: Rows,
}

impl RequestWriter<File> {
    /// Starts a table in a new file, which errors name; fails if there is one already.
    pub fn create(path: &Path, metadata: &[(String, String)]) -> Result<Self, Error> {
        Self::start(path, table::create(path)?, metadata)
    }
}

impl<W: Write + Send> RequestWriter<W> {
    /// Starts a table whose Parquet key-values hold `metadata`. Errors call it
    /// `requests.parquet`.
    pub fn new(file: W, metadata: &[(String, String)]) -> Result<Self, Error> {
        Self::start(Path::new("requests.parquet"), file, metadata)
    }

    /// Adds rows. Waits while the encoding is more than a page behind. On an error the table is
    /// of no use any more.
    pub fn write(&mut self, mut requests: &[Request]) -> Result<(), Error> {
        while !requests.is_empty() {
            let (step, rest) = requests.split_at(requests.len().min(STEP).min(self.table.room()));
            self.rows.extend(step).map_err(|Cpu(cpu)| Error::CpuOutOfRange {
                path: self.table.path().to_owned(),
                cpu,
            })?;
            self.table.gathered(step.len(), self.rows.columns())?;
            requests = rest;
        }
        Ok(())
    }

    /// Writes what is left and the footer.
    pub fn finish(mut self) -> Result<Written, Error> {
        self.table.finish(self.rows.columns())
    }

    fn start(path: &Path, file: W, metadata: &[(String, String)]) -> Result<Self, Error> {
        let kind = Kind {
            name: REQUESTS_SCHEMA,
            schema: columns::requests(),
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
    request: Numbers,
    device: Coded<DeviceId>,
    op: Coded<Op>,
    flags: Coded<Flags>,
    sector: Numbers,
    length: Coded<u64>,
    pid: Coded<u32>,
    comm: Coded<Comm>,
    cgroup: Coded<u64>,
    io_priority: Coded<u16>,
    times: [Numbers; 5],
    cpus: [Coded<u16>; 5],
    shape: [Coded<u32>; 5],
    parent: Numbers,
    context: [Coded<u32>; 4],
    seek: Numbers,
    tag: Coded<u16>,
    protocol: Coded<Protocol>,
    error: Coded<i32>,
    status: Coded<Status>,
    bio_queue: Numbers,
    bio_sector: Numbers,
    bio_length: Numbers,
}

impl Rows {
    fn new() -> Self {
        let cpu = |cpu| Stored::Small(u32::from(cpu));
        Self {
            request: Numbers::default(),
            device: Coded::new(text::store_device),
            op: Coded::new(text::store_op),
            flags: Coded::new(text::store_flags),
            sector: Numbers::default(),
            length: Coded::new(Stored::Large),
            pid: Coded::new(Stored::Small),
            comm: Coded::new(text::store_comm),
            cgroup: Coded::new(Stored::Large),
            io_priority: Coded::new(|priority| Stored::Small(u32::from(priority))),
            times: Default::default(),
            cpus: std::array::from_fn(|_| Coded::new(cpu)),
            shape: std::array::from_fn(|_| Coded::new(Stored::Small)),
            parent: Numbers::default(),
            context: std::array::from_fn(|_| Coded::new(Stored::Small)),
            seek: Numbers::default(),
            tag: Coded::new(|tag| Stored::Small(u32::from(tag))),
            protocol: Coded::new(text::store_protocol),
            error: Coded::new(Stored::Signed),
            status: Coded::new(text::store_status),
            bio_queue: Numbers::default(),
            bio_sector: Numbers::default(),
            bio_length: Numbers::default(),
        }
    }

    /// Adds requests column by column. A CPU that the columns cannot hold is the error.
    fn extend(&mut self, requests: &[Request]) -> Result<(), Cpu> {
        let all = || requests.iter();
        for request in requests {
            let Request { queue, get, insert, issue, complete, .. } = request;
            let mut stamps = [queue, get, insert, issue, complete].into_iter().flatten();
            if let Some(stamp) = stamps.find(|stamp| narrow(stamp.cpu).is_none()) {
                return Err(stamp.cpu);
            }
        }
        self.request.extend(all().map(|request| request.request));
        self.device.extend(all().map(|request| request.device));
        self.op.extend(all().map(|request| request.op));
        self.flags.extend(all().map(|request| request.flags));
        self.sector.extend_optional(all().map(|request| request.sector.map(|sector| sector.0)));
        self.length.extend(all().map(|request| request.length_bytes));
        self.pid.extend(all().map(|request| request.pid));
        self.comm.extend_optional(
            all().map(|request| (!request.comm.is_empty()).then_some(request.comm)),
        );
        self.cgroup.extend_optional(all().map(|request| request.cgroup));
        self.io_priority.extend_optional(all().map(|request| request.io_priority));
        let Self { times, cpus, .. } = self;
        extend_stage(&mut times[0], &mut cpus[0], requests, |request| request.queue);
        extend_stage(&mut times[1], &mut cpus[1], requests, |request| request.get);
        extend_stage(&mut times[2], &mut cpus[2], requests, |request| request.insert);
        extend_stage(&mut times[3], &mut cpus[3], requests, |request| request.issue);
        extend_stage(&mut times[4], &mut cpus[4], requests, |request| request.complete);
        let [bios, front, back, requeues, splits] = &mut self.shape;
        bios.extend(all().map(|request| request.bios));
        front.extend(all().map(|request| request.front_merges));
        back.extend(all().map(|request| request.back_merges));
        requeues.extend(all().map(|request| request.requeues));
        splits.extend(all().map(|request| request.splits));
        self.parent.extend_optional(all().map(|request| request.parent));
        let [in_flight, queued, overtook, overtaken] = &mut self.context;
        in_flight.extend_optional(all().map(|request| request.in_flight_at_issue));
        queued.extend_optional(all().map(|request| request.queued_at_queue));
        overtook.extend_optional(all().map(|request| request.overtook));
        overtaken.extend_optional(all().map(|request| request.overtaken));
        let seek = |request: &Request| request.seek_sectors.map(i64::cast_unsigned);
        self.seek.extend_optional(all().map(seek));
        self.tag.extend_optional(all().map(|request| request.tag));
        self.protocol.extend_optional(all().map(|request| request.protocol));
        self.error.extend_optional(all().map(|request| request.error));
        self.status.extend(all().map(|request| request.status));
        if requests.iter().all(|request| request.merged_bios.is_empty()) {
            self.bio_queue.extend_nulls(requests.len());
            self.bio_sector.extend_nulls(requests.len());
            self.bio_length.extend_nulls(requests.len());
            return Ok(());
        }
        for request in requests {
            let bios = || request.merged_bios.iter();
            self.bio_queue.push_list(bios().map(|bio| bio.queue.0.cast_unsigned()));
            self.bio_sector.push_list(bios().map(|bio| bio.sector.0));
            self.bio_length.push_list(bios().map(|bio| bio.length_bytes));
        }
        Ok(())
    }

    /// The columns in the order of the schema.
    fn columns(&mut self) -> table::Columns<'_> {
        let mut columns: table::Columns<'_> = vec![
            &mut self.request,
            &mut self.device,
            &mut self.op,
            &mut self.flags,
            &mut self.sector,
            &mut self.length,
            &mut self.pid,
            &mut self.comm,
            &mut self.cgroup,
            &mut self.io_priority,
        ];
        columns.extend(self.times.iter_mut().map(|times| times as _));
        columns.extend(self.cpus.iter_mut().map(|cpus| cpus as _));
        columns.extend(self.shape.iter_mut().map(|counts| counts as _));
        columns.push(&mut self.parent);
        columns.extend(self.context.iter_mut().map(|counts| counts as _));
        let rest: [&mut dyn Column; 8] = [
            &mut self.seek,
            &mut self.tag,
            &mut self.protocol,
            &mut self.error,
            &mut self.status,
            &mut self.bio_queue,
            &mut self.bio_sector,
            &mut self.bio_length,
        ];
        columns.extend(rest);
        columns
    }
}

/// Time and CPU of one stage. A closure and no function pointer, so that it is inlined.
fn extend_stage(
    times: &mut Numbers,
    cpus: &mut Coded<u16>,
    requests: &[Request],
    stage: impl Fn(&Request) -> Option<Stamp> + Copy,
) {
    let stamps = || requests.iter().map(stage);
    times.extend_optional(stamps().map(|stamp| stamp.map(|stamp| stamp.time.0.cast_unsigned())));
    cpus.extend_optional(stamps().map(|stamp| stamp.and_then(|stamp| narrow(stamp.cpu))));
}

/// The number of a CPU as its column holds it.
fn narrow(cpu: Cpu) -> Option<u16> {
    u16::try_from(cpu.0).ok()
}

/// Reads the requests of a table in batches, in the order of the rows. Fails when the file is no
/// table of this version, or a row holds what no version writes.
pub fn read_requests(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Vec<Request>, Error>> + use<>, Error> {
    let mut batches = Batches::open(path, REQUESTS_SCHEMA)?;
    let path = path.to_owned();
    Ok(std::iter::from_fn(move || {
        let batch = batches.next(&path)?;
        let unread = &batches.unread;
        Some(batch.and_then(|batch| read_batch(&Columns { path: &path, batch: &batch, unread })))
    }))
}

fn read_batch(columns: &Columns<'_>) -> Result<Vec<Request>, Error> {
    let request = columns.always_numbers::<UInt64Type>(columns::REQUEST)?;
    let device = columns.words(columns::DEVICE, DeviceId::parse)?;
    let op = columns.words(columns::OP, text::op)?;
    let flags = columns.words(columns::FLAGS, text::flags)?;
    let sector = columns.numbers::<UInt64Type>(columns::SECTOR)?;
    let length = columns.always_numbers::<UInt64Type>(columns::LENGTH_BYTES)?;
    let pid = columns.always_numbers::<UInt32Type>(columns::PID)?;
    let comm = columns.words(columns::COMM, text::comm)?;
    let cgroup = columns.numbers::<UInt64Type>(columns::CGROUP)?;
    let io_priority = columns.numbers::<UInt16Type>(columns::IO_PRIORITY)?;
    let stage = |time, cpu| {
        let time = columns.numbers::<Int64Type>(time)?;
        let cpu = columns.numbers::<UInt16Type>(cpu)?;
        Ok(move |row| {
            let (time, cpu) = get(time, row).zip(get(cpu, row))?;
            Some(Stamp { time: Nanos(time), cpu: Cpu(u32::from(cpu)) })
        })
    };
    let queue = stage(columns::QUEUE_NS, columns::QUEUE_CPU)?;
    let allocation = stage(columns::GET_NS, columns::GET_CPU)?;
    let insert = stage(columns::INSERT_NS, columns::INSERT_CPU)?;
    let issue = stage(columns::ISSUE_NS, columns::ISSUE_CPU)?;
    let complete = stage(columns::COMPLETE_NS, columns::COMPLETE_CPU)?;
    let bios = columns.always_numbers::<UInt32Type>(columns::BIOS)?;
    let front = columns.always_numbers::<UInt32Type>(columns::FRONT_MERGES)?;
    let back = columns.always_numbers::<UInt32Type>(columns::BACK_MERGES)?;
    let requeues = columns.always_numbers::<UInt32Type>(columns::REQUEUES)?;
    let splits = columns.always_numbers::<UInt32Type>(columns::SPLITS)?;
    let parent = columns.numbers::<UInt64Type>(columns::PARENT)?;
    let in_flight = columns.numbers::<UInt32Type>(columns::IN_FLIGHT_AT_ISSUE)?;
    let queued = columns.numbers::<UInt32Type>(columns::QUEUED_AT_QUEUE)?;
    let overtook = columns.numbers::<UInt32Type>(columns::OVERTOOK)?;
    let overtaken = columns.numbers::<UInt32Type>(columns::OVERTAKEN)?;
    let seek = columns.numbers::<Int64Type>(columns::SEEK_SECTORS)?;
    let tag = columns.numbers::<UInt16Type>(columns::TAG)?;
    let protocol = columns.words(columns::PROTOCOL, text::protocol)?;
    let error = columns.numbers::<Int32Type>(columns::ERROR)?;
    let status = columns.words(columns::STATUS, text::status)?;
    let bio_lists = (
        columns.lists(columns::BIO_QUEUE_NS)?,
        columns.lists(columns::BIO_SECTOR)?,
        columns.lists(columns::BIO_LENGTH_BYTES)?,
    );
    let row = |row: usize| {
        Ok(Request {
            request: request[row],
            device: device.always(row)?,
            op: op.always(row)?,
            flags: flags.always(row)?,
            sector: get(sector, row).map(Sector),
            length_bytes: length[row],
            pid: pid[row],
            comm: comm.get(row)?.unwrap_or_default(),
            cgroup: get(cgroup, row),
            io_priority: get(io_priority, row),
            queue: queue(row),
            get: allocation(row),
            insert: insert(row),
            issue: issue(row),
            complete: complete(row),
            bios: bios[row],
            front_merges: front[row],
            back_merges: back[row],
            requeues: requeues[row],
            splits: splits[row],
            parent: get(parent, row),
            in_flight_at_issue: get(in_flight, row),
            queued_at_queue: get(queued, row),
            overtook: get(overtook, row),
            overtaken: get(overtaken, row),
            seek_sectors: get(seek, row),
            tag: get(tag, row),
            protocol: protocol.get(row)?,
            error: get(error, row),
            status: status.always(row)?,
            merged_bios: read_bios(columns, bio_lists, row)?,
        })
    };
    let mut requests = Vec::with_capacity(columns.batch.num_rows());
    for place in 0..columns.batch.num_rows() {
        requests.push(row(place)?);
    }
    Ok(requests)
}

/// The bios of a row; their three lists must be of one length.
fn read_bios(
    columns: &Columns<'_>,
    (queues, sectors, lengths): (&ListArray, &ListArray, &ListArray),
    row: usize,
) -> Result<Vec<Bio>, Error> {
    if queues.is_null(row) {
        return Ok(Vec::new());
    }
    let missing = |column| move || Error::Column { path: columns.path.to_owned(), column };
    let (queues, sectors, lengths) = (queues.value(row), sectors.value(row), lengths.value(row));
    let queues =
        queues.as_primitive_opt::<Int64Type>().ok_or_else(missing(columns::BIO_QUEUE_NS))?;
    let sectors =
        sectors.as_primitive_opt::<UInt64Type>().ok_or_else(missing(columns::BIO_SECTOR))?;
    let lengths =
        lengths.as_primitive_opt::<UInt64Type>().ok_or_else(missing(columns::BIO_LENGTH_BYTES))?;
    if sectors.len() != queues.len() || lengths.len() != queues.len() {
        return Err(missing(columns::BIO_QUEUE_NS)());
    }
    let bios = queues.values().iter().zip(sectors.values()).zip(lengths.values());
    Ok(bios
        .map(|((&queue, &sector), &length_bytes)| Bio {
            queue: Nanos(queue),
            sector: Sector(sector),
            length_bytes,
        })
        .collect())
}
