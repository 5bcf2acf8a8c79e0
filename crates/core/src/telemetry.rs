//! What the machine did while a phase was measured: what an administrator would have seen in `iostat -x`, `top`,
//! `/proc/meminfo` and `/proc/pressure`.
//!
//! A [`Sample`] holds *differences* of the kernel's counters between two readings, never rates: two adjacent samples add
//! up to the sample of both, exactly, and the window is the sum of its samples. Rates and shares are computed where they
//! are shown ([`DeviceActivity::value`] is `iostat -x`). The few figures that are states rather than counters (dirty
//! memory) say so.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Tasks kept in one sample, those with most CPU time first.
pub const SAMPLE_TASKS: usize = 5;
/// Tasks kept for the whole window.
pub const WINDOW_TASKS: usize = 12;
/// Samples kept of one phase. When there are more, pairs are merged and the interval doubles.
pub const MOST_SAMPLES: usize = 300;

/// What is to be sampled while phases are measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryRequest {
    /// Time between samples.
    pub interval: Nanos,
    /// Kernel names of the block devices of the stack, the one with the filesystem first: `loop0`, `vda`.
    pub devices: Vec<String>,
}

/// The telemetry of one phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Telemetry {
    /// The devices whose activity stands in each sample, in this order.
    pub devices: Vec<String>,
    /// Processors online.
    pub processors: u32,
    /// Time between samples; longer than what was asked for when samples were merged.
    pub interval_ns: Nanos,
    /// The whole window.
    pub window: Sample,
    /// One after the other, without gaps.
    pub samples: Vec<Sample>,
    /// Processes that are not ours and read or wrote block devices in the window, those with most bytes first.
    pub other_processes: Vec<ProcessIo>,
    /// What sampling itself cost.
    pub cost: SamplingCost,
    /// Lines of /proc and /sys that were not understood.
    pub unparsed_lines: u64,
}

/// What sampling cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingCost {
    /// Readings of the whole machine, the first one at the beginning of the window included.
    pub readings: u64,
    /// CPU time of all readings.
    pub cpu_ns: u64,
    /// Time that all readings took.
    pub wall_ns: u64,
    /// Time that the longest took.
    pub wall_ns_max: u64,
}

/// What happened between two readings. A fact that the kernel does not show is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Start relative to the first reading of the window.
    pub start_ns: u64,
    /// Time between the two readings.
    pub length_ns: Nanos,
    /// In the order of [`Telemetry::devices`].
    pub devices: Vec<Option<DeviceActivity>>,
    /// Time of all processors together.
    pub cpu: Option<CpuSplit>,
    /// At the end of the sample, with the highest value of all that were merged into it.
    pub memory: Option<Memory>,
    /// Pressure stall information.
    pub pressure: Pressure,
    /// CPU time of tasks by what they are, of all tasks and not only of those in `tasks`.
    #[serde(default)]
    pub task_ns: BTreeMap<TaskKind, u64>,
    /// The tasks with most CPU time, the first the busiest.
    pub tasks: Vec<TaskTime>,
    /// Journals and logs of filesystems on the devices.
    pub journals: Vec<JournalActivity>,
}

