//! Where the rest of a split bio begins, of which blktrace keeps 32 bits.

/// The place for which `rest` stands in the split of a bio at `start`: the kernel passes the low 32
/// bits on. Some drivers give a place before the start instead, which stays as it is.
pub(crate) fn rest_of_split(start: u64, rest: u64) -> u64 {
    const LOW: u64 = 0xffff_ffff;
    /// Sectors of the longest bio.
    const LONGEST: u64 = 1 << 23;
    if rest > LOW || start <= LOW && rest >= start {
        return rest;
    }
    let near = start & !LOW | rest;
    let near = if near < start { near.saturating_add(LOW + 1) } else { near };
    if near - start.min(near) <= LONGEST { near } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_bits_come_back_from_the_start() {
        check(8, 16, 16);
        check((5 << 32) + 8, 16, (5 << 32) + 16);
        check((5 << 32) + 0xffff_fff8, 8, (6 << 32) + 8);
        check(8, (5 << 32) + 16, (5 << 32) + 16);
        check(u64::MAX, 0, u64::MAX);
    }

    #[test]
    fn a_place_before_the_start_stays() {
        check(4, 0, 0);
        check((5 << 32) + 4, 0, 0);
    }

    #[track_caller]
    fn check(start: u64, rest: u64, expected: u64) {
        assert_eq!(rest_of_split(start, rest), expected);
    }
}
