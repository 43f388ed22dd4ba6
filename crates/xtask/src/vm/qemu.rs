//! Boots the machine, shows how far it is, and ends it when its time is up.
//!
//! Two disks: an AHCI disk with NCQ, which is measured, and a virtio disk to which the guest
//! writes a tar with the results. The console goes to a file and is a log only.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::succeed;

/// Size of the measured disk. It is sparse: only what the workload writes takes space.
const DISK_BYTES: u64 = 1 << 30;
/// Room for the results, sparse as well.
const RESULT_BYTES: u64 = 2 << 30;
/// How often the machine is looked at.
const TICK: Duration = Duration::from_millis(200);

/// One machine, about to boot.
pub(super) struct Machine<'a> {
    /// Where its disks and its console are put.
    pub(super) folder: &'a Path,
    /// The kernel.
    pub(super) kernel: &'a Path,
    /// The root file system.
    pub(super) initramfs: &'a Path,
    /// It is killed after this time.
    pub(super) limit: Duration,
}

impl Machine<'_> {
    /// Boots, waits for the machine to switch itself off, and unpacks its results into `out`.
    pub(super) fn run(&self, out: &Path) -> anyhow::Result<()> {
        let disk = self.sparse_file("disk.img", DISK_BYTES)?;
        let results = self.sparse_file("results.img", RESULT_BYTES)?;
        let console = out.join("console.log");
        File::create(&console).context("cannot create the log of the console")?;
        let begun = Instant::now();
        let mut qemu =
            Guard(self.command(&disk, &results, &console).spawn().context("cannot run qemu")?);
        let mut log = Log { file: File::open(&console)?, line: Vec::new() };
        let status = loop {
            log.show_progress()?;
            if let Some(status) = qemu.0.try_wait().context("cannot wait for qemu")? {
                break status;
            }
            if begun.elapsed() > self.limit {
                bail!(
                    "the virtual machine was killed after {} s; its console is {}",
                    self.limit.as_secs(),
                    console.display()
                );
            }
            std::thread::sleep(TICK);
        };
        log.show_progress()?;
        if !status.success() {
            bail!("qemu ended with {status}");
        }
        eprintln!("the virtual machine ran for {:.0} s", begun.elapsed().as_secs_f64());
        succeed(Command::new("tar").arg("-xf").arg(&results).arg("-C").arg(out)).with_context(
            || format!("the virtual machine left no results; its console is {}", console.display()),
        )
    }

    fn command(&self, disk: &Path, results: &Path, console: &Path) -> Command {
        let cache = if takes_direct_io(disk) { "none,aio=threads" } else { "writeback" };
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "2048"])
            .args(["-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none"])
            .args(["-append", "console=ttyS0 quiet panic=-1"])
            .arg("-kernel")
            .arg(self.kernel)
            .arg("-initrd")
            .arg(self.initramfs)
            .args(["-serial", &format!("file:{}", console.display())])
            .args(["-drive", &drive("d0", disk, cache)])
            .args(["-device", "ide-hd,drive=d0,bus=ide.0,model=IOTRACE NCQ DISK"])
            .args(["-drive", &drive("d1", results, "unsafe")])
            .args(["-device", "virtio-blk-pci,drive=d1"])
            .stdin(Stdio::null());
        command
    }

    fn sparse_file(&self, name: &str, bytes: u64) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(name);
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.set_len(bytes).with_context(|| format!("cannot size {}", path.display()))?;
        Ok(path)
    }
}

fn drive(id: &str, file: &Path, cache: &str) -> String {
    let file = file.display().to_string().replace(',', ",,");
    format!("if=none,id={id},format=raw,file={file},cache={cache}")
}

/// Whether the file can be opened with `O_DIRECT`, which a tmpfs of an older kernel refuses.
fn takes_direct_io(file: &Path) -> bool {
    Command::new("dd")
        .args(["if=/dev/zero", "bs=4096", "count=1", "oflag=direct", "conv=notrunc"])
        .arg(format!("of={}", file.display()))
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A machine that does not outlive us.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It fails only for a machine that has ended, which is what is wanted.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The console, read as it grows.
struct Log {
    file: File,
    line: Vec<u8>,
}

impl Log {
    /// Shows the new lines that are meant for the terminal.
    fn show_progress(&mut self) -> anyhow::Result<()> {
        let mut new = Vec::new();
        self.file.read_to_end(&mut new).context("cannot read the console")?;
        for line in whole_lines(&mut self.line, &new) {
            if let Some((_, text)) = line.split_once("vm: ") {
                eprintln!("  {}", text.trim_end());
            }
        }
        Ok(())
    }
}

/// Adds `new` to what is `left` of an unfinished line, and takes out the lines that are whole.
fn whole_lines(left: &mut Vec<u8>, new: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    for byte in new {
        if *byte == b'\n' {
            lines.push(String::from_utf8_lossy(left).into_owned());
            left.clear();
        } else {
            left.push(*byte);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_once_they_are_whole() {
        let mut left = Vec::new();
        assert_eq!(whole_lines(&mut left, b"vm: a=1\nvm: b"), ["vm: a=1"]);
        assert_eq!(whole_lines(&mut left, b"=2\n"), ["vm: b=2"]);
        assert_eq!(left, b"");
    }
}
