//! libata's commands: `ata_qc_issue` and its completions (`include/trace/events/libata.h`).
//!
//! The registers of a command give its place and length (ATA8-ACS; FPDMA keeps the length in the
//! feature registers). Whether NCQ was used is told by the protocol and the command, never by the
//! tag: plain commands get rolling tags too. A completion has only the drive's status; it is paired
//! with its command by port, device and tag.

use iotrace_model::{
    Action, AtaPort, Comm, DeviceId, Event, Flags, Op, Protocol, SECTOR_BYTES, Sector,
};

use crate::bytes::Place;
use crate::format::Format;
use crate::tracepoint::Context;

/// Registers in the order in which `Registers::new` takes them.
pub(crate) const REGISTERS: [&str; 12] = [
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
/// What a failed command is given as its error; the tracepoint has the drive's own bits only.
const EIO: i32 = -5;

/// What a tracepoint of libata reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Issue,
    Done,
    Failed,
}

impl Moment {
    /// `None` for other tracepoints, and for commands of libata's own that complete within it.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "ata_qc_issue" => Some(Moment::Issue),
            "ata_qc_complete_done" => Some(Moment::Done),
            "ata_qc_complete_failed" => Some(Moment::Failed),
            _ => None,
        }
    }
}

/// What an event of a command says, binary or in text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values {
    pub(crate) port: AtaPort,
    pub(crate) tag: u32,
    /// libata's number; `None` where the event has none.
    pub(crate) protocol: Option<u64>,
    /// As they were for an issue; not looked at otherwise.
    pub(crate) registers: Registers,
}

impl Values {
    /// The event of these values.
    pub(crate) fn event(
        self,
        moment: Moment,
        context: Context,
        ports: &[(AtaPort, DeviceId)],
    ) -> Event {
        let mut event = Event {
            time: context.time,
            cpu: context.cpu,
            sequence: context.sequence,
            device: ports.iter().find(|(known, _)| *known == self.port).map(|(_, device)| *device),
            action: Action::CommandComplete,
            op: Op::Other,
            flags: Flags::default(),
            sector: None,
            length_bytes: 0,
            pid: context.pid,
            comm: Comm::default(),
            error: None,
            remap: None,
            cgroup: None,
            io_priority: None,
            tag: u16::try_from(self.tag).ok(),
            protocol: None,
        };
        match moment {
            Moment::Issue => {
                let command = self.registers.command();
                event.action = Action::CommandIssue;
                event.op = command.op;
                event.flags = self.registers.flags();
                event.sector = command.sector;
                event.length_bytes = command.sectors * SECTOR_BYTES;
                event.protocol =
                    self.protocol.map(|number| protocol(number, self.registers.command));
            }
            Moment::Done => event.error = Some(0),
            Moment::Failed => event.error = Some(EIO),
        }
        event
    }
}

/// Reads the samples of one of libata's tracepoints.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    moment: Moment,
    port: Place,
    device: Place,
    tag: Place,
    protocol: Option<Place>,
    registers: [Option<Place>; REGISTERS.len()],
}

impl Commands {
    /// `None` for other tracepoints, and when fields are missing without which a command is nothing.
    pub(crate) fn new(format: &Format) -> Option<Self> {
        let moment = Moment::from_name(&format.name)?;
        Some(Self {
            moment,
            port: format.place("ata_port")?,
            device: format.place("ata_dev")?,
            tag: format.place("tag")?,
            protocol: format.place("proto"),
            registers: REGISTERS.map(|name| format.place(name)),
        })
    }

    /// `None` when the sample is shorter than its format.
    pub(crate) fn read(
        &self,
        raw: &[u8],
        context: Context,
        ports: &[(AtaPort, DeviceId)],
    ) -> Option<Event> {
        let small = |place: Place| u32::try_from(place.number(raw)?).ok();
        let mut values = Values {
            port: AtaPort { port: small(self.port)?, device: small(self.device)? },
            tag: small(self.tag)?,
            ..Values::default()
        };
        if self.moment == Moment::Issue {
            values.registers = self.registers(raw);
            values.protocol = match self.protocol {
                Some(place) => Some(place.number(raw)?),
                None => None,
            };
        }
        Some(values.event(self.moment, context, ports))
    }

    fn registers(&self, raw: &[u8]) -> Registers {
        Registers::new(self.registers.map(|place| {
            let number = place.and_then(|place| place.number(raw)).unwrap_or(0);
            number.to_le_bytes()[0]
        }))
    }
}

/// The registers that place and length are read from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    command: u8,
    device: u8,
    /// The three address registers and their "high order byte" twins: bits 0 to 47.
    lba: [u8; 6],
    nsect: u8,
    hob_nsect: u8,
    feature: u8,
    hob_feature: u8,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Command {
    op: Op,
    sector: Option<Sector>,
    sectors: u64,
}

/// How a command says place and length.
enum Width {
    Queued,
    Extended,
    Short,
    None,
}

