//! Machines of a fleet: how far each is from the others.
//!
//! Each block runs on one machine, so that a ratio within blocks compares configurations and not machines.
//! Means and their intervals contain the differences between machines, and so a reader must know them.

use crate::outcomes::is_measured;
use crate::ranking::kind_of_mean;
use crate::text;
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::{Measure, Value};
use fsdyno_stats::mean;
use std::collections::{BTreeMap, BTreeSet};

/// By how much a machine may differ from the others before it is named: more than SNIA allows values of a
/// steady device to differ from their mean.
const MOST: f64 = 1.25;

/// The trials that a ratio within blocks may compare: those of one block on one machine. After a machine was
/// lost, the rest of its block is on another one.
pub(crate) fn together(trial: &TrialRecord) -> (u32, Option<&str>) {
    (trial.block, trial.machine.as_deref())
}

/// A measure by what trials may be paired by: the mean of those that share it, such as a sentinel and the
/// trial that it repeats.
pub(crate) fn by_block<'a>(
    measure: &Measure,
    trials: impl IntoIterator<Item = &'a TrialRecord>,
) -> BTreeMap<(u32, Option<&'a str>), f64> {
    let mut values: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for trial in trials {
        if let Some(value) = measure.value(trial) {
            values.entry(together(trial)).or_default().push(value);
        }
    }
    let mean_of = |values: Vec<Value>| {
        let plain: Vec<f64> = values.iter().map(|value| value.value).collect();
        mean(&plain, kind_of_mean(measure, &values))
    };
    values.into_iter().filter_map(|(place, values)| Some((place, mean_of(values)?))).collect()
}

/// The blocks and machines that trials are paired by, as numbers.
#[derive(Debug)]
pub(crate) struct SharedPairs<'a>(BTreeMap<(u32, Option<&'a str>), u32>);

impl<'a> SharedPairs<'a> {
    /// Of these trials.
    pub fn of_trials(trials: &[&'a TrialRecord]) -> Self {
        let all: BTreeSet<(u32, Option<&str>)> = trials.iter().map(|trial| together(trial)).collect();
        SharedPairs(all.into_iter().zip(0..).collect())
    }

    /// The number of what a trial shares with those of its block on its machine.
    pub fn of(&self, trial: &TrialRecord) -> u32 {
        let known = self.0.get(&together(trial));
        known.copied().unwrap_or(trial.block)
    }
}

/// The name of the machine of trials that ran where the store is.
const HERE: &str = "the machine with the store";

fn machine_of(trial: &TrialRecord) -> &str {
    trial.machine.as_deref().unwrap_or(HERE)
}

/// The level of a machine relative to the others.
#[derive(Debug, Clone, PartialEq)]
struct Level<'a> {
    machine: &'a str,
    /// The logarithm of its values over those of all machines, a mean over its trials.
    level: f64,
    /// The square of its standard error.
    variance: f64,
}

/// Returns the notes that a reader must know about the machines of a fleet, one line each; none about a
/// single machine.
pub fn notes(measure: &Measure, trials: &[TrialRecord]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut blocks: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for trial in trials {
        let machine = machine_of(trial);
        *counts.entry(machine).or_default() += 1;
        blocks.entry(trial.block).or_default().insert(machine);
    }
    if counts.len() < 2 {
        return Vec::new();
    }
    let each: Vec<String> = counts
        .iter()
        .map(|(machine, count)| format!("{machine} ({})", text::plural(*count, "trial")))
        .collect();
    let shared = blocks.values().filter(|machines| machines.len() > 1).count() as u64;
    let shared = match shared {
        0 => ", each block on one of them".to_string(),
        _ => format!(", {} on more than one of them", text::plural(shared, "block")),
    };
    let first = format!(
        "the trials ran on {} machines{shared}: {}. Ratios within blocks compare trials of one machine; means \
         and their intervals contain the differences between machines",
        counts.len(),
        each.join(", ")
    );
    std::iter::once(first).chain(differing(measure, &levels(measure, trials))).collect()
}

