//! One run: its rows to a `RunSummary` and to the sample that a comparison needs.

use std::path::Path;

use iotrace_model::{Cause, Configuration, DeviceFacts, Ledger, Nanos, RunSummary, Stage};

use crate::Error;
use crate::blocks::Filling;
use crate::bootstrap::{DeviceSample, RunSample};
use crate::passes::Tallies;
use crate::source::for_each_block;
use crate::sweep::Sweep;

/// One run and what is known of it.
#[derive(Clone, Debug)]
pub struct RunInput<'a> {
    /// Its `requests.parquet`.
    pub requests: &'a Path,
    /// Its configuration.
    pub configuration: Configuration,
    /// Its repetition, from 0.
    pub repetition: u32,
    /// Its folder in the dataset.
    pub folder: String,
    /// Wall time of the workload.
    pub duration: Nanos,
    /// Exit code of the workload; `None` when it was killed or not run by us.
    pub exit_code: Option<i32>,
    /// The traced devices, settings as read back.
    pub devices: &'a [DeviceFacts],
    /// Losses while capturing and pairing.
    pub ledger: Ledger,
}

/// Sums a run up. Reads the table once, and once more if it has more than a million complete rows;
/// memory holds two slices of rows, the times of a million and, for each device, the requests of
/// about one long latency.
///
/// Only rows with status complete and a completion count; of these a latency or depth takes the
/// ones in which both of its ends were seen. The summary's ledger is the input's, and complete
/// rows with a stamp that runs backwards.
///
/// # Errors
/// When the table cannot be read, or holds what no version of iotrace writes.
pub fn summarize_run(input: &RunInput<'_>) -> Result<(RunSummary, RunSample), Error> {
    let mut tallies = Tallies::default();
    for_each_block(input.requests, |rows| tallies.push(rows))?;
    let mut replays = tallies.replays();
    if tallies.kept_all {
        replays.run(&tallies);
    } else {
        for_each_block(input.requests, |rows| replays.push(rows))?;
    }
    let mut ledger = input.ledger.clone();
    let mut devices = Vec::new();
    let mut sample = RunSample::new(input.devices);
    for (device, tally) in tallies.devices {
        if tally.backwards > 0 {
            ledger.add(Cause::TimeBackwards, None, tally.first_backwards, tally.backwards);
        }
        let facts = input.devices.iter().find(|facts| facts.device == device);
        let (sweep, blocks) = replays.devices.remove(&device).unzip();
        sample.devices.extend(blocks.map(Filling::finish).map(|blocks| {
            let quantiles =
                [Stage::Q2C, Stage::D2C].map(|stage| (stage, tally.quantiles_of_all(stage)));
            (device, DeviceSample { quantiles, blocks })
        }));
        devices.push(tally.summary(device, facts, sweep.map(Sweep::finish)));
    }
    let summary = RunSummary {
        configuration: input.configuration.clone(),
        repetition: input.repetition,
        folder: input.folder.clone(),
        duration: input.duration,
        exit_code: input.exit_code,
        devices,
        ledger,
        btt: None,
    };
    Ok((summary, sample))
}
