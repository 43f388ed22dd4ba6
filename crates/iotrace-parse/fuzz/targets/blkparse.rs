//! The text of blkparse: in its own format, or, when the first line begins with %, in the one that
//! this line declares.

#![no_main]

use iotrace_parse::BlkparseReader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (layout, text) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) if data.starts_with(b"%") => {
            (std::str::from_utf8(&data[..end]).ok(), &data[end + 1..])
        }
        _ => (None, data),
    };
    if let Ok(mut reader) = BlkparseReader::open(text, "fuzz", layout) {
        iotrace_fuzz::drive(&mut reader);
    }
});
