//! Figures of the flushes of a device.

use super::Value;
use crate::figures::Quotient;
use crate::result::{RoleResult, TrialRecord};

/// A figure of the flushes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FlushFigure {
    /// The number of flushes per second.
    Rate,
    /// The mean time of a flush.
    Time,
}

impl FlushFigure {
    /// Without telemetry there is no value, and what is never flushed has no time of a flush. A load that
    /// completes nothing, because its device hangs, needs no flushes for it, which is no merit. The time of a
    /// flush is a lower bound if some operation never ended: a flush in flight is not among those that ended.
    pub(super) fn of(self, trial: &TrialRecord) -> Option<Value> {
        let members = trial.configuration.device.members().len();
        let roles = || trial.phases.iter().flat_map(|phase| &phase.roles);
        let completes = |role: &RoleResult| !role.is_watched() || role.rates.operations_per_s > 0.0;
        if self == FlushFigure::Rate && roles().next().is_some() && !roles().any(completes) {
            return None;
        }
        let watched = trial.phases.iter().filter_map(|phase| phase.telemetry.as_ref());
        let mut sum = (0.0, 0.0, 0.0);
        for telemetry in watched {
            let device = telemetry.filesystem_device(members)?;
            sum.0 += device.flushes as f64;
            sum.1 += device.flush_ns as f64;
            sum.2 += telemetry.window.length_ns.as_secs_f64();
        }
        let (flushes, ns, seconds) = sum;
        let quotient = match self {
            FlushFigure::Rate => Quotient::over(flushes / seconds, seconds),
            FlushFigure::Time => Quotient::over(ns / flushes, flushes),
        };
        let divisor = if self == FlushFigure::Rate { seconds } else { flushes };
        let hangs =
            || roles().flat_map(|role| &role.worker_results).any(|worker| worker.unfinished.is_some());
        let at_least = self == FlushFigure::Time && hangs();
        (divisor > 0.0).then(|| Value { at_least, ..quotient.into() })
    }
}
