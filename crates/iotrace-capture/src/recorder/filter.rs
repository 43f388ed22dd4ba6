//! Filters in the kernel's language, so that events of other devices cost no copy.
//!
//! The language is that of `Documentation/trace/events.rst`, section "Event filtering".

use iotrace_model::AtaPort;

use crate::{Target, tracefs::TraceEvent};

/// The filter that lets pass only events of `targets`; `None` if the event has no field to tell
/// them by, or if it concerns none of them: then it must not be opened.
pub(super) fn filter(event: &TraceEvent, targets: &[Target]) -> Option<String> {
    let has = |field| event.field_offset(field).is_some();
    let mut terms = Vec::new();
    // Before `dev`: in libata's events that is a register of the drive.
    if has("ata_port") && has("ata_dev") {
        terms.extend(targets.iter().filter_map(|target| target.ata_port).map(port_term));
    } else if has("dev") {
        for target in targets {
            terms.push(device_term(target, has("sector")));
            terms.extend(
                target.members.iter().map(|member| format!("dev == {}", member.to_kernel())),
            );
        }
    }
    (!terms.is_empty()).then(|| terms.join(" || "))
}

fn device_term(target: &Target, has_sector: bool) -> String {
    let device = target.device.to_kernel();
    match target.range {
        Some((from, to)) if has_sector => {
            format!("(dev == {device} && sector >= {} && sector < {})", from.0, to.0)
        }
        Some(_) | None => format!("dev == {device}"),
    }
}

fn port_term(AtaPort { port, device }: AtaPort) -> String {
    format!("(ata_port == {port} && ata_dev == {device})")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use iotrace_model::{DeviceId, Sector};

    use super::*;

    const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
    const SDB: DeviceId = DeviceId { major: 8, minor: 16 };

    #[test]
    fn devices_and_members_are_alternatives() {
        let targets = [target(SDA), Target { members: vec![SDA], ..target(SDB) }];
        check(
            &["dev", "sector"],
            &targets,
            Some("dev == 8388608 || dev == 8388624 || dev == 8388608"),
        );
    }

    #[test]
    fn a_range_limits_the_sectors_where_there_are_any() {
        let range = Some((Sector(2048), Sector(4096)));
        let targets = [Target { range, ..target(SDA) }];
        let expected = "(dev == 8388608 && sector >= 2048 && sector < 4096)";
        check(&["dev", "sector"], &targets, Some(expected));
        check(&["dev"], &targets, Some("dev == 8388608"));
    }

    #[test]
    fn driver_events_are_told_by_their_port() {
        let ata_port = Some(AtaPort { port: 3, device: 1 });
        let targets = [Target { ata_port, ..target(SDA) }, target(SDB)];
        check(&["ata_port", "ata_dev", "dev"], &targets, Some("(ata_port == 3 && ata_dev == 1)"));
        check(&["ata_port", "ata_dev"], &targets[1..], None);
        check(&["comm"], &targets, None);
    }

    #[track_caller]
    fn check(fields: &[&str], targets: &[Target], expected: Option<&str>) {
        let field = |field| format!("\tfield:u32 {field};\toffset:8;\tsize:4;\n");
        let fields: String = fields.iter().map(field).collect();
        let format = format!("ID: 1\n{fields}");
        let event = TraceEvent::parse("block", "event", format).unwrap();
        assert_eq!(filter(&event, targets).as_deref(), expected);
    }

    fn target(device: DeviceId) -> Target {
        Target {
            device,
            name: "disk".to_owned(),
            range: None,
            partition: None,
            ata_port: None,
            members: Vec::new(),
            sys_path: PathBuf::new(),
        }
    }
}
