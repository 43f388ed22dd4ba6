//! `requests.parquet`: one row a request, in the order of completion.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Builder, Int64Builder, ListArray, ListBuilder, RecordBatch,
    StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{Int32Type, Int64Type, Schema, UInt32Type, UInt64Type};
use iotrace_model::{Bio, Comm, Cpu, Nanos, Request, Sector, Stamp};

use crate::table::{self, Columns, Layout, Table, Written, get, get_text, get_u16};
use crate::text::{self, Texts};
use crate::{Error, REQUESTS_SCHEMA, columns};

/// Rows of one row group.
const ROW_GROUP: usize = 1 << 18;
/// Rows gathered before they are handed to Parquet.
const BATCH: usize = 1 << 13;

/// The times of a request's life, in the order of the columns.
const STAGES: [(&str, &str); 5] = [
    ("queue_ns", "queue_cpu"),
    ("get_ns", "get_cpu"),
    ("insert_ns", "insert_cpu"),
    ("issue_ns", "issue_cpu"),
    ("complete_ns", "complete_cpu"),
];

/// Writes requests as they come, in bounded memory.
pub struct RequestWriter<W: Write + Send> {
    schema: Arc<Schema>,
    table: Table<W>,
    texts: Texts,
    rows: Rows,
}

impl<W: Write + Send> RequestWriter<W> {
    /// Starts a table whose Parquet key-values hold `metadata`.
    pub fn new(file: W, metadata: &[(String, String)]) -> Result<Self, Error> {
        let schema = Arc::new(columns::requests());
        let layouts = [
            Layout::Delta(&[
                "request",
                "sector",
                "queue_ns",
                "get_ns",
                "insert_ns",
                "issue_ns",
                "complete_ns",
                "seek_sectors",
            ]),
            Layout::Plain(&["parent", "cgroup"]),
        ];
        let table = Table::new(REQUESTS_SCHEMA, file, &schema, ROW_GROUP, &layouts, metadata)?;
        Ok(Self { schema, table, texts: Texts::default(), rows: Rows::default() })
    }

    /// Adds rows.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        for chunk in requests.chunks(BATCH) {
            for request in chunk {
                self.rows.push(request, &mut self.texts);
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
            .map_err(|source| Error::Arrow { table: REQUESTS_SCHEMA.to_owned(), source })?;
        self.table.write(&batch)
    }
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
    io_priority: UInt32Builder,
    stages: [(Int64Builder, UInt32Builder); 5],
    counts: [UInt32Builder; 5],
    parent: UInt64Builder,
    context: [UInt32Builder; 4],
    seek: Int64Builder,
    tag: UInt32Builder,
    protocol: StringBuilder,
    error: Int32Builder,
    status: StringBuilder,
    bio_queue: ListBuilder<Int64Builder>,
    bio_sector: ListBuilder<UInt64Builder>,
    bio_length: ListBuilder<UInt64Builder>,
}

