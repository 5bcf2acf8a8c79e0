//! Confounders that a reader of a result must know about.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the kinds of warning once: variant, printed name, and meaning.
macro_rules! warnings {
    ($($variant:ident = $name:literal: $meaning:literal;)*) => {
        /// What kind of confounder.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum WarningKind {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
        }

        impl WarningKind {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [WarningKind] = &[$(WarningKind::$variant),*];

            /// The name in JSON and reports.
            pub const fn name(self) -> &'static str {
                match self { $(WarningKind::$variant => $name,)* }
            }

            /// What it means, for the reference.
            pub const fn meaning(self) -> &'static str {
                match self { $(WarningKind::$variant => $meaning,)* }
            }
        }
    };
}

warnings! {
    CachesNotDropped = "caches-not-dropped":
        "the page cache could not be dropped, so reads may come from memory";
    NotRemounted = "not-remounted":
        "the filesystem stayed mounted, although the workload calls for unmounting and mounting it again";
    CacheNotWarm = "cache-not-warm":
        "not everything that the plan wants in memory at the beginning of a phase stayed there";
    TreeSmallerThanMemory = "tree-smaller-than-memory":
        "the tree fits into memory, so later passes may come from the page cache";
    MemoryNotLimited = "memory-not-limited":
        "the load could use all memory, although the plan limits it";
    ReaderPasses = "reader-passes": "readers reached the end of their data and started again";
    WriterRounds = "writer-rounds":
        "writers used up their space, and removed or wrote over what they had written to continue";
    OptionNotInForce = "option-not-in-force": "an option that was requested is not in force";
    NameMapped = "name-mapped": "a name in the plan was mapped to its successor";
    NearestEquivalent = "nearest-equivalent":
        "the plan reproduces a study, and this setting is the closest available to the one in the study";
    Censored = "censored": "some operations had not ended at the drain limit";
    LateFailure = "late-failure": "an operation failed after the window, when nothing counted any more";
    SlowTimer = "slow-timer": "the timer is not the TSC, so timing costs more";
    FigureMissing = "figure-missing":
        "a program reported no figure, or only a coarse one, for part of its work";
    Imported = "imported":
        "the trial was not run by fsdyno; its figures come from a file, which does not contain everything";
    Durability = "durability": "the settings weaken what survives a power cut";
    ImageShape = "image-shape":
        "the image is on a filesystem where one with other sectors, or one that was written first, was faster or slower";
    PageCache = "page-cache": "bytes were read from the page cache instead of the device";
    NotThrottled = "not-throttled":
        "writers were still faster than the device when the ramp ended: their window includes what memory took";
    WriteCacheAbsorbed = "write-cache-absorbed":
        "bytes were written to the page cache and did not reach the device while they were measured";
    HostCache = "host-cache":
        "the host's memory stands behind the device: an image in memory, or one that the host caches";
    ForeignLoad = "foreign-load": "other processes used processor time";
    LazyInitialisation = "lazy-initialisation":
        "the kernel initialised a filesystem in the background during the measurement";
    ProcessorsSaturated = "processors-saturated": "the workers used all processors";
    StealTime = "steal-time": "a hypervisor gave processor time to other guests";
    OtherIo = "other-io": "other processes read and wrote block devices";
    SharedDisk = "shared-disk": "other partitions of the disk are in use";
    Compression = "compression": "the filesystem compresses, and the content compresses well";
    WriteCache = "write-cache": "a volatile write cache is not flushed, or its state is unknown";
    StillWide = "still-wide":
        "a case was repeated as often as the plan allows, and its interval is still wider than the plan requires";
    CheckFailed = "check-failed": "the filesystem check found errors";
    NotChecked = "not-checked": "the filesystem has no check, so it is unknown whether it is still consistent";
    StillMounted = "still-mounted":
        "another mount namespace, such as that of a container, kept the filesystem mounted when fsdyno unmounted it";
    GarbageCollection = "garbage-collection": "the filesystem's garbage collector did not run";
    Emulation = "emulation":
        "a guest ran on emulated processors; only ratios between such guests are meaningful";
    LeftBehind = "left-behind": "a change to the machine could not be undone";
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A confounder, stored with its trial and shown in every report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What kind.
    pub kind: WarningKind,
    /// One line of text.
    pub text: String,
}

impl Warning {
    /// A warning of this kind.
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Self {
        Warning { kind, text: text.into() }
    }
}
