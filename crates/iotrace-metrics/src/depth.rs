//! A depth over time: how long each depth lasted.
//!
//! Times are summed as integers, so the mean depth is exactly the sum of all stays ÷ the span,
//! which is Little's law.

use iotrace_model::DepthSummary;

/// Depths above this one count as this one in the distribution; the mean is not affected.
const DEEPEST: usize = 1 << 16;

/// A step function of time.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    /// Invariant: not negative, since each `leave` follows its `enter`.
    now: i64,
    max: usize,
    /// Nanoseconds at each depth.
    time_at: Vec<i64>,
    /// Depth × nanoseconds.
    area: i128,
}

impl Depth {
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn enter(&mut self) {
        self.now += 1;
        self.max = self.max.max(self.place());
    }

    pub(crate) fn leave(&mut self) {
        self.now -= 1;
    }

    /// Lets the present depth last for that many nanoseconds.
    pub(crate) fn advance(&mut self, elapsed: i64) {
        let place = self.place();
        if self.time_at.len() <= place {
            self.time_at.resize(place + 1, 0);
        }
        if let Some(time) = self.time_at.get_mut(place) {
            *time += elapsed;
        }
        self.area += i128::from(self.now) * i128::from(elapsed);
    }

    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    pub(crate) fn summary(&self) -> DepthSummary {
        let total: i64 = self.time_at.iter().sum();
        let share = |time: &i64| if total == 0 { 0.0 } else { *time as f64 / total as f64 };
        let mut shares: Vec<f64> = self.time_at.iter().map(share).collect();
        shares.resize(self.max + 1, 0.0);
        DepthSummary {
            mean: if total == 0 { 0.0 } else { self.area as f64 / total as f64 },
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

    #[test]
    fn shares_and_mean_are_weighted_with_time() {
        let mut depth = Depth::default();
        depth.advance(10);
        depth.enter();
        depth.advance(20);
        depth.enter();
        depth.advance(10);
        depth.leave();
        depth.leave();
        // 10 ns at 0, 20 at 1, 10 at 2: (20 + 20) / 40 = 1.
        let expected = DepthSummary { mean: 1.0, max: 2, share: vec![0.25, 0.5, 0.25] };
        assert_eq!(depth.summary(), expected);
        assert_eq!(depth.now(), 0);
    }

    #[test]
    fn no_time_has_no_mean() {
        let expected = DepthSummary { mean: 0.0, max: 0, share: vec![0.0] };
        assert_eq!(Depth::default().summary(), expected);
    }
}
