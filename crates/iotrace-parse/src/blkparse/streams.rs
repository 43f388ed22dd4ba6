//! Sequence numbers: how many lines are missing, and where another capture begins.
//!
//! blktrace counts the events of each traced device on each CPU. A line names the device on which
//! its event happened, which for a remap is the device below and need not be the traced one: in the
//! trace of a partition the remaps stand on the disk. So a line belongs to the stream of its CPU
//! that it continues; if it continues none, to the stream of its device, and a remap on a device
//! without a stream of its own to the one that it is least ahead of.
//!
//! A text of several captures, one behind the other, begins anew where on one device and CPU both
//! the number and the time fall (a text printed while it was recorded is in order on each CPU, but
//! for times before the first event, which blkparse takes for late ones), where a line of time 0
//! comes late, and where the time falls behind sums.

use iotrace_model::{Action, DeviceId, Event, Nanos};

use super::MOST_CPUS;

/// Streams that are followed on each.
const MOST_STREAMS: usize = 1 << 6;

/// What a line means for the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on; so many lines are missing before it.
    Next(u64),
    /// It begins another capture.
    Restart,
}

/// Streams of all CPUs.
#[derive(Debug, Default)]
pub(super) struct Streams {
    cpus: Vec<Vec<Stream>>,
    /// Time of the latest line.
    latest: Option<Nanos>,
}

/// The lines of one traced device on one CPU.
#[derive(Debug)]
struct Stream {
    device: Option<DeviceId>,
    /// Whether anything but remaps stands on the device.
    is_traced: bool,
    sequence: u64,
    /// Number and time of the last line on the device itself.
    own: Option<(u64, Nanos)>,
}

impl Streams {
    /// Takes the next line. `is_counted` when it bears a number of its own and a CPU;
    /// `is_behind_sums` when sums stand between it and the line before.
    #[inline]
    pub(super) fn step(&mut self, event: &Event, is_counted: bool, is_behind_sums: bool) -> Step {
        let falls = self.latest.is_some_and(|latest| event.time < latest);
        if falls && is_behind_sums {
            return Step::Restart;
        }
        let cpu = Some(event.cpu.0).filter(|cpu| *cpu < MOST_CPUS);
        let place = cpu.and_then(|cpu| usize::try_from(cpu).ok());
        let Some(place) = place.filter(|_| is_counted) else {
            let begins = falls && event.time == Nanos(0) && !is_counted;
            if begins {
                return Step::Restart;
            }
            self.latest = self.latest.max(Some(event.time));
            return Step::Next(0);
        };
        if self.cpus.len() <= place {
            self.cpus.resize_with(place + 1, Vec::new);
        }
        let Some(streams) = self.cpus.get_mut(place) else { return Step::Next(0) };
        if falls && begins(streams, event) {
            return Step::Restart;
        }
        self.latest = self.latest.max(Some(event.time));
        Step::Next(advance(streams, event))
    }

