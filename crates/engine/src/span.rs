//! The duration of a phase.

use fsdyno_core::units::Nanos;
use fsdyno_core::workload::{Ramp, Timing};

/// The duration of a phase.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Span {
    /// For a given time.
    Timed {
        ramp: Ramp,
        window: Nanos,
        /// The time to wait for operations in flight at the end of the window.
        drain_limit: Nanos,
    },
    /// Until every worker has done its work, which is about this many operations, for the estimate of the
    /// remaining time.
    Whole {
        operations: u64,
        /// The time for which nothing may be completed before the work is given up; `None`: for ever.
        patience: Option<Nanos>,
    },
}

impl From<Timing> for Span {
    fn from(timing: Timing) -> Span {
        let Timing { ramp, window, drain_limit, .. } = timing;
        Span::Timed { ramp, window, drain_limit }
    }
}

impl Span {
    /// Until about this many operations are done.
    pub(crate) fn whole(operations: u64) -> Span {
        Span::Whole { operations, patience: None }
    }

    /// Returns the time for which nothing may be completed before the work is given up.
    pub(crate) fn patience(self) -> Option<Nanos> {
        match self {
            Span::Whole { patience, .. } => patience,
            Span::Timed { .. } => None,
        }
    }

    /// The same with a limit on the lack of progress.
    pub(crate) fn patient(self, patience: Option<Nanos>) -> Span {
        match self {
            Span::Whole { operations, .. } => Span::Whole { operations, patience },
            timed @ Span::Timed { .. } => timed,
        }
    }

    pub(crate) fn window_ns(self) -> Option<u64> {
        match self {
            Span::Timed { window, .. } => Some(window.0),
            Span::Whole { .. } => None,
        }
    }

    pub(crate) fn drain_limit(self) -> Nanos {
        match self {
            Span::Timed { drain_limit, .. } => drain_limit,
            Span::Whole { .. } => Nanos(0),
        }
    }

    /// From the start of the load to the end of the window, at most.
    pub(crate) fn longest_ns(self) -> u64 {
        match self {
            Span::Timed { ramp, window, .. } => ramp.longest().0.saturating_add(window.0),
            Span::Whole { .. } => 0,
        }
    }
}
