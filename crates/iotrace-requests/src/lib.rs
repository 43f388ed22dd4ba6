//! From ordered events to requests: the state machine.
//!
//! `Assembler` takes the merged stream of a capture and gives each request back when it ends.
//! `open` holds the requests under way, `chains` finds them by place, `phase` says which moves are
//! legal, `links` ties a request to the one above it. Nothing is invented: what was not seen, or
//! hangs on a guess, is `None`, and the status says why.

#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod assembler;
mod chains;
mod links;
mod open;
mod phase;

pub use assembler::Assembler;
