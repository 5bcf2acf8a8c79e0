//! The states of a log that are left to look at, for all who look at them.

use super::looking::{Looking, Turns};
use super::site::DiskSite;
use super::tally::{DiskFindings, Tally};
use super::{ask, heal};
use crate::recorded::Shape;
use crate::trial::Stop;
use fsdyno_core::Nanos;
use fsdyno_core::durability::{CacheModel, Cut, RecorderRequest, StateRequest};
use fsdyno_core::result::Durability as Losses;
use fsdyno_core::workload::Durability;
use fsdyno_host::Host;
use fsdyno_host::recorder::Recorder;
use fsdyno_testbed::UndoJournal;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The data that all who look at the states of a log share.
pub(super) struct Work<'a> {
    pub cuts: &'a [Cut],
    /// The models and subsets that each cut is looked at under.
    pub of_each: Vec<(CacheModel, u32)>,
    pub parameters: &'a Durability,
    pub seed: u64,
    pub shape: Shape<'a>,
    pub interrupt: &'a AtomicBool,
    pub queue: Mutex<Queue<'a>>,
    pub turns: Turns,
    /// Recovery is timed after each cut of so many.
    pub timed_every: usize,
}

/// A state to look at.
pub(super) struct OneState<'a> {
    /// Its place among all states.
    place: usize,
    /// The number of its cut.
    pub number: u32,
    cut: &'a Cut,
    pub model: CacheModel,
    subset: u32,
}

/// Which states nobody has taken, and what was found on the others.
pub(super) struct Queue<'a> {
    next: usize,
    /// States that were taken, and could not be looked at by who had taken them.
    given_back: Vec<usize>,
    is_closed: bool,
    /// Has what was found in the order of the states, so that it does not depend on who was faster.
    tally: Tally<'a>,
    tallied: usize,
    /// The findings on states after the first that is still being looked at.
    ahead: BTreeMap<usize, DiskFindings>,
}

impl<'a> Queue<'a> {
    pub fn new(tally: Tally<'a>) -> Queue<'a> {
        Queue { next: 0, given_back: Vec::new(), is_closed: false, tally, tallied: 0, ahead: BTreeMap::new() }
    }

    fn take(&mut self, states: usize) -> Option<usize> {
        if self.is_closed {
            return None;
        }
        self.given_back.pop().or_else(|| {
            let place = self.next;
            self.next += 1;
            (place < states).then_some(place)
        })
    }

    fn done(&self) -> usize {
        self.tallied + self.ahead.len()
    }
}

impl<'a> Work<'a> {
    fn queue(&self) -> MutexGuard<'_, Queue<'a>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of states.
    fn states(&self) -> usize {
        self.cuts.len() * self.of_each.len()
    }

    fn state(&self, place: usize) -> OneState<'a> {
        let number = place / self.of_each.len();
        let (model, subset) = self.of_each[place % self.of_each.len()];
        OneState { place, number: number as u32, cut: &self.cuts[number], model, subset }
    }

    /// The next state that nobody looks at, if there is one.
    pub fn next(&self) -> Result<Option<OneState<'a>>, Stop> {
        match self.interrupt.load(Ordering::Relaxed) {
            true => Err(Stop::Interrupted),
            false => Ok(self.queue().take(self.states()).map(|place| self.state(place))),
        }
    }

    /// Nobody looks at another state.
    pub fn close(&self) {
        self.queue().is_closed = true;
    }

    pub fn give_back(&self, state: &OneState<'_>) {
        self.queue().given_back.push(state.place);
    }

    /// Notes what was found on a state.
    pub fn add(&self, state: &OneState<'_>, found: DiskFindings) {
        let mut queue = self.queue();
        queue.ahead.insert(state.place, found);
        let mut next = queue.tallied;
        while let Some(found) = queue.ahead.remove(&next) {
            self.tally(&mut queue, next, found);
            next += 1;
        }
        queue.tallied = next;
    }

    fn tally(&self, queue: &mut Queue<'_>, place: usize, found: DiskFindings) {
        let OneState { number, cut, model, subset, .. } = self.state(place);
        queue.tally.add(number, model, subset, cut, found);
    }

    /// About how long the rest takes, if work began then.
    pub fn left_after(&self, begin: Instant) -> Nanos {
        let done = self.queue().done();
        let each = begin.elapsed().as_nanos() as f64 / done.max(1) as f64;
        Nanos((each * self.states().saturating_sub(done) as f64) as u64)
    }

    /// Returns the number of states that were looked at, and the findings.
    pub fn result(self) -> (u64, Losses) {
        let mut queue = self.queue();
        let done = queue.done();
        for (place, found) in std::mem::take(&mut queue.ahead) {
            self.tally(&mut queue, place, found);
        }
        drop(queue);
        let queue = self.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
        (done as u64, queue.tally.result())
    }

    /// Builds a state, looks at it, and takes everything down. Returns what was found, and what is left.
    pub fn look(
        &self,
        state: &OneState<'_>,
        machine: &mut dyn Host,
        site: &mut DiskSite,
        journal: &mut UndoJournal,
        recorder: &mut dyn Recorder,
    ) -> (Result<DiskFindings, Stop>, Vec<String>) {
        let OneState { number, cut, model, subset, .. } = *state;
        let request = state_of(self.parameters, self.seed, cut, number, model, subset);
        let without = lost_member(self.parameters, self.shape, &request);
        let (seed, parameters, interrupt) = (self.seed, self.parameters, self.interrupt);
        let mut looking = Looking { machine, site, journal, seed, without, parameters, interrupt };
        let alone = (number as usize).is_multiple_of(self.timed_every);
        let looked = self
            .turns
            .beside(|| ask(recorder, &RecorderRequest::State(request)))
            .and_then(|_| looking.look(cut, &self.turns, alone))
            .and_then(|found| heal(recorder).map(|_| found));
        (looked, self.turns.beside(|| looking.take_down()))
    }
}

