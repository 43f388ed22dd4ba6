//! Which tracepoints are events, by the number that their samples begin with.

use iotrace_model::{AtaPort, DeviceId, Event};

use crate::bytes::{Place, u16_at};
use crate::format::Format;
use crate::tracepoint::{Context, Tracepoint};

/// The id of the thread in samples of a task that has ended already.
const ENDED: u32 = u32::MAX;
/// In the table: no event.
const NONE: u16 = u16::MAX;

/// The tracepoints whose samples are events.
#[derive(Debug)]
pub(super) struct Tracepoints {
    points: Vec<Known>,
    /// By `common_type`, the place in `points`: ids are small and close together.
    places: Vec<u16>,
}

/// A tracepoint whose samples are events.
#[derive(Debug)]
pub(super) struct Known {
    thread: Option<Place>,
    point: Tracepoint,
}

impl Tracepoints {
    /// Of two formats with one number the first counts.
    pub(super) fn new(formats: &[Format]) -> Self {
        let (mut points, mut places) = (Vec::new(), Vec::new());
        for format in formats {
            let Some(point) = Tracepoint::new(format) else { continue };
            let id = usize::from(format.id);
            if places.len() <= id {
                places.resize(id + 1, NONE);
            }
            let (Some(place), Ok(next)) = (places.get_mut(id), u16::try_from(points.len())) else {
                continue;
            };
            if *place == NONE && next != NONE {
                *place = next;
                points.push(Known { thread: format.place("common_pid"), point });
            }
        }
        Self { points, places }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The tracepoint of a sample's raw data; `None` when it is no event. Fails when the data are
    /// too short to tell.
    #[inline]
    pub(super) fn find(&self, raw: &[u8]) -> Result<Option<&Known>, TooShort> {
        let id = u16_at(raw, 0).ok_or(TooShort)?;
        let place = self.places.get(usize::from(id)).copied().unwrap_or(NONE);
        Ok(self.points.get(usize::from(place)))
    }
}

/// A sample without the number of its tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooShort;

impl Known {
    /// The thread of a sample: the record's own, or that of the raw data where the record has none.
    #[inline]
    pub(super) fn thread(&self, tid: Option<u32>, raw: &[u8]) -> u32 {
        match tid {
            Some(tid) if tid != ENDED => tid,
            Some(_) | None => {
                let thread = self.thread.and_then(|place| place.number(raw));
                thread.and_then(|thread| u32::try_from(thread).ok()).unwrap_or(0)
            }
        }
    }

    /// `None` when the sample is shorter than its format.
    #[inline]
    pub(super) fn read(
        &self,
        raw: &[u8],
        context: Context,
        ports: &[(AtaPort, DeviceId)],
    ) -> Option<Event> {
        self.point.read(raw, context, ports)
    }
}
