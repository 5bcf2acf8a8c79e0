//! `external`: the real bonnie++, postmark, fio, dbench, sqlite3 and pgbench, in the engine's own directory.
//!
//! There is one file per program, which knows how to start it; `fsdyno-formats` parses what it prints. Both
//! are functions of plain values, so that the tests can compare them with captured output. The output of a
//! program is taken as it is, and nothing is added: a figure that it does not report is absent, and a warning
//! says so. Its workers are not watched, so their stalls and single operations are known only if the program
//! reports them.
//!
//! Telemetry covers each part separately if the program announces its parts when they begin. Otherwise it
//! covers the run as a whole, and is stored in a separate phase without roles, [`WHOLE_RUN`].

mod bonnie;
mod cut;
mod dbench;
mod fio;
mod pgbench;
mod postmark;
mod process;
mod pulse;
mod sqlite;
mod watch;

use crate::error::EngineError;
use crate::session::Session;
use fsdyno_core::result::{CpuTime, WHOLE_RUN};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::external::bonnie::Arguments;
use fsdyno_core::workload::{External, Load, Program};
use fsdyno_core::{EngineEvent, PhaseResult};
use fsdyno_formats as formats;
use watch::Watch;

/// Runs the workload.
pub(crate) fn run(parameters: &External, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
    let program = parameters.program.name();
    let base = session.make_base()?;
    session.settle(program, 0)?;
    let invocation = match parameters.program {
        Program::Bonnie => bonnie::invocation(parameters, session.request.seed)?,
        Program::Postmark => postmark::invocation(&parameters.commands),
        Program::Fio => fio::invocation(parameters.job.as_ref()),
        Program::Dbench => dbench::invocation(&parameters.parsed_arguments()?),
        Program::Pgbench => pgbench::invocation(&parameters.parsed_arguments()?),
        Program::Sqlite => sqlite::invocation(&parameters.parsed_arguments()?, session.request.seed),
        _ => return Err(EngineError::Imported),
    };
    let moves = parameters.moves();
    session.quiesce(program)?;
    session.await_cue(program)?;
    let of_job = |error| naming(parameters, error);
    let (output, watch) = process::run(invocation, &base, moves, session).map_err(of_job)?;
    let parsed = match parameters.program {
        Program::Bonnie => {
            let characters = parameters.parsed_arguments().ok();
            let characters = characters.map(|options: Arguments| options.parameters.char_size);
            formats::bonnie::output(&output.stdout, characters)
        }
        Program::Postmark => formats::postmark::output(&output.stdout),
        Program::Fio => formats::fio::output(&output.stdout),
        Program::Dbench => formats::dbench::output(&output.stdout),
        Program::Pgbench => formats::pgbench::output(&output.stdout),
        Program::Sqlite => formats::sqlite::output(&output.stdout, &parameters.parsed_arguments()?),
        _ => return Err(EngineError::Imported),
    };
    let mut report = parsed.map_err(|problem| of_job(output.failure(program, problem)))?;
    if parameters.program == Program::Bonnie {
        bonnie::judge(parameters, session.memory().0, &mut report);
    }
    for warning in report.warnings {
        session.progress.event(EngineEvent::Warning(warning));
    }
    watch_over(&mut report.phases, watch);
    if let Some(first) = report.phases.first_mut() {
        first.quiet = session.quiet.take();
    }
    for phase in report.phases {
        session.progress.event(EngineEvent::Phase(Box::new(phase)));
    }
    Ok(())
}

/// The error of a program, with the name of the job file that it was given: fio reads it from a pipe.
fn naming(parameters: &External, error: EngineError) -> EngineError {
    match (error, &parameters.job) {
        (EngineError::Program { program, problem, printed }, Some(job)) => {
            EngineError::Program { program, problem: format!("job file '{}': {problem}", job.path), printed }
        }
        (error, _) => error,
    }
}

/// Adds what was seen while a program ran to what it reported. If it does not report its processor time, the
/// kernel's figure is used.
fn watch_over(phases: &mut Vec<PhaseResult>, watch: Watch) {
    for seen in watch.parts {
        let Some(phase) = phases.iter_mut().find(|phase| phase.name == seen.phase) else { continue };
        phase.telemetry = seen.telemetry;
        if let [role] = &mut phase.roles[..]
            && role.cpu == CpuTime::default()
            && phase.window_ns > Nanos(0)
        {
            role.cpu = seen.cpu;
        }
    }
    if let Some(telemetry) = watch.whole {
        let whole = PhaseResult::lasting(WHOLE_RUN, telemetry.window.length_ns, Vec::new());
        phases.push(PhaseResult { telemetry: Some(telemetry), ..whole });
    }
}
