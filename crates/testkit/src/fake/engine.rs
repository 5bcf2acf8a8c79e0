//! An engine that does nothing.

use fsdyno_host::{EngineOutput, EngineProcess, Plight};
use std::collections::VecDeque;
use std::time::Duration;

/// An engine that sends prepared output.
#[derive(Debug, Clone, Default)]
pub struct FakeEngine {
    /// Its output, in order.
    pub outputs: VecDeque<EngineOutput>,
    /// `true` if the engine stays silent after that, like one whose worker hangs; otherwise its stdout ends.
    pub hangs: bool,
    /// `true` if the engine cannot be ended.
    pub unstoppable: bool,
    /// The plight that the engine then reports; unknown if absent.
    pub plight: Option<Plight>,
}

impl EngineProcess for FakeEngine {
    fn next(&mut self, _timeout: Duration) -> EngineOutput {
        let after = if self.hangs { EngineOutput::Silence } else { EngineOutput::End(String::new()) };
        self.outputs.pop_front().unwrap_or(after)
    }

    fn ask_to_stop(&mut self) {}

    fn stop(&mut self, _limit: Duration) -> bool {
        !self.unstoppable
    }

    fn pid(&self) -> u32 {
        1
    }

    fn plight(&self) -> Plight {
        self.plight.unwrap_or(Plight::Unknown)
    }
}
