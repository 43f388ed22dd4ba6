//! The progress line of a run on a terminal: elapsed, events, events/s, lost, in flight.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use iotrace_capture::Progress;

use crate::talk::Talk;

/// A line that is drawn only on a terminal and leaves nothing behind.
pub(crate) struct Line {
    bar: ProgressBar,
    started: Instant,
}

impl Line {
    pub(crate) fn new(talk: Talk, label: &str) -> Self {
        let visible = talk == Talk::Normal && std::io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_prefix(label.to_owned());
        Self { bar, started: Instant::now() }
    }

    /// How many events of a trace have been read.
    pub(crate) fn count(&self, events: u64) {
        self.bar.set_message(format!("{} events", HumanCount(events)));
        self.bar.tick();
    }

    pub(crate) fn show(&self, progress: &Progress) {
        let seconds = self.started.elapsed().max(Duration::from_millis(1)).as_millis();
        let rate = u128::from(progress.events) * 1000 / seconds;
        self.bar.set_message(format!(
            "{} events ({}/s), {} lost, {} in flight",
            HumanCount(progress.events),
            HumanCount(u64::try_from(rate).unwrap_or(u64::MAX)),
            HumanCount(progress.lost),
            progress.in_flight.max(0),
        ));
        self.bar.tick();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
