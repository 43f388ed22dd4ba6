//! Sums of the stages: shortest, longest, sum and count.

use iotrace_model::{BttStage, BttTime, Nanos};

/// One stage. `min` means nothing while `count` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) sum: u128,
}

/// Every stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// In the order of `BttStage::ALL`.
    stages: [Total; BttStage::ALL.len()],
}

impl Total {
    fn add(&mut self, ns: i64) {
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = self.max.max(ns);
        self.sum += u128::from(ns.unsigned_abs());
        self.count += 1;
    }

    fn merge(&mut self, other: &Total) {
        if other.count > 0 {
            self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
            self.max = self.max.max(other.max);
            self.sum += other.sum;
            self.count += other.count;
        }
    }
}

impl Times {
    /// Adds a sample; one that is not positive counts as 1 ns, as in btt.
    pub(super) fn add(&mut self, stage: BttStage, from: Nanos, to: Nanos) {
        self.stages[stage as usize].add((to - from).0.max(1));
    }

    pub(super) fn of(&self, stage: BttStage) -> &Total {
        &self.stages[stage as usize]
    }

    pub(super) fn merge(&mut self, other: &Times) {
        for (total, other) in self.stages.iter_mut().zip(&other.stages) {
            total.merge(other);
        }
    }

    /// The stages that have samples.
    pub(super) fn lines(&self) -> Vec<BttTime> {
        let seen = BttStage::ALL.into_iter().zip(&self.stages).filter(|(_, one)| one.count > 0);
        seen.map(|(stage, one)| BttTime {
            stage,
            count: one.count,
            min: Nanos(one.min),
            max: Nanos(one.max),
            total: Nanos(i64::try_from(one.sum).unwrap_or(i64::MAX)),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_has_the_place_of_its_name() {
        for (at, stage) in BttStage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, at);
        }
    }

    #[test]
    fn a_time_that_is_not_positive_counts_as_one_nanosecond() {
        let mut times = Times::default();
        times.add(BttStage::Q2C, Nanos(5), Nanos(5));
        times.add(BttStage::Q2C, Nanos(9), Nanos(5));
        times.add(BttStage::Q2C, Nanos(5), Nanos(9));
        assert_eq!(*times.of(BttStage::Q2C), Total { count: 3, min: 1, max: 4, sum: 6 });
    }

    #[test]
    fn sums_of_hostile_times_saturate_at_the_end_only() {
        let mut times = Times::default();
        times.add(BttStage::Q2C, Nanos(i64::MIN), Nanos(i64::MAX));
        times.add(BttStage::Q2C, Nanos(i64::MIN), Nanos(i64::MAX));
        assert_eq!(times.lines()[0].total, Nanos(i64::MAX));
    }
}
