//! The rate at which the iterations of a role begin: an open loop, in which requests arrive whether or not
//! the filesystem keeps up.

use super::Flow;
use crate::quantile::Quantile;
use crate::units::Nanos;
use crate::workload::Ramp;
use crate::workload::fields::Fields;
use crate::workload::parameter::{Inside, Literal, Parameter, ParameterError, Refusal, Surroundings, words};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The most iterations per second that a role may have: the workers share one counter. At the least, there is
/// one in 11 days.
const MAX_PER_SECOND: f64 = 1e6;
const MIN_PER_SECOND: f64 = 1e-6;
/// The time for which a rate is tried, unless the plan says otherwise.
const STEP: Nanos = Nanos::from_secs(5);
const SHORTEST_STEP: Nanos = Nanos::from_millis(100);
const LONGEST_STEP: Nanos = Nanos::from_secs(3600);

words! {
    /// When iterations are due.
    Arrivals, "kind of arrivals" {
        /// One after the other at the same distance.
        Constant = "constant",
        /// Independently of each other: the distances have an exponential distribution.
        Poisson = "poisson",
    }
}

/// A rate that is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Iterations per second.
    pub per_second: f64,
    /// When each of them is due.
    pub arrivals: Arrivals,
}

impl Rate {
    /// The mean distance between two iterations, in nanoseconds.
    pub fn interval_ns(&self) -> f64 {
        1e9 / self.per_second
    }
}

/// A rate that a trial has to find: the highest one at which response times meet a target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSearch {
    /// The target.
    pub until: LatencyTarget,
    /// The time for which each rate is tried.
    pub step: Nanos,
    /// When iterations are due.
    pub arrivals: Arrivals,
}

impl RateSearch {
    /// Steps that a search usually takes, at most: one without a rate, those that are tried (some of them
    /// twice), and one at the rate that was found.
    const STEPS: u64 = 18;
    /// Between two steps, somebody has to look.
    const BETWEEN: Nanos = Nanos::from_millis(250);

    /// Returns the longest time that the search may take.
    pub fn longest(&self) -> Nanos {
        Nanos(self.step.0.saturating_add(Self::BETWEEN.0).saturating_mul(Self::STEPS))
    }
}

/// The rate at which the workers of a role together begin iterations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Pace {
    /// So many times a second.
    At(Rate),
    /// As often as a target allows.
    Highest(RateSearch),
}

/// The limit on a quantile of response times: `p99 <= 20ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyTarget {
    /// Which quantile.
    pub quantile: Quantile,
    /// The longest that it may be.
    pub within: Nanos,
}

impl LatencyTarget {
    /// Of so many iterations, how many may take longer.
    pub fn allowed(&self, count: u64) -> u64 {
        // Rounded up to the rank that defines the quantile, in a way that 1 % of 300 are 3.
        let inside = (self.quantile.fraction() * count as f64 - 1e-6).ceil().max(0.0) as u64;
        count.saturating_sub(inside)
    }
}

impl fmt::Display for LatencyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <= {}", self.quantile.label(), self.within)
    }
}

/// A text that is no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a quantile and a time such as \"p99 <= 20ms\"; the quantiles are {}", quantiles())]
pub struct NoTarget;

fn quantiles() -> String {
    Quantile::ALL.iter().map(|quantile| quantile.label()).collect::<Vec<_>>().join(", ")
}

impl FromStr for LatencyTarget {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, NoTarget> {
        let (label, time) = text.split_once("<=").ok_or(NoTarget)?;
        let named = |quantile: &&Quantile| quantile.label() == label.trim();
        let quantile = *Quantile::ALL.iter().find(named).ok_or(NoTarget)?;
        let within: Nanos = time.trim().parse().map_err(|_| NoTarget)?;
        if within > Nanos(0) { Ok(LatencyTarget { quantile, within }) } else { Err(NoTarget) }
    }
}

impl Serialize for LatencyTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LatencyTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Parameter for LatencyTarget {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        let expected = |refusal: NoTarget| ParameterError::Expected(refusal.to_string());
        match literal {
            Literal::Text(text) => text.parse().map_err(expected),
            _ => Err(expected(NoTarget)),
        }
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

/// Iterations per second.
struct PerSecond(f64);

impl Parameter for PerSecond {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let expected = || {
            ParameterError::Expected(format!(
                "iterations per second, from {MIN_PER_SECOND} to {MAX_PER_SECOND}"
            ))
        };
        let number = f64::read(literal, surroundings).map_err(|_| expected())?;
        if (MIN_PER_SECOND..=MAX_PER_SECOND).contains(&number) {
            Ok(PerSecond(number))
        } else {
            Err(expected())
        }
    }

