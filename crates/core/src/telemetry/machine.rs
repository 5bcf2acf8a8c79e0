//! Processors, memory and pressure of the whole machine.

use super::ratio;
use crate::figures::{grow, total};
use serde::{Deserialize, Serialize};

/// Time of all processors by activity, from the first line of `/proc/stat`; resolution 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSplit {
    /// Programs, including guests that run on this machine.
    pub user_ns: u64,
    /// Programs of low priority.
    pub nice_ns: u64,
    /// The kernel on behalf of programs, and its threads.
    pub system_ns: u64,
    /// Idle while a task waits for a block device.
    pub iowait_ns: u64,
    /// Interrupts.
    pub irq_ns: u64,
    /// Soft interrupts.
    pub softirq_ns: u64,
    /// Taken away by the hypervisor that this machine runs on.
    pub steal_ns: u64,
    /// Idle.
    pub idle_ns: u64,
}

impl CpuSplit {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        total(self.parts().map(|(_, time_ns)| time_ns))
    }

    /// Each part with the name that `top` and `mpstat` give it, in the order of the fields.
    pub fn parts(&self) -> [(&'static str, u64); 8] {
        [
            ("user", self.user_ns),
            ("nice", self.nice_ns),
            ("system", self.system_ns),
            ("iowait", self.iowait_ns),
            ("irq", self.irq_ns),
            ("softirq", self.softirq_ns),
            ("steal", self.steal_ns),
            ("idle", self.idle_ns),
        ]
    }

    /// Share of all processors' time, 0 to 1.
    pub fn share(&self, part_ns: u64) -> f64 {
        ratio(part_ns as f64, self.total_ns() as f64)
    }

    pub(super) fn add(&mut self, next: &CpuSplit) {
        grow(&mut self.user_ns, next.user_ns);
        grow(&mut self.nice_ns, next.nice_ns);
        grow(&mut self.system_ns, next.system_ns);
        grow(&mut self.iowait_ns, next.iowait_ns);
        grow(&mut self.irq_ns, next.irq_ns);
        grow(&mut self.softirq_ns, next.softirq_ns);
        grow(&mut self.steal_ns, next.steal_ns);
        grow(&mut self.idle_ns, next.idle_ns);
    }
}

/// State of the page cache, from `/proc/meminfo`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Waiting to be written.
    pub dirty_bytes: u64,
    /// The highest value at any reading in the sample.
    pub dirty_bytes_max: u64,
    /// Being written.
    pub writeback_bytes: u64,
    /// The highest value at any reading in the sample.
    pub writeback_bytes_max: u64,
    /// The page cache, shared memory included.
    pub cached_bytes: u64,
    /// Free, or available without swapping.
    pub available_bytes: u64,
}

impl Memory {
    pub(super) fn follow(&mut self, next: &Memory) {
        let (dirty_bytes_max, writeback_bytes_max) = (self.dirty_bytes_max, self.writeback_bytes_max);
        *self = *next;
        self.dirty_bytes_max = dirty_bytes_max.max(next.dirty_bytes_max);
        self.writeback_bytes_max = writeback_bytes_max.max(next.writeback_bytes_max);
    }
}

/// Pressure stall information (Documentation/accounting/psi.rst); absent if the kernel does not keep it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// For block devices.
    pub io: Option<Stalls>,
    /// For a processor.
    pub cpu: Option<Stalls>,
    /// For memory.
    pub memory: Option<Stalls>,
}

/// Time in which tasks of the whole machine waited for a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Some task waited.
    pub some_ns: u64,
    /// All tasks that were not idle waited.
    pub full_ns: u64,
}

impl Stalls {
    pub(super) fn add(&mut self, next: &Stalls) {
        grow(&mut self.some_ns, next.some_ns);
        grow(&mut self.full_ns, next.full_ns);
    }
}
