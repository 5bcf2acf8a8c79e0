//! Tasks: what the processors worked for, and who else used the disks.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a task, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Kernel: writes dirty pages back (`kworker flush-7:0`).
    Writeback,
    /// Kernel: commits and checkpoints a journal or log (`jbd2/loop0-8`, `xfsaild/loop0`,
    /// `btrfs-transaction`).
    Journal,
    /// Kernel: a filesystem's other threads (`kworker btrfs-endio-write`, `kworker xfs-conv/loop0`).
    Filesystem,
    /// Kernel: frees memory (`kswapd0`, `kcompactd0`).
    Reclaim,
    /// Kernel: carries requests of a loop device to its file (`kworker loop0`).
    Loop,
    /// Kernel: issues and completes requests (`kworker kblockd`).
    Block,
    /// Kernel: initialises in the background what mkfs omitted (`ext4lazyinit`), for any filesystem.
    LazyInit,
    /// Serves a filesystem, or is a client of one that is served: kernel threads (`nfsd`, `lockd`, `kworker
    /// rpciod`), and smbd if fsdyno has started it.
    Serve,
    /// Kernel: everything else, including everything named after a device that is not in the stack.
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
        TaskKind::Serve,
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
            TaskKind::Serve => "serve",
            TaskKind::Kernel => "kernel",
            TaskKind::Own => "own",
            TaskKind::Process => "process",
        }
    }

    /// Returns whether these are kernel threads that work for the filesystem under test. Some of them cannot
    /// be distinguished from those of another filesystem on the machine: only a name that contains a device
    /// says for whom it works.
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
    /// The kind of task.
    pub kind: TaskKind,
    /// User and system time.
    pub cpu_ns: u64,
}

/// Reads and writes of block devices that a process caused, from `/proc/PID/io`, which does not say on which
/// devices. A write counts when the page becomes dirty, not when it is written.
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

/// Keeps the `most` tasks with the most CPU time, busiest first, ties by name.
pub fn busiest(tasks: &mut Vec<TaskTime>, most: usize) {
    tasks.sort_by(|a, b| b.cpu_ns.cmp(&a.cpu_ns).then_with(|| (&a.name, a.pid).cmp(&(&b.name, b.pid))));
    tasks.truncate(most);
}
