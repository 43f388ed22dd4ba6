//! How far completions came in another order than issues, summed up from the rows.
//!
//! Who overtook whom was found when the requests were put together (`overtaken` of each row):
//! *a* overtakes *b* when it is issued after *b* and completes before it on the same device.

use iotrace_model::Reordering;

use crate::by_op::ByOp;
use crate::source::Row;

/// Counts of one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overtakes {
    /// Requests and overtaken requests.
    by_op: ByOp<(u64, u64)>,
    most: u32,
}

impl Overtakes {
    /// Takes a complete row; one that misses a stamp or the count is passed over.
    pub(crate) fn push(&mut self, row: &Row) {
        let (Some(_), Some(_), Some(times)) = (row.issue, row.complete, row.overtaken) else {
            return;
        };
        let (requests, overtaken) = self.by_op.entry(row.op, Default::default);
        *requests += 1;
        *overtaken += u64::from(times > 0);
        self.most = self.most.max(times);
    }

    /// `in_flight_share` is the share of time at each in-flight depth.
    pub(crate) fn summary(self, in_flight_share: &[f64]) -> Reordering {
        Reordering {
            requests: self.by_op.values().map(|(requests, _)| requests).sum(),
            overtaken: self.by_op.values().map(|(_, overtaken)| overtaken).sum(),
            most_overtaken: self.most,
            by_op: self.by_op.iter().map(|(op, (all, late))| (op, *all, *late)).collect(),
            time_above_one: in_flight_share.iter().skip(2).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use iotrace_model::Op;

    use super::*;
    use crate::source::tests::row;

    #[test]
    fn the_overtaken_are_counted_by_op() {
        let mut overtakes = Overtakes::default();
        for (op, overtaken) in
            [(Op::Write, Some(0)), (Op::Read, Some(3)), (Op::Read, Some(1)), (Op::Read, None)]
        {
            overtakes.push(&Row { overtaken, ..row(op, 0, 0, 10) });
        }
        overtakes.push(&Row { issue: None, ..row(Op::Read, 0, 0, 10) });
        // A quarter of the time idle, half at depth 1, the rest above.
        let expected = Reordering {
            requests: 3,
            overtaken: 2,
            most_overtaken: 3,
            by_op: vec![(Op::Read, 2, 2), (Op::Write, 1, 0)],
            time_above_one: 0.25,
        };
        assert_eq!(overtakes.summary(&[0.25, 0.5, 0.125, 0.125]), expected);
    }
}
