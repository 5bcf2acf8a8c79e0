//! Where any command finds the plan that it is given: a file, standard input, or one that comes with fsdyno;
//! and the plan fitted to a time.

use super::{Surroundings, trouble};
use crate::exit::{Status, Trouble};
use crate::file;
use crate::progress::human;
use crate::ready::{self, ReadyPlan};
use crate::say;
use anyhow::{Context, anyhow};
use fsdyno_core::Nanos;
use fsdyno_sweep::{Fit, MAX_PLAN_BYTES, Plan, fit};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Stands for standard input.
const STDIN: &str = "-";

/// Writes a plan to a new file.
pub fn save(path: &Path, text: &str, instead: &str) -> Result<(), Trouble> {
    save_as(path, text, instead)?;
    say::remark(&format!("wrote {0}; edit it, then fsdyno plan {0} shows what it would do", path.display()));
    Ok(())
}

/// Writes a text to a file that does not exist yet. `instead` says what to do if it does.
pub fn save_as(path: &Path, text: &str, instead: &str) -> Result<(), Trouble> {
    let destination = file::find(path)?;
    if fs::symlink_metadata(destination.through()).is_ok() {
        let error = anyhow!("'{}' exists already", path.display());
        return Err(Trouble::new(Status::Usage, error).hint(instead));
    }
    file::write_to(&destination, path, |out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(())
}

/// The text of a plan, and its name in messages.
pub struct PlanText {
    pub text: String,
    pub file: String,
}

impl PlanText {
    /// A plan that comes with fsdyno.
    pub fn of(plan: ReadyPlan) -> Self {
        PlanText { text: plan.text.to_string(), file: format!("{}.toml", plan.name) }
    }

    /// Resolves it, with changes of its keys.
    pub fn parse(&self, overrides: &[String]) -> Result<Plan, Trouble> {
        Plan::parse(&self.text, &self.file, overrides).map_err(trouble::of_plan)
    }
}

/// Reads a plan: a file, standard input, or one that comes with fsdyno. A file of that name has precedence.
pub fn load(path: &Path, overrides: &[String]) -> Result<Plan, Trouble> {
    source(path)?.parse(overrides)
}

/// The text that a plan is loaded from. Standard input can be read only once.
pub fn source(path: &Path) -> Result<PlanText, Trouble> {
    if path == Path::new(STDIN) {
        let mut text = String::new();
        let read = io::stdin().lock().take(MAX_PLAN_BYTES + 1).read_to_string(&mut text);
        read.context("cannot read the plan from standard input")?;
        if text.len() as u64 > MAX_PLAN_BYTES {
            return Err(
                anyhow!("the plan on standard input is larger than {} MiB", MAX_PLAN_BYTES >> 20).into()
            );
        }
        return Ok(PlanText { text, file: "stdin".to_string() });
    }
    let from_file = || {
        let text = Plan::text(path).map_err(trouble::of_plan)?;
        Ok(PlanText { text, file: path.display().to_string() })
    };
    // A directory is not a plan, so it does not hide one either.
    if path.exists() && !path.is_dir() {
        return from_file();
    }
    let name = path.to_string_lossy();
    match ReadyPlan::named(&name) {
        Some(plan) => Ok(PlanText::of(plan)),
        // A path is meant as one.
        None if name.contains('/') || path.is_dir() => from_file(),
        None => Err(ready::unknown(&name)),
    }
}

/// Fits a plan to a time on this machine (`--for TIME`).
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
    fit(&parse, set, time, &mut surroundings.host()?, &mut surroundings.guests()?).map_err(trouble::of_fit)
}

/// Returns the choices that were made in fitting, on one line.
pub fn choice(time: Nanos, fit: &Fit) -> String {
    format!("--for {}: {}; about {}", human(time), fit.choices.join(", "), human(fit.time))
}
