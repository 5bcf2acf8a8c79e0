//! The view model: a sweep and its trials, arranged the way every report shows them.
//!
//! Pure: it turns plain records into plain values, and knows neither terminals nor files. Sentinel trials are
//! not part of the cases (they would count the first configuration twice); they show drift.

mod case;
mod clients;

pub use case::{CaseView, KernelView, OpenLoopView, OperationView, PhaseView, RoleView, TrialCurve, cases};

pub use clients::{ClientView, ClientsOfRole, ClientsView};

use crate::merge::UnreadableHistogram;
use crate::outcomes::{WarningGroup, is_measured, warnings};
use crate::race::RaceAnswer;
use crate::ranking::{Ranking, rankings};
use crate::recommendation::{Question, Recommendation, notes_on_figures};
use fsdyno_core::{SweepHeader, TrialRecord};

/// A sweep, ready to be shown.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The sweep.
    pub header: SweepHeader,
    /// Every case with a measured trial, in the plan's order.
    pub cases: Vec<CaseView>,
    /// The ranking of the configurations for each load.
    pub rankings: Vec<Ranking>,
    /// The configurations to use, with an answer for each ranking, in the same order.
    pub recommendation: Recommendation,
    /// Every kind of warning that some trial carries.
    pub warnings: Vec<WarningGroup>,
    /// The number of measured trials.
    pub measured: usize,
}

impl View {
    /// Arranges the trials of a sweep.
    ///
    /// # Errors
    /// [`UnreadableHistogram`] when a stored histogram cannot be read.
    pub fn new(header: &SweepHeader, trials: &[TrialRecord]) -> Result<View, UnreadableHistogram> {
        let view = View::without_cases(header, trials);
        let cases = match view.race() {
            None => cases(trials)?,
            Some(race) => cases(&counted(race, trials))?,
        };
        Ok(View { cases, ..view })
    }

    /// The same without cases, for which outlines of the trials are enough.
    pub fn without_cases(header: &SweepHeader, trials: &[TrialRecord]) -> View {
        let recommendation = Recommendation::new(header, trials, &Question::default());
        let rankings = match &recommendation.race {
            None => rankings(&header.measure, header.seed, trials),
            Some(race) => raced(race, rankings(&header.measure, header.seed, &counted(race, trials))),
        };
        View {
            header: header.clone(),
            cases: Vec::new(),
            rankings,
            recommendation,
            warnings: warnings(trials.iter()),
            measured: trials.iter().filter(|trial| is_measured(trial)).count(),
        }
    }

    /// Returns the answer of the race, if the sweep was one.
    pub fn race(&self) -> Option<&RaceAnswer> {
        self.recommendation.race.as_ref()
    }
}

/// The trials that count for the figures of their configurations.
fn counted(race: &RaceAnswer, trials: &[TrialRecord]) -> Vec<TrialRecord> {
    trials.iter().filter(|trial| race.counts(trial)).cloned().collect()
}

/// Puts the configurations that are left of a race first: the figures of the others are those of few trials,
/// and may be better by luck.
fn raced(race: &RaceAnswer, mut rankings: Vec<Ranking>) -> Vec<Ranking> {
    for ranking in &mut rankings {
        ranking.rows.sort_by_key(|row| !race.is_left(row.case));
    }
    rankings
}

impl View {
    /// Returns the notes that a reader must know besides the answers and before the figures, one line each.
    pub fn notes(&self) -> Vec<String> {
        let answers = self.recommendation.answers.iter().flat_map(notes_on_figures);
        let mut notes: Vec<String> = Vec::new();
        for note in answers.chain(self.recommendation.notes.iter().cloned()) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture;
    use crate::merge::Time;
    use fsdyno_core::Role;

    #[test]
    fn cases_skipped_alike_and_trials_that_fail_alike_are_grouped() {
        let mut trials = fixture::trials();
        let mut other = trials[2].clone();
        (other.trial, other.case, other.configuration.name) = (6, 3, "btrfs none".to_string());
        let mut again = trials[5].clone();
        again.trial = 7;
        trials.extend([other, again]);
        let view = fixture::view("read", &trials);
        assert_eq!(view.recommendation.skipped.len(), 1);
        assert_eq!(view.recommendation.skipped[0].names, ["btrfs bfq", "btrfs none"]);
        assert_eq!(
            view.recommendation.failed.iter().map(|group| &group.trials[..]).collect::<Vec<_>>(),
            [[5, 7]]
        );
    }

    #[test]
    fn cases_merge_only_their_measured_trials() {
        let view = fixture::view("read", &fixture::trials());
        let trials: Vec<_> = view.cases.iter().map(|case| &case.trials[..]).collect();
        assert_eq!(trials, [[0, 4], [1, 3]]);
        assert_eq!(view.warnings.iter().map(|group| group.trials).collect::<Vec<_>>(), [6, 1]);
    }

    #[test]
    fn a_role_that_only_a_later_trial_has_is_included() {
        let mut trials = fixture::trials();
        trials[0].phases[2].roles.retain(|role| role.role == Role::Reader);
        let view = fixture::view("read", &trials);
        let roles: Vec<Role> = view.cases[0].phases[2].roles.iter().map(|role| role.role).collect();
        assert_eq!(roles, [Role::Writer, Role::Reader]);
        assert_eq!(view.cases[0].phases[2].roles[0].remarks.len(), 1);
    }

    #[test]
    fn the_longest_stall_of_all_trials_is_kept_with_its_bound() {
        let view = fixture::view("read", &fixture::trials());
        let writers = &view.cases[0].phases[2].roles[0];
        assert_eq!(writers.longest_stall, Some(Time { ns: 30_000_000_000, at_least: true }));
        assert_eq!(
            view.cases[1].phases[2].roles[0].longest_stall,
            Some(Time { ns: 40_000_000, at_least: false })
        );
    }
}
