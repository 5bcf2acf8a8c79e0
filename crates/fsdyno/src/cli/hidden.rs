//! The options of the hidden commands that work on a mounted filesystem.

use super::{InputPath, OutputPath};
use clap::{Args, ValueEnum};
use fsdyno_core::Nanos;
use fsdyno_core::durability::Act;
use fsdyno_core::workload::{Durability, Load};

/// Options of `fsdyno application`.
#[derive(Debug, Args)]
pub struct Application {
    /// The step to carry out.
    pub step: ApplicationStep,
    /// Where the filesystem is mounted.
    pub directory: OutputPath,
    /// The action of the application: `overwrite`, `append` or `read`.
    #[arg(value_parser = act)]
    pub act: Act,
    /// Decides what is written.
    pub seed: u64,
}

/// Steps, between which the filesystem is mounted anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ApplicationStep {
    /// Creates the file.
    Prepare,
    /// Writes or reads while requests fail.
    Act,
    /// Looks at what is there afterwards.
    Look,
}

fn act(text: &str) -> Result<Act, String> {
    let known = [Act::Overwrite, Act::Append, Act::Read];
    let found = known.into_iter().find(|act| act.name() == text);
    found.ok_or_else(|| format!("expected one of {}", known.map(Act::name).join(", ")))
}

/// Options of `fsdyno verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Where the filesystem is mounted.
    pub directory: InputPath,
    /// A file of marks, one after the other.
    pub marks: InputPath,
    /// The number of these marks that come before the cut.
    pub count: u64,
    /// When the cut came, in nanoseconds by the clock of the marks.
    #[arg(value_parser = nanoseconds)]
    pub cut_ns: Nanos,
    /// The seed of the workload.
    pub seed: u64,
    /// The parameters of the workload, as JSON.
    #[arg(value_parser = parameters)]
    pub parameters: Durability,
}

fn nanoseconds(text: &str) -> Result<Nanos, std::num::ParseIntError> {
    text.parse().map(Nanos)
}

fn parameters(text: &str) -> Result<Durability, String> {
    let parameters: Durability = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let refused = parameters.check().err();
    let problem = refused.map(|refusal| format!("'{}' must be {}", refusal.parameter, refusal.expected));
    problem.map_or(Ok(parameters), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked_before_anything_is_opened() {
        let good = serde_json::to_string(&Durability::default()).unwrap();
        assert_eq!(parameters(&good), Ok(Durability::default()));
        assert!(parameters("{}x").is_err());
        let bad = serde_json::to_string(&Durability { promises: 0, ..Durability::default() }).unwrap();
        assert_eq!(parameters(&bad).unwrap_err(), "'promises' must be a whole number from 1 to 10000");
        assert_eq!(nanoseconds("1500"), Ok(Nanos(1500)));
    }
}
