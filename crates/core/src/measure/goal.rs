//! Goals: what a user wants to optimise, and the measure for it under each workload.

use super::{Measure, MeasureError};
use crate::workload::{LatencyTarget, Workload};
use std::fmt;
use std::str::FromStr;

/// The goal that a configuration is chosen for.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// High throughput: bytes, or whatever the workload counts.
    Throughput,
    /// Low latency, even of the slowest operation in a thousand.
    Latency,
    /// Short stalls: times in which nothing completes.
    Stalls,
    /// Little processor time.
    Cpu,
    /// Many iterations per second at response times that meet a target: `p99 <= 20ms`.
    Capacity(LatencyTarget),
    /// This measure.
    Measure(Measure),
}

/// The goals that have a name.
const WORDS: [(&str, Goal); 4] = [
    ("throughput", Goal::Throughput),
    ("latency", Goal::Latency),
    ("stalls", Goal::Stalls),
    ("cpu", Goal::Cpu),
];

impl Goal {
    /// The goals that have a name, in the order in which they are shown.
    pub fn words() -> impl Iterator<Item = (&'static str, Goal)> {
        WORDS.into_iter()
    }

    /// The measure for it under a workload; `None` if the workload has none.
    pub fn measure(&self, workload: &Workload) -> Option<Measure> {
        let load = workload.load();
        let name = match self {
            Goal::Measure(measure) => return Some(measure.clone()),
            Goal::Capacity(target) => match workload {
                Workload::Flow(flow) if flow.rate_search()?.until == *target => "flow-capacity".to_string(),
                _ => return None,
            },
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
        if text.contains('<') {
            let refused = |_| MeasureError::NoTarget { text: text.to_string() };
            return text.parse().map(Goal::Capacity).map_err(refused);
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
            Goal::Capacity(target) => f.pad(&target.to_string()),
            goal => f.pad(WORDS.iter().find(|(_, other)| other == goal).map_or("", |(word, _)| word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Role;
    use crate::units::Nanos;
    use crate::workload::{Arrivals, Flow, FlowRole, Pace, RateSearch};

    #[test]
    fn words_are_goals_and_everything_else_a_measure() {
        assert_eq!("latency".parse(), Ok(Goal::Latency));
        assert_eq!("read".parse::<Goal>().unwrap().to_string(), "read");
        assert_eq!("cpu".parse::<Goal>().unwrap().to_string(), "cpu");
        let error = "througput".parse::<Goal>().unwrap_err();
        assert!(error.to_string().ends_with("did you mean 'throughput'?"), "{error}");
    }

    #[test]
    fn a_promise_is_a_goal_of_the_flows_that_search_for_its_rate() {
        let goal: Goal = "p99<= 20ms".parse().unwrap();
        assert_eq!(goal.to_string(), "p99 <= 20ms");
        let mut flow = Flow::default();
        assert_eq!(goal.measure(&Workload::Flow(flow.clone())), None);
        let search = |until: &str| RateSearch {
            until: until.parse().unwrap(),
            step: Nanos::from_secs(1),
            arrivals: Arrivals::Constant,
        };
        let role =
            |until: &str| FlowRole { rate: Some(Pace::Highest(search(until))), ..FlowRole::of(Role::Client) };
        flow.roles.0 = vec![role("p99 <= 0.02")];
        let measure = goal.measure(&Workload::Flow(flow.clone())).unwrap();
        assert_eq!(measure.name(), "flow-capacity");
        flow.roles.0 = vec![role("p99.9 <= 20ms")];
        assert_eq!(goal.measure(&Workload::Flow(flow)), None);
        for wrong in ["p98 <= 20ms", "p99 < 20ms"] {
            let error = wrong.parse::<Goal>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{wrong}' is not a quantile and a time")), "{error}");
        }
    }

    #[test]
    fn the_goals_of_every_workload_have_existing_measures() {
        for workload in Workload::KINDS.iter().filter_map(|kind| Workload::of_kind(kind)) {
            let latency = workload.load().latency();
            assert!(latency.is_none() == Goal::Latency.measure(&workload).is_none(), "{latency:?}");
            assert!(
                Goal::words().all(|(_, goal)| goal == Goal::Latency || goal.measure(&workload).is_some())
            );
        }
    }
}
