//! ^C, `kill` and a closed terminal: noted, never obeyed at once, so that settings come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Counts the signals that ask the program to stop.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Takes the signals over for the rest of the program's life.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let count = Arc::new(AtomicUsize::new(0));
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
            .context("cannot take over the signals")?;
        let counter = Arc::clone(&count);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self(count))
    }

    /// How often the user asked so far.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
