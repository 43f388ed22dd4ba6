//! Opens the tracepoints: which ones, on which CPUs, and into which ring.
//!
//! The first event of a CPU owns the CPU's ring; the kernel sends the records of the others there
//! as well, so that they come in the order in which they happened.

use std::{ffi::CString, fs, io, os::fd::AsFd, path::PathBuf};

use iotrace_model::Cpu;
use perf_event_open::{
    config::{
        self, Clock, Opts, Proc, RecordIdFormat, SampleFormat, SampleOn, StatFormat, WakeUp,
        WakeUpOn,
    },
    count::Counter,
    event::tp::Tracepoint,
};

use super::{RecorderOptions, filter::filter, walk::Watch};
use crate::{
    Error, Target, sys,
    tracefs::{TraceEvent, Tracefs, not_permitted},
};

/// Everything that can be recorded, in the order of a request's life.
const EVENTS: [(&str, &str); 16] = [
    ("block", "block_bio_queue"),
    ("block", "block_bio_remap"),
    ("block", "block_split"),
    ("block", "block_getrq"),
    ("block", "block_bio_backmerge"),
    ("block", "block_bio_frontmerge"),
    ("block", "block_rq_insert"),
    ("block", "block_rq_merge"),
    ("block", "block_rq_remap"),
    ("block", ISSUE),
    ("block", REQUEUE),
    ("block", COMPLETE),
    ("block", "block_bio_complete"),
    ("libata", "ata_qc_issue"),
    ("libata", "ata_qc_complete_done"),
    ("libata", "ata_qc_complete_failed"),
];
const ISSUE: &str = "block_rq_issue";
const REQUEUE: &str = "block_rq_requeue";
const COMPLETE: &str = "block_rq_complete";
/// Without these there is no latency.
const NEEDED: [&str; 2] = [ISSUE, COMPLETE];

const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";
/// The reader is woken when a ring holds this much, or a quarter of the ring if that is less: seldom
/// enough that waking up costs little, early enough that the rest of the ring takes a burst.
const WATERMARK_BYTES: u64 = 4 << 20;
/// Files that the rest of the program may need.
const SPARE_FILES: usize = 64;

/// The opened events; all still switched off.
pub(super) struct Opened {
    /// One for each online CPU, ascending.
    pub(super) cpus: Vec<OpenedCpu>,
    /// Each event and the ids of its counters in the order of `cpus`.
    pub(super) events: Vec<(TraceEvent, Vec<u64>)>,
    /// Whether counters tell how many of their records were lost.
    pub(super) counts_lost: bool,
    /// Bytes in a ring at which the kernel wakes the reader.
    pub(super) watermark: u32,
    /// Text of `events/header_page`.
    pub(super) header_page: String,
    /// Text of `events/header_event`.
    pub(super) header_event: String,
    /// How to tell the depth of the first target.
    pub(super) watch: Watch,
}

/// The events of one CPU.
pub(super) struct OpenedCpu {
    /// Which CPU.
    pub(super) cpu: Cpu,
    /// The counters in the order of the events; never empty.
    pub(super) counters: Vec<Counter>,
    /// The ids of the counters.
    pub(super) ids: Vec<u64>,
    /// Where their records go.
    pub(super) ring: sys::Ring,
}

/// Opens the events of `targets` on every CPU.
pub(super) fn open(targets: &[Target], options: &RecorderOptions) -> Result<Opened, Error> {
    let first = targets.first().ok_or(Error::NoTarget)?;
    let tracefs = Tracefs::open()?;
    let events = choose(&tracefs, targets)?;
    let cpus = online_cpus()?;
    let watermark = watermark(options.ring_pages_exp);
    let mut opts = opts(watermark);
    let opened = open_cpus(&cpus, &events, &mut opts, options.ring_pages_exp)?;
    let watch = watch(&events, first);
    let ids_of = |index: usize| opened.iter().filter_map(move |cpu| cpu.ids.get(index).copied());
    let events = events
        .into_iter()
        .enumerate()
        .map(|(index, (event, _))| (event, ids_of(index).collect()))
        .collect();
    Ok(Opened {
        events,
        counts_lost: opts.stat_format.lost_records,
        watermark,
        header_page: tracefs.header("header_page")?,
        header_event: tracefs.header("header_event")?,
        watch,
        cpus: opened,
    })
}

/// The events of this kernel that tell something of `targets`, each with its filter.
fn choose(tracefs: &Tracefs, targets: &[Target]) -> Result<Vec<(TraceEvent, String)>, Error> {
    let mut events = Vec::new();
    for (system, name) in EVENTS {
        let event = tracefs.event(system, name)?;
        let filtered = event.and_then(|event| {
            let filter = filter(&event, targets)?;
            Some((event, filter))
        });
        if filtered.is_none() && NEEDED.contains(&name) {
            return Err(Error::NoTracepoint {
                event: format!("{system}/{name}"),
                path: tracefs.events(),
            });
        }
        events.extend(filtered);
    }
    Ok(events)
}

fn watch(events: &[(TraceEvent, String)], target: &Target) -> Watch {
    let find = |name| events.iter().map(|(event, _)| event).find(|event| event.name == name);
    let number = |name| find(name).and_then(|event| u16::try_from(event.id).ok()).unwrap_or(0);
    Watch {
        issue: number(ISSUE),
        ends: [number(COMPLETE), number(REQUEUE)],
        device: target.device.to_kernel(),
        device_offset: find(ISSUE).and_then(|event| event.field_offset("dev")).unwrap_or(8),
    }
}

