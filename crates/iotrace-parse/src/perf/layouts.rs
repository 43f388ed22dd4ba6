//! Which layout a record has, when the events of a file differ.
//!
//! Most files have one layout for all. Where they differ, perf makes every sample begin and every
//! trailer end with the id of its event (`PERF_SAMPLE_IDENTIFIER`), and the file lists the ids.

use super::sample::Layout;
use crate::bytes::u64_at;

/// The layouts of a file's events.
#[derive(Clone, Debug, Default)]
pub(super) struct Layouts {
    /// That of the tracepoints.
    main: Layout,
    /// By id, sorted; empty when ids need not be looked at.
    by_id: Vec<(u64, Kind)>,
}

/// Whose records carry an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tracepoint's, with the main layout or another.
    Tracepoint(Layout),
    /// Another event's: its samples are of no use here.
    Other(Layout),
}

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
        Self { main, by_id: Vec::new() }
    }

    /// A layout for each id.
    pub(super) fn by_id(main: Layout, mut by_id: Vec<(u64, Kind)>) -> Self {
        by_id.sort_by_key(|(id, _)| *id);
        Self { main, by_id }
    }

    /// The layout of a sample; `None` when its event is no tracepoint.
    #[inline]
    pub(super) fn of_sample(&self, body: &[u8]) -> Option<&Layout> {
        if self.by_id.is_empty() {
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
        let id = body.len().checked_sub(8).and_then(|at| u64_at(body, at));
        self.find(id).map_or(&self.main, Kind::layout)
    }

    fn find(&self, id: Option<u64>) -> Option<&Kind> {
        let place = self.by_id.binary_search_by_key(&id?, |(id, _)| *id).ok()?;
        self.by_id.get(place).map(|(_, kind)| kind)
    }
}
