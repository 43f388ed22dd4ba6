//! `requests.parquet`: one row a request, in the order in which they are written.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Builder, Int64Builder, ListArray, ListBuilder, StringBuilder,
    UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{Int32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use iotrace_model::{Bio, Comm, Cpu, Nanos, Request, Sector, Stamp};

use crate::Error;
use crate::columns::{self, REQUESTS_SCHEMA};
use crate::table::{self, Columns, Kind, Table, Written, get, get_text};
use crate::text::{self, Texts};

/// Rows of one row group.
const ROW_GROUP: usize = 1 << 18;
/// Rows gathered before they are handed to Parquet.
const BATCH: usize = 1 << 13;

/// Writes requests as they come. Memory is bounded by one encoded row group.
pub struct RequestWriter<W: Write + Send> {
    table: Table<W>,
    texts: Texts,
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

    /// Adds rows. On an error the table is of no use any more.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        for request in requests {
            let stamps = stamps(request)
                .map_err(|cpu| Error::CpuOutOfRange { path: self.table.path().to_owned(), cpu })?;
            self.rows.push(request, stamps, &mut self.texts);
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
            name: REQUESTS_SCHEMA,
            schema: Arc::new(columns::requests()),
            row_group: ROW_GROUP,
            delta: &[
                columns::REQUEST,
                columns::SECTOR,
                columns::QUEUE_NS,
                columns::GET_NS,
                columns::INSERT_NS,
                columns::ISSUE_NS,
                columns::COMPLETE_NS,
                columns::PARENT,
                columns::SEEK_SECTORS,
                columns::BIO_QUEUE_NS,
                columns::BIO_SECTOR,
            ],
        };
        let table = Table::new(path.to_owned(), file, kind, metadata)?;
        Ok(Self { table, texts: Texts::default(), rows: Rows::default() })
    }
}

/// Time and CPU of each stage; the number of a CPU that does not fit is the error.
fn stamps(request: &Request) -> Result<[Option<(i64, u16)>; 5], u32> {
    let narrow = |stamp: Option<Stamp>| {
        let Some(Stamp { time, cpu: Cpu(cpu) }) = stamp else { return Ok(None) };
        u16::try_from(cpu).ok().map(|narrow| Some((time.0, narrow))).ok_or(cpu)
    };
    Ok([
        narrow(request.queue)?,
        narrow(request.get)?,
        narrow(request.insert)?,
        narrow(request.issue)?,
        narrow(request.complete)?,
    ])
}

/// The columns under construction.
#[derive(Default)]
struct Rows {
    count: usize,
    request: UInt64Builder,
    device: StringBuilder,
    op: StringBuilder,
    flags: StringBuilder,
    sector: UInt64Builder,
    length: UInt64Builder,
    pid: UInt32Builder,
    comm: StringBuilder,
    cgroup: UInt64Builder,
    io_priority: UInt16Builder,
    times: [Int64Builder; 5],
    cpus: [UInt16Builder; 5],
    shape: [UInt32Builder; 5],
    parent: UInt64Builder,
    context: [UInt32Builder; 4],
    seek: Int64Builder,
    tag: UInt16Builder,
    protocol: StringBuilder,
    error: Int32Builder,
    status: StringBuilder,
    bio_queue: ListBuilder<Int64Builder>,
    bio_sector: ListBuilder<UInt64Builder>,
    bio_length: ListBuilder<UInt64Builder>,
}

impl Rows {
    fn push(&mut self, request: &Request, stamps: [Option<(i64, u16)>; 5], texts: &mut Texts) {
        self.count += 1;
        self.request.append_value(request.request);
        self.device.append_value(texts.device(request.device));
        self.op.append_value(request.op.name());
        self.flags.append_value(texts.flags(request.flags));
        self.sector.append_option(request.sector.map(|sector| sector.0));
        self.length.append_value(request.length_bytes);
        self.pid.append_value(request.pid);
        self.comm.append_option(texts.comm(request.comm));
        self.cgroup.append_option(request.cgroup);
        self.io_priority.append_option(request.io_priority);
        for ((time, cpu), stamp) in self.times.iter_mut().zip(&mut self.cpus).zip(stamps) {
            time.append_option(stamp.map(|(time, _)| time));
            cpu.append_option(stamp.map(|(_, cpu)| cpu));
        }
        let shape = [
            request.bios,
            request.front_merges,
            request.back_merges,
            request.requeues,
            request.splits,
        ];
        for (builder, count) in self.shape.iter_mut().zip(shape) {
            builder.append_value(count);
        }
        self.parent.append_option(request.parent);
        let context = [
            request.in_flight_at_issue,
            request.queued_at_queue,
            request.overtook,
            request.overtaken,
        ];
        for (builder, count) in self.context.iter_mut().zip(context) {
            builder.append_option(count);
        }
        self.seek.append_option(request.seek_sectors);
        self.tag.append_option(request.tag);
        self.protocol.append_option(request.protocol.map(|protocol| texts.protocol(protocol)));
        self.error.append_option(request.error);
        self.status.append_value(request.status.name());
        for bio in &request.merged_bios {
            self.bio_queue.values().append_value(bio.queue.0);
            self.bio_sector.values().append_value(bio.sector.0);
            self.bio_length.values().append_value(bio.length_bytes);
        }
        let has_bios = !request.merged_bios.is_empty();
        self.bio_queue.append(has_bios);
        self.bio_sector.append(has_bios);
        self.bio_length.append(has_bios);
    }

