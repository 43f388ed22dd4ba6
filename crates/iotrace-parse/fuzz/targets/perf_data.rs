//! perf.data, in file and pipe mode, compressed or not.

#![no_main]

use std::io::Cursor;

use iotrace_parse::{Options, PerfReader};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(mut reader) = PerfReader::open(Cursor::new(data), "fuzz", Options::default()) {
        iotrace_fuzz::drive(&mut reader);
    }
});
