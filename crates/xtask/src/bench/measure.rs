//! What a command costs: wall time, CPU time of it and its children, peak memory.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// What was spent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) wall: f64,
    pub(super) cpu: f64,
    /// Largest resident memory of any one process, MiB.
    pub(super) memory: f64,
}

impl Cost {
    /// One after the other.
    pub(super) fn then(self, other: Cost) -> Cost {
        Cost {
            wall: self.wall + other.wall,
            cpu: self.cpu + other.cpu,
            memory: self.memory.max(other.memory),
        }
    }
}

/// Runs a line of shell and measures it. Exit codes of `ok` are no failure.
pub(super) fn measure(script: &str, ok: &[i32]) -> anyhow::Result<Cost> {
    let report = tempfile::NamedTempFile::new()?;
    let mut command = Command::new("/usr/bin/time");
    command.args(["-f", "%U %S %M", "-o"]).arg(report.path());
    command.args(["bash", "-c", &format!("exec {script}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output().context("cannot run /usr/bin/time (apt-get install time)")?;
    let wall = start.elapsed().as_secs_f64();
    if !output.status.code().is_some_and(|code| code == 0 || ok.contains(&code)) {
        bail!("{script} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(report.path())?;
    let line = text.lines().last().unwrap_or_default();
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [user, system, kib] = numbers[..] else { bail!("/usr/bin/time printed {text:?}") };
    Ok(Cost { wall, cpu: user + system, memory: kib / 1024.0 })
}
