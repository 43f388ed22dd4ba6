//! Any file: its kind is told by its content, and it is opened when it is compressed.

#![no_main]

use std::path::PathBuf;

use iotrace_parse::{OpenOptions, open};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let path = PathBuf::from(format!("/dev/shm/iotrace-fuzz-{}", std::process::id()));
    if std::fs::write(&path, data).is_err() {
        return;
    }
    let options = OpenOptions {
        format: None,
        layout: None,
        ports: Vec::new(),
        scratch: PathBuf::from("/dev/shm"),
    };
    for trace in open(&[path.clone()], &options).into_iter().flatten() {
        let mut trace = trace;
        iotrace_fuzz::drive(trace.reader.as_mut());
    }
    std::fs::remove_file(&path).ok();
});
