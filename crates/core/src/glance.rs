//! The activity of a load at one moment, for somebody who watches it.
//!
//! An engine takes a glance with each sign of life, about once a second, from what its workers record anyway.
//! No result comes from glances: an operation that takes longer than [`MEMORY`] is missing in the rates of
//! all of them.

use crate::operation::{Operation, Role};
use crate::telemetry::{CpuSplit, DeviceActivity};
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// The time after the start of an operation within which the glance that follows its end still counts it.
pub const MEMORY: Nanos = Nanos(5_000_000_000);

/// A worker that has completed nothing for so long is shown as waiting.
pub const STALL: Nanos = Nanos(100_000_000);

/// The activity of the workers of a phase since the previous glance, and what holds them up now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Glance {
    /// Time since the previous glance, or since the window began.
    pub length_ns: Nanos,
    /// In the order of the result.
    pub roles: Vec<RoleGlance>,
    /// The latest telemetry sample of the window; absent without telemetry and outside of windows.
    pub machine: Option<MachineGlance>,
    /// The cost of all glances of the phase so far, in time of the thread that coordinates it.
    pub cost_ns: Nanos,
}

/// The workers of one role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleGlance {
    /// Which role.
    pub role: Role,
    /// The number of workers.
    pub workers: u32,
    /// Operations of the sample that ended since the previous glance: none before the window begins.
    pub operations: u64,
    /// The sum of their times.
    pub busy_ns: Nanos,
    /// The longest of those that also started since then, or of those in flight now if that is longer.
    pub slowest_ns: Nanos,
    /// Bytes that the operations moved.
    pub bytes: u64,
    /// The worker that has completed nothing for the longest time, if that is longer than [`STALL`].
    pub waiting: Option<Waiting>,
    /// The number of iterations that are due per second; absent if one is due whenever a worker is free.
    #[serde(default)]
    pub offered: Option<OfferedRate>,
}

/// A rate at which iterations are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OfferedRate {
    /// Iterations per second.
    pub per_second: f64,
    /// `true` if a search is trying this rate, to find the highest one.
    pub is_tried: bool,
}

/// A worker that is waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Time since it last completed an operation.
    pub for_ns: Nanos,
    /// The operation that it is waiting for, the oldest of several in flight. Absent between two operations.
    pub operation: Option<Operation>,
    /// The directory that it works in, relative to the engine's; empty if the workload does not say.
    pub directory: String,
    /// The number of workers of the role that are waiting.
    pub workers: u32,
}

/// Device and processors in one telemetry sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineGlance {
    /// Length of the sample.
    pub length_ns: Nanos,
    /// Kernel name of the device with the filesystem.
    pub device: String,
    /// The activity of the device; absent if the kernel does not report it.
    pub activity: Option<DeviceActivity>,
    /// All processors together.
    pub cpu: Option<CpuSplit>,
    /// Page cache that waits to be written, at the end of the sample.
    pub dirty_bytes: Option<u64>,
}

impl RoleGlance {
    /// No worker, of which nothing is known.
    pub fn nothing(role: Role) -> Self {
        RoleGlance {
            role,
            workers: 0,
            operations: 0,
            busy_ns: Nanos(0),
            slowest_ns: Nanos(0),
            bytes: 0,
            waiting: None,
            offered: None,
        }
    }

    /// Mean time of the operations; absent without any.
    pub fn mean_ns(&self) -> Option<Nanos> {
        (self.operations > 0).then(|| Nanos(self.busy_ns.0 / self.operations))
    }

    /// Returns whether the time of the slowest operation says anything. Before the window begins, only what
    /// happens to be in flight is known.
    pub fn is_timed(&self) -> bool {
        self.operations > 0 || self.waiting.is_some()
    }

    /// A number of this role per second.
    pub fn per_s(number: u64, length: Nanos) -> f64 {
        if length.0 == 0 { 0.0 } else { number as f64 / (length.0 as f64 / 1e9) }
    }
}
