//! The two passes over the rows of a run, device by device.
//!
//! The first pass keeps the lives of the rows while there is room, so that most tables are read
//! once; what does not fit is read again. Both ways give the same.

use std::collections::BTreeMap;
use std::thread;

use iotrace_model::{DeviceId, Nanos};

use crate::blocks::Filling;
use crate::life::{Life, Lives};
use crate::source::Row;
use crate::sweep::Sweep;
use crate::tally::Tally;

/// Complete rows up to which the first pass keeps what the second needs: 50 MiB.
const KEPT: usize = 1 << 20;
/// The first pass over the devices.
#[derive(Debug)]
pub(crate) struct Tallies {
    pub(crate) devices: BTreeMap<DeviceId, Tally>,
    /// Lives that may still be kept.
    room: usize,
    /// Whether the tallies hold every complete row.
    pub(crate) kept_all: bool,
}

impl Default for Tallies {
    fn default() -> Self {
        Self { devices: BTreeMap::new(), room: KEPT, kept_all: true }
    }
}

impl Tallies {
    pub(crate) fn push(&mut self, rows: &[Row]) {
        for rows in rows.chunk_by(|one, next| one.device == next.device) {
            let Some(Row { device, .. }) = rows.first() else { continue };
            let tally = self.devices.entry(*device).or_default();
            for row in rows {
                let Some(life) = tally.push(row) else { continue };
                if self.room > 0 {
                    self.room -= 1;
                    tally.lives.push(life);
                } else {
                    self.kept_all = false;
                }
            }
        }
        if !self.kept_all {
            self.devices.values_mut().for_each(|tally| tally.lives = Lives::default());
        }
    }

    /// Ends the pass: what the second one starts from.
    pub(crate) fn replays(&mut self) -> Replays {
        let mut devices = BTreeMap::new();
        for (device, tally) in &mut self.devices {
            let outline = std::mem::take(&mut tally.outline);
            if let Some((from, to)) = outline.span()
                && let Some(sweep) = Sweep::new(&outline)
            {
                tally.span = Nanos(to - from);
                devices.insert(*device, (sweep, Filling::new(from, to)));
            }
        }
        Replays { devices }
    }
}

/// The second pass.
#[derive(Debug)]
pub(crate) struct Replays {
    pub(crate) devices: BTreeMap<DeviceId, (Sweep, Filling)>,
}

impl Replays {
    /// From the lives that the first pass kept.
    pub(crate) fn run(&mut self, tallies: &Tallies) {
        thread::scope(|scope| {
            let mut services = Vec::new();
            let mut rest = Vec::new();
            for (device, (sweep, blocks)) in &mut self.devices {
                let Some(tally) = tallies.devices.get(device) else { continue };
                let (service, demand) = sweep.halves();
                services.push((service, &tally.lives));
                rest.push((demand, blocks, &tally.lives));
            }
            scope.spawn(move || {
                for (service, lives) in services {
                    lives.iter().for_each(|life| service.push(life));
                }
            });
            for (demand, blocks, lives) in rest {
                lives.iter().for_each(|life| demand.push(life));
                lives.iter().for_each(|life| blocks.push(life));
            }
        });
    }

    /// From the rows, read again.
    pub(crate) fn push(&mut self, rows: &[Row]) {
        for rows in rows.chunk_by(|one, next| one.device == next.device) {
            let Some(Row { device, .. }) = rows.first() else { continue };
            let Some((sweep, blocks)) = self.devices.get_mut(device) else { continue };
            for life in rows.iter().filter_map(Life::of) {
                sweep.push(&life);
                blocks.push(&life);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use iotrace_model::Op;

    use super::*;
    use crate::source::tests::row;

    #[test]
    fn lives_that_were_kept_give_what_reading_again_gives() {
        let other = |row: Row| Row { device: DeviceId { major: 8, minor: 16 }, ..row };
        let rows: Vec<Row> = (0..20_000_i64)
            .map(|at| {
                let row = row(Op::Read, at * 10, at * 10 + 4, at * 10 + 5 + at * 7 % 90);
                if at % 3 == 0 { other(row) } else { row }
            })
            .collect();
        let pass = |room| {
            let mut tallies = Tallies { room, ..Tallies::default() };
            rows.chunks(1000).for_each(|rows| tallies.push(rows));
            let mut replays = tallies.replays();
            if tallies.kept_all {
                replays.run(&tallies);
            } else {
                assert!(tallies.devices.values().all(|tally| tally.lives.iter().next().is_none()));
                rows.chunks(300).for_each(|rows| replays.push(rows));
            }
            let swept: Vec<_> = replays
                .devices
                .into_values()
                .map(|(sweep, blocks)| format!("{:?} {:?}", sweep.finish(), blocks.finish()))
                .collect();
            (tallies.kept_all, swept)
        };
        let ((kept, one), (kept_less, two)) = (pass(20_000), pass(19_999));
        assert_eq!((kept, kept_less, one.len()), (true, false, 2));
        assert!(one == two);
    }
}
