//! Drift: how much the machine's own speed changed during a sweep.
//!
//! The sentinel is a case with which each block begins. All trials of that case are tested for a trend over
//! the sweep. If they are too few to show one, all trials of the workload are
//! tested, each relative to the mean of its case, which leaves the machine's own variation.
//!
//! A trend gets a warning if it is not chance and exceeds 10 %, the most that SNIA's steady state allows a
//! fitted line to rise (Solid State Storage Performance Test Specification, 2.1.24). SNIA's other limit, that
//! values differ by at most 20 % of their mean, becomes a note.

use crate::machines::{is_fleet, levelled};
use crate::outcomes::is_measured;
use crate::text;
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::{Measure, Unit};
use fsdyno_stats::trend;
use serde::Serialize;
use std::collections::BTreeMap;

/// The fewest values that can show a trend.
const FEWEST: usize = 5;
/// SNIA's steady state: how much a fitted line may rise, and how much values may differ, as shares of the
/// mean.
const SNIA_RISE: f64 = 0.10;
const SNIA_RANGE: f64 = 0.20;

/// The trials of the sentinel's case over time, which show how much the machine's own speed changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Name of the configuration.
    pub name: String,
    /// Name of the measure: the plan's, or the workload's own.
    pub measure: String,
    /// Its value in each measured trial, in order of execution; on a fleet, divided by the level of its
    /// machine.
    pub values: Vec<f64>,
    /// `true` if the values are those of several machines.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_fleet: bool,
    /// The fitted trend; absent if there are too few trials.
    pub trend: Option<FittedTrend>,
}

/// A trend over a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FittedTrend {
    /// The change from the first trial to the last: 0.1 is 10 % more.
    pub change: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// Two-sided p value of the hypothesis that there is no trend.
    pub p: f64,
    /// Number of trials that it is based on.
    pub trials: usize,
    /// `true` if it is based on all trials, each relative to the mean of its case, because the sentinel has
    /// too few.
    pub of_all_trials: bool,
}

impl Drift {
    /// The lowest and the highest value.
    pub fn range(&self) -> (f64, f64) {
        let lowest = self.values.iter().copied().fold(f64::MAX, f64::min);
        (lowest, self.values.iter().copied().fold(f64::MIN, f64::max))
    }

    /// The warning that the machine drifted, which readers must see before anything else.
    pub fn warning(&self) -> Option<String> {
        let trend = self.trend.filter(|trend| trend.p < 0.05 && trend.change.abs() > SNIA_RISE)?;
        let (of, over) = match trend.of_all_trials {
            true => {
                let over = "trials, each relative to the mean of its configuration";
                (String::new(), format!("all {} {over}", trend.trials))
            }
            false => (format!(" of {}", self.name), format!("its {} trials", trend.trials)),
        };
        let [low, high] = trend.interval.map(|end| end * 100.0);
        Some(format!(
            "the machine drifted during this sweep: {}{of} changed by {:+.0} % [{low:+.0}, {high:+.0}] over \
             {over}. Ratios within blocks are hardly affected, but means and their intervals are.",
            self.measure,
            trend.change * 100.0
        ))
    }

    /// By what factor the machine itself moved this measure, from 1 for not at all; `None` if it was steady.
    /// Times, such as stalls, vary by their nature, so only a trend counts for them.
    pub(crate) fn factor(&self) -> Option<f64> {
        if self.warning().is_some() {
            return self.trend.map(|trend| (1.0 + trend.change).ln().abs().exp());
        }
        let measure: Measure = self.measure.parse().ok()?;
        let (lowest, highest) = self.range();
        let varies = measure.unit() == Unit::Nanoseconds || lowest <= 0.0;
        self.unsteady().filter(|_| !varies).map(|_| highest / lowest)
    }

    /// Returns the notes that a reader must know about the steadiness of the machine, besides the warning.
    pub fn notes(&self) -> Vec<String> {
        self.variation().into_iter().chain(self.unsteady()).collect()
    }

    /// Returns the note on how much the sentinel varied, although its configuration did not.
    fn variation(&self) -> Option<String> {
        let measure: Measure = self.measure.parse().ok()?;
        let (lowest, highest) = self.range();
        (lowest < highest).then(|| {
            format!(
                "in {}, the {} trials of {} range from {} to {}{}; the machine itself varies by this much",
                self.measure,
                self.values.len(),
                self.name,
                text::quantity(&measure, lowest, false),
                text::quantity(&measure, highest, false),
                if self.of_fleet { ", each divided by the level of its machine" } else { "" }
            )
        })
    }

    /// The note that the machine was not steady, if there is no warning of a trend.
    pub fn unsteady(&self) -> Option<String> {
        let mean = self.values.iter().sum::<f64>() / self.values.len() as f64;
        let (lowest, highest) = self.range();
        let range = highest - lowest;
        let steady = range <= SNIA_RANGE * mean;
        (self.values.len() >= FEWEST && !steady && self.warning().is_none()).then(|| {
            format!(
                "the machine was not steady: the {} trials of {} differ by up to {:.0} % of their mean; \
                 SNIA's limit for a steady state is 20 %",
                self.values.len(),
                self.name,
                range / mean * 100.0
            )
        })
    }
}

