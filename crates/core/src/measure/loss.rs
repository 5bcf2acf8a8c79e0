//! Figures of what power cuts and failing requests have left.

use super::Value;
use crate::figures::Quotient;
use crate::result::{Durability, FaultResult, Harm, ModelResult};
use crate::workload::measures::LossFigure;

impl LossFigure {
    pub(super) fn of(self, found: &Durability) -> Option<Value> {
        let worst = found.models.iter().filter_map(|model| self.of_model(model));
        worst.reduce(|a, b| if b.value > a.value { b } else { a })
    }

    fn of_model(self, model: &ModelResult) -> Option<Value> {
        match self {
            LossFigure::Acknowledged => {
                let (made, lost) = model.acknowledged();
                (made > 0).then(|| Quotient::over(lost as f64 / made as f64, made as f64).into())
            }
            LossFigure::Unsynced => {
                let parts = [&model.unsynced_files, &model.unsynced_names];
                let some = parts.into_iter().filter(|part| part.states > 0);
                some.map(|part| part.lost_ns.p50).max().map(|ns| Value::exact(ns as f64))
            }
            LossFigure::Recovery => (model.mounted > 0).then(|| Value::exact(model.recovery_ns.p50 as f64)),
        }
    }
}

/// The share of the faults that did this harm, of all: those that never come about do none, and whoever
/// has fewer of them must not look better for that. `None` if there is none.
pub(super) fn share_of_faults(harm: Harm, results: &[FaultResult]) -> Option<Value> {
    let all = results.len() as f64;
    let such = results.iter().filter(|result| result.harm() == harm).count() as f64;
    (all > 0.0).then(|| Quotient::over(such / all, all).into())
}
