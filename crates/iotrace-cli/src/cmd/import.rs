//! `iotrace import`: existing traces to a dataset like one of `iotrace record`.
//!
//! Files are opened and recognised while the plan is made, before anything is written.

mod document;
mod execute;

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use iotrace_capture::RunAs;
use iotrace_parse::{Format, OpenOptions, Trace};

use crate::exit::Exit;
use crate::tables::Events;
use crate::talk::Talk;

/// Arguments of `iotrace import`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads: blktrace's files of one CPU each (sda stands for sda.blktrace.*), merged dumps of
blkparse -d, blkparse and btrace text, perf.data with block events, text of perf script, ftrace and
trace-cmd report; also compressed by gzip, zstd or xz. The kind is told by the content.
All blktrace files are one trace; every other file becomes a run of its own, and so does every
capture in a file that holds several.
Text carries less than binary files: prefer these.
Exit codes: 0 done, 1 failed, 2 bad usage, 3 data are incomplete.

Examples: iotrace import -o sda.iotrace sda
          perf record -a -k mono -e 'block:*' -o - sleep 10 | iotrace import -o out.iotrace -")]
pub(crate) struct Args {
    /// Trace files; - is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Dataset to write, a folder that must not exist
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Kind of the files [default: told by their content]
    #[arg(long, value_enum)]
    format: Option<Kind>,
    /// Format string with which blkparse -f printed a text
    #[arg(long, value_name = "FORMAT", value_parser = unescape)]
    blkparse_format: Option<String>,
    /// Keep requests only: no events.parquet
    #[arg(long)]
    no_events: bool,
    /// Events that may be lost before the exit code becomes 3
    #[arg(long, value_name = "EVENTS", default_value_t = 0)]
    max_loss: u64,
    /// Say nothing but errors and warnings
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Binary files of blktrace and blkparse -d
    Blktrace,
    /// Text of blkparse and btrace
    Blkparse,
    /// A file of perf record
    PerfData,
    /// Text of perf script
    PerfScript,
    /// Text of ftrace and trace-cmd report
    Ftrace,
}

impl From<Kind> for Format {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Blktrace => Format::Blktrace,
            Kind::Blkparse => Format::Blkparse,
            Kind::PerfData => Format::PerfData,
            Kind::PerfScript => Format::PerfScript,
            Kind::Ftrace => Format::Ftrace,
        }
    }
}

/// What is to be done, checked.
pub(crate) struct Plan {
    traces: Vec<Trace>,
    output: PathBuf,
    events: Events,
    max_loss: u64,
    owner: Option<RunAs>,
    talk: Talk,
}

impl Plan {
    pub(crate) fn new(args: Args) -> anyhow::Result<Self> {
        if args.output.exists() {
            bail!("{} exists already; give another --output or remove it", args.output.display());
        }
        let is_layout = args.blkparse_format.is_some();
        let format = args.format.map(Format::from).or(is_layout.then_some(Format::Blkparse));
        if is_layout && format != Some(Format::Blkparse) {
            bail!("--blkparse-format is for --format blkparse only");
        }
        let options = OpenOptions {
            format,
            layout: args.blkparse_format,
            ports: Vec::new(),
            scratch: super::record::parent(&args.output),
        };
        Ok(Self {
            traces: iotrace_parse::open(&args.files, &options)?,
            output: args.output,
            events: if args.no_events { Events::Omit } else { Events::Keep },
            max_loss: args.max_loss,
            owner: super::record::run_as(None)?,
            talk: Talk::from_flag(args.quiet),
        })
    }

    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        execute::execute(self)
    }
}

/// `\n` and `\t` as blkparse reads them in its format strings.
#[expect(clippy::unnecessary_wraps, reason = "the form of a value parser of clap")]
fn unescape(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.replace("\\n", "\n").replace("\\t", "\t"))
}
