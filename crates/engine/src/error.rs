//! The errors of the engine, and how they are reported to the parent.

use crate::wrong::Wrong;
use fsdyno_core::outcome::{VERIFICATION, chain};
use fsdyno_core::protocol::EnginePart;
use fsdyno_core::workload::parameter::{Inside, Refusal};
use fsdyno_core::{Bytes, Failure, Nanos, Operation};
use rustix::fs::StatVfs;
use rustix::io::Errno;
use std::fmt;
use std::path::{Path, PathBuf};

/// A system call of a workload that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationFailure {
    /// Which operation, if it is a timed one.
    pub operation: Option<Operation>,
    /// The object of the operation, relative to the engine's directory.
    pub path: String,
    /// The kernel's error.
    pub errno: Errno,
}

impl fmt::Display for OperationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Some(operation) => write!(f, "{operation} failed on '{}'", self.path),
            None => write!(f, "a step failed on '{}'", self.path),
        }
    }
}

/// Why the engine gave up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request does not conform to the protocol.
    #[error("the request is not valid")]
    Request(#[from] serde_json::Error),
    /// No request came.
    #[error("received no request")]
    NoRequest,
    /// Reading the request or writing an event failed.
    #[error("lost the connection to the parent")]
    Connection(#[source] std::io::Error),
    /// The parent speaks another version of the protocol.
    #[error("the request uses version {got} of the protocol, but this engine speaks version {expected}")]
    Version {
        /// Of the request.
        got: u32,
        /// Of this engine.
        expected: u32,
    },
    /// A parameter that no workload can run with.
    #[error("workload parameter '{parameter}' must be {expected}")]
    Parameter {
        /// Its key in a plan.
        parameter: &'static str,
        /// The requirement on its value.
        expected: String,
    },
    /// A flow that cannot be performed.
    #[error("workload parameter '{place}': {problem}")]
    Flow {
        /// The part that is to blame.
        place: String,
        /// The problem with that part.
        problem: String,
    },
    /// The workload does not have that many parts.
    #[error("part {} of {} was requested, but the workload has {parts}", part.number + 1, part.of)]
    NoSuchPart {
        /// The part that was requested.
        part: EnginePart,
        /// The number of parts that the workload has.
        parts: u32,
    },
    /// The size of a file that an earlier part of the workload created has changed.
    #[error("'{}' has {found_bytes} bytes, but was written with {expected_bytes}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its size now.
        found_bytes: u64,
        /// The size with which it was written.
        expected_bytes: u64,
    },
    /// A filesystem has fewer inodes than a tree has files.
    #[error(
        "'{}' has {free} inodes left, but the tree needs {needed}, and one in {INODE_RESERVE} stays free",
        path.display()
    )]
    Inodes {
        /// The directory of the tree.
        path: PathBuf,
        /// The number of those that may be used.
        free: u64,
        /// The number of files and directories.
        needed: u64,
    },
    /// There is no block device to read.
    #[error("the workload 'device-read' reads a block device, but the engine was given none")]
    NoDevice,
    /// Nothing records what is written.
    #[error(
        "the workload 'durability' needs a device that records what is written to it, but the engine was \
         given none"
    )]
    NoMarks,
    /// The workload `io-errors` is not one of an engine.
    #[error("the workload 'io-errors' needs a device that fails on request, which only a sweep makes")]
    NoFaults,
    /// The workload `table` is that of imported figures.
    #[error("the workload 'table' cannot run: its figures were imported")]
    Imported,
    /// The kernel does not provide io_uring.
    #[error("io_uring cannot be used")]
    IoUring {
        /// The kernel's error.
        #[source]
        errno: Errno,
    },
    /// The kernel does not confine a thread that should be confined.
    #[error("cannot confine the engine to its directory")]
    Confine(#[source] std::io::Error),
    /// A system call outside the workload failed.
    #[error("cannot {action} '{}'", path.display())]
    System {
        /// The action that was attempted, as an infinitive.
        action: &'static str,
        /// The object of the action.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        errno: Errno,
    },
    /// A system call of the workload failed.
    #[error("{failure}")]
    Operation {
        /// `prepare` or the phase.
        step: String,
        /// The system call and the kernel's error.
        failure: OperationFailure,
        /// The kernel's error.
        #[source]
        errno: Errno,
    },
    /// Data was read that nobody wrote there.
    #[error("{wrong}")]
    Wrong {
        /// The phase, or what was done instead.
        step: String,
        /// The expected data and the data found.
        wrong: Wrong,
    },
    /// A phase that ends with its work completed nothing for too long.
    #[error("phase '{step}' completed nothing for {patience}")]
    NoProgress {
        /// The phase.
        step: String,
        /// The time that the engine waited for progress.
        patience: Nanos,
    },
    /// A program that the workload runs did not do what it should.
    #[error("{program}: {problem}")]
    Program {
        /// The program.
        program: &'static str,
        /// The problem.
        problem: String,
        /// The end of what it printed.
        printed: String,
    },
    /// After the fill, there is not enough space left for the workload.
    #[error(
        "filled to {percent} %, the filesystem has {free_bytes} bytes left, but the workload prepares \
         {needed_bytes}"
    )]
    Room {
        /// The fill level, in percent.
        percent: u32,
        /// The space left for a user, in bytes.
        free_bytes: u64,
        /// The bytes that the workload creates before it measures.
        needed_bytes: u64,
    },
    /// The machine does not have the memory that the workers need.
    #[error("the workers need {needed} of memory, but only {available} is available")]
    Memory {
        /// The memory that the workers allocate.
        needed: Bytes,
        /// The memory that the machine can provide without swapping.
        available: Bytes,
    },
    /// The kernel refused to start a thread.
    #[error("cannot start a worker of step '{step}'")]
    Thread {
        /// `prepare`, `settle` or the phase.
        step: String,
        /// Why.
        source: std::io::Error,
    },
    /// A thread of the engine panicked.
    #[error("a worker of step '{step}' exited unexpectedly")]
    Worker {
        /// `prepare`, `settle` or the phase.
        step: String,
    },
    /// The parent asked the engine to stop.
    #[error("stopped")]
    Stopped,
}

