//! What is written down of a run and of the whole plan.

use iotrace_capture::{Capture, Finished, device_facts, host_facts};
use iotrace_dataset::{
    CaptureDocument, FactorDocument, MANIFEST_SCHEMA, Manifest, PlanDocument, RUN_SCHEMA,
    RowsDocument, RunDocument, RunEntry, ledger_to_documents,
};
use iotrace_model::{Configuration, DeviceFacts, Facts, Ledger, Nanos};

use super::Plan;
use super::decode::Decoded;
use super::order::Step;

/// Everything that goes into one run's document.
pub(super) struct Parts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) step: &'a Step,
    pub(super) configuration: &'a Configuration,
    pub(super) order: usize,
    pub(super) started_realtime: Nanos,
    pub(super) devices: &'a [DeviceFacts],
    pub(super) counters: &'a Facts,
    pub(super) capture: &'a Capture,
    pub(super) finished: &'a Finished,
    pub(super) decoded: &'a Decoded,
    pub(super) ledger: &'a Ledger,
    pub(super) interrupted: bool,
}

/// `run.json` of one run.
pub(super) fn run(parts: &Parts<'_>) -> RunDocument {
    let Parts { plan, step, capture, finished, decoded, .. } = parts;
    RunDocument {
        schema: RUN_SCHEMA.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        configuration: parts.configuration.settings.clone(),
        repetition: step.repetition,
        warmup: step.warmup,
        order: u32::try_from(parts.order).unwrap_or(u32::MAX),
        clock: "CLOCK_MONOTONIC".to_owned(),
        clock_origin_ns: capture.started.0,
        started_realtime_ns: parts.started_realtime.0,
        command: command(plan),
        run_as: plan.run_as.as_ref().map(|user| user.name.clone()),
        exit_code: finished.exit_code,
        signal: finished.signal,
        interrupted: parts.interrupted,
        wall_ns: finished.wall.0,
        user_ns: finished.user.0,
        system_ns: finished.system.0,
        max_rss_bytes: finished.max_rss_bytes,
        settle_ms: u64::try_from(plan.settle.as_millis()).unwrap_or(u64::MAX),
        devices: parts.devices.iter().map(Into::into).collect(),
        host: host_facts(plan.identifiers).into(),
        counters: parts.counters.into(),
        capture: CaptureDocument {
            source: "perf".to_owned(),
            trace_events: capture.trace_events.clone(),
            records_read: decoded.records_read,
            events: capture.events,
            bytes: capture.bytes,
            ring_bytes: iotrace_capture::page_size() << plan.ring_pages_exp,
            cpu_ns: capture.cpu_time.0,
            in_memory: plan.memory_limit.is_some(),
        },
        ledger: ledger_to_documents(parts.ledger),
        rows: RowsDocument {
            events: decoded.filled.events,
            requests: decoded.filled.requests,
            by_status: decoded
                .filled
                .statuses
                .iter()
                .map(|(status, count)| ((*status).to_owned(), *count))
                .collect(),
        },
        imported: None,
    }
}

/// `manifest.json` of the whole plan, still without checksums.
pub(super) fn manifest(
    plan: &Plan,
    created: Nanos,
    runs: Vec<RunEntry>,
    ledger: &Ledger,
    incomplete: Vec<String>,
) -> Manifest {
    let devices = plan.targets.iter().map(|target| device_facts(target, plan.identifiers));
    Manifest {
        schema: MANIFEST_SCHEMA.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        created: crate::cmd::timestamp(created),
        simulated: false,
        plan: PlanDocument {
            command: command(plan),
            factors: plan
                .factors
                .iter()
                .map(|factor| FactorDocument {
                    key: factor.key.name().to_owned(),
                    values: factor.values.clone(),
                })
                .collect(),
            repeat: plan.repeat,
            warmup: plan.warmup,
            settle_ms: u64::try_from(plan.settle.as_millis()).unwrap_or(u64::MAX),
            order: runs.iter().map(|run| run.folder.clone()).collect(),
        },
        runs,
        host: host_facts(plan.identifiers).into(),
        devices: devices.map(|facts| (&facts).into()).collect(),
        ledger: ledger_to_documents(ledger),
        incomplete,
        checksums: std::collections::BTreeMap::new(),
    }
}

/// The workload's words.
pub(super) fn command(plan: &Plan) -> Vec<String> {
    plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
