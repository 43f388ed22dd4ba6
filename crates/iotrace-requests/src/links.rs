//! Remaps on their way down: which bio of an upper device becomes which place of a lower one.
//!
//! A remap event comes just before the lower device's queue event (or, for md, instead of it), so
//! only the latest remaps are kept. They are found by place, since in the trace of a partition no
//! event ever takes them.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use iotrace_model::{Comm, Cpu, DeviceId, Sector, Stamp};

use crate::chains::PlaceHasher;
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

type Place = (DeviceId, Option<Sector>);

/// The latest remaps, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// The remaps from number `first` on, each with the number of the one before it to its place;
    /// `None` where it was taken.
    kept: VecDeque<Option<(Link, Option<u64>)>>,
    first: u64,
    /// Number of the latest remap to each place. Only looked up, never walked.
    latest: HashMap<Place, u64, BuildHasherDefault<PlaceHasher>>,
}

impl Links {
    /// Keeps a remap.
    pub(crate) fn push(&mut self, link: Link) {
        if self.kept.len() == MOST {
            self.drop_oldest();
        }
        let number = self.first + self.kept.len() as u64;
        let before = self.latest.insert((link.device, link.sector), number);
        self.kept.push_back(Some((link, before)));
    }

    /// Takes the latest remap to a place.
    pub(crate) fn take(&mut self, device: DeviceId, sector: Option<Sector>) -> Option<Link> {
        if self.latest.is_empty() {
            return None;
        }
        let number = self.latest.remove(&(device, sector))?;
        let (link, before) = self.kept.get_mut(self.index(number)?)?.take()?;
        if let Some(before) = before.filter(|number| *number >= self.first) {
            self.latest.insert((device, sector), before);
        }
        Some(link)
    }

    /// Takes the first of two remaps of one bio, the second of which comes from a place. Where a
    /// partition lies between, the kernel names its disk, the target of the second, as the target
    /// of the first: that is believed of the same CPU, as nothing lies between the two.
    pub(crate) fn take_first(
        &mut self,
        from: DeviceId,
        disk: DeviceId,
        sector: Option<Sector>,
        cpu: Cpu,
    ) -> Option<Link> {
        if let Some(link) = self.take(from, sector) {
            return Some(link);
        }
        let number = *self.latest.get(&(disk, sector))?;
        let (link, _) = self.kept.get(self.index(number)?)?.as_ref()?;
        if link.stamp.cpu == cpu { self.take(disk, sector) } else { None }
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn drop_oldest(&mut self) {
        if let Some(Some((link, _))) = self.kept.pop_front() {
            let place = (link.device, link.sector);
            if self.latest.get(&place) == Some(&self.first) {
                self.latest.remove(&place);
            }
        }
        self.first += 1;
    }
}
