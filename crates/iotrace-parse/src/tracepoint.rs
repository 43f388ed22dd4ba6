//! A raw sample of a tracepoint to an event, by the names in its format.
//!
//! Offsets are looked up once for each tracepoint, never assumed: fields come, go and move between
//! kernels (`ioprio` in 6.11, `errors` before 4.13, wider `rwbs` after 6.1).

use iotrace_model::{
    Action, AtaPort, Comm, Cpu, DeviceId, Event, Flags, Nanos, Op, Remap, SECTOR_BYTES, Sector,
};

use crate::ata::{self, Registers};
use crate::bytes::number_at;
use crate::format::{Field, Format};
use crate::rwbs;

/// Reads the samples of one tracepoint.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoint {
    action: Action,
    fields: Fields,
    ata: Option<AtaFields>,
}

/// Places of the fields of block events; `None` where this kernel has none.
#[derive(Clone, Debug, Default)]
struct Fields {
    dev: Option<Field>,
    sector: Option<Field>,
    nr_sector: Option<Field>,
    bytes: Option<Field>,
    error: Option<Field>,
    io_priority: Option<Field>,
    rwbs: Option<Field>,
    comm: Option<Field>,
    old_dev: Option<Field>,
    old_sector: Option<Field>,
    new_sector: Option<Field>,
}

/// Places of the fields of libata's events.
#[derive(Clone, Debug)]
struct AtaFields {
    port: Field,
    device: Field,
    tag: Field,
    protocol: Option<Field>,
    registers: Vec<Option<Field>>,
}

/// Registers in the order of `Registers`.
const REGISTERS: [&str; 12] = [
    "cmd",
    "dev",
    "lbal",
    "lbam",
    "lbah",
    "hob_lbal",
    "hob_lbam",
    "hob_lbah",
    "nsect",
    "hob_nsect",
    "feature",
    "hob_feature",
];

/// What the record around a sample says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) time: Nanos,
    pub(crate) cpu: Cpu,
    pub(crate) sequence: u64,
    pub(crate) pid: u32,
}

impl Tracepoint {
    /// `None` for a tracepoint that is no event of a request.
    pub(crate) fn new(format: &Format) -> Option<Self> {
        let action = action(&format.name)?;
        let field = |name: &str| format.field(name).cloned();
        let ata = match action {
            Action::CommandIssue | Action::CommandComplete => Some(AtaFields {
                port: field("ata_port")?,
                device: field("ata_dev")?,
                tag: field("tag")?,
                protocol: field("proto"),
                registers: REGISTERS.iter().map(|name| field(name)).collect(),
            }),
            _ => None,
        };
        let fields = Fields {
            dev: field("dev"),
            sector: field("sector"),
            nr_sector: field("nr_sector"),
            bytes: field("bytes"),
            error: field("error").or_else(|| field("errors")),
            io_priority: field("ioprio"),
            rwbs: field("rwbs"),
            comm: field("comm"),
            old_dev: field("old_dev"),
            old_sector: field("old_sector"),
            new_sector: field("new_sector"),
        };
        if ata.is_none() && (fields.dev.is_none() || fields.rwbs.is_none()) {
            return None;
        }
        Some(Self { action, fields, ata })
    }

    /// `None` when the sample is shorter than its format.
    pub(crate) fn read(
        &self,
        raw: &[u8],
        context: Context,
        ports: &[(AtaPort, DeviceId)],
    ) -> Option<Event> {
        match &self.ata {
            Some(fields) => read_ata(self.action, fields, raw, context, ports),
            None => self.read_block(raw, context),
        }
    }