impl Rows {
    fn push(&mut self, request: &Request, texts: &mut Texts) {
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
        self.io_priority.append_option(request.io_priority.map(u32::from));
        let stamps = [request.queue, request.get, request.insert, request.issue, request.complete];
        for ((time, cpu), stamp) in self.stages.iter_mut().zip(stamps) {
            time.append_option(stamp.map(|stamp| stamp.time.0));
            cpu.append_option(stamp.map(|stamp| stamp.cpu.0));
        }
        let counts = [
            request.bios,
            request.front_merges,
            request.back_merges,
            request.requeues,
            request.splits,
        ];
        for (builder, count) in self.counts.iter_mut().zip(counts) {
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
        self.tag.append_option(request.tag.map(u32::from));
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
        for (time, cpu) in &mut self.stages {
            columns.push(Arc::new(time.finish()));
            columns.push(Arc::new(cpu.finish()));
        }
        for builder in &mut self.counts {
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

/// Reads the requests of a table in batches, in the order of the rows.
///
/// # Errors
/// When the file is no table of this version, or a row holds what no version writes.
pub fn read_requests(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Vec<Request>, Error>> + use<>, Error> {
    let name = path.display().to_string();
    Ok(table::open(path, REQUESTS_SCHEMA)?.map(move |batch| {
        let batch = batch.map_err(|source| Error::Arrow { table: name.clone(), source })?;
        read_batch(&Columns { table: &name, batch: &batch })
    }))
}

fn read_batch(columns: &Columns<'_>) -> Result<Vec<Request>, Error> {
    let u32s = |name| columns.numbers::<UInt32Type>(name);
    let u64s = |name| columns.numbers::<UInt64Type>(name);
    let (request, device) = (u64s("request")?, columns.strings("device")?);
    let (op, flags) = (columns.strings("op")?, columns.strings("flags")?);
    let (sector, length) = (u64s("sector")?, u64s("length_bytes")?);
    let (pid, comm) = (u32s("pid")?, columns.strings("comm")?);
    let (cgroup, io_priority) = (u64s("cgroup")?, u32s("io_priority")?);
    let mut stages = Vec::new();
    for (time, cpu) in STAGES {
        stages.push((columns.numbers::<Int64Type>(time)?, u32s(cpu)?));
    }
    let stamp = |stage: usize, row: usize| {
        let (time, cpu) = stages.get(stage)?;
        Some(Stamp { time: Nanos(get(time, row)?), cpu: Cpu(get(cpu, row)?) })
    };
    let (bios, front, back) = (u32s("bios")?, u32s("front_merges")?, u32s("back_merges")?);
    let (requeues, splits) = (u32s("requeues")?, u32s("splits")?);
    let (parent, seek) = (u64s("parent")?, columns.numbers::<Int64Type>("seek_sectors")?);
    let (in_flight, queued) = (u32s("in_flight_at_issue")?, u32s("queued_at_queue")?);
    let (overtook, overtaken) = (u32s("overtook")?, u32s("overtaken")?);
    let (tag, protocol) = (u32s("tag")?, columns.strings("protocol")?);
    let (error, status) = (columns.numbers::<Int32Type>("error")?, columns.strings("status")?);
    let bio_lists = (
        columns.lists("bio_queue_ns")?,
        columns.lists("bio_sector")?,
        columns.lists("bio_length_bytes")?,
    );
    let row = |row: usize| {
        Ok(Request {
            request: request.value(row),
            device: columns.device("device", device.value(row))?,
            op: columns.value("op", op.value(row), text::op)?,
            flags: columns.value("flags", flags.value(row), text::flags)?,
            sector: get(sector, row).map(Sector),
            length_bytes: length.value(row),
            pid: pid.value(row),
            comm: Comm::new(get_text(comm, row).unwrap_or_default().as_bytes()),
            cgroup: get(cgroup, row),
            io_priority: get_u16(io_priority, row),
            queue: stamp(0, row),
            get: stamp(1, row),
            insert: stamp(2, row),
            issue: stamp(3, row),
            complete: stamp(4, row),
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
            tag: get_u16(tag, row),
            protocol: get_text(protocol, row)
                .map(|text| columns.value("protocol", text, text::protocol))
                .transpose()?,
            error: get(error, row),
            status: columns.value("status", status.value(row), text::status)?,
            merged_bios: read_bios(columns, bio_lists, row)?,
        })
    };
    (0..columns.batch.num_rows()).map(row).collect()
}

fn read_bios(
    columns: &Columns<'_>,
    (queues, sectors, lengths): (&ListArray, &ListArray, &ListArray),
    row: usize,
) -> Result<Vec<Bio>, Error> {
    if queues.is_null(row) {
        return Ok(Vec::new());
    }
    let missing = || Error::Column { table: columns.table.to_owned(), column: "bio_queue_ns" };
    let (queues, sectors, lengths) = (queues.value(row), sectors.value(row), lengths.value(row));
    let queues = queues.as_primitive_opt::<Int64Type>().ok_or_else(missing)?;
    let sectors = sectors.as_primitive_opt::<UInt64Type>().ok_or_else(missing)?;
    let lengths = lengths.as_primitive_opt::<UInt64Type>().ok_or_else(missing)?;
    let bios = queues.values().iter().zip(sectors.values()).zip(lengths.values());
    Ok(bios
        .map(|((&queue, &sector), &length_bytes)| Bio {
            queue: Nanos(queue),
            sector: Sector(sector),
            length_bytes,
        })
        .collect())
}
