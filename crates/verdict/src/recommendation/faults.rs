//! The effects of failing requests, as far as they decide what to use.
//!
//! Data that is lost without an error decides. Data that is lost although fsync, called again, succeeds
//! orders the configurations that are alike in the former, and is reported, but nobody makes a new filesystem
//! for it: programs must not retry a failed fsync on any. The behaviour of a filesystem after a fault is a
//! property of its code rather than a sample, so that a configuration is worse if each of its trials is worse
//! than each of the best one.

use super::contender::{Contender, ContenderVerdict, of_case};
use crate::faults::Faults;
use fsdyno_core::TrialRecord;
use fsdyno_core::measure::Measure;
use fsdyno_core::result::Harm;

/// The verdict on each configuration, compared with the best; `None` if another measure decides.
pub(super) fn verdicts(
    measure: &Measure,
    standings: &[Contender],
    trials: &[&TrialRecord],
    best: usize,
) -> Option<Vec<ContenderVerdict>> {
    if !measure.is_of_faults() {
        return None;
    }
    let shares = |one: &Contender| -> Vec<f64> {
        of_case(trials, one.case).filter_map(|trial| Some(measure.value(trial)?.value)).collect()
    };
    let of_best = shares(&standings[best]);
    let all = |own: &[f64], holds: fn(&f64, &f64) -> bool| {
        own.iter().all(|one| of_best.iter().all(|other| holds(one, other)))
    };
    let verdict = |(index, one): (usize, &Contender)| match shares(one) {
        _ if index == best => ContenderVerdict::Best,
        own if own.is_empty() => ContenderVerdict::Unknown,
        own if all(&own, |one, best| one == best) => ContenderVerdict::AsGood,
        own if all(&own, |one, best| one > best) => ContenderVerdict::Worse,
        own if all(&own, |one, best| one < best) => ContenderVerdict::BetterAndWeaker,
        _ => ContenderVerdict::CannotTell { needed: None },
    };
    Some(standings.iter().enumerate().map(verdict).collect())
}

/// Returns the number of faults that were tested in some trials, of those that lost data without an error,
/// and of those after which a second fsync succeeded although data was lost; `None` if another measure
/// decides.
pub(super) fn counts(measure: &Measure, trials: &[&TrialRecord], case: u32) -> Option<[usize; 3]> {
    if !measure.is_of_faults() {
        return None;
    }
    let faults = Faults::of(&of_case(trials, case).collect::<Vec<_>>())?;
    Some([faults.tested(), faults.did(Harm::Silent), faults.did(Harm::ToldOnce)])
}
