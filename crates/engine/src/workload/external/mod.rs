//! `external`: the real bonnie++, postmark and fio, in the engine's own directory.
//!
//! One file per program knows how to start it; what it prints is read by `fsdyno-formats`. Both are functions of plain values,
//! so that the tests hold them against captured output. What a program prints is believed, never completed: a figure that it does
//! not give is absent, and the reader is told. Nobody watches its workers, so their stalls and their single operations are
//! known only where the program tells them.
//!
//! What the machine does meanwhile is told part by part where the program announces its parts as it comes to them, and else
//! of the run as a whole: then it stands in a phase of its own, [`WHOLE_RUN`], without roles.

mod bonnie;
mod cut;
mod fio;
mod postmark;
mod process;
mod pulse;
mod watch;

use crate::error::EngineError;
use crate::session::{self, Session};
use fsdyno_core::result::{CpuTime, WHOLE_RUN};
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::{External, Load, Program};
use fsdyno_core::{EngineEvent, PhaseResult};
use fsdyno_formats as formats;
use watch::Watch;

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
    let (output, watch) = process::run(invocation, &base, moves, session)?;
    let parsed = match parameters.program {
        Program::Bonnie => {
            let characters = parameters.bonnie_arguments().ok().map(|told| told.parameters.char_size);
            formats::bonnie::output(&output.stdout, characters)
        }
        Program::Postmark => formats::postmark::output(&output.stdout),
        Program::Fio => formats::fio::output(&output.stdout),
    };
    let mut report = parsed.map_err(|problem| output.failure(program, problem))?;
    if parameters.program == Program::Bonnie {
        bonnie::judge(parameters, session::memory().0, &mut report);
    }
    for warning in report.warnings {
        session.progress.event(EngineEvent::Warning(warning));
    }
    watch_over(&mut report.phases, watch);
    for phase in report.phases {
        session.progress.event(EngineEvent::Phase(Box::new(phase)));
    }
    Ok(())
}

/// Adds what was seen while a program ran to what it told. Processor time that it does not tell is the kernel's count.
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