    fn read_block(&self, raw: &[u8], context: Context) -> Option<Event> {
        let fields = &self.fields;
        let (op, flags) = rwbs::read(slice(raw, fields.rwbs.as_ref()?)?);
        let device = number(raw, fields.dev.as_ref())?;
        let sectors = number(raw, fields.nr_sector.as_ref()).unwrap_or(0);
        let sector = number(raw, fields.sector.as_ref()).map(Sector);
        let is_split = self.action == Action::Split;
        let rest = number(raw, fields.new_sector.as_ref()).map(Sector);
        let device = device_id(device);
        let remap = if is_split {
            rest.map(|sector| Remap { device, sector })
        } else {
            number(raw, fields.old_dev.as_ref())
                .zip(number(raw, fields.old_sector.as_ref()))
                .map(|(dev, sector)| Remap { device: device_id(dev), sector: Sector(sector) })
        };
        let length_bytes = match (sectors, is_split) {
            (_, true) => match (sector, rest) {
                (Some(from), Some(to)) => to.0.saturating_sub(from.0).saturating_mul(SECTOR_BYTES),
                _ => 0,
            },
            // Passthrough counts bytes, not sectors.
            (0, false) => number(raw, fields.bytes.as_ref()).unwrap_or(0),
            (sectors, false) => sectors.saturating_mul(SECTOR_BYTES),
        };
        Some(Event {
            time: context.time,
            cpu: context.cpu,
            sequence: context.sequence,
            device: Some(device),
            action: self.action,
            op,
            flags,
            sector: sector.filter(|sector| has_place(*sector, sectors, op, flags, is_split)),
            length_bytes,
            pid: context.pid,
            comm: fields
                .comm
                .as_ref()
                .and_then(|field| slice(raw, field))
                .map(Comm::new)
                .unwrap_or_default(),
            error: self.error(raw),
            remap,
            cgroup: None,
            io_priority: number(raw, fields.io_priority.as_ref())
                .and_then(|word| u16::try_from(word).ok()),
            tag: None,
            protocol: None,
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the field is an int of 4 bytes")]
    #[expect(clippy::cast_possible_wrap, reason = "the field is a signed int")]
    fn error(&self, raw: &[u8]) -> Option<i32> {
        match self.action {
            Action::Complete | Action::BioComplete => {
                let error = number(raw, self.fields.error.as_ref()).unwrap_or(0) as u32 as i32;
                // Kernels before 4.13 count errors up; others print a negative errno.
                Some(if error > 0 { -error } else { error })
            }
            _ => None,
        }
    }
}

/// Whether the sector of an event is one: requests without a place (flushes, passthrough) print 0
/// until they complete and all ones then.
fn has_place(sector: Sector, sectors: u64, op: Op, flags: Flags, is_split: bool) -> bool {
    if sector.0 == u64::MAX || op == Op::Flush {
        return false;
    }
    is_split
        || sectors > 0
        || sector.0 > 0 && op != Op::Other
        || op != Op::Other && !flags.has(Flags::PREFLUSH)
}

fn action(name: &str) -> Option<Action> {
    Some(match name {
        "block_bio_queue" => Action::Queue,
        "block_getrq" => Action::Get,
        "block_bio_backmerge" => Action::BackMerge,
        "block_bio_frontmerge" => Action::FrontMerge,
        "block_rq_merge" => Action::RequestMerge,
        "block_rq_insert" => Action::Insert,
        "block_rq_issue" => Action::Issue,
        "block_rq_requeue" => Action::Requeue,
        "block_rq_complete" => Action::Complete,
        "block_bio_complete" => Action::BioComplete,
        "block_split" => Action::Split,
        "block_bio_remap" => Action::Remap,
        "block_rq_remap" => Action::RequestRemap,
        "block_bio_bounce" => Action::Bounce,
        "block_sleeprq" => Action::Sleep,
        "ata_qc_issue" => Action::CommandIssue,
        "ata_qc_complete_done" | "ata_qc_complete_failed" => Action::CommandComplete,
        _ => return None,
    })
}

fn read_ata(
    action: Action,
    fields: &AtaFields,
    raw: &[u8],
    context: Context,
    ports: &[(AtaPort, DeviceId)],
) -> Option<Event> {
    let small = |field: &Field| u32::try_from(number(raw, Some(field))?).ok();
    let port = AtaPort { port: small(&fields.port)?, device: small(&fields.device)? };
    let mut registers = [0; REGISTERS.len()];
    for (register, field) in registers.iter_mut().zip(&fields.registers) {
        *register = number(raw, field.as_ref()).unwrap_or(0).to_le_bytes()[0];
    }
    let [command, device, b0, b1, b2, b3, b4, b5, nsect, hob_nsect, feature, hob_feature] =
        registers;
    let lba = [b0, b1, b2, b3, b4, b5];
    let registers = Registers { command, device, lba, nsect, hob_nsect, feature, hob_feature };
    let command = registers.command();
    let is_issue = action == Action::CommandIssue;
    Some(Event {
        time: context.time,
        cpu: context.cpu,
        sequence: context.sequence,
        device: ports.iter().find(|(known, _)| *known == port).map(|(_, device)| *device),
        action,
        op: command.op,
        flags: Flags::default(),
        sector: command.sector.filter(|_| is_issue),
        length_bytes: if is_issue { command.sectors * SECTOR_BYTES } else { 0 },
        pid: context.pid,
        comm: Comm::default(),
        error: None,
        remap: None,
        cgroup: None,
        io_priority: None,
        tag: small(&fields.tag).and_then(|tag| u16::try_from(tag).ok()),
        protocol: fields
            .protocol
            .as_ref()
            .and_then(|field| number(raw, Some(field)))
            .map(ata::protocol),
    })
}

fn number(raw: &[u8], field: Option<&Field>) -> Option<u64> {
    let field = field?;
    number_at(raw, field.offset, field.size)
}

fn slice<'a>(raw: &'a [u8], field: &Field) -> Option<&'a [u8]> {
    raw.get(field.offset..field.offset.checked_add(field.size)?)
}

/// A `dev_t` has 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the field has 4 bytes")]
fn device_id(dev: u64) -> DeviceId {
    DeviceId::from_kernel(dev as u32)
}