fn opts(watermark: u32) -> Opts {
    Opts {
        sample_on: SampleOn::Count(1),
        sample_format: SampleFormat { raw: true, ..SampleFormat::default() },
        record_id_all: true,
        record_id_format: RecordIdFormat {
            id: true,
            cpu: true,
            task: true,
            time: true,
            ..RecordIdFormat::default()
        },
        timer: Some(Clock::Monotonic),
        wake_up: WakeUp { on: WakeUpOn::Bytes(watermark), ..WakeUp::default() },
        stat_format: StatFormat { id: true, lost_records: true, ..StatFormat::default() },
        ..Opts::default()
    }
}

fn watermark(ring_pages_exp: u8) -> u32 {
    let quarter = ring_bytes(ring_pages_exp) / 4;
    u32::try_from(WATERMARK_BYTES.min(quarter)).expect("the constant fits")
}

/// Bytes of a ring of 2^`pages_exp` pages; saturates.
fn ring_bytes(pages_exp: u8) -> u64 {
    let page = u64::try_from(sys::page_size()).expect("a usize is at most 64 bits");
    2_u64.saturating_pow(pages_exp.into()).saturating_mul(page)
}

fn open_cpus(
    cpus: &[Cpu],
    events: &[(TraceEvent, String)],
    opts: &mut Opts,
    ring_pages_exp: u8,
) -> Result<Vec<OpenedCpu>, Error> {
    let needed = cpus.len() * events.len() + SPARE_FILES;
    let mut opened = Vec::with_capacity(cpus.len());
    for &cpu in cpus {
        let mut counters = Vec::with_capacity(events.len());
        for (event, filter) in events {
            counters.push(open_event(event, filter, cpu, opts, needed)?);
        }
        let Some(leader) = counters.first() else { continue };
        let ring = sys::Ring::map(leader.file().as_fd(), ring_pages_exp).map_err(|source| {
            let bytes = ring_bytes(ring_pages_exp);
            Error::RingTooBig { bytes, cpus: cpus.len(), source }
        })?;
        for counter in counters.iter().skip(1) {
            sys::redirect_output(counter.file().as_fd(), leader.file().as_fd())
                .map_err(|source| Error::Control { cpu, source })?;
        }
        let ids: io::Result<_> = counters.iter().map(Counter::id).collect();
        let ids = ids.map_err(|source| Error::Control { cpu, source })?;
        opened.push(OpenedCpu { cpu, counters, ids, ring });
    }
    Ok(opened)
}

fn open_event(
    event: &TraceEvent,
    filter: &str,
    cpu: Cpu,
    opts: &mut Opts,
    needed: usize,
) -> Result<Counter, Error> {
    let counter = open_counter(event.id, cpu, opts).map_err(|source| {
        match (source.kind(), source.raw_os_error()) {
            (io::ErrorKind::PermissionDenied, _) => not_permitted(source),
            (_, Some(libc::EMFILE | libc::ENFILE)) => Error::TooManyFiles { needed, source },
            _ => Error::OpenEvent { event: event.full_name(), cpu, source },
        }
    })?;
    let text = CString::new(filter).expect("filters are made of words and numbers");
    counter.with_ftrace_filter(&text).map_err(|source| Error::Filter {
        event: event.full_name(),
        filter: filter.to_owned(),
        source,
    })?;
    Ok(counter)
}

/// Opens one event on one CPU. Kernels before 6.0 refuse to count lost records, which shows at
/// the first event and then holds for all; the limit of open files is raised when it is hit.
fn open_counter(id: u64, cpu: Cpu, opts: &mut Opts) -> io::Result<Counter> {
    let target = (Proc::ALL, config::Cpu(cpu.0));
    let open = |opts: &Opts| Counter::new(Tracepoint { id }, target, opts);
    match open(opts) {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            sys::raise_descriptor_limit()?;
            open(opts)
        }
        Err(error)
            if error.raw_os_error() == Some(libc::EINVAL) && opts.stat_format.lost_records =>
        {
            opts.stat_format.lost_records = false;
            open(opts)
        }
        result => result,
    }
}

fn online_cpus() -> Result<Vec<Cpu>, Error> {
    let path = PathBuf::from(ONLINE_CPUS);
    match fs::read_to_string(&path) {
        Ok(text) => parse_cpus(&text)
            .ok_or(Error::Unexpected { path, expected: "a list of CPUs such as 0-3,5" }),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// Reads a list such as `0-3,5`; `None` if it is anything else or empty.
fn parse_cpus(text: &str) -> Option<Vec<Cpu>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        (from <= to && to < 1 << 16).then_some(())?;
        cpus.extend((from..=to).map(Cpu));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_strictly() {
        check("0\n", Some(&[0]));
        check("0-2,5,7-8\n", Some(&[0, 1, 2, 5, 7, 8]));
        check("", None);
        check("3-1", None);
        check("0-4294967295", None);
        check("0,", None);
    }

    #[test]
    fn the_reader_is_woken_early_in_small_rings() {
        let page = u32::try_from(sys::page_size()).unwrap();
        assert_eq!(watermark(3), page * 2);
        assert_eq!(watermark(20), 4 << 20);
        assert_eq!(watermark(255), 4 << 20);
    }

    #[test]
    fn without_a_target_nothing_is_opened() {
        assert!(matches!(open(&[], &RecorderOptions::default()), Err(Error::NoTarget)));
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&[u32]>) {
        let expected = expected.map(|cpus| cpus.iter().copied().map(Cpu).collect::<Vec<_>>());
        assert_eq!(parse_cpus(text), expected);
    }
}
