//! `cargo xtask bench`: iotrace beside its peers on the same job, with the ratios.
//!
//! `record` compares with `perf record`, `import` with `blkparse` and `btt`, and with `perf script`.
//! The rounds alternate, so that a drift of the machine hits both. Absolute times mean little; the
//! ratios are the figures.

mod generate;
mod import;
mod measure;
mod record;

/// Arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Recording beside perf record
    Record(record::Args),
    /// Importing and analysing beside blkparse and btt, and beside perf script
    Import(import::Args),
}

/// Runs the benchmark that was asked for, or both.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        Some(What::Record(args)) => record::run(args),
        Some(What::Import(args)) => import::run(args),
        None => {
            import::run(&import::Args::default())?;
            record::run(&record::Args::default())
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
