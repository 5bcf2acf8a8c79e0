//! The axes: every setting that a plan may vary, declared once.
//!
//! This table serves plan parsing, error messages, the reference documentation and every display. The
//! testbed, with one file per filesystem, knows how a level is passed to `mkfs`, `mount` or sysfs; an axis
//! only defines its levels and the filesystems that it applies to. Levels are stored as text in a canonical
//! form (`4096` and `4K` both become `4k`), so that two plans with the same meaning compare equal.

mod levels;
mod queue;

use crate::cache::CacheState;
use crate::filesystem;
use crate::hazard::{Hazard, NO_JOURNAL};
use crate::kernel::HOST_KERNEL;
use crate::profile;
use crate::scheduler;
use crate::sysctl;
use crate::{alternatives, did_you_mean};
pub use levels::Levels;
use levels::METHODS;
pub use queue::{QUEUE, QueueAttribute, QueueContent};

/// One setting that a plan may vary.
#[derive(Debug, PartialEq)]
pub struct Axis {
    /// The key in a plan.
    pub name: &'static str,
    /// The kind of its levels.
    pub levels: Levels,
    /// `true` if every filesystem has this setting. Otherwise it applies to those filesystems whose
    /// descriptor names it.
    pub general: bool,
    /// The level if the plan does not set one and the filesystem has no default of its own; absent if it
    /// depends on the machine or the device.
    pub default: Option<&'static str>,
    /// The effect of its levels on durability; that of a sysctl depends on its key.
    pub hazard: Hazard,
    /// One sentence for the reference.
    pub help: &'static str,
}

/// The level that leaves a setting to mkfs, mount or the kernel.
pub const DEFAULT: &str = "default";

/// The axis that limits memory.
pub const MEMORY: &str = "memory";

/// The axis of what is in memory when reading begins.
pub const CACHE: &str = "cache";
/// The axis that says whether the kernel flushes disks.
pub const WRITE_CACHE: &str = "write_cache";
/// The axis that says where the journal is.
pub const JOURNAL: &str = "journal";

/// The axis that says when an NFS server answers.
pub const EXPORT: &str = "export";
/// The axis that says whether clients mount with `sync`.
pub const CLIENT_SYNC: &str = "client_sync";

/// The axes that say how the load runs, rather than what it runs on: they apply to a directory, too.
pub const OF_THE_LOAD: [&str; 2] = [MEMORY, CACHE];

/// The axes that describe the situation of a load rather than a choice: how full and how old a filesystem is,
/// and what memory it has. None is recommended.
pub const CONDITIONS: [&str; 4] = [MEMORY, CACHE, "fill", "age"];

/// The axes of a filesystem that a server shows to clients (`[serve]`).
pub const OF_SERVING: [&str; 7] =
    [EXPORT, "nfs_version", "nfsd_threads", CLIENT_SYNC, "rsize", "wsize", "nconnect"];

/// The axes besides those of a queue that leave no trace in the files that a load prepares.
const WITHOUT_TRACE: [&str; 8] =
    [CACHE, "atime", "barrier", "commit", "journal_async_commit", "logbufs", "logbsize", "flushoncommit"];

