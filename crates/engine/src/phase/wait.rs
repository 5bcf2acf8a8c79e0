//! The events that a ramp can wait for, so that the window begins when one has come.

use crate::record::WorkerRecord;
use crate::search::Search;
use crate::steady::Rounds;
use crate::throttle::{Pages, Throttle, Writers};
use fsdyno_core::result::Steadiness;
use fsdyno_core::workload::Ramp;

/// A window that begins early begins so long after that is decided: no worker may have started an operation
/// in it before it learns of it.
const AHEAD_NS: u64 = 5_000_000;

/// The findings of a ramp, if it was to wait for something.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WaitEnd {
    pub(super) writers: Option<Writers>,
    pub(super) steady: Option<Steadiness>,
}

/// A ramp that waits.
pub(super) struct Wait {
    event: Option<Event>,
    pub(super) found: WaitEnd,
}

/// The event that a ramp waits for.
enum Event {
    Throttled(Throttle),
    Steady(Rounds),
    /// The highest rate that meets a target.
    Highest(Box<Search>),
}

impl Wait {
    /// The search of a role whose rate has to be found comes first: then the ramp says only how long that may
    /// take.
    pub(super) fn of(ramp: Ramp, search: Option<Search>) -> Self {
        let event = match (search, ramp) {
            (Some(search), _) => Some(Event::Highest(Box::new(search))),
            (None, Ramp::For(_)) => None,
            (None, Ramp::UntilThrottled) => Some(Event::Throttled(Throttle::default())),
            (None, Ramp::UntilSteady(steady)) => Some(Event::Steady(Rounds::new(steady))),
        };
        Wait { event, found: WaitEnd::default() }
    }

    /// Looks whether it has come, and notes what was found. Returns when the window can begin, once.
    pub(super) fn look<'a>(
        &mut self,
        records: impl Iterator<Item = &'a WorkerRecord>,
        now_ns: u64,
        window_begin_ns: u64,
    ) -> Option<u64> {
        let soon = |has_come: bool| has_come.then_some(now_ns + AHEAD_NS);
        let begin_ns = match self.event.as_mut()? {
            // Even if the coordinator was kept from running until the window began, there must be a rate.
            Event::Highest(search) => search.look(now_ns),
            _ if now_ns >= window_begin_ns => None,
            Event::Throttled(throttle) => {
                let writers = throttle.look(now_ns, records.map(WorkerRecord::written).sum(), Pages::now());
                self.found.writers = Some(writers);
                soon(!writers.is_free())
            }
            Event::Steady(rounds) => {
                let is_steady = rounds.look(now_ns, records.map(WorkerRecord::completed).sum());
                self.found.steady = Some(rounds.verdict());
                soon(is_steady)
            }
        };
        if begin_ns.is_some() {
            self.event = None;
        }
        begin_ns
    }
}
