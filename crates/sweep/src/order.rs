//! The order of trials: randomised complete blocks with a sentinel.
//!
//! A block contains every case once, in an order drawn from the plan's seed; there are as many blocks as
//! repetitions. Within a block every case has the same seed, and so the same trees and the same hash seed: a
//! ratio within a block compares the cases rather than their luck. UUIDs also depend on the device and the
//! filesystem. The next block has another seed. Each block begins with the *sentinel*: one more trial of the
//! first case that can run, at the same place of every block, so that a drift of the machine is seen. It is a
//! trial of its configuration like the others. A plan with a single case needs no sentinel. A plan that
//! repeats until intervals are narrow enough adds blocks of the cases that need them, in the order of the
//! complete block. The order is a function of the plan and the sentinel alone, and a sweep that goes on keeps
//! its sentinel, so that it can find its missing trials again.

use crate::plan::{Plan, Planned};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::rand_core::Rng;
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A trial's place in the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Position in the sweep, from 0.
    pub trial: u32,
    /// Its block, from 0.
    pub block: u32,
    /// Index of its case.
    pub case: u32,
    /// `true` if it is the sentinel, with which the block begins.
    pub sentinel: bool,
    /// Seed of trees, contents, filesystem UUID and hash seed.
    pub seed: u64,
}

/// Every trial of the plan in order, on a machine that has whatever the plan asks for; of a plan that repeats
/// until intervals are narrow enough, those of the complete blocks.
pub fn order(plan: &Plan) -> Vec<Slot> {
    let makes_sense = plan.configurations.iter().map(Planned::makes_sense);
    let cases = makes_sense.flat_map(|runs| std::iter::repeat_n(runs, plan.loads_of_each()));
    order_with(plan, sentinel(cases))
}

/// The same with this sentinel.
pub(crate) fn order_with(plan: &Plan, sentinel: Option<u32>) -> Vec<Slot> {
    blocks(plan.rules.seed, plan.repetitions, cases(plan), sentinel)
}

fn cases(plan: &Plan) -> u32 {
    u32::try_from(plan.configurations.len() * plan.loads_of_each()).unwrap_or(u32::MAX)
}

/// The sentinel: the first case that can run, by what is known of each. `None` if the plan has a single case.
pub(crate) fn sentinel(runs: impl IntoIterator<Item = bool>) -> Option<u32> {
    let runs: Vec<bool> = runs.into_iter().collect();
    let first = runs.iter().position(|runs| *runs).unwrap_or(0);
    (runs.len() > 1).then_some(u32::try_from(first).unwrap_or(0))
}

/// A block beyond the minimum: the sentinel and the cases that need it, in the complete order, with continued
/// numbers of trials.
pub(crate) fn further(
    plan: &Plan,
    sentinel: Option<u32>,
    (block, wanting): (u32, &[u32]),
    first_trial: u32,
) -> Vec<Slot> {
    let complete = blocks(plan.rules.seed, block + 1, cases(plan), sentinel);
    let own = complete.into_iter().filter(|slot| slot.block == block);
    let wanting: BTreeSet<&u32> = wanting.iter().collect();
    let needed = own.filter(|slot| slot.sentinel || wanting.contains(&slot.case));
    (first_trial..).zip(needed).map(|(trial, slot)| Slot { trial, ..slot }).collect()
}

/// Every trial that the plan may run: the order if every case needs the maximum number of blocks.
pub(crate) fn most(plan: &Plan, sentinel: Option<u32>) -> Vec<Slot> {
    blocks(plan.rules.seed, plan.enough.map_or(plan.repetitions, |enough| enough.max), cases(plan), sentinel)
}

/// `repetitions` blocks of `cases` cases, each preceded by the sentinel.
pub(crate) fn blocks(seed: u64, repetitions: u32, cases: u32, sentinel: Option<u32>) -> Vec<Slot> {
    // Two draws for each block, so that more blocks do not change the earlier ones.
    let mut seeds = SplitMix64::seed_from_u64(seed);
    // One is left out, so that a plan has the trees that earlier versions gave it.
    seeds.next_u64();
    let mut slots = Vec::new();
    for block in 0..repetitions {
        let block_seed = seeds.next_u64();
        let mut order: Vec<u32> = (0..cases).collect();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seeds.next_u64()));
        let sentinel = sentinel.map(|case| Slot { trial: 0, block, case, sentinel: true, seed: block_seed });
        let block_slots =
            order.into_iter().map(|case| Slot { trial: 0, block, case, sentinel: false, seed: block_seed });
        slots.extend(sentinel.into_iter().chain(block_slots));
    }
    for (trial, slot) in (0..).zip(&mut slots) {
        slot.trial = trial;
    }
    slots
}

/// As the store counts.
pub(crate) fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_block_is_complete(seed: u64, repetitions in 1u32..8, cases in 1u32..60) {
            let sentinel = (cases > 1).then_some(0);
            let slots = blocks(seed, repetitions, cases, sentinel);
            prop_assert_eq!(&slots, &blocks(seed, repetitions, cases, sentinel), "the same plan has the same \
                order");
            prop_assert_eq!(slots.len() as u32, repetitions * (cases + sentinel.map_or(0, |_| 1)));
            for (trial, slot) in (0..).zip(&slots) {
                prop_assert_eq!(slot.trial, trial);
            }
            let mut seeds = BTreeSet::new();
            for block in 0..repetitions {
                let of_block: Vec<_> = slots.iter().filter(|slot| slot.block == block).collect();
                prop_assert_eq!(of_block[0].sentinel, sentinel.is_some(), "the sentinel comes first");
                let mut held: Vec<_> = of_block.iter().filter(|slot| !slot.sentinel).map(|slot| slot.case).collect();
                held.sort_unstable();
                prop_assert_eq!(held, (0..cases).collect::<Vec<_>>());
                let block_seeds: BTreeSet<_> = of_block.iter().map(|slot| slot.seed).collect();
                prop_assert_eq!(block_seeds.len(), 1, "one seed in a block");
                seeds.extend(block_seeds);
            }
            prop_assert_eq!(seeds.len() as u32, repetitions, "another seed in each block");
        }

        #[test]
        fn more_repetitions_change_nothing_about_earlier_blocks(seed: u64, repetitions in 1u32..6, cases in 2u32..20) {
            let fewer = blocks(seed, repetitions, cases, Some(0));
            let more = blocks(seed, repetitions + 3, cases, Some(0));
            prop_assert_eq!(&more[..fewer.len()], &fewer[..]);
        }
    }
}