    fn written(&self) -> String {
        self.0.to_string()
    }
}

/// The time for which a rate is tried.
struct Try(Nanos);

impl Parameter for Try {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let step = Nanos::read(literal, surroundings)?;
        let sensible = (SHORTEST_STEP..=LONGEST_STEP).contains(&step);
        let expected = || ParameterError::Expected(format!("a time from {SHORTEST_STEP} to {LONGEST_STEP}"));
        if sensible { Ok(Try(step)) } else { Err(expected()) }
    }

    fn written(&self) -> String {
        self.0.written()
    }
}

impl Arrivals {
    /// The suffix of a rate in words: empty for constant arrivals.
    pub(crate) fn in_brackets(self) -> &'static str {
        match self {
            Arrivals::Constant => "",
            Arrivals::Poisson => " (poisson)",
        }
    }
}

impl Parameter for Rate {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Table(_) => {
                let fields = Fields::of(literal, surroundings)?;
                fields.only(&["per_second", "arrivals"])?;
                let PerSecond(per_second) = fields.required("per_second")?;
                Ok(Rate { per_second, arrivals: fields.or("arrivals", Arrivals::Constant)? })
            }
            _ => {
                let PerSecond(per_second) = PerSecond::read(literal, surroundings)?;
                Ok(Rate { per_second, arrivals: Arrivals::Constant })
            }
        }
    }

    fn written(&self) -> String {
        format!("{}/s{}", self.per_second, self.arrivals.in_brackets())
    }
}

impl Parameter for Pace {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Table(table) if table.contains_key("until") => {
                let fields = Fields::of(literal, surroundings)?;
                fields.only(&["until", "step", "arrivals"])?;
                let Try(step) = fields.or("step", Try(STEP))?;
                let arrivals = fields.or("arrivals", Arrivals::Constant)?;
                Ok(Pace::Highest(RateSearch { until: fields.required("until")?, step, arrivals }))
            }
            Literal::Table(table) if !table.contains_key("per_second") => {
                let fields = Fields::of(literal, surroundings)?;
                fields.only(&["per_second", "until", "step", "arrivals"])?;
                Ok(Pace::At(Rate::read(literal, surroundings)?))
            }
            Literal::Table(_) | Literal::Integer(_) | Literal::Float(_) => {
                Ok(Pace::At(Rate::read(literal, surroundings)?))
            }
            _ => Err(ParameterError::Expected(
                "a number of iterations per second, { per_second = 200, arrivals = \"poisson\" }, or \
                 { until = \"p99 <= 20ms\" }"
                    .to_string(),
            )),
        }
    }

    fn written(&self) -> String {
        match self {
            Pace::At(rate) => rate.written(),
            Pace::Highest(search) => {
                format!("the highest rate with {}{}", search.until, search.arrivals.in_brackets())
            }
        }
    }
}

impl Pace {
    /// When iterations are due.
    pub fn arrivals(&self) -> Arrivals {
        match self {
            Pace::At(rate) => rate.arrivals,
            Pace::Highest(search) => search.arrivals,
        }
    }
}

/// One role at a time can be driven to its limit, in a ramp of a given length.
pub(super) fn check(flow: &Flow) -> Result<(), Refusal> {
    let mut searching = flow.roles.0.iter().filter(|role| matches!(role.rate, Some(Pace::Highest(_))));
    let Some(first) = searching.next() else { return Ok(()) };
    if let Some(second) = searching.next() {
        let place = vec![Inside::Key(second.role.name().to_string()), Inside::Key("rate".to_string())];
        let text = format!(
            "the rate of role '{}' is searched for already; give '{}' one that is known, `per_second`",
            first.role, second.role
        );
        return Err(Refusal::sentence("roles", place, text));
    }
    let expected = "a time if a rate is searched for, because the search takes place at the end of the ramp";
    Refusal::unless(matches!(flow.ramp, Ramp::For(_)), "ramp", expected)
}
