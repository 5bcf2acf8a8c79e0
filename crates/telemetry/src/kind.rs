//! The kind of a task, derived from the name that the kernel gives it.
//!
//! The names are those of Linux 4.18 to 6.18: kernel threads (`jbd2/loop0-8`) and, for the shared workers,
//! the queue that they work for (`kworker/u8:3-flush-7:0`; kernel/workqueue.c, `wq_worker_comm`). A name that
//! contains a device says for whom the thread works; if that is not a device of the stack, the thread does
//! not count.

use fsdyno_core::filesystem::{self, ThreadName};
use fsdyno_core::telemetry::TaskKind;

/// The devices of the stack, which distinguish its threads from those of other filesystems.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stack {
    names: Vec<String>,
    /// `major:minor`, as in `flush-7:0`.
    numbers: Vec<String>,
}

impl Stack {
    pub(crate) fn new(names: &[String]) -> Self {
        Stack { names: names.to_vec(), numbers: Vec::new() }
    }

    pub(crate) fn set_numbers(&mut self, numbers: Vec<String>) {
        self.numbers = numbers;
    }

    /// Returns whether a device is part of the stack: itself, or as a partition. If no stack is known, every
    /// device is part of it.
    pub(crate) fn contains(&self, device: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| is_or_is_part(device, name))
    }

    /// The same for `major:minor` of a whole disk. The numbers of a disk that has not been seen yet are
    /// unknown.
    fn contains_number(&self, number: &str) -> bool {
        self.numbers.is_empty() || self.numbers.iter().any(|known| known == number)
    }
}

