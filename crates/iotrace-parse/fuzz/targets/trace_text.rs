//! The text of perf script and of ftrace.

#![no_main]

use iotrace_parse::{TextKind, TraceTextOptions, TraceTextReader};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for kind in [TextKind::PerfScript, TextKind::Ftrace, TextKind::Either] {
        let options = TraceTextOptions { kind, devices: Vec::new() };
        if let Ok(mut reader) = TraceTextReader::open(data, "fuzz", options) {
            iotrace_fuzz::drive(&mut reader);
        }
    }
});
