//! How far the writers of a verified load have come, and what was read again at its end.
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

/// How far a writer had come when its last phase ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reached {
    /// It wrote over the blocks of one file.
    File {
        /// The file, relative to the engine's directory.
        file: String,
        /// How many blocks it wrote.
        blocks: u64,
        /// Those of them, by number, that it wrote while an earlier write of the same block was in flight:
        /// either may have come last.
        unordered: Vec<u64>,
    },
    /// It created a tree, or was about to remove it.
    Tree {
        /// Which of the writers.
        worker: u32,
        /// How many trees it had completed and removed before.
        round: u64,
        /// Files of the tree that were complete.
        files: u64,
        /// Whether it had begun to remove them.
        removing: bool,
        /// The space that the tree may occupy, from which the sizes of its files follow, in bytes.
        space_bytes: u64,
    },
}

/// What was read again at the end of a trial. Everything was as it had been written, else the trial would
/// have failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAgain {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the filesystem had been unmounted and mounted again before; if not, what was read may have
    /// come from memory.
    pub remounted: bool,
}
