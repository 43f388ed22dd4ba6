//! Events as the raw data of their tracepoint.

use iotrace_model::{Action, Event, Op, Protocol, SECTOR_BYTES};

use crate::layout::Layout;
use crate::letters;

#[track_caller]
pub(super) fn tracepoint(event: &Event) -> &'static str {
    match event.action {
        Action::Queue => "block_bio_queue",
        Action::Get => "block_getrq",
        Action::BackMerge => "block_bio_backmerge",
        Action::FrontMerge => "block_bio_frontmerge",
        Action::RequestMerge => "block_rq_merge",
        Action::Insert => "block_rq_insert",
        Action::Issue => "block_rq_issue",
        Action::Requeue => "block_rq_requeue",
        Action::Complete => "block_rq_complete",
        Action::BioComplete => "block_bio_complete",
        Action::Split => "block_split",
        Action::Remap => "block_bio_remap",
        Action::RequestRemap => "block_rq_remap",
        Action::Plug => "block_plug",
        Action::Unplug => "block_unplug",
        Action::CommandIssue => "ata_qc_issue",
        Action::CommandComplete if event.error == Some(0) => "ata_qc_complete_done",
        Action::CommandComplete => "ata_qc_complete_failed",
        other => panic!("no tracepoint is known for {other:?}"),
    }
}

/// The raw data of an event. What its tracepoint does not have is left out.
pub(super) fn encode(event: &Event, layout: &Layout) -> Vec<u8> {
    let mut raw = layout.blank();
    if matches!(event.action, Action::CommandIssue | Action::CommandComplete) {
        encode_command(event, layout, &mut raw);
        return raw;
    }
    let sectors = event.length_bytes / SECTOR_BYTES;
    let mut number = |name, value| layout.number(&mut raw, name, value);
    number("dev", event.device.map_or(0, |device| u64::from(device.to_kernel())));
    number("sector", event.sector.map_or(u64::MAX, |sector| sector.0));
    number("nr_sector", sectors);
    // Of ordinary requests the kernel gives no bytes.
    number("bytes", if sectors == 0 { event.length_bytes } else { 0 });
    number("ioprio", event.io_priority.map_or(0, u64::from));
    number("error", u64::from(event.error.unwrap_or(0).cast_unsigned()));
    if let Some(remap) = event.remap {
        number("old_dev", u64::from(remap.device.to_kernel()));
        number("old_sector", remap.sector.0);
        number("new_sector", remap.sector.0);
    }
    layout.bytes(&mut raw, "rwbs", letters::write(event.op, event.flags).as_bytes());
    layout.bytes(&mut raw, "comm", event.comm.as_bytes());
    raw
}

/// A command of libata: FPDMA when its protocol is NCQ, with a long address otherwise.
fn encode_command(event: &Event, layout: &Layout, raw: &mut [u8]) {
    let is_write = event.op == Op::Write;
    let is_queued = event.protocol == Some(Protocol::AtaNcq);
    let tag = u64::from(event.tag.unwrap_or(0));
    let sectors = event.length_bytes / SECTOR_BYTES;
    let mut number = |name, value| layout.number(raw, name, value);
    number("ata_port", 1);
    number("tag", tag);
    number(
        "cmd",
        match (is_queued, is_write) {
            (true, false) => 0x60,
            (true, true) => 0x61,
            (false, false) => 0x25,
            (false, true) => 0x35,
        },
    );
    number("proto", if is_queued { 6 } else { 2 });
    number("dev", 0x40);
    let address = event.sector.map_or(0, |sector| sector.0).to_le_bytes();
    let registers = ["lbal", "lbam", "lbah", "hob_lbal", "hob_lbam", "hob_lbah"];
    for (name, byte) in registers.into_iter().zip(address) {
        number(name, u64::from(byte));
    }
    let (low, high) = if is_queued { ("feature", "hob_feature") } else { ("nsect", "hob_nsect") };
    number(low, sectors & 0xff);
    number(high, sectors >> 8 & 0xff);
    if is_queued {
        number("nsect", tag << 3);
    }
}