    /// The columns in the order of the schema; leaves the builders empty.
    fn take(&mut self) -> Vec<ArrayRef> {
        self.count = 0;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.request.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.op.finish()),
            Arc::new(self.flags.finish()),
            Arc::new(self.sector.finish()),
            Arc::new(self.length.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.comm.finish()),
            Arc::new(self.cgroup.finish()),
            Arc::new(self.io_priority.finish()),
        ];
        for builder in &mut self.times {
            columns.push(Arc::new(builder.finish()));
        }
        for builder in &mut self.cpus {
            columns.push(Arc::new(builder.finish()));
        }
        for builder in &mut self.shape {
            columns.push(Arc::new(builder.finish()));
        }
        columns.push(Arc::new(self.parent.finish()));
        for builder in &mut self.context {
            columns.push(Arc::new(builder.finish()));
        }
        columns.extend([
            Arc::new(self.seek.finish()) as ArrayRef,
            Arc::new(self.tag.finish()),
            Arc::new(self.protocol.finish()),
            Arc::new(self.error.finish()),
            Arc::new(self.status.finish()),
            Arc::new(self.bio_queue.finish()),
            Arc::new(self.bio_sector.finish()),
            Arc::new(self.bio_length.finish()),
        ]);
        columns
    }
}

/// Reads the requests of a table in batches, in the order of the rows. Fails when the file is no
/// table of this version, or a row holds what no version writes.
pub fn read_requests(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Vec<Request>, Error>> + use<>, Error> {
    let batches = table::batches(path, REQUESTS_SCHEMA)?;
    let path = path.to_owned();
    Ok(batches.map(move |batch| read_batch(&Columns { path: &path, batch: &batch? })))
}

fn read_batch(columns: &Columns<'_>) -> Result<Vec<Request>, Error> {
    let request = columns.always_numbers::<UInt64Type>(columns::REQUEST)?;
    let device = columns.always_strings(columns::DEVICE)?;
    let op = columns.always_strings(columns::OP)?;
    let flags = columns.always_strings(columns::FLAGS)?;
    let sector = columns.numbers::<UInt64Type>(columns::SECTOR)?;
    let length = columns.always_numbers::<UInt64Type>(columns::LENGTH_BYTES)?;
    let pid = columns.always_numbers::<UInt32Type>(columns::PID)?;
    let comm = columns.strings(columns::COMM)?;
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
    let protocol = columns.strings(columns::PROTOCOL)?;
    let error = columns.numbers::<Int32Type>(columns::ERROR)?;
    let status = columns.always_strings(columns::STATUS)?;
    let bio_lists = (
        columns.lists(columns::BIO_QUEUE_NS)?,
        columns.lists(columns::BIO_SECTOR)?,
        columns.lists(columns::BIO_LENGTH_BYTES)?,
    );
    let row = |row: usize| {
        Ok(Request {
            request: request.value(row),
            device: columns.device(columns::DEVICE, device.value(row))?,
            op: columns.value(columns::OP, op.value(row), text::op)?,
            flags: columns.value(columns::FLAGS, flags.value(row), text::flags)?,
            sector: get(sector, row).map(Sector),
            length_bytes: length.value(row),
            pid: pid.value(row),
            comm: Comm::new(get_text(comm, row).unwrap_or_default().as_bytes()),
            cgroup: get(cgroup, row),
            io_priority: get(io_priority, row),
            queue: queue(row),
            get: allocation(row),
            insert: insert(row),
            issue: issue(row),
            complete: complete(row),
            bios: bios.value(row),
            front_merges: front.value(row),
            back_merges: back.value(row),
            requeues: requeues.value(row),
            splits: splits.value(row),
            parent: get(parent, row),
            in_flight_at_issue: get(in_flight, row),
            queued_at_queue: get(queued, row),
            overtook: get(overtook, row),
            overtaken: get(overtaken, row),
            seek_sectors: get(seek, row),
            tag: get(tag, row),
            protocol: {
                let text = get_text(protocol, row);
                columns.optional(columns::PROTOCOL, text, text::protocol)?
            },
            error: get(error, row),
            status: columns.value(columns::STATUS, status.value(row), text::status)?,
            merged_bios: read_bios(columns, bio_lists, row)?,
        })
    };
    (0..columns.batch.num_rows()).map(row).collect()
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
