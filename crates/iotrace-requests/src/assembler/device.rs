//! What is known of each device beside the records themselves.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use iotrace_model::{DeviceId, Op, Sector};

use super::flight::Flight;
use super::shown::{Ended, Shown};
use crate::chains::{PlaceHasher, Slot};
use crate::open::Open;

/// Writes whose empty completion may be awaited at once on a device.
const MOST_STAGED: usize = 256;

/// One device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) id: DeviceId,
    /// Open records of it.
    pub(super) open: u32,
    /// Of these, those in doubt after a loss: while there are any, counts are not known.
    pub(super) tainted: u32,
    /// Of the open records, bios that no request carries yet.
    pub(super) queued: u32,
    /// What its events have been so far.
    pub(super) shown: Shown,
    /// Its latest rows that were issued and completed.
    pub(super) ended: Ended,
    /// Records that the driver has.
    pub(super) flight: Flight,
    /// Empty flush bios that wait for their completion, oldest first.
    pub(super) flushes: Vec<Slot>,
    /// Requests without a place that wait for the driver, oldest first.
    pub(super) aside: Vec<Slot>,
    /// Writes done but for their empty completion: operation, start, end.
    pub(super) staged: VecDeque<(Op, Sector, Sector)>,
    /// Sector after the last request that was issued.
    pub(super) last_end: Option<Sector>,
}

impl Device {
    /// Counts a record that is gone.
    pub(super) fn count_out(&mut self, open: &Open) {
        self.open = self.open.saturating_sub(1);
        self.tainted = self.tainted.saturating_sub(u32::from(open.tainted));
        self.queued = self.queued.saturating_sub(u32::from(open.is_queued()));
    }

    /// Removes a record from the lists of what has no place; linear in their lengths.
    pub(super) fn unlist(&mut self, slot: Slot, open: &Open) {
        if open.request.sector.is_none() {
            self.flushes.retain(|other| *other != slot);
            self.aside.retain(|other| *other != slot);
        }
    }

    /// Remembers a write whose empty completion is still to come.
    pub(super) fn stage(&mut self, op: Op, start: Sector, end: Sector) {
        if self.staged.len() == MOST_STAGED {
            self.staged.pop_front();
        }
        self.staged.push_back((op, start, end));
    }

    /// Takes the write that an empty completion belongs to. Kernels differ in whether it names the
    /// start or the end.
    pub(super) fn unstage(&mut self, op: Op, sector: Sector) -> bool {
        let place = self.staged.iter().position(|(staged_op, start, end)| {
            *staged_op == op && (*start == sector || *end == sector)
        });
        place.is_some_and(|place| self.staged.remove(place).is_some())
    }
}

/// All devices, in the order in which they came to be known.
#[derive(Debug, Default)]
pub(super) struct Devices {
    indices: HashMap<DeviceId, usize, BuildHasherDefault<PlaceHasher>>,
    list: Vec<Device>,
    /// The answer of the last look-up: most events are of the device of the one before.
    latest: Option<(DeviceId, usize)>,
}

impl Devices {
    /// The index of a device, which is made known if it was not.
    pub(super) fn index(&mut self, id: DeviceId) -> usize {
        if let Some((latest, index)) = self.latest
            && latest == id
        {
            return index;
        }
        let list = &mut self.list;
        let index = *self.indices.entry(id).or_insert_with(|| {
            list.push(Device {
                id,
                open: 0,
                tainted: 0,
                queued: 0,
                shown: Shown::default(),
                ended: Ended::default(),
                flight: Flight::default(),
                flushes: Vec::new(),
                aside: Vec::new(),
                staged: VecDeque::new(),
                last_end: None,
            });
            list.len() - 1
        });
        self.latest = Some((id, index));
        index
    }

    /// How many devices are known; their indices are those below.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// A device by an index that `index` gave.
    pub(super) fn get(&self, index: usize) -> &Device {
        self.list.get(index).expect("indices come from `index`, and no device is ever removed")
    }

    /// The same, to change it.
    pub(super) fn get_mut(&mut self, index: usize) -> &mut Device {
        self.list.get_mut(index).expect("indices come from `index`, and no device is ever removed")
    }

    /// Removes slots from every list of what has no place.
    pub(super) fn drop_where(&mut self, leaves: impl Fn(Slot) -> bool) {
        for device in &mut self.list {
            device.flushes.retain(|slot| !leaves(*slot));
            device.aside.retain(|slot| !leaves(*slot));
        }
    }
}
