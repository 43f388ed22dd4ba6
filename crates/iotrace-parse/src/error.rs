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
    /// There is no such file, nor one for which the name stands.
    #[error("there is no file {path}, nor {path}.blktrace.0 or another of its CPUs")]
    NotFound {
        /// The name.
        path: String,
    },
    /// A folder where a file was expected.
    #[error("{path} is a folder; name the files in it, such as {path}/sda for sda.blktrace.*")]
    Folder {
        /// The folder.
        path: String,
    },
    /// There is nothing in the file.
    #[error("{path} is empty: nothing was recorded, or the recorder could not write")]
    Empty {
        /// The file.
        path: String,
    },
    /// Nothing that can be read.
    #[error(
        "{path}: no trace that can be read: it begins with {start:?}; known are blktrace files, \
         blkparse text, perf.data, perf script text and ftrace text, also compressed by gzip, zstd \
         or xz; if it is one of them, name it with --format"
    )]
    UnknownFormat {
        /// The file.
        path: String,
        /// What it begins with.
        start: String,
    },
    /// trace-cmd's own file.
    #[error(
        "{path}: a trace.dat of trace-cmd, which cannot be read; print it with \
         trace-cmd report {path} and import the text"
    )]
    TraceDat {
        /// The file.
        path: String,
    },
    /// A table of biosnoop.
    #[error(
        "{path}: a table of biosnoop, which has one latency for each request and no events; \
         record with iotrace, blktrace or perf to see where the time went"
    )]
    Biosnoop {
        /// The file.
        path: String,
    },
    /// The file does not begin with a record of blktrace.
    #[error(
        "{path}: not a blktrace file: byte 0 does not begin a record of version 7 or 8 in either \
         byte order"
    )]
    NotBlktrace {
        /// The file.
        path: String,
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
    /// A perf file of other events only.
    #[error(
        "{path}: no tracepoints in this file: its samples are of other events; record with \
         perf record -a -k mono -e 'block:*'"
    )]
    NoTracepoints {
        /// The file.
        path: String,
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
    /// A text in which nothing looks like an event of a tracepoint.
    #[error(
        "{path}: no event of perf script or ftrace in the first {lines} lines; one looks like \
         dd-7 [000] 1.000000: block_rq_issue: 8,0 R 4096 () 2072 + 8 [dd]"
    )]
    NoTraceText {
        /// The file.
        path: String,
        /// How many lines were read.
        lines: u64,
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
