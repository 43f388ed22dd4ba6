//! What a maintainer would ask about the machine and a device, as the kernel tells it.

use std::fs;
use std::path::{Path, PathBuf};

use iotrace_model::{DeviceFacts, DeviceId, Fact, Facts};

use crate::Target;
use crate::device::{number, read};

/// Whether serial numbers, host names and paths are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifiers {
    /// Left out.
    Omit,
    /// Kept.
    Keep,
}

/// Attributes below `queue/` that are kept: name in sysfs, name in the facts.
const QUEUE: [(&str, &str); 14] = [
    ("logical_block_size", "logical_block_size_bytes"),
    ("physical_block_size", "physical_block_size_bytes"),
    ("rotational", "rotational"),
    ("nr_requests", "nr_requests"),
    ("write_cache", "write_cache"),
    ("fua", "fua"),
    ("read_ahead_kb", "read_ahead_kib"),
    ("max_sectors_kb", "max_request_kib"),
    ("nomerges", "nomerges"),
    ("rq_affinity", "rq_affinity"),
    ("wbt_lat_usec", "wbt_latency_us"),
    ("discard_max_bytes", "discard_max_bytes"),
    ("iostats", "iostats"),
    ("zoned", "zoned"),
];

/// A device as it is now.
pub fn device_facts(target: &Target, identifiers: Identifiers) -> DeviceFacts {
    let path = &target.sys_path;
    let device = path.join("device");
    let mut facts = Facts::default();
    facts.set("model", read(&device, "model"));
    facts.set("vendor", read(&device, "vendor"));
    facts.set("firmware", read(&device, "rev").or_else(|| read(&device, "firmware_rev")));
    if identifiers == Identifiers::Keep {
        facts.set("serial", serial(path));
        facts.set("wwid", read(&device, "wwid").or_else(|| read(path, "wwid")));
        facts.set("backing_file", read(path, "loop/backing_file"));
    }
    facts.set("size_bytes", number::<i64>(path, "size").map(|sectors| sectors.saturating_mul(512)));
    facts.set("partition", target.partition.clone());
    facts.set("transport", transport(target));
    facts.set("driver", link_name(&device.join("driver")));
    facts.set("controller", controller(path));
    facts.set("scheduler", scheduler(path));
    facts.set("scheduler_parameters", parameters(&path.join("queue/iosched")));
    for (attribute, name) in QUEUE {
        facts.set(name, value(&path.join("queue"), attribute));
    }
    facts.set("hardware_queues", hardware_queues(path));
    facts.set("drive_cache_type", cache_type(path).and_then(|path| read(&path, "cache_type")));
    facts.set("loop_direct_io", value(path, "loop/dio"));
    facts.set("dm_name", read(path, "dm/name"));
    facts.set("dm_kind", dm_kind(path));
    facts.set("md_level", read(path, "md/level"));
    facts.set("members", members(target));
    facts.set("mounts", mounts(path));
    DeviceFacts {
        device: target.device,
        name: target.name.clone(),
        range: target.range,
        is_ata: target.ata_port.is_some(),
        ata_port: target.ata_port,
        queue_depth: number(&device, "queue_depth"),
        facts,
        only_named: false,
    }
}

/// The machine as it is now.
pub fn host_facts(identifiers: Identifiers) -> Facts {
    let kernel = Path::new("/proc/sys/kernel");
    let mut facts = Facts::default();
    if identifiers == Identifiers::Keep {
        facts.set("host_name", read(kernel, "hostname"));
    }
    facts.set("kernel_release", read(kernel, "osrelease"));
    facts.set("kernel_version", read(kernel, "version"));
    facts.set("architecture", Some(std::env::consts::ARCH));
    facts.set("system", os_release());
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    facts.set("cpu_model", line_value(&cpuinfo, "model name", ':'));
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    facts.set("cpus", i64::try_from(cpus).ok());
    let governor = Path::new("/sys/devices/system/cpu/cpu0/cpufreq");
    facts.set("cpu_governor", read(governor, "scaling_governor"));
    // Only x86 has this line, and only there a missing flag tells anything.
    let flags = line_value(&cpuinfo, "flags", ':');
    let is_guest = |flags: String| flags.split_whitespace().any(|flag| flag == "hypervisor");
    facts.set("virtual_machine", flags.map(is_guest));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = line_value(&memory, "MemTotal", ':')
        .and_then(|text| text.trim_end_matches("kB").trim().parse::<i64>().ok());
    facts.set("memory_bytes", kib.map(|kib| kib.saturating_mul(1024)));
    facts.set("libata_force", libata_force());
    facts.set("lockdown", read(Path::new("/sys/kernel/security"), "lockdown"));
    facts
}

