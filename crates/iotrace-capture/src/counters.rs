//! The kernel's own counters around a run: disk statistics, CPU times, interrupts.

use std::collections::BTreeMap;
use std::fs;

use iotrace_model::Facts;

use crate::{Target, sys};

/// Fields of `/proc/diskstats` after the name (`Documentation/admin-guide/iostats.rst`).
const DISK: [&str; 17] = [
    "reads",
    "reads_merged",
    "read_sectors",
    "read_ms",
    "writes",
    "writes_merged",
    "written_sectors",
    "write_ms",
    "in_flight",
    "busy_ms",
    "weighted_busy_ms",
    "discards",
    "discards_merged",
    "discarded_sectors",
    "discard_ms",
    "flushes",
    "flush_ms",
];

/// Fields of the `cpu` line of `/proc/stat`, in clock ticks.
const CPU: [&str; 8] =
    ["user_ms", "nice_ms", "system_ms", "idle_ms", "iowait_ms", "irq_ms", "softirq_ms", "steal_ms"];

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    disks: BTreeMap<String, Vec<i64>>,
    cpu: Vec<i64>,
    context_switches: i64,
    interrupts: BTreeMap<String, i64>,
    softirqs: BTreeMap<String, i64>,
}

impl Counters {
    /// Reads them; a file that is not there counts nothing.
    pub fn read(targets: &[Target]) -> Self {
        let stat = read("/proc/stat");
        let line = |name: &str| {
            let mut lines = stat.lines().map(str::split_whitespace);
            lines.find_map(|mut words| (words.next() == Some(name)).then(|| numbers(words)))
        };
        let diskstats = read("/proc/diskstats");
        let disks = diskstats.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip(2);
            let name = words.next()?;
            targets
                .iter()
                .any(|target| target.name == name)
                .then(|| (name.to_owned(), numbers(words)))
        });
        Self {
            disks: disks.collect(),
            cpu: line("cpu").unwrap_or_default(),
            context_switches: line("ctxt").and_then(|words| words.first().copied()).unwrap_or(0),
            interrupts: per_cpu(&read("/proc/interrupts")),
            softirqs: per_cpu(&read("/proc/softirqs")),
        }
    }

    /// How far they moved since `before`; what did not move is left out of the interrupts.
    pub fn since(&self, before: &Counters) -> Facts {
        let mut facts = Facts::default();
        for (name, now) in &self.disks {
            let then = before.disks.get(name);
            let mut disk = Facts::default();
            for ((place, value), label) in now.iter().enumerate().zip(DISK) {
                let start = then.and_then(|then| then.get(place)).copied().unwrap_or(0);
                // The number in flight is a level, the others only grow.
                disk.set(label, Some(if label == "in_flight" { *value } else { value - start }));
            }
            facts.set(&format!("diskstats_{name}"), Some(disk));
        }
        let milliseconds = 1000 / sys::clock_ticks().max(1);
        let mut cpu = Facts::default();
        for ((now, then), label) in self.cpu.iter().zip(&before.cpu).zip(CPU) {
            cpu.set(label, Some((now - then) * milliseconds));
        }
        facts.set("cpu", Some(cpu));
        facts.set("context_switches", Some(self.context_switches - before.context_switches));
        facts.set("interrupts", Some(moved(&self.interrupts, &before.interrupts)));
        facts.set("softirqs", Some(moved(&self.softirqs, &before.softirqs)));
        facts
    }
}

fn moved(now: &BTreeMap<String, i64>, then: &BTreeMap<String, i64>) -> Facts {
    let mut facts = Facts::default();
    for (name, value) in now {
        let difference = value - then.get(name).copied().unwrap_or(0);
        facts.set(name, (difference != 0).then_some(difference));
    }
    facts
}

/// `NAME: n n n description` summed over the CPUs, by name and description.
fn per_cpu(text: &str) -> BTreeMap<String, i64> {
    let cpus = text.lines().next().map_or(0, |line| line.split_whitespace().count());
    let rows = text.lines().skip(1).filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let words = || rest.split_whitespace();
        let counts = words().take(cpus).map_while(|word| word.parse::<i64>().ok());
        let (columns, sum) =
            counts.fold((0, 0_i64), |(columns, sum), count| (columns + 1, sum + count));
        let description: Vec<_> = words().skip(columns).collect();
        let label = [&[name.trim()], description.as_slice()].concat().join(" ");
        Some((label, sum))
    });
    rows.collect()
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<i64> {
    words.map_while(|word| word.parse().ok()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_summed_over_cpus() {
        let text = "      CPU0 CPU1\n  9:  5 7 IO-APIC 9-fasteoi acpi\nERR: 3\n";
        let rows = per_cpu(text);
        assert_eq!(rows.get("9 IO-APIC 9-fasteoi acpi"), Some(&12));
        assert_eq!(rows.get("ERR"), Some(&3));
    }
}
