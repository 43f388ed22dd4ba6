//! The words of iotrace: units, events, requests, the ledger, run facts and summaries.
//!
//! Every other crate speaks in these types and knows its neighbours only through them or
//! through a file with a schema. Nothing here reads, writes or computes statistics.

#![forbid(unsafe_code)]

mod btt;
mod comparison;
mod event;
mod facts;
mod ledger;
mod request;
mod summary;
mod units;

pub use btt::{
    BttDevice, BttMerges, BttOverhead, BttPlugs, BttSeeks, BttStage, BttSummary, BttTime,
};
pub use comparison::{Comparison, Difference, Evidence, Interval, Metric, Verdict};
pub use event::{Action, Comm, Event, Flags, Item, Loss, Op, Protocol, Remap};
pub use facts::{AtaPort, DeviceFacts, Fact, Facts};
pub use ledger::{Cause, Entry, Ledger, Severity};
pub use request::{Bio, Request, Stamp, Status};
pub use summary::{
    Configuration, DepthSummary, DeviceSummary, Fairness, LatencySummary, NcqEvidence, NcqVerdict,
    OpSummary, Quantiles, Reordering, RunSummary, Stage, Starvation, Summary, TimeSeries,
};
pub use units::{Cpu, DeviceId, Nanos, SECTOR_BYTES, Sector};
