//! Sorts what is almost in order already, and spread evenly over its time.
//!
//! One pass deals the items out to about as many buckets of equal time as there are items, and an
//! insertion sort puts the few of a bucket in order: half the time of a sort by comparison. Where
//! many items share a bucket, it is the sort by comparison after all.

use super::stream::Timed;

/// More items than this in a bucket are not worth inserting one by one.
const MOST_IN_A_BUCKET: u32 = 24;
/// Fewer items than this are not worth dealing out.
const FEWEST: usize = 64;

/// Sorts by time. Items of one time may change places. `spare` only saves allocations.
pub(super) fn sort<T: Timed + Copy>(items: &mut Vec<T>, spare: &mut Spare<T>) {
    if items.is_sorted_by_key(T::time) {
        return;
    }
    if items.len() < FEWEST || !deal_out(items, spare) {
        items.sort_unstable_by_key(T::time);
        return;
    }
    for place in 1..items.len() {
        let item = items[place];
        let mut hole = place;
        while hole > 0 && items[hole - 1].time() > item.time() {
            items[hole] = items[hole - 1];
            hole -= 1;
        }
        items[hole] = item;
    }
}

/// Memory used again for each sort.
#[derive(Debug)]
pub(super) struct Spare<T> {
    items: Vec<T>,
    counts: Vec<u32>,
}

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self { items: Vec::new(), counts: Vec::new() }
    }
}

/// Puts the items in the order of their buckets; false, and nothing done, if one has too many.
fn deal_out<T: Timed + Copy>(items: &mut Vec<T>, spare: &mut Spare<T>) -> bool {
    let times = || items.iter().map(T::time);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    // The largest power of two of nanoseconds that gives at least as many buckets as items.
    let shift = ((last.abs_diff(first) / items.len() as u64).max(1)).ilog2();
    let bucket = |time: i64| usize::try_from(time.abs_diff(first) >> shift).unwrap_or(0);
    let counts = &mut spare.counts;
    counts.clear();
    counts.resize(bucket(last) + 1, 0);
    for time in times() {
        counts[bucket(time)] += 1;
    }
    if counts.iter().max().is_none_or(|most| *most > MOST_IN_A_BUCKET) {
        return false;
    }
    let mut start = 0;
    for count in counts.iter_mut() {
        start += std::mem::replace(count, start);
    }
    spare.items.clear();
    spare.items.extend_from_slice(items);
    for item in items.iter() {
        let place = &mut counts[bucket(item.time())];
        spare.items[*place as usize] = *item;
        *place += 1;
    }
    std::mem::swap(items, &mut spare.items);
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(mut times: Vec<i64>) {
        let mut sorted = times.clone();
        sorted.sort_unstable();
        sort(&mut times, &mut Spare::default());
        assert_eq!(times, sorted);
    }

    #[test]
    fn even_and_uneven_times_are_sorted() {
        check(Vec::new());
        check((0..1000).map(|at| at * 100 + at * 7919 % 3000).collect());
        check((0..1000).map(|at| at * 7919 % 100).chain([1 << 61, -(1 << 61)]).collect());
        check((0..1000).rev().collect());
        check(vec![5; 1000]);
    }

    proptest! {
        #[test]
        fn any_times_are_sorted(times in prop::collection::vec(-5000..5000_i64, 0..500)) {
            check(times);
        }
    }
}
