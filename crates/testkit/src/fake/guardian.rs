//! A guardian that runs nothing.

use fsdyno_core::Nanos;
use fsdyno_host::Result;
use fsdyno_host::guardian::{Cause, Ending, Guarded, GuardedCommand, Guardian};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Remembers what it was asked to run. `false` fails, a command without a limit runs until it is asked to
/// end, and everything else succeeds at once.
#[derive(Debug, Clone, Default)]
pub struct FakeGuardian(Arc<Mutex<Vec<GuardedCommand>>>);

impl FakeGuardian {
    /// Returns the commands that the guardian was asked to run, in order.
    pub fn commands(&self) -> Vec<GuardedCommand> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Guardian for FakeGuardian {
    fn start(&self, command: &GuardedCommand) -> Result<Box<dyn Guarded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(command.clone());
        let status = i32::from(command.words.first().is_some_and(|program| program == "false"));
        let cause = command.limit.map(|_| Cause::Itself);
        Ok(Box::new(FakeGuarded { cause, status }))
    }
}

struct FakeGuarded {
    /// Why it has ended; `None` if it runs.
    cause: Option<Cause>,
    status: i32,
}

impl Guarded for FakeGuarded {
    fn ending(&mut self, _patience: Duration) -> Result<Option<Ending>> {
        Ok(self.cause.map(|cause| Ending {
            cause,
            status: self.status,
            took: Nanos::from_millis(1),
            output: "said\n".to_string(),
            killed: 0,
            stuck: Vec::new(),
        }))
    }

    fn ask_to_end(&mut self) {
        self.cause.get_or_insert(Cause::Asked);
    }

    fn kill(&mut self) {
        self.cause.get_or_insert(Cause::Abandoned);
    }
}
