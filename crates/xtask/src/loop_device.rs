//! `cargo xtask loop`: the main job on a machine without a spare disk.
//!
//! Makes a loop device over a sparse file, records fio on it with two schedulers, analyzes, says
//! where the report is, and removes the device again, whatever happened in between.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

/// Arguments of `cargo xtask loop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Dataset to write
    #[arg(short, long, default_value = "loop.iotrace")]
    output: PathBuf,
    /// Runs of each configuration
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Seconds of each run
    #[arg(long, default_value_t = 3)]
    seconds: u32,
}

/// Records, analyzes and cleans up. Needs root, and fio (installed through apt-get if missing).
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !crate::vm::is_installed("fio") {
        call(Command::new("apt-get").args(["install", "-y", "-qq", "fio"]))
            .context("fio is missing and cannot be installed; run as root or install it")?;
    }
    let program = crate::vm::build_program()?;
    let device = Loop::attach(512 << 20)?;
    let fio = format!(
        "fio --name=job --filename={} --direct=1 --rw=randrw --bs=4k --ioengine=libaio \
         --iodepth=32 --size=512m --time_based --runtime={} --randseed=7",
        device.path, args.seconds
    );
    let status = Command::new(&program)
        .args(["record", "--device", &device.path, "--scheduler", "mq-deadline,none"])
        .args(["--repeat", &args.repeat.to_string(), "--output"])
        .arg(&args.output)
        .arg("--")
        .args(fio.split_whitespace())
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    // 3 says that data are incomplete, which the report shows too.
    if !matches!(status.code(), Some(0 | 3)) {
        bail!("iotrace record ended with {status}");
    }
    let status = Command::new(&program).arg("analyze").arg(&args.output).status()?;
    if !matches!(status.code(), Some(0 | 3)) {
        bail!("iotrace analyze ended with {status}");
    }
    Ok(())
}

/// A loop device that detaches itself.
pub(crate) struct Loop {
    pub(crate) path: String,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// Attaches a new sparse file of that size, in memory where possible. Completions stay on the
    /// CPU of the loop thread, since some kernels drop samples of those in idle CPUs.
    pub(crate) fn attach(bytes: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in(memory_folder()).context("no temporary folder")?;
        let image = folder.path().join("disk.img");
        let file = File::create(&image).context("cannot create the disk image")?;
        file.set_len(bytes).context("cannot size the disk image")?;
        let output = Command::new("losetup")
            .args(["--direct-io=on", "--find", "--show"])
            .arg(&image)
            .output()
            .context("cannot run losetup")?;
        if !output.status.success() {
            bail!("losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let path = String::from_utf8(output.stdout)?.trim().to_owned();
        let device = Self { path, _folder: folder };
        let name = device.path.trim_start_matches("/dev/");
        std::fs::write(format!("/sys/block/{name}/queue/rq_affinity"), "0")
            .context("cannot set rq_affinity of the loop device")?;
        Ok(device)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Nothing is left to do about a failure here; the kernel keeps the device until it is free.
        drop(Command::new("losetup").args(["--detach", &self.path]).status());
    }
}

/// A folder in memory, else that for temporary files.
pub(crate) fn memory_folder() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

/// Runs a program; anything but success is an error.
pub(crate) fn call(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
