//! What the first pass finds out for the replay, from the complete rows of one device.
//!
//! Rows come about in the order of completion, what begins must be sorted in. The replay holds
//! what an unread row could still come before: by how much a completion may be late (`disorder`)
//! and how long a request lasts (`reach`). One request that hangs for half a minute must not
//! keep half a minute of others in memory, so the longest requests are kept here and known from
//! the start, and the reach is that of the longest among all others.

use crate::life::Life;

/// How many of the longest requests are known before the replay.
const LONGEST_KEPT: usize = 1 << 14;

/// The span of a device and what bounds the memory of its replay.
#[derive(Debug)]
pub(crate) struct Outline {
    span: Option<(i64, i64)>,
    latest: i64,
    /// By how much a row's completion was before an earlier row's.
    pub(crate) disorder: i64,
    kept: usize,
    /// The longest lives, up to twice as many as are kept.
    longest: Vec<Life>,
    /// Longest life that was not kept; every life longer than it is in `longest`.
    pub(crate) reach: i64,
}

impl Default for Outline {
    fn default() -> Self {
        Self::keeping(LONGEST_KEPT)
    }
}

impl Outline {
    /// `kept` changes the memory that a replay takes, not its result.
    pub(crate) fn keeping(kept: usize) -> Self {
        let (disorder, longest) = (0, Vec::new());
        Self { span: None, latest: i64::MIN, disorder, kept, longest, reach: -1 }
    }

    pub(crate) fn push(&mut self, life: Life) {
        let (begin, complete) = (life.begin(), life.complete);
        let (from, to) = self.span.unwrap_or((begin, complete));
        self.span = Some((from.min(begin), to.max(complete)));
        self.latest = self.latest.max(complete);
        self.disorder = self.disorder.max(self.latest - complete);
        if complete - begin > self.reach {
            self.longest.push(life);
            if self.longest.len() > self.kept.saturating_mul(2) {
                self.forget_the_shorter();
            }
        }
    }

    /// First beginning and last completion; `None` without a complete row.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// All lives longer than `reach`.
    pub(crate) fn longest(&self) -> impl Iterator<Item = Life> {
        self.longest.iter().copied().filter(|life| life.length() > self.reach)
    }

    fn forget_the_shorter(&mut self) {
        let by_length = |life: &Life| std::cmp::Reverse(life.length());
        let (_, longest_forgotten, _) =
            self.longest.select_nth_unstable_by_key(self.kept, by_length);
        self.reach = longest_forgotten.length();
        self.longest.truncate(self.kept);
    }
}
