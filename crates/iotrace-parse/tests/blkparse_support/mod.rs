//! Reads a whole text of blkparse.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use iotrace_model::{Event, Item, Ledger};
use iotrace_parse::{About, BlkparseReader, Progress, Reader, Records};

/// All that a text says.
pub(crate) struct Text {
    /// Events of each capture in it.
    pub(crate) sections: Vec<Vec<Event>>,
    pub(crate) ledger: Ledger,
    pub(crate) records: Records,
    pub(crate) about: About,
}

impl Text {
    pub(crate) fn read(path: &Path, layout: Option<&str>) -> Self {
        let file = BufReader::new(File::open(path).unwrap());
        let mut reader = BlkparseReader::open(file, "text", layout).unwrap();
        let sections = read_sections(&mut reader);
        let ledger = reader.take_ledger();
        Self { sections, ledger, records: reader.records(), about: reader.about() }
    }

    /// Events of all captures.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.sections.concat()
    }
}

/// Events of each capture that a reader knows.
pub(crate) fn read_sections(reader: &mut impl Reader) -> Vec<Vec<Event>> {
    let mut sections = Vec::new();
    let mut items = Vec::new();
    loop {
        let progress = reader.next_batch(&mut items).unwrap();
        if progress != Progress::More {
            let events = items.drain(..).map(|item| match item {
                Item::Event(event) => event,
                Item::Loss(loss) => panic!("{loss:?}"),
            });
            sections.push(events.collect());
        }
        if progress == Progress::End {
            return sections;
        }
    }
}
