//! The recommendation of a sweep that was a race: it claims no more than the race does.

use crate::race::{self, RaceAnswer, RaceError, RaceState};
use fsdyno_core::measure::Measure;
use fsdyno_core::workload::Fileserver;
use fsdyno_core::{Role, SweepHeader, TrialRecord, Workload};

/// Returns the answer of the race of a sweep; `None` if the sweep was no race.
pub(super) fn of(
    header: &SweepHeader,
    trials: &[TrialRecord],
    threshold: f64,
) -> Option<Result<RaceAnswer, RaceError>> {
    header.race.as_ref().map(|rules| race::answer(header, rules, trials, threshold))
}

/// The measured trials that configurations are compared by, and those that effects of settings are estimated
/// from: the first block, because later ones have only what did well in it.
pub(super) fn parts<'a>(race: &RaceAnswer, measured: &[&'a TrialRecord]) -> [Vec<&'a TrialRecord>; 2] {
    let compared = measured.iter().filter(|trial| race.is_left(trial.case) && race.counts(trial));
    let first = measured.iter().filter(|trial| trial.block == 0 && !trial.sentinel);
    [compared.copied().collect(), first.copied().collect()]
}

/// Returns the sentence about an answer by another measure than that of the race.
pub(super) fn for_another(race: &RaceAnswer, measure: &Measure) -> String {
    format!(
        "Only configurations that the race for {} did not drop are compared: a dropped one may be better by \
         {measure}.",
        race.measure
    )
}

/// Puts what is to be doubted of a race first.
pub(super) fn doubt(doubts: &mut Vec<String>, measure: &Measure, trials: &[&TrialRecord]) {
    doubts.splice(..0, closed_loop(measure, trials));
    doubts.truncate(super::doubts::MOST);
}

/// Says that readers beside slow writers gain, if nothing limited the writers.
fn closed_loop(measure: &Measure, trials: &[&TrialRecord]) -> Option<String> {
    let trial = trials.first().filter(|_| measure.role() == Some(Role::Reader))?;
    let Workload::Fileserver(Fileserver { write_rate: None, imported: None, .. }) = trial.workload else {
        return None;
    };
    let mut phases = trial.phases.iter().filter(|phase| measure.covers(trial, &phase.name));
    phases.any(|phase| phase.roles.iter().any(|role| role.role == Role::Writer)).then(|| {
        "nothing limited the writers, so that readers beside slow ones gain: `write_rate` sets a rate for all"
            .to_string()
    })
}

/// Returns the notes that a reader must know before the figures.
pub(super) fn notes(found: &Result<RaceAnswer, RaceError>) -> Vec<String> {
    let race = match found {
        Ok(race) => race,
        Err(error) => return vec![error.to_string()],
    };
    let mut notes = race.drops();
    let fresh = race.finalists.iter().any(|one| one.trials > 0);
    notes.push(match fresh {
        true => {
            "figures of the last few are those of the blocks in which they were measured again; those of \
                 dropped configurations rest on the few trials before that, and effects of settings on the \
                 first block"
                .to_string()
        }
        false => {
            "what is left has not been measured again, so figures are those that it was selected by, and \
                  promise too much; effects of settings are those of the first block"
                .to_string()
        }
    });
    if race.state == RaceState::Unfinished {
        notes.push("the race is not over".to_string());
    }
    notes.extend(race.doubts.iter().cloned());
    notes
}
