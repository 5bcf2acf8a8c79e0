//! The waits before a window.

use crate::units::{Bytes, Nanos};
use crate::workload::Excursion;
use serde::{Deserialize, Serialize};

/// The outcome of a ramp that waited for the load to be steady.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// `true` if the load was steady before the limit.
    pub reached: bool,
    /// The number of rounds that were complete.
    pub rounds: u32,
    /// The variation of the rate over the last of them; absent if there were too few, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excursion: Option<Excursion>,
}

/// The outcome of waiting for a calm device and little dirty data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// `true` if that state came before the limit: no request for half a second, and at most 1 MiB dirty.
    pub reached: bool,
    /// The time until then, or the limit.
    pub waited_ns: Nanos,
    /// Requests that the devices completed meanwhile.
    pub requests: u64,
    /// The amount that was dirty or being written back at the end: of the load's memory cgroup if it has one,
    /// else of the machine.
    pub dirty: Bytes,
}
