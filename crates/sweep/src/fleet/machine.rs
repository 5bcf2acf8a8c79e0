//! A machine of a fleet, as the coordinator sees it.

use crate::order::Slot;
use crate::progress::TrialCourse;
use std::time::Duration;

/// The time to wait for news of machines before looking at everything else.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub name: String,
    /// `true` if the machine takes trials.
    pub ready: bool,
    pub running: Option<RunningTrial>,
    /// `true` if the machine has reported what is left on it.
    pub has_left: bool,
    /// Why it runs no further trials, if nobody has asked for that.
    pub lost: Option<String>,
}

impl Machine {
    pub fn new(name: String) -> Self {
        Machine { name, ready: false, running: None, has_left: false, lost: None }
    }

    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    pub fn is_idle(&self) -> bool {
        self.ready && self.running.is_none()
    }
}

/// A trial that runs there.
#[derive(Debug)]
pub(super) struct RunningTrial {
    pub slot: Slot,
    pub course: TrialCourse,
}
