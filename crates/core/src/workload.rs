//! Workloads as a plan describes them and the engine executes them.

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// A workload with all its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Readers through trees of small files, then writers beside them (FsOpBench, 2009).
    Fileserver(Fileserver),
    /// Everything that a workload does but the syscall: what the tool itself costs.
    Null(Null),
}

impl Workload {
    /// The kinds that a plan may name.
    pub const KINDS: &'static [&'static str] = &["fileserver", "null"];

    /// The name in plans and results.
    pub const fn kind(&self) -> &'static str {
        match self {
            Workload::Fileserver(_) => "fileserver",
            Workload::Null(_) => "null",
        }
    }
}

/// Parameters of the fileserver workload. Sizes in bytes, times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fileserver {
    /// All trees together.
    pub tree_size: Bytes,
    /// Which sizes and shapes.
    pub tree: TreeModel,
    /// Readers in the phases with many; the first phase has one. One tree each, and one for the first phase.
    pub readers: u32,
    /// Writers in the last phase; 0 leaves that phase out.
    pub writers: u32,
    /// Before the window, with the same load.
    pub ramp: Nanos,
    /// The measured part.
    pub window: Nanos,
    /// How long operations in flight at the end of the window are waited for.
    pub drain_limit: Nanos,
    /// Buffer of each `read` and `write` after the first byte.
    pub io_size: Bytes,
    /// Whether files are opened with `O_DIRECT`; sizes are then rounded up to whole 4 KiB.
    pub direct: bool,
    /// What the files contain.
    pub content: Content,
    /// What one writer may occupy before it removes its tree and starts anew; none: the free space decides.
    pub writer_space: Option<Bytes>,
}

impl Default for Fileserver {
    fn default() -> Self {
        Fileserver {
            tree_size: Bytes(20 * Bytes::GIB),
            tree: TreeModel::Home,
            readers: 3,
            writers: 3,
            ramp: Nanos::from_secs(30),
            window: Nanos::from_secs(30),
            drain_limit: Nanos::from_secs(30),
            io_size: Bytes(64 * Bytes::KIB),
            direct: false,
            content: Content::Random,
            writer_space: None,
        }
    }
}

impl Fileserver {
    /// Every parameter, with one line for the reference.
    pub const PARAMETERS: &'static [(&'static str, &'static str)] = &[
        ("tree_size", "all trees together; a share such as `50%` is of the device"),
        (
            "tree",
            "sizes and shapes: `home`, `impressions`, or `profile:FILE` with a file from `fsdyno profile`",
        ),
        ("readers", "readers in the phases with many; the first phase has one"),
        ("writers", "writers in the last phase; 0 leaves that phase out"),
        ("ramp", "load before each window"),
        ("window", "the measured part of each phase"),
        ("drain_limit", "how long operations in flight at the end of the window are waited for"),
        ("io_size", "buffer of each `read` and `write` after the first byte"),
        ("direct", "`true`: `O_DIRECT`, with sizes rounded up to whole 4 KiB"),
        ("content", "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`"),
        (
            "writer_space",
            "what one writer may occupy before it removes its tree and starts anew; by default 80 % of the \
          free space, shared by the writers",
        ),
    ];
}

/// Parameters of the null workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Null {
    /// Workers at once.
    pub workers: u32,
    /// Before the window.
    pub ramp: Nanos,
    /// The measured part.
    pub window: Nanos,
}

impl Default for Null {
    fn default() -> Self {
        Null { workers: 1, ramp: Nanos::from_millis(10), window: Nanos::from_millis(100) }
    }
}

/// What files contain. No two files share a block, whatever the content but zeros.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Incompressible.
    Random,
    /// Zeros only.
    Zeros,
    /// This share of each block, 0 to 1, is zeros.
    Compressible(f64),
}

/// Where the sizes of files and the shape of directories come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeModel {
    /// Home directories as the 2009 tables imply them: mean 38 KB, 10.8 files per directory.
    Home,
    /// Agrawal et al., "Generating Realistic Impressions for File-System Benchmarking", FAST 2009.
    Impressions,
    /// Scanned from a real directory by `fsdyno profile`.
    Profile(Box<Profile>),
}

impl TreeModel {
    /// The name in plans and results.
    pub fn name(&self) -> &str {
        match self {
            TreeModel::Home => "home",
            TreeModel::Impressions => "impressions",
            TreeModel::Profile(_) => "profile",
        }
    }
}

/// The shape of a real directory tree: four histograms, nothing that identifies its owner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Regular files scanned.
    pub files: u64,
    /// Directories scanned, the top one included.
    pub directories: u64,
    /// Sum of the sizes of regular files, in bytes.
    pub bytes: u64,
    /// Names and directories that could not be looked at, and so are missing.
    #[serde(default)]
    pub unreadable: u64,
    /// Files by size in bytes.
    pub file_size_bytes: Vec<Bin>,
    /// Directories by the number of regular files in them.
    pub files_per_directory: Vec<Bin>,
    /// Directories by the number of directories in them.
    pub directories_per_directory: Vec<Bin>,
    /// Regular files by depth below the top (1: directly in it).
    pub depth: Vec<Bin>,
    /// Regular files by the length of their names in bytes.
    pub name_length_bytes: Vec<Bin>,
}

/// One bin of a histogram: values from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bin {
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
    /// How many.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_described() {
        let value = serde_json::to_value(Fileserver::default()).unwrap();
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut described: Vec<&str> = Fileserver::PARAMETERS.iter().map(|(name, _)| *name).collect();
        keys.sort_unstable();
        described.sort_unstable();
        assert_eq!(keys, described);
    }
}
