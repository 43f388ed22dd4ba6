//! The devices that a user can name, and where the kernel keeps them.
//!
//! `/sys/dev/block/MAJOR:MINOR` leads to every block device; a partition lies in the folder of its
//! disk. Tracepoints always name the whole disk, so a partition becomes a range of sectors.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use iotrace_model::{AtaPort, DeviceId, Sector};

use crate::Error;

/// One device to trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The whole disk, or dm, md or loop device, as tracepoints name it.
    pub device: DeviceId,
    /// Its kernel name, such as `sda`.
    pub name: String,
    /// Only these sectors of it, when a partition was asked for: first, and first one after.
    pub range: Option<(Sector, Sector)>,
    /// Name of that partition.
    pub partition: Option<String>,
    /// Where libata knows it, when libata drives it.
    pub ata_port: Option<AtaPort>,
    /// The disks below a dm or md device, every level.
    pub members: Vec<DeviceId>,
    /// Its folder in sysfs.
    pub sys_path: PathBuf,
}

/// A mounted sysfs; tests use a made-up one.
#[derive(Clone, Debug)]
pub(crate) struct Sysfs {
    pub(crate) root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self { root: PathBuf::from("/sys") }
    }
}

/// Finds a device by path (`/dev/sda`, `/dev/mapper/home`), kernel name (`sda1`) or number (`8:0`).
///
/// # Errors
/// When there is none, when the path is no block device, or when it has no size.
pub fn find_device(text: &str) -> Result<Target, Error> {
    let sysfs = Sysfs::default();
    if let Some(device) = DeviceId::parse(text) {
        return sysfs.target(device, text);
    }
    // A bare word is a name in /dev; only to explain a refusal it is looked for here, too.
    let node = if text.contains('/') { PathBuf::from(text) } else { Path::new("/dev").join(text) };
    let metadata = fs::metadata(&node)
        .or_else(|error| fs::metadata(text).ok().ok_or(error))
        .map_err(|source| Error::NoSuchDevice { name: text.to_owned(), source })?;
    if !metadata.file_type().is_block_device() {
        let home = sysfs
            .target(split(metadata.dev()), text)
            .map_or_else(|_| String::new(), |home| format!("; it lies on /dev/{}", home.name));
        return Err(Error::NotABlockDevice { name: text.to_owned(), home });
    }
    sysfs.target(split(metadata.rdev()), text)
}

/// The number of the device that holds a file or folder; `None` where that is no block device.
pub fn device_of(path: &Path) -> Option<DeviceId> {
    let device = split(fs::metadata(path).ok()?.dev());
    (device.major != 0).then_some(device)
}

/// Splits the `dev_t` of a `stat` (glibc's `gnu_dev_major` and `gnu_dev_minor`).
fn split(dev: u64) -> DeviceId {
    let major = (dev >> 8) & 0xfff | (dev >> 32) & 0xffff_f000;
    let minor = dev & 0xff | (dev >> 12) & 0xffff_ff00;
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    DeviceId { major: narrow(major), minor: narrow(minor) }
}

impl Sysfs {
    pub(crate) fn target(&self, device: DeviceId, text: &str) -> Result<Target, Error> {
        let link = self.root.join("dev/block").join(device.to_string());
        let path = fs::canonicalize(link)
            .map_err(|source| Error::NoSuchDevice { name: text.to_owned(), source })?;
        let own_name = name_of(&path);
        let is_partition = path.join("partition").exists();
        let size = number(&path, "size").unwrap_or(0);
        if size == 0 {
            return Err(Error::NoSize { name: own_name });
        }
        if !is_partition {
            return Ok(Self::whole(device, path));
        }
        let start = number(&path, "start").unwrap_or(0);
        let disk = path.parent().map_or_else(|| path.clone(), Path::to_owned);
        let number = read(&disk, "dev").and_then(|text| DeviceId::parse(&text)).unwrap_or(device);
        let range = Some((Sector(start), Sector(start.saturating_add(size))));
        Ok(Target { range, partition: Some(own_name), ..Self::whole(number, disk) })
    }