/// Returns whether `device` is the disk or one of its partitions: `vda1` of `vda`, `loop1p2` of `loop1`,
/// never `loop10` of `loop1`.
fn is_or_is_part(device: &str, disk: &str) -> bool {
    let Some(rest) = device.strip_prefix(disk) else { return false };
    let number = match disk.ends_with(|last: char| last.is_ascii_digit()) {
        true => rest.strip_prefix('p'),
        false => Some(rest),
    };
    rest.is_empty() || number.is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The queue that a shared worker works for, empty if it has not worked yet; `None` for all other threads.
/// `kworker/u8:12-loop0`, `kworker/1:1H+xfs-log/loop0`, `kworker/R-btrfs-worker`.
pub(crate) fn queue(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("kworker/")?;
    Some(rest.split_once(['-', '+']).map_or("", |(_pool, queue)| queue))
}

/// The kind of a kernel thread.
pub(crate) fn of_kernel_thread(name: &str, stack: &Stack) -> TaskKind {
    let work = queue(name).unwrap_or(name);
    let (kind, device) = by_work(work);
    let ours = match device {
        Device::Unknown => true,
        Device::Name(device) => stack.contains(device) || stack.contains(without_inode(device)),
        Device::Number(number) => stack.contains_number(number),
    };
    if ours { kind } else { TaskKind::Kernel }
}

/// The device that a name contains.
enum Device<'a> {
    Unknown,
    Name(&'a str),
    Number(&'a str),
}

/// `loop0-8`, the journal in inode 8 of `loop0`.
fn without_inode(device: &str) -> &str {
    match device.rsplit_once('-') {
        Some((device, inode)) if is_number(inode) => device,
        _ => device,
    }
}

/// The longest prefix that belongs to a filesystem: `xfs-log/` rather than `xfs-`.
fn thread_of_a_filesystem(work: &str) -> Option<&'static ThreadName> {
    let names = filesystem::all().flat_map(|filesystem| filesystem.threads);
    names.filter(|name| work.starts_with(name.prefix)).max_by_key(|name| name.prefix.len())
}

fn by_work(work: &str) -> (TaskKind, Device<'_>) {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| work.starts_with(prefix));
    let behind_slash = || work.split_once('/').map_or(Device::Unknown, |(_, device)| Device::Name(device));
    if let Some(number) = work.strip_prefix("flush-") {
        // btrfs has an anonymous device number, which does not identify a device.
        let device = if number.contains(':') { Device::Number(number) } else { Device::Unknown };
        return (TaskKind::Writeback, device);
    }
    if work == "writeback" {
        return (TaskKind::Writeback, Device::Unknown);
    }
    if let Some(thread) = thread_of_a_filesystem(work) {
        let device = if thread.names_device { behind_slash() } else { Device::Unknown };
        return (thread.kind, device);
    }
    // Completed direct I/O, of any filesystem (fs/direct-io.c).
    if starts(&["dio/"]) {
        return (TaskKind::Filesystem, behind_slash());
    }
    if starts(&["kswapd", "kcompactd"]) {
        return (TaskKind::Reclaim, Device::Unknown);
    }
    if work.strip_prefix("loop").is_some_and(is_number) {
        return (TaskKind::Loop, Device::Name(work));
    }
    if let Some((array, _)) = work.split_once('_').filter(|(array, _)| is_array(array)) {
        return (TaskKind::Block, Device::Name(array));
    }
    if starts(&[
        "kblockd",
        "kintegrityd",
        "blkcg_punt_bio",
        "kdmflush",
        "kdelayd",
        "dm-delay",
        "kcryptd",
        "dmcrypt_write",
        "raid5wq",
    ]) {
        return (TaskKind::Block, Device::Unknown);
    }
    if starts(&["nfsd", "lockd", "rpciod", "xprtiod", "nfsiod", "cifsd"]) {
        return (TaskKind::Serve, Device::Unknown);
    }
    (TaskKind::Kernel, Device::Unknown)
}

/// `md127`, whose threads are `md127_raid1` and `md127_resync`.
fn is_array(name: &str) -> bool {
    name.strip_prefix("md").is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack() -> Stack {
        let mut stack = Stack::new(&["loop0".to_string(), "vda".to_string()]);
        stack.set_numbers(vec!["7:0".to_string(), "254:0".to_string()]);
        stack
    }

    /// Names as `/proc/PID/stat` of Linux 6.18 shows them.
    #[test]
    fn the_kind_of_a_thread_follows_from_its_name() {
        for (name, kind) in [
            ("kworker/u8:0-flush-254:0", TaskKind::Writeback),
            ("kworker/u8:0+flush-btrfs-1", TaskKind::Writeback),
            ("jbd2/loop0-8", TaskKind::Journal),
            ("jbd2/loop0", TaskKind::Journal),
            ("jbd2/vda1-8", TaskKind::Journal),
            ("xfsaild/loop0", TaskKind::Journal),
            ("kworker/1:1H-xfs-log/loop0", TaskKind::Journal),
            ("kworker/R-xfs-cil/loop0", TaskKind::Journal),
            ("btrfs-transaction", TaskKind::Journal),
            ("kworker/1:0-xfs-conv/loop0", TaskKind::Filesystem),
            ("kworker/u8:4-ext4-rsv-conversion", TaskKind::Filesystem),
            ("kworker/u8:6-btrfs-endio-write", TaskKind::Filesystem),
            ("kworker/1:67-dio/vda", TaskKind::Filesystem),
            ("btrfs-cleaner", TaskKind::Filesystem),
            ("nfsd", TaskKind::Serve),
            ("lockd", TaskKind::Serve),
            ("cifsd", TaskKind::Serve),
            ("kworker/u2:1-rpciod", TaskKind::Serve),
            ("kworker/u8:2-nfsd4_callbacks", TaskKind::Serve),
            ("kswapd0", TaskKind::Reclaim),
            ("kcompactd0", TaskKind::Reclaim),
            ("kworker/u8:12-loop0", TaskKind::Loop),
            ("loop0", TaskKind::Loop),
            ("kworker/0:2H-kblockd", TaskKind::Block),
            ("ext4lazyinit", TaskKind::LazyInit),
            ("kworker/0:1-mm_percpu_wq", TaskKind::Kernel),
            ("kworker/u9:0", TaskKind::Kernel),
            ("ksoftirqd/0", TaskKind::Kernel),
        ] {
            assert_eq!(of_kernel_thread(name, &stack()), kind, "{name}");
        }
    }

    #[test]
    fn threads_of_other_devices_do_not_count() {
        for name in [
            "jbd2/loop1-8",
            "jbd2/vdb1-8",
            "xfsaild/loop01",
            "kworker/u8:1-loop10",
            "kworker/u8:1-flush-7:10",
            "kworker/1:0-xfs-conv/loop3",
            "md0_raid1",
        ] {
            assert_eq!(of_kernel_thread(name, &stack()), TaskKind::Kernel, "{name}");
            assert_ne!(of_kernel_thread(name, &Stack::default()), TaskKind::Kernel, "{name}");
        }
    }

    #[test]
    fn partitions_are_distinguished_from_other_disks() {
        for (device, disk, part) in [
            ("vda1", "vda", true),
            ("vdab", "vda", false),
            ("loop10", "loop1", false),
            ("loop1p3", "loop1", true),
            ("nvme0n1p2", "nvme0n1", true),
            ("nvme0n1p", "nvme0n1", false),
        ] {
            assert_eq!(is_or_is_part(device, disk), part, "{device} of {disk}");
        }
    }
}
