//! Values to the texts that stand in the tables, and back.
//!
//! Reading back gives the same value, with two exceptions that the text cannot carry: bytes of a
//! `Comm` that are not UTF-8, and bits of `Flags` without a name.

use iotrace_model::{Action, Comm, DeviceId, Flags, Op, Protocol, Status};

use crate::cells::Stored;

pub(crate) fn store_device(device: DeviceId) -> Stored {
    Stored::Text(device.to_string())
}

/// A stranger is written as its number.
pub(crate) fn store_action(action: Action) -> Stored {
    Stored::Text(match (action.name(), action) {
        (None, Action::Unknown(code)) => code.to_string(),
        (name, _) => name.unwrap_or_default().to_owned(),
    })
}

pub(crate) fn store_op(op: Op) -> Stored {
    Stored::Text(op.name().to_owned())
}

pub(crate) fn store_flags(flags: Flags) -> Stored {
    Stored::Text(flags.to_string())
}

pub(crate) fn store_comm(comm: Comm) -> Stored {
    Stored::Text(comm.to_string())
}

/// A stranger is written as its number.
pub(crate) fn store_protocol(protocol: Protocol) -> Stored {
    Stored::Text(match (protocol.name(), protocol) {
        (None, Protocol::Unknown(code)) => code.to_string(),
        (name, _) => name.unwrap_or_default().to_owned(),
    })
}

pub(crate) fn store_status(status: Status) -> Stored {
    Stored::Text(status.name().to_owned())
}

/// Every protocol with a word.
const PROTOCOLS: [Protocol; 6] = [
    Protocol::AtaNcq,
    Protocol::AtaNcqNoData,
    Protocol::AtaDma,
    Protocol::AtaPio,
    Protocol::AtaNoData,
    Protocol::Atapi,
];

/// Reads an `action` column back.
pub(crate) fn action(text: &str) -> Option<Action> {
    let named = Action::NAMED.into_iter().find(|action| action.name() == Some(text));
    named.or_else(|| text.parse().ok().map(Action::Unknown))
}

/// Reads a `flags` column back.
pub(crate) fn flags(text: &str) -> Option<Flags> {
    let mut flags = Flags::default();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let (flag, _) = Flags::NAMES.into_iter().find(|(_, name)| *name == word)?;
        flags = flags.with(flag);
    }
    Some(flags)
}

/// Reads a `protocol` column back.
pub(crate) fn protocol(text: &str) -> Option<Protocol> {
    let named = PROTOCOLS.into_iter().find(|protocol| protocol.name() == Some(text));
    named.or_else(|| text.parse().ok().map(Protocol::Unknown))
}

/// Reads a `status` column back.
pub(crate) fn status(text: &str) -> Option<Status> {
    Status::ALL.into_iter().find(|status| status.name() == text)
}

/// Reads a `comm` column back.
#[expect(clippy::unnecessary_wraps, reason = "every column of words has a reader of this form")]
pub(crate) fn comm(text: &str) -> Option<Comm> {
    Some(Comm::new(text.as_bytes()))
}

/// Reads an `op` column back.
pub(crate) fn op(text: &str) -> Option<Op> {
    Op::from_name(text)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    #[test]
    fn every_word_reads_back() {
        for value in Action::NAMED.into_iter().chain([Action::Unknown(77)]) {
            check(value, store_action, action);
        }
        for value in Op::ALL {
            check(value, store_op, op);
        }
        for value in Status::ALL {
            check(value, store_status, status);
        }
        for bits in 0..64 {
            check(Flags(bits), store_flags, flags);
        }
        for value in PROTOCOLS.into_iter().chain([Protocol::Unknown(9)]) {
            check(value, store_protocol, protocol);
        }
        check(DeviceId { major: 259, minor: 3 }, store_device, DeviceId::parse);
    }

    #[test]
    fn a_stranger_is_written_as_its_number() {
        assert_eq!(store_action(Action::Unknown(77)), Stored::Text("77".to_owned()));
        assert_eq!(store_protocol(Protocol::Unknown(9)), Stored::Text("9".to_owned()));
    }

    #[track_caller]
    fn check<T: Copy + Debug + PartialEq>(
        value: T,
        store: fn(T) -> Stored,
        read: fn(&str) -> Option<T>,
    ) {
        let Stored::Text(text) = store(value) else { panic!("{value:?} is stored as no text") };
        assert_eq!(read(&text), Some(value));
        assert_eq!(read("no such word"), None);
    }
}
