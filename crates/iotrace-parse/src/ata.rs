//! libata's commands: `ata_qc_issue` and its completions (`include/trace/events/libata.h`).
//!
//! The registers of a command give its place and length (ATA8-ACS; FPDMA keeps the length in the
//! feature registers). Whether NCQ was used is told by the protocol, never by the tag: plain
//! commands get rolling tags too.

use iotrace_model::{Op, Protocol, Sector};

/// The registers that place and length are read from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) command: u8,
    pub(crate) device: u8,
    /// The six address registers, low ones first, then their "high order byte" twins: bits 0 to 47.
    pub(crate) lba: [u8; 6],
    pub(crate) nsect: u8,
    pub(crate) hob_nsect: u8,
    pub(crate) feature: u8,
    pub(crate) hob_feature: u8,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) op: Op,
    pub(crate) sector: Option<Sector>,
    pub(crate) sectors: u64,
}

impl Registers {
    pub(crate) fn command(&self) -> Command {
        let (op, width) = match self.command {
            0x60 => (Op::Read, Width::Queued),
            0x61 => (Op::Write, Width::Queued),
            0x25 | 0x24 | 0x29 => (Op::Read, Width::Extended),
            0x35 | 0x34 | 0x39 | 0x3d => (Op::Write, Width::Extended),
            0xc8 | 0x20 | 0xc4 => (Op::Read, Width::Short),
            0xca | 0x30 | 0xc5 => (Op::Write, Width::Short),
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
}

enum Width {
    Queued,
    Extended,
    Short,
    None,
}

/// Zero stands for 65536.
fn full(count: u16) -> u64 {
    if count == 0 { 1 << 16 } else { u64::from(count) }
}

/// libata's protocol number (`enum ata_prot`).
pub(crate) fn protocol(number: u64) -> Protocol {
    match number {
        0 => Protocol::AtaNoData,
        1 => Protocol::AtaPio,
        2 => Protocol::AtaDma,
        4 => Protocol::AtaNcqNoData,
        6 => Protocol::AtaNcq,
        8..=10 => Protocol::Atapi,
        other => Protocol::Unknown(u16::try_from(other).unwrap_or(u16::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ncq_write_has_its_length_in_the_feature_registers() {
        // tf=(61/08:98:18:08:00/00:00:00:00:00/40): 8 sectors at 0x0818, tag 19.
        let registers = Registers {
            command: 0x61,
            device: 0x40,
            lba: [0x18, 0x08, 0, 0, 0, 0],
            nsect: 0x98,
            feature: 8,
            ..Registers::default()
        };
        let expected = Command { op: Op::Write, sector: Some(Sector(0x0818)), sectors: 8 };
        assert_eq!(registers.command(), expected);
    }

    #[test]
    fn a_short_address_ends_in_the_device_register() {
        let registers = Registers {
            command: 0xc8,
            device: 0xe1,
            lba: [1, 2, 3, 9, 9, 9],
            nsect: 0,
            ..Registers::default()
        };
        let expected = Command { op: Op::Read, sector: Some(Sector(0x0103_0201)), sectors: 256 };
        assert_eq!(registers.command(), expected);
    }
}
