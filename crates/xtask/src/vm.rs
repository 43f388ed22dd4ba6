//! `cargo xtask vm`: a real NCQ drive under a real kernel, blktrace recording beside us.
//!
//! Boots Debian's kernel under emulation with an AHCI disk, records fio there with NCQ on and off,
//! and holds what iotrace wrote against what blktrace wrote. Speeds mean nothing under emulation;
//! counts, orders and protocols do. A machine without the tools skips, and says what to install.

mod check;
mod image;
mod qemu;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Programs without which nothing can be tried, and the Debian packages that hold them.
const TOOLS: [(&str, &str); 14] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("fio", "fio"),
    ("blktrace", "blktrace"),
    ("blkparse", "blktrace"),
    ("btt", "blktrace"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("modprobe", "kmod"),
    ("apt-get", "apt"),
    ("dpkg", "dpkg"),
    ("gzip", "gzip"),
    ("tar", "tar"),
    ("ldd", "libc-bin"),
];
/// Where programs for root may lie that the PATH of a user does not name.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Arguments of `cargo xtask vm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder for the results [default: vm/out in the target folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seconds after which the virtual machine is killed
    #[arg(long, value_name = "S", default_value_t = 900)]
    qemu_timeout: u64,
    /// Keep the disk images and the root file system
    #[arg(long)]
    keep: bool,
    /// Unpack the kernel and pack the root file system anew
    #[arg(long)]
    fresh: bool,
    /// The iotrace to try [default: built here]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Whether every bar was met, or nothing could be tried.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    if let Some((program, package)) = TOOLS.iter().find(|(program, _)| !is_installed(program)) {
        println!("skipped: {program} is missing (apt install {package})");
        return Ok(true);
    }
    let home = target_folder()?.join("vm");
    let cache = home.join("cache");
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    if args.fresh {
        forget(&cache)?;
    }
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build_program()?,
    };
    let out = args.out.clone().unwrap_or_else(|| home.join("out"));
    clear(&out)?;
    let begun = Instant::now();
    let kernel = image::Kernel::fetch(&cache)?;
    let work = tempfile::tempdir_in(&home).context("cannot make a folder for the disks")?;
    let initramfs = image::initramfs(&cache, work.path(), &kernel, &program)?;
    let size = fs::metadata(&initramfs).context("cannot read the root file system")?.len() >> 20;
    eprintln!("packed {size} MiB in {:.0} s, booting", begun.elapsed().as_secs_f64());
    let machine = qemu::Machine {
        folder: work.path(),
        kernel: kernel.image(),
        initramfs: &initramfs,
        limit: Duration::from_secs(args.qemu_timeout),
    };
    let booted = machine.run(&out);
    if args.keep {
        eprintln!("kept: {}", work.keep().display());
    }
    booted?;
    let bars = check::check(&out, &program)
        .with_context(|| format!("the results in {} cannot be checked", out.display()))?;
    for bar in &bars {
        println!("{bar}");
    }
    let met = bars.iter().filter(|bar| bar.is_met()).count();
    println!("{met} of {} bars met; results: {}", bars.len(), out.display());
    Ok(met == bars.len())
}

/// Builds the program in the release profile, and returns its path.
pub(crate) fn build_program() -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    succeed(
        Command::new(cargo)
            // The whole workspace: with fewer packages cargo would build the heavy crates again,
            // with other features.
            .args(["build", "--release", "--quiet", "--workspace", "--bins"])
            .current_dir(crate::root()),
    )?;
    Ok(target_folder()?.join("release").join("iotrace"))
}

/// Whether a program can be run by its name, or lies where root's programs do.
pub(crate) fn is_installed(program: &str) -> bool {
    find_program(program).is_ok()
}

/// The file of a program.
fn find_program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("{name} is not installed"))
}

/// The folder that cargo builds into; relative paths are relative to the workspace.
fn target_folder() -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = crate::root().join(folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))
}

/// Removes from the cache what was made of the packages; the packages stay.
fn forget(cache: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(cache).context("cannot list the cache")? {
        let path = entry.context("cannot list the cache")?.path();
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else if path.extension() == Some(OsStr::new("deb")) {
            Ok(())
        } else {
            fs::remove_file(&path)
        };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Makes an empty folder for the results; removes an earlier one only if it is one of ours.
fn clear(out: &Path) -> anyhow::Result<()> {
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        if !out.join("console.log").is_file() {
            bail!("{} holds something else than earlier results", out.display());
        }
        fs::remove_dir_all(out).with_context(|| format!("cannot clear {}", out.display()))?;
    }
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))
}

/// Runs a command whose output is not needed; an exit code other than 0 is an error.
fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// What a command prints; an exit code other than 0 is an error that tells what it complained of.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, complaint.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no UTF-8"))
}