/// Every axis, in the order of displays and of the default nesting of cases.
pub static AXES: &[Axis] = &[
    Axis {
        name: "filesystem",
        levels: Levels::Filesystem,
        general: true,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "the filesystem to create",
    },
    Axis {
        name: "kernel",
        levels: Levels::Kernel,
        general: true,
        default: Some(HOST_KERNEL),
        hazard: Hazard::Harmless,
        help: "the kernel to run trials on: the host's own, or another one in a virtual machine",
    },
    Axis {
        name: "block_size",
        levels: Levels::Size,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "filesystem block size (ext `-b`, xfs `-b size=`, btrfs `--sectorsize`; the cluster size for \
            vfat, exfat and ntfs)",
    },
    Axis {
        name: "scheduler",
        levels: Levels::Words(&scheduler::NAMES),
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "I/O scheduler of the device",
    },
    Axis {
        name: "readahead",
        levels: Levels::Size,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "readahead of the device (`queue/read_ahead_kb`)",
    },
    Axis {
        name: "nr_requests",
        levels: Levels::Count,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "requests that the scheduler may queue (`queue/nr_requests`)",
    },
    Axis {
        name: "max_request",
        levels: Levels::Size,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "the largest request that the block layer sends to a disk (`queue/max_sectors_kb`)",
    },
    Axis {
        name: "rq_affinity",
        levels: Levels::Words(&["0", "1", "2"]),
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "which processor completes a request (`queue/rq_affinity`): with 0 the one that is interrupted, \
            with 1 one that shares a cache with the one that sent it, with 2 that very one",
    },
    Axis {
        name: "merges",
        levels: Levels::Words(&queue::MERGES),
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "which requests the block layer tries to merge with those that wait (`queue/nomerges`): `all`; \
            `simple`, only with the one that it merged with last; or `none`",
    },
    Axis {
        name: WRITE_CACHE,
        levels: Levels::Words(&["write-back", "write-through"]),
        general: true,
        default: None,
        hazard: Hazard::By(&[
            (&["write-back"], Hazard::Harmless),
            (
                &["write-through"],
                Hazard::Weakens(
                    "write_cache = write-through: the disk is never flushed, and a power cut loses what its \
                     cache holds",
                ),
            ),
        ]),
        help: "what the kernel takes a disk's cache for (`queue/write_cache`): with `write-through` it sends \
            no flushes, which is safe only if the cache survives a power cut",
    },
    Axis {
        name: MEMORY,
        levels: Levels::Size,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "memory of the load and of the page cache that it fills, limited by a memory cgroup",
    },
    Axis {
        name: CACHE,
        levels: Levels::Words(&CacheState::NAMES),
        general: true,
        default: Some(CacheState::Cold.name()),
        hazard: Hazard::Harmless,
        help: "what is in memory when a phase of `fileserver`, `streaming`, `collection`, `scan` or a flow begins \
            to read files: nothing, directories and inodes, or all that fits",
    },
    Axis {
        name: "atime",
        levels: Levels::Words(&["strictatime", "relatime", "noatime", "nodiratime"]),
        general: true,
        default: Some("relatime"),
        hazard: Hazard::OfItsWords,
        help: "when a read updates the access time. Files of a trial are new, so that with `relatime` the first read of each updates it, which a server does once a day: a gain of `noatime` is an upper bound",
    },
    Axis {
        name: "barrier",
        levels: Levels::Switch,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "cache flushes around commits; with 0, a power cut may corrupt the filesystem",
    },
    Axis {
        name: JOURNAL,
        levels: Levels::Journal,
        general: false,
        default: None,
        hazard: Hazard::By(&[(&["internal", "external"], Hazard::Harmless), (&["none"], NO_JOURNAL)]),
        help: "location of the journal (ext) or log (xfs): `internal`, `external` (a device from \
            `[device.journals]`) or `none`",
    },
    Axis {
        name: "data",
        levels: Levels::Words(&["journal", "ordered", "writeback"]),
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "journaling mode for file data",
    },
    Axis {
        name: "commit",
        levels: Levels::Seconds,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "seconds between periodic commits",
    },
    Axis {
        name: "delalloc",
        levels: Levels::Switch,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "delayed allocation",
    },
    Axis {
        name: "journal_async_commit",
        levels: Levels::Switch,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "write the commit block without waiting for the other journal blocks; not possible with \
            data=ordered",
    },
    Axis {
        name: "journal_size",
        levels: Levels::Size,
        general: false,
        default: None,
        hazard: Hazard::Harmless,
        help: "size of the journal (ext `-J size=`, jfs `-s`, reiserfs `-s`)",
    },
    Axis {
        name: "inode_size",
        levels: Levels::Size,
        general: false,
        default: None,
        hazard: Hazard::Harmless,
        help: "inode size (`-I`)",
    },
    Axis {
        name: "agcount",
        levels: Levels::Count,
        general: false,
        default: None,
        hazard: Hazard::Harmless,
        help: "number of allocation groups (`-d agcount=`)",
    },
    Axis {
        name: "log_size",
        levels: Levels::Size,
        general: false,
        default: None,
        hazard: Hazard::Harmless,
        help: "log size (`-l size=`)",
    },
    Axis {
        name: "logbufs",
        levels: Levels::Count,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "number of in-memory log buffers, 2 to 8 (mount `logbufs=`)",
    },
    Axis {
        name: "logbsize",
        levels: Levels::Size,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "size of each log buffer, 16k to 256k (mount `logbsize=`)",
    },
    Axis {
        name: "lazy_count",
        levels: Levels::Switch,
        general: false,
        default: None,
        hazard: Hazard::Harmless,
        help: "lazy superblock counters (`-l lazy-count=`)",
    },
    Axis {
        name: "compress",
        levels: Levels::Compression,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "compression of file data",
    },
    Axis {
        name: "datacow",
        levels: Levels::Switch,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "copy-on-write for file data",
    },
    Axis {
        name: "flushoncommit",
        levels: Levels::Switch,
        general: false,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "whether each commit writes the data of all files first, so that it is a consistent snapshot",
    },
    Axis {
        name: "profile",
        levels: Levels::Words(&profile::NAMES),
        general: false,
        default: None,
        hazard: profile::HAZARD,
        help: "metadata profile: one copy or two, or how they lie on the disks of a pool (`--metadata`)",
    },
    Axis {
        name: "data_profile",
        levels: Levels::Words(&profile::NAMES),
        general: false,
        default: None,
        hazard: profile::HAZARD,
        help: "data profile: one copy or two, or how they lie on the disks of a pool (`--data`)",
    },
    Axis {
        name: EXPORT,
        levels: Levels::Words(&["sync", "async"]),
        general: true,
        default: Some("sync"),
        hazard: Hazard::By(&[
            (&["sync"], Hazard::Harmless),
            (
                &["async"],
                Hazard::Weakens(
                    "export=async: the server answers before data is on the disk, so a power cut of the \
                     server may lose what clients have synced",
                ),
            ),
        ]),
        help: "when an NFS server answers: once what it was sent is on the disk, or before that",
    },
    Axis {
        name: "nfs_version",
        levels: Levels::Words(&["3", "4.0", "4.1", "4.2"]),
        general: true,
        default: Some("4.2"),
        hazard: Hazard::Harmless,
        help: "version of the NFS protocol that clients use (nfs(5), `vers=`)",
    },
    Axis {
        name: "nfsd_threads",
        levels: Levels::Count,
        general: true,
        default: Some("8"),
        hazard: Hazard::Harmless,
        help: "threads of the NFS server (nfsd(8))",
    },
    Axis {
        name: CLIENT_SYNC,
        levels: Levels::Switch,
        general: true,
        default: Some("0"),
        hazard: Hazard::Harmless,
        help: "whether clients mount with `sync`: each write then waits for the server",
    },
    Axis {
        name: "rsize",
        levels: Levels::Size,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "the most that a client reads at a time (nfs(5), `rsize=`)",
    },
    Axis {
        name: "wsize",
        levels: Levels::Size,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "the most that a client writes at a time (nfs(5), `wsize=`)",
    },
    Axis {
        name: "nconnect",
        levels: Levels::Count,
        general: true,
        default: Some("1"),
        hazard: Hazard::Harmless,
        help: "connections of each client to the server, 1 to 16 (nfs(5), `nconnect=`)",
    },
    Axis {
        name: "fill",
        levels: Levels::Percent,
        general: true,
        default: None,
        hazard: Hazard::Harmless,
        help: "how full to make the filesystem before measuring, using files from the model `home`",
    },
    Axis {
        name: "age",
        levels: Levels::Count,
        general: true,
        default: Some("0"),
        hazard: Hazard::Harmless,
        help: "rounds of ageing before measuring; each round replaces a random half of the files from `fill`",
    },
    Axis {
        name: "mkfs",
        levels: Levels::Text,
        general: true,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "additional mkfs options, as typed",
    },
    Axis {
        name: "mount",
        levels: Levels::Text,
        general: true,
        default: None,
        hazard: Hazard::OfItsWords,
        help: "additional mount options, comma-separated",
    },
];

