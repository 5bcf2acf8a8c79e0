//! The results of each of several machines in a phase.

use super::CpuTime;
use crate::operation::Role;
use crate::telemetry::Telemetry;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// The part of one client in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientResult {
    /// Its name: that of its host, with a number where several run on one.
    pub client: String,
    /// The work of all of its workers.
    #[serde(flatten)]
    pub work: ClientWork,
    /// The same by role.
    pub roles: Vec<ClientRole>,
    /// Processor time of its workers in the window.
    pub cpu: CpuTime,
    /// The delay from the agreed moment to its beginning; absent if the agreed moment is unknown to it.
    pub late_ns: Option<Nanos>,
    /// The time for which it worked: the window, or until its own work was done.
    pub active_ns: Nanos,
    /// The activity of its machine in its window; absent if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Its clock against the coordinator's before the phase.
    pub clock_before: Option<ClockOffset>,
    /// The same after it.
    pub clock_after: Option<ClockOffset>,
    /// Why nothing more was heard of it in this phase. Then what it did is unknown, and its workers count as
    /// stalled since it was last heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// The workers of one role on one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientRole {
    /// Which role.
    pub role: Role,
    /// The work of these workers.
    #[serde(flatten)]
    pub work: ClientWork,
}

/// The work of some workers of a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientWork {
    /// The number of workers.
    pub workers: u32,
    /// Bytes of operations that ended inside the window.
    pub bytes: u64,
    /// Operations that started and ended inside the window.
    pub completed: u64,
    /// The time that 99.9 % of their operations did not exceed, all of them together; absent with fewer than
    /// 1,000.
    pub p999_ns: Option<Nanos>,
    /// The longest time in which one of them completed nothing, as in [`super::RoleResult`].
    pub longest_stall_ns: Nanos,
    /// `true` if the stall may have been longer.
    pub longest_stall_at_least: bool,
}

/// A clock (`CLOCK_MONOTONIC`) against another: the middle of the fastest of several round trips (Cristian,
/// "Probabilistic clock synchronization", 1989).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The difference to add to the coordinator's clock.
    pub offset_ns: i64,
    /// The error is no larger than this: half of the round trip.
    pub uncertainty_ns: Nanos,
}

impl ClientResult {
    /// Returns the uncertainty of its clock: that of the worse reading, or the distance between both if that
    /// is larger.
    pub fn clock_uncertainty(&self) -> Option<Nanos> {
        let (before, after) = (self.clock_before?, self.clock_after?);
        let apart = before.offset_ns.abs_diff(after.offset_ns);
        Some(before.uncertainty_ns.max(after.uncertainty_ns).max(Nanos(apart)))
    }
}
