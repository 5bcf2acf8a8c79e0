//! The growth of the rate of a role with its workers.

use crate::merge;
use crate::view::CaseView;
use fsdyno_core::result::PhaseResult;
use fsdyno_core::{Role, TrialRecord, Workload};
use fsdyno_stats::Fairness;

/// One number of workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingPoint {
    /// The number of workers.
    pub workers: u32,
    /// Iterations per second of all of them together.
    pub per_s: f64,
    /// The fairness among the workers.
    pub fairness: Option<Fairness>,
}

impl ScalingPoint {
    /// The mean time that a worker takes for an iteration, in nanoseconds: by Little's law the workers
    /// divided by their rate, because none of them waits outside an iteration. `None` if none was completed.
    pub fn iteration_ns(&self) -> Option<f64> {
        (self.per_s > 0.0).then(|| f64::from(self.workers) / self.per_s * 1e9)
    }

    /// Iterations per second of each.
    pub fn each_per_s(&self) -> f64 {
        self.per_s / f64::from(self.workers)
    }
}

/// The rates of a role with several numbers of workers, in growing order.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Whose.
    pub role: Role,
    /// At least one.
    pub points: Vec<ScalingPoint>,
}

impl Scaling {
    /// Of all trials of a case together; `None` if its plan has one number of workers.
    pub fn of_case(case: &CaseView) -> Option<Self> {
        Self::of(&case.workload, |name, of_role| {
            let phase = case.phases.iter().find(|phase| phase.name == name)?;
            let role = phase.roles.iter().find(|role| role.role == of_role)?;
            Some((role.workers, role.rates.items_per_s, role.fairness))
        })
    }

    /// Of one trial.
    pub fn of_trial(trial: &TrialRecord) -> Option<Self> {
        Self::of(&trial.workload, |name, of_role| {
            let phase: &PhaseResult = trial.phases.iter().find(|phase| phase.name == name)?;
            let role = phase.roles.iter().find(|role| role.role == of_role)?;
            Some((role.workers, role.rates.items_per_s, merge::fairness(Some(&trial.workload), &[role])))
        })
    }

    fn of(
        workload: &Workload,
        measured: impl Fn(&str, Role) -> Option<(u32, f64, Option<Fairness>)>,
    ) -> Option<Self> {
        let Workload::Flow(flow) = workload else { return None };
        let role = flow.scaled()?.role;
        let stages = flow.stages();
        let points = stages.iter().filter_map(|(name, _)| measured(name, role));
        let points = points.map(|(workers, per_s, fairness)| ScalingPoint { workers, per_s, fairness });
        let points: Vec<ScalingPoint> = points.collect();
        (!points.is_empty()).then_some(Scaling { role, points })
    }

    /// Where more workers begin to wait for each other more than they add: the point at which the rate
    /// divided by the time of an iteration is highest. `None` if nothing was completed.
    ///
    /// Source: the "power" of L. Kleinrock, "Power and deterministic rules of thumb for probabilistic
    /// problems in computer communications", ICC 1979; "knee capacity" in R. Jain, "The Art of Computer
    /// Systems Performance Analysis", section 3.3.
    pub fn knee(&self) -> Option<&ScalingPoint> {
        let power = |point: &ScalingPoint| Some(point.per_s / point.iteration_ns()?);
        let powers = self.points.iter().filter_map(|point| Some((point, power(point)?)));
        // Of two that are equal, the one with fewer workers.
        powers.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(point, _)| point)
    }

    /// The highest rate.
    pub fn best(&self) -> Option<&ScalingPoint> {
        self.points.iter().reduce(|best, next| if next.per_s > best.per_s { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(rates: &[(u32, f64)]) -> Scaling {
        let point = |&(workers, per_s)| ScalingPoint { workers, per_s, fairness: None };
        Scaling { role: Role::Client, points: rates.iter().map(point).collect() }
    }

    fn knee(rates: &[(u32, f64)]) -> Option<u32> {
        scaling(rates).knee().map(|point| point.workers)
    }

    #[test]
    fn the_knee_is_where_more_workers_add_less_than_they_wait() {
        // As long as the rate grows by more than the root of what the workers grow by.
        assert_eq!(knee(&[(1, 100.0), (2, 200.0), (4, 390.0), (8, 420.0), (16, 425.0)]), Some(4));
        assert_eq!(knee(&[(1, 100.0), (2, 141.0), (4, 190.0)]), Some(1));
        assert_eq!(knee(&[(1, 100.0), (4, 201.0)]), Some(4));
        assert_eq!(knee(&[(1, 100.0), (2, 200.0), (4, 400.0)]), Some(4), "no knee was reached");
        assert_eq!(knee(&[(1, 0.0), (2, 0.0)]), None);
    }

    #[test]
    fn an_iteration_takes_as_long_as_workers_by_rate() {
        let scaling = scaling(&[(1, 100.0), (8, 400.0), (16, 300.0)]);
        let times: Vec<Option<f64>> = scaling.points.iter().map(ScalingPoint::iteration_ns).collect();
        assert_eq!(times[..2], [Some(1e7), Some(2e7)]);
        assert_eq!((scaling.points[1].each_per_s(), scaling.best().unwrap().workers), (50.0, 8));
    }
}