/// Prefix of the axes that set a sysctl: `sysctl.vm.dirty_ratio`.
pub const SYSCTL_PREFIX: &str = "sysctl.";

static SYSCTL: Axis = Axis {
    name: "sysctl",
    levels: Levels::Sysctl,
    general: true,
    default: None,
    hazard: Hazard::Unknown,
    help: "a sysctl, such as `sysctl.vm.dirty_ratio`",
};

/// Why an axis name or a level was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// No axis has this name.
    #[error("unknown axis '{name}'{}", alternatives(nearest, AXES.iter().map(|axis| axis.name)))]
    UnknownAxis {
        /// As written.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// A name under `sysctl.` that is not a valid sysctl key.
    #[error("'{name}' is not a valid sysctl: a key consists of words of a-z, 0-9, _ and -, joined by dots")]
    SysctlKey {
        /// As written.
        name: String,
    },
    /// The axis exists but has no such level.
    #[error(
        "invalid level '{level}' for axis '{axis}'; expected {expected}{}{answer}",
        did_you_mean(nearest)
    )]
    UnknownLevel {
        /// The axis.
        axis: String,
        /// As written.
        level: String,
        /// The description of a valid level.
        expected: String,
        /// The nearest known level.
        nearest: Option<String>,
        /// The steps to measure a filesystem that fsdyno does not build.
        answer: String,
    },
}

