//! Confounders that a reader of a result must know.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the kinds of warning once: variant and printed name.
macro_rules! warnings {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// What kind of confounder.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum WarningKind {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl WarningKind {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [WarningKind] = &[$(WarningKind::$variant),*];

            /// The name in JSON and reports.
            pub const fn name(self) -> &'static str {
                match self { $(WarningKind::$variant => $name,)* }
            }
        }
    };
}

warnings! {
    /// The page cache could not be dropped, so reads may come from memory.
    CachesNotDropped = "caches-not-dropped";
    /// The filesystem stayed mounted where the workload would have it unmounted and mounted again.
    NotRemounted = "not-remounted";
    /// The tree fits into memory, so later passes may read from the page cache.
    TreeSmallerThanMemory = "tree-smaller-than-memory";
    /// Readers came to the end of what they read and began again.
    ReaderPasses = "reader-passes";
    /// Writers used up their space and removed what they had written to go on.
    WriterRounds = "writer-rounds";
    /// An option that was asked for is not in force.
    OptionNotInForce = "option-not-in-force";
    /// A name in the plan was mapped to its successor.
    NameMapped = "name-mapped";
    /// The plan runs a study again, and this is the nearest to what the study had.
    NearestEquivalent = "nearest-equivalent";
    /// Some operations had not ended when the drain limit passed.
    Censored = "censored";
    /// The timer is not the TSC, so timing costs more.
    SlowTimer = "slow-timer";
    /// A program gave no figure for a part of its work, or one that is coarse.
    FigureMissing = "figure-missing";
    /// The trial was not run by fsdyno: its figures come from a file, which does not tell everything.
    Imported = "imported";
    /// The settings weaken what survives a power cut.
    Durability = "durability";
    /// Bytes that were read came from the page cache and not from the device.
    PageCache = "page-cache";
    /// The kernel initialised a filesystem in the background.
    LazyInitialisation = "lazy-initialisation";
    /// The workers used all processors.
    ProcessorsSaturated = "processors-saturated";
    /// A hypervisor gave processor time to others.
    StealTime = "steal-time";
    /// Other processes read and wrote block devices.
    OtherIo = "other-io";
    /// Others use other partitions of the disk.
    SharedDisk = "shared-disk";
    /// The filesystem compresses, and the content compresses well.
    Compression = "compression";
    /// A volatile write cache is not flushed, or its state is not known.
    WriteCache = "write-cache";
    /// A case was repeated as often as the plan allows, and its interval is still wider than the plan asks for.
    StillWide = "still-wide";
    /// The filesystem check found something.
    CheckFailed = "check-failed";
    /// The filesystem has no check, so that nothing tells whether it came out sound.
    NotChecked = "not-checked";
    /// The garbage collector that belongs to the filesystem did not run.
    GarbageCollection = "garbage-collection";
    /// A guest ran on emulated processors: only ratios between trials of such guests mean something.
    Emulation = "emulation";
    /// Something could not be undone and is left behind.
    LeftBehind = "left-behind";
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
    /// One line for a person.
    pub text: String,
}

impl Warning {
    /// A warning of this kind.
    pub fn new(kind: WarningKind, text: impl Into<String>) -> Self {
        Warning { kind, text: text.into() }
    }
}
