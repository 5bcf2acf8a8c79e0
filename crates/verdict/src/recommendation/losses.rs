//! The losses in power cuts, as far as they decide what to use.

use super::contender::{Contender, ContenderVerdict, pairs};
use crate::durability::{self, Basis, Judge, LossFinding, LossRow};
use fsdyno_core::measure::Measure;

/// The verdict on each configuration by acknowledged promises, compared with the best; `None` if another
/// measure decides.
pub(super) fn verdicts(
    measure: &Measure,
    standings: &[Contender],
    best: usize,
    seed: u64,
) -> Option<Vec<ContenderVerdict>> {
    let of_best = standings[best].losses.as_ref().filter(|_| measure.is_often_zero())?;
    let mut rows: Vec<Vec<LossRow>> = standings
        .iter()
        .enumerate()
        .map(|(index, one)| match &one.losses {
            Some(losses) if index != best => durability::compared([of_best, losses]),
            _ => Vec::new(),
        })
        .collect();
    // Any of the configurations could have been the best, under any model.
    let comparisons = pairs(standings.len()) * of_best.models.len();
    durability::correct(&mut rows.iter_mut().flatten().collect::<Vec<_>>(), Judge { comparisons, seed });
    let verdict = |(index, one): (usize, &Contender)| {
        let found = |wanted: LossFinding| rows[index].iter().any(|row| row.finding == wanted);
        match &one.losses {
            _ if index == best => ContenderVerdict::Best,
            None => ContenderVerdict::Unknown,
            Some(losses) if !losses.loses() && !of_best.loses() => ContenderVerdict::AsGood,
            Some(_) if found(LossFinding::LosesMore) => ContenderVerdict::Worse,
            Some(_) if found(LossFinding::LosesLess) => ContenderVerdict::BetterAndWeaker,
            Some(_) => ContenderVerdict::CannotTell { needed: None },
        }
    };
    Some(standings.iter().enumerate().map(verdict).collect())
}

/// Returns the losses that were measured of a configuration that loses acknowledged promises; `None` for
/// others.
pub(super) fn measured(one: &Contender) -> Option<&durability::MeasuredLosses> {
    match &one.basis {
        Basis::Measured(losses) if losses.loses() => Some(losses),
        _ => None,
    }
}
