//! Options of `fsdyno race`.

use super::DocumentFormat;
use super::results::share;
use clap::Args;

/// Options of `fsdyno race`.
#[derive(Debug, Args)]
pub struct Race {
    /// Number or name of a stored sweep or an imported table, whose trials are drawn. No device is touched.
    #[arg(long, value_name = "SWEEP", required = true)]
    pub replay: String,
    /// Trials that the race may take [default: as many as halving needs, within the blocks of the sweep].
    #[arg(long, value_name = "TRIALS", value_parser = clap::value_parser!(u32).range(1..))]
    pub budget: Option<u32>,
    /// Race for this instead of the plan's measure: throughput, latency, stalls, cpu, or any measure.
    #[arg(long = "for", value_name = "GOAL")]
    pub goal: Option<String>,
    /// The largest difference that does not matter.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    pub threshold: f64,
    /// Part of the title of the workload, if the sweep has several.
    #[arg(long, value_name = "TEXT")]
    pub workload: Option<String>,
    /// Which of the stored trials are drawn: another seed replays another race [default: the sweep's].
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: DocumentFormat,
}