/// Differences of a line of `/proc/diskstats` (Documentation/admin-guide/iostats.rst). Times have the kernel's
/// resolution of 1 ms.
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
    /// A column of `iostat -x` over a sample of this length (sysstat 12, `iostat.c`, `write_plain_ext_stat`, and
    /// `rd_stats.c`, `compute_ext_disk_stats`). A mean over nothing is 0, as there.
    pub fn value(&self, column: Column, length: Nanos) -> f64 {
        let rate = |count: u64| ratio(count as f64, length.as_secs_f64());
        let kib = |bytes: u64| rate(bytes) / 1024.0;
        let share = |merged: u64, issued: u64| ratio(100.0 * merged as f64, (merged + issued) as f64);
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

    fn add(&mut self, next: &DeviceActivity) {
        self.reads += next.reads;
        self.reads_merged += next.reads_merged;
        self.read_bytes += next.read_bytes;
        self.read_ns += next.read_ns;
        self.writes += next.writes;
        self.writes_merged += next.writes_merged;
        self.write_bytes += next.write_bytes;
        self.write_ns += next.write_ns;
        self.discards += next.discards;
        self.discards_merged += next.discards_merged;
        self.discard_bytes += next.discard_bytes;
        self.discard_ns += next.discard_ns;
        self.flushes += next.flushes;
        self.flush_ns += next.flush_ns;
        self.busy_ns += next.busy_ns;
        self.queued_ns += next.queued_ns;
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Time of all processors together by what they did, from the first line of `/proc/stat`; resolution 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSplit {
    /// Programs, guests of a hypervisor here included.
    pub user_ns: u64,
    /// Programs of low priority.
    pub nice_ns: u64,
    /// The kernel on behalf of programs, and its threads.
    pub system_ns: u64,
    /// Idle with a task that waits for a block device.
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
        self.parts().iter().map(|(_, time_ns)| time_ns).sum()
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

    fn add(&mut self, next: &CpuSplit) {
        self.user_ns += next.user_ns;
        self.nice_ns += next.nice_ns;
        self.system_ns += next.system_ns;
        self.iowait_ns += next.iowait_ns;
        self.irq_ns += next.irq_ns;
        self.softirq_ns += next.softirq_ns;
        self.steal_ns += next.steal_ns;
        self.idle_ns += next.idle_ns;
    }
}

/// State of the page cache, from `/proc/meminfo`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Waiting to be written.
    pub dirty_bytes: u64,
    /// The most of it at any reading of the sample.
    pub dirty_bytes_max: u64,
    /// Being written.
    pub writeback_bytes: u64,
    /// The most of it at any reading of the sample.
    pub writeback_bytes_max: u64,
    /// The page cache, shared memory included.
    pub cached_bytes: u64,
    /// Free, or to be had without swapping.
    pub available_bytes: u64,
}

impl Memory {
    fn follow(&mut self, next: &Memory) {
        let (dirty_bytes_max, writeback_bytes_max) = (self.dirty_bytes_max, self.writeback_bytes_max);
        *self = *next;
        self.dirty_bytes_max = dirty_bytes_max.max(next.dirty_bytes_max);
        self.writeback_bytes_max = writeback_bytes_max.max(next.writeback_bytes_max);
    }
}

/// Pressure stall information (Documentation/accounting/psi.rst); absent where the kernel keeps none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// For block devices.
    pub io: Option<Stalls>,
    /// For a processor.
    pub cpu: Option<Stalls>,
    /// For memory.
    pub memory: Option<Stalls>,
}

/// Time in which tasks of the whole machine waited for one resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Some task waited.
    pub some_ns: u64,
    /// All tasks that were not idle waited.
    pub full_ns: u64,
}

impl Stalls {
    fn add(&mut self, next: &Stalls) {
        self.some_ns += next.some_ns;
        self.full_ns += next.full_ns;
    }
}

/// What a task is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Kernel: writes dirty pages back (`kworker flush-7:0`).
    Writeback,
    /// Kernel: commits and checkpoints a journal or log (`jbd2/loop0-8`, `xfsaild/loop0`, `btrfs-transaction`).
    Journal,
    /// Kernel: the rest of a filesystem's own threads (`kworker btrfs-endio-write`, `kworker xfs-conv/loop0`).
    Filesystem,
    /// Kernel: frees memory (`kswapd0`, `kcompactd0`).
    Reclaim,
    /// Kernel: carries requests of a loop device to its file (`kworker loop0`).
    Loop,
    /// Kernel: issues and completes requests (`kworker kblockd`).
    Block,
    /// Kernel: initialises in the background what mkfs has left out (`ext4lazyinit`), of whichever filesystem.
    LazyInit,
    /// Kernel: everything else, also all that is named for a device which is not in the stack.
    Kernel,
    /// fsdyno and what it started, the workers included.
    Own,
    /// Any other process.
    Process,
}

