//! The published studies that fsdyno can run again: their names in plans, in reports and in reference data.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Declares the studies once: variant, name, title.
macro_rules! studies {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $title:literal;)*) => {
        /// A published study.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Study {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Study {
            /// Every study, in the order of declaration.
            pub const ALL: &'static [Study] = &[$(Study::$variant),*];

            /// The name in plans, as `study = "..."`.
            pub const fn name(self) -> &'static str {
                match self { $(Study::$variant => $name,)* }
            }

            /// Returns the subject of the study, in one line.
            pub const fn title(self) -> &'static str {
                match self { $(Study::$variant => $title,)* }
            }
        }
    };
}

studies! {
    /// XFS: the effect of each setting.
    XfsTweaks2003 = "xfs-tweaks-2003", "XFS tuning options, one at a time, measured with bonnie++ (2003)";
    /// Sequential throughput on a very large device.
    StreamingExt42008 = "streaming-ext4-2008", "ext4 and ext3 streaming one huge file to and from 56 disks \
        (2008)";
    /// Collections of files on a mirror.
    Raid12008 = "raid1-2008", "collections of small, medium and large files on RAID 1 (2008)";
    /// Competing readers and writers.
    FsOpBench2009 = "fsopbench-2009", "readers of small files competing with writers, FsOpBench (2009)";
    /// Filesystems under two I/O schedulers.
    Schedulers2009 = "schedulers-2009", "filesystems and I/O schedulers under postmark and bonnie++ (2009)";
}

/// An unknown study name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown study '{name}'")]
pub struct UnknownStudy {
    /// As written.
    pub name: String,
}

impl FromStr for Study {
    type Err = UnknownStudy;

    fn from_str(text: &str) -> Result<Self, UnknownStudy> {
        let found = Study::ALL.iter().copied().find(|study| study.name() == text);
        found.ok_or_else(|| UnknownStudy { name: text.to_string() })
    }
}

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
