//! Decides which cases are repeated beyond the minimum number of blocks, and when to give up.
//!
//! `repetitions = { min = 3, max = 12, until = "5%" }` runs three complete blocks. Each further block then
//! contains the cases whose figure is not yet precise enough: half of the 95 % interval of the mean is more
//! than 5 % of the mean. The figure is the plan's measure, or the workload's own if the workload does not
//! have it; the interval is the one that reports show. After twelve blocks the case is given up, and its last
//! trial gets a warning.
//!
//! Stopping when an interval happens to be narrow makes intervals narrower than they should be, the more so
//! the fewer trials there are. A `min` of 6 keeps this small.
//!
//! `repetitions = "auto"` repeats all cases instead, and ends once the answer is decided: see
//! [`crate::sequential`].
//!
//! The composition of a block follows from the trials of the blocks before it, all of which are stored when
//! it starts, so a resumed sweep gets the same blocks.

use crate::outcomes::carries;
use crate::ranking::estimate_of;
use fsdyno_core::measure::{Measure, Value};
use fsdyno_core::{Outcome, TrialRecord, Warning, WarningKind};
use std::collections::BTreeSet;

/// When cases have been repeated often enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enough {
    /// Maximum number of blocks.
    pub max: u32,
    /// The aim that must be reached before then.
    pub until: Until,
}

/// The aim of repeating.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// A case is known well enough: half of its interval as a share of the mean, 0.05 for 5 %.
    Narrow(f64),
    /// It is decided which configuration is best, or that none is.
    Decided,
}

impl Enough {
    /// The half of an interval that is narrow enough; `None` if that is not what is to be reached.
    pub fn half_width(&self) -> Option<f64> {
        match self.until {
            Until::Narrow(half_width) => Some(half_width),
            Until::Decided => None,
        }
    }

    /// Returns whether the sweep ends once the answer is decided.
    pub fn is_auto(&self) -> bool {
        self.until == Until::Decided
    }
}

/// The disturbances of a whole machine, which affect all trials of a block alike.
const DISTURBANCES: [WarningKind; 3] =
    [WarningKind::ForeignLoad, WarningKind::StealTime, WarningKind::OtherIo];

/// The trials so far, reduced to what measures need.
#[derive(Debug, Default)]
pub struct Tally {
    trials: Vec<TrialRecord>,
}

impl Tally {
    /// Adds a trial.
    pub fn add(&mut self, trial: &TrialRecord) {
        self.trials.push(light(trial));
    }

    /// The cases that need another block after this many. A case that could not be measured in the last one
    /// is not repeated, because it would only fail again.
    pub fn wanting(&self, half_width: f64, measure: &Measure, seed: u64, blocks: u32) -> Vec<u32> {
        let before = self.before(blocks);
        before.wanting_after(half_width, measure, seed, blocks)
    }

    /// The trials of the blocks before this one.
    pub fn before(&self, blocks: u32) -> Tally {
        Tally { trials: self.trials.iter().filter(|trial| trial.block < blocks).cloned().collect() }
    }

    fn wanting_after(&self, enough: f64, measure: &Measure, seed: u64, blocks: u32) -> Vec<u32> {
        let last = self.trials.iter().filter(|trial| trial.block + 1 == blocks);
        let mut cases: Vec<u32> =
            last.filter(|trial| trial.outcome == Outcome::Measured).map(|trial| trial.case).collect();
        cases.sort_unstable();
        cases.retain(|case| self.has_value(*case, measure));
        cases.retain(|case| self.half_width(*case, measure, seed).is_none_or(|half| half > enough));
        cases
    }

    /// The cases of which some trial could be measured in the blocks before this one. The others would only
    /// fail again, or are skipped.
    pub fn measurable(&self, blocks: u32) -> Vec<u32> {
        let measured = self.trials.iter().filter(|trial| trial.outcome == Outcome::Measured);
        let cases: BTreeSet<u32> =
            measured.filter(|trial| trial.block < blocks).map(|trial| trial.case).collect();
        cases.into_iter().collect()
    }

    /// Returns the disturbances of the machine during each of these blocks; blocks without any are left out.
    pub fn disturbed(&self, blocks: std::ops::Range<u32>) -> Vec<(u32, Vec<WarningKind>)> {
        let why = |block: u32| -> Vec<WarningKind> {
            let own: Vec<&TrialRecord> = self.trials.iter().filter(|trial| trial.block == block).collect();
            DISTURBANCES
                .into_iter()
                .filter(|kind| own.iter().any(|trial| carries(trial, *kind).is_some()))
                .collect()
        };
        blocks.map(|block| (block, why(block))).filter(|(_, why)| !why.is_empty()).collect()
    }

    /// The trials so far.
    pub fn trials(&self) -> &[TrialRecord] {
        &self.trials
    }

