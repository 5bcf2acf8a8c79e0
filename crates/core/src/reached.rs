//! The progress of the writers of a verified load, and the files that were read again at its end.
//!
//! The content of every file follows from the seed and from how often it was written over. So a writer only
//! has to say how far it came, and whoever reads later, in another process and after the filesystem has been
//! mounted again, knows every byte.

use serde::{Deserialize, Serialize};

/// When an engine reads everything again that the load has left, and compares it with what was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reread {
    /// Another engine does, or nobody.
    #[default]
    Never,
    /// After the last phase, before it removes anything.
    AtEnd,
    /// That is all it does: the filesystem has been mounted again after the load.
    Only,
}

/// The progress of a writer when its last phase ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reached {
    /// It wrote over the blocks of one file.
    File {
        /// The file, relative to the engine's directory.
        file: String,
        /// The number of blocks that it wrote.
        blocks: u64,
        /// Those of them, by number, that it wrote while an earlier write of the same block was in flight:
        /// either may have come last.
        unordered: Vec<u64>,
    },
    /// It created a tree, or was about to remove it.
    Tree {
        /// Which of the writers.
        worker: u32,
        /// The number of trees that it had completed and removed before.
        round: u64,
        /// Files of the tree that were complete.
        files: u64,
        /// `true` if it had begun to remove the files.
        removing: bool,
        /// The space that the tree may occupy, from which the sizes of its files follow, in bytes.
        space_bytes: u64,
    },
    /// It wrote records to the segments of a log.
    Log {
        /// Which log.
        log: u32,
        /// The segment that it had come to, counted from 0.
        segment: u64,
        /// Bytes that it had written to it; `None` if it had not opened it.
        bytes: Option<u64>,
        /// `true` if it had removed the previous segment.
        removed: bool,
    },
    /// A worker of a flow had files of a set to itself. Files that are not listed are as they were made.
    Owned {
        /// The set.
        set: String,
        /// Which of its workers.
        worker: u64,
        /// Files that are not as they were made before the load.
        files: Vec<OwnedFile>,
        /// Names of files that were made before the load and exist no more.
        gone: Vec<u32>,
    },
    /// Workers of a flow wrote over blocks of the files of a set.
    Blocks {
        /// The set.
        set: String,
        /// Blocks that were written over: how far behind the one before each is, counted over all files, and
        /// the first and the last of the versions that it can have.
        versions: Vec<(u64, u32, u32)>,
        /// `true` if these are all of them. If there were too many, they are a random sample, and the others
        /// may have any version.
        all: bool,
        /// Those among them with a write that has not ended. They may have any version, or parts of several.
        torn: Vec<u64>,
    },
    /// Workers of a flow appended to the files of a set.
    Ends {
        /// The set.
        set: String,
        /// Which file, its size in bytes, and whether that is uncertain because it was emptied meanwhile:
        /// then any part may be zeros, too.
        files: Vec<(u64, u64, bool)>,
    },
}

/// A file that only one worker wrote to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedFile {
    /// The number of its name among those of the worker.
    pub name: u32,
    /// Its parts in their order: where each ends, in bytes, the identity of the file that it was written as,
    /// and its version. An identity of 0 stands for a hole. `None`: there were too many.
    pub parts: Option<Vec<(u64, u64, u32)>>,
}

/// The files that were read again at the end of a trial. Everything was as it had been written, else the
/// trial would have failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAgain {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were not read: so many had changed that only a random sample was remembered, or their
    /// worker did not finish.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Removed files that were looked for, and are gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gone: u64,
    /// `true` if the filesystem had been unmounted and mounted again before; if not, the data may have come
    /// from memory.
    pub remounted: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
