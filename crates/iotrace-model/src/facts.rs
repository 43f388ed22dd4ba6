//! What is known of a machine, a device or a run beside its requests.
//!
//! A maintainer asks for dozens of attributes and the kernel grows more; they travel as an
//! ordered tree of named values. Only what a later step computes with has a field of its own.

use crate::{DeviceId, Sector};

/// Named values in the order in which they are to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(pub Vec<(String, Fact)>);

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Words.
    Text(String),
    /// A whole number; the unit is in the name.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// Several values.
    List(Vec<Fact>),
    /// Values with names.
    Table(Facts),
}

impl Facts {
    /// Adds a value under a name; a `None` is left out.
    pub fn set(&mut self, name: &str, value: Option<impl Into<Fact>>) {
        if let Some(value) = value {
            self.0.push((name.to_owned(), value.into()));
        }
    }

    /// The value with that name.
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

impl From<String> for Fact {
    fn from(text: String) -> Self {
        Fact::Text(text)
    }
}

impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Fact::Text(text.to_owned())
    }
}

impl From<i64> for Fact {
    fn from(number: i64) -> Self {
        Fact::Number(number)
    }
}

impl From<bool> for Fact {
    fn from(flag: bool) -> Self {
        Fact::Flag(flag)
    }
}

impl From<Facts> for Fact {
    fn from(facts: Facts) -> Self {
        Fact::Table(facts)
    }
}

/// One device as it was at the start of a run, settings as read back from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its number.
    pub device: DeviceId,
    /// Its kernel name, such as `sda`.
    pub name: String,
    /// Set when only a partition was asked for: its first sector and the first one after it.
    pub range: Option<(Sector, Sector)>,
    /// Whether libata drives it, so that `queue_depth` switches NCQ.
    pub is_ata: bool,
    /// Where libata knows it, when it does.
    pub ata_port: Option<AtaPort>,
    /// `device/queue_depth`; `None` where there is no such knob.
    pub queue_depth: Option<u32>,
    /// Everything else.
    pub facts: Facts,
    /// Nothing but number and name is known, as of a device in an imported trace.
    pub only_named: bool,
}

/// A place in libata's numbering, as its tracepoints print it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtaPort {
    /// `ata_port`: the N of `ataN`.
    pub port: u32,
    /// `ata_dev`: the device on that port.
    pub device: u32,
}
