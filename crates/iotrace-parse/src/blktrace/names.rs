//! Names of threads, as PROCESS records tell them just before a thread's first event.
//!
//! They are kept for the whole capture, not for a device or CPU: a thread moves. A number that is
//! used again gets the name that was told last.

use std::collections::HashMap;

use iotrace_model::Comm;

/// Threads that are remembered; a hostile trace names more, a machine has not.
const MOST: usize = 1 << 20;
/// Places of the fast table.
const PLACES: usize = 256;

/// Name by thread.
#[derive(Debug)]
pub(super) struct Names {
    all: HashMap<u32, Comm>,
    /// What was asked for last, by the low bits of the thread.
    fast: [(u32, Comm); PLACES],
}

impl Default for Names {
    fn default() -> Self {
        // Thread 0, the idle task, is never named; so the empty places are right.
        Self { all: HashMap::new(), fast: [(0, Comm::default()); PLACES] }
    }
}

impl Names {
    pub(super) fn tell(&mut self, pid: u32, comm: Comm) {
        if self.all.len() < MOST || self.all.contains_key(&pid) {
            self.all.insert(pid, comm);
        }
        if let Some(place) = self.fast.get_mut(place(pid)) {
            *place = (pid, comm);
        }
    }

    /// Empty for a thread that was never named.
    #[inline]
    pub(super) fn of(&mut self, pid: u32) -> Comm {
        let Some(place) = self.fast.get_mut(place(pid)) else { return Comm::default() };
        if place.0 != pid {
            *place = (pid, self.all.get(&pid).copied().unwrap_or_default());
        }
        place.1
    }
}

fn place(pid: u32) -> usize {
    usize::from(pid.to_le_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_told_last_counts() {
        let mut names = Names::default();
        names.tell(1, Comm::new(b"first"));
        names.tell(257, Comm::new(b"same place"));
        assert_eq!(names.of(1), Comm::new(b"first"));
        assert_eq!(names.of(257), Comm::new(b"same place"));
        names.tell(1, Comm::new(b"second"));
        assert_eq!(names.of(1), Comm::new(b"second"));
        assert!(names.of(2).is_empty());
        assert!(names.of(0).is_empty());
    }
}
