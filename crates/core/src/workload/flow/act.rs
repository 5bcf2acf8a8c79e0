//! The steps of the workers of a flow.

use crate::operation::Operation;
use crate::units::{Bytes, Nanos};
use crate::workload::SizeRange;
use serde::{Deserialize, Serialize};

/// The way in which a step chooses among the files that exist.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Each with the same probability.
    Uniform,
    /// The file of rank k with a probability that is proportional to 1 / k^skew.
    Zipf(f64),
    /// The one that was created last.
    Newest,
    /// The one that was created first.
    Oldest,
    /// One after the other.
    Next,
    /// A few files often, the others seldom; uniform among both.
    Hot {
        /// The share of the files that are chosen often.
        files: f64,
        /// The share of the choices that are of them.
        choices: f64,
    },
}

/// The flags with which a file is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags {
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_DSYNC`.
    pub dsync: bool,
    /// `O_APPEND`.
    pub append: bool,
}

/// A step, and how often it is performed when its turn comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowStep {
    /// The action.
    pub act: Act,
    /// Greater than 0, at most 1.
    pub probability: f64,
}

/// The action of a step. `set` and `to` are names of file sets, `handle` and `from` those of open files;
/// `buffer` is the size of each read or write of many, and `size` that of a single one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields with the same name mean the same everywhere, as said above")]
pub enum Act {
    /// Chooses a file and opens it for reading and writing.
    Open { set: String, choose: Choice, handle: String, flags: Flags },
    /// Creates and opens a file that does not exist; `in_order`: the next name, not a random one.
    Create { set: String, in_order: bool, handle: String, flags: Flags },
    /// Reads from the beginning until `read` returns 0.
    ReadWhole { handle: String, buffer: Bytes },
    /// Reads on where the last one ended, from the beginning again at the end.
    ReadNext { handle: String, size: Bytes },
    /// Reads at a random multiple of the size.
    ReadRandom { handle: String, size: Bytes },
    /// Writes as many bytes as the set says, from the beginning.
    WriteWhole { handle: String, buffer: Bytes },
    /// Writes at the end.
    Append { handle: String, size: SizeRange },
    /// Writes over what is there: at a random multiple of the size, or on where the last one ended.
    Overwrite { handle: String, size: Bytes, in_order: bool },
    /// fsync(2).
    Fsync { handle: String },
    /// fdatasync(2).
    Fdatasync { handle: String },
    /// close(2).
    Close { handle: String },
    /// Opens the directory of the file that the worker chose last in this set, syncs it and closes it.
    FsyncDirectory { set: String },
    /// Renames a file, to a name that does not exist or over one that does.
    Rename { set: String, choose: Choice, to: String, over: bool },
    /// Adds a name of a file.
    Link { set: String, choose: Choice, to: String },
    /// Removes a file.
    Unlink { set: String, choose: Choice },
    /// The attributes of a file, by its name.
    Stat { set: String, choose: Choice },
    /// Opens the directory of a file, reads all of its entries and closes it.
    Readdir { set: String, choose: Choice },
    /// Sets an extended attribute of this size.
    Setxattr { handle: String, size: Bytes },
    /// Maps the file, reads at a random position, and unmaps it.
    MmapRead { handle: String, size: Bytes },
    /// Maps the file, stores at a random position, and unmaps it; with msync(2) in between if `sync`.
    MmapWrite { handle: String, size: Bytes, sync: bool },
    /// Copies an open file to the beginning of another one.
    CopyFileRange { from: String, to: String },
    /// Allocates this many bytes from the beginning.
    Fallocate { handle: String, size: Bytes },
    /// Sets the size.
    Truncate { handle: String, size: Bytes },
    /// Waits.
    Think { time: Nanos },
    /// Adds one to a counter that all workers share, and waits as long as that has reached the limit.
    Post { signal: String, limit: u64 },
    /// Waits until a counter has reached `count`, and takes that from it.
    Await { signal: String, count: u64 },
    /// Performs a list several times.
    Repeat { times: u32, steps: Vec<FlowStep> },
}

impl Act {
    /// The timed operations that the step consists of.
    pub fn operations(&self) -> Vec<Operation> {
        match self {
            Act::Open { .. } => vec![Operation::Openat],
            Act::Create { .. } => vec![Operation::Create],
            Act::ReadWhole { .. } | Act::ReadNext { .. } => vec![Operation::Lseek, Operation::Read],
            Act::ReadRandom { .. } => vec![Operation::Pread],
            Act::WriteWhole { .. } => vec![Operation::Lseek, Operation::Write],
            Act::Overwrite { .. } => vec![Operation::Pwrite],
            Act::Append { .. } => vec![Operation::Lseek, Operation::Write, Operation::Ftruncate],
            Act::Fsync { .. } => vec![Operation::Fsync],
            Act::Fdatasync { .. } => vec![Operation::Fdatasync],
            Act::Close { .. } => vec![Operation::Close],
            Act::FsyncDirectory { .. } => {
                vec![Operation::Openat, Operation::FsyncDirectory, Operation::Close]
            }
            Act::Rename { .. } => vec![Operation::Renameat],
            Act::Link { .. } => vec![Operation::Linkat],
            Act::Unlink { .. } => vec![Operation::Unlinkat],
            Act::Stat { .. } => vec![Operation::Statx],
            Act::Readdir { .. } => vec![Operation::Openat, Operation::Readdir, Operation::Close],
            Act::Setxattr { .. } => vec![Operation::Fsetxattr],
            Act::MmapRead { .. } => vec![Operation::Mmap, Operation::MappedRead, Operation::Munmap],
            Act::MmapWrite { sync, .. } => {
                let all = [Operation::Mmap, Operation::MappedWrite, Operation::Msync, Operation::Munmap];
                all.into_iter().filter(|one| *sync || *one != Operation::Msync).collect()
            }
            Act::CopyFileRange { .. } => vec![Operation::CopyFileRange],
            Act::Fallocate { .. } => vec![Operation::Fallocate],
            Act::Truncate { .. } => vec![Operation::Ftruncate],
            Act::Think { .. } | Act::Post { .. } | Act::Await { .. } => Vec::new(),
            Act::Repeat { steps, .. } => steps.iter().flat_map(|step| step.act.operations()).collect(),
        }
    }
}
