//! A sweep as a race: it drops configurations as evidence grows, within a budget.

use crate::measure::Measure;
use crate::units::Nanos;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The budget of a race.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RaceBudget {
    /// As many trials as halving needs.
    #[default]
    Halving,
    /// Trials, sentinels included; at least 1.
    Trials(u32),
    /// The time of its trials; more than 0.
    Time(Nanos),
}

/// A text that is no budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a budget; examples: 200, 200 trials, 24h")]
pub struct BudgetTextError(pub String);

impl FromStr for RaceBudget {
    type Err = BudgetTextError;

    /// A number without a unit counts trials.
    fn from_str(text: &str) -> Result<Self, BudgetTextError> {
        let text = text.trim();
        let refused = || BudgetTextError(text.to_string());
        let number = ["trials", "trial"].iter().find_map(|unit| text.strip_suffix(unit));
        let number = number.unwrap_or(text).trim_end();
        match number.parse::<u32>() {
            Ok(0) => Err(refused()),
            Ok(trials) => Ok(RaceBudget::Trials(trials)),
            Err(_) if number.parse::<f64>().is_ok() => Err(refused()),
            Err(_) => match text.parse::<Nanos>() {
                Ok(Nanos(0)) | Err(_) => Err(refused()),
                Ok(time) => Ok(RaceBudget::Time(time)),
            },
        }
    }
}

impl fmt::Display for RaceBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RaceBudget::Halving => f.write_str("as many trials as halving needs"),
            RaceBudget::Trials(1) => f.write_str("1 trial"),
            RaceBudget::Trials(trials) => write!(f, "{trials} trials"),
            RaceBudget::Time(time) => write!(f, "{time}"),
        }
    }
}

impl RaceBudget {
    /// Returns the number of trials that the race may spend, if its budget counts them.
    pub const fn trials(self) -> Option<u32> {
        match self {
            RaceBudget::Trials(trials) => Some(trials),
            RaceBudget::Time(_) | RaceBudget::Halving => None,
        }
    }

    /// Its limit in words, if it has one.
    pub fn limit(&self) -> Option<String> {
        (*self != RaceBudget::Halving).then(|| self.to_string())
    }
}

/// Null if there is no limit.
impl Serialize for RaceBudget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.limit().serialize(serializer)
    }
}

/// The rules of a race: with the trials so far, they decide what comes next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RaceRules {
    /// The budget of the race.
    pub budget: RaceBudget,
    /// The measure that the configurations compete on.
    pub measure: Measure,
    /// The number of configurations at the start.
    pub configurations: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_number_of_trials_or_a_time() {
        let parse = |text: &str| text.parse::<RaceBudget>().map(|budget| budget.to_string());
        for (text, expected) in
            [("200", "200 trials"), (" 200 trials ", "200 trials"), ("1trial", "1 trial"), ("90m", "1h 30m")]
        {
            assert_eq!(parse(text).as_deref(), Ok(expected), "{text}");
        }
        for text in
            ["", "0", "0 trials", "0s", "trials", "-3", "3 parsecs", "99999999999", "1.5 trials", "1.5"]
        {
            assert_eq!(parse(text), Err(BudgetTextError(text.to_string())), "{text}");
        }
        for budget in [RaceBudget::Trials(7), RaceBudget::Time(Nanos::from_secs(3661))] {
            assert_eq!(budget.to_string().parse(), Ok(budget), "what is printed can be written");
        }
    }
}