impl TaskKind {
    /// Every kind.
    pub const ALL: &'static [TaskKind] = &[
        TaskKind::Writeback,
        TaskKind::Journal,
        TaskKind::Filesystem,
        TaskKind::Reclaim,
        TaskKind::Loop,
        TaskKind::Block,
        TaskKind::LazyInit,
        TaskKind::Kernel,
        TaskKind::Own,
        TaskKind::Process,
    ];

    /// The name in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            TaskKind::Writeback => "writeback",
            TaskKind::Journal => "journal",
            TaskKind::Filesystem => "filesystem",
            TaskKind::Reclaim => "reclaim",
            TaskKind::Loop => "loop",
            TaskKind::Block => "block",
            TaskKind::LazyInit => "lazy_init",
            TaskKind::Kernel => "kernel",
            TaskKind::Own => "own",
            TaskKind::Process => "process",
        }
    }

    /// Whether these are kernel threads that work for the filesystem under test. Some of them cannot be told from those
    /// that work for another filesystem of the machine: only a name that holds a device says for whom.
    pub const fn works_for_storage(self) -> bool {
        matches!(
            self,
            TaskKind::Writeback
                | TaskKind::Journal
                | TaskKind::Filesystem
                | TaskKind::Reclaim
                | TaskKind::Loop
                | TaskKind::Block
        )
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// CPU time of a task. The kernel's workers count as one task per work queue, whichever of them did the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTime {
    /// Its process; absent for the workers of a queue.
    pub pid: Option<u32>,
    /// As the kernel names it: `jbd2/loop0-8`, `kworker flush-7:0`.
    pub name: String,
    /// What it is.
    pub kind: TaskKind,
    /// User and system time.
    pub cpu_ns: u64,
}

/// Reads and writes of block devices that a process caused, from `/proc/PID/io`; of which devices is not known. Writes
/// count when a page becomes dirty, not when it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIo {
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes read from block devices.
    pub read_bytes: u64,
    /// Bytes that are to be written to block devices.
    pub write_bytes: u64,
}

/// What a journal did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalActivity {
    /// As the kernel names it: `loop0-8`, `loop0`.
    pub name: String,
    /// In the filesystem's own terms.
    #[serde(flatten)]
    pub log: Log,
}

/// Differences of what a filesystem says of its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Log {
    /// ext3 and ext4, from `/proc/fs/jbd2/*/info`.
    Jbd2(Jbd2),
    /// XFS, from `/sys/fs/xfs/*/stats/stats`.
    Xfs(XfsLog),
    /// btrfs, from `/sys/fs/btrfs/*/commit_stats`.
    Btrfs(BtrfsCommits),
}

/// The journal of ext3 and ext4. The kernel gives means since the mount only, in whole units, so that a window has none
/// of its own: they are as they stood at the end of the sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jbd2 {
    /// Transactions committed.
    pub transactions: u64,
    /// Of them those that somebody asked for (fsync).
    pub requested: u64,
    /// Running mean of the time of a commit, recent ones weighing more.
    pub commit_ns_mean: u64,
    /// Mean time for which a transaction was open.
    pub running_ns_mean: u64,
    /// Mean time of writing the data of ordered mode.
    pub flushing_ns_mean: u64,
    /// Mean time of writing the journal.
    pub logging_ns_mean: u64,
    /// Mean number of operations in a transaction.
    pub handles_mean: u64,
    /// Mean number of blocks in a transaction.
    pub blocks_mean: u64,
    /// Mean number of blocks that a transaction wrote to the journal.
    pub logged_blocks_mean: u64,
}

/// The log of XFS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfsLog {
    /// Log buffers written.
    pub writes: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Times somebody found all log buffers busy.
    pub no_buffer: u64,
    /// Forced writes of the log (fsync, and whoever needs a pinned buffer).
    pub forces: u64,
    /// Of them those that had to wait.
    pub force_sleeps: u64,
    /// Transactions that had to wait for space in the log.
    pub space_sleeps: u64,
    /// Transactions committed synchronously.
    pub sync_transactions: u64,
    /// Transactions committed asynchronously.
    pub async_transactions: u64,
}

/// Transaction commits of btrfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BtrfsCommits {
    /// Commits.
    pub commits: u64,
    /// Time of all together.
    pub commit_ns: u64,
    /// The longest since the mount.
    pub commit_ns_max: u64,
}

