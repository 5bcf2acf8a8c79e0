//! What was waited for before a window.

use crate::units::{Bytes, Nanos};
use crate::workload::Excursion;
use serde::{Deserialize, Serialize};

/// What a ramp found that waited for the load to be steady.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Whether it was, before the limit.
    pub reached: bool,
    /// How many rounds were complete.
    pub rounds: u32,
    /// How much the rate varied over the last of them; absent if there were too few, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excursion: Option<Excursion>,
}

/// What waiting for a calm device and little dirty data found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quiet {
    /// Whether it came, before the limit: no request for half a second, and at most 1 MiB dirty.
    pub reached: bool,
    /// How long that took, or the limit.
    pub waited_ns: Nanos,
    /// Requests that the devices completed meanwhile.
    pub requests: u64,
    /// What was dirty or being written back at the end: of the load's memory cgroup if it has one, else of
    /// the machine.
    pub dirty: Bytes,
}
