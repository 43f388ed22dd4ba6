//! The open bios of a device, by start sector.
//!
//! A bio is found by its exact start, or with every other one that lies inside a range. A new
//! one replaces the one with the same start; only a completion that covers one removes it.

use std::collections::BTreeMap;

use iotrace_model::Nanos;

/// How much is kept and looked at, so that no trace can exhaust memory or time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Open bios on all devices together.
    pub(super) open: usize,
    /// Open bios that one issue or completion looks at; a request of so many pages would be
    /// 64 MiB.
    pub(super) covered: usize,
    /// Devices.
    pub(super) devices: usize,
}

impl Limits {
    /// Far above what a disk or a machine has.
    pub(super) const DEFAULT: Limits = Limits { open: 1 << 19, covered: 1 << 14, devices: 1 << 12 };
}

/// What is known of an open bio. A time is the last of its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bio {
    /// The sector after its last.
    pub(super) end: u64,
    pub(super) queued: Nanos,
    pub(super) slept: Option<Nanos>,
    pub(super) got: Option<Nanos>,
    pub(super) inserted: Option<Nanos>,
    pub(super) merged: Option<Nanos>,
    pub(super) issued: Option<Nanos>,
}

/// The open bios of one device.
#[derive(Debug, Default)]
pub(super) struct Table {
    bios: BTreeMap<u64, Bio>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.bios.len()
    }

    /// Opens a bio; whether it replaced one with the same start.
    pub(super) fn open(&mut self, start: u64, end: u64, queued: Nanos) -> bool {
        let bio =
            Bio { end, queued, slept: None, got: None, inserted: None, merged: None, issued: None };
        self.bios.insert(start, bio).is_some()
    }

    /// The bio that starts at a sector.
    pub(super) fn at(&mut self, start: u64) -> Option<&mut Bio> {
        self.bios.get_mut(&start)
    }

    /// Calls `visit` for every bio inside `[from, to)`; false when only for the first of too
    /// many.
    pub(super) fn inside(
        &mut self,
        from: u64,
        to: u64,
        limit: usize,
        mut visit: impl FnMut(&mut Bio),
    ) -> bool {
        for (seen, (_, bio)) in self.bios.range_mut(from..to.max(from)).enumerate() {
            if seen == limit {
                return false;
            }
            if bio.end <= to {
                visit(bio);
            }
        }
        true
    }

    /// The same, and removes them.
    pub(super) fn take_inside(
        &mut self,
        from: u64,
        to: u64,
        limit: usize,
        mut visit: impl FnMut(Bio),
    ) -> bool {
        let mut seen = 0;
        let mut from = from;
        while let Some((&start, &bio)) = self.bios.range(from..to.max(from)).next() {
            if seen == limit {
                return false;
            }
            seen += 1;
            if bio.end <= to {
                self.bios.remove(&start);
                visit(bio);
            }
            from = start.saturating_add(1);
        }
        true
    }

    pub(super) fn queue_times(&self) -> impl Iterator<Item = Nanos> {
        self.bios.values().map(|bio| bio.queued)
    }

    /// Removes every bio queued at `time` or before; how many.
    pub(super) fn forget_until(&mut self, time: Nanos) -> usize {
        let before = self.bios.len();
        self.bios.retain(|_, bio| bio.queued > time);
        before - self.bios.len()
    }
}

/// A length as a count.
pub(super) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bios 10..20, 20..30 and 25..45.
    fn table() -> Table {
        let mut table = Table::default();
        for (start, end) in [(10, 20), (20, 30), (25, 45)] {
            assert!(!table.open(start, end, Nanos(table_time(start))));
        }
        table
    }

    fn table_time(start: u64) -> i64 {
        i64::try_from(start).unwrap()
    }

    #[test]
    fn only_bios_wholly_inside_are_covered() {
        check(0, 100, &[20, 30, 45]);
        check(10, 30, &[20, 30]);
        check(10, 40, &[20, 30]);
        check(11, 30, &[30]);
        check(10, 19, &[]);
        check(30, 10, &[]);
    }

    #[track_caller]
    fn check(from: u64, to: u64, expected: &[u64]) {
        let mut table = table();
        let mut seen = Vec::new();
        assert!(table.inside(from, to, 9, |bio| seen.push(bio.end)));
        assert_eq!(seen, expected);
        seen.clear();
        assert!(table.take_inside(from, to, 9, |bio| seen.push(bio.end)));
        assert_eq!(seen, expected);
        assert_eq!(table.len(), 3 - expected.len());
    }

    #[test]
    fn the_same_start_replaces_and_the_end_of_sectors_is_reached() {
        let mut table = table();
        assert!(table.open(20, 28, Nanos(50)));
        assert_eq!(table.at(20).unwrap().end, 28);
        assert!(!table.open(u64::MAX - 1, u64::MAX, Nanos(1)));
        let mut seen = 0;
        assert!(table.take_inside(u64::MAX - 1, u64::MAX, 9, |_| seen += 1));
        assert_eq!(seen, 1);
    }

    #[test]
    fn no_event_looks_at_more_than_the_limit() {
        let mut table = table();
        let mut seen = 0;
        assert!(!table.inside(0, 100, 2, |_| seen += 1));
        assert!(!table.take_inside(0, 100, 2, |_| seen += 1));
        assert_eq!((seen, table.len()), (4, 1));
    }

    #[test]
    fn old_bios_are_forgotten() {
        let mut table = table();
        assert_eq!(table.forget_until(Nanos(20)), 2);
        assert_eq!(table.queue_times().collect::<Vec<_>>(), [Nanos(25)]);
    }
}
