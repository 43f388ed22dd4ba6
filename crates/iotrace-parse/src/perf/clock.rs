//! The clock of a perf file: which one it is, and how it relates to the run and to the wall clock.
//!
//! Attributes name the clock (`use_clockid`, `clockid`); without a name it is perf's own, the
//! scheduler's. The feature `HEADER_CLOCK_DATA` of perf since 5.9 holds one moment on both clocks.

use iotrace_model::Nanos;

use crate::bytes::u64_at;

/// `CLOCK_REALTIME`, which is the wall clock.
const REALTIME: u32 = 0;

/// What the file says of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClockFacts {
    /// Its number; `None` for perf's own.
    pub(super) id: Option<u32>,
    /// One moment on both clocks.
    pub(super) pair: Option<Pair>,
}

/// One moment on the wall clock, since the epoch, and on the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    wall: Nanos,
    file: Nanos,
}

impl Pair {
    /// Reads `HEADER_CLOCK_DATA`: version, clock, wall clock, file's clock; `None` when it is cut.
    pub(super) fn read(feature: &[u8]) -> Option<Self> {
        Some(Self { wall: absolute(u64_at(feature, 8)?), file: absolute(u64_at(feature, 16)?) })
    }
}

impl ClockFacts {
    /// The word for the clock.
    pub(super) fn name(self) -> String {
        match self.id {
            None => "perf".to_owned(),
            Some(REALTIME) => "CLOCK_REALTIME".to_owned(),
            Some(1) => "CLOCK_MONOTONIC".to_owned(),
            Some(4) => "CLOCK_MONOTONIC_RAW".to_owned(),
            Some(7) => "CLOCK_BOOTTIME".to_owned(),
            Some(11) => "CLOCK_TAI".to_owned(),
            Some(id) => format!("clock {id}"),
        }
    }

    /// The wall clock when the file's shows `time`; `None` when they cannot be related.
    pub(super) fn wall(self, time: Nanos) -> Option<Nanos> {
        match (self.id, self.pair) {
            (Some(REALTIME), _) => Some(time),
            (None, _) | (_, None) => None,
            (Some(_), Some(Pair { wall, file })) => {
                Some(Nanos(wall.0.saturating_add((time - file).0)))
            }
        }
    }

    /// What a reader should know of times, in one sentence.
    pub(super) fn note(self) -> Option<&'static str> {
        match (self.id, self.pair) {
            (Some(REALTIME), _) | (Some(_), Some(_)) => None,
            (None, _) => Some(
                "times are of perf's own clock, which cannot be related to the wall clock; \
                 perf record -k mono keeps the relation",
            ),
            (Some(_), None) => Some("the file does not relate its clock to the wall clock"),
        }
    }
}

/// From the file's clock to that of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    pub(super) origin: Nanos,
}

impl Clock {
    pub(super) fn time(self, time: u64) -> Nanos {
        absolute(time) - self.origin
    }
}

/// A time of the file, on its own clock.
#[inline]
pub(super) fn absolute(time: u64) -> Nanos {
    Nanos(i64::try_from(time).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_on_both_clocks_relates_them() {
        let feature = [[1, 1], [5000, 0], [700, 0]].concat();
        let feature: Vec<_> = feature.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        let pair = Pair::read(&feature);
        check(ClockFacts { id: Some(1), pair }, "CLOCK_MONOTONIC", Some(5100), false);
        check(ClockFacts { id: Some(1), pair: None }, "CLOCK_MONOTONIC", None, true);
        check(ClockFacts { id: None, pair }, "perf", None, true);
        check(ClockFacts { id: Some(0), pair: None }, "CLOCK_REALTIME", Some(800), false);
        check(ClockFacts { id: Some(9), pair }, "clock 9", Some(5100), false);
        assert_eq!(Pair::read(feature.get(..23).unwrap_or_default()), None);
    }

    #[track_caller]
    fn check(facts: ClockFacts, name: &str, wall: Option<i64>, has_note: bool) {
        assert_eq!(facts.name(), name);
        assert_eq!(facts.wall(Nanos(800)), wall.map(Nanos));
        assert_eq!(facts.note().is_some(), has_note);
    }
}
