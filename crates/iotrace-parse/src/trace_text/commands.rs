//! The fields of libata's events, as `include/trace/events/libata.h` prints them and as bare values.
//!
//! ```text
//! ata_port=1 ata_dev=0 tag=19 proto=ATA_PROT_NCQ cmd=ATA_CMD_FPDMA_WRITE  tf=(61/08:98:18:08:00/00:00:00:00:00/40)
//! ata_port=1 ata_dev=0 tag=19 flags={ ACTIVE } status={ DRDY }  res=(40/00:00:00:00:00/00:00:00:00:00/00)
//! ata_port=1 ata_dev=0 tag=19 cmd=97 dev=64 lbal=24 lbam=8 … proto=6 flags=0
//! ```
//!
//! `perf script` knows the second form only, because the names are made by functions of the kernel.

use iotrace_model::AtaPort;

use super::cursor::{Cursor, Fault, number};
use crate::ata::{Moment, REGISTERS, Registers, Values};

/// Registers in the order in which `tf=(…)` prints them, by their place in `REGISTERS`.
const PRINTED: [usize; REGISTERS.len()] = [0, 10, 8, 2, 3, 4, 11, 9, 5, 6, 7, 1];

/// Reads what stands behind the event's name.
pub(super) fn read(moment: Moment, fields: &[u8]) -> Result<Values, Fault> {
    let (mut port, mut device, mut tag, mut protocol) = (None, None, None, None);
    let mut registers = [0; REGISTERS.len()];
    // A bare issue has its address somewhere behind the command; a bare completion its status.
    let mut is_whole = false;
    let mut cursor = Cursor(fields);
    while let Ok(word) = cursor.word() {
        let Some(equals) = word.iter().position(|byte| *byte == b'=') else { continue };
        let Some((name, value)) = word.split_at_checked(equals) else { continue };
        let value = value.get(1..).unwrap_or_default();
        match name {
            b"ata_port" => port = Some(small(value, "ata_port below 2^32")?),
            b"ata_dev" => device = Some(small(value, "ata_dev below 2^32")?),
            // A tag is signed; the commands of libata itself may have none.
            b"tag" if value.starts_with(b"-") => tag = Some(u32::MAX),
            b"tag" => tag = Some(small(value, "a tag below 2^32")?),
            b"proto" => protocol = Some(protocol_number(value)),
            b"tf" => {
                registers = printed(value)?;
                is_whole = true;
            }
            b"res" => {
                printed(value)?;
                is_whole = true;
            }
            _ => {
                let register = REGISTERS.iter().position(|known| known.as_bytes() == name);
                if let (Some(place), Some(value)) = (register, number(value)) {
                    if let Some(register) = registers.get_mut(place) {
                        *register = value.to_le_bytes()[0];
                    }
                    is_whole |= moment == Moment::Issue && name == b"lbal";
                }
                is_whole |= moment != Moment::Issue && name == b"status" && number(value).is_some();
            }
        }
    }
    match (port, device, tag) {
        (Some(port), Some(device), Some(tag)) if is_whole => Ok(Values {
            port: AtaPort { port, device },
            tag,
            protocol: if moment == Moment::Issue { protocol } else { None },
            registers: Registers::new(registers),
        }),
        _ => Err(Fault::Short),
    }
}

fn small(value: &[u8], expected: &'static str) -> Result<u32, Fault> {
    let number = number(value).and_then(|number| u32::try_from(number).ok());
    number.ok_or(Fault::Wrong(expected))
}

/// `(61/08:98:18:08:00/00:00:00:00:00/40)`.
fn printed(value: &[u8]) -> Result<[u8; REGISTERS.len()], Fault> {
    const EXPECTED: Fault = Fault::Wrong("twelve registers in hexadecimal");
    let inside = value.strip_prefix(b"(").ok_or(EXPECTED)?;
    let inside = inside.strip_suffix(b")").ok_or(EXPECTED)?;
    let mut registers = [0; REGISTERS.len()];
    let mut texts = inside.split(|byte| matches!(byte, b'/' | b':'));
    for place in PRINTED {
        let text = texts.next().and_then(|text| std::str::from_utf8(text).ok()).ok_or(EXPECTED)?;
        let register = registers.get_mut(place).ok_or(EXPECTED)?;
        *register = u8::from_str_radix(text, 16).ok().ok_or(EXPECTED)?;
    }
    if texts.next().is_some() { Err(EXPECTED) } else { Ok(registers) }
}

