//! Which machine runs which trial: a block belongs to the machine that has begun it.

use crate::order::Slot;
use fsdyno_core::TrialRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Trials that are done and in progress, and the owners of blocks.
#[derive(Debug)]
pub(super) struct Queue {
    done: BTreeSet<u32>,
    running: BTreeSet<u32>,
    /// The name of the machine that has begun a block.
    owners: BTreeMap<u32, String>,
}

impl Queue {
    /// Before the first trial of this run; `earlier` are those of runs before it.
    pub fn new(stored: &BTreeSet<u32>, earlier: &[TrialRecord]) -> Self {
        let owner = |trial: &TrialRecord| Some((trial.block, trial.machine.clone()?));
        let owners = earlier.iter().filter_map(owner).collect();
        Queue { done: stored.clone(), running: BTreeSet::new(), owners }
    }

    /// The place of the next trial for a machine: of its own block, else of one that nobody has begun or
    /// whose machine is not there any more.
    pub fn next(&self, slots: &[Slot], machine: &str, alive: &[&str]) -> Option<usize> {
        let owner = |slot: &Slot| self.owners.get(&slot.block).map(String::as_str);
        let waits = |slot: &Slot| self.waits(slot);
        let own = slots.iter().position(|slot| waits(slot) && owner(slot) == Some(machine));
        own.or_else(|| {
            let is_free = |slot: &Slot| owner(slot).is_none_or(|owner| !alive.contains(&owner));
            slots.iter().position(|slot| waits(slot) && is_free(slot))
        })
    }

    /// Returns whether no trial of a block has been given to anybody.
    pub fn is_new(&self, block: u32) -> bool {
        !self.owners.contains_key(&block)
    }

    /// A machine runs a trial, and owns its block.
    pub fn give(&mut self, slot: &Slot, machine: &str) {
        self.running.insert(slot.trial);
        self.owners.insert(slot.block, machine.to_string());
    }

    /// The trial is stored.
    pub fn done(&mut self, slot: &Slot) {
        self.running.remove(&slot.trial);
        self.done.insert(slot.trial);
    }

    /// The trial does not count, and waits again.
    pub fn take_back(&mut self, slot: &Slot) {
        self.running.remove(&slot.trial);
    }

    /// Trials of the block that wait.
    pub fn rest_of_block(&self, slots: &[Slot], of: &Slot) -> Vec<Slot> {
        self.waiting(slots).filter(|slot| slot.block == of.block).copied().collect()
    }

    /// Trials that nobody runs and that are not done.
    pub fn waiting<'s>(&self, slots: &'s [Slot]) -> impl Iterator<Item = &'s Slot> {
        slots.iter().filter(|slot| self.waits(slot))
    }

    /// The first of them.
    pub fn first<'s>(&self, slots: &'s [Slot]) -> Option<&'s Slot> {
        self.waiting(slots).next()
    }

    /// Returns whether a trial is waiting.
    pub fn is_left(&self, slots: &[Slot]) -> bool {
        self.first(slots).is_some()
    }

    /// Returns the number of trials that are done.
    pub fn number_done(&self) -> usize {
        self.done.len()
    }

    fn waits(&self, slot: &Slot) -> bool {
        !self.done.contains(&slot.trial) && !self.running.contains(&slot.trial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::blocks;

    /// Returns, for each block, the machines that have taken its trials. They take them in turn, each
    /// finishing at once, unless it is lost after so many trials.
    fn run(machines: &[(&str, usize)], slots: &[Slot]) -> BTreeMap<u32, Vec<String>> {
        let mut queue = Queue::new(&BTreeSet::new(), &[]);
        let mut taken: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let mut left: Vec<(&str, usize)> = machines.to_vec();
        while queue.is_left(slots) {
            assert!(!left.is_empty(), "all are lost");
            for (name, trials) in left.clone() {
                let alive: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
                let Some(index) = queue.next(slots, name, &alive) else { continue };
                let slot = &slots[index];
                queue.give(slot, name);
                if trials == 0 {
                    queue.take_back(slot);
                    left.retain(|(other, _)| *other != name);
                    continue;
                }
                queue.done(slot);
                taken.entry(slot.block).or_default().push(name.to_string());
                let own = left.iter_mut().find(|(other, _)| *other == name).expect("it is there");
                own.1 -= 1;
            }
        }
        taken
    }

    #[test]
    fn a_block_runs_on_one_machine() {
        let slots = blocks(1, 6, 4, Some(0));
        let taken = run(&[("a", 100), ("b", 100), ("c", 100)], &slots);
        assert_eq!(taken.len(), 6);
        for (block, machines) in &taken {
            assert_eq!(machines.len(), 5);
            assert!(machines.iter().all(|machine| machine == &machines[0]), "block {block}: {machines:?}");
        }
    }

    #[test]
    fn what_a_lost_machine_has_not_done_goes_to_another() {
        let slots = blocks(1, 4, 4, Some(0));
        let taken = run(&[("a", 100), ("b", 2)], &slots);
        assert_eq!(taken.values().map(Vec::len).sum::<usize>(), slots.len());
        assert_eq!(taken[&1], ["b", "b", "a", "a", "a"]);
    }

    #[test]
    fn an_owner_that_comes_back_goes_on_with_its_block() {
        let slots = blocks(1, 2, 4, Some(0));
        let mut queue = Queue::new(&BTreeSet::from([0, 1]), &[]);
        queue.owners.insert(0, "b".to_string());
        let trial = |index: Option<usize>| index.map(|index| slots[index].trial);
        assert_eq!(trial(queue.next(&slots, "a", &["a", "b"])), Some(5), "block 0 is b's");
        assert_eq!(trial(queue.next(&slots, "b", &["a", "b"])), Some(2));
        assert_eq!(trial(queue.next(&slots, "a", &["a"])), Some(2), "b is not there");
        assert!(queue.is_new(1) && !queue.is_new(0));
        assert_eq!(queue.rest_of_block(&slots, &slots[2]).len(), 3);
    }
}
