//! The estimated time of the blocks of a plan, here or on a machine that can run everything.

use crate::estimate;
use crate::order::{order_with, sentinel};
use crate::plan::{Case, Plan};
use crate::race::ForeseenRace;
use crate::sizes::Sizes;
use fsdyno_core::Nanos;
use fsdyno_host::Host;
use fsdyno_host::guest::Guests;

/// The facts that decide how long a plan takes, besides the plan itself. They stay the same as long as
/// neither its cases nor its devices change.
pub(crate) struct Pace {
    /// For each case, `true` if it runs; the trials of the others are skipped.
    runs: Vec<bool>,
    sizes: Sizes,
}

impl Pace {
    /// On this machine.
    pub fn here(plan: &Plan, host: &mut dyn Host, guests: &mut dyn Guests) -> Self {
        let cases = plan.cases();
        let sizes = Sizes::of(host, guests, plan, &cases);
        let unmet = estimate::unmet(plan, host, guests, &cases, sizes.device);
        Pace { runs: unmet.iter().map(Vec::is_empty).collect(), sizes }
    }

    /// On a machine that has whatever a plan asks for.
    pub fn nominal(plan: &Plan) -> Self {
        let possible = |case: &Case| case.contradictions.is_empty() && case.impossible.is_empty();
        let sizes = Sizes { device: plan.devices.data.size(), ..Sizes::of_plan(plan) };
        Pace { runs: plan.cases().iter().map(possible).collect(), sizes }
    }

    /// One block with its sentinel.
    pub fn block(&self, plan: &Plan) -> Nanos {
        let slots = order_with(plan, sentinel(self.runs.iter().copied()));
        let cases = plan.cases();
        let first = slots.iter().take_while(|slot| slot.block == 0).map(|slot| slot.case as usize);
        let times = first.filter(|case| self.runs[*case]).map(|case| self.trial(&cases[case]).0);
        Nanos(times.fold(0, u64::saturating_add))
    }

    /// The whole sweep with this many blocks, plus one block if the write rate is measured first.
    pub fn sweep(&self, plan: &Plan, blocks: u32) -> Nanos {
        let once = estimate::time_of_images(plan).0;
        let blocks = blocks.saturating_add(u32::from(plan.measures_write_rate()));
        Nanos(once.saturating_add(self.block(plan).0.saturating_mul(blocks.into())))
    }

    /// A trial of the case that takes longest.
    pub fn longest_trial(&self, plan: &Plan) -> Nanos {
        self.trials(plan).into_iter().max().unwrap_or_default()
    }

    /// A trial of each case that runs.
    fn trials(&self, plan: &Plan) -> Vec<Nanos> {
        let cases = plan.cases();
        let runs = cases.iter().zip(&self.runs).filter(|(_, runs)| **runs);
        runs.map(|(case, _)| self.trial(case)).collect()
    }

    fn trial(&self, case: &Case) -> Nanos {
        estimate::trial_time(case, self.sizes)
    }
}

/// The estimated time of a plan on a machine that has whatever it asks for, with the least number of
/// repetitions.
pub fn nominal_time(plan: &Plan) -> Nanos {
    let pace = Pace::nominal(plan);
    match ForeseenRace::of(plan, &pace.trials(plan)) {
        Some(race) => Nanos(estimate::time_of_images(plan).0.saturating_add(race.time_ns.0)),
        None => pace.sweep(plan, plan.repetitions),
    }
}
