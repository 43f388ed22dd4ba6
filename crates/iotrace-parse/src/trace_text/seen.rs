//! What there is to say about a text as a whole.

use iotrace_model::Nanos;

use super::head::{Form, Head};
use super::marks::clock_name;
use crate::About;

/// What was noticed so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Time 0 of the section, on the text's clock.
    pub(super) origin: Option<i64>,
    /// Events that the ring overwrote, by its header.
    pub(super) overwritten: u64,
    /// Lines longer than what was looked at.
    pub(super) cut: u64,
    form: Option<Form>,
    clock: String,
    /// Used events with a time in microseconds, without a CPU, without a thread.
    coarse: u64,
    without_cpu: u64,
    without_thread: u64,
    malformed: u64,
    /// Line of the first, and what was expected there.
    first_malformed: Option<(u64, &'static str)>,
}

impl Seen {
    /// A section begins.
    pub(super) fn begin(&mut self, head: &Head<'_>) {
        self.origin = Some(head.time);
        self.form.get_or_insert(head.form);
    }

    /// An event is used.
    pub(super) fn used(&mut self, head: &Head<'_>) {
        self.coarse += u64::from(!head.is_fine);
        self.without_cpu += u64::from(head.cpu.is_none());
        self.without_thread += u64::from(head.pid.is_none());
    }

    /// The text names its clock.
    pub(super) fn name_clock(&mut self, word: &[u8]) {
        self.clock = clock_name(word);
    }

    pub(super) fn malformed(&mut self, line: u64, expected: &'static str) {
        self.malformed += 1;
        self.first_malformed.get_or_insert((line, expected));
    }

    pub(super) fn about(&self) -> About {
        let source = match self.form {
            Some(Form::PerfScript) => "perf script text",
            Some(Form::Ftrace) => "ftrace text",
            None => "",
        };
        let mut notes = Vec::new();
        let mut note = |applies: bool, text: &str| {
            if applies {
                notes.push(text.to_owned());
            }
        };
        note(self.clock.is_empty(), "the text does not name its clock");
        note(
            self.coarse > 0,
            "times are whole microseconds; events of one microsecond keep the order of the text",
        );
        note(self.without_cpu > 0, "events without a CPU are counted to CPU 0");
        note(self.cut > 0, "lines longer than 65536 bytes are cut there");
        note(self.without_thread > 0, "events without a thread have thread 0");
        if self.overwritten > 0 {
            let count = self.overwritten;
            notes.push(format!("the ring overwrote {count} entries before the first that is left"));
        }
        if let Some((line, expected)) = self.first_malformed {
            let count = self.malformed;
            notes.push(format!(
                "{count} records cannot be read; the first is in line {line}: expected {expected}"
            ));
        }
        About {
            source: source.to_owned(),
            clock: self.clock.clone(),
            origin: self.origin.map(Nanos),
            notes,
            ..About::default()
        }
    }
}
