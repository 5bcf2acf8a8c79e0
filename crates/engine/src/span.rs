//! How long a phase lasts.

use fsdyno_core::units::Nanos;
use fsdyno_core::workload::Timing;

/// How long a phase lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Span {
    /// For a given time.
    Timed {
        ramp: Nanos,
        window: Nanos,
        /// How long to wait for operations in flight at the end of the window.
        drain_limit: Nanos,
    },
    /// Until every worker has done its work, which is about this many operations, for the estimate of the
    /// remaining time.
    Whole { operations: u64 },
}

impl From<Timing> for Span {
    fn from(timing: Timing) -> Span {
        let Timing { ramp, window, drain_limit, .. } = timing;
        Span::Timed { ramp, window, drain_limit }
    }
}

impl Span {
    pub(crate) fn window_ns(self) -> Option<u64> {
        match self {
            Span::Timed { window, .. } => Some(window.0),
            Span::Whole { .. } => None,
        }
    }

    pub(crate) fn ramp(self) -> Nanos {
        match self {
            Span::Timed { ramp, .. } => ramp,
            Span::Whole { .. } => Nanos(0),
        }
    }
}
