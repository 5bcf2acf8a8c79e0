//! When a load is steady: its rate neither varies nor drifts much any more.
//!
//! The criterion is that of SNIA's Solid State Storage Performance Test Specification (version 2.0.1, Steady
//! State): over the last five rounds, the rate varies by no more than 20 % of its mean, and the straight line
//! of the least squares through it rises or falls by no more than 10 %. Here the second share and the number
//! of rounds are the plan's, and the first is twice the second.

use super::fields::Fields;
use super::parameter::{Literal, ParameterError, Surroundings};
use crate::units::{Nanos, Size};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The definition of a steady load, and the time to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steady {
    /// The most that the line through the rounds may rise or fall, as a share of the mean; the rates
    /// themselves may vary by twice that.
    pub within: f64,
    /// The number of rounds in a row.
    pub over: u32,
    /// The length of a round.
    pub round: Nanos,
    /// When the window begins at the latest.
    pub limit: Nanos,
}

/// The variation of a rate over the last rounds, as shares of its mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Excursion {
    /// From the lowest to the highest round.
    pub range: f64,
    /// The rise or fall of the straight line of the least squares from the first round to the last.
    pub slope: f64,
}

impl Steady {
    const KEYS: &[&str] = &["within", "over", "round", "limit"];
    /// Fewer say nothing about a drift, and more is more than anybody waits for.
    const ROUNDS: std::ops::RangeInclusive<u32> = 3..=100;
    const SHORTEST_ROUND: Nanos = Nanos::from_millis(500);

    /// From a table of a plan; keys that are not given have their defaults.
    ///
    /// # Errors
    /// Why it is not valid.
    pub fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Steady, ParameterError> {
        let fields = Fields::of(literal, surroundings)?;
        fields.only(Steady::KEYS)?;
        let inside = |key, expected: String| Err(ParameterError::ExpectedInside(key, expected));
        let mut steady = Steady::default();
        fields.set("over", &mut steady.over)?;
        fields.set("round", &mut steady.round)?;
        fields.set("limit", &mut steady.limit)?;
        if let Some(within) = fields.get::<String>("within")? {
            steady.within = match within.parse() {
                Ok(Size::Percent(percent)) if (0.1..=100.0).contains(&percent) => percent / 100.0,
                _ => return inside("within", "a percentage from 0.1% to 100%".to_string()),
            };
        }
        let Steady { over, round, limit, .. } = steady;
        if !Steady::ROUNDS.contains(&over) {
            let (least, most) = (Steady::ROUNDS.start(), Steady::ROUNDS.end());
            return inside("over", format!("a whole number from {least} to {most}"));
        }
        if round < Steady::SHORTEST_ROUND {
            return inside("round", format!("at least {}", Steady::SHORTEST_ROUND));
        }
        let least = Nanos(round.0.saturating_mul(over.into()));
        match limit >= least {
            true => Ok(steady),
            false => inside("limit", format!("at least the time of {over} rounds, which is {least}")),
        }
    }

    /// Returns the variation of these rates, one per round; `None` if there are fewer rounds than asked for,
    /// or if nothing was done in them.
    pub fn excursion(&self, rates: &[f64]) -> Option<Excursion> {
        let last = &rates[rates.len().checked_sub(self.over as usize)?..];
        let count = last.len() as f64;
        let mean = last.iter().sum::<f64>() / count;
        if mean <= 0.0 {
            return None;
        }
        let (least, most) = last
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
        let middle = (count - 1.0) / 2.0;
        let along = |(round, rate): (usize, &f64)| (round as f64 - middle) * (rate - mean);
        let square = |round: usize| (round as f64 - middle).powi(2);
        let slope =
            last.iter().enumerate().map(along).sum::<f64>() / (0..last.len()).map(square).sum::<f64>();
        Some(Excursion { range: (most - least) / mean, slope: slope * (count - 1.0) / mean })
    }

    /// Returns whether the variation is little enough.
    pub fn allows(&self, excursion: Excursion) -> bool {
        excursion.range <= 2.0 * self.within && excursion.slope.abs() <= self.within
    }
}

impl Default for Steady {
    fn default() -> Self {
        Steady { within: 0.1, over: 5, round: Nanos::from_secs(2), limit: Nanos::from_secs(600) }
    }
}

impl fmt::Display for Steady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Steady { within, over, round, limit } = self;
        let within = Size::Percent(within * 100.0);
        write!(f, "{{ within = \"{within}\", over = {over}, round = \"{round}\", limit = \"{limit}\" }}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameter::Nowhere;
    use super::*;

    fn read(entries: &[(&str, Literal)]) -> Result<Steady, ParameterError> {
        let table = entries.iter().map(|(key, literal)| ((*key).to_string(), literal.clone()));
        Steady::read(&Literal::Table(table.collect()), &Nowhere)
    }

    fn text(text: &str) -> Literal {
        Literal::Text(text.to_string())
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        assert_eq!(read(&[]).unwrap(), Steady::default());
        let own =
            read(&[("within", text("5%")), ("over", Literal::Integer(4)), ("limit", text("1m"))]).unwrap();
        assert_eq!(
            (own.within, own.over, own.round, own.limit.0),
            (0.05, 4, Nanos::from_secs(2), 60_000_000_000)
        );
        let json = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<Steady>(&json).unwrap(), own);
        assert_eq!(own.to_string(), "{ within = \"5%\", over = 4, round = \"2s\", limit = \"1m\" }");
    }

    #[test]
    fn what_cannot_be_is_refused_at_its_key() {
        for (entries, key) in [
            (vec![("within", text("0%"))], "within"),
            (vec![("within", text("much"))], "within"),
            (vec![("over", Literal::Integer(2))], "over"),
            (vec![("round", text("1ms"))], "round"),
            (vec![("over", Literal::Integer(30)), ("limit", text("59s"))], "limit"),
        ] {
            let error = read(&entries);
            assert!(matches!(error, Err(ParameterError::ExpectedInside(at, _)) if at == key), "{error:?}");
        }
        assert!(matches!(read(&[("rounds", Literal::Integer(5))]), Err(ParameterError::UnknownInside(..))));
        assert!(read(&[("within", Literal::Float(0.1))]).is_err());
        assert!(Steady::read(&text("10%"), &Nowhere).is_err());
    }

    #[test]
    fn the_last_rounds_decide() {
        let steady = Steady { within: 0.1, over: 5, ..Steady::default() };
        assert_eq!(steady.excursion(&[100.0; 4]), None);
        assert_eq!(steady.excursion(&[0.0; 5]), None);
        let of = |rates: &[f64]| steady.excursion(rates).unwrap();
        assert_eq!(of(&[900.0, 100.0, 100.0, 100.0, 100.0, 100.0]), Excursion { range: 0.0, slope: 0.0 });
        // A line from 90 to 110 rises by a fifth of its mean.
        let rising = of(&[90.0, 95.0, 100.0, 105.0, 110.0]);
        assert!((rising.range - 0.2).abs() < 1e-12 && (rising.slope - 0.2).abs() < 1e-12, "{rising:?}");
        assert!(!steady.allows(rising));
        // numpy.polyfit(range(5), [105, 96, 103, 95, 101], 1)[0] * 4 / 100 = -0.036
        let noisy = of(&[105.0, 96.0, 103.0, 95.0, 101.0]);
        assert!((noisy.range - 0.1).abs() < 1e-12 && (noisy.slope + 0.036).abs() < 1e-12, "{noisy:?}");
        assert!(steady.allows(noisy));
        assert!(!steady.allows(of(&[100.0, 121.0, 100.0, 100.0, 100.0])));
    }
}
