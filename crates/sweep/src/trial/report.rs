//! The request to an engine, and its report.

use fsdyno_core::result::{Filled, Layout, RoleResult, TimerFacts, TreeSummary};
use fsdyno_core::{
    EngineRequest, Failure, Nanos, PhaseResult, Reached, ReadAgain, TrialRecord, Warning, Workload,
};
use fsdyno_host::HostError;
use std::path::Path;

/// The request to an engine. `keeps`: the engine must remove what it created, because the filesystem stays.
pub(crate) fn request(directory: &Path, workload: &Workload, seed: u64, keeps: bool) -> EngineRequest {
    EngineRequest {
        drop_caches: true,
        clean_up: keeps,
        ..EngineRequest::new(directory, workload.clone(), seed)
    }
}

pub(crate) fn host_failure(error: &HostError) -> Failure {
    let mut failure = Failure::new("engine", error.to_string());
    failure.errno = error.errno();
    failure
}

/// Cost of an operation of the null workload: everything except the system call.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Overhead {
    pub ns_per_op: Option<f64>,
    /// The same while telemetry is sampled.
    pub with_telemetry_ns_per_op: Option<f64>,
}

/// The report of an engine until it ended, however it ended.
#[derive(Debug, Default)]
pub(crate) struct EngineReport {
    pub timer: Option<TimerFacts>,
    pub prepare: Option<Nanos>,
    pub trees: TreeSummary,
    pub phases: Vec<PhaseResult>,
    /// The time after the last phase until its data was on the device, by which the unmount would have taken
    /// longer.
    pub written_back: Nanos,
    pub filled: Option<Filled>,
    pub layout: Option<Layout>,
    /// The points that the writers of a verified load reached.
    pub reached: Vec<Reached>,
    /// The data that was read again, and the time that this took.
    pub read_again: Option<(ReadAgain, Nanos)>,
    pub warnings: Vec<Warning>,
}

impl EngineReport {
    /// Adds it to the record of a trial, which may contain reports of engines of earlier parts.
    pub fn keep(self, record: &mut TrialRecord, overhead: Overhead) {
        if let (None, Some(timer)) = (&record.timer, self.timer) {
            record.timer = Some(TimerFacts {
                overhead_ns_per_op: overhead.ns_per_op,
                overhead_with_telemetry_ns_per_op: overhead.with_telemetry_ns_per_op,
                ..timer
            });
        }
        if let Some(prepare) = self.prepare {
            record.lifecycle_ns.prepare = Some(prepare);
            record.trees = self.trees;
        }
        for mut phase in self.phases {
            phase.roles.iter_mut().for_each(RoleResult::keep_outliers);
            record.phases.push(phase);
        }
        record.filled = self.filled.or(record.filled);
        record.layout = self.layout.or(record.layout.take());
        if let Some((read_again, took)) = self.read_again {
            record.read_again = Some(read_again);
            record.lifecycle_ns.read_again = Some(took);
        }
        record.warnings.extend(self.warnings);
    }
}
