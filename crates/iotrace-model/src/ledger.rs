//! Everything that was read and not used, counted by cause and CPU.
//!
//! Invariant of every step: records read = records used + records counted here.

use std::collections::BTreeMap;

use crate::{Cpu, Nanos};

/// How much a cause weakens the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Expected and harmless.
    Info,
    /// Data are missing.
    Loss,
    /// The input is broken.
    Error,
}

impl Severity {
    /// The word in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Loss => "loss",
            Severity::Error => "error",
        }
    }
}

/// Why something was counted instead of used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The kernel dropped events because a ring was full (`PERF_RECORD_LOST`, sequence gaps).
    KernelLost,
    /// The kernel counted events for which it wrote neither a sample nor a loss.
    NotSampled,
    /// The capture's own buffer reached its limit.
    BufferFull,
    /// The file ends within a record.
    Truncated,
    /// A record is not what its header says.
    Malformed,
    /// A record of a kind that holds no block event.
    Foreign,
    /// A completion whose issue lies before the capture.
    CompleteWithoutIssue,
    /// An event of a request that is not open.
    Orphan,
    /// A completion that could belong to several requests.
    AmbiguousPairing,
    /// A request that was open at the end of the capture.
    Unfinished,
    /// An event earlier than its predecessor on the same CPU.
    TimeBackwards,
    /// Sequence numbers are missing from a text, which cannot tell why.
    TextGap,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 12] = [
        Cause::KernelLost,
        Cause::NotSampled,
        Cause::BufferFull,
        Cause::Truncated,
        Cause::Malformed,
        Cause::Foreign,
        Cause::CompleteWithoutIssue,
        Cause::Orphan,
        Cause::AmbiguousPairing,
        Cause::Unfinished,
        Cause::TimeBackwards,
        Cause::TextGap,
    ];

    /// The word in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::KernelLost => "kernel_lost",
            Cause::NotSampled => "not_sampled",
            Cause::BufferFull => "buffer_full",
            Cause::Truncated => "truncated",
            Cause::Malformed => "malformed",
            Cause::Foreign => "foreign",
            Cause::CompleteWithoutIssue => "complete_without_issue",
            Cause::Orphan => "orphan",
            Cause::AmbiguousPairing => "ambiguous_pairing",
            Cause::Unfinished => "unfinished",
            Cause::TimeBackwards => "time_backwards",
            Cause::TextGap => "text_gap",
        }
    }

    /// The cause with that word.
    pub fn from_name(name: &str) -> Option<Cause> {
        Cause::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// How much it weakens the numbers.
    pub const fn severity(self) -> Severity {
        match self {
            Cause::KernelLost | Cause::NotSampled | Cause::BufferFull => Severity::Loss,
            Cause::Truncated | Cause::Malformed | Cause::TimeBackwards => Severity::Error,
            Cause::Foreign
            | Cause::CompleteWithoutIssue
            | Cause::Orphan
            | Cause::AmbiguousPairing
            | Cause::Unfinished
            | Cause::TextGap => Severity::Info,
        }
    }

    /// One sentence for the user.
    pub const fn sentence(self) -> &'static str {
        match self {
            Cause::KernelLost => {
                "the kernel dropped events because a ring was full; enlarge it with --ring-size"
            }
            Cause::NotSampled => {
                "the kernel counted events but wrote no samples of them, as Linux 6.18 can do in \
                 softirq context; 0 in queue/rq_affinity of the device avoids most of it"
            }
            Cause::BufferFull => {
                "the capture buffer in memory was full; raise --memory-limit or write elsewhere"
            }
            Cause::Truncated => "the capture ends within a record; the last record is left out",
            Cause::Malformed => "records or lines that cannot be read are left out",
            Cause::Foreign => "records that hold no block event are passed over",
            Cause::CompleteWithoutIssue => "completions of requests issued before the capture",
            Cause::Orphan => "events of requests that are not open",
            Cause::AmbiguousPairing => "completions that could belong to several requests",
            Cause::Unfinished => "requests still open at the end of the capture",
            Cause::TimeBackwards => "events earlier than their predecessor on the same CPU",
            Cause::TextGap => {
                "sequence numbers jump: lines were left out of the text or events were lost, which \
                 text cannot tell"
            }
        }
    }
}

/// One cause on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// How many records, at least; a loss of unknown size adds nothing here.
    pub count: u64,
    /// How many stretches or occasions.
    pub occasions: u64,
    /// Time of the first, where known.
    pub first: Option<Nanos>,
    /// Time of the last, where known.
    pub last: Option<Nanos>,
}

/// Counts by cause and CPU; `None` where no CPU can be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: BTreeMap<(Cause, Option<Cpu>), Entry>,
}

impl Ledger {
    /// Counts `count` records in one occasion at `time`.
    pub fn add(&mut self, cause: Cause, cpu: Option<Cpu>, time: Option<Nanos>, count: u64) {
        self.add_entry(cause, cpu, Entry { count, occasions: 1, first: time, last: time });
    }

    /// Adds a whole entry, as read back from a document.
    pub fn add_entry(&mut self, cause: Cause, cpu: Option<Cpu>, other: Entry) {
        let entry = self.entries.entry((cause, cpu)).or_default();
        entry.count = entry.count.saturating_add(other.count);
        entry.occasions = entry.occasions.saturating_add(other.occasions);
        entry.first = entry.first.into_iter().chain(other.first).min();
        entry.last = entry.last.into_iter().chain(other.last).max();
    }

    /// Adds all of another ledger.
    pub fn merge(&mut self, other: &Ledger) {
        for (cause, cpu, entry) in other.entries() {
            self.add_entry(cause, cpu, entry);
        }
    }

    /// Every entry, ordered by cause and CPU.
    pub fn entries(&self) -> impl Iterator<Item = (Cause, Option<Cpu>, Entry)> {
        self.entries.iter().map(|(&(cause, cpu), &entry)| (cause, cpu, entry))
    }

    /// Records of one cause, over all CPUs.
    pub fn count(&self, cause: Cause) -> u64 {
        self.entries().filter(|(c, ..)| *c == cause).map(|(_, _, entry)| entry.count).sum()
    }

    /// Events known to be lost, over all CPUs.
    pub fn lost(&self) -> u64 {
        self.entries()
            .filter(|(cause, ..)| cause.severity() == Severity::Loss)
            .map(|(_, _, entry)| entry.count)
            .sum()
    }

    /// Whether anything here makes the data incomplete: a loss or broken input.
    pub fn is_incomplete(&self) -> bool {
        self.entries().any(|(cause, ..)| cause.severity() > Severity::Info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_counts_and_widens_the_window() {
        let mut ledger = Ledger::default();
        ledger.add(Cause::KernelLost, Some(Cpu(1)), Some(Nanos(50)), 3);
        let mut other = Ledger::default();
        other.add(Cause::KernelLost, Some(Cpu(1)), Some(Nanos(20)), 4);
        other.add(Cause::Unfinished, None, None, 2);
        ledger.merge(&other);
        let expected =
            Entry { count: 7, occasions: 2, first: Some(Nanos(20)), last: Some(Nanos(50)) };
        assert_eq!(ledger.entries().next(), Some((Cause::KernelLost, Some(Cpu(1)), expected)));
        assert_eq!((ledger.lost(), ledger.is_incomplete()), (7, true));
    }

    #[test]
    fn an_unfinished_request_is_no_loss() {
        let mut ledger = Ledger::default();
        ledger.add(Cause::Unfinished, None, None, 2);
        assert_eq!((ledger.lost(), ledger.is_incomplete()), (0, false));
    }
}
