//! Simulations that show how far a comparison can be trusted: trials with noise of their own and of their
//! block, and one configuration under two names.

use super::tests::{question, side};
use super::{Comparison, Finding};
use crate::fixture;
use fsdyno_core::result::Quantile;
use fsdyno_core::{Operation, TrialRecord};
use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

const BLOCKS: u32 = 6;
const REPEATS: u64 = 1000;
/// Simulated sweeps without a difference. With a thousand, a comparison that errs in 4.5 % of sweeps would
/// exceed 5 % by chance in one of five test runs; with this many in one of seventy.
const REPEATS_OF_THE_SAME: u64 = 8000;

/// A simulated machine that produces trials.
struct Machine {
    random: Xoshiro256PlusPlus,
    /// A trial without noise.
    template: TrialRecord,
    /// The noise by which trials differ, and in addition each measure of a trial.
    noise: f64,
}

impl Machine {
    fn new(seed: u64, template: &TrialRecord, noise: f64) -> Self {
        Machine { random: Xoshiro256PlusPlus::seed_from_u64(seed), template: template.clone(), noise }
    }

    /// Six blocks of two configurations; the rates of the second are multiplied by these factors.
    fn sweep(&mut self, factors: [f64; 4]) -> [Vec<TrialRecord>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for block in 0..BLOCKS {
            // Blocks differ more than their trials do, and both kinds of noise are skewed.
            let level = self.draw(0.2);
            for (case, side) in (0..).zip(&mut sides) {
                let factors = if case == 0 { [1.0; 4] } else { factors };
                side.push(self.trial(block, case, level, factors));
            }
        }
        sides
    }

    fn trial(&mut self, block: u32, case: u32, level: f64, factors: [f64; 4]) -> TrialRecord {
        let mut trial = self.template.clone();
        (trial.trial, trial.block, trial.case) = (block * 2 + case, block, case);
        trial.configuration.name = ["first", "again"][case as usize].to_string();
        // The conditions of a trial affect all of its measures.
        let luck = level * self.draw(self.noise);
        for (index, factor) in factors.into_iter().enumerate() {
            let rate = 60e6 * luck * self.draw(self.noise) * factor;
            let role = match index {
                0 | 1 => &mut trial.phases[index].roles[0],
                _ => &mut trial.phases[2].roles[index - 2],
            };
            role.rates.aggregate_bytes_per_s = rate;
        }
        let stall = 40e6 / luck * self.draw(0.4);
        trial.phases[2].roles[0].longest_stall_ns = Some(fsdyno_core::Nanos(stall as u64));
        let slow = 300e3 / luck * self.draw(0.2);
        trial.phases[2].roles[1].operations[0].lat_ns.quantiles[Quantile::P999] = slow as u64;
        trial
    }

    fn draw(&mut self, sigma: f64) -> f64 {
        LogNormal::new(0.0, sigma).unwrap().sample(&mut self.random)
    }
}

/// A trial of the fileserver workload, reduced to what the named measures need.
fn template() -> TrialRecord {
    let mut trial = fixture::trial(0, 0, 0, fixture::configuration("ext4", "bfq"), 60.0);
    for role in trial.phases.iter_mut().flat_map(|phase| &mut phase.roles) {
        role.operations.retain(|result| result.operation == Operation::ReadFirstByte);
        role.longest_stall_ns = Some(fsdyno_core::Nanos(0));
    }
    trial
}

/// The number of sweeps in which the second configuration is called different, with a threshold of 0.
fn different(measures: &[&str], sweeps: [i64; 2]) -> usize {
    let template = template();
    let mut question = question(measures);
    question.threshold = 0.0;
    let differs = |seed: &u64| {
        let mut machine = Machine::new(*seed, &template, 0.05);
        let [first, mut second] = machine.sweep([1.0; 4]);
        if sweeps[0] != sweeps[1] {
            [second, _] = machine.sweep([1.0; 4]);
        }
        let compared =
            Comparison::new(side("first", sweeps[0], &first), side("again", sweeps[1], &second), &question);
        compared.rows().any(|row| matches!(row.finding, Finding::Slower | Finding::Faster))
    };
    (0..REPEATS_OF_THE_SAME).filter(differs).count()
}

/// The lower bound is there because a comparison that never finds anything would prove nothing.
fn is_3_to_5_percent(found: usize) -> bool {
    let repeats = REPEATS_OF_THE_SAME as usize;
    (repeats * 3 / 100..=repeats * 5 / 100).contains(&found)
}

/// All six named measures together, within blocks: one false alarm among the six is one too many.
#[test]
fn identical_configurations_differ_within_blocks_in_at_most_5_percent_of_sweeps() {
    let found = different(&[], [1, 1]);
    assert!(is_3_to_5_percent(found), "{found} of {REPEATS_OF_THE_SAME}");
}

/// Two sweeps, in which the differences between blocks are noise.
#[test]
fn identical_configurations_differ_between_sweeps_in_at_most_5_percent() {
    let found = different(&["read"], [1, 2]);
    assert!(is_3_to_5_percent(found), "{found} of {REPEATS_OF_THE_SAME}");
}

#[test]
fn a_slowdown_of_10_percent_is_found_with_6_trials() {
    let template = template();
    let found = |seed: &u64| {
        let [first, second] = Machine::new(*seed, &template, 0.02).sweep([1.0, 1.0, 1.0, 0.9]);
        let question = question(&["read-under-write"]);
        let compared = Comparison::new(side("first", 1, &first), side("again", 1, &second), &question);
        assert_eq!(compared.cases[0].rows.len(), 1);
        compared.regressed()
    };
    let found = (0..REPEATS).filter(found).count();
    assert!(found >= 950, "{found} of {REPEATS}");
}