impl Log {
    fn add(&mut self, next: &Log) {
        match (self, next) {
            (Log::Jbd2(log), Log::Jbd2(next)) => {
                let (transactions, requested) = (log.transactions, log.requested);
                *log = *next;
                log.transactions += transactions;
                log.requested += requested;
            }
            (Log::Xfs(log), Log::Xfs(next)) => {
                log.writes += next.writes;
                log.bytes += next.bytes;
                log.no_buffer += next.no_buffer;
                log.forces += next.forces;
                log.force_sleeps += next.force_sleeps;
                log.space_sleeps += next.space_sleeps;
                log.sync_transactions += next.sync_transactions;
                log.async_transactions += next.async_transactions;
            }
            (Log::Btrfs(log), Log::Btrfs(next)) => {
                log.commits += next.commits;
                log.commit_ns += next.commit_ns;
                log.commit_ns_max = log.commit_ns_max.max(next.commit_ns_max);
            }
            // A name is that of one filesystem; a device that was formatted anew begins again.
            (log, next) => *log = *next,
        }
    }
}

impl Telemetry {
    /// CPU time of the kernel threads that worked for the filesystem under test.
    pub fn storage_threads_ns(&self) -> u64 {
        let kinds = self.window.task_ns.iter().filter(|(kind, _)| kind.works_for_storage());
        kinds.map(|(_, cpu_ns)| cpu_ns).sum()
    }

    /// Activity of the device with the filesystem, the first of the stack.
    pub fn filesystem_device(&self) -> Option<&DeviceActivity> {
        self.window.devices.first()?.as_ref()
    }

    /// Adds the next sample. The window grows by what can be added exactly; its tasks are the caller's, who knows them
    /// all.
    pub fn push(&mut self, sample: Sample) {
        let tasks = std::mem::take(&mut self.window.tasks);
        self.window.append(&sample, 0);
        self.window.tasks = tasks;
        self.samples.push(sample);
        if self.samples.len() > MOST_SAMPLES {
            self.halve();
        }
    }

    /// Merges pairs of samples.
    fn halve(&mut self) {
        self.interval_ns.0 *= 2;
        let samples = std::mem::take(&mut self.samples);
        let mut samples = samples.into_iter();
        while let Some(mut sample) = samples.next() {
            if let Some(next) = samples.next() {
                sample.append(&next, SAMPLE_TASKS);
            }
            self.samples.push(sample);
        }
    }
}

impl Sample {
    /// Makes this the sample of itself and the one that follows it, with the `most` busiest tasks of both. A task that
    /// was among the busiest in one of them only is missing what it did in the other.
    pub fn append(&mut self, next: &Sample, most: usize) {
        self.length_ns.0 += next.length_ns.0;
        self.devices.resize(self.devices.len().max(next.devices.len()), None);
        for (device, next) in self.devices.iter_mut().zip(&next.devices) {
            merge(device, next, DeviceActivity::add);
        }
        merge(&mut self.cpu, &next.cpu, CpuSplit::add);
        merge(&mut self.memory, &next.memory, Memory::follow);
        merge(&mut self.pressure.io, &next.pressure.io, Stalls::add);
        merge(&mut self.pressure.cpu, &next.pressure.cpu, Stalls::add);
        merge(&mut self.pressure.memory, &next.pressure.memory, Stalls::add);
        for (kind, cpu_ns) in &next.task_ns {
            *self.task_ns.entry(*kind).or_default() += cpu_ns;
        }
        for task in &next.tasks {
            match self.tasks.iter_mut().find(|known| known.pid == task.pid && known.name == task.name) {
                Some(known) => known.cpu_ns += task.cpu_ns,
                None => self.tasks.push(task.clone()),
            }
        }
        busiest(&mut self.tasks, most);
        for journal in &next.journals {
            match self.journals.iter_mut().find(|known| known.name == journal.name) {
                Some(known) => known.log.add(&journal.log),
                None => self.journals.push(journal.clone()),
            }
        }
    }
}

fn merge<T: Copy>(sum: &mut Option<T>, next: &Option<T>, add: impl Fn(&mut T, &T)) {
    match (sum, next) {
        (Some(sum), Some(next)) => add(sum, next),
        (sum @ None, next) => *sum = *next,
        (Some(_), None) => {}
    }
}

