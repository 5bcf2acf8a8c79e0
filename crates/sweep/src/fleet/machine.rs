//! A machine of a fleet, as the coordinator sees it.

use super::wire::At;
use crate::order::Slot;
use crate::progress::Position;
use crate::runner::IMAGES;
use fsdyno_core::Nanos;
use std::time::{Duration, Instant};

/// How long to wait for news of machines before looking at everything else.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub name: String,
    /// Whether it takes trials.
    pub ready: bool,
    pub running: Option<Running>,
    /// Whether it has said what is left on it.
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
pub(super) struct Running {
    pub slot: Slot,
    pub position: Position,
    since: Instant,
    expected: Nanos,
}

impl Running {
    pub fn new(slot: Slot, expected: Nanos, position: Position) -> Self {
        Running { slot, position, since: Instant::now(), expected }
    }

    /// It has come so far; `left` is the time until the sweep ends.
    pub fn come_to(&mut self, at: &At, left: Nanos) {
        let moment = at.moment();
        // Images for all trials take time of none.
        if self.position.stage == IMAGES && moment.stage != IMAGES {
            (self.since, self.position.fraction) = (Instant::now(), 0.0);
        }
        self.position.come_to(&moment, self.since.elapsed().into(), self.expected, Nanos(0));
        self.position.left = left;
    }

    /// The time that the trial will still take.
    pub fn left(&self) -> Nanos {
        Nanos((self.expected.0 as f64 * (1.0 - self.position.fraction)) as u64)
    }
}