impl From<Refusal> for EngineError {
    fn from(Refusal { parameter, expected, within }: Refusal) -> Self {
        match within.is_empty() {
            true => EngineError::Parameter { parameter, expected },
            false => EngineError::Flow { place: Inside::path(parameter, &within), problem: expected },
        }
    }
}

impl EngineError {
    pub(crate) fn system(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(Errno) -> Self {
        let path = path.into();
        move |errno| EngineError::System { action, path, errno }
    }

    pub(crate) fn operation(step: &str, failure: OperationFailure) -> Self {
        EngineError::Operation { step: step.to_string(), errno: failure.errno, failure }
    }

    /// The same as [`EngineError::failure`], of an engine in this directory, whose filesystem may have space
    /// that it cannot use.
    pub(crate) fn failure_in(&self, directory: &Path) -> Failure {
        let mut failure = self.failure();
        let is_full = failure.errno == Some(Errno::NOSPC.raw_os_error()) || printed_full(&failure.details);
        let of_space = || rustix::fs::statvfs(directory).ok().zip(rustix::fs::statfs(directory).ok());
        if is_full
            && let Some((space, filesystem)) = of_space()
            && let Some((message, hint)) = unusable(&space, u64::try_from(filesystem.f_type) == Ok(BTRFS))
        {
            failure.message = message;
            failure.hint = Some(hint.to_string());
        }
        failure
    }

    /// The error in the form in which it is stored and displayed.
    #[expect(clippy::too_many_lines, reason = "one arm for each error")]
    pub fn failure(&self) -> Failure {
        let mut failure = Failure::new("engine", chain(self));
        match self {
            EngineError::Operation { step, failure: what, errno } => {
                failure.step.clone_from(step);
                failure.operation = what.operation;
                failure.path = Some(what.path.clone());
                failure.errno = Some(errno.raw_os_error());
                failure.message = errno.to_string();
                failure.hint = hint(*errno).map(str::to_string);
            }
            EngineError::System { action, path, errno } => {
                failure.step = "engine".to_string();
                failure.path = Some(path.display().to_string());
                failure.errno = Some(errno.raw_os_error());
                failure.message = format!("cannot {action}: {errno}");
                failure.hint = hint(*errno).map(str::to_string);
            }
            EngineError::Wrong { step, wrong } => {
                failure.step = VERIFICATION.to_string();
                failure.path = Some(wrong.path.clone());
                failure.message = wrong.problem.to_string();
                failure.details = format!("read in step '{step}'");
                let hint = "these bytes are not what was written: look at the kernel log, and test the memory, \
                            the device and its cables before you trust any figure of this machine";
                failure.hint = Some(hint.to_string());
            }
            EngineError::NoDevice => {
                failure.hint = Some("use a plan with an image or a block device".to_string());
            }
            EngineError::NoMarks => {
                failure.hint = Some("run `fsdyno durability`, which makes such a device".to_string());
            }
            EngineError::NoFaults => {
                failure.hint = Some("run `fsdyno durability PLAN --io-errors`".to_string());
            }
            EngineError::IoUring { errno } => {
                failure.errno = Some(errno.raw_os_error());
                failure.hint = Some(match *errno {
                    Errno::PERM => {
                        "set the sysctl kernel.io_uring_disabled to 0, or use io = \"sync\"".to_string()
                    }
                    _ => "use a kernel with CONFIG_IO_URING, or io = \"sync\"".to_string(),
                });
            }
            EngineError::Program { program, problem, printed } => {
                failure.step = (*program).to_string();
                failure.message.clone_from(problem);
                failure.details.clone_from(printed);
                failure.hint = printed_hint(printed).map(str::to_string);
            }
            EngineError::Memory { .. } => {
                let hint =
                    "use fewer workers or files, smaller reads and writes, or more `memory` in the plan";
                failure.hint = Some(hint.to_string());
            }
            EngineError::Room { .. } => {
                failure.step = "fill".to_string();
                failure.hint =
                    Some("fill less, make the workload smaller, or use a larger device".to_string());
            }
            EngineError::Changed { path, .. } => {
                failure.path = Some(path.display().to_string());
                let hint =
                    "see the kernel log: the filesystem has lost what was written before it was unmounted";
                failure.hint = Some(hint.to_string());
            }
            EngineError::Inodes { .. } => {
                let hint = "make directories and files_per_directory smaller, or create the filesystem with more \
                            inodes: the axis mkfs = \"-N COUNT\" on ext";
                failure.hint = Some(hint.to_string());
            }
            EngineError::Worker { step } => failure.step.clone_from(step),
            EngineError::Thread { step, source } => {
                failure.step.clone_from(step);
                failure.errno = source.raw_os_error();
                let hint = "use fewer workers, or raise the limit on processes (ulimit -u, pids.max)";
                failure.hint = Some(hint.to_string());
            }
            _ => {}
        }
        failure
    }
}

/// `BTRFS_SUPER_MAGIC` in linux/magic.h.
const BTRFS: u64 = 0x9123_683e;
/// Of so many inodes, one is left to others.
pub(crate) const INODE_RESERVE: u64 = 20;
/// Less free space than this share of a filesystem is none.
const NEGLIGIBLE: u64 = 100;

/// Returns the reason why a filesystem is full in spite of free space, with the figures that `df` and `df -i`
/// show, and the next step.
fn unusable(space: &StatVfs, is_btrfs: bool) -> Option<(String, &'static str)> {
    let free_mb = space.f_bavail.saturating_mul(space.f_frsize) / 1_000_000;
    if space.f_bavail <= space.f_blocks / NEGLIGIBLE {
        return None;
    }
    // btrfs counts no inodes.
    if space.f_files > 0 && space.f_favail == 0 {
        let used = space.f_files - space.f_ffree.min(space.f_files);
        return Some((
            format!("no inodes are left: {used} of {} are used, while {free_mb} MB are free", space.f_files),
            "use fewer files, or create the filesystem with more inodes: the axis mkfs = \"-N COUNT\" on ext",
        ));
    }
    is_btrfs.then(|| {
        (
            format!(
                "no space is left for metadata or for data, while {free_mb} MB are free: btrfs keeps the two apart"
            ),
            "use a larger device, or fewer and larger files; `btrfs filesystem usage` shows which of the two is \
             full",
        )
    })
}

fn printed_full(printed: &str) -> bool {
    printed.contains("No space left on device")
}

/// The next step if a program has reported what is wrong.
fn printed_hint(printed: &str) -> Option<&'static str> {
    let full = printed_full(printed) || printed.contains("File too large");
    full.then_some("make the sizes given to the program smaller, or use a larger device")
}

