//! Enough and no more: which cases are repeated beyond the least number of blocks, and when that is given up.
//!
//! `repetitions = { min = 3, max = 12, until = "5%" }` runs three complete blocks. Then each further block holds the cases
//! whose figure is not yet known well enough: half of the 95 % interval of its mean is more than 5 % of the mean. The figure
//! is that of the plan's measure, or of the workload's own where it has none, and the interval is the one that reports show.
//! After twelve blocks a case is given up, which its last trial says in a warning.
//!
//! Stopping when an interval happens to be narrow makes it narrower than it ought to be, by more the fewer trials there are;
//! a `min` of 6 keeps that small.
//!
//! Who is in a block follows from the trials of the blocks before it, and all of these are stored when it begins: a sweep
//! that is resumed comes to the same blocks.

use fsdyno_core::measure::{Averaging, Measure};
use fsdyno_core::{Outcome, TrialRecord, Warning, WarningKind};
use fsdyno_stats::{MeanKind, estimate};

/// When a case has been repeated enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enough {
    /// Most blocks.
    pub max: u32,
    /// Half of the interval as a share of the mean: 0.05 for 5 %.
    pub half_width: f64,
}

/// The trials so far, as far as measures need them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    trials: Vec<TrialRecord>,
}

impl Tally {
    /// Counts a trial, unless it is a sentinel.
    pub fn add(&mut self, trial: &TrialRecord) {
        if !trial.sentinel {
            self.trials.push(light(trial));
        }
    }

    /// The cases that need another block after so many. One that could not be measured in the last of them needs none:
    /// repeating it would only fail again.
    pub fn wanting(&self, enough: &Enough, measure: &Measure, seed: u64, blocks: u32) -> Vec<u32> {
        let last = self.trials.iter().filter(|trial| trial.block + 1 == blocks);
        let mut cases: Vec<u32> =
            last.filter(|trial| trial.outcome == Outcome::Measured).map(|trial| trial.case).collect();
        cases.sort_unstable();
        cases.retain(|case| self.has_value(*case, measure));
        cases
            .retain(|case| self.half_width(*case, measure, seed).is_none_or(|half| half > enough.half_width));
        cases
    }

    /// What the last trial of a case says when the case is given up; it is counted already.
    pub fn given_up(
        &self,
        trial: &TrialRecord,
        enough: &Enough,
        measure: &Measure,
        seed: u64,
    ) -> Option<Warning> {
        if trial.sentinel || trial.block + 1 != enough.max || !self.has_value(trial.case, measure) {
            return None;
        }
        let half = self.half_width(trial.case, measure, seed);
        if half.is_some_and(|half| half <= enough.half_width) {
            return None;
        }
        let reached = half.map_or("unknown".to_string(), |half| format!("{:.1} %", half * 100.0));
        let text = format!(
            "after {} blocks half of the 95 % interval of {} is still {reached} of its mean, more than the {} % that the plan \
             asks for",
            enough.max,
            self.deciding(trial.case, measure),
            enough.half_width * 100.0
        );
        Some(Warning::new(WarningKind::StillWide, text))
    }

    fn of_case(&self, case: u32) -> impl Iterator<Item = &TrialRecord> + Clone {
        self.trials.iter().filter(move |trial| trial.case == case)
    }

    /// What decides for a case, by the rule that reports follow.
    fn deciding(&self, case: u32, measure: &Measure) -> Measure {
        let Some(first) = self.of_case(case).next() else { return measure.clone() };
        let same = self.trials.iter().filter(|trial| trial.workload == first.workload);
        measure.deciding(&first.workload, same)
    }

    fn has_value(&self, case: u32, measure: &Measure) -> bool {
        let measure = self.deciding(case, measure);
        self.of_case(case).any(|trial| measure.value(trial).is_some())
    }

    /// Half of the interval as a share of the mean; nothing with a single trial, or a mean of 0.
    fn half_width(&self, case: u32, measure: &Measure, seed: u64) -> Option<f64> {
        let measure = self.deciding(case, measure);
        let values: Vec<f64> =
            self.of_case(case).filter_map(|trial| measure.value(trial)).map(|value| value.value).collect();
        let kind = match measure.averaging() {
            Averaging::Arithmetic => MeanKind::Arithmetic,
            Averaging::Harmonic => MeanKind::Harmonic,
        };
        let estimate = estimate(&values, kind, seed)?;
        let interval = estimate.interval?;
        (estimate.value > 0.0).then(|| (interval.high - interval.low) / 2.0 / estimate.value)
    }
}

/// A trial without what no measure looks at, and what takes most of its space.
fn light(trial: &TrialRecord) -> TrialRecord {
    let mut light = trial.clone();
    for phase in &mut light.phases {
        for operation in phase.roles.iter_mut().flat_map(|role| &mut role.operations) {
            operation.histogram.clear();
            operation.slowest.clear();
            operation.timeline = Default::default();
        }
        if let Some(telemetry) = &mut phase.telemetry {
            telemetry.samples.clear();
        }
    }
    light
}
