//! A running engine, wherever it runs.

use crate::plight::Plight;
use fsdyno_core::EngineEvent;
use std::time::Duration;

/// The output of an engine within the time limit.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineOutput {
    /// An event.
    Event(Box<EngineEvent>),
    /// Nothing yet.
    Silence,
    /// A line that is not a valid event, and the end of stderr.
    Garbage(String),
    /// Its stdout is closed; the end of its stderr.
    End(String),
}

/// A running engine.
pub trait EngineProcess {
    /// The next event, waiting this long for it.
    fn next(&mut self, timeout: Duration) -> EngineOutput;
    /// Lets an engine go on that waits before a phase (`pauses` in its request): at this moment of
    /// `CLOCK_MONOTONIC` where it runs, or at once.
    fn proceed(&mut self, _at_ns: Option<u64>) {}
    /// Asks the engine to stop by closing its stdin, and does not wait: remaining output arrives through
    /// [`EngineProcess::next`].
    fn ask_to_stop(&mut self);
    /// Ends the engine: closes its stdin, and kills it if it has not exited after a second. Returns whether
    /// it is gone; one whose worker is stuck in the kernel stays.
    fn stop(&mut self, limit: Duration) -> bool;
    /// Its process on the host, for a person who has to deal with it.
    fn pid(&self) -> u32;
    /// The same with the machine, if that is not the host: `process 7 on client 'x2'`.
    fn process(&self) -> String {
        format!("process {}", self.pid())
    }
    /// Returns the reason why the engine is silent or does not end; only its own machine can say.
    fn plight(&self) -> Plight {
        Plight::Unknown
    }
}