fn hint(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::NOSPC => Some(
            "use a larger device, or make what the workload writes smaller (tree_size, writer_space, file_size; \
             in a flow, count and size of its files)",
        ),
        Errno::DQUOT => Some("this user's quota is used up; make tree_size smaller"),
        Errno::IO => Some("the device or the filesystem reported an error; see the kernel log"),
        Errno::ROFS => {
            Some("the filesystem is mounted read-only or has become read-only; see the kernel log")
        }
        Errno::ACCESS | Errno::PERM => Some("choose a directory that this user can write to"),
        Errno::INVAL => Some("the filesystem may not support O_DIRECT, or not with this block size"),
        Errno::NODATA => Some("something else has truncated the file"),
        Errno::MFILE | Errno::NFILE => Some("raise the limit on open files"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filesystem of 1,000 blocks of 1 MB.
    fn space(free: u64, inodes: u64, free_inodes: u64) -> StatVfs {
        StatVfs {
            f_bsize: 1_000_000,
            f_frsize: 1_000_000,
            f_blocks: 1000,
            f_bfree: free,
            f_bavail: free,
            f_files: inodes,
            f_ffree: free_inodes,
            f_favail: free_inodes,
            f_fsid: 0,
            f_flag: rustix::fs::StatVfsMountFlags::empty(),
            f_namemax: 255,
        }
    }

    #[test]
    fn a_full_filesystem_with_free_space_says_what_it_lacks() {
        let message = |space: StatVfs, is_btrfs| unusable(&space, is_btrfs).map(|(message, _)| message);
        let inodes = "no inodes are left: 1024 of 1024 are used, while 600 MB are free";
        assert_eq!(message(space(600, 1024, 0), false).as_deref(), Some(inodes));
        let apart =
            "no space is left for metadata or for data, while 600 MB are free: btrfs keeps the two apart";
        assert_eq!(message(space(600, 0, 0), true).as_deref(), Some(apart));
        assert_eq!(message(space(5, 1024, 0), false), None, "the space is used up as well");
        assert_eq!(message(space(600, 1024, 7), false), None);
    }
}
