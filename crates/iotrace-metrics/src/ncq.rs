//! Whether NCQ was at work, from three kinds of evidence: configured, used, observed.
//!
//! Only libata's `queue_depth` switches NCQ; elsewhere the same knob is a depth and nothing more.

use iotrace_model::{DeviceFacts, NcqEvidence, NcqVerdict};

/// What the requests show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    /// Read and write commands seen at the driver.
    pub(crate) commands: u64,
    /// Of these, under an NCQ protocol.
    pub(crate) queued: u64,
    pub(crate) max_in_flight: u32,
    pub(crate) overtaken: u64,
    /// Share of time with more than one in flight.
    pub(crate) time_above_one: f64,
}

/// Up to this share of time two requests may seem in flight at depth 1: SCSI frees the slot of
/// one just before the block layer completes it.
const OVERLAP: f64 = 0.01;

/// Weighs the evidence; `facts` is `None` for a device that nothing is known of.
pub(crate) fn evidence(facts: Option<&DeviceFacts>, observed: Observed) -> NcqEvidence {
    let facts = facts.filter(|facts| !facts.only_named);
    let (verdict, rests_on) = judge(facts, observed);
    let has_commands = observed.commands > 0;
    NcqEvidence {
        is_ata: facts.map(|facts| facts.is_ata),
        queue_depth: facts.and_then(|facts| facts.queue_depth),
        commands: has_commands.then_some(observed.commands),
        queued_commands: has_commands.then_some(observed.queued),
        max_in_flight: observed.max_in_flight,
        overtaken: observed.overtaken,
        verdict,
        rests_on,
    }
}

fn judge(facts: Option<&DeviceFacts>, observed: Observed) -> (NcqVerdict, String) {
    let Observed { commands, queued, max_in_flight, overtaken, time_above_one } = observed;
    let several = if max_in_flight > 1 {
        format!(" (more than one for {:.1} % of the time)", time_above_one * 100.0)
    } else {
        String::new()
    };
    let in_flight =
        format!("at most {max_in_flight} in flight{several}, {overtaken} requests overtaken");
    let is_deep = max_in_flight > 1 && time_above_one > OVERLAP;
    let seen = if commands > 0 {
        format!("{queued} of {commands} read and write commands were NCQ commands")
    } else {
        "no command was seen at the driver".to_owned()
    };
    let Some(facts) = facts else {
        if queued > 0 {
            return (NcqVerdict::Used, format!("{seen}; {in_flight}"));
        }
        let reason = format!("nothing is known of the device; {in_flight}");
        return (NcqVerdict::Unknown, reason);
    };
    if !facts.is_ata {
        let reason = match facts.queue_depth {
            Some(depth) => format!("no ATA disk under libata; queue_depth {depth}, {in_flight}"),
            None => format!("no ATA disk under libata, no queue_depth; {in_flight}"),
        };
        return (NcqVerdict::DepthLimit, reason);
    }
    let Some(depth) = facts.queue_depth else {
        return (NcqVerdict::Unknown, format!("queue_depth could not be read; {in_flight}"));
    };
    let numbers = format!("{seen}; queue_depth {depth}, {in_flight}");
    let verdict = if depth <= 1 {
        if queued > 0 || is_deep {
            return (NcqVerdict::Unknown, format!("a contradiction: {numbers}"));
        }
        NcqVerdict::Off
    } else if queued > 0 {
        NcqVerdict::Used
    } else if commands > 0 {
        NcqVerdict::ConfiguredNotUsed
    } else if is_deep {
        // libata sends one plain command at a time: more at once need NCQ.
        NcqVerdict::Used
    } else {
        NcqVerdict::Unknown
    };
    (verdict, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence_of(
        (is_ata, queue_depth): (bool, Option<u32>),
        (commands, queued, max_in_flight): (u64, u64, u32),
        time_above_one: f64,
    ) -> NcqEvidence {
        let facts = DeviceFacts { is_ata, queue_depth, ..DeviceFacts::default() };
        let observed = Observed { commands, queued, max_in_flight, overtaken: 7, time_above_one };
        evidence(Some(&facts), observed)
    }

    #[track_caller]
    fn check(
        facts: (bool, Option<u32>),
        observed: (u64, u64, u32),
        time_above_one: f64,
        verdict: NcqVerdict,
    ) {
        assert_eq!(evidence_of(facts, observed, time_above_one).verdict, verdict);
    }

    #[test]
    fn the_verdict_needs_more_than_the_setting() {
        check((true, Some(32)), (100, 100, 31), 0.9, NcqVerdict::Used);
        check((true, Some(32)), (100, 0, 1), 0.0, NcqVerdict::ConfiguredNotUsed);
        check((true, Some(32)), (0, 0, 31), 0.9, NcqVerdict::Used);
        check((true, Some(32)), (100, 1, 1), 0.0, NcqVerdict::Used);
        check((true, Some(32)), (0, 0, 1), 0.0, NcqVerdict::Unknown);
        check((true, Some(32)), (0, 0, 2), 0.001, NcqVerdict::Unknown);
        check((true, None), (0, 0, 8), 0.5, NcqVerdict::Unknown);
        check((true, Some(1)), (100, 0, 1), 0.0, NcqVerdict::Off);
        check((true, Some(1)), (100, 0, 2), 0.001, NcqVerdict::Off);
        check((true, Some(1)), (0, 0, 1), 0.0, NcqVerdict::Off);
        check((true, Some(1)), (100, 100, 1), 0.0, NcqVerdict::Unknown);
        check((true, Some(1)), (0, 0, 8), 0.5, NcqVerdict::Unknown);
        check((false, Some(254)), (0, 0, 31), 0.9, NcqVerdict::DepthLimit);
        check((false, None), (0, 0, 31), 0.9, NcqVerdict::DepthLimit);
        assert_eq!(evidence(None, Observed::default()).verdict, NcqVerdict::Unknown);
        let named = DeviceFacts { only_named: true, ..DeviceFacts::default() };
        let deep = Observed { max_in_flight: 8, time_above_one: 0.5, ..Observed::default() };
        assert_eq!(evidence(Some(&named), deep).verdict, NcqVerdict::Unknown);
        let queued = Observed { commands: 9, queued: 9, ..deep };
        assert_eq!(evidence(Some(&named), queued).verdict, NcqVerdict::Used);
    }

    #[test]
    fn the_sentence_gives_the_numbers() {
        let used = evidence_of((true, Some(32)), (100, 99, 31), 0.875);
        assert_eq!((used.commands, used.queued_commands), (Some(100), Some(99)));
        assert_eq!(
            used.rests_on,
            "99 of 100 read and write commands were NCQ commands; queue_depth 32, at most 31 in \
             flight (more than one for 87.5 % of the time), 7 requests overtaken"
        );
        let contradiction = evidence_of((true, Some(1)), (0, 0, 8), 0.5);
        assert_eq!((contradiction.commands, contradiction.queued_commands), (None, None));
        assert_eq!(
            contradiction.rests_on,
            "a contradiction: no command was seen at the driver; queue_depth 1, at most 8 in \
             flight (more than one for 50.0 % of the time), 7 requests overtaken"
        );
    }
}
