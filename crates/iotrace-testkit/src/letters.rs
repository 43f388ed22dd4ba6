//! The letters of an operation, `[F](W|D|DE|F|R|ZA|ZR|N)[F][A][S][M][U]`, read and written.
//!
//! `FF` is a flush; a flush has no preflush of its own.

use iotrace_model::{Flags, Op};

const CORES: [(&str, Op); 8] = [
    ("DE", Op::SecureErase),
    ("D", Op::Discard),
    ("W", Op::Write),
    ("R", Op::Read),
    ("F", Op::Flush),
    ("ZA", Op::ZoneAppend),
    ("ZR", Op::ZoneManagement),
    ("N", Op::Other),
];

const MODIFIERS: [(char, Flags); 5] = [
    ('F', Flags::FUA),
    ('A', Flags::READAHEAD),
    ('S', Flags::SYNC),
    ('M', Flags::META),
    ('U', Flags::ATOMIC),
];

/// `None` for anything that the grammar does not have.
pub(crate) fn read(letters: &str) -> Option<(Op, Flags)> {
    let preflush = letters.strip_prefix('F').filter(|rest| core(rest).is_some());
    let (mut flags, letters) = match preflush {
        Some(rest) => (Flags::PREFLUSH, rest),
        None => (Flags::default(), letters),
    };
    let (op, rest) = core(letters)?;
    if op == Op::Flush {
        flags = Flags::default();
    }
    for letter in rest.chars() {
        let (_, flag) = MODIFIERS.into_iter().find(|(known, _)| *known == letter)?;
        flags = flags.with(flag);
    }
    Some((op, flags))
}

fn core(letters: &str) -> Option<(Op, &str)> {
    CORES.into_iter().find_map(|(core, op)| Some((op, letters.strip_prefix(core)?)))
}

/// As the kernel prints them.
pub(crate) fn write(op: Op, flags: Flags) -> String {
    let mut letters = String::new();
    if flags.has(Flags::PREFLUSH) || op == Op::Flush {
        letters.push('F');
    }
    letters.extend(CORES.iter().find(|(_, known)| *known == op).map(|(core, _)| *core));
    let present = MODIFIERS.iter().filter(|(_, flag)| flags.has(*flag));
    letters.extend(present.map(|(letter, _)| *letter));
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let flags = [Flags::default(), Flags::SYNC, Flags::FUA.with(Flags::META)];
        for op in Op::ALL {
            for flags in flags {
                assert_eq!(read(&write(op, flags)), Some((op, flags)));
            }
        }
        let preflush = Flags::PREFLUSH.with(Flags::SYNC);
        assert_eq!(write(Op::Write, preflush), "FWS");
        assert_eq!(read("FWS"), Some((Op::Write, preflush)));
        assert_eq!(read("FN"), Some((Op::Other, Flags::PREFLUSH)));
        assert_eq!(read("WX"), None);
    }
}
