//! Builders with the formats of real kernels, and readers of whole files.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::Cursor;

use iotrace_model::{Item, Ledger, Nanos};
use iotrace_parse::{Error, Options, PerfReader, Progress, Reader, Records};
use iotrace_testkit::PerfFileBuilder;

/// Whose formats a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    V6_18,
    V6_1,
}

macro_rules! formats {
    ($folder:literal: $($name:literal)*) => {
        [$(include_str!(concat!("../data/", $folder, "/", $name))),*]
    };
}

/// A file with the formats of all events of that kernel.
pub(crate) fn builder(kernel: Kernel) -> PerfFileBuilder {
    let block: &[&str] = match kernel {
        Kernel::V6_18 => &formats!("formats-6.18":
            "block_bio_backmerge" "block_bio_complete" "block_bio_frontmerge" "block_bio_queue"
            "block_bio_remap" "block_getrq" "block_io_start" "block_plug" "block_rq_complete"
            "block_rq_error" "block_rq_insert" "block_rq_issue" "block_rq_merge" "block_rq_remap"
            "block_rq_requeue" "block_split" "block_unplug"),
        Kernel::V6_1 => &formats!("formats-6.1":
            "block_bio_backmerge" "block_bio_complete" "block_bio_frontmerge" "block_bio_queue"
            "block_bio_remap" "block_getrq" "block_plug" "block_rq_complete" "block_rq_error"
            "block_rq_insert" "block_rq_issue" "block_rq_merge" "block_rq_remap"
            "block_rq_requeue" "block_split" "block_unplug"),
    };
    let libata =
        formats!("formats-libata": "ata_qc_issue" "ata_qc_complete_done" "ata_qc_complete_failed");
    let mut builder = PerfFileBuilder::new();
    for text in block {
        builder.format("block", text);
    }
    for text in libata {
        builder.format("libata", text);
    }
    builder
}

pub(crate) fn open(bytes: &[u8], options: Options) -> Result<PerfReader<Cursor<&[u8]>>, Error> {
    PerfReader::open(Cursor::new(bytes), "x.data", options)
}

/// The file's own times are kept.
pub(crate) fn own_times() -> Options {
    Options { origin: Some(Nanos(0)), devices: Vec::new() }
}

/// All that a file holds.
pub(crate) fn read(bytes: &[u8]) -> (Vec<Item>, Ledger, Records) {
    let mut reader = open(bytes, own_times()).unwrap();
    let items = drain(&mut reader);
    (items, reader.take_ledger(), reader.records())
}

pub(crate) fn drain(reader: &mut PerfReader<Cursor<&[u8]>>) -> Vec<Item> {
    let mut items = Vec::new();
    while reader.next_batch(&mut items).unwrap() == Progress::More {}
    items
}

/// When an item comes in the stream.
pub(crate) fn time(item: &Item) -> i64 {
    match item {
        Item::Event(event) => event.time.0,
        Item::Loss(loss) => loss.from.0,
    }
}
