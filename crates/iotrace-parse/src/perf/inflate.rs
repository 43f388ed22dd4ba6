//! Records inside compressed ones (`perf record -z`).
//!
//! The payloads of all compressed records are one zstd stream; its records can begin in one payload
//! and end in the next. Memory is one buffer, and the window of zstd, which zstd itself limits to
//! 128 MiB and takes only as far as the data need it; no size that the file declares is believed.

use std::fmt;
use std::ops::Range;

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Bytes of the buffer: the rest of one record, of at most 64 KiB, and room for more.
const BUFFER: usize = 256 << 10;

/// Takes payloads in, holds the records that come out.
pub(super) struct Inflater {
    decoder: Decoder<'static>,
    buffer: Vec<u8>,
    /// What of the buffer is not handed out yet.
    pub(super) ready: Range<usize>,
}

/// How a payload goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inflated {
    /// This many of its bytes were taken; ask again.
    More(usize),
    /// All its bytes were taken, and all that they hold was given.
    Done,
}

/// A payload is not what zstd made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage;

impl Inflater {
    /// `None` when zstd has no memory.
    pub(super) fn new() -> Option<Self> {
        Some(Self { decoder: Decoder::new().ok()?, buffer: vec![0; BUFFER], ready: 0..0 })
    }

    /// What was decompressed.
    #[inline]
    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Decompresses more, as far as there is room behind what is ready.
    ///
    /// # Errors
    /// When the bytes cannot be: nothing behind them in this stream can be read.
    pub(super) fn more(&mut self, payload: &[u8]) -> Result<Inflated, Damage> {
        let length = self.ready.len();
        self.buffer.copy_within(self.ready.clone(), 0);
        self.ready = 0..length;
        let room = self.buffer.get_mut(length..).ok_or(Damage)?;
        let (mut input, mut output) = (InBuffer::around(payload), OutBuffer::around(room));
        if self.decoder.run(&mut input, &mut output).is_err() {
            return Err(Damage);
        }
        let (taken, given) = (input.pos(), output.pos());
        self.ready.end += given;
        match (taken, given) {
            (0, 0) if payload.is_empty() => Ok(Inflated::Done),
            (0, 0) => Err(Damage),
            _ => Ok(Inflated::More(taken)),
        }
    }

    /// Forgets what it held, for a stream that begins anew.
    pub(super) fn reset(&mut self) {
        self.ready = 0..0;
        // Only a context of an unknown state could fail, and a payload then is damaged.
        let _ = self.decoder.reinit();
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("ready", &self.ready).finish_non_exhaustive()
    }
}