impl Registers {
    /// In the order of `REGISTERS`.
    pub(crate) fn new(registers: [u8; REGISTERS.len()]) -> Self {
        let [command, device, b0, b1, b2, b3, b4, b5, nsect, hob_nsect, feature, hob_feature] =
            registers;
        let lba = [b0, b1, b2, b3, b4, b5];
        Self { command, device, lba, nsect, hob_nsect, feature, hob_feature }
    }

    fn command(&self) -> Command {
        let (op, width) = match self.command {
            0x60 => (Op::Read, Width::Queued),
            0x61 => (Op::Write, Width::Queued),
            0x24 | 0x25 | 0x29 => (Op::Read, Width::Extended),
            0x34 | 0x35 | 0x39 | 0x3d | 0xce => (Op::Write, Width::Extended),
            0x20 | 0xc4 | 0xc8 => (Op::Read, Width::Short),
            0x30 | 0xc5 | 0xca => (Op::Write, Width::Short),
            0xe7 | 0xea => (Op::Flush, Width::None),
            0x06 | 0x64 => (Op::Discard, Width::None),
            _ => (Op::Other, Width::None),
        };
        let [b0, b1, b2, b3, b4, b5] = self.lba;
        let long = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, 0, 0]);
        let short = u64::from_le_bytes([b0, b1, b2, self.device & 0x0f, 0, 0, 0, 0]);
        let (sector, sectors) = match width {
            Width::Queued => {
                (Some(Sector(long)), full(u16::from_le_bytes([self.feature, self.hob_feature])))
            }
            Width::Extended => {
                (Some(Sector(long)), full(u16::from_le_bytes([self.nsect, self.hob_nsect])))
            }
            Width::Short if self.nsect == 0 => (Some(Sector(short)), 256),
            Width::Short => (Some(Sector(short)), u64::from(self.nsect)),
            Width::None => (None, 0),
        };
        Command { op, sector, sectors }
    }

    fn flags(&self) -> Flags {
        let is_fua = match self.command {
            0x61 => self.device & 0x80 != 0,
            0x3d | 0xce => true,
            _ => false,
        };
        if is_fua { Flags::FUA } else { Flags::default() }
    }
}

/// Zero stands for 65536.
fn full(count: u16) -> u64 {
    if count == 0 { 1 << 16 } else { u64::from(count) }
}

/// libata's protocol number (`enum ata_prot`). Kernels before 4.20 numbered otherwise, but READ and
/// WRITE FPDMA QUEUED are NCQ in every one.
fn protocol(number: u64, command: u8) -> Protocol {
    match (number, command) {
        (_, 0x60 | 0x61) | (6, _) => Protocol::AtaNcq,
        (0, _) => Protocol::AtaNoData,
        (1, _) => Protocol::AtaPio,
        (2, _) => Protocol::AtaDma,
        (4, _) => Protocol::AtaNcqNoData,
        (8..=10, _) => Protocol::Atapi,
        (other, _) => Protocol::Unknown(u16::try_from(other).unwrap_or(u16::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ncq_write_has_its_length_in_the_feature_registers() {
        // tf=(61/08:98:18:08:00/00:00:00:00:00/40): 8 sectors at 0x0818, tag 19.
        let lba = [0x18, 0x08, 0, 0, 0, 0];
        let registers = Registers { command: 0x61, device: 0x40, lba, ..Registers::default() };
        let registers = Registers { nsect: 0x98, feature: 8, ..registers };
        check(registers, Op::Write, Some(0x0818), 8);
        assert_eq!(registers.flags(), Flags::default());
        assert_eq!(Registers { device: 0xc0, ..registers }.flags(), Flags::FUA);
        check(Registers { feature: 0, ..registers }, Op::Write, Some(0x0818), 65536);
    }

    #[test]
    fn a_long_address_has_48_bits() {
        let lba = [1, 2, 3, 4, 5, 6];
        let registers = Registers { command: 0x25, lba, nsect: 1, ..Registers::default() };
        let registers = Registers { hob_nsect: 1, ..registers };
        check(registers, Op::Read, Some(0x0605_0403_0201), 257);
    }

    #[test]
    fn a_short_address_ends_in_the_device_register() {
        let lba = [1, 2, 3, 9, 9, 9];
        let registers = Registers { command: 0xc8, device: 0xe1, lba, ..Registers::default() };
        check(registers, Op::Read, Some(0x0103_0201), 256);
    }

    #[test]
    fn a_flush_has_no_place() {
        check(Registers { command: 0xea, ..Registers::default() }, Op::Flush, None, 0);
    }

    #[test]
    fn ncq_is_told_by_protocol_or_command() {
        assert_eq!(protocol(6, 0x60), Protocol::AtaNcq);
        assert_eq!(protocol(5, 0x61), Protocol::AtaNcq);
        assert_eq!(protocol(4, 0x63), Protocol::AtaNcqNoData);
        assert_eq!(protocol(2, 0xc8), Protocol::AtaDma);
        assert_eq!(protocol(255, 0xec), Protocol::Unknown(255));
    }

    #[track_caller]
    fn check(registers: Registers, op: Op, sector: Option<u64>, sectors: u64) {
        let expected = Command { op, sector: sector.map(Sector), sectors };
        assert_eq!(registers.command(), expected);
    }
}
