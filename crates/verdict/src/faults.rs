//! The effects of failed requests on applications, over the trials of a configuration.

use fsdyno_core::TrialRecord;
use fsdyno_core::durability::Fault;
use fsdyno_core::result::{FaultResult, Harm, Usable};

/// All faults of one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// The number of trials.
    pub trials: usize,
    /// The outcomes of each fault, in the order of [`Fault::ALL`]; several in a row if trials differ.
    pub outcomes: Vec<FaultOutcome>,
}

/// The outcome of a fault in some trials.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultOutcome {
    /// That of the first of them.
    pub result: FaultResult,
    /// In how many trials it was the same, and how many had the fault at all.
    pub trials: usize,
    /// See `trials`.
    pub of: usize,
}

impl Faults {
    /// The faults of some trials; `None` if none of them has any.
    pub fn of(trials: &[&TrialRecord]) -> Option<Faults> {
        let trials: Vec<&&TrialRecord> = trials.iter().filter(|trial| !trial.io_errors.is_empty()).collect();
        let outcomes = Fault::ALL.into_iter().flat_map(|fault| {
            let results = trials.iter().flat_map(|trial| &trial.io_errors);
            outcomes_of(&results.filter(|result| result.fault == fault).collect::<Vec<_>>())
        });
        let outcomes: Vec<FaultOutcome> = outcomes.collect();
        (!outcomes.is_empty()).then_some(Faults { trials: trials.len(), outcomes })
    }

    /// Returns the number of faults that were tested.
    pub fn tested(&self) -> usize {
        self.count(|result| result.harm() != Harm::Untested)
    }

    /// Returns the number of faults that did this harm to the application, in some trial.
    pub fn did(&self, harm: Harm) -> usize {
        self.count(|result| result.harm() == harm)
    }

    /// After how many the filesystem could no longer be used, until it was mounted again.
    pub fn unusable(&self) -> usize {
        self.count(|result| result.witnessed.as_ref().is_none_or(|seen| seen.usable != Usable::Writable))
    }

    /// After how many it could not be mounted again.
    pub fn not_mounted(&self) -> usize {
        self.count(|result| result.mount_error.is_some())
    }

    /// After how many the check found it damaged; `None` if it was never checked.
    pub fn damaged(&self) -> Option<usize> {
        let checked = self.outcomes.iter().any(|outcome| outcome.result.clean.is_some());
        checked.then(|| self.count(|result| result.clean == Some(false)))
    }

    /// Faults of which some trial is such.
    fn count(&self, such: impl Fn(&FaultResult) -> bool) -> usize {
        let mut faults: Vec<Fault> = self
            .outcomes
            .iter()
            .filter(|outcome| such(&outcome.result))
            .map(|outcome| outcome.result.fault)
            .collect();
        faults.dedup();
        faults.len()
    }
}

/// The different outcomes of one fault, in the order in which they first came. How many requests failed is
/// no difference, but whether any did is.
fn outcomes_of(results: &[&FaultResult]) -> Vec<FaultOutcome> {
    let mut outcomes: Vec<FaultOutcome> = Vec::new();
    for result in results {
        let same = |outcome: &&mut FaultOutcome| {
            let failed = outcome.result.failed;
            (failed > 0) == (result.failed > 0)
                && FaultResult { failed, ..(*result).clone() } == outcome.result
        };
        match outcomes.iter_mut().find(same) {
            Some(outcome) => outcome.trials += 1,
            None => {
                outcomes.push(FaultOutcome { result: (*result).clone(), trials: 1, of: results.len() });
            }
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::result::Content;

    #[test]
    fn outcomes_that_are_the_same_are_one_row() {
        let mut trials = fixture::faulty_trials(3);
        trials[0].io_errors[0].failed = 7;
        let faults = Faults::of(&trials.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((faults.trials, faults.outcomes.len()), (3, Fault::ALL.len()));
        assert_eq!((faults.outcomes[0].trials, faults.outcomes[0].of), (3, 3));
        trials[1].io_errors[0].after = Some(Content::Garbage);
        let faults = Faults::of(&trials.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(faults.outcomes.len(), Fault::ALL.len() + 1);
        let counts: Vec<usize> = faults.outcomes.iter().take(2).map(|outcome| outcome.trials).collect();
        assert_eq!(counts, [2, 1]);
        assert!(Faults::of(&[]).is_none());
    }

    #[test]
    fn faults_are_counted_once_over_all_trials() {
        let trials = fixture::faulty_trials(3);
        let faults = Faults::of(&trials.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((faults.tested(), faults.did(Harm::Untested)), (14, 2));
        assert_eq!((faults.did(Harm::Silent), faults.did(Harm::ToldOnce)), (1, 2));
        assert_eq!((faults.unusable(), faults.not_mounted(), faults.damaged()), (1, 1, Some(1)));
    }
}
