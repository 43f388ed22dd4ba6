//! The phases of a request and the moves between them.
//!
//! ```text
//! queued ──get──► got ──insert──► inserted ──issue──► issued ──complete──► (gone)
//!    │              └───────────issue──────────────────▲  │
//!    └─────────merge───► (part of another)             └──┘ requeue, issue again
//! ```

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A bio was queued; no request carries it yet.
    Queued,
    /// A request is allocated, perhaps plugged, perhaps handed back by the driver.
    Got,
    /// It is in the scheduler.
    Inserted,
    /// The driver has it.
    Issued,
}

/// What can happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A request is allocated.
    Get,
    /// It enters the scheduler.
    Insert,
    /// It goes to the driver.
    Issue,
    /// The driver hands it back.
    Requeue,
}

/// The phase after a move; `None` when the move is not legal from there.
///
/// Insert may follow a requeue; issue may follow any phase, since direct issue skips the
/// scheduler and an issue without a requeue in between is a resubmission by the driver.
pub(crate) fn step(phase: Phase, action: Move) -> Option<Phase> {
    match (phase, action) {
        (Phase::Queued, Move::Get)
        | (Phase::Got | Phase::Inserted | Phase::Issued, Move::Requeue) => Some(Phase::Got),
        (Phase::Queued | Phase::Got | Phase::Inserted, Move::Insert) => Some(Phase::Inserted),
        (Phase::Queued | Phase::Got | Phase::Inserted | Phase::Issued, Move::Issue) => {
            Some(Phase::Issued)
        }
        (Phase::Got | Phase::Inserted | Phase::Issued, Move::Get)
        | (Phase::Issued, Move::Insert)
        | (Phase::Queued, Move::Requeue) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_issue_skips_the_scheduler() {
        assert_eq!(step(Phase::Got, Move::Issue), Some(Phase::Issued));
    }

    #[test]
    fn a_requeued_request_waits_again() {
        assert_eq!(step(Phase::Issued, Move::Requeue), Some(Phase::Got));
        assert_eq!(step(Phase::Got, Move::Issue), Some(Phase::Issued));
    }

    #[test]
    fn an_issued_request_cannot_be_inserted() {
        assert_eq!(step(Phase::Issued, Move::Insert), None);
    }
}