/// A number where the attribute is one, else its text.
fn value(folder: &Path, attribute: &str) -> Option<Fact> {
    let text = read(folder, attribute)?;
    Some(text.parse::<i64>().map_or(Fact::Text(text), Fact::Number))
}

/// The scheduler in brackets; the whole text where there is none.
pub(crate) fn scheduler(path: &Path) -> Option<String> {
    let text = read(path, "queue/scheduler")?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Some(chosen.map_or_else(|| text.clone(), |(name, _)| name.to_owned()))
}

fn parameters(folder: &Path) -> Option<Facts> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut facts = Facts::default();
    for name in names {
        facts.set(&name, value(folder, &name));
    }
    (!facts.0.is_empty()).then_some(facts)
}

fn hardware_queues(path: &Path) -> Option<i64> {
    let queues = fs::read_dir(path.join("mq")).ok()?.flatten().count();
    i64::try_from(queues).ok()
}

/// The folder with the drive's own `cache_type`: that of a SCSI disk, or a virtio disk itself.
pub(crate) fn cache_type(path: &Path) -> Option<PathBuf> {
    let disks = fs::read_dir(path.join("device/scsi_disk")).into_iter().flatten().flatten();
    let mut folders = disks.map(|disk| disk.path()).chain([path.to_owned()]);
    folders.find(|path| path.join("cache_type").exists())
}

/// `NVMe` and virtio show a serial number; SCSI has it in the page 0x80 of its product data.
fn serial(path: &Path) -> Option<String> {
    let page = || {
        let bytes = fs::read(path.join("device/vpd_pg80")).ok()?;
        let text = String::from_utf8_lossy(bytes.get(4..)?);
        let text = text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace());
        (!text.is_empty()).then(|| text.to_owned())
    };
    read(&path.join("device"), "serial").or_else(|| read(path, "serial")).or_else(page)
}

/// How the drive is attached, by the folders that lead to it in sysfs.
fn transport(target: &Target) -> Option<String> {
    const FOLDERS: [(&str, &str); 8] = [
        ("usb", "usb"),
        ("virtio", "virtio"),
        ("end_device-", "sas"),
        ("rport-", "fibre channel"),
        ("session", "iscsi"),
        ("mmc", "mmc"),
        ("nvme", "nvme"),
        ("virtual", "none"),
    ];
    if target.ata_port.is_some() {
        return Some("ata".to_owned());
    }
    let words = || target.sys_path.iter().filter_map(|word| word.to_str());
    let is_there = |(start, _): &&(&str, &str)| words().any(|word| word.starts_with(start));
    let (_, name) = FOLDERS.iter().find(is_there)?;
    // A drive of several controllers is shown below none of them, and then does not tell this.
    let below = if *name == "nvme" { read(&target.sys_path, "device/transport") } else { None };
    Some(below.map_or_else(|| (*name).to_owned(), |below| format!("{name} over {below}")))
}

/// What made a dm device, such as `LVM` or `CRYPT`: its uuid up to the first dash.
fn dm_kind(path: &Path) -> Option<String> {
    let uuid = read(path, "dm/uuid")?;
    uuid.split_once('-').map(|(kind, _)| kind.to_owned())
}

fn members(target: &Target) -> Option<Fact> {
    let members: Vec<_> =
        target.members.iter().map(|member| Fact::Text(member.to_string())).collect();
    (!members.is_empty()).then_some(Fact::List(members))
}

/// The PCI device that the drive hangs on.
fn controller(path: &Path) -> Option<Facts> {
    let pci = path.ancestors().find(|folder| {
        link_name(&folder.join("subsystem")).as_deref() == Some("pci")
            && folder.join("class").exists()
    })?;
    let mut facts = Facts::default();
    facts.set("driver", link_name(&pci.join("driver")));
    for name in ["vendor", "device", "class"] {
        facts.set(name, read(pci, name));
    }
    Some(facts)
}

