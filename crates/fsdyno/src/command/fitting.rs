//! `--for TIME`: a plan that is fitted to a time, and what was chosen in words.

use super::Surroundings;
use super::source::PlanText;
use super::trouble::of_fit;
use crate::exit::{Status, Trouble};
use crate::progress::human;
use anyhow::anyhow;
use fsdyno_core::Nanos;
use fsdyno_sweep::{Fit, Plan, fit};

/// Fits a plan to a time on this machine.
pub fn fitted(
    surroundings: &Surroundings,
    source: &PlanText,
    set: &[String],
    time: Nanos,
) -> Result<Fit, Trouble> {
    if Plan::parse(&source.text, &source.file, set).is_ok_and(|plan| plan.race.is_some()) {
        let error = anyhow!("--for does not apply to a race, which decides itself how often to measure");
        let time = time.to_string().replace(' ', "");
        return Err(Trouble::new(Status::Usage, error).hint(format!("--budget {time} limits its time")));
    }
    let parse = |set: &[String]| Plan::parse(&source.text, &source.file, set);
    fit(&parse, set, time, &mut surroundings.host()?, &mut surroundings.guests()?).map_err(of_fit)
}

/// Returns the choices that were made, on one line.
pub fn choice(time: Nanos, fit: &Fit) -> String {
    format!("--for {}: {}; about {}", human(time), fit.choices.join(", "), human(fit.time))
}
