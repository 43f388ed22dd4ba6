//! The letters in which tracepoints print an operation: `[F](W|D|DE|F|R|Z…|N)[F][A][S][M][U]`.
//!
//! `blk_fill_rwbs` in `kernel/trace/blktrace.c`. A leading F before a core letter is a preflush;
//! `FF` is a flush, which has no preflush of its own. B, a barrier before Linux 2.6.37, is read as
//! sync.

use iotrace_model::{Flags, Op};

/// Reads the letters up to the first NUL; a letter that is not known is passed over.
pub(crate) fn read(letters: &[u8]) -> (Op, Flags) {
    let end = letters.iter().position(|letter| *letter == 0).unwrap_or(letters.len());
    let letters = letters.get(..end).unwrap_or_default();
    let (mut flags, rest) = match letters {
        [b'F', rest @ ..] if b"WDFRZN".iter().any(|core| rest.first() == Some(core)) => {
            (Flags::PREFLUSH, rest)
        }
        _ => (Flags::default(), letters),
    };
    let (op, rest) = match rest {
        [b'D', b'E', rest @ ..] => (Op::SecureErase, rest),
        [b'D', rest @ ..] => (Op::Discard, rest),
        [b'W', rest @ ..] => (Op::Write, rest),
        [b'R', rest @ ..] => (Op::Read, rest),
        [b'F', rest @ ..] => {
            flags = Flags::default();
            (Op::Flush, rest)
        }
        [b'Z', b'A', rest @ ..] => (Op::ZoneAppend, rest),
        [b'Z', b'R', b'A', rest @ ..] | [b'Z', _, rest @ ..] => (Op::ZoneManagement, rest),
        [b'N', rest @ ..] | rest => (Op::Other, rest),
    };
    for letter in rest {
        flags = flags.with(match letter {
            b'F' => Flags::FUA,
            b'A' => Flags::READAHEAD,
            b'S' | b'B' => Flags::SYNC,
            b'M' => Flags::META,
            b'U' => Flags::ATOMIC,
            _ => Flags::default(),
        });
    }
    (op, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(letters: &str, op: Op, flags: &[Flags]) {
        let expected = flags.iter().fold(Flags::default(), |all, flag| all.with(*flag));
        assert_eq!(read(letters.as_bytes()), (op, expected));
    }

    #[test]
    fn letters_are_read_by_place() {
        check("R", Op::Read, &[]);
        check("RA\0garbage", Op::Read, &[Flags::READAHEAD]);
        check("WS", Op::Write, &[Flags::SYNC]);
        check("FF", Op::Flush, &[]);
        check("F", Op::Flush, &[]);
        check("FS", Op::Flush, &[Flags::SYNC]);
        check("FFS", Op::Flush, &[Flags::SYNC]);
        check("FN", Op::Other, &[Flags::PREFLUSH]);
        check("FWS", Op::Write, &[Flags::PREFLUSH, Flags::SYNC]);
        check("FWFSM", Op::Write, &[Flags::PREFLUSH, Flags::FUA, Flags::SYNC, Flags::META]);
        check("DES", Op::SecureErase, &[Flags::SYNC]);
        check("DS", Op::Discard, &[Flags::SYNC]);
        check("ZA", Op::ZoneAppend, &[]);
        check("ZRA", Op::ZoneManagement, &[]);
        check("ZRS", Op::ZoneManagement, &[Flags::SYNC]);
        check("WSU", Op::Write, &[Flags::SYNC, Flags::ATOMIC]);
        check("N", Op::Other, &[]);
        check("", Op::Other, &[]);
    }
}
