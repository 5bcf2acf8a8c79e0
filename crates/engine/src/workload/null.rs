//! `null`: everything that a workload does except the system call. Its time per operation is the overhead of
//! the tool.

use crate::error::EngineError;
use crate::meter::{Object, timed};
use crate::phase::{self, PhaseLoad};
use crate::reporter::Reporter;
use crate::session::Session;
use crate::workload::Work;
use fsdyno_core::EngineEvent;
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::{Load, Null, Ramp, null};
use fsdyno_sys::timer::Timer;
use std::sync::atomic::AtomicBool;

impl Work for Null {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        session.phase(phase(self)).map(drop)
    }
}

/// The cost of one operation apart from its system call, in nanoseconds of one worker, with this many working
/// at once. Takes about 25 ms; longer if so many others wait for the processors that no worker has a turn in
/// that time.
///
/// # Errors
/// [`EngineError::Thread`]; [`EngineError::NoProgress`] if none has had a turn at last.
pub fn overhead_ns(timer: Timer, workers: u32) -> Result<f64, EngineError> {
    const WINDOWS: [Nanos; 3] = [Nanos::from_millis(20), Nanos::from_millis(200), Nanos::from_secs(2)];
    for window in WINDOWS {
        let parameters = Null { workers, ramp: Ramp::For(Nanos::from_millis(5)), window };
        let mut silent = |_: EngineEvent| {};
        let mut reporter = Reporter::new(&mut silent);
        let never = AtomicBool::new(false);
        let run = phase::run(phase(&parameters), timer, &never, &mut reporter, &mut (), &mut 0)?;
        let operations: f64 = run.result.roles.iter().map(|role| role.rates.operations_per_s).sum();
        if operations > 0.0 {
            return Ok(f64::from(workers) * 1e9 / operations);
        }
    }
    Err(EngineError::NoProgress { step: "null".to_string(), patience: WINDOWS[2] })
}

fn phase(parameters: &Null) -> PhaseLoad {
    let job = || -> phase::Job {
        Box::new(|lineup| {
            let mut meter = lineup.start();
            let object = Object { directory: b"", name: c"" };
            loop {
                if let Err(halt) = timed(&mut meter, null::nothing::NULL, object, |()| 0, || Ok(())) {
                    return halt;
                }
            }
        })
    };
    let jobs = (0..parameters.workers).map(|_| job()).collect();
    PhaseLoad::of(null::NULL, parameters.timing().into(), jobs)
}
