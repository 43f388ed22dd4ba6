//! The times of a complete request, in the few bytes that the second pass needs of a row.
//!
//! A stamp that was not seen is kept as the smallest number, which no row holds (`source`), so
//! that a life is 48 bytes and orders as its optional stamps would.

use iotrace_model::{Op, Status};

use crate::source::Row;

/// Stands for a stamp that was not seen.
const UNSEEN: i64 = i64::MIN;

/// Lives kept in one piece.
const CHUNK: usize = 1 << 13;

/// A complete request. Ordered by its fields in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    queue: i64,
    insert: i64,
    issue: i64,
    pub(crate) complete: i64,
    pub(crate) op: Op,
    pub(crate) bytes: u64,
}

impl Life {
    /// `None` unless the row counts: its status is complete and its completion was seen.
    pub(crate) fn of(row: &Row) -> Option<Self> {
        let Row { queue, insert, issue, complete, op, length_bytes: bytes, .. } = *row;
        let [queue, insert, issue] = [queue, insert, issue].map(|time| time.unwrap_or(UNSEEN));
        let complete = complete.filter(|_| row.status == Status::Complete)?;
        Some(Self { queue, insert, issue, complete, op, bytes })
    }

    pub(crate) fn queue(&self) -> Option<i64> {
        seen(self.queue)
    }

    pub(crate) fn insert(&self) -> Option<i64> {
        seen(self.insert)
    }

    pub(crate) fn issue(&self) -> Option<i64> {
        seen(self.issue)
    }

    /// The first stamp.
    pub(crate) fn begin(&self) -> i64 {
        self.queue().or(self.insert()).or(self.issue()).unwrap_or(self.complete)
    }

    pub(crate) fn length(&self) -> i64 {
        self.complete - self.begin()
    }

    /// Since when the layer above wants it.
    pub(crate) fn wanted(&self) -> Option<i64> {
        self.queue().or(self.issue())
    }

    pub(crate) fn is_queued(&self) -> bool {
        stays(self.queue, self.complete)
    }

    pub(crate) fn is_scheduled(&self) -> bool {
        stays(self.insert, self.issue)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        stays(self.issue, self.complete)
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted().is_some_and(|time| time < self.complete)
    }
}

/// Lives in the order of their rows. A full chunk is never moved.
#[derive(Debug, Default)]
pub(crate) struct Lives(Vec<Vec<Life>>);

impl Lives {
    pub(crate) fn push(&mut self, life: Life) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(life),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(life);
                self.0.push(chunk);
            }
            None => self.0.push(vec![life]),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Life> {
        self.0.iter().flatten()
    }
}

fn seen(time: i64) -> Option<i64> {
    (time != UNSEEN).then_some(time)
}

/// Whether a stay from a time that was seen to another one has any length.
fn stays(from: i64, to: i64) -> bool {
    from != UNSEEN && from < to
}
