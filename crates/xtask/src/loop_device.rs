//! `cargo xtask loop`: the main job on a machine without a spare disk.
//!
//! Makes a loop device over a sparse file, records fio on it with two schedulers, analyzes, says
//! where the report is, and removes the device again, whatever happened in between.

use std::fs::File;
use std::path::{Path, PathBuf};
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
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let device = Loop::attach(&folder.path().join("disk.img"), 512 << 20)?;
    let fio = format!(
        "fio --name=job --filename={} --direct=1 --rw=randrw --bs=4k --ioengine=libaio \
         --iodepth=32 --size=512m --time_based --runtime={} --randseed=7",
        device.path, args.seconds
    );
    call(
        Command::new(&program)
            .args(["record", "--device", &device.path, "--scheduler", "mq-deadline,none"])
            .args(["--repeat", &args.repeat.to_string(), "--output"])
            .arg(&args.output)
            .arg("--")
            .args(fio.split_whitespace()),
    )?;
    call(Command::new(&program).arg("analyze").arg(&args.output))
}

/// A loop device that detaches itself.
pub(crate) struct Loop {
    pub(crate) path: String,
}

impl Loop {
    /// Attaches a new sparse file of that size.
    pub(crate) fn attach(image: &Path, bytes: u64) -> anyhow::Result<Self> {
        let file = File::create(image).context("cannot create the disk image")?;
        file.set_len(bytes).context("cannot size the disk image")?;
        let output = Command::new("losetup")
            .args(["--direct-io=on", "--find", "--show"])
            .arg(image)
            .output()
            .context("cannot run losetup")?;
        if !output.status.success() {
            bail!("losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(Self { path: String::from_utf8(output.stdout)?.trim().to_owned() })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Nothing is left to do about a failure here; the kernel keeps the device until it is free.
        drop(Command::new("losetup").args(["--detach", &self.path]).status());
    }
}

/// Runs a program; anything but success is an error.
pub(crate) fn call(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}