fn link_name(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    target.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Where the device or a partition of it is mounted, with the kind of file system.
fn mounts(path: &Path) -> Option<Fact> {
    let mut numbers: Vec<DeviceId> = Vec::new();
    numbers.extend(read(path, "dev").and_then(|text| DeviceId::parse(&text)));
    for entry in fs::read_dir(path).ok()?.flatten() {
        numbers.extend(read(&entry.path(), "dev").and_then(|text| DeviceId::parse(&text)));
    }
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounts: Vec<Fact> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let device = DeviceId::parse(words.nth(2)?)?;
            let place = words.nth(1)?;
            let (_, rest) = line.split_once(" - ")?;
            let kind = rest.split(' ').next()?;
            numbers.contains(&device).then(|| Fact::Text(format!("{place} ({kind})")))
        })
        .collect();
    (!mounts.is_empty()).then_some(Fact::List(mounts))
}

fn os_release() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    line_value(&text, "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned())
}

fn libata_force() -> Option<String> {
    let line = fs::read_to_string("/proc/cmdline").ok()?;
    let word = line.split_whitespace().find_map(|word| word.strip_prefix("libata.force="))?;
    Some(word.to_owned())
}

fn line_value(text: &str, name: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::{sysfs, target};

    #[test]
    fn settings_are_read_back_from_sysfs() {
        let (_folder, sysfs) = sysfs();
        let facts = device_facts(&target(&sysfs, "8:0"), Identifiers::Omit);
        assert_eq!((facts.queue_depth, facts.is_ata), (Some(32), true));
        assert_eq!(facts.facts.get("size_bytes"), Some(&Fact::Number(4096 * 512)));
        assert_eq!(facts.facts.get("scheduler"), Some(&Fact::Text("none".to_owned())));
        assert_eq!(facts.facts.get("serial"), None);
    }

    #[test]
    fn the_transport_is_told_by_the_path() {
        let (_folder, sysfs) = sysfs();
        check_text(&target(&sysfs, "8:0"), "transport", Some("ata"));
        check_text(&target(&sysfs, "259:0"), "transport", Some("nvme over pcie"));
        check_text(&target(&sysfs, "254:0"), "transport", Some("virtio"));
        check_text(&target(&sysfs, "7:0"), "transport", Some("none"));
        let usb = Target { sys_path: "/sys/devices/pci/usb2/host1".into(), ..Target::default() };
        check_text(&usb, "transport", Some("usb"));
    }

    #[test]
    fn every_kind_of_drive_tells_what_it_has() {
        let (_folder, sysfs) = sysfs();
        let nvme = target(&sysfs, "259:0");
        check_text(&nvme, "model", Some("FAST"));
        check_text(&nvme, "firmware", Some("F2"));
        let facts = device_facts(&nvme, Identifiers::Omit);
        assert_eq!(facts.facts.get("hardware_queues"), Some(&Fact::Number(2)));
        assert_eq!((facts.queue_depth, facts.is_ata), (None, false));
        check_text(&target(&sysfs, "254:0"), "drive_cache_type", Some("write back"));
        let members = Fact::List(vec![Fact::Text("8:0".to_owned())]);
        let stack = device_facts(&target(&sysfs, "253:0"), Identifiers::Omit);
        assert_eq!(stack.facts.get("members"), Some(&members));
    }

    #[test]
    fn serial_numbers_are_told_only_on_request() {
        let (_folder, sysfs) = sysfs();
        let disk = target(&sysfs, "8:0");
        fs::write(disk.sys_path.join("device/vpd_pg80"), b"\0\x80\0\x08  ABC12 ").unwrap();
        for (number, serial) in [("259:0", "S1"), ("254:0", "V3"), ("8:0", "ABC12")] {
            let target = target(&sysfs, number);
            check_text(&target, "serial", None);
            let kept = device_facts(&target, Identifiers::Keep);
            assert_eq!(kept.facts.get("serial"), Some(&Fact::Text(serial.to_owned())));
        }
    }

    #[track_caller]
    fn check_text(target: &Target, name: &str, expected: Option<&str>) {
        let facts = device_facts(target, Identifiers::Omit);
        assert_eq!(facts.facts.get(name), expected.map(Fact::from).as_ref());
    }

    #[test]
    fn the_kernel_is_named() {
        assert!(host_facts(Identifiers::Omit).get("kernel_release").is_some());
        assert_eq!(host_facts(Identifiers::Omit).get("host_name"), None);
    }
}
