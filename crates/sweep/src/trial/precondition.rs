//! The state of the disks before a filesystem is created on them.

use super::{Bench, Stop};
use crate::plan::Case;
use fsdyno_core::{Nanos, Progress, TrialStep};
use std::time::Instant;

/// Discards or fills the disks for which the plan asks for it; returns how long that took.
pub(super) fn condition(bench: &mut Bench<'_, '_>, case: &Case) -> Result<Option<Nanos>, Stop> {
    let begin = Instant::now();
    let load = case.workload.load().timing().total();
    let Bench { host, journal, testbed, stops, progress, .. } = bench;
    let on_progress = &mut |done: f64| {
        let left = begin.elapsed().mul_f64((1.0 - done) / done.max(0.001));
        let left_ns = Some(Nanos(load.0.saturating_add(Nanos::from(left).0)));
        progress(&Progress { done: Some(done), left_ns, ..Progress::at(TrialStep::Precondition) });
    };
    Ok(fsdyno_testbed::condition(*host, journal, testbed, &case.configuration, stops.interrupt, on_progress)?)
}