/// A line for each machine that is far from the typical one, and not by chance (two standard errors). Of two,
/// none is typical.
fn differing(measure: &Measure, levels: &[Level<'_>]) -> Vec<String> {
    let is_far = |difference: f64, variance: f64| {
        difference.abs() > MOST.ln() && difference.abs() > 2.0 * variance.sqrt()
    };
    if let [first, second] = levels {
        let difference = second.level - first.level;
        let line = format!(
            "the machines differ: {measure} on '{}' is {:.2} times that on '{}'",
            second.machine,
            difference.exp(),
            first.machine
        );
        return is_far(difference, first.variance + second.variance).then_some(line).into_iter().collect();
    }
    let mut sorted: Vec<&Level<'_>> = levels.iter().collect();
    sorted.sort_by(|a, b| a.level.total_cmp(&b.level));
    let Some(typical) = sorted.get(sorted.len() / 2) else { return Vec::new() };
    let far = levels.iter().filter(|one| is_far(one.level - typical.level, one.variance + typical.variance));
    far.map(|one| {
        format!(
            "machine '{}' differs from the others: its {measure} is {:.2} times that of the median machine",
            one.machine,
            (one.level - typical.level).exp()
        )
    })
    .collect()
}

/// The level of each machine, by the cases that all of them have measured; of machines with fewer than two
/// such trials, nothing is known.
fn levels<'a>(measure: &Measure, trials: &'a [TrialRecord]) -> Vec<Level<'a>> {
    let machines: BTreeSet<&str> = trials.iter().map(machine_of).collect();
    // Logarithms by case and machine.
    let mut values: BTreeMap<u32, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| is_measured(trial)) {
        let machine = machine_of(trial);
        let same = trials.iter().filter(|other| other.workload == trial.workload);
        let Some(value) = measure.deciding(&trial.workload, same).value(trial) else { continue };
        if value.value > 0.0 {
            values.entry(trial.case).or_default().entry(machine).or_default().push(value.value.ln());
        }
    }
    values.retain(|_, of_case| of_case.len() == machines.len());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut relative: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for of_case in values.values() {
        let of_machines: Vec<f64> = of_case.values().map(|values| mean(values)).collect();
        let all = mean(&of_machines);
        for (machine, own) in of_case {
            relative.entry(machine).or_default().extend(own.iter().map(|value| value - all));
        }
    }
    let level = |(machine, own): (&'a str, Vec<f64>)| {
        let count = own.len() as f64;
        let level = mean(&own);
        let squares: f64 = own.iter().map(|value| (value - level).powi(2)).sum();
        (own.len() > 1).then(|| Level { machine, level, variance: squares / (count - 1.0) / count })
    };
    relative.into_iter().filter_map(level).collect()
}

/// Returns whether trials ran on several machines.
pub(crate) fn is_fleet(values: &[(&TrialRecord, f64)]) -> bool {
    values.iter().map(|(trial, _)| trial.machine.as_deref()).collect::<BTreeSet<_>>().len() > 1
}

