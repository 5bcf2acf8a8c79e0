//! Parameters of `null`, which measures the tool.

use super::parameter::{Refusal, parameters};
use super::steps::{PhaseSpec, steps};
use super::{Load, Ramp, Timing};
use crate::operation::Role;
use crate::units::{Bytes, Nanos};

parameters! {
    /// Everything that a workload does except the syscall. Times in nanoseconds.
    Null {
        workers: u32 = 1, "number of workers";
        ramp: Ramp = Ramp::For(Nanos::from_millis(10)), "duration of the load before the window; `steady` \
            takes its place";
        window: Nanos = Nanos::from_millis(100), "length of the measured part";
    }
}

steps! {
    /// Nothing.
    nothing { NULL = Null }
}

/// Its only phase.
pub const NULL: PhaseSpec = PhaseSpec { name: "null", role: Role::Null, steps: nothing::STEPS };

impl Load for Null {
    fn check(&self) -> Result<(), Refusal> {
        super::check_workers("workers", self.workers)?;
        Refusal::unless(self.window > Nanos(0), "window", "greater than zero")
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    fn writes(&self) -> Bytes {
        Bytes(0)
    }

    fn timing(&self) -> Timing {
        Timing { windows: 1, ramp: self.ramp, window: self.window, drain_limit: Nanos::from_secs(1) }
    }

    fn title(&self) -> String {
        format!("null, {}, window {}", super::plural(self.workers, "worker"), self.window)
    }

    /// It performs none.
    fn short_runs(&self) -> &'static [&'static str] {
        &[]
    }

    fn default_measure(&self) -> &'static str {
        "longest-stall"
    }
}
