//! The workers of a phase, and its outcome.

use crate::error::OperationFailure;
use crate::lineup::Lineup;
use crate::meter::Halt;
use crate::pace::Schedule;
use crate::span::Span;
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::PhaseSpec;
use fsdyno_core::{Operation, PhaseResult, Role};
use std::sync::Arc;

/// The work of one worker: it prepares, lines up, and works until it is halted or done ([`Halt::Over`] in
/// both cases).
pub(crate) type Job = Box<dyn FnOnce(Lineup) -> Halt + Send>;

/// The workers of one role.
pub(crate) struct Team {
    pub(crate) role: Role,
    pub(crate) steps: &'static [Operation],
    pub(crate) jobs: Vec<Job>,
    /// When their iterations are due, if the role has a rate.
    pub(crate) schedule: Option<Arc<Schedule>>,
}

impl Team {
    /// Workers that do one thing after the other as soon as they can.
    pub(crate) fn new(role: Role, steps: &'static [Operation], jobs: Vec<Job>) -> Self {
        Team { role, steps, jobs, schedule: None }
    }
}

/// A phase to run.
pub(crate) struct PhaseLoad {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// In the order of the result.
    pub(crate) teams: Vec<Team>,
}

impl PhaseLoad {
    /// A phase of one role.
    pub(crate) fn of(spec: PhaseSpec, span: Span, jobs: Vec<Job>) -> Self {
        let PhaseSpec { name, role, steps } = spec;
        PhaseLoad { name: name.to_string(), span, teams: vec![Team::new(role, steps, jobs)] }
    }
}

/// A phase that has run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) result: PhaseResult,
    pub(crate) written: Written,
    /// An operation that failed when nothing counted any more.
    pub(crate) late: Option<OperationFailure>,
    /// For how long nothing had been completed, if that ended the phase.
    pub(crate) given_up: Option<Nanos>,
    /// The ramp was to last until writers are throttled, and they never were.
    pub(crate) is_unthrottled: bool,
}

/// The data that the workers of a phase have written, from its ramp to its drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    /// When they began.
    pub(crate) since_ns: u64,
}
