//! The activity of a block device, and the columns of `iostat -x`.

use super::ratio;
use crate::figures::grow;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Differences of a line of `/proc/diskstats` (Documentation/admin-guide/iostats.rst). Times have the
/// kernel's resolution of 1 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceActivity {
    /// Reads completed.
    pub reads: u64,
    /// Reads merged into another before they were issued.
    pub reads_merged: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of all reads together.
    pub read_ns: u64,
    /// Writes completed.
    pub writes: u64,
    /// Writes merged.
    pub writes_merged: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time of all writes together.
    pub write_ns: u64,
    /// Discards completed.
    pub discards: u64,
    /// Discards merged.
    pub discards_merged: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Time of all discards together.
    pub discard_ns: u64,
    /// Flushes of the write cache completed.
    pub flushes: u64,
    /// Time of all flushes together.
    pub flush_ns: u64,
    /// Time with at least one request in flight.
    pub busy_ns: u64,
    /// Time in flight of all requests together.
    pub queued_ns: u64,
}

/// Declares the columns of `iostat -x` once: variant and printed name.
macro_rules! columns {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A column of `iostat -x`, as sysstat 12 names and computes it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Column {
            $($(#[$doc])* $variant,)*
        }

        impl Column {
            /// Every column, in the order of `iostat -x`.
            pub const ALL: &'static [Column] = &[$(Column::$variant),*];

            /// The heading.
            pub const fn name(self) -> &'static str {
                match self { $(Column::$variant => $name,)* }
            }
        }
    };
}

columns! {
    /// Reads per second, after merging.
    ReadRate = "r/s";
    /// Kibibytes read per second.
    ReadKib = "rkB/s";
    /// Reads merged per second.
    ReadMergeRate = "rrqm/s";
    /// Share of reads that were merged, in percent.
    ReadMergeShare = "%rrqm";
    /// Mean time of a read, queue included, in milliseconds.
    ReadWait = "r_await";
    /// Mean size of a read in kibibytes.
    ReadSize = "rareq-sz";
    /// Writes per second, after merging.
    WriteRate = "w/s";
    /// Kibibytes written per second.
    WriteKib = "wkB/s";
    /// Writes merged per second.
    WriteMergeRate = "wrqm/s";
    /// Share of writes that were merged, in percent.
    WriteMergeShare = "%wrqm";
    /// Mean time of a write, queue included, in milliseconds.
    WriteWait = "w_await";
    /// Mean size of a write in kibibytes.
    WriteSize = "wareq-sz";
    /// Discards per second, after merging.
    DiscardRate = "d/s";
    /// Kibibytes discarded per second.
    DiscardKib = "dkB/s";
    /// Discards merged per second.
    DiscardMergeRate = "drqm/s";
    /// Share of discards that were merged, in percent.
    DiscardMergeShare = "%drqm";
    /// Mean time of a discard, queue included, in milliseconds.
    DiscardWait = "d_await";
    /// Mean size of a discard in kibibytes.
    DiscardSize = "dareq-sz";
    /// Flushes per second.
    FlushRate = "f/s";
    /// Mean time of a flush in milliseconds.
    FlushWait = "f_await";
    /// Mean number of requests in flight.
    QueueSize = "aqu-sz";
    /// Share of the time with a request in flight, in percent.
    Utilisation = "%util";
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl DeviceActivity {
    /// A column of `iostat -x` over a sample of this length (sysstat 12, `iostat.c`, `write_plain_ext_stat`,
    /// and `rd_stats.c`, `compute_ext_disk_stats`). As in iostat, the mean of no requests is 0.
    pub fn value(&self, column: Column, length: Nanos) -> f64 {
        let rate = |count: u64| ratio(count as f64, length.as_secs_f64());
        let kib = |bytes: u64| rate(bytes) / 1024.0;
        let share = |merged: u64, issued: u64| ratio(100.0 * merged as f64, merged as f64 + issued as f64);
        let wait = |time_ns: u64, issued: u64| ratio(time_ns as f64 / 1e6, issued as f64);
        let size = |bytes: u64, issued: u64| ratio(bytes as f64 / 1024.0, issued as f64);
        match column {
            Column::ReadRate => rate(self.reads),
            Column::ReadKib => kib(self.read_bytes),
            Column::ReadMergeRate => rate(self.reads_merged),
            Column::ReadMergeShare => share(self.reads_merged, self.reads),
            Column::ReadWait => wait(self.read_ns, self.reads),
            Column::ReadSize => size(self.read_bytes, self.reads),
            Column::WriteRate => rate(self.writes),
            Column::WriteKib => kib(self.write_bytes),
            Column::WriteMergeRate => rate(self.writes_merged),
            Column::WriteMergeShare => share(self.writes_merged, self.writes),
            Column::WriteWait => wait(self.write_ns, self.writes),
            Column::WriteSize => size(self.write_bytes, self.writes),
            Column::DiscardRate => rate(self.discards),
            Column::DiscardKib => kib(self.discard_bytes),
            Column::DiscardMergeRate => rate(self.discards_merged),
            Column::DiscardMergeShare => share(self.discards_merged, self.discards),
            Column::DiscardWait => wait(self.discard_ns, self.discards),
            Column::DiscardSize => size(self.discard_bytes, self.discards),
            Column::FlushRate => rate(self.flushes),
            Column::FlushWait => wait(self.flush_ns, self.flushes),
            Column::QueueSize => ratio(self.queued_ns as f64, length.0 as f64),
            Column::Utilisation => ratio(100.0 * self.busy_ns as f64, length.0 as f64),
        }
    }

    pub(super) fn add(&mut self, next: &DeviceActivity) {
        grow(&mut self.reads, next.reads);
        grow(&mut self.reads_merged, next.reads_merged);
        grow(&mut self.read_bytes, next.read_bytes);
        grow(&mut self.read_ns, next.read_ns);
        grow(&mut self.writes, next.writes);
        grow(&mut self.writes_merged, next.writes_merged);
        grow(&mut self.write_bytes, next.write_bytes);
        grow(&mut self.write_ns, next.write_ns);
        grow(&mut self.discards, next.discards);
        grow(&mut self.discards_merged, next.discards_merged);
        grow(&mut self.discard_bytes, next.discard_bytes);
        grow(&mut self.discard_ns, next.discard_ns);
        grow(&mut self.flushes, next.flushes);
        grow(&mut self.flush_ns, next.flush_ns);
        grow(&mut self.busy_ns, next.busy_ns);
        grow(&mut self.queued_ns, next.queued_ns);
    }
}