    fn whole(device: DeviceId, path: PathBuf) -> Target {
        Target {
            device,
            name: name_of(&path),
            range: None,
            partition: None,
            ata_port: ata_port(&path),
            members: members(&path, 8),
            sys_path: path,
        }
    }
}

/// The disks below a stacked device, each once; `depth` bounds a cycle that cannot be.
fn members(path: &Path, depth: u32) -> Vec<DeviceId> {
    let mut found = Vec::new();
    let Ok(slaves) = fs::read_dir(path.join("slaves")) else { return found };
    let mut paths: Vec<_> =
        slaves.flatten().filter_map(|slave| fs::canonicalize(slave.path()).ok()).collect();
    paths.sort();
    for path in paths {
        let is_partition = path.join("partition").exists();
        let disk = if is_partition { path.parent().unwrap_or(&path) } else { &path };
        found.extend(read(disk, "dev").and_then(|text| DeviceId::parse(&text)));
        if depth > 0 {
            found.extend(members(disk, depth - 1));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// `…/ata3/host2/target2:0:1/2:0:1:0/block/sda`: port 3, device 1.
///
/// Tracepoints give the device as link plus number on the link. libata makes the one the SCSI
/// channel (behind a port multiplier) and the other the SCSI target (two drives on one cable).
fn ata_port(path: &Path) -> Option<AtaPort> {
    let words = || path.components().filter_map(|part| part.as_os_str().to_str());
    let port = words().find_map(|word| word.strip_prefix("ata")?.parse().ok())?;
    let device = words().find_map(|word| {
        let mut numbers = word.strip_prefix("target")?.split(':').skip(1);
        let channel: u32 = numbers.next()?.parse().ok()?;
        channel.checked_add(numbers.next()?.parse().ok()?)
    });
    Some(AtaPort { port, device: device.unwrap_or(0) })
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// A sysfs attribute without its line end; `None` where there is none or it is empty.
pub(crate) fn read(folder: &Path, attribute: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(attribute)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A sysfs attribute that is a whole number.
pub(crate) fn number<T: std::str::FromStr>(folder: &Path, attribute: &str) -> Option<T> {
    read(folder, attribute)?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A made-up sysfs with one ATA disk `sda` (8:0) that has a partition `sda1` (8:1), a loop
    /// device `loop0` (7:0), an unattached `loop1` (7:1), `dm-0` (253:0) on the partition, an `NVMe`
    /// drive `nvme0n1` (259:0) and a virtio disk `vda` (254:0).
    pub(crate) fn sysfs() -> (tempfile::TempDir, Sysfs) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let disk = root.join("devices/pci/ata3/host2/target2:0:0/2:0:0:0/block/sda");
        let nvme = root.join("devices/pci/nvme/nvme0");
        let virtio = root.join("devices/pci/virtio1");
        for (path, attributes) in [
            (
                nvme.clone(),
                vec![
                    ("model", "FAST"),
                    ("serial", "S1"),
                    ("firmware_rev", "F2"),
                    ("transport", "pcie"),
                ],
            ),
            (nvme.join("nvme0n1"), vec![("dev", "259:0"), ("size", "64")]),
            (nvme.join("nvme0n1/queue"), vec![("scheduler", "[none] kyber")]),
            (nvme.join("nvme0n1/mq/0"), vec![]),
            (nvme.join("nvme0n1/mq/1"), vec![]),
            (virtio.clone(), vec![("vendor", "0x1af4")]),
            (
                virtio.join("block/vda"),
                vec![
                    ("dev", "254:0"),
                    ("size", "16"),
                    ("serial", "V3"),
                    ("cache_type", "write back"),
                ],
            ),
            (disk.clone(), vec![("dev", "8:0"), ("size", "4096")]),
            (
                disk.join("sda1"),
                vec![("dev", "8:1"), ("size", "1024"), ("start", "2048"), ("partition", "1")],
            ),
            (disk.join("queue"), vec![("scheduler", "[none] mq-deadline")]),
            (root.join("devices/virtual/block/loop0"), vec![("dev", "7:0"), ("size", "8")]),
            (root.join("devices/virtual/block/loop1"), vec![("dev", "7:1"), ("size", "0")]),
            (root.join("devices/virtual/block/dm-0"), vec![("dev", "253:0"), ("size", "512")]),
            (root.join("devices/virtual/block/dm-0/slaves"), vec![]),
            (root.join("dev/block"), vec![]),
        ] {
            fs::create_dir_all(&path).unwrap();
            for (name, value) in attributes {
                fs::write(path.join(name), format!("{value}\n")).unwrap();
            }
        }
        let link = |target: PathBuf, name: &str| {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        };
        link(disk.clone(), "dev/block/8:0");
        link(disk.join("sda1"), "dev/block/8:1");
        link(root.join("devices/virtual/block/loop0"), "dev/block/7:0");
        link(root.join("devices/virtual/block/loop1"), "dev/block/7:1");
        link(root.join("devices/virtual/block/dm-0"), "dev/block/253:0");
        link(disk.join("sda1"), "devices/virtual/block/dm-0/slaves/sda1");
        link(nvme.join("nvme0n1"), "dev/block/259:0");
        link(nvme.clone(), "devices/pci/nvme/nvme0/nvme0n1/device");
        link(virtio.join("block/vda"), "dev/block/254:0");
        link(virtio.clone(), "devices/pci/virtio1/block/vda/device");
        let device = disk.parent().unwrap().parent().unwrap();
        fs::write(device.join("queue_depth"), "32\n").unwrap();
        link(device.to_owned(), "devices/pci/ata3/host2/target2:0:0/2:0:0:0/block/sda/device");
        let sysfs = Sysfs { root };
        (folder, sysfs)
    }

    #[track_caller]
    pub(crate) fn target(sysfs: &Sysfs, number: &str) -> Target {
        sysfs.target(DeviceId::parse(number).unwrap(), number).unwrap()
    }

    #[test]
    fn a_partition_is_a_range_of_its_disk() {
        let (_folder, sysfs) = sysfs();
        let target = target(&sysfs, "8:1");
        assert_eq!((target.name.as_str(), target.device), ("sda", DeviceId { major: 8, minor: 0 }));
        assert_eq!(target.range, Some((Sector(2048), Sector(3072))));
        assert_eq!(target.partition.as_deref(), Some("sda1"));
    }

    #[test]
    fn an_ata_disk_knows_its_port() {
        let (_folder, sysfs) = sysfs();
        assert_eq!(target(&sysfs, "8:0").ata_port, Some(AtaPort { port: 3, device: 0 }));
        for other in ["7:0", "253:0", "254:0", "259:0"] {
            assert_eq!(target(&sysfs, other).ata_port, None, "{other}");
        }
    }

    #[test]
    fn an_ata_device_is_its_link_and_its_number_there() {
        check_port("ata3/host2/target2:0:0", 3, 0);
        check_port("ata1/host0/target0:0:1", 1, 1);
        check_port("ata7/host6/target6:2:0", 7, 2);
        check_port("ata9/host8", 9, 0);
    }

    #[track_caller]
    fn check_port(path: &str, port: u32, device: u32) {
        assert_eq!(ata_port(Path::new(path)), Some(AtaPort { port, device }));
    }

    #[test]
    fn the_members_of_a_stack_are_whole_disks() {
        let (_folder, sysfs) = sysfs();
        assert_eq!(target(&sysfs, "253:0").members, [DeviceId { major: 8, minor: 0 }]);
    }

    #[test]
    fn a_device_without_size_is_refused() {
        let (_folder, sysfs) = sysfs();
        let device = DeviceId { major: 7, minor: 1 };
        let error = sysfs.target(device, "loop1").unwrap_err();
        assert!(matches!(error, Error::NoSize { name } if name == "loop1"));
    }

    #[test]
    fn a_folder_is_no_device() {
        assert!(matches!(find_device("/proc/self"), Err(Error::NotABlockDevice { .. })));
        assert!(matches!(find_device("src"), Err(Error::NotABlockDevice { .. })));
        assert!(matches!(find_device("no-such-disk"), Err(Error::NoSuchDevice { .. })));
    }

    #[test]
    fn both_halves_of_a_device_number_are_split_off() {
        let nvme = DeviceId { major: 259, minor: 1_048_575 };
        assert_eq!(split(0xfff1_03ff), nvme);
    }
}
