//! Goals: what a person wants, and the measure that tells it under a workload.

use super::{Measure, MeasureError};
use crate::workload::Workload;
use std::fmt;
use std::str::FromStr;

/// What the choice of a configuration is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Much work done: bytes, or what the workload counts.
    Throughput,
    /// Single operations that do not take long, the slowest of a thousand.
    Latency,
    /// No long time in which nothing comes back.
    Stalls,
    /// Little processor time.
    Cpu,
    /// This measure.
    Measure(Measure),
}

/// The goals that have a word of their own.
const WORDS: [(&str, Goal); 4] = [
    ("throughput", Goal::Throughput),
    ("latency", Goal::Latency),
    ("stalls", Goal::Stalls),
    ("cpu", Goal::Cpu),
];

impl Goal {
    /// Those that have a word of their own, in the order in which they are shown.
    pub fn words() -> impl Iterator<Item = (&'static str, Goal)> {
        WORDS.into_iter()
    }

    /// The measure that tells it under a workload; `None` where the workload has none.
    pub fn measure(&self, workload: &Workload) -> Option<Measure> {
        let load = workload.load();
        let name = match self {
            Goal::Measure(measure) => return Some(measure.clone()),
            Goal::Throughput => load.throughput().to_string(),
            Goal::Latency => load.latency()?,
            Goal::Stalls => "longest-stall".to_string(),
            Goal::Cpu => "cpu-per-mb".to_string(),
        };
        name.parse().ok()
    }
}

impl FromStr for Goal {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        let text = text.trim();
        if let Some((_, goal)) = Goal::words().find(|(word, _)| *word == text) {
            return Ok(goal);
        }
        text.parse().map(Goal::Measure).map_err(|error| match error {
            MeasureError::UnknownName { name, nearest } => {
                let near = crate::nearest(&name, WORDS.iter().map(|(word, _)| *word)).map(str::to_string);
                MeasureError::UnknownName { nearest: near.or(nearest), name }
            }
            other => other,
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Measure(measure) => measure.fmt(f),
            goal => f.pad(WORDS.iter().find(|(_, other)| other == goal).map_or("", |(word, _)| word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_goals_and_everything_else_a_measure() {
        assert_eq!("latency".parse(), Ok(Goal::Latency));
        assert_eq!("read".parse::<Goal>().unwrap().to_string(), "read");
        assert_eq!("cpu".parse::<Goal>().unwrap().to_string(), "cpu");
        let error = "througput".parse::<Goal>().unwrap_err();
        assert!(error.to_string().ends_with("did you mean 'throughput'?"), "{error}");
    }

    #[test]
    fn the_measures_of_every_workload_exist() {
        for workload in Workload::KINDS.iter().filter_map(|kind| Workload::of_kind(kind)) {
            let latency = workload.load().latency();
            assert!(latency.is_none() == Goal::Latency.measure(&workload).is_none(), "{latency:?}");
            assert!(
                Goal::words().all(|(_, goal)| goal == Goal::Latency || goal.measure(&workload).is_some())
            );
        }
    }
}
