//! Processor time.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Processor time of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: Nanos,
    /// In the kernel.
    pub system_ns: Nanos,
}

impl CpuTime {
    /// Both together.
    pub fn total(&self) -> Nanos {
        Nanos(self.user_ns.0.saturating_add(self.system_ns.0))
    }

    /// Returns the time that was used since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &CpuTime) -> CpuTime {
        CpuTime {
            user_ns: Nanos(self.user_ns.0.saturating_sub(earlier.user_ns.0)),
            system_ns: Nanos(self.system_ns.0.saturating_sub(earlier.system_ns.0)),
        }
    }
}

impl std::ops::Add for CpuTime {
    type Output = CpuTime;

    fn add(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: Nanos(self.user_ns.0.saturating_add(other.user_ns.0)),
            system_ns: Nanos(self.system_ns.0.saturating_add(other.system_ns.0)),
        }
    }
}
