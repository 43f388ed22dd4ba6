//! What every format's reader offers, so that nothing behind it knows the format.

use iotrace_model::{DeviceId, Item, Ledger, Nanos};

use crate::{Error, Records};

/// A trace that is read in batches of bounded size, in the order of time, CPU and place in the
/// CPU's stream.
pub trait Reader: Send {
    /// Adds the next items, in order, to `out`, which may stay as it is.
    ///
    /// # Errors
    /// When the operating system cannot read on. Bad input is counted in the ledger and passed
    /// over.
    fn next_batch(&mut self, out: &mut Vec<Item>) -> Result<Progress, Error>;

    /// Gives up what was counted instead of being used since the last call.
    fn take_ledger(&mut self) -> Ledger;

    /// Records read and used so far.
    fn records(&self) -> Records;

    /// What the trace says of itself; complete only at its end.
    fn about(&self) -> About;
}

/// How a trace goes on after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more.
    More,
    /// What comes next is another capture, with times and requests of its own: nothing before
    /// belongs to anything behind.
    Restart,
    /// There is no more.
    End,
}

/// What a trace says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The format in words, such as `blktrace 7, big-endian`.
    pub source: String,
    /// The clock of the times, such as `CLOCK_MONOTONIC`; empty where the format does not tell.
    pub clock: String,
    /// That clock at time 0 of the items; `None` where times are only relative.
    pub origin: Option<Nanos>,
    /// The wall clock at time 0 of the items, since the epoch; `None` where it is not known.
    pub wall: Option<Nanos>,
    /// Names of devices, where the trace or its file names tell them.
    pub names: Vec<(DeviceId, String)>,
    /// Messages of the kernel or of a user, with their times; the first thousand.
    pub messages: Vec<(Nanos, String)>,
    /// What the format cannot carry and what was noticed, one sentence each.
    pub notes: Vec<String>,
}
