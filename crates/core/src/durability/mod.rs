//! Power cuts: what system calls promise, when power is lost, and which writes a device then still has. And
//! I/O errors: requests to a disk that fail ([`Fault`]).
//!
//! A *promise* is what a system call that returned guarantees to survive. Workers record in the log of the
//! device that they begin one and that it was acknowledged ([`Mark`]). A *cut* is a place in that log, and a
//! [`CacheModel`] says which writes before it have reached stable storage. What was found on the disks that
//! result is in [`crate::result::Durability`], and what came of faults in [`crate::result::FaultResult`].

mod mark;
mod recorder;

pub use crate::workload::durability::CacheModel;
pub use crate::workload::fault::{Act, Fault, RequestKind};
pub use mark::{MARK_BYTES, Mark, MarkError, Moment};
pub use recorder::{
    CompleteLog, Cut, FaultRequest, LogSummary, MARKS_FILE, PaceKept, RECORDER_SOURCE, RecorderReply,
    RecorderRequest, StateRequest,
};

use crate::workload::parameter::words;

/// The first bytes of every sector of a file that workers write on a recorded disk, which distinguish data
/// from everything else.
pub const DATA: [u8; 8] = *b"fsdyFILE";

words! {
    /// The actions of workers, and the guarantees that they may rely on afterwards.
    #[derive(PartialOrd, Ord, Hash)]
    Promise, "promise" {
        /// A new file is written, and fsync(2) is called on it and on its directory.
        Create = "create",
        /// A new file is written, and fsync(2) is called on it alone.
        CreateFile = "create-file",
        /// Records are appended, each followed by fdatasync(2).
        Append = "append",
        /// Records are appended to a file opened with `O_DSYNC`.
        DsyncAppend = "dsync-append",
        /// Blocks that a file already has are overwritten, followed by fdatasync(2).
        Overwrite = "overwrite",
        /// The same through mmap(2) and msync(2) with `MS_SYNC`.
        Msync = "msync",
        /// A new version is written to a temporary file and fsynced, renamed over the old one, and the
        /// directory is fsynced.
        Replace = "replace",
        /// The same without any fsync: what careless editors do.
        ReplaceUnsynced = "replace-unsynced",
        /// Several new files are written, followed by one syncfs(2).
        Syncfs = "syncfs",
        /// A second name for a synced file, and fsync(2) of the directory.
        Link = "link",
        /// A synced file is renamed, and the directory is fsynced.
        Rename = "rename",
        /// A synced file is removed, and the directory is fsynced.
        Unlink = "unlink",
    }
}

impl Promise {
    /// All of them, in the order of tables.
    pub const ALL: [Promise; 12] = [
        Promise::Create,
        Promise::CreateFile,
        Promise::Append,
        Promise::DsyncAppend,
        Promise::Overwrite,
        Promise::Msync,
        Promise::Replace,
        Promise::ReplaceUnsynced,
        Promise::Syncfs,
        Promise::Link,
        Promise::Rename,
        Promise::Unlink,
    ];

    /// The number in marks; never reused.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The promise of a number.
    pub fn of_number(number: u8) -> Option<Promise> {
        Promise::ALL.get(usize::from(number)).copied()
    }

    /// Who says that it holds. The sources are in docs/guide/promises.md.
    pub const fn source(self) -> PromiseBasis {
        match self {
            Promise::CreateFile => PromiseBasis::Practice,
            Promise::ReplaceUnsynced => PromiseBasis::Nobody,
            _ => PromiseBasis::Standard,
        }
    }
}

/// Who says that a promise holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromiseBasis {
    /// POSIX, or the manual page of the system call.
    Standard,
    /// Linux filesystems keep it, but no manual page says so.
    Practice,
    /// Nobody: what is found only shows whether files are whole.
    Nobody,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_promises_are_their_places() {
        for (place, promise) in Promise::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(promise.number()), place);
            assert_eq!(Promise::of_number(promise.number()), Some(promise));
        }
        assert_eq!(Promise::of_number(Promise::ALL.len() as u8), None);
    }
}
