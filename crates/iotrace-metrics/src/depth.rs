//! A depth over time: how long each depth lasted.
//!
//! Times are summed as integers, so the mean depth is exactly the sum of all stays ÷ the span,
//! which is Little's law.

use iotrace_model::DepthSummary;

use crate::series::Areas;

/// Depths above this one count as this one in the distribution; the mean is not affected.
const DEEPEST: usize = 1 << 16;

/// A step function of time.
#[derive(Debug)]
pub(crate) struct Depth {
    /// Up to when it is known.
    time: i64,
    /// Invariant: not negative, since each stay ends after it began.
    now: i64,
    max: usize,
    /// Nanoseconds at each depth.
    time_at: Vec<i64>,
    /// Depth × nanoseconds, in each step of a series.
    areas: Areas,
}

impl Depth {
    /// No stay yet at the start of the span.
    pub(crate) fn new(areas: Areas) -> Self {
        Self { time: areas.from(), now: 0, max: 0, time_at: Vec::new(), areas }
    }

    /// Lets stays begin and end, each in the order of time. At equal times those that end come
    /// first, so that requests back to back at depth 1 never look like 2.
    pub(crate) fn replay(
        &mut self,
        begins: impl Iterator<Item = i64>,
        mut ends: impl Iterator<Item = i64>,
    ) {
        let mut end = ends.next();
        for begin in begins {
            while let Some(time) = end
                && time <= begin
            {
                self.advance(time);
                self.now -= 1;
                end = ends.next();
            }
            self.advance(begin);
            self.now += 1;
            self.max = self.max.max(self.place());
        }
        while let Some(time) = end {
            self.advance(time);
            self.now -= 1;
            end = ends.next();
        }
    }

    /// Lets the present depth last until a time.
    pub(crate) fn advance(&mut self, time: i64) {
        let elapsed = time - self.time;
        if elapsed <= 0 {
            return;
        }
        let place = self.place();
        if self.time_at.len() <= place {
            self.time_at.resize(place + 1, 0);
        }
        if let Some(time) = self.time_at.get_mut(place) {
            *time += elapsed;
        }
        self.areas.advance(self.time, time, self.now);
        self.time = time;
    }

    /// Its mean in each step.
    pub(crate) fn steps(&self) -> Vec<f64> {
        self.areas.means()
    }

    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    pub(crate) fn summary(&self) -> DepthSummary {
        let total: i64 = self.time_at.iter().sum();
        let share = |time: &i64| if total == 0 { 0.0 } else { *time as f64 / total as f64 };
        let mut shares: Vec<f64> = self.time_at.iter().map(share).collect();
        shares.resize(self.max + 1, 0.0);
        DepthSummary {
            mean: if total == 0 { 0.0 } else { self.areas.total() as f64 / total as f64 },
            max: u32::try_from(self.max).unwrap_or(u32::MAX),
            share: shares,
        }
    }

    fn place(&self) -> usize {
        usize::try_from(self.now).unwrap_or(0).min(DEEPEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Steps;

    fn depth(from: i64, to: i64) -> Depth {
        Depth::new(Steps::new(from, to).areas())
    }

    #[test]
    fn shares_and_mean_are_weighted_with_time() {
        let mut depth = depth(0, 40);
        depth.replay([10, 30].into_iter(), [40, 40].into_iter());
        // 10 ns at 0, 20 at 1, 10 at 2: (20 + 20) / 40 = 1.
        let expected = DepthSummary { mean: 1.0, max: 2, share: vec![0.25, 0.5, 0.25] };
        assert_eq!(depth.summary(), expected);
        assert_eq!(depth.now, 0);
    }

    #[test]
    fn what_ends_makes_room_for_what_begins() {
        let mut depth = depth(0, 40);
        depth.replay([0, 20].into_iter(), [20].into_iter());
        depth.replay([40].into_iter(), [40].into_iter());
        assert_eq!((depth.max, depth.now), (1, 1));
    }

    #[test]
    fn no_time_has_no_mean() {
        let expected = DepthSummary { mean: 0.0, max: 0, share: vec![0.0] };
        assert_eq!(depth(5, 5).summary(), expected);
    }
}
