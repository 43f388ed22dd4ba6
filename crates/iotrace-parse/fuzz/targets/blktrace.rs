//! blktrace files: one, or, when a record begins behind the middle and the last byte says so, two.

#![no_main]

use std::io::{Cursor, Read};

use iotrace_parse::BlktraceReader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((last, rest)) = data.split_last() else { return };
    let (_, behind) = rest.split_at(rest.len() / 2);
    let magic = behind.windows(4).position(|word| word == b"\x07tae" || word == b"eat\x07");
    let cut = magic.filter(|_| last % 2 == 1).map_or(rest.len(), |place| rest.len() / 2 + place);
    let (first, second) = rest.split_at(cut);
    let files = [first, second].into_iter().enumerate().map(|(place, bytes)| {
        let file: Box<dyn Read + Send> = Box::new(Cursor::new(bytes.to_vec()));
        (file, format!("sda.blktrace.{place}"))
    });
    if let Ok(mut reader) = BlktraceReader::open(files.collect()) {
        iotrace_fuzz::drive(&mut reader);
    }
});