/// libata's number of a protocol (`enum ata_prot`), from its name or bare.
fn protocol_number(value: &[u8]) -> u64 {
    match value {
        b"ATA_PROT_NODATA" => 0,
        b"ATA_PROT_PIO" => 1,
        b"ATA_PROT_DMA" => 2,
        b"ATA_PROT_NCQ_NODATA" => 4,
        b"ATA_PROT_NCQ" => 6,
        b"ATAPI_PROT_NODATA" => 8,
        b"ATAPI_PROT_PIO" => 9,
        b"ATAPI_PROT_DMA" => 10,
        // `ATA_PROT_UNKNOWN`.
        other => number(other).unwrap_or(255),
    }
}

#[cfg(test)]
mod tests {
    use iotrace_model::{Action, Cpu, DeviceId, Event, Flags, Nanos, Op, Protocol};
    use iotrace_testkit::{DISK, EventBuilder};

    use super::*;
    use crate::tracepoint::Context;

    const PORT: &str = "ata_port=1 ata_dev=0 tag=19";

    #[test]
    fn a_queued_write_is_read_in_both_forms() {
        let expected = EventBuilder::new(Action::CommandIssue, 0)
            .op(Op::Write, Flags::default())
            .sectors(0x0818, 8)
            .command(19, Some(Protocol::AtaNcq));
        let registers = "tf=(61/08:98:18:08:00/00:00:00:00:00/40)";
        check(
            "ata_qc_issue",
            &format!("proto=ATA_PROT_NCQ cmd=ATA_CMD_FPDMA_WRITE  {registers}"),
            expected,
        );
        let bare = "cmd=97 dev=64 lbal=24 lbam=8 lbah=0 nsect=152 feature=8 hob_lbal=0 hob_lbam=0 \
                    hob_lbah=0 hob_nsect=0 hob_feature=0 ctl=8 proto=6 flags=77";
        check("ata_qc_issue", bare, expected);
    }

    #[test]
    fn every_register_has_its_place() {
        let expected = EventBuilder::new(Action::CommandIssue, 0)
            .op(Op::Write, Flags::FUA)
            .sectors(0x0605_0403_0201, 0x0807)
            .command(19, Some(Protocol::AtaNcq));
        let registers = "tf=(61/07:98:01:02:03/08:00:04:05:06/c0)";
        check(
            "ata_qc_issue",
            &format!("proto=ATA_PROT_NCQ cmd=ATA_CMD_FPDMA_WRITE {registers}"),
            expected,
        );
        let expected = EventBuilder::new(Action::CommandIssue, 0)
            .op(Op::Read, Flags::default())
            .sectors(0x0605_0403_0201, 0x0a09)
            .command(19, Some(Protocol::AtaDma));
        let registers = "tf=(25/00:09:01:02:03/00:0a:04:05:06/40)";
        check(
            "ata_qc_issue",
            &format!("proto=ATA_PROT_DMA cmd=ATA_CMD_READ_EXT {registers}"),
            expected,
        );
    }

    #[test]
    fn a_completion_has_an_outcome_only() {
        let done = EventBuilder::new(Action::CommandComplete, 0)
            .op(Op::Other, Flags::default())
            .command(19, None);
        let text = "flags={ ACTIVE } status={ DRDY }  res=(40/00:00:00:00:00/00:00:00:00:00/00)";
        check("ata_qc_complete_done", text, done);
        check("ata_qc_complete_done", "status=80 dev=64 lbal=24 error=0 flags=1", done);
        check("ata_qc_complete_failed", text, done.error(-5));
    }

    #[test]
    fn a_command_that_ends_too_early_is_told() {
        let fault = |name, text: &str| read(Moment::from_name(name).unwrap(), text.as_bytes());
        for text in
            ["", PORT, "ata_port=1 ata_dev=0 tag=19 proto=ATA_PROT_NCQ cmd=ATA_CMD_FPDMA_WRITE"]
        {
            assert_eq!(fault("ata_qc_issue", text).unwrap_err(), Fault::Short);
        }
        assert_eq!(fault("ata_qc_complete_done", PORT).unwrap_err(), Fault::Short);
        let wrong = fault("ata_qc_issue", "tf=(61/08)").unwrap_err();
        assert_eq!(wrong, Fault::Wrong("twelve registers in hexadecimal"));
        assert_eq!(Moment::from_name("ata_qc_complete_internal"), None);
    }

    #[track_caller]
    fn check(name: &str, text: &str, expected: EventBuilder) {
        let moment = Moment::from_name(name).unwrap();
        let context = Context { time: Nanos(0), cpu: Cpu(0), sequence: 0, pid: 1 };
        let event = |ports: &[(AtaPort, DeviceId)]| -> Result<Event, Fault> {
            let text = format!("{PORT} {text}");
            Ok(read(moment, text.as_bytes())?.event(moment, context, ports))
        };
        let expected = expected.thread(1, "");
        assert_eq!(event(&[(AtaPort { port: 1, device: 0 }, DISK)]), Ok(expected.build()));
        assert_eq!(event(&[]), Ok(expected.device(None).build()));
    }
}
