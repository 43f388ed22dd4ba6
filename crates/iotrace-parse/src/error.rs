//! Why a capture could not be read at all. What could be read in spite of a fault is in the ledger.

use std::io;

/// Why a capture could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot read {path} at byte {offset}")]
    Read {
        /// The file.
        path: String,
        /// Where.
        offset: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file begins with something else.
    #[error("{path}: not a perf file: byte 0 does not begin the word PERFILE2")]
    BadMagic {
        /// The file.
        path: String,
    },
    /// A perf file from a machine of the other byte order.
    #[error(
        "{path}: a perf file of a big-endian machine, which cannot be read yet; \
         import the text of perf script from that machine"
    )]
    BigEndian {
        /// The file.
        path: String,
    },
    /// A perf file written to a pipe.
    #[error(
        "{path}: a perf file in pipe mode (header of 16 bytes), which cannot be read yet; \
         record it with perf record -o FILE"
    )]
    PipeMode {
        /// The file.
        path: String,
    },
    /// The header points outside the file, or to more than any perf file has.
    #[error("{path}: the {part} at byte {offset} cannot be; the file is cut or damaged")]
    OutOfFile {
        /// The file.
        path: String,
        /// What the header points to.
        part: &'static str,
        /// Where it should be.
        offset: u64,
    },
    /// The file does not say how its events are laid out.
    #[error(
        "{path}: no event formats (tracing data) at byte {offset}, so its samples cannot be \
         understood; record tracepoints, such as -e 'block:*', and end perf record with an interrupt"
    )]
    NoFormats {
        /// The file.
        path: String,
        /// Where they were looked for.
        offset: u64,
    },
    /// The formats are damaged.
    #[error("{path}: the event formats at byte {offset} are damaged: {part} cannot be read")]
    BadFormats {
        /// The file.
        path: String,
        /// Where they begin.
        offset: u64,
        /// The part that cannot be read.
        part: &'static str,
    },
    /// Samples without what an event needs.
    #[error(
        "{path}: the samples lack {what}; record with perf record -a -k mono -e 'block:*', which \
         includes it"
    )]
    SampleLayout {
        /// The file.
        path: String,
        /// What is missing.
        what: &'static str,
    },
    /// Records inside compressed ones.
    #[error(
        "{path}: compressed records at byte {offset}, which cannot be read yet; record without -z"
    )]
    Compressed {
        /// The file.
        path: String,
        /// Where the first one begins.
        offset: u64,
    },
    /// A format for blkparse text that cannot serve.
    #[error("{path}: the format {layout:?} cannot be used: {why}")]
    BadLayout {
        /// The file.
        path: String,
        /// The format, as for `blkparse -f`.
        layout: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
