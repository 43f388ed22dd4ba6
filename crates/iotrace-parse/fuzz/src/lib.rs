//! What every target does with a reader: everything that the program does with it.
//!
//! Nothing may panic, nothing may be lost in silence, and no input may grow without bound.

use iotrace_model::{Cause, Item, Ledger};
use iotrace_parse::{Progress, Reader};
use iotrace_requests::Assembler;

/// Batches after which a reader that still says `More` does not end.
const MOST_BATCHES: usize = 1 << 16;

/// Reads to the end and pairs events to requests.
pub fn drive(reader: &mut dyn Reader) {
    let (mut items, mut requests) = (Vec::new(), Vec::new());
    let mut assembler = Assembler::new();
    let mut ledger = Ledger::default();
    for _ in 0..MOST_BATCHES {
        items.clear();
        // A file that cannot be read on, such as a damaged compressed one, is an error at its end.
        let Ok(progress) = reader.next_batch(&mut items) else { return };
        for item in &items {
            if let Item::Loss(loss) = item {
                assert!(loss.from <= loss.to, "a loss ends before it begins");
            }
            assembler.push(item, &mut requests);
        }
        requests.clear();
        if progress != Progress::More {
            std::mem::take(&mut assembler).finish(&mut requests);
            ledger.merge(&reader.take_ledger());
        }
        if progress == Progress::End {
            let counted = [Cause::Malformed, Cause::Truncated, Cause::Foreign]
                .map(|cause| ledger.count(cause))
                .iter()
                .sum::<u64>();
            let records = reader.records();
            assert_eq!(records.used + counted, records.read, "used and counted is read");
            drop(reader.about());
            return;
        }
    }
    panic!("the reader does not end");
}
