//! The requests of one device counted by blocks of time, for the bootstrap.
//!
//! Latencies are counted in log buckets. The block that the rows have come to is counted in full
//! arrays; once they go on to the next, what is not zero is kept. A late row is counted where it
//! belongs, at more cost.

use iotrace_model::Op;

use crate::life::Life;

/// Blocks of time in a run.
pub(crate) const BLOCKS: usize = 64;
/// Log buckets in a doubling of latency: 1.1 % each.
pub(crate) const FINENESS: f64 = 64.0;
/// Enough for 2^45 ns, about ten hours.
pub(crate) const BUCKETS: u16 = 45 * 64;

/// Counts of one device by blocks of time.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// All requests, reads, writes.
    pub(crate) classes: [(Option<Op>, Vec<Block>); 3],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Sum of D2C: by Little's law the depth.
    pub(crate) in_driver: f64,
    pub(crate) d2c: Counts,
    pub(crate) q2c: Counts,
}

/// Log bucket and count, sorted by bucket.
type Counts = Vec<(u16, u32)>;

/// Blocks under construction.
#[derive(Debug)]
pub(crate) struct Filling {
    blocks: Blocks,
    /// The block that the rows have come to, and its times.
    place: usize,
    begins: i64,
    ends: i64,
    /// Its D2C and Q2C by class.
    open: [[Vec<u32>; 2]; 3],
}

impl Filling {
    pub(crate) fn new(from: i64, to: i64) -> Self {
        let class = |op| (op, vec![Block::default(); BLOCKS]);
        let classes = [class(None), class(Some(Op::Read)), class(Some(Op::Write))];
        let open = [(); 3].map(|()| [(); 2].map(|()| vec![0; usize::from(BUCKETS)]));
        let mut filling =
            Self { blocks: Blocks { from, to, classes }, place: 0, begins: from, ends: from, open };
        filling.ends = filling.end_of(0);
        filling
    }

    /// Takes a complete row.
    #[expect(clippy::cast_precision_loss, reason = "a statistic of 53 bits is precise enough")]
    pub(crate) fn push(&mut self, life: &Life) {
        let place = self.place_of(life.complete);
        let d2c = life.issue().map(|time| life.complete - time);
        let buckets = [d2c, life.queue().map(|time| life.complete - time)].map(|it| it.map(bucket));
        for ((op, blocks), open) in self.blocks.classes.iter_mut().zip(&mut self.open) {
            if op.is_none_or(|op| op == life.op)
                && let Some(block) = blocks.get_mut(place)
            {
                block.requests += 1;
                block.bytes = block.bytes.saturating_add(life.bytes);
                block.in_driver += d2c.unwrap_or(0) as f64;
                let late = [&mut block.d2c, &mut block.q2c];
                for ((bucket, late), open) in buckets.into_iter().zip(late).zip(open) {
                    let Some(bucket) = bucket else { continue };
                    if place != self.place {
                        add(late, bucket, 1);
                    } else if let Some(count) = open.get_mut(usize::from(bucket)) {
                        *count = count.saturating_add(1);
                    }
                }
            }
        }
    }

    pub(crate) fn finish(mut self) -> Blocks {
        self.close();
        self.blocks
    }

    /// The block of a time; goes on to it when it is a later one.
    fn place_of(&mut self, time: i64) -> usize {
        if (self.begins..self.ends).contains(&time) {
            return self.place;
        }
        let Blocks { from, to, .. } = self.blocks;
        let length = i128::from((to - from).max(1));
        let place = i128::from(time - from) * BLOCKS as i128 / length;
        let place = usize::try_from(place).unwrap_or(0).min(BLOCKS - 1);
        if place > self.place {
            self.close();
            self.begins = self.end_of(place - 1);
            self.ends = self.end_of(place);
            self.place = place;
        }
        place
    }

    /// The first time behind a block.
    fn end_of(&self, place: usize) -> i64 {
        let Blocks { from, to, .. } = self.blocks;
        let length = i128::from((to - from).max(1));
        let end = ((place as i128 + 1) * length + BLOCKS as i128 - 1) / BLOCKS as i128;
        from + i64::try_from(end).unwrap_or(i64::MAX)
    }

    /// Keeps what was counted of the present block.
    fn close(&mut self) {
        for ((_, blocks), open) in self.blocks.classes.iter_mut().zip(&mut self.open) {
            let Some(block) = blocks.get_mut(self.place) else { continue };
            for (kept, open) in [&mut block.d2c, &mut block.q2c].into_iter().zip(open) {
                for (bucket, count) in (0..).zip(open).filter(|(_, count)| **count > 0) {
                    add(kept, bucket, std::mem::take(count));
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
#[expect(clippy::cast_possible_truncation, reason = "clamped to the number of buckets")]
#[expect(clippy::cast_sign_loss, reason = "the logarithm of at least 1 is not negative")]
fn bucket(nanos: i64) -> u16 {
    let bucket = (nanos.max(1) as f64).log2() * FINENESS;
    bucket.min(f64::from(BUCKETS - 1)) as u16
}

fn add(counts: &mut Counts, bucket: u16, more: u32) {
    match counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
        Ok(place) => {
            if let Some((_, count)) = counts.get_mut(place) {
                *count = count.saturating_add(more);
            }
        }
        Err(place) => counts.insert(place, (bucket, more)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::tests::row;

    fn blocks(from: i64, to: i64, completions: &[i64]) -> Blocks {
        let mut filling = Filling::new(from, to);
        for &complete in completions {
            filling.push(&Life::of(&row(Op::Read, complete, complete, complete)).unwrap());
        }
        filling.finish()
    }

    #[test]
    fn a_block_ends_before_the_first_time_of_the_next() {
        // 6.4 ns each: block 1 from 6.4, block 2 from 12.8; the end itself is in the last.
        let blocks = blocks(0, 410, &[0, 6, 7, 12, 13, 410]);
        let (_, all) = &blocks.classes[0];
        let requests: Vec<u64> = all.iter().map(|block| block.requests).collect();
        assert_eq!(requests[..3], [2, 2, 1]);
        assert_eq!(requests[63], 1);
        assert_eq!(all[0].q2c, [(0, 2)]);
    }

    proptest! {
        #[test]
        fn the_order_of_rows_changes_nothing(
            mut completions in prop::collection::vec(0..1000_i64, 1..100),
        ) {
            let one = blocks(0, 1000, &completions);
            completions.sort_unstable();
            prop_assert_eq!(format!("{one:?}"), format!("{:?}", blocks(0, 1000, &completions)));
        }
    }
}
