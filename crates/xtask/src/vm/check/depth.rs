//! The in-flight depth of a run, from issues and completions of either recorder.
//!
//! With a queue depth of 1 two requests may still overlap for a moment: the SCSI layer frees the
//! drive's only slot before the block layer reports the completion, and another CPU issues in
//! between. Both recorders see it, so a bar on the depth has to count how often it happens.

/// What a step function of the depth shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Depth {
    /// Most requests issued and not complete.
    pub(super) most: u32,
    /// Requests that were issued while another was in flight.
    pub(super) above_one: u64,
}

impl Depth {
    /// From times and steps: +1 for an issue, -1 for a completion. Of equal times the completion
    /// comes first, for the request that follows took its place.
    pub(super) fn of(mut steps: Vec<(i64, i32)>) -> Self {
        steps.sort_unstable();
        let mut depth = Self::default();
        let mut now = 0_i32;
        for (_, step) in steps {
            now += step;
            depth.most = depth.most.max(u32::try_from(now).unwrap_or(0));
            depth.above_one += u64::from(step > 0 && now > 1);
        }
        depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_what_is_issued_and_not_complete() {
        check(&[(0, 30), (10, 20), (15, 40)], 3, 2);
        check(&[(0, 10), (10, 20), (20, 30)], 1, 0);
        check(&[], 0, 0);
    }

    #[track_caller]
    fn check(lives: &[(i64, i64)], most: u32, above_one: u64) {
        let steps = lives.iter().flat_map(|(issue, complete)| [(*issue, 1), (*complete, -1)]);
        assert_eq!(Depth::of(steps.collect()), Depth { most, above_one });
    }
}
