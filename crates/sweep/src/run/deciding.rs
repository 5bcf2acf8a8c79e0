//! Sweeps whose trials decide whether another block follows.
//!
//! After each block the sweep is judged, by the rules of every later answer ([`sequential`]), and the look is
//! recorded. A plan with `repetitions = "auto"` ends once that decides, or at its maximum. Then a block
//! during which the machine was disturbed is measured again, each at most once, and none if that was the rule
//! rather than the exception: with half of the blocks disturbed, this is what the machine is like. The
//! disturbed trials stay, and are marked as not counting once the other block is complete and calm.
//!
//! A sweep that has ended goes on for so many blocks, or for a time, within which it ends as soon as it is
//! decided, unless it already was.
//!
//! Blocks that were planned in an earlier run stay planned: nothing is judged twice.

use crate::plan::Plan;
use fsdyno_core::{Looks, More, RepeatedBlock, WarningKind};
use fsdyno_verdict::enough::{Tally, Until};
use fsdyno_verdict::sequential::{self, Settled};

/// The decisions about further blocks.
pub(crate) struct Deciding {
    looks: Looks,
    /// The number of blocks that have stored trials of an earlier run.
    known: u32,
    /// The addition to a sweep that had ended.
    more: Option<More>,
}

/// The continuation after the blocks so far.
#[derive(Debug, PartialEq)]
pub(crate) struct Following {
    /// The cases of the next block; none if the sweep is over.
    pub cases: Vec<u32>,
    /// `true` if the block is measured in the place of another, so that nothing else is planned with it.
    pub is_repeat: bool,
    /// The conclusions from the trials so far, a line each.
    pub said: Vec<String>,
}

impl Deciding {
    /// Of a plan; `None` if its trials decide nothing. `known` blocks have stored trials.
    pub fn new(plan: &Plan, looks: Looks, more: Option<More>, known: u32) -> Option<Deciding> {
        let is_auto = plan.enough.is_some_and(|enough| enough.is_auto());
        (is_auto || more.is_some()).then_some(Deciding { looks, known, more })
    }

    /// The looks so far.
    pub fn looks(&self) -> &Looks {
        &self.looks
    }

    /// Returns whether blocks may follow this one that are not planned yet.
    pub fn more_may_follow(&self, plan: &Plan, block: u32) -> bool {
        match self.more {
            Some(More { from, blocks: Some(blocks), .. }) => block + 1 < from.saturating_add(blocks),
            Some(_) => true,
            None => plan.enough.is_some_and(|enough| block + 1 < enough.max),
        }
    }

    /// Returns the continuation after the first `blocks` blocks, all trials of which are in the tally.
    pub fn next(&mut self, plan: &Plan, tally: &Tally, blocks: u32) -> Following {
        if blocks < self.known {
            let cases = composition(plan, tally, blocks, self.more);
            return Following { cases, is_repeat: false, said: Vec::new() };
        }
        let mut said: Vec<String> = self.accept_repeat(tally, blocks).into_iter().collect();
        if !self.looks.after.contains(&blocks) {
            self.looks.after.push(blocks);
            self.looks.after.sort_unstable();
        }
        let recommendation = sequential::judge(tally.trials(), &plan.measure, plan.rules.seed, &self.looks);
        let settled = sequential::settled(&recommendation);
        said.push(sequential::said(blocks, &settled, &recommendation));
        let cases = tally.measurable(blocks);
        if self.is_over(plan, tally, &settled, blocks) {
            let repeated = self.repeat(tally, &settled, blocks).filter(|_| !cases.is_empty());
            let Some(repeated) = repeated else {
                if matches!(settled, Settled::Open(_)) && self.more.is_none() {
                    said.push("the plan has no more blocks; fsdyno sweep --more 1h adds some".to_string());
                }
                return Following { cases: Vec::new(), is_repeat: false, said };
            };
            said.push(format!(
                "block {} was disturbed ({}) and is measured again as block {}",
                repeated.block + 1,
                names(&repeated.why),
                repeated.by + 1
            ));
            self.looks.repeated.push(repeated);
            return Following { cases, is_repeat: true, said };
        }
        Following { cases, is_repeat: false, said }
    }

    /// Returns whether no further block follows, apart from those that are measured again.
    fn is_over(&self, plan: &Plan, tally: &Tally, settled: &Settled, blocks: u32) -> bool {
        let is_open = |settled: &Settled| matches!(settled, Settled::Open(_));
        match self.more {
            Some(More { from, blocks: Some(count), .. }) => blocks.saturating_sub(from) >= count,
            Some(More { from, .. }) => {
                let before = tally.before(from);
                let was = sequential::judge(before.trials(), &plan.measure, plan.rules.seed, &self.looks);
                !is_open(settled) && is_open(&sequential::settled(&was))
            }
            None => {
                let most = plan.enough.map_or(0, |enough| enough.max);
                !is_open(settled) || self.counted(blocks) >= most
            }
        }
    }

    /// Returns the number of blocks that count, out of so many.
    fn counted(&self, blocks: u32) -> u32 {
        (0..blocks).map(|block| u32::from(self.looks.in_place_of(block).is_none())).sum()
    }

    /// The next disturbed block to measure again.
    fn repeat(&self, tally: &Tally, settled: &Settled, blocks: u32) -> Option<RepeatedBlock> {
        if self.more.is_some() || *settled == Settled::Hopeless {
            return None;
        }
        let disturbed = tally.disturbed(0..blocks);
        let is_the_rule = 2 * disturbed.len() >= blocks as usize;
        let is_new = |block: u32| self.looks.repeated.iter().all(|one| ![one.block, one.by].contains(&block));
        let (block, why) = disturbed.into_iter().find(|(block, _)| is_new(*block) && !is_the_rule)?;
        Some(RepeatedBlock { block, by: blocks, why, counts: false })
    }

    /// Lets the last block count if it was measured in the place of another, and says whether it does.
    fn accept_repeat(&mut self, tally: &Tally, blocks: u32) -> Option<String> {
        let last = blocks.checked_sub(1)?;
        let repeated = self.looks.repeated.iter_mut().find(|one| one.by == last && !one.counts)?;
        let again = tally.disturbed(last..blocks);
        if let Some((_, why)) = again.first() {
            return Some(format!(
                "block {blocks} was disturbed as well ({}), so block {} counts, too",
                names(why),
                repeated.block + 1
            ));
        }
        repeated.counts = true;
        Some(format!("block {blocks} counts in the place of block {}", repeated.block + 1))
    }
}

/// The cases of a block of which an earlier run has trials.
fn composition(plan: &Plan, tally: &Tally, blocks: u32, more: Option<More>) -> Vec<u32> {
    let is_added = more.is_some_and(|more| blocks >= more.from);
    match plan.enough.map(|enough| enough.until) {
        Some(Until::Narrow(half_width)) if !is_added => {
            tally.wanting(half_width, &plan.measure, plan.rules.seed, blocks)
        }
        _ => tally.measurable(blocks),
    }
}

fn names(kinds: &[WarningKind]) -> String {
    kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}
