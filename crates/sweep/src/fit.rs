//! A plan fitted to a time: `--for 15m`.
//!
//! Whatever makes an answer certain is kept for as long as possible. First the number of repetitions follows
//! the time, down to [`LEAST_BLOCKS`] and up to [`MOST_BLOCKS`]; a plan that compares something becomes one
//! that ends as soon as its answer is decided. If that is not enough, windows and their ramps become shorter,
//! all by the same factor and none below a floor; then trees become as small as the plan's limit of memory
//! allows. Configurations are never dropped, and what the user has set stays. If all that is not enough,
//! there is no such plan, and the error says what the least time is.
//!
//! The choice consists of `PATH=VALUE` arguments like those of `--set`, so that it is stored with the sweep,
//! and `--resume` takes it from there. One of them is the plan's own time limit: the estimate may be wrong.

use crate::error::PlanError;
use crate::pace::Pace;
use crate::plan::{AUTO, AUTO_LEAST, AUTO_MOST, Plan};
use fsdyno_core::workload::Ramp;
use fsdyno_core::{Bytes, Nanos, Workload};
use fsdyno_host::Host;
use fsdyno_host::guest::Guests;
use fsdyno_verdict::text::plural;

/// The least number of repetitions where the plan has more: with fewer, chance decides too often.
const LEAST_BLOCKS: u32 = 3;
/// The largest number of repetitions where the plan has fewer.
const MOST_BLOCKS: u32 = AUTO_MOST;
/// The shortest window where the plan has a longer one.
const LEAST_WINDOW: Nanos = Nanos::from_secs(2);
/// The shortest ramp where the plan has a longer one.
const LEAST_RAMP: Nanos = Nanos::from_millis(300);
/// The share of the time that is planned, in percent. If trials take a little longer than estimated, the last
/// block still fits.
pub(crate) const PLANNED_PERCENT: u64 = 90;
/// Windows as the plan has them, in thousandths.
const WHOLE: u64 = 1000;

/// A plan that fits into a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The plan, whose arguments include the choice.
    pub plan: Plan,
    /// The choices, one phrase each: `5 repetitions (plan: 6)`.
    pub choices: Vec<String>,
    /// The estimated time of all repetitions, or of as many as fit if the answer may need fewer.
    pub time: Nanos,
}

/// Why there is no plan that fits.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The plan is wrong, or something that the user has set in it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Not even the shortest windows fit.
    #[error(
        "'{plan}' does not fit into {time}: {} of {} with the shortest windows take {least}, each trial up \
         to {trial}",
        plural(u64::from(*blocks), "repetition"), plural(*cases as u64, "case")
    )]
    TooShort {
        /// The plan.
        plan: String,
        /// The time that was asked for.
        time: Nanos,
        /// The least number of repetitions.
        blocks: u32,
        /// The number of cases.
        cases: usize,
        /// The time that the longest trial takes then.
        trial: Nanos,
        /// The least time to ask for.
        least: Nanos,
    },
}

impl FitError {
    /// The next step for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            FitError::Plan(error) => error.hint().map(str::to_string),
            FitError::TooShort { least, blocks, .. } => {
                let fewer = if *blocks > 1 { ", --set repetitions=1" } else { "" };
                Some(format!(
                    "allow --for {}, or make it less: fewer levels in [axes], smaller sizes in \
                     [[workloads]]{fewer}",
                    compact(*least)
                ))
            }
        }
    }
}

/// Fits a plan to a time on this machine. `source` parses the plan with arguments that change it, and `set`
/// are those of the user.
///
/// # Errors
/// [`FitError`].
pub fn fit(
    source: &dyn Fn(&[String]) -> Result<Plan, PlanError>,
    set: &[String],
    time: Nanos,
    host: &mut dyn Host,
    guests: &mut dyn Guests,
) -> Result<Fit, FitError> {
    let plan = source(set)?;
    let fitting = Fitting { source, set, time, pace: Pace::here(&plan, host, guests), plan: &plan };
    let choice = fitting.choice()?;
    let fitted = fitting.apply(&choice)?;
    Ok(Fit {
        choices: fitting.in_words(&choice, &fitted),
        time: fitting.pace.sweep(&fitted, choice.blocks),
        plan: fitted,
    })
}

/// A plan that is being fitted.
struct Fitting<'a> {
    source: &'a dyn Fn(&[String]) -> Result<Plan, PlanError>,
    set: &'a [String],
    time: Nanos,
    pace: Pace,
    /// With what the user has set, and no choice yet.
    plan: &'a Plan,
}

/// A choice of blocks, windows and trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice {
    blocks: u32,
    /// The length of windows and ramps, in thousandths of the plan's.
    windows: u64,
    /// `true` if trees are as small as they may be.
    has_small_trees: bool,
}

