//! From `requests.parquet` to the numbers of a run, and from runs to a comparison.
//!
//! A run is read in slices of bounded size. The first pass counts what needs no order (`tally`)
//! and finds what the second must know (`outline`); the second replays queue, insert, issue and
//! complete in the order of time (`sweep`) for everything about depth, fairness and the series.
//! It goes over the times that the first one kept, or reads a long table once more (`passes`).
//! `compare` works on whole runs; `bootstrap` serves where there are too few.
//! `btt` stands apart: it gives btt's figures of a run's events.

#![forbid(unsafe_code)]

mod life;
mod source;

mod by_op;
mod latency;
mod outline;
mod reordering;

mod depth;
mod fairness;
mod series;
mod sweep;

mod ncq;
mod tally;

mod passes;
mod summarize;

mod blocks;
mod bootstrap;
mod compare;
mod difference;
mod metric;
mod notes;

mod btt;

mod error;

pub use bootstrap::RunSample;
pub use btt::Btt;
pub use compare::{CompareOptions, compare};
pub use error::Error;
pub use summarize::{RunInput, summarize_run};
