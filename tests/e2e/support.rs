//! A loop device that removes itself, the program, and the rows of a dataset.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use iotrace_model::{Op, Request, Status};

/// Whether the real kernel may be used; says why not.
pub(crate) fn privileged() -> bool {
    let yes = std::env::var_os("IOTRACE_PRIVILEGED").is_some();
    if !yes {
        eprintln!("skipped: needs root, tracefs and loop devices (set IOTRACE_PRIVILEGED=1)");
    }
    yes
}

/// Whether a program is installed; says why the test is skipped.
pub(crate) fn has(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()));
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// The program under test.
pub(crate) fn iotrace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

/// Runs a command and returns its output; a failure to start it is the test's failure.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Exit code and everything said, for assertions with a readable message.
#[track_caller]
pub(crate) fn check_exit(output: &Output, code: i32) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "stderr: {stderr}");
}

/// Runs `record` until the kernel has sampled every event that it counted, at most five times.
///
/// Some kernels (6.18) drop samples in the softirq context of a task; iotrace tells that as
/// `not_sampled`, and what is left cannot be compared with a peer's count. Anything else that
/// goes wrong is the test's failure.
#[track_caller]
pub(crate) fn record_whole(
    arguments: &[&str],
    command: &[String],
) -> Option<(tempfile::TempDir, PathBuf)> {
    for _ in 0..5 {
        let (folder, dataset) = fresh();
        let output = run(iotrace()
            .args(["record", "--quiet", "-o"])
            .arg(&dataset)
            .args(arguments)
            .arg("--")
            .args(command));
        if output.status.success() {
            return Some((folder, dataset));
        }
        check_exit(&output, 3);
        let document = std::fs::read(dataset.join("runs/rep=0/run.json")).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
        for entry in document["ledger"].as_array().unwrap() {
            assert!(
                entry["severity"] == "info" || entry["cause"] == "not_sampled",
                "{entry} in a ring of the default size"
            );
        }
    }
    eprintln!("skipped: this kernel counts events without sampling them, five times of five");
    None
}

/// A loop device over a sparse file of its own.
pub(crate) struct Loop {
    pub(crate) path: String,
    _folder: tempfile::TempDir,
}

impl Loop {
    #[track_caller]
    pub(crate) fn new(scheduler: &str) -> Self {
        // In memory where possible, so that the machine's own disk does not take part.
        let shared = Path::new("/dev/shm");
        let home = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::tempdir_in(home).unwrap();
        let image = folder.path().join("disk.img");
        File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let output =
            run(Command::new("losetup").args(["--direct-io=on", "--find", "--show"]).arg(&image));
        check_exit(&output, 0);
        let path = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let name = path.trim_start_matches("/dev/");
        std::fs::write(format!("/sys/block/{name}/queue/scheduler"), scheduler).unwrap();
        // Completions stay on the CPU of the loop thread instead of waking an idle one, where
        // Linux 6.18 can count an event without sampling it.
        std::fs::write(format!("/sys/block/{name}/queue/rq_affinity"), "0").unwrap();
        Self { path, _folder: folder }
    }

    /// A fio job of mixed 4 KiB reads and writes at depth 32 on this device.
    pub(crate) fn fio(&self, seconds: u32) -> Vec<String> {
        let words = format!(
            "fio --name=job --filename={} --direct=1 --rw=randrw --bs=4k --ioengine=libaio \
             --iodepth=32 --size=256m --runtime={seconds} --time_based --randseed=7 \
             --output-format=json",
            self.path
        );
        words.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Nothing useful can be done about a failure while a test ends.
        drop(Command::new("losetup").args(["--detach", &self.path]).output());
    }
}

/// Every row of the tables of one run.
#[track_caller]
pub(crate) fn requests(run: &Path) -> Vec<Request> {
    iotrace_dataset::read_requests(&run.join("requests.parquet"))
        .unwrap()
        .flat_map(Result::unwrap)
        .collect()
}

/// Complete rows of one operation.
pub(crate) fn complete(requests: &[Request], op: Op) -> usize {
    requests.iter().filter(|r| r.op == op && r.status == Status::Complete).count()
}

/// fio's own total of I/Os of a direction (`read` or `write`) in its JSON output.
#[track_caller]
pub(crate) fn fio_total(stdout: &Path, direction: &str) -> usize {
    let text = std::fs::read_to_string(stdout).unwrap();
    let json = &text[text.find('{').unwrap()..];
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let total = value["jobs"][0][direction]["total_ios"].as_u64().unwrap();
    usize::try_from(total).unwrap()
}

/// A dataset path that does not exist yet, in a folder that removes itself.
pub(crate) fn fresh() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.iotrace");
    (folder, path)
}
