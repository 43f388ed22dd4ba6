//! What the virtual machine boots: Debian's kernel, and an initial root file system.
//!
//! The root is two archives one after the other, as the kernel allows. The base (busybox, fio,
//! blktrace, their libraries, kernel modules) is kept in the cache and made anew only when one of
//! its inputs changed; the overlay (iotrace and the scripts) is made every time.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use anyhow::{Context, bail};

use super::{find_program, output_of, succeed};

/// Drivers that the machine needs, without their dependencies.
const MODULES: [&str; 5] = ["virtio_pci", "virtio_blk", "sd_mod", "ahci", "loop"];
/// Programs of the base, besides busybox.
const PROGRAMS: [&str; 4] = ["fio", "blktrace", "blkparse", "btt"];

/// An unpacked kernel package.
pub(super) struct Kernel {
    image: PathBuf,
    folder: PathBuf,
    release: String,
}

impl Kernel {
    /// The file that boots.
    pub(super) fn image(&self) -> &Path {
        &self.image
    }

    /// Downloads and unpacks the package that `linux-image-amd64` stands for, unless the cache
    /// has it.
    pub(super) fn fetch(cache: &Path) -> anyhow::Result<Self> {
        let package = package_name()?;
        let file = match cached_package(cache, &package)? {
            Some(file) => file,
            None => download(cache, &package)?,
        };
        let folder = file.with_extension("");
        let mark = folder.join("unpacked");
        if !mark.exists() {
            eprintln!("unpacking {}", file.display());
            succeed(Command::new("dpkg").arg("-x").arg(&file).arg(&folder))?;
            let release = release(&folder)?;
            succeed(Command::new(find_program("depmod")?).arg("-b").arg(&folder).arg(&release))?;
            fs::write(&mark, &release).context("cannot mark the kernel as unpacked")?;
        }
        let release = release(&folder)?;
        let image = folder.join("boot").join(format!("vmlinuz-{release}"));
        Ok(Self { image, folder, release })
    }

    /// The files of the modules with all that they depend on, in the order of loading.
    fn modules(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files: Vec<PathBuf> = Vec::new();
        for module in MODULES {
            let text = output_of(
                Command::new(find_program("modprobe")?)
                    .args(["--show-depends", "-d"])
                    .arg(&self.folder)
                    .args(["-S", &self.release, module]),
            )?;
            for file in module_files(&text) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }
}

/// Writes the root file system of a machine with this kernel and program; returns its path.
pub(super) fn initramfs(
    cache: &Path,
    folder: &Path,
    kernel: &Kernel,
    program: &Path,
) -> anyhow::Result<PathBuf> {
    let base = base(cache, kernel)?;
    let root = tempfile::tempdir_in(folder).context("cannot make a folder for the root")?;
    add_program(root.path(), "iotrace", program)?;
    write_script(&root.path().join("init"), include_str!("init.sh"))?;
    write_script(&root.path().join("bin/traced-job"), include_str!("traced-job.sh"))?;
    let overlay = folder.join("overlay.cpio.gz");
    archive(root.path(), &overlay)?;
    let whole = folder.join("initramfs.cpio.gz");
    let mut file = File::create(&whole).context("cannot create the root file system")?;
    for part in [&base, &overlay] {
        let mut part = File::open(part).context("cannot read a part of the root file system")?;
        std::io::copy(&mut part, &mut file).context("cannot write the root file system")?;
    }
    Ok(whole)
}

fn package_name() -> anyhow::Result<String> {
    let text = output_of(Command::new("apt-cache").args(["depends", "linux-image-amd64"]))?;
    depended_kernel(&text)
        .map(str::to_owned)
        .context("apt knows no linux-image-amd64; `apt-get update` may help")
}

fn depended_kernel(text: &str) -> Option<&str> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
}

fn cached_package(cache: &Path, package: &str) -> anyhow::Result<Option<PathBuf>> {
    let prefix = format!("{package}_");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(cache).context("cannot list the cache")? {
        let path = entry.context("cannot list the cache")?.path();
        let is_ours = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(&prefix));
        if is_ours && path.extension().is_some_and(|extension| extension == "deb") {
            found.insert(path);
        }
    }
    Ok(found.pop_last())
}

fn download(cache: &Path, package: &str) -> anyhow::Result<PathBuf> {
    eprintln!("downloading {package}");
    succeed(
        Command::new("apt-get")
            .args(["download", "-q", package])
            .current_dir(cache)
            .stdout(Stdio::null()),
    )?;
    cached_package(cache, package)?
        .with_context(|| format!("apt-get download left no {package} in {}", cache.display()))
}

/// The version in the name of the kernel image. Newer packages hold their modules under `usr`.
fn release(folder: &Path) -> anyhow::Result<String> {
    if !folder.join("lib").exists() && folder.join("usr/lib/modules").exists() {
        symlink("usr/lib", folder.join("lib")).context("cannot link lib to usr/lib")?;
    }
    for entry in fs::read_dir(folder.join("boot")).context("the package has no boot folder")? {
        let name = entry.context("cannot list the boot folder")?.file_name();
        if let Some(release) = name.to_str().and_then(|name| name.strip_prefix("vmlinuz-")) {
            return Ok(release.to_owned());
        }
    }
    bail!("{} holds no boot/vmlinuz-*", folder.display())
}

/// The paths in the output of `modprobe --show-depends`: lines `insmod PATH [option]…`.
fn module_files(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| line.strip_prefix("insmod ")?.split_whitespace().next())
        .map(PathBuf::from)
        .collect()
}

