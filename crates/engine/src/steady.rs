//! Watches a ramp until the rate of the load is steady.

use fsdyno_core::result::Steadiness;
use fsdyno_core::workload::Steady;

/// The rounds of a ramp.
#[derive(Debug)]
pub(crate) struct Rounds {
    steady: Steady,
    /// When the current round began, and how many operations had been completed then.
    since: Option<(u64, u64)>,
    /// Operations per second of each complete round.
    rates: Vec<f64>,
}

impl Rounds {
    pub(crate) fn new(steady: Steady) -> Self {
        Rounds { steady, since: None, rates: Vec::new() }
    }

    /// Returns whether the load is steady now that this many operations have been completed.
    pub(crate) fn look(&mut self, now_ns: u64, completed: u64) -> bool {
        let (since_ns, before) = *self.since.get_or_insert((now_ns, completed));
        let elapsed_ns = now_ns - since_ns;
        if elapsed_ns < self.steady.round.0 {
            return false;
        }
        self.rates.push((completed - before) as f64 / elapsed_ns as f64 * 1e9);
        self.since = Some((now_ns, completed));
        self.excursion().is_some_and(|excursion| self.steady.allows(excursion))
    }

    /// Returns the findings of the ramp.
    pub(crate) fn verdict(&self) -> Steadiness {
        let excursion = self.excursion();
        Steadiness {
            reached: excursion.is_some_and(|excursion| self.steady.allows(excursion)),
            rounds: u32::try_from(self.rates.len()).unwrap_or(u32::MAX),
            excursion,
        }
    }

    fn excursion(&self) -> Option<fsdyno_core::workload::Excursion> {
        self.steady.excursion(&self.rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::units::Nanos;

    /// The tenth of a second at which a load is steady that completes so many operations in each.
    fn steady_after(
        steady: Steady,
        operations: impl IntoIterator<Item = u64>,
    ) -> (Option<usize>, Steadiness) {
        let mut rounds = Rounds::new(steady);
        let mut completed = 0;
        let found = operations.into_iter().enumerate().find_map(|(tenth, operations)| {
            let is_steady = rounds.look(1_000_000_000 + tenth as u64 * 100_000_000, completed);
            completed += operations;
            is_steady.then_some(tenth)
        });
        (found, rounds.verdict())
    }

    #[test]
    fn a_cache_that_fills_is_waited_for() {
        let steady = Steady { over: 3, round: Nanos::from_secs(1), ..Steady::default() };
        let load = [1000; 20].into_iter().chain([100; 100]);
        let (after, verdict) = steady_after(steady, load);
        // Three rounds after the last fast one, which ends at 2 s.
        assert_eq!(after, Some(50), "{verdict:?}");
        assert!(verdict.reached && verdict.rounds == 5, "{verdict:?}");
    }

    #[test]
    fn what_keeps_falling_is_never_steady() {
        let steady = Steady { over: 5, round: Nanos::from_secs(1), ..Steady::default() };
        let (after, verdict) = steady_after(steady, (0..200).map(|tenth| 1000 - 4 * tenth));
        assert_eq!(after, None);
        let slope = verdict.excursion.unwrap().slope;
        assert!(!verdict.reached && slope < -0.1, "{verdict:?}");
        // Nothing at all is not steady either.
        let (after, verdict) = steady_after(steady, [0; 200]);
        assert!(after.is_none() && verdict.excursion.is_none(), "{verdict:?}");
    }
}
