//! How often the iterations of a role begin: an open loop, in which requests arrive whether or not the
//! filesystem keeps up.

use crate::workload::fields::Fields;
use crate::workload::parameter::{Literal, Parameter, ParameterError, Surroundings, words};
use serde::{Deserialize, Serialize};

/// The most iterations per second that a role may have: the workers share one counter.
const MAX_PER_SECOND: f64 = 1e6;

words! {
    /// When iterations are due.
    Arrivals, "kind of arrivals" {
        /// One after the other at the same distance.
        Constant = "constant",
        /// Independently of each other: the distances have an exponential distribution.
        Poisson = "poisson",
    }
}

/// How often the workers of a role together begin an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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

/// Iterations per second.
struct PerSecond(f64);

impl Parameter for PerSecond {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let expected = || {
            ParameterError::Expected(format!(
                "iterations per second, more than 0 and at most {MAX_PER_SECOND}"
            ))
        };
        let number = f64::read(literal, surroundings).map_err(|_| expected())?;
        if number > 0.0 && number <= MAX_PER_SECOND { Ok(PerSecond(number)) } else { Err(expected()) }
    }

    fn written(&self) -> String {
        self.0.to_string()
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
            Literal::Integer(_) | Literal::Float(_) => {
                let PerSecond(per_second) = PerSecond::read(literal, surroundings)?;
                Ok(Rate { per_second, arrivals: Arrivals::Constant })
            }
            _ => Err(ParameterError::Expected(
                "a number of iterations per second, or { per_second = 200, arrivals = \"poisson\" }"
                    .to_string(),
            )),
        }
    }

    fn written(&self) -> String {
        match self.arrivals {
            Arrivals::Constant => format!("{}/s", self.per_second),
            Arrivals::Poisson => format!("{}/s (poisson)", self.per_second),
        }
    }
}
