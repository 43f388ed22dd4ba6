//! `iotrace completions` and `iotrace man`: both come from the definition of the arguments.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::exit::Exit;

/// Arguments of `iotrace completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to write completions for
    shell: Shell,
}

pub(crate) fn completions<P: CommandFactory>(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut P::command(), "iotrace", &mut text);
    io::stdout().write_all(&text)?;
    Ok(Exit::Done)
}

pub(crate) fn man<P: CommandFactory>() -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_mangen::Man::new(P::command()).render(&mut text)?;
    io::stdout().write_all(&text)?;
    Ok(Exit::Done)
}