/// The base archive, from the cache when nothing that goes into it changed.
fn base(cache: &Path, kernel: &Kernel) -> anyhow::Result<PathBuf> {
    let busybox = find_program("busybox")?;
    if !libraries(&busybox)?.is_empty() {
        bail!("{} is not static: apt-get install busybox-static", busybox.display());
    }
    let mut programs = vec![("busybox", busybox)];
    for name in PROGRAMS {
        programs.push((name, find_program(name)?));
    }
    let modules = kernel.modules()?;
    let key = base_key(&programs, &modules)?;
    let (file, key_file) = (cache.join("base.cpio.gz"), cache.join("base.key"));
    if file.exists() && fs::read_to_string(&key_file).is_ok_and(|old| old == key) {
        return Ok(file);
    }
    eprintln!("packing the base of the root file system");
    let root = tempfile::tempdir_in(cache).context("cannot make a folder for the base")?;
    for (name, path) in &programs {
        add_program(root.path(), name, path)?;
    }
    symlink("busybox", root.path().join("bin/sh")).context("cannot link bin/sh")?;
    add_modules(&root.path().join("modules"), &modules)?;
    archive(root.path(), &file)?;
    fs::write(&key_file, key).context("cannot write the key of the base")?;
    Ok(file)
}

/// Path, size and time of every input, one line each.
fn base_key(programs: &[(&str, PathBuf)], modules: &[PathBuf]) -> anyhow::Result<String> {
    let mut inputs: BTreeSet<PathBuf> = modules.iter().cloned().collect();
    for (_, path) in programs {
        inputs.extend(libraries(path)?);
        inputs.insert(path.clone());
    }
    let mut lines = Vec::new();
    for path in inputs {
        let about =
            fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let modified = about.modified().context("no times of files here")?;
        let age = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        lines.push(format!("{} {} {}", path.display(), about.len(), age.as_nanos()));
    }
    Ok(lines.join("\n"))
}

/// Adds a program as `bin/NAME`, and its libraries where the loader looks for them.
fn add_program(root: &Path, name: &str, path: &Path) -> anyhow::Result<()> {
    copy(path, &root.join("bin").join(name))?;
    for library in libraries(path)? {
        let relative = library.strip_prefix("/").unwrap_or(&library);
        let target = root.join(relative);
        if !target.exists() {
            copy(&library, &target)?;
        }
    }
    Ok(())
}

/// The files that `ldd` names; none for a static program or a script.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        bail!("{}: {}", program.display(), line.trim());
    }
    Ok(library_files(&text))
}

/// The paths in the output of `ldd`: `name => PATH (address)` or, for the loader, `PATH (address)`.
fn library_files(text: &str) -> Vec<PathBuf> {
    text.lines()
        .filter(|line| line.contains(" (0x"))
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

/// Puts the modules into one folder with a `list` of their names in the order of loading.
fn add_modules(folder: &Path, modules: &[PathBuf]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).context("cannot make the folder of the modules")?;
    let mut list = String::new();
    for module in modules {
        let name = module
            .file_name()
            .and_then(|name| name.to_str())
            .with_context(|| format!("strange name of a module: {}", module.display()))?;
        let plain = name.strip_suffix(".xz").unwrap_or(name);
        if plain == name {
            copy(module, &folder.join(plain))?;
        } else {
            let target = File::create(folder.join(plain)).context("cannot write a module")?;
            succeed(Command::new("xz").arg("-dc").arg(module).stdout(target))?;
        }
        list.push_str(plain);
        list.push('\n');
    }
    fs::write(folder.join("list"), list).context("cannot write the list of modules")
}

/// Packs a folder: `cpio` in the kernel's format, then `gzip -1`.
fn archive(root: &Path, file: &Path) -> anyhow::Result<()> {
    let mut names = Vec::new();
    list_files(root, Path::new(""), &mut names)?;
    let plain = file.with_extension("");
    let mut cpio = Command::new("cpio")
        .args(["-o", "-H", "newc", "-R", "0:0", "--quiet", "-O"])
        .arg(&plain)
        .current_dir(root)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run cpio")?;
    let mut input = cpio.stdin.take().context("cpio has no input")?;
    input.write_all(names.join("\n").as_bytes()).context("cannot talk to cpio")?;
    drop(input);
    let status = cpio.wait().context("cannot wait for cpio")?;
    if !status.success() {
        bail!("cpio ended with {status}");
    }
    succeed(Command::new("gzip").args(["-1", "-n", "-f"]).arg(&plain))
}

/// Every file and folder below `root`, folders before what they hold, sorted.
fn list_files(root: &Path, relative: &Path, names: &mut Vec<String>) -> anyhow::Result<()> {
    let folder = root.join(relative);
    let mut entries = fs::read_dir(&folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot list {}", folder.display()))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = relative.join(entry.file_name());
        names.push(path.to_str().context("a name is not UTF-8")?.to_owned());
        if entry.file_type().context("cannot tell the kind of a file")?.is_dir() {
            list_files(root, &path, names)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let folder = to.parent().context("no folder to copy to")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

fn write_script(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_is_what_the_metapackage_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n";
        assert_eq!(depended_kernel(text), Some("linux-image-6.1.0-57-amd64"));
        assert_eq!(depended_kernel("linux-image-amd64\n"), None);
    }

    #[test]
    fn modules_are_the_insmod_lines() {
        let text = "builtin scsi_common\ninsmod /k/scsi_mod.ko scan=async\ninsmod /k/libata.ko \n";
        assert_eq!(module_files(text), ["/k/scsi_mod.ko", "/k/libata.ko"].map(PathBuf::from));
    }

    #[test]
    fn libraries_are_the_resolved_paths_and_the_loader() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibm.so.6 => /lib/libm.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(library_files(text), expected);
        assert_eq!(library_files("\tnot a dynamic executable\n"), <[PathBuf; 0]>::default());
        assert_eq!(library_files("\tstatically linked\n"), <[PathBuf; 0]>::default());
    }
}