/// Keeps the `most` tasks with most CPU time, the busiest first; among equals, by name.
pub fn busiest(tasks: &mut Vec<TaskTime>, most: usize) {
    tasks.sort_by(|a, b| b.cpu_ns.cmp(&a.cpu_ns).then_with(|| (&a.name, a.pid).cmp(&(&b.name, b.pid))));
    tasks.truncate(most);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What `iostat -x` of sysstat 12.6.1 prints for a disk whose counters grew by this within 0.61 s.
    #[test]
    fn columns_are_those_of_iostat() {
        let activity = DeviceActivity {
            reads: 15,
            reads_merged: 0,
            read_bytes: 416 * 512,
            read_ns: 9_000_000,
            writes: 90,
            writes_merged: 149,
            write_bytes: 237_096 * 512,
            write_ns: 769_000_000,
            discards: 2,
            discards_merged: 0,
            discard_bytes: 131_080 * 512,
            discard_ns: 13_000_000,
            flushes: 2,
            flush_ns: 0,
            busy_ns: 84_000_000,
            queued_ns: 791_000_000,
        };
        let printed = "24.59 340.98 0.00 0.00 0.60 13.87 147.54 194340.98 244.26 62.34 8.54 1317.20 \
                       3.28 107442.62 0.00 0.00 6.50 32770.00 3.28 0.00 1.30 13.77";
        let computed: Vec<String> = Column::ALL
            .iter()
            .map(|column| format!("{:.2}", activity.value(*column, Nanos::from_millis(610))))
            .collect();
        assert_eq!(computed.join(" "), printed);
    }

    #[test]
    fn nothing_happened_in_no_time() {
        for column in Column::ALL {
            assert_eq!(DeviceActivity::default().value(*column, Nanos(0)), 0.0, "{column}");
        }
    }

    fn sample(start_ns: u64, cpu_ns: u64) -> Sample {
        let task = |name: &str, cpu_ns| TaskTime {
            pid: Some(1),
            name: name.to_string(),
            kind: TaskKind::Process,
            cpu_ns,
        };
        Sample {
            start_ns,
            length_ns: Nanos(10),
            devices: vec![Some(DeviceActivity { reads: cpu_ns, ..DeviceActivity::default() }), None],
            cpu: Some(CpuSplit { user_ns: cpu_ns, ..CpuSplit::default() }),
            memory: Some(Memory { dirty_bytes: cpu_ns, dirty_bytes_max: cpu_ns, ..Memory::default() }),
            task_ns: BTreeMap::from([(TaskKind::Process, cpu_ns)]),
            tasks: vec![task("a", cpu_ns), task("b", 1)],
            ..Sample::default()
        }
    }

    proptest! {
        #[test]
        fn a_long_phase_keeps_its_sums_in_bounded_memory(times in prop::collection::vec(0..1000_u64, 1..2000)) {
            let mut telemetry = Telemetry { interval_ns: Nanos(10), ..Telemetry::default() };
            for (index, time) in times.iter().enumerate() {
                telemetry.push(sample(index as u64 * 10, *time));
            }
            let total: u64 = times.iter().sum();
            let reads = |sample: &Sample| sample.devices[0].expect("a device").reads;
            let length = times.len() as u64 * 10;
            prop_assert!(telemetry.samples.len() <= MOST_SAMPLES);
            prop_assert_eq!(reads(&telemetry.window), total);
            prop_assert_eq!(telemetry.samples.iter().map(reads).sum::<u64>(), total);
            prop_assert_eq!(telemetry.window.length_ns, Nanos(length));
            prop_assert_eq!(telemetry.window.memory.expect("memory").dirty_bytes_max, times.iter().copied().max().unwrap_or(0));
            prop_assert_eq!(telemetry.window.memory.expect("memory").dirty_bytes, times.last().copied().unwrap_or(0));
            // One after the other, without gaps.
            let mut end_ns = 0;
            for sample in &telemetry.samples {
                prop_assert_eq!(sample.start_ns, end_ns);
                prop_assert!(sample.length_ns <= telemetry.interval_ns);
                end_ns += sample.length_ns.0;
            }
            prop_assert_eq!(end_ns, length);
        }
    }

    #[test]
    fn a_kind_has_the_same_name_in_json_and_tables() {
        for kind in TaskKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("json"), kind.name());
        }
    }
}
