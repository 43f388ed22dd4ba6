//! From the kernel to raw capture files, and everything that touches the machine on the way.
//!
//! `recorder` opens the block tracepoints on every CPU and copies their rings into a perf file;
//! `device` and `facts` say what is traced; `settings` changes a device and puts it back;
//! `workload` runs the command. Only `sys` holds `unsafe`.

mod counters;
mod device;
mod error;
mod facts;
mod perf_file;
mod recorder;
mod settings;
mod sys;
mod tracefs;
mod workload;

pub use counters::Counters;
pub use device::{Target, device_of, find_device};
pub use error::Error;
pub use facts::{Identifiers, device_facts, host_facts};
pub use recorder::{
    Capture, Progress, Recorder, RecorderOptions, memory_file, monotonic_now, page_size,
    realtime_now,
};
pub use settings::{
    Applied, Journal, Restored, SettingChange, Shape, Wanted, ncq_change, queue_depth_change,
    restore, scheduler_change, write_cache_change,
};
pub use workload::{Finished, RunAs, Show, Signal, Workload, give_to};