/// The axis of this name. A key of a sysctl under `sysctl.` is always one.
///
/// # Errors
/// [`AxisError::UnknownAxis`] with the nearest known name, [`AxisError::SysctlKey`].
pub fn find(name: &str) -> Result<&'static Axis, AxisError> {
    match name.strip_prefix(SYSCTL_PREFIX) {
        Some(key) if sysctl::is_key(key) => return Ok(&SYSCTL),
        Some(_) => return Err(AxisError::SysctlKey { name: name.to_string() }),
        None => {}
    }
    AXES.iter().find(|axis| axis.name == name).ok_or_else(|| AxisError::UnknownAxis {
        name: name.to_string(),
        nearest: crate::nearest(name, AXES.iter().map(|axis| axis.name)).map(str::to_string),
    })
}

/// Returns whether a filesystem with this level of an axis is the same as without it. An imported table has
/// axes of its own.
pub fn is_default(name: &str, filesystem: &str, level: &str) -> bool {
    level == DEFAULT || find(name).is_ok_and(|axis| axis.is_default(filesystem, level))
}

/// Returns false for an axis that leaves no trace in the files that a load prepares: whatever its level, the
/// same blocks are written to the same places. `data` is not among them, because ext4 does not delay
/// allocation with `data=journal`; neither are memory and the sysctls of writeback, which decide how much is
/// allocated at a time.
pub fn leaves_trace(name: &str) -> bool {
    !WITHOUT_TRACE.contains(&name) && QUEUE.iter().all(|attribute| attribute.axis != name)
}

/// A level in canonical form, with a note if an old name was mapped to the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The canonical text.
    pub text: String,
    /// The change to the user's word, and the reason for it.
    pub note: Option<String>,
}

impl Axis {
    /// Brings a level into canonical form.
    ///
    /// # Errors
    /// [`AxisError::UnknownLevel`] when the axis has no such level.
    pub fn level(&self, text: &str) -> Result<Level, AxisError> {
        let plain = |text: String| Ok(Level { text, note: None });
        let lower = text.trim().to_lowercase();
        if lower == DEFAULT {
            return plain(lower);
        }
        if self.name == "scheduler"
            && let Some((now, why)) = scheduler::renamed(&lower)
        {
            let note = Some(format!("{lower} -> {}: {why}", now.name));
            return Ok(Level { text: now.name.to_string(), note });
        }
        let canonical = self.levels.canonical(text.trim());
        match canonical {
            Some(text) => plain(text),
            None => {
                let (nearest, answer) = match self.levels {
                    Levels::Filesystem => filesystem::unknown(text.trim()),
                    Levels::Words(words) => (crate::nearest(text, words.iter().copied()), String::new()),
                    Levels::Compression => {
                        (crate::nearest(text, METHODS.map(|(method, _)| method)), String::new())
                    }
                    _ => (None, String::new()),
                };
                Err(AxisError::UnknownLevel {
                    axis: self.name.to_string(),
                    level: text.to_string(),
                    expected: self.levels.expected(),
                    nearest: nearest.map(str::to_string),
                    answer,
                })
            }
        }
    }

    /// The level that this filesystem has if the plan sets none, in canonical form; `None` if it depends on
    /// the machine or the device.
    pub fn default_level(&self, filesystem: &str) -> Option<&'static str> {
        let own = filesystem::find(filesystem).and_then(|known| known.own_axis(self.name));
        match own {
            Some(own) => own.default,
            None => self.default.filter(|_| self.general),
        }
    }

    /// Returns whether a filesystem with this level is the same as without it.
    pub fn is_default(&self, filesystem: &str, level: &str) -> bool {
        level == DEFAULT || self.default_level(filesystem) == Some(level)
    }

    /// Returns whether the setting exists for this filesystem.
    pub fn applies_to(&self, filesystem: &str) -> bool {
        self.general || filesystem::find(filesystem).is_some_and(|known| known.own_axis(self.name).is_some())
    }

    /// The filesystems that have this setting, by their names.
    pub fn filesystems(&self) -> impl Iterator<Item = &'static str> {
        filesystem::names().filter(|name| self.applies_to(name))
    }
}

#[cfg(test)]
mod tests;