/// Returns the drift that the sentinel shows; `None` in a sweep without one, or if fewer than two of its
/// trials have a value.
pub fn drift(measure: &Measure, trials: &[TrialRecord]) -> Option<Drift> {
    let sentinel = trials.iter().find(|trial| trial.sentinel)?;
    let own_workload = || trials.iter().filter(|trial| trial.workload == sentinel.workload);
    let measure = measure.deciding(&sentinel.workload, own_workload());
    let mut measured: Vec<(&TrialRecord, f64)> = own_workload()
        .filter(|trial| is_measured(trial))
        .filter_map(|trial| Some((trial, measure.value(trial)?.value)))
        .collect();
    measured.sort_by_key(|(trial, _)| trial.trial);
    let same: Vec<&(&TrialRecord, f64)> =
        measured.iter().filter(|(trial, _)| trial.case == sentinel.case).collect();
    let same: Vec<(&TrialRecord, f64)> = same.into_iter().copied().collect();
    // Machines of a fleet differ, which is no drift.
    let values = levelled(&same);
    if values.len() < 2 {
        return None;
    }
    let of_all_trials = values.len() < FEWEST;
    let points = match of_all_trials {
        true => relative_to_their_case(&measured),
        false => {
            same.iter().zip(&values).map(|((trial, _), value)| (f64::from(trial.trial), value.ln())).collect()
        }
    };
    Some(Drift {
        name: sentinel.configuration.name.clone(),
        measure: measure.name().to_string(),
        values,
        of_fleet: is_fleet(&same),
        trend: fitted(&points, of_all_trials),
    })
}

/// The logarithm of each trial relative to the mean of its case on its machine, by the number of the trial.
fn relative_to_their_case(measured: &[(&TrialRecord, f64)]) -> Vec<(f64, f64)> {
    let mut cases: BTreeMap<(u32, Option<&str>), Vec<f64>> = BTreeMap::new();
    for (trial, value) in measured {
        cases.entry((trial.case, trial.machine.as_deref())).or_default().push(value.ln());
    }
    let relative = |(trial, value): &(&TrialRecord, f64)| {
        let same = &cases[&(trial.case, trial.machine.as_deref())];
        let mean = same.iter().sum::<f64>() / same.len() as f64;
        (same.len() > 1).then_some((f64::from(trial.trial), value.ln() - mean))
    };
    measured.iter().filter_map(relative).collect()
}

fn fitted(points: &[(f64, f64)], of_all_trials: bool) -> Option<FittedTrend> {
    let trend = trend(points).filter(|_| points.len() >= FEWEST)?;
    let span = points.last()?.0 - points.first()?.0;
    let change = |slope: f64| (slope * span).exp_m1();
    Some(FittedTrend {
        change: change(trend.slope),
        interval: [change(trend.interval.low), change(trend.interval.high)],
        p: trend.p,
        trials: points.len(),
        of_all_trials,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A sweep of `blocks` and `cases` with a sentinel before each block; the rate changes by `step` from
    /// trial to trial.
    fn sweep(blocks: u32, cases: u32, step: f64) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for block in 0..blocks {
            for (case, sentinel) in [(0, true)].into_iter().chain((0..cases).map(|case| (case, false))) {
                let number = trials.len() as u32;
                let noise = 1.0 + 0.004 * (f64::from(number) * 12.9898).sin();
                let rate = 50.0 * noise * (1.0 + f64::from(case)) * (step * f64::from(number)).exp();
                let filesystem = if case == 0 { "ext4" } else { "xfs" };
                let mut trial =
                    fixture::trial(number, block, case, fixture::configuration(filesystem, "bfq"), rate);
                trial.sentinel = sentinel;
                trials.push(trial);
            }
        }
        trials
    }

    fn of(trials: &[TrialRecord]) -> Drift {
        drift(&"read".parse().unwrap(), trials).unwrap()
    }

    #[test]
    fn a_machine_that_slows_down_is_reported() {
        let drift = of(&sweep(6, 2, -0.015));
        let trend = drift.trend.unwrap();
        // The last trial of the sentinel's case is the 17th of 18.
        let truth = (-0.015 * 16.0_f64).exp_m1();
        assert!((trend.change - truth).abs() < 0.02 && !trend.of_all_trials, "{trend:?}");
        let warning = drift.warning().unwrap();
        assert!(warning.contains("read of ext4 bfq changed by -22 % ["), "{warning}");
        assert!(warning.contains("] over its 12 trials."), "{warning}");
        assert_eq!(drift.unsteady(), None);
    }

    #[test]
    fn a_steady_machine_gets_no_warning() {
        let drift = of(&sweep(6, 2, 0.0));
        assert_eq!((drift.warning(), drift.unsteady()), (None, None));
        let drift = of(&sweep(6, 2, -0.002));
        assert_eq!(drift.warning(), None, "a trend below SNIA's limit needs no warning");
    }

    #[test]
    fn all_trials_are_used_if_sentinels_are_few() {
        let drift = of(&sweep(2, 8, -0.02));
        assert_eq!(drift.values.len(), 4);
        let trend = drift.trend.unwrap();
        assert!(trend.of_all_trials && trend.trials == 18 && trend.p < 0.05, "{trend:?}");
        let warning = drift.warning().unwrap();
        assert!(warning.contains("over all 18 trials, each relative to the mean"), "{warning}");
    }

    #[test]
    fn a_jumpy_machine_without_a_trend_is_unsteady() {
        let mut trials = sweep(4, 2, 0.0);
        for (index, trial) in trials.iter_mut().filter(|trial| trial.case == 0).enumerate() {
            trial.phases = fixture::phases([50.0, 80.0, 45.0, 75.0, 52.0, 79.0, 48.0, 70.0][index]);
        }
        let unsteady = of(&trials).unsteady().unwrap();
        assert!(
            unsteady.contains("the 8 trials of ext4 bfq differ by up to 56 % of their mean"),
            "{unsteady}"
        );
    }

    #[test]
    fn a_sweep_without_a_sentinel_shows_no_drift() {
        assert_eq!(drift(&"read".parse().unwrap(), &fixture::trials()), None);
    }
}
