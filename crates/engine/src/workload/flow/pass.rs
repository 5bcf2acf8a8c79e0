//! A flow without a window: every worker performs a given number of iterations, and how often it performed
//! each operation is exact. For tests, and for measuring what the interpreter costs.

use super::program::Program;
use super::{Common, Hired, make};
use crate::background::Gauge;
use crate::content::Content;
use crate::error::EngineError;
use crate::meter::{Halt, Meter};
use crate::plant::PIECE;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::workload::{Flow, FlowRole};
use fsdyno_core::{Operation, Role};
use fsdyno_sys::timer::Timer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of times that the workers of a role together performed each operation.
pub type Performed = (Role, Vec<(Operation, u64)>);

/// A flow whose files exist.
pub struct ReadyFlow<'a> {
    flow: &'a Flow,
    common: Common,
}

impl<'a> ReadyFlow<'a> {
    /// Creates the files of a flow in a directory.
    ///
    /// # Errors
    /// The problem with the flow, or the first system call that failed.
    pub fn prepare(flow: &'a Flow, directory: &Path, seed: u64) -> Result<Self, EngineError> {
        let common = Common::of(flow, PathBuf::from(directory), seed)?;
        let mut content = Content::new(flow.content, seed, PIECE);
        let (gauge, mut summary) = (Gauge::default(), TreeSummary::default());
        for set in common.sets.iter() {
            make(set, directory, &mut content, &gauge, &mut summary)
                .map_err(|failure| EngineError::operation("prepare", failure))?;
        }
        Ok(ReadyFlow { flow, common })
    }

    /// Every worker performs as many iterations as its role says. Returns what was performed, and the longest
    /// time that a worker took. Files are left as the iterations leave them: only the first pass finds them
    /// as they were prepared.
    ///
    /// # Errors
    /// The first system call that failed.
    pub fn perform(
        &self,
        iterations: &(dyn Fn(&FlowRole) -> u64 + Sync),
    ) -> Result<(Vec<Performed>, Duration), EngineError> {
        let names = self.flow.signals();
        let one = |role: &FlowRole, steps, program: Arc<Program>, number| {
            let hired = Hired {
                program,
                common: self.common.clone(),
                number,
                is_background: role.background,
                role: role.role,
            };
            let mut worker = hired.prepare().map_err(Halt::Failed)?;
            let meter = Meter::alone(Timer::calibrate(), role.role, steps, u64::MAX);
            let begin = Instant::now();
            let meter = worker.iterate(meter, iterations(role))?;
            Ok((meter.counts(), begin.elapsed()))
        };
        let mut performed = Vec::new();
        let mut longest = Duration::ZERO;
        std::thread::scope(|scope| {
            let mut crews = Vec::new();
            for role in &self.flow.roles.0 {
                let program = Arc::new(Program::of(self.flow, role, &names));
                let steps: &'static [Operation] = Vec::leak(program.operations.clone());
                let hire = |number: u32| {
                    let program = Arc::clone(&program);
                    scope.spawn(move || one(role, steps, program, number.into()))
                };
                crews.push((role.role, (0..role.workers).map(hire).collect::<Vec<_>>()));
            }
            for (role, crew) in crews {
                let mut counts: Vec<(Operation, u64)> = Vec::new();
                for worker in crew {
                    let ended = worker.join().unwrap_or(Err(Halt::Over));
                    let (counted, took) = ended.map_err(|halt| match halt {
                        Halt::Over => EngineError::Worker { step: "1 pass".to_string() },
                        halt => halt.error("1 pass"),
                    })?;
                    longest = longest.max(took);
                    for (operation, count) in counted {
                        match counts.iter_mut().find(|(known, _)| *known == operation) {
                            Some((_, sum)) => *sum += count,
                            None => counts.push((operation, count)),
                        }
                    }
                }
                performed.push((role, counts));
            }
            Ok((performed, longest))
        })
    }
}
