//! The letters of actions and operations as blkparse prints them.
//!
//! Those of an operation, `[F](D|W|R|N|Z…)[F][A][S][M]`, come from the categories of blktrace: R is
//! "not a write, with data", N is "not a write, without data". So `FN` is the flush of a drive's
//! cache, and N where a sector is printed is a read of zero bytes, such as a failed read reports
//! first.

use iotrace_model::{Action, Flags, Op};

use crate::rwbs;

/// The action of column 6.
#[inline]
pub(super) fn action(word: &[u8]) -> Option<Action> {
    Some(match word {
        b"Q" => Action::Queue,
        // A merge of requests has the same letter as a back merge.
        b"M" => Action::BackMerge,
        b"F" => Action::FrontMerge,
        b"G" => Action::Get,
        b"S" => Action::Sleep,
        b"R" => Action::Requeue,
        b"D" => Action::Issue,
        b"C" => Action::Complete,
        b"P" => Action::Plug,
        b"U" => Action::Unplug,
        b"UT" | b"T" => Action::UnplugTimer,
        b"I" => Action::Insert,
        b"X" => Action::Split,
        b"B" => Action::Bounce,
        b"A" => Action::Remap,
        b"m" => Action::Message,
        // Zone plugs keep their codes in blktrace_api.h.
        b"ZP" => Action::Unknown(18),
        b"ZU" => Action::Unknown(19),
        _ => return None,
    })
}

/// Whether these are letters of an operation, in column 7.
#[inline]
pub(super) fn is_operation(letters: &[u8]) -> bool {
    let core = match letters {
        [b'F', rest @ ..] if !rest.is_empty() => rest,
        _ => letters,
    };
    letters.len() <= 10
        && matches!(core.first(), Some(b'R' | b'W' | b'D' | b'N' | b'Z' | b'F'))
        && core.iter().all(|letter| b"RWDNZFASMBUEPOC".contains(letter))
}

/// What a request is beyond its letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a file system or the like.
    Ordinary,
    /// Passthrough: a command of its own (`SG_IO` and the like).
    Passthrough,
}

/// The operation and its modifiers.
#[inline]
pub(super) fn operation(letters: &[u8], kind: Kind) -> (Op, Flags) {
    let (op, flags) = match letters {
        [b'F', b'N', ..] => (Op::Flush, rwbs::read(letters.get(1..).unwrap_or_default()).1),
        // Patched versions print a write of zeroes so.
        [b'W', b'Z', rest @ ..] => {
            let flags = rest.contains(&b'S');
            (Op::Other, if flags { Flags::SYNC } else { Flags::default() })
        }
        [b'N', ..] => (Op::Read, rwbs::read(letters).1),
        _ => rwbs::read(letters),
    };
    match kind {
        Kind::Ordinary => (op, flags),
        Kind::Passthrough => (Op::Other, flags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_as_blkparse_means_them() {
        check("R", Op::Read, &[]);
        check("RAM", Op::Read, &[Flags::READAHEAD, Flags::META]);
        check("FN", Op::Flush, &[]);
        check("FNS", Op::Flush, &[Flags::SYNC]);
        check("FWS", Op::Write, &[Flags::PREFLUSH, Flags::SYNC]);
        check("FWFSM", Op::Write, &[Flags::PREFLUSH, Flags::FUA, Flags::SYNC, Flags::META]);
        check("NS", Op::Read, &[Flags::SYNC]);
        check("DS", Op::Discard, &[Flags::SYNC]);
        check("WZS", Op::Other, &[Flags::SYNC]);
        check("RB", Op::Read, &[Flags::SYNC]);
        check("WBS", Op::Write, &[Flags::SYNC]);
        check("ZAS", Op::ZoneAppend, &[Flags::SYNC]);
        check("ZRA", Op::ZoneManagement, &[]);
        check("ZRS", Op::ZoneManagement, &[Flags::SYNC]);
        assert_eq!(operation(b"R", Kind::Passthrough).0, Op::Other);
    }

    #[test]
    fn other_words_are_no_operation() {
        for word in ["", "read", "X", "8", "SR", "WSSSSSSSSSS", "W1"] {
            assert!(!is_operation(word.as_bytes()), "{word}");
        }
        for word in ["R", "F", "FF", "FN", "FWFSM", "WZS", "ZRA", "DE"] {
            assert!(is_operation(word.as_bytes()), "{word}");
        }
    }

    #[track_caller]
    fn check(letters: &str, op: Op, flags: &[Flags]) {
        let flags = flags.iter().fold(Flags::default(), |all, flag| all.with(*flag));
        assert_eq!(operation(letters.as_bytes(), Kind::Ordinary), (op, flags));
    }
}
