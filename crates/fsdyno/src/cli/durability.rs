//! Options of `fsdyno durability`.

use super::{Format, InputPath, Overrides};
use clap::Args;
use std::str::FromStr;

/// Options of `fsdyno durability`.
#[derive(Debug, Args)]
pub struct Durability {
    /// The plan whose configurations are examined: a TOML file, `-` for stdin, or the name of one that
    /// `fsdyno plans` lists. Its device is not touched: they are made on a disk that fsdyno records.
    #[arg(required_unless_present = "show")]
    pub plan: Option<InputPath>,
    /// Places at which power is cut, for each configuration.
    #[arg(long, value_name = "N")]
    pub cuts: Option<u32>,
    /// Let requests to the disk fail, one kind after the other, instead of cutting power: what fsync says,
    /// what is there afterwards, and whether the filesystem can still be used.
    #[arg(long, conflicts_with_all = ["cuts", "show"])]
    pub io_errors: bool,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Continue an interrupted sweep of the plan, with the changes that it was begun with: the latest one, or
    /// the one named.
    #[arg(long, value_name = "SWEEP", num_args = 0..=1, default_missing_value = "latest", conflicts_with_all = ["cuts", "show", "io_errors"])]
    pub resume: Option<String>,
    /// Mount the disk of a trial as it was after a cut, to look at it, until Enter is pressed. The trial
    /// must have kept its log (`keep_log = true`); trials are counted from 1, cuts from 0.
    #[arg(
        long,
        value_name = "SWEEP/TRIAL/CUT[/MODEL[/SUBSET]]",
        conflicts_with_all = ["plan", "cuts", "set", "memory", "kernel", "modules"]
    )]
    pub show: Option<StateName>,
    /// Output format.
    #[arg(long, default_value = "text", conflicts_with = "show")]
    pub format: Format,
}

/// Which state to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateName {
    /// A selector of a sweep.
    pub sweep: String,
    /// Number of the trial, counted from 1.
    pub trial: u32,
    /// Number of the cut.
    pub cut: u32,
    /// Name of the cache model; the first of the trial if absent.
    pub model: Option<String>,
    /// Number of the subset.
    pub subset: u32,
}

impl FromStr for StateName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("expected SWEEP/TRIAL/CUT, such as 3/1/12 or 3/1/12/subset/1, not '{text}'");
        let parts: Vec<&str> = text.split('/').collect();
        let (sweep, trial, cut, rest) = match parts[..] {
            [sweep, trial, cut, ref rest @ ..] if rest.len() <= 2 && !sweep.is_empty() => {
                (sweep, trial, cut, rest)
            }
            _ => return Err(expected()),
        };
        let number = |text: &str| text.parse().map_err(|_| expected());
        Ok(StateName {
            sweep: sweep.to_string(),
            trial: number(trial)?,
            cut: number(cut)?,
            model: rest.first().map(|model| model.to_string()),
            subset: rest.get(1).map_or(Ok(0), |subset| number(subset))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_a_name() {
        let state = |text: &str| text.parse::<StateName>();
        let plain = StateName { sweep: "3".to_string(), trial: 1, cut: 12, model: None, subset: 0 };
        assert_eq!(state("3/1/12"), Ok(plain.clone()));
        let whole = StateName { model: Some("subset".to_string()), subset: 1, ..plain };
        assert_eq!(state("3/1/12/subset/1"), Ok(whole));
        for wrong in ["", "3", "3/0", "/0/1", "3/x/1", "3/0/-1", "3/0/1/subset/1/2"] {
            assert!(state(wrong).is_err(), "{wrong}");
        }
    }
}