/// The models and subsets that each cut is looked at under.
pub(super) fn of_each_cut(parameters: &Durability) -> Vec<(CacheModel, u32)> {
    let subsets = |model: CacheModel| (0..parameters.subsets_of(model)).map(move |subset| (model, subset));
    parameters.models.iter().copied().flat_map(subsets).collect()
}

/// Returns the request for a state; the same for the same sweep, trial, cut, model and subset.
pub(super) fn state_of(
    parameters: &Durability,
    seed: u64,
    cut: &Cut,
    number: u32,
    model: CacheModel,
    subset: u32,
) -> StateRequest {
    let salt = u64::from(number) << 32 | u64::from(subset) << 8 | model as u64;
    StateRequest {
        at: cut.at,
        model,
        // Multiplying by an odd number gives each salt a seed of its own.
        seed: seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        atom: parameters.atom,
        volatile: parameters.volatile,
    }
}

/// Which member of the array is lost along with power.
fn lost_member(parameters: &Durability, shape: Shape<'_>, state: &StateRequest) -> Option<usize> {
    let members = shape.members().filter(|_| parameters.degraded)?;
    // The lower half of a state's seed says little about its cut.
    Some((state.seed >> u32::BITS) as usize % members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::Recorded;
    use fsdyno_core::DeviceSpec;
    use fsdyno_core::result::LogSummary;

    fn cuts(count: u64) -> Vec<Cut> {
        (0..count).map(|at| Cut { at, marks: 0, time_ns: Nanos(at) }).collect()
    }

    fn work<'a>(cuts: &'a [Cut], parameters: &'a Durability, disk: &'a DeviceSpec) -> Work<'a> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Work {
            cuts,
            of_each: of_each_cut(parameters),
            parameters,
            seed: 1,
            shape: Shape::of(disk, Recorded::Cuts(parameters)),
            interrupt: &NEVER,
            queue: Mutex::new(Queue::new(Tally::new(LogSummary::default(), &[], parameters))),
            turns: Turns::default(),
            timed_every: 1,
        }
    }

    fn next<'a>(work: &Work<'a>) -> Option<OneState<'a>> {
        work.next().ok().flatten()
    }

    fn not_mounted(state: &OneState<'_>) -> DiskFindings {
        DiskFindings::NotMounted {
            reason: format!("cut {} {:?} {}", state.number, state.model, state.subset),
        }
    }

    #[test]
    fn every_state_is_handed_out_once_and_what_was_found_is_listed_in_their_order() {
        let parameters = Durability { subsets: 2, cuts: 3, ..Durability::default() };
        let (cuts, disk) = (cuts(3), DeviceSpec::image("", parameters.size));
        let orders: [fn(&mut Vec<OneState<'_>>); 2] = [|_| (), |states| states.reverse()];
        let results = orders.map(|in_order| {
            let work = work(&cuts, &parameters, &disk);
            let mut states: Vec<_> = std::iter::from_fn(|| next(&work)).collect();
            assert_eq!(states.len() as u64, parameters.states());
            in_order(&mut states);
            states.iter().for_each(|state| work.add(state, not_mounted(state)));
            work.result()
        });
        assert_eq!(results[0], results[1]);
        let (done, losses) = &results[0];
        assert_eq!(*done, 18);
        let listed = losses.losing.iter().map(|one| (one.cut, one.model, one.subset));
        let expected = (0..3).flat_map(|cut| {
            of_each_cut(&parameters).into_iter().map(move |(model, subset)| (cut, model, subset))
        });
        assert!(listed.eq(expected), "{losses:?}");
    }

    #[test]
    fn a_state_that_was_given_back_is_handed_out_again() {
        let parameters = Durability { models: vec![CacheModel::Flushed], ..Durability::default() };
        let (cuts, disk) = (cuts(2), DeviceSpec::image("", parameters.size));
        let work = work(&cuts, &parameters, &disk);
        let first = next(&work).unwrap();
        let second = next(&work).unwrap();
        assert!(next(&work).is_none());
        work.add(&second, not_mounted(&second));
        work.give_back(&first);
        let again = next(&work).unwrap();
        assert_eq!(again.number, first.number);
        work.add(&again, not_mounted(&again));
        assert_eq!(work.result().0, 2);
    }

    #[test]
    fn nothing_is_handed_out_once_work_is_closed_and_what_was_found_counts() {
        let parameters = Durability { models: vec![CacheModel::Flushed], ..Durability::default() };
        let (cuts, disk) = (cuts(3), DeviceSpec::image("", parameters.size));
        let work = work(&cuts, &parameters, &disk);
        let _lost = next(&work);
        let second = next(&work).unwrap();
        work.close();
        assert!(next(&work).is_none());
        // It was being looked at meanwhile.
        work.add(&second, not_mounted(&second));
        let (done, losses) = work.result();
        assert_eq!((done, losses.losing.len()), (1, 1));
    }
}
