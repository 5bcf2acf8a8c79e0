//! Options of `fsdyno race`, and those that make a sweep a race.

use super::DocumentFormat;
use super::results::share;
use clap::Args;
use fsdyno_core::RaceBudget;

/// Options that make a sweep a race.
#[derive(Debug, Default, Args)]
pub struct Racing {
    /// Race: measure every configuration once, drop the worse half, and so on, to find the best one in a
    /// fraction of the trials. The same as `protocol = "race"` in the plan.
    #[arg(long)]
    pub race: bool,
    /// The budget of the race: trials, such as `200`, or time, such as `24h` [default: as many trials as
    /// halving needs].
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<RaceBudget>,
}

/// As many trials as a text says, in any way that a plan takes.
fn trials(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(RaceBudget::Trials(trials)) => Ok(trials),
        Ok(_) => Err("the budget of a replay is a number of trials".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Options of `fsdyno race`.
#[derive(Debug, Args)]
pub struct Race {
    /// Number or name of a sweep that was a race [default: the latest sweep].
    #[arg(conflicts_with = "replay")]
    pub sweep: Option<String>,
    /// Replay a race on the trials of this sweep or imported table: what it would have cost and picked. No
    /// device is touched.
    #[arg(long, value_name = "SWEEP")]
    pub replay: Option<String>,
    /// Trials that the replay may take [default: as many as halving needs, within the blocks of the sweep].
    #[arg(long, value_name = "TRIALS", requires = "replay", value_parser = trials)]
    pub budget: Option<u32>,
    /// Replay for this instead of the plan's measure: throughput, latency, stalls, cpu, or any measure.
    #[arg(long = "for", value_name = "GOAL", requires = "replay")]
    pub goal: Option<String>,
    /// The largest difference that does not matter.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    pub threshold: f64,
    /// Part of the title of the workload, if the sweep has several.
    #[arg(long, value_name = "TEXT", requires = "replay")]
    pub workload: Option<String>,
    /// Which of the stored trials are drawn: another seed replays another race [default: the sweep's].
    #[arg(long, value_name = "NUMBER", requires = "replay")]
    pub seed: Option<u64>,
    /// Output format.
    #[arg(long, default_value = "text")]
    pub format: DocumentFormat,
}