    /// The warning for the last trial of a case that is given up. The trial must have been added before.
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
        let wanted = enough.half_width()?;
        let half = self.half_width(trial.case, measure, seed);
        if half.is_some_and(|half| half <= wanted) {
            return None;
        }
        let reached = half.map_or("unknown".to_string(), |half| format!("{:.1} % of the mean", half * 100.0));
        let text = format!(
            "after {} blocks, half of the 95 % interval of {} is still {reached}; the plan asks for at most \
             {} %",
            enough.max,
            self.deciding(trial.case, measure),
            wanted * 100.0
        );
        Some(Warning::new(WarningKind::StillWide, text))
    }

    fn of_case(&self, case: u32) -> impl Iterator<Item = &TrialRecord> + Clone {
        self.trials.iter().filter(move |trial| trial.case == case)
    }

    /// The measure that decides for a case, by the same rule as in reports.
    fn deciding(&self, case: u32, measure: &Measure) -> Measure {
        let Some(first) = self.of_case(case).next() else { return measure.clone() };
        let same = self.trials.iter().filter(|trial| trial.workload == first.workload);
        measure.deciding(&first.workload, same)
    }

    fn has_value(&self, case: u32, measure: &Measure) -> bool {
        let measure = self.deciding(case, measure);
        self.of_case(case).any(|trial| measure.value(trial).is_some())
    }

    /// Half of the interval as a share of the mean; `None` with a single trial, or a mean of 0.
    fn half_width(&self, case: u32, measure: &Measure, seed: u64) -> Option<f64> {
        let measure = self.deciding(case, measure);
        let values: Vec<Value> = self.of_case(case).filter_map(|trial| measure.value(trial)).collect();
        let estimate = estimate_of(&measure, &values, seed)?;
        let interval = estimate.interval?;
        (estimate.value > 0.0).then(|| (interval.high - interval.low) / 2.0 / estimate.value)
    }
}

/// A trial without the large parts that no measure uses.
pub(crate) fn light(trial: &TrialRecord) -> TrialRecord {
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
        phase.clients.iter_mut().for_each(|client| client.telemetry = None);
    }
    light
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::result::Lifecycle;
    use fsdyno_core::workload::{Null, Workload};
    use fsdyno_core::{Configuration, DeviceSpec, Failure, Nanos};

    const ENOUGH: Enough = Enough { max: 8, until: Until::Narrow(0.05) };

    /// A trial with this unmount time; a failed one without.
    fn trial(block: u32, case: u32, umount_ms: Option<u64>) -> TrialRecord {
        let configuration = Configuration {
            name: String::new(),
            filesystem: "ext4".to_string(),
            settings: Default::default(),
        };
        let umount = umount_ms.map(Nanos::from_millis);
        let failed = || Outcome::Failed { error: Failure::new("mkfs", "no") };
        let outcome = umount.map_or_else(failed, |_| Outcome::Measured);
        let (device, workload) =
            (DeviceSpec::Directory { path: "/".into() }, Workload::Null(Null::default()));
        TrialRecord {
            block,
            case,
            lifecycle_ns: Lifecycle { umount, ..Lifecycle::default() },
            ..TrialRecord::new(configuration, device, workload, outcome)
        }
    }

    fn wanting(trials: &[TrialRecord], blocks: u32) -> Vec<u32> {
        let mut tally = Tally::default();
        trials.iter().for_each(|trial| tally.add(trial));
        tally.wanting(0.05, &"umount-time".parse().unwrap(), 42, blocks)
    }

    #[test]
    fn a_case_is_not_repeated_once_its_interval_is_narrow_enough() {
        // The interval of so few trials is their range. For 96 and 105, half of it is 4.5 % of the mean.
        let trials = [(0, 0, 96), (0, 1, 94), (1, 0, 105), (1, 1, 106)];
        let trials = trials.map(|(block, case, ms)| trial(block, case, Some(ms)));
        assert_eq!(wanting(&trials, 2), [1]);
        // With eight trials the interval is narrower than their range.
        let more = (2..8).map(|block| trial(block, 1, Some(100)));
        let trials: Vec<TrialRecord> = trials.into_iter().chain(more).collect();
        assert_eq!(wanting(&trials, 8), [0; 0]);
    }

    #[test]
    fn neither_failures_nor_single_trials_settle_anything() {
        let trials = [trial(0, 0, Some(100)), trial(1, 0, None), trial(0, 1, None), trial(1, 1, Some(100))];
        assert_eq!(wanting(&trials, 2), [1], "case 0 failed in the last block, case 1 has one trial");
    }

    #[test]
    fn the_last_trial_of_a_case_that_is_given_up_says_how_wide_it_is() {
        let mut tally = Tally::default();
        let measure: Measure = "umount-time".parse().unwrap();
        let trials: Vec<TrialRecord> =
            (0..8).map(|block| trial(block, 0, Some(if block % 2 == 0 { 50 } else { 150 }))).collect();
        let said: Vec<Option<Warning>> = trials
            .iter()
            .map(|trial| {
                tally.add(trial);
                tally.given_up(trial, &ENOUGH, &measure, 42)
            })
            .collect();
        assert!(said[..7].iter().all(Option::is_none));
        let text = &said[7].as_ref().unwrap().text;
        assert!(
            text.starts_with("after 8 blocks, half of the 95 % interval of umount-time is still"),
            "{text}"
        );
        assert!(text.contains("of the mean; the plan asks for at most 5 %"), "{text}");
    }
}
