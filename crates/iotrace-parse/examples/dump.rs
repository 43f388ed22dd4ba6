//! Prints what a perf file holds: `dump FILE` one line for each item, `dump --count FILE` the sums.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use iotrace_model::Item;
use iotrace_parse::{Options, PerfReader, Progress, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (path, is_counting) = match arguments.as_slice() {
        [flag, path] if flag == "--count" => (path, true),
        [path] => (path, false),
        _ => return Err("usage: dump [--count] FILE".into()),
    };
    let mut reader = PerfReader::open(File::open(path)?, path, Options::default())?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut counts = BTreeMap::new();
    let mut items = Vec::new();
    loop {
        let progress = reader.next_batch(&mut items)?;
        for item in items.drain(..) {
            match item {
                Item::Event(event) => *counts.entry(Some(event.action)).or_insert(0_u64) += 1,
                Item::Loss(loss) => *counts.entry(None).or_default() += loss.count,
            }
            if !is_counting {
                writeln!(out, "{item:?}")?;
            }
        }
        if progress == Progress::End {
            break;
        }
    }
    if is_counting {
        for (action, count) in counts {
            let name = action.map_or(Some("lost"), iotrace_model::Action::name);
            writeln!(out, "{count:>10} {}", name.unwrap_or("unknown"))?;
        }
    }
    writeln!(out, "{:?}", reader.about())?;
    writeln!(out, "{:?}", reader.records())?;
    for (cause, cpu, entry) in reader.take_ledger().entries() {
        writeln!(out, "{} {cpu:?} {entry:?}", cause.name())?;
    }
    Ok(out.flush()?)
}
