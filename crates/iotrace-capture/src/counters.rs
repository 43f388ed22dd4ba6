//! The kernel's own counters around a run: disk statistics, CPU times, interrupts.

use std::collections::BTreeMap;
use std::fs;

use iotrace_model::{DeviceId, Facts};

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
    /// By kernel name; the disks that were asked for, and their partitions that were.
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
        Self {
            disks: disks(&read("/proc/diskstats"), targets),
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
            let then = before.disks.get(name).map_or(&[][..], Vec::as_slice);
            facts.set(&format!("diskstats_{name}"), Some(disk_since(now, then)));
        }
        let ticks = sys::clock_ticks().max(1);
        let mut cpu = Facts::default();
        for ((now, then), label) in self.cpu.iter().zip(&before.cpu).zip(CPU) {
            cpu.set(label, Some((now - then).saturating_mul(1000) / ticks));
        }
        facts.set("cpu", Some(cpu));
        facts.set("context_switches", Some(self.context_switches - before.context_switches));
        facts.set("interrupts", Some(moved(&self.interrupts, &before.interrupts)));
        facts.set("softirqs", Some(moved(&self.softirqs, &before.softirqs)));
        facts
    }
}

/// The lines of `/proc/diskstats` that are about a target. Its disk is told by the number: a name
/// may be written in another way there than in sysfs.
fn disks(diskstats: &str, targets: &[Target]) -> BTreeMap<String, Vec<i64>> {
    let lines = diskstats.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let device = DeviceId::parse(&format!("{}:{}", words.next()?, words.next()?))?;
        let name = words.next()?;
        let is_meant =
            |target: &Target| target.device == device || target.partition.as_deref() == Some(name);
        targets.iter().any(is_meant).then(|| (name.to_owned(), numbers(words)))
    });
    lines.collect()
}

/// How far the fields of one disk moved.
fn disk_since(now: &[i64], then: &[i64]) -> Facts {
    let mut disk = Facts::default();
    for ((place, value), label) in now.iter().enumerate().zip(DISK) {
        let difference = value - then.get(place).copied().unwrap_or(0);
        let moved = match label {
            // A level; the others only grow.
            "in_flight" => *value,
            // The kernel keeps the low 32 bits of these: they start anew after 49 days of I/O.
            label if label.ends_with("_ms") => difference.rem_euclid(1 << 32),
            _ => difference,
        };
        disk.set(label, Some(moved));
    }
    disk
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
    use iotrace_model::Fact;

    use super::*;

    const DISKSTATS: &str = "\
   8       0 sda 100 1 800 40 50 2 400 30 3 60 70 0 0 0 0 5 6
   8       1 sda1 10 0 80 4 5 0 40 3 0 6 7 0 0 0 0 0 0
   8      16 sdb 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9
";

    #[test]
    fn disks_and_partitions_are_found_by_what_was_asked_for() {
        let device = DeviceId { major: 8, minor: 0 };
        let disk = Target { device, name: "sda".to_owned(), ..Target::default() };
        check_disks(std::slice::from_ref(&disk), &["sda"]);
        check_disks(&[Target { partition: Some("sda1".to_owned()), ..disk }], &["sda", "sda1"]);
        check_disks(&[], &[]);
    }

    #[track_caller]
    fn check_disks(targets: &[Target], expected: &[&str]) {
        assert_eq!(disks(DISKSTATS, targets).keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn counters_that_start_anew_are_followed_and_levels_are_kept() {
        let before = [7, 0, 0, (1 << 32) - 10, 0, 0, 0, 0, 5];
        let now = [9, 0, 0, 15, 0, 0, 0, 0, 2];
        let facts = disk_since(&now, &before);
        assert_eq!(facts.get("reads"), Some(&Fact::Number(2)));
        assert_eq!(facts.get("read_ms"), Some(&Fact::Number(25)));
        assert_eq!(facts.get("in_flight"), Some(&Fact::Number(2)));
        assert_eq!(facts.get("busy_ms"), None);
    }

    #[test]
    fn only_interrupts_that_came_are_told() {
        let count = |count| BTreeMap::from([("9 acpi".to_owned(), count), ("ERR".to_owned(), 3)]);
        let before = Counters { interrupts: count(12), cpu: vec![100, 0], ..Counters::default() };
        let after = Counters { interrupts: count(14), cpu: vec![150, 0], ..Counters::default() };
        let facts = after.since(&before);
        let expected = Facts(vec![("9 acpi".to_owned(), Fact::Number(2))]);
        assert_eq!(facts.get("interrupts"), Some(&Fact::Table(expected)));
        let Some(Fact::Table(cpu)) = facts.get("cpu") else { unreachable!("a table is set") };
        let milliseconds = 50 * 1000 / sys::clock_ticks();
        assert_eq!(cpu.get("user_ms"), Some(&Fact::Number(milliseconds)));
    }

    #[test]
    fn interrupts_are_summed_over_cpus() {
        let text = "      CPU0 CPU1\n  9:  5 7 IO-APIC 9-fasteoi acpi\nERR: 3\n";
        let rows = per_cpu(text);
        assert_eq!(rows.get("9 IO-APIC 9-fasteoi acpi"), Some(&12));
        assert_eq!(rows.get("ERR"), Some(&3));
    }
}
