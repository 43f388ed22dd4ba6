//! Model values as the text of a column, formatted once and then looked up; and back.
//!
//! Reading back gives the same value, with two exceptions that the text cannot carry: bytes of a
//! `Comm` that are not UTF-8, and bits of `Flags` without a name.

use std::collections::HashMap;
use std::hash::Hash;

use iotrace_model::{Action, Comm, DeviceId, Flags, Op, Protocol, Status};

/// Texts already made, so that the hot path neither formats nor allocates.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    devices: Cache<DeviceId>,
    comms: Cache<Comm>,
    flags: Cache<Flags>,
    codes: Cache<u16>,
}

#[derive(Debug)]
struct Cache<K>(HashMap<K, String>);

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// More distinct values than this are formatted anew each time: a hostile trace of endless
/// process names must not fill the memory.
const MOST: usize = 1 << 16;

impl<K: Copy + Eq + Hash + ToString> Cache<K> {
    fn get(&mut self, key: K) -> &str {
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            self.0.clear();
        }
        self.0.entry(key).or_insert_with(|| key.to_string())
    }
}

impl Texts {
    pub(crate) fn device(&mut self, device: DeviceId) -> &str {
        self.devices.get(device)
    }

    /// `None` where the source had no name.
    pub(crate) fn comm(&mut self, comm: Comm) -> Option<&str> {
        (!comm.is_empty()).then(|| self.comms.get(comm))
    }

    pub(crate) fn flags(&mut self, flags: Flags) -> &str {
        self.flags.get(flags)
    }

    pub(crate) fn action(&mut self, action: Action) -> &str {
        match (action.name(), action) {
            (None, Action::Unknown(code)) => self.codes.get(code),
            (name, _) => name.unwrap_or_default(),
        }
    }

    pub(crate) fn protocol(&mut self, protocol: Protocol) -> &str {
        match (protocol.name(), protocol) {
            (None, Protocol::Unknown(code)) => self.codes.get(code),
            (name, _) => name.unwrap_or_default(),
        }
    }
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
        let mut texts = Texts::default();
        for value in Action::NAMED.into_iter().chain([Action::Unknown(77)]) {
            check(value, texts.action(value), action);
        }
        for value in Op::ALL {
            check(value, value.name(), op);
        }
        for value in Status::ALL {
            check(value, value.name(), status);
        }
        for bits in 0..64 {
            check(Flags(bits), texts.flags(Flags(bits)), flags);
        }
        for value in PROTOCOLS.into_iter().chain([Protocol::Unknown(9)]) {
            check(value, texts.protocol(value), protocol);
        }
    }

    #[test]
    fn a_stranger_is_written_as_its_number() {
        assert_eq!(Texts::default().action(Action::Unknown(77)), "77");
        assert_eq!(Texts::default().protocol(Protocol::Unknown(9)), "9");
    }

    #[test]
    fn texts_stay_right_when_there_are_too_many_to_keep() {
        let mut texts = Texts::default();
        for round in 0..2 {
            for minor in 0..70_000 {
                let device = DeviceId { major: 8, minor };
                assert_eq!(texts.device(device), device.to_string(), "round {round}");
            }
        }
        assert!(texts.devices.0.len() <= MOST);
    }

    #[track_caller]
    fn check<T: Copy + Debug + PartialEq>(value: T, text: &str, read: fn(&str) -> Option<T>) {
        assert_eq!(read(text), Some(value));
        assert_eq!(read("no such word"), None);
    }
}