/// Returns the values as those of an average machine: each is divided by the level of its machine, by trials
/// of one case.
pub(crate) fn levelled(values: &[(&TrialRecord, f64)]) -> Vec<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut by_machine: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
    for (trial, value) in values {
        by_machine.entry(trial.machine.as_deref()).or_default().push(value.ln());
    }
    if !is_fleet(values) {
        return values.iter().map(|(_, value)| *value).collect();
    }
    let all: Vec<f64> = values.iter().map(|(_, value)| value.ln()).collect();
    let levels: BTreeMap<Option<&str>, f64> =
        by_machine.iter().map(|(machine, own)| (*machine, mean(own))).collect();
    let all = mean(&all);
    values.iter().map(|(trial, value)| value * (all - levels[&trial.machine.as_deref()]).exp()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::drift;
    use crate::fixture;

    /// Blocks on machines by turns; those of the last machine have this factor.
    fn fleet(blocks: u32, machines: &[&str], factor: f64) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for block in 0..blocks {
            let machine = machines[block as usize % machines.len()];
            let of_machine = if machine == machines[machines.len() - 1] { factor } else { 1.0 };
            for case in 0..3 {
                let filesystem = ["ext4", "xfs", "btrfs"][case as usize];
                let noise = 1.0 + 0.01 * f64::from((block * 7 + case * 3) % 5);
                let rate = 50.0 * f64::from(case + 1) * of_machine * noise;
                let configuration = fixture::configuration(filesystem, "bfq");
                let trial = fixture::trial(block * 4 + case, block, case, configuration, rate);
                trials.push(TrialRecord { machine: Some(machine.to_string()), ..trial });
            }
        }
        trials
    }

    fn read() -> Measure {
        "read".parse().expect("a measure")
    }

    #[test]
    fn a_machine_that_is_slower_is_named_with_its_factor() {
        let found = notes(&read(), &fleet(6, &["n1", "n2", "n3"], 0.5));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("the trials ran on 3 machines"), "{found:?}");
        assert!(found[1].starts_with("machine 'n3' differs from the others: its read is 0.5"), "{found:?}");
        let found = notes(&read(), &fleet(6, &["n1", "n2"], 0.5));
        assert!(found[1].starts_with("the machines differ: read on 'n2' is 0.5"), "{found:?}");
        assert_eq!(notes(&read(), &fleet(6, &["n1", "n2", "n3"], 1.0)).len(), 1);
        assert!(notes(&read(), &fleet(6, &["n1"], 1.0)).is_empty());
    }

    /// Values of one machine differ as much as machines do.
    #[test]
    fn what_may_be_chance_is_not_said_of_a_machine() {
        let mut trials = fleet(2, &["n1", "n2"], 0.7);
        for (trial, factor) in trials.iter_mut().zip([0.5, 1.0, 2.0, 2.0, 1.0, 0.5]) {
            *trial = TrialRecord {
                machine: trial.machine.clone(),
                ..fixture::trial(
                    trial.trial,
                    trial.block,
                    trial.case,
                    trial.configuration.asked.clone(),
                    50.0 * factor,
                )
            };
        }
        assert_eq!(notes(&read(), &trials).len(), 1, "{:?}", notes(&read(), &trials));
    }

    /// Cases that some machine lacks say nothing about it; and a block that two have begun is said to be one.
    #[test]
    fn machines_are_compared_by_what_all_have_measured() {
        let mut trials = fleet(4, &["n1", "n2"], 1.0);
        // The dearest case was run by n2 alone.
        trials.retain(|trial| trial.case != 2 || trial.machine.as_deref() == Some("n2"));
        assert_eq!(notes(&read(), &trials).len(), 1);
        trials[0].machine = Some("n2".to_string());
        trials[5].machine = None;
        let found = notes(&read(), &trials);
        assert!(found[0].contains("on 3 machines, 2 blocks on more than one of them: n1 ("), "{found:?}");
        assert!(found[0].contains("the machine with the store (1 trial)"), "{found:?}");
    }

    #[test]
    fn a_slower_machine_is_no_drift() {
        let trials = |factor| {
            let mut trials = fleet(8, &["n1", "n2"], factor);
            trials.sort_by_key(|trial| trial.machine.clone());
            for (number, trial) in (0..).zip(&mut trials) {
                (trial.trial, trial.sentinel) = (number, number == 0);
            }
            trials
        };
        let found = drift(&read(), &trials(0.5)).expect("a sentinel");
        assert_eq!(found.warning(), None, "{found:?}");
        assert_eq!(found.unsteady(), None, "{found:?}");
        let alone: Vec<TrialRecord> =
            trials(0.5).into_iter().map(|trial| TrialRecord { machine: None, ..trial }).collect();
        let alone = drift(&read(), &alone).expect("a sentinel");
        assert!(alone.warning().or(alone.unsteady()).is_some(), "{alone:?}");
    }
}
