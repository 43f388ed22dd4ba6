//! Remaps in the trace of a partition.
//!
//! blkparse prints a remap on the device below. In the trace of a partition that is the disk, while
//! every other line names the partition and counts its sectors from the start of the disk. Such
//! remaps are put back on the partition, so that the text tells of one device, as the binary trace
//! does. Whether a pair of devices is one of these shows at the bio that follows its first remap on
//! the same CPU and thread, with the same sector: it stands on the device that is traced. A remap
//! waits for that bio only until its pair is known.

use iotrace_model::{Action, DeviceId, Event};

/// Pairs of devices that are remembered, and remaps that wait.
const MOST: usize = 64;
/// Events that a remap waits for.
const PATIENCE: u64 = 256;

/// What is known of the remaps so far.
#[derive(Debug, Default)]
pub(super) struct Remaps {
    pairs: Vec<Pair>,
    /// Remaps whose pair is not known, each with the count of events at its place.
    waiting: Vec<(Event, u64)>,
    taken: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    below: DeviceId,
    above: DeviceId,
    /// Whether the one above is a partition of the one below, and traced instead of it.
    is_partition: bool,
}

impl Remaps {
    /// Takes the next event; those that are certain go to `out`, in their order.
    #[inline]
    pub(super) fn take(&mut self, mut event: Event, mut out: impl FnMut(Event)) {
        self.taken += 1;
        if let (Action::Remap, Some(below), Some(remap)) = (event.action, event.device, event.remap)
        {
            let known = self.pairs.iter().find(|p| p.below == below && p.above == remap.device);
            match known {
                Some(pair) if pair.is_partition => event.device = Some(pair.above),
                None if self.waiting.len() < MOST => {
                    self.waiting.push((event, self.taken));
                    return;
                }
                Some(_) | None => {}
            }
        } else if !self.waiting.is_empty() {
            self.settle(&event, &mut out);
        }
        out(event);
    }

    /// Lets everything out that waits; `out` gets it as it is printed.
    pub(super) fn finish(&mut self, mut out: impl FnMut(Event)) {
        for (event, _) in self.waiting.drain(..) {
            out(event);
        }
    }

    /// Devices whose remaps are shown on the partition: the disk, the partition.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (DeviceId, DeviceId)> {
        self.pairs.iter().filter(|pair| pair.is_partition).map(|pair| (pair.below, pair.above))
    }

    /// Lets go of the remaps that this event decides, and of those that waited too long.
    fn settle(&mut self, event: &Event, out: &mut impl FnMut(Event)) {
        let Self { pairs, waiting, taken } = self;
        let is_bio = matches!(event.action, Action::Queue | Action::Get);
        waiting.retain(|(remap, since)| {
            let follows = is_bio && remap.cpu == event.cpu && remap.pid == event.pid;
            if !follows && *taken - since < PATIENCE {
                return true;
            }
            let mut remap = *remap;
            let above = remap.remap.map(|from| from.device);
            if follows && remap.sector == event.sector && remap.sector.is_some() {
                let is_partition = event.device == above && event.device != remap.device;
                if is_partition || event.device == remap.device {
                    let pair = remap.device.zip(above);
                    let pair = pair.map(|(below, above)| Pair { below, above, is_partition });
                    pairs.extend(pair.filter(|_| pairs.len() < MOST));
                }
                if is_partition {
                    remap.device = above;
                }
            }
            out(remap);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use iotrace_testkit::EventBuilder;

    use super::*;

    const DISK: DeviceId = DeviceId { major: 8, minor: 0 };
    const PARTITION: DeviceId = DeviceId { major: 8, minor: 3 };
    const MAPPED: DeviceId = DeviceId { major: 253, minor: 0 };

    #[test]
    fn remaps_of_a_traced_partition_stand_on_it() {
        let mut remaps = Remaps::default();
        let lines = [
            remap(DISK, PARTITION, 2072),
            bio(PARTITION, 2072),
            remap(DISK, PARTITION, 2080),
            bio(PARTITION, 2080),
        ];
        assert_eq!(devices(&mut remaps, &lines), [PARTITION; 4]);
        assert_eq!(remaps.partitions().collect::<Vec<_>>(), [(DISK, PARTITION)]);
    }

    #[test]
    fn remaps_of_a_traced_disk_stay_on_it() {
        let lines = [
            remap(DISK, PARTITION, 2072),
            bio(DISK, 2072),
            remap(DISK, PARTITION, 2080),
            bio(DISK, 2080),
        ];
        assert_eq!(devices(&mut Remaps::default(), &lines), [DISK; 4]);
    }

    #[test]
    fn a_chain_of_remaps_does_not_lose_the_disk() {
        let lines = [remap(PARTITION, MAPPED, 24), remap(DISK, PARTITION, 2072), bio(DISK, 2072)];
        assert_eq!(devices(&mut Remaps::default(), &lines), [PARTITION, DISK, DISK]);
    }

    #[test]
    fn a_remap_without_its_bio_comes_as_it_is() {
        assert_eq!(devices(&mut Remaps::default(), &[remap(DISK, PARTITION, 8)]), [DISK]);
        let lines = [remap(DISK, PARTITION, 2072), bio(MAPPED, 7)];
        assert_eq!(devices(&mut Remaps::default(), &lines), [DISK, MAPPED]);
    }

    fn devices(remaps: &mut Remaps, lines: &[Event]) -> Vec<DeviceId> {
        let mut out = Vec::new();
        for line in lines {
            remaps.take(*line, |event| out.extend(event.device));
        }
        remaps.finish(|event| out.extend(event.device));
        out
    }

    fn remap(below: DeviceId, above: DeviceId, sector: u64) -> Event {
        EventBuilder::new(Action::Remap, 0)
            .device(Some(below))
            .sectors(sector, 8)
            .remap(above, sector - 8)
            .build()
    }

    fn bio(device: DeviceId, sector: u64) -> Event {
        EventBuilder::new(Action::Queue, 0).device(Some(device)).sectors(sector, 8).build()
    }
}
