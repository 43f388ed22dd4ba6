//! From the names of files to readers of traces.
//!
//! All blktrace files that are named together are one trace, because each CPU and device has a file
//! of its own; every other file is a capture by itself.

use std::io::BufReader;
use std::path::PathBuf;

use iotrace_model::{AtaPort, DeviceId};

use crate::input::{Content, Input, base_of, expand};
use crate::{
    BlkparseReader, BlktraceReader, Error, Options, PerfReader, Reader, TextKind, TraceTextOptions,
    TraceTextReader,
};

/// The kinds of traces that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// blktrace's binary files, one for each CPU, and merged dumps.
    Blktrace,
    /// What blkparse and btrace print.
    Blkparse,
    /// perf.data, in file or pipe mode.
    PerfData,
    /// What perf script prints.
    PerfScript,
    /// What ftrace and `trace-cmd report` print.
    Ftrace,
}

impl Format {
    /// Every kind.
    pub const ALL: [Format; 5] =
        [Format::Blktrace, Format::Blkparse, Format::PerfData, Format::PerfScript, Format::Ftrace];

    /// The word on the command line and in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Blkparse => "blkparse",
            Format::PerfData => "perf-data",
            Format::PerfScript => "perf-script",
            Format::Ftrace => "ftrace",
        }
    }
}

/// What the files do not tell.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Their kind; `None` to tell it by their content.
    pub format: Option<Format>,
    /// The format string with which `blkparse -f` printed a text.
    pub layout: Option<String>,
    /// Devices behind libata's ports.
    pub ports: Vec<(AtaPort, DeviceId)>,
    /// Folder for a copy of what must be read twice and cannot be, such as a pipe.
    pub scratch: PathBuf,
}

/// A trace that was opened.
pub struct Trace {
    /// Its reader, at its start.
    pub reader: Box<dyn Reader>,
    /// Its kind.
    pub format: Format,
    /// Its files.
    pub files: Vec<String>,
    /// Their size on the disk; 0 where that is not known.
    pub bytes: u64,
}

/// Opens files as traces, in the order in which they are named.
///
/// `sda` stands for all of `sda.blktrace.*`, and one of these for all of them; `-` is the standard
/// input. Files compressed by gzip, zstd or xz are read as they are.
///
/// # Errors
/// When a file cannot be read, or is of no kind that can.
pub fn open(names: &[PathBuf], options: &OpenOptions) -> Result<Vec<Trace>, Error> {
    let mut files: Vec<PathBuf> = Vec::new();
    for name in names {
        let named_alone = names.iter().filter(|other| base_of(other) == base_of(name)).count() == 1;
        let expanded =
            if named_alone || base_of(name).is_none() { expand(name)? } else { vec![name.clone()] };
        for file in expanded {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    let mut traces = Vec::new();
    let mut streams = Vec::new();
    for file in files {
        let input = Input::open(&file)?;
        // blktrace leaves an empty file for a CPU without events.
        let is_idle = input.start.is_empty() && base_of(&file).is_some();
        let format = match options.format {
            Some(format) => format,
            None if is_idle => Format::Blktrace,
            None => input.detect()?,
        };
        if format == Format::Blktrace {
            streams.push(input);
        } else {
            traces.push(open_one(input, format, options)?);
        }
    }
    if !streams.is_empty() {
        traces.insert(0, open_blktrace(streams)?);
    }
    Ok(traces)
}

fn open_blktrace(inputs: Vec<Input>) -> Result<Trace, Error> {
    let bytes = inputs.iter().map(|input| input.bytes).sum();
    let files: Vec<_> = inputs.iter().map(|input| input.path.clone()).collect();
    if inputs.iter().all(|input| input.start.is_empty()) {
        return Err(Error::Empty { path: files.join(", ") });
    }
    let streams = inputs.into_iter().map(|input| (input.content.into_reader(), input.path));
    let reader = Box::new(BlktraceReader::open(streams.collect())?);
    Ok(Trace { reader, format: Format::Blktrace, files, bytes })
}

fn open_one(input: Input, format: Format, options: &OpenOptions) -> Result<Trace, Error> {
    let Input { path, content, bytes, .. } = input;
    let text = |content: Content| BufReader::with_capacity(1 << 18, content.into_reader());
    let reader: Box<dyn Reader> = match format {
        Format::Blktrace => {
            Box::new(BlktraceReader::open(vec![(content.into_reader(), path.clone())])?)
        }
        Format::Blkparse => {
            Box::new(BlkparseReader::open(text(content), &path, options.layout.as_deref())?)
        }
        Format::PerfData => {
            let file = content.into_file(&path, &options.scratch)?;
            let options = Options { origin: None, devices: options.ports.clone() };
            Box::new(PerfReader::open(file, &path, options)?)
        }
        Format::PerfScript | Format::Ftrace => {
            let kind = match format {
                Format::Ftrace => TextKind::Ftrace,
                _ => TextKind::PerfScript,
            };
            let options = TraceTextOptions { kind, devices: options.ports.clone() };
            Box::new(TraceTextReader::open(text(content), &path, options)?)
        }
    };
    Ok(Trace { reader, format, files: vec![path], bytes })
}