impl Fitting<'_> {
    fn choice(&self) -> Result<Choice, FitError> {
        let asked = self.plan.repetitions;
        let usable = Nanos((u128::from(self.time.0) * u128::from(PLANNED_PERCENT) / 100) as u64);
        let [least, most] = self.range();
        let whole = Choice { blocks: asked, windows: WHOLE, has_small_trees: false };
        let block = self.pace.block(self.plan);
        if block == Nanos(0) {
            // Nothing runs here.
            return Ok(whole);
        }
        let once = self.pace.sweep(self.plan, 0);
        let fitting = u32::try_from(usable.0.saturating_sub(once.0) / block.0).unwrap_or(u32::MAX);
        if fitting >= least {
            return Ok(Choice { blocks: fitting.min(most), ..whole });
        }
        for has_small_trees in [false, true] {
            let with = |windows| Choice { blocks: least, windows, has_small_trees };
            let fits = |choice: &Choice| Ok::<_, PlanError>(self.time_of(choice)? <= usable);
            if !fits(&with(0))? {
                continue;
            }
            // The longest windows that fit: `good` does, `bad` does not.
            let (mut good, mut bad) = (0, WHOLE + 1);
            while bad - good > 1 {
                let middle = good.midpoint(bad);
                if fits(&with(middle))? {
                    good = middle;
                } else {
                    bad = middle;
                }
            }
            return Ok(with(good));
        }
        let shortest = Choice { blocks: least, windows: 0, has_small_trees: true };
        let needed = (u128::from(self.time_of(&shortest)?.0) * 100).div_ceil(PLANNED_PERCENT.into());
        Err(FitError::TooShort {
            plan: self.plan.name.clone(),
            time: self.time,
            blocks: least,
            cases: self.plan.cases().len(),
            trial: rounded_up(self.pace.longest_trial(&self.apply(&shortest)?)),
            least: rounded_up(Nanos(u64::try_from(needed).unwrap_or(u64::MAX))),
        })
    }

    /// The least and the largest number of repetitions. A plan that repeats until intervals are narrow enough
    /// has a maximum of its own.
    fn range(&self) -> [u32; 2] {
        let asked = self.plan.repetitions;
        let is_set = self.has_set_repetitions();
        if self.decides() {
            return [
                asked.min(LEAST_BLOCKS),
                self.plan.enough.map_or(asked.max(MOST_BLOCKS), |enough| enough.max),
            ];
        }
        let most = if self.plan.enough.is_some() { asked } else { asked.max(MOST_BLOCKS) };
        if is_set { [asked, asked] } else { [asked.min(LEAST_BLOCKS), most] }
    }

    fn has_set_repetitions(&self) -> bool {
        self.set_paths().any(|path| path == "repetitions" || path.starts_with("repetitions."))
    }

    /// Returns whether the sweep is judged before its time is up.
    fn has_looks(&self, choice: &Choice) -> bool {
        self.decides() && choice.blocks >= AUTO_LEAST
    }

    /// Returns whether the fitted plan may end as soon as its answer is decided.
    fn decides(&self) -> bool {
        match self.plan.enough {
            Some(enough) => enough.is_auto(),
            None => self.plan.can_decide() && !self.has_set_repetitions(),
        }
    }

    fn time_of(&self, choice: &Choice) -> Result<Nanos, PlanError> {
        Ok(self.pace.sweep(&self.apply(choice)?, choice.blocks))
    }

    /// The plan with a choice.
    fn apply(&self, choice: &Choice) -> Result<Plan, PlanError> {
        let mut arguments = self.set.to_vec();
        arguments.push(format!("time_limit={}", compact(self.time)));
        let is_auto = self.plan.enough.is_some_and(|enough| enough.is_auto());
        if self.has_looks(choice) {
            let most = self.range()[1];
            arguments.extend((!is_auto).then(|| format!("repetitions={AUTO}")));
            arguments.extend((!is_auto && most != AUTO_MOST).then(|| format!("max_repetitions={most}")));
        } else if choice.blocks != self.plan.repetitions || is_auto {
            let key = if self.plan.enough.is_some() && !is_auto { "repetitions.min" } else { "repetitions" };
            arguments.push(format!("{key}={}", choice.blocks));
        }
        for (index, workload) in self.plan.workloads.iter().enumerate() {
            for (name, value) in self.parameters(workload, choice) {
                if !self.is_set(index, name) {
                    arguments.push(format!("workloads.{index}.{name}={value}"));
                }
            }
        }
        (self.source)(&arguments)
    }

    /// The parameters of a workload that a choice changes.
    fn parameters(&self, workload: &Workload, choice: &Choice) -> Vec<(&'static str, String)> {
        // What a power cut or an error loses is in a table of its own, and takes as long as it takes.
        if workload.is_recorded() {
            return Vec::new();
        }
        let load = workload.load();
        let timing = load.timing();
        let mut changed = Vec::new();
        if choice.windows < WHOLE && timing.windows > 0 {
            let shorter = |own: Nanos, least: Nanos| {
                let scaled =
                    Nanos((u128::from(own.0) * u128::from(choice.windows) / u128::from(WHOLE)) as u64);
                rounded_down(scaled).max(least.min(own))
            };
            // The server may have to be away within it.
            let least = self.plan.least_window().unwrap_or(LEAST_WINDOW).max(LEAST_WINDOW);
            changed.push(("window", compact(shorter(timing.window, least))));
            // How long it takes until writers are throttled is up to the device.
            if let Ramp::For(ramp) = timing.ramp
                && ramp > Nanos(0)
            {
                changed.push(("ramp", compact(shorter(ramp, LEAST_RAMP))));
            }
        }
        if choice.has_small_trees
            && let Some((memory, rereads)) = self.memory().zip(load.rereads())
            && load.prepares() > Bytes(0)
            && rereads.least(memory) < rereads.value
        {
            changed.push((rereads.parameter, rereads.least(memory).to_string()));
        }
        changed
    }

    /// The most memory that a case has; `None` if it is not limited everywhere.
    fn memory(&self) -> Option<Bytes> {
        let memory = self.plan.cases().into_iter().map(|case| case.configuration.memory());
        memory.collect::<Option<Vec<Bytes>>>()?.into_iter().max()
    }

    /// The paths of what the user has set.
    fn set_paths(&self) -> impl Iterator<Item = &str> {
        self.set.iter().filter_map(|set| set.split_once('=')).map(|(path, _)| path.trim())
    }

    /// Returns whether the user has set a parameter of a workload.
    fn is_set(&self, workload: usize, name: &str) -> bool {
        let everywhere = format!("workloads.{name}");
        let here = format!("workloads.{workload}.{name}");
        self.set_paths().any(|path| path == everywhere || path == here)
    }

    /// Returns the differences from the plan, in words.
    fn in_words(&self, choice: &Choice, fitted: &Plan) -> Vec<String> {
        let (then, now) = (self.plan.repetitions, fitted.repetitions);
        let asked = match self.plan.enough.is_some_and(|enough| enough.is_auto()) {
            true => "as in the plan".to_string(),
            false => format!("plan: {then}"),
        };
        let at_least = if fitted.enough.is_some() { "at least " } else { "" };
        let compared = match (then == now, &self.plan.enough) {
            (_, Some(enough)) if enough.is_auto() => "plan: until the answer is decided".to_string(),
            (true, _) => "as in the plan".to_string(),
            (false, _) => format!("plan: {then}"),
        };
        let mut words = vec![match self.has_looks(choice) {
            true => format!(
                "up to {} until the answer is decided ({asked})",
                plural(u64::from(choice.blocks), "repetition")
            ),
            false => format!("{at_least}{} ({compared})", plural(u64::from(now), "repetition")),
        }];
        for (before, after) in self.plan.workloads.iter().zip(&fitted.workloads) {
            let of = if fitted.workloads.len() > 1 { format!("{} ", after.kind()) } else { String::new() };
            for (before, after) in before.list().into_iter().zip(after.list()) {
                if before.value != after.value {
                    let [now, then] = [&after.value, &before.value].map(|value| value.trim_matches('"'));
                    words.push(format!("{of}{} {now} (plan: {then})", after.name));
                }
            }
        }
        if choice.blocks == MOST_BLOCKS && then < MOST_BLOCKS {
            words.push(format!("more than {MOST_BLOCKS} repetitions are not added"));
        }
        words
    }
}

/// A duration as one word: `1m30s`.
pub(crate) fn compact(time: Nanos) -> String {
    time.to_string().replace(' ', "")
}

/// A duration as a person would set it: in whole seconds, or in smaller steps where that matters.
pub(crate) fn rounded_down(time: Nanos) -> Nanos {
    let step = match time.0 / 1_000_000_000 {
        0 => Nanos::from_millis(100),
        1..5 => Nanos::from_millis(500),
        _ => Nanos::from_secs(1),
    };
    Nanos(time.0 / step.0 * step.0)
}

/// A duration that is at least as long, in whole seconds or minutes.
fn rounded_up(time: Nanos) -> Nanos {
    let unit = if time >= Nanos::from_secs(600) { Nanos::from_secs(60) } else { Nanos::from_secs(1) };
    Nanos(time.0.div_ceil(unit.0).saturating_mul(unit.0))
}