    /// Forgets the capture that ended.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Whether a line whose time falls begins another capture.
fn begins(streams: &[Stream], event: &Event) -> bool {
    let own = streams.iter().find(|stream| stream.device == event.device);
    let own = own.and_then(|stream| stream.own);
    if event.time == Nanos(0) {
        return own.is_none_or(|(sequence, _)| event.sequence <= sequence);
    }
    event.action != Action::Remap
        && event.time > Nanos(0)
        && own.is_some_and(|(sequence, time)| event.sequence < sequence && event.time < time)
}

/// Lines that are missing before this one.
#[inline]
fn advance(streams: &mut Vec<Stream>, event: &Event) -> u64 {
    let is_remap = event.action == Action::Remap;
    let continues = |stream: &Stream| stream.sequence.checked_add(1) == Some(event.sequence);
    let mut own = None;
    let mut found = None;
    for (place, stream) in streams.iter().enumerate() {
        if stream.device == event.device {
            own = Some(place);
            if continues(stream) {
                found = own;
                break;
            }
        } else if found.is_none() && continues(stream) && (is_remap || !stream.is_traced) {
            found = Some(place);
        }
    }
    let is_own_traced =
        own.and_then(|place| streams.get(place)).is_some_and(|stream| stream.is_traced);
    if found.is_none() {
        found = if is_remap && !is_own_traced { behind(streams, event.sequence) } else { own };
    } else if !is_remap && is_own_traced {
        found = own;
    }
    let Some(stream) = found.and_then(|place| streams.get_mut(place)) else {
        if streams.len() < MOST_STREAMS {
            streams.push(Stream {
                device: event.device,
                is_traced: !is_remap,
                sequence: event.sequence,
                own: Some((event.sequence, event.time)),
            });
        }
        return 0;
    };
    if event.time < Nanos(0) && event.sequence < stream.sequence {
        // Printed too late, see above.
        return 0;
    }
    let missing = event.sequence.saturating_sub(stream.sequence).saturating_sub(1);
    stream.sequence = event.sequence;
    if !is_remap && !stream.is_traced {
        // The remaps before stand on another device, but in the trace of this one.
        stream.device = event.device;
        stream.is_traced = true;
    }
    if stream.device == event.device {
        stream.own = Some((event.sequence, event.time));
    }
    missing
}

/// The stream that a line is least ahead of.
fn behind(streams: &[Stream], sequence: u64) -> Option<usize> {
    let before = streams.iter().enumerate().filter(|(_, stream)| stream.sequence < sequence);
    before.max_by_key(|(_, stream)| stream.sequence).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use iotrace_model::Action::{Issue, Queue, Remap};
    use iotrace_testkit::EventBuilder;

    use super::*;
    use Step::{Next, Restart};

    /// CPU, device, number, time, action, and what the line means.
    type Line = (u32, (u32, u32), u64, i64, Action, Step);

    const DISK: (u32, u32) = (8, 0);
    const PARTITION: (u32, u32) = (8, 3);
    const MAPPED: (u32, u32) = (253, 0);

    #[test]
    fn gaps_are_counted_on_each_cpu() {
        check(&[
            (0, DISK, 1, 10, Queue, Next(0)),
            (1, DISK, 7, 20, Queue, Next(0)),
            (0, DISK, 5, 30, Queue, Next(3)),
            (1, DISK, 8, 25, Queue, Next(0)),
            (0, DISK, 6, 32, Issue, Next(0)),
        ]);
    }

    #[test]
    fn remaps_of_a_partition_stand_on_the_disk_and_leave_no_gap() {
        check(&[
            (0, DISK, 1, 10, Remap, Next(0)),
            (0, PARTITION, 2, 11, Queue, Next(0)),
            (0, PARTITION, 3, 12, Queue, Next(0)),
            (0, DISK, 4, 13, Remap, Next(0)),
            (0, PARTITION, 5, 14, Queue, Next(0)),
            (0, DISK, 8, 15, Remap, Next(2)),
            (0, PARTITION, 9, 16, Queue, Next(0)),
        ]);
    }

    #[test]
    fn traces_of_several_devices_count_for_themselves() {
        check(&[
            (0, MAPPED, 1, 10, Queue, Next(0)),
            (0, DISK, 1, 11, Remap, Next(0)),
            (0, DISK, 2, 12, Queue, Next(0)),
            (0, MAPPED, 2, 13, Queue, Next(0)),
            (0, DISK, 3, 14, Remap, Next(0)),
            (0, MAPPED, 3, 15, Queue, Next(0)),
            (0, DISK, 5, 16, Remap, Next(1)),
        ]);
    }

    #[test]
    fn a_capture_begins_where_number_and_time_fall() {
        check(&[
            (0, DISK, 1, 0, Queue, Next(0)),
            (0, DISK, 2, 10, Queue, Next(0)),
            (0, DISK, 1, 5, Queue, Restart),
        ]);
        check(&[
            (0, DISK, 1, 0, Queue, Next(0)),
            (1, DISK, 3, 10, Queue, Next(0)),
            (2, DISK, 1, 0, Queue, Restart),
        ]);
        // Printed while recorded: CPUs apart from each other, each in order.
        check(&[
            (0, DISK, 4, 100, Queue, Next(0)),
            (1, DISK, 1, 10, Queue, Next(0)),
            (0, DISK, 5, 110, Queue, Next(0)),
            (1, DISK, 2, 20, Queue, Next(0)),
        ]);
        // Before the first event, and taken for the latest.
        check(&[
            (0, DISK, 1, 0, Queue, Next(0)),
            (1, DISK, 2, 10, Queue, Next(0)),
            (1, DISK, 1, -10, Queue, Next(0)),
            (1, DISK, 3, 11, Queue, Next(0)),
        ]);
        // The number alone falls at 2^32.
        check(&[(0, DISK, 4_294_967_295, 100, Queue, Next(0)), (0, DISK, 0, 101, Queue, Next(0))]);
    }

    #[test]
    fn behind_sums_a_time_that_falls_is_enough() {
        let mut streams = Streams::default();
        let event = |sequence, time| EventBuilder::new(Queue, time).sequence(sequence).build();
        assert_eq!(streams.step(&event(1, 10), true, false), Next(0));
        assert_eq!(streams.step(&event(2, 12), true, true), Next(0));
        assert_eq!(streams.step(&event(3, 11), true, true), Restart);
    }

    #[test]
    fn without_numbers_a_capture_begins_at_time_zero() {
        let mut streams = Streams::default();
        let event = |time| EventBuilder::new(Queue, time).build();
        for (time, expected) in
            [(0, Next(0)), (0, Next(0)), (9, Next(0)), (3, Next(0)), (0, Restart)]
        {
            assert_eq!(streams.step(&event(time), false, false), expected);
        }
    }

    #[track_caller]
    fn check(lines: &[Line]) {
        let mut streams = Streams::default();
        for (place, (cpu, (major, minor), sequence, time, action, expected)) in
            lines.iter().enumerate()
        {
            let device = DeviceId { major: *major, minor: *minor };
            let event = EventBuilder::new(*action, *time)
                .cpu(*cpu)
                .sequence(*sequence)
                .device(Some(device))
                .build();
            assert_eq!(streams.step(&event, true, false), *expected, "line {place}");
        }
    }
}
