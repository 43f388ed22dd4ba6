//! The settings that a plan can vary, and why a device may not have one.

use super::{SettingChange, Shape, Wanted};
use crate::device::read;
use crate::{Error, Target, facts};

/// Switches NCQ through `device/queue_depth`: 1 is off, the value from before is on. libata sends
/// plain DMA commands while the depth is 1.
///
/// # Errors
/// When the device is not driven by libata: there the same knob, if any, is only a depth.
pub fn ncq_change(target: &Target, on: bool) -> Result<SettingChange, Error> {
    if target.ata_port.is_none() {
        let has_knob = target.sys_path.join("device/queue_depth").exists();
        return Err(Error::NoNcq {
            name: target.name.clone(),
            instead: if has_knob {
                "its queue_depth only limits the depth, which --queue-depth varies"
            } else {
                "vary the depth in the workload, such as fio --iodepth"
            },
        });
    }
    let wanted = if on {
        // 31 of the 32 tags are usable together; libata keeps one for itself.
        Wanted::Original { instead_of_one: "31".to_owned() }
    } else {
        Wanted::Value("1".to_owned())
    };
    queue_depth(target, wanted)
}

/// Limits the depth of the device queue.
///
/// # Errors
/// When the device has no such knob.
pub fn queue_depth_change(target: &Target, depth: u32) -> Result<SettingChange, Error> {
    queue_depth(target, Wanted::Value(depth.to_string()))
}

fn queue_depth(target: &Target, wanted: Wanted) -> Result<SettingChange, Error> {
    let path = target.sys_path.join("device/queue_depth");
    if !path.exists() {
        return Err(Error::NoKnob {
            name: target.name.clone(),
            setting: "queue_depth",
            instead: "vary the depth in the workload, such as fio --iodepth",
        });
    }
    Ok(SettingChange {
        device: target.device,
        path,
        label: format!("queue_depth of {}", target.name),
        wanted,
        shape: Shape::Plain,
    })
}

/// Chooses the I/O scheduler.
///
/// # Errors
/// When the kernel does not offer it for the device.
pub fn scheduler_change(target: &Target, name: &str) -> Result<SettingChange, Error> {
    let path = target.sys_path.join("queue/scheduler");
    let offered = read(&target.sys_path, "queue/scheduler").ok_or_else(|| Error::NoKnob {
        name: target.name.clone(),
        setting: "scheduler",
        instead: "a stacked device has none of its own; name the disks below it",
    })?;
    let is_offered = offered
        .split_whitespace()
        .any(|word| word.trim_matches(|letter| letter == '[' || letter == ']') == name);
    if !is_offered {
        return Err(Error::NoScheduler {
            name: target.name.clone(),
            scheduler: name.to_owned(),
            offered,
        });
    }
    Ok(SettingChange {
        device: target.device,
        path,
        label: format!("scheduler of {}", target.name),
        wanted: Wanted::Value(name.to_owned()),
        shape: Shape::Bracketed,
    })
}

/// Switches the drive's volatile write cache (`cache_type` of a SCSI, ATA or virtio disk; the
/// kernel's `queue/write_cache` would change only what the kernel believes).
///
/// # Errors
/// When the drive does not let the kernel switch it.
pub fn write_cache_change(target: &Target, on: bool) -> Result<SettingChange, Error> {
    let folder = facts::cache_type(&target.sys_path).ok_or_else(|| Error::NoKnob {
        name: target.name.clone(),
        setting: "write cache",
        instead: "only SCSI, ATA and virtio disks let the kernel switch it",
    })?;
    Ok(SettingChange {
        device: target.device,
        path: folder.join("cache_type"),
        label: format!("write cache of {}", target.name),
        wanted: Wanted::Value(if on { "write back" } else { "write through" }.to_owned()),
        shape: Shape::Plain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::{sysfs, target};

    #[test]
    fn ncq_is_a_knob_of_ata_disks_only() {
        let (_folder, sysfs) = sysfs();
        let off = ncq_change(&target(&sysfs, "8:0"), false).unwrap();
        assert_eq!(off.wanted, Wanted::Value("1".to_owned()));
        assert!(off.path.ends_with("device/queue_depth"));
        for other in ["7:0", "253:0", "254:0", "259:0"] {
            let other = target(&sysfs, other);
            let error = ncq_change(&other, false).unwrap_err();
            assert!(matches!(error, Error::NoNcq { name, .. } if name == other.name));
        }
    }

    #[test]
    fn a_depth_behind_another_driver_is_no_ncq() {
        let (_folder, sysfs) = sysfs();
        let disk = Target { ata_port: None, ..target(&sysfs, "8:0") };
        let error = ncq_change(&disk, true).unwrap_err();
        assert!(error.to_string().contains("--queue-depth"));
        let change = queue_depth_change(&disk, 4).unwrap();
        assert_eq!(change.wanted, Wanted::Value("4".to_owned()));
    }

    #[test]
    fn a_device_without_the_knob_says_what_to_do_instead() {
        let (_folder, sysfs) = sysfs();
        let error = queue_depth_change(&target(&sysfs, "259:0"), 4).unwrap_err();
        assert!(error.to_string().contains("fio --iodepth"));
        let error = scheduler_change(&target(&sysfs, "253:0"), "none").unwrap_err();
        assert!(matches!(error, Error::NoKnob { setting: "scheduler", .. }));
        let error = write_cache_change(&target(&sysfs, "259:0"), false).unwrap_err();
        assert!(matches!(error, Error::NoKnob { setting: "write cache", .. }));
    }

    #[test]
    fn the_write_cache_is_switched_where_the_drive_hears_it() {
        let (_folder, sysfs) = sysfs();
        let change = write_cache_change(&target(&sysfs, "254:0"), false).unwrap();
        assert!(change.path.ends_with("block/vda/cache_type"));
        assert_eq!(change.wanted, Wanted::Value("write through".to_owned()));
    }

    #[test]
    fn only_schedulers_that_are_offered_can_be_chosen() {
        let (_folder, sysfs) = sysfs();
        let disk = target(&sysfs, "8:0");
        assert!(scheduler_change(&disk, "none").is_ok());
        assert!(scheduler_change(&disk, "mq-deadline").is_ok());
        assert!(matches!(scheduler_change(&disk, "deadline"), Err(Error::NoScheduler { .. })));
    }
}
