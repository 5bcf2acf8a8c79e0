//! `external`: the real bonnie++, postmark and fio, in the engine's own directory.
//!
//! One file per program knows how to start it and how to read what it prints; both are functions of plain values, so that
//! the tests hold them against captured output. What a program prints is believed, never completed: a figure that it does
//! not give is absent, and the reader is told. Nobody watches its workers, so their stalls and their single operations are
//! known only where the program tells them.

mod bonnie;
mod fio;
mod postmark;
mod process;

use crate::error::EngineError;
use crate::session::{self, Session};
use fsdyno_core::result::{CpuTime, Rates, RoleResult};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::{External, Load, Program};
use fsdyno_core::{EngineEvent, PhaseResult, Role, Warning, WarningKind};

/// What a program told.
#[derive(Debug, Default, PartialEq)]
struct Report {
    phases: Vec<PhaseResult>,
    warnings: Vec<Warning>,
}

impl Report {
    fn warn(&mut self, kind: WarningKind, text: impl Into<String>) {
        self.warnings.push(Warning::new(kind, text));
    }
}

/// Runs the workload.
pub(crate) fn run(parameters: &External, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let program = parameters.program.tool().program;
    let base = session.make_base()?;
    session.settle(program, 0)?;
    let invocation = match parameters.program {
        Program::Bonnie => bonnie::invocation(parameters, session.request.seed)?,
        Program::Postmark => postmark::invocation(&parameters.commands),
        Program::Fio => fio::invocation(parameters.job.as_ref()),
    };
    let moves = parameters.moves();
    let output = process::run(invocation, &base, moves, session)?;
    let parsed = match parameters.program {
        Program::Bonnie => bonnie::parse(parameters, &output.stdout),
        Program::Postmark => postmark::parse(&output.stdout),
        Program::Fio => fio::parse(&output.stdout),
    };
    let mut report = parsed.map_err(|problem| output.failure(program, problem))?;
    if parameters.program == Program::Bonnie {
        bonnie::judge(parameters, session::memory().0, &mut report);
    }
    for warning in report.warnings {
        session.progress.event(EngineEvent::Warning(warning));
    }
    for phase in report.phases {
        session.progress.event(EngineEvent::Phase(Box::new(phase)));
    }
    Ok(())
}

/// A phase of which is known how long it took.
fn phase(name: impl Into<String>, took: Nanos, roles: Vec<RoleResult>) -> PhaseResult {
    let (name, none) = (name.into(), Nanos(0));
    PhaseResult { name, ramp_ns: none, window_ns: took, drain_ns: none, roles, telemetry: None }
}

/// A role of whose workers nothing is known but their number.
fn role(role: Role, workers: u32) -> RoleResult {
    RoleResult {
        role,
        workers,
        longest_stall_ns: Nanos(0),
        time_over_100ms: 0.0,
        time_over_1s: 0.0,
        blocked_at_start: Vec::new(),
        rates: Rates::default(),
        cpu: CpuTime::default(),
        counts: Default::default(),
        longest_item_ns: None,
        worker_results: Vec::new(),
        operations: Vec::new(),
    }
}

/// Seconds as nanoseconds, rounded.
fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}
