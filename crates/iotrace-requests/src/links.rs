//! Remaps on their way down: which bio of an upper device becomes which place of a lower one.
//!
//! A remap event comes just before the lower device's queue event (or, for md, instead of it), so
//! only the latest remaps are kept.

use std::collections::VecDeque;

use iotrace_model::{Comm, DeviceId, Sector, Stamp};

use crate::open::Name;

/// Remaps that may wait for their queue event at once; beyond it the oldest are dropped.
const MOST: usize = 1024;

/// One remap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The lower device.
    pub(crate) device: DeviceId,
    /// The place there; `None` for an empty flush.
    pub(crate) sector: Option<Sector>,
    /// The record above, where there is one.
    pub(crate) parent: Option<Name>,
    /// Thread that asked for it at the top.
    pub(crate) pid: u32,
    /// Its name.
    pub(crate) comm: Comm,
    /// Its cgroup.
    pub(crate) cgroup: Option<u64>,
    /// When the remap happened: the arrival, when the lower device shows no queue event.
    pub(crate) stamp: Stamp,
}

/// The latest remaps.
#[derive(Debug, Default)]
pub(crate) struct Links(VecDeque<Link>);

impl Links {
    /// Keeps a remap.
    pub(crate) fn push(&mut self, link: Link) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(link);
    }

    /// Takes the latest remap to a place.
    pub(crate) fn take(&mut self, device: DeviceId, sector: Option<Sector>) -> Option<Link> {
        let place =
            self.0.iter().rposition(|link| link.device == device && link.sector == sector)?;
        self.0.remove(place)
    }
}
