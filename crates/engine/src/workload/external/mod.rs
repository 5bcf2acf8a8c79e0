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
use crate::workload::Work;
use fsdyno_core::result::{CpuTime, WHOLE_RUN};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::external::bonnie::Arguments;
use fsdyno_core::workload::{External, Load, Program};
use fsdyno_core::{EngineEvent, PhaseResult};
use fsdyno_formats as formats;
use watch::Watch;

impl Work for External {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let program = self.program.name();
        let base = session.make_base()?;
        session.settle(program, 0)?;
        let invocation = match self.program {
            Program::Bonnie => bonnie::invocation(self, session.request.seed)?,
            Program::Postmark => postmark::invocation(&self.commands),
            Program::Fio => fio::invocation(self.job.as_ref()),
            Program::Dbench => dbench::invocation(&self.parsed_arguments()?),
            Program::Pgbench => pgbench::invocation(&self.parsed_arguments()?),
            Program::Sqlite => sqlite::invocation(&self.parsed_arguments()?, session.request.seed),
            _ => return Err(EngineError::Imported),
        };
        let moves = self.moves();
        session.quiesce(program)?;
        session.await_cue(program)?;
        let of_job = |error| naming(self, error);
        let (output, watch) = process::run(invocation, &base, moves, session).map_err(of_job)?;
        let parsed = match self.program {
            Program::Bonnie => {
                let characters = self.parsed_arguments().ok();
                let characters = characters.map(|options: Arguments| options.parameters.char_size);
                formats::bonnie::output(&output.stdout, characters)
            }
            Program::Postmark => formats::postmark::output(&output.stdout),
            Program::Fio => formats::fio::output(&output.stdout),
            Program::Dbench => formats::dbench::output(&output.stdout),
            Program::Pgbench => formats::pgbench::output(&output.stdout),
            Program::Sqlite => formats::sqlite::output(&output.stdout, &self.parsed_arguments()?),
            _ => return Err(EngineError::Imported),
        };
        let mut report = parsed.map_err(|problem| of_job(output.failure(program, problem)))?;
        if self.program == Program::Bonnie {
            bonnie::judge(self, session.memory().0, &mut report);
        }
        for warning in report.warnings {
            session.reporter.event(EngineEvent::Warning(warning));
        }
        watch_over(&mut report.phases, watch);
        if let Some(first) = report.phases.first_mut() {
            first.quiet = session.quiet.take();
        }
        for phase in report.phases {
            session.reporter.event(EngineEvent::Phase(Box::new(phase)));
        }
        Ok(())
    }
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
