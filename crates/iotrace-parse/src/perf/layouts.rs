//! Which layout a record has, when the events of a file differ.
//!
//! Many files have one layout for all. Where they differ, perf makes every sample begin and every
//! trailer end with the id of its event (`PERF_SAMPLE_IDENTIFIER`), and the file lists the ids. The
//! kernel counts ids up, so those of a file are close together and stand in a table.

use super::sample::Layout;
use crate::bytes::u64_at;

/// The layouts of a file's events.
#[derive(Clone, Debug, Default)]
pub(super) struct Layouts {
    /// That of the tracepoints.
    main: Layout,
    /// Whether ids need not be looked at.
    is_uniform: bool,
    /// Every kind once.
    kinds: Vec<Kind>,
    /// By id minus `first`, the place in `kinds`.
    near: Vec<u16>,
    first: u64,
    /// The same for ids that are far from the first, sorted.
    far: Vec<(u64, u16)>,
}

/// Whose records carry an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tracepoint's, with the main layout or another.
    Tracepoint(Layout),
    /// Another event's: its samples are of no use here.
    Other(Layout),
}

/// Bytes of the table are bounded by this number of ids.
const NEAR: u64 = 1 << 16;
/// Layouts that differ, at most; a file has as many as it has sorts of events.
const MOST_KINDS: u16 = 256;
/// In the table: no such id.
const NONE: u16 = u16::MAX;

impl Kind {
    fn layout(&self) -> &Layout {
        match self {
            Kind::Tracepoint(layout) | Kind::Other(layout) => layout,
        }
    }
}

impl Layouts {
    /// One layout for all records.
    pub(super) fn uniform(main: Layout) -> Self {
        Self { main, is_uniform: true, ..Self::default() }
    }

    /// A layout for each id; of equal ids the first counts. What has an id of no event, or more
    /// kinds than any file has, is read as a tracepoint of the main layout.
    pub(super) fn by_id(main: Layout, mut by_id: Vec<(u64, Kind)>) -> Self {
        by_id.sort_by_key(|(id, _)| *id);
        by_id.dedup_by_key(|(id, _)| *id);
        let first = by_id.first().map_or(0, |(id, _)| *id);
        let mut layouts = Self { main, first, ..Self::default() };
        for (id, kind) in by_id {
            let known = layouts.kinds.iter().position(|known| *known == kind);
            let place = known.unwrap_or(layouts.kinds.len());
            let Some(place) = u16::try_from(place).ok().filter(|place| *place < MOST_KINDS) else {
                continue;
            };
            if known.is_none() {
                layouts.kinds.push(kind);
            }
            match usize::try_from(id - first) {
                Ok(distance) if id - first < NEAR => {
                    layouts.near.resize(distance, NONE);
                    layouts.near.push(place);
                }
                Ok(_) | Err(_) => layouts.far.push((id, place)),
            }
        }
        layouts
    }

    /// The layout of a sample; `None` when its event is no tracepoint.
    #[inline]
    pub(super) fn of_sample(&self, body: &[u8]) -> Option<&Layout> {
        if self.is_uniform {
            return Some(&self.main);
        }
        match self.find(u64_at(body, 0)) {
            Some(Kind::Tracepoint(layout)) => Some(layout),
            Some(Kind::Other(_)) => None,
            None => Some(&self.main),
        }
    }

    /// The layout of the trailer of a record that is no sample.
    pub(super) fn of_trailer(&self, body: &[u8]) -> &Layout {
        if self.is_uniform {
            return &self.main;
        }
        let id = body.len().checked_sub(8).and_then(|at| u64_at(body, at));
        self.find(id).map_or(&self.main, Kind::layout)
    }

    #[inline]
    fn find(&self, id: Option<u64>) -> Option<&Kind> {
        let id = id?;
        let near = usize::try_from(id.wrapping_sub(self.first)).ok();
        let place = if let Some(place) = near.and_then(|distance| self.near.get(distance)) {
            *place
        } else {
            let far = self.far.binary_search_by_key(&id, |(id, _)| *id).ok()?;
            self.far.get(far)?.1
        };
        self.kinds.get(usize::from(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_near_and_far() {
        let main = Layout::new(1 << 16, 0, true);
        let (other, wide) = (Layout::new(1 << 16 | 1, 0, true), Layout::new(1 << 16 | 3, 0, true));
        let ids = [
            (1 << 60, Kind::Tracepoint(wide)),
            (7, Kind::Other(other)),
            (5, Kind::Tracepoint(main)),
            (9, Kind::Tracepoint(wide)),
        ];
        let layouts = Layouts::by_id(main, ids.to_vec());
        let check = |id: u64, sample: Option<Layout>, trailer: Layout| {
            assert_eq!(layouts.of_sample(&id.to_le_bytes()).copied(), sample, "{id}");
            assert_eq!(*layouts.of_trailer(&id.to_le_bytes()), trailer, "{id}");
        };
        check(5, Some(main), main);
        check(7, None, other);
        check(9, Some(wide), wide);
        check(1 << 60, Some(wide), wide);
        check(4, Some(main), main);
        check(8, Some(main), main);
        check(u64::MAX, Some(main), main);
    }
}
