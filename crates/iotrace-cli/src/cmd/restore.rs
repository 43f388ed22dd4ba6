//! `iotrace restore`: undoes what the journal says a dead run left changed.

use std::path::PathBuf;

use anyhow::Context;

use crate::exit::Exit;

/// Arguments of `iotrace restore`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of the journal
    #[arg(long, value_name = "DIR", default_value = super::record::JOURNAL, env = "IOTRACE_JOURNAL")]
    journal: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let restored = iotrace_capture::restore(&args.journal).context("cannot restore settings")?;
    if restored.is_empty() {
        println!("nothing to restore");
    }
    let mut exit = Exit::Done;
    for setting in &restored {
        println!("{setting}");
        if !setting.is_done() {
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}
