//! The thread that encodes and compresses a table's pages while the caller gathers the next.
//!
//! ```text
//! caller ── pages, ends of row groups ─► thread ── finished row groups ─► caller writes them
//!    ▲                                     │
//!    └────────── emptied pages ────────────┘
//! ```
//!
//! One thread does all of a table's work in the order in which it came, so the bytes do not
//! depend on timing. At most one page waits. The thread writes no file: an error of the disk
//! comes up in the caller's own call.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::schema::types::SchemaDescriptor;

use crate::cells::{Cells, Stored};
use crate::chunk::{Chunk, Codec};

/// Encoded columns of one row group, in the order of the schema.
pub(crate) type Group = Vec<(Bytes, ColumnCloseResult)>;
/// Columns of one page, in the order of the schema.
pub(crate) type Page = Vec<Cells>;

/// What the thread is asked to do.
enum Work {
    Page { page: Page, rows: usize },
    EndGroup { dictionaries: Vec<Vec<Stored>> },
}

/// The caller's end of the thread.
pub(crate) struct Encoder {
    /// `None` once there is no more work.
    work: Option<SyncSender<Work>>,
    emptied: Receiver<Page>,
    groups: Receiver<Result<Group>>,
    thread: Option<JoinHandle<()>>,
    columns: usize,
}

impl Encoder {
    /// Starts the thread. `coded` says of each column whether it holds codes.
    pub(crate) fn start(schema: &SchemaDescriptor, coded: &[bool]) -> std::io::Result<Self> {
        let chunks: Vec<_> = schema
            .columns()
            .iter()
            .zip(coded)
            .map(|(column, is_coded)| Chunk::new(column.clone(), *is_coded))
            .collect();
        let columns = chunks.len();
        let (work, to_do) = sync_channel(1);
        let (empty, emptied) = channel();
        let (finish, groups) = channel();
        let thread = thread::Builder::new()
            .name("parquet".to_owned())
            .spawn(move || encode(chunks, &to_do, &empty, &finish))?;
        Ok(Self { work: Some(work), emptied, groups, thread: Some(thread), columns })
    }

    /// An empty page, if possible one whose memory was used before.
    pub(crate) fn empty_page(&self) -> Page {
        self.emptied
            .try_recv()
            .unwrap_or_else(|_| std::iter::repeat_with(Cells::default).take(self.columns).collect())
    }

    /// Hands over a page; waits while another one waits.
    pub(crate) fn page(&mut self, page: Page, rows: usize) {
        self.send(Work::Page { page, rows });
    }

    /// Ends the row group; the dictionaries are those of its codes.
    pub(crate) fn end_group(&mut self, dictionaries: Vec<Vec<Stored>>) {
        self.send(Work::EndGroup { dictionaries });
    }

    /// The next row group if one is finished.
    pub(crate) fn finished_group(&mut self) -> Option<Result<Group>> {
        self.groups.try_recv().ok()
    }

    /// The next row group, waiting for it; `None` after the last. There is no more work.
    pub(crate) fn last_groups(&mut self) -> Option<Result<Group>> {
        self.work = None;
        let group = self.groups.recv().ok();
        if group.is_none()
            && let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
        {
            std::panic::resume_unwind(panic);
        }
        group
    }

    fn send(&mut self, work: Work) {
        if let Some(sender) = &self.work
            && sender.send(work).is_err()
        {
            // The thread has ended early. Its error, or panic, comes out with the groups.
            self.work = None;
        }
    }
}

/// Works until there is nothing more to do or nobody wants the results.
fn encode(
    mut chunks: Vec<Chunk>,
    to_do: &Receiver<Work>,
    empty: &Sender<Page>,
    finish: &Sender<Result<Group>>,
) {
    let mut codec = match Codec::new() {
        Ok(codec) => codec,
        // Whether somebody still listens makes no difference: the thread is done either way.
        Err(error) => return drop(finish.send(Err(error))),
    };
    for work in to_do {
        let done = match work {
            Work::Page { mut page, rows } => {
                let done = add(&mut chunks, &page, rows, &mut codec);
                page.iter_mut().for_each(Cells::clear);
                // The caller may have enough pages and be gone already.
                drop(empty.send(page));
                done.err().map(Err)
            }
            Work::EndGroup { dictionaries } => Some(end(&mut chunks, &dictionaries, &mut codec)),
        };
        let Some(group) = done else { continue };
        let failed = group.is_err();
        if finish.send(group).is_err() || failed {
            return;
        }
    }
}

fn add(chunks: &mut [Chunk], page: &Page, rows: usize, codec: &mut Codec) -> Result<()> {
    chunks.iter_mut().zip(page).try_for_each(|(chunk, cells)| chunk.add(cells, rows, codec))
}

fn end(chunks: &mut [Chunk], dictionaries: &[Vec<Stored>], codec: &mut Codec) -> Result<Group> {
    let columns = chunks.iter_mut().zip(dictionaries);
    columns.map(|(chunk, dictionary)| chunk.finish(dictionary, codec)).collect()
}
