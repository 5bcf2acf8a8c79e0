//! Kernels: the machine's own, and those that guests run.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The level of the axis `kernel` that means the machine's own.
pub const HOST_KERNEL: &str = "host";
/// The prefix of the version of a kernel that Debian has packaged.
pub const DEBIAN_PREFIX: &str = "debian:";

/// Where the kernel of a guest comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSpec {
    /// The newest kernel package of this version that Debian offers: `6.1`.
    Debian {
        /// Major and minor number.
        version: String,
    },
    /// An installed one: `/boot/vmlinuz-RELEASE` with `/lib/modules/RELEASE`.
    Installed {
        /// Its release.
        release: String,
    },
    /// An image and its modules, as a build leaves them.
    Image {
        /// Its name in the plan.
        name: String,
        /// The file: `arch/x86/boot/bzImage`.
        image: PathBuf,
        /// The directory with `kernel/` and `modules.order` in it, or one filled by `make modules_install`;
        /// none for a kernel with everything built in.
        modules: Option<PathBuf>,
    },
}

impl fmt::Display for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelSpec::Debian { version } => write!(f, "{DEBIAN_PREFIX}{version}"),
            KernelSpec::Installed { release } => f.write_str(release),
            KernelSpec::Image { name, .. } => f.write_str(name),
        }
    }
}

/// The caching of a guest's disks by the machine that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskCache {
    /// Bypasses the page cache of the host, like `direct_io` for loop devices; the guest sees a write cache
    /// and flushes it.
    #[default]
    None,
    /// Through the page cache of the machine.
    Writeback,
    /// Through the page cache, and flushes are ignored.
    Unsafe,
}

impl DiskCache {
    /// Every mode.
    pub const ALL: &'static [DiskCache] = &[DiskCache::None, DiskCache::Writeback, DiskCache::Unsafe];

    /// Its name in plans, which is QEMU's.
    pub const fn name(self) -> &'static str {
        match self {
            DiskCache::None => "none",
            DiskCache::Writeback => "writeback",
            DiskCache::Unsafe => "unsafe",
        }
    }
}

/// The machine that a guest sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestShape {
    /// Its processors.
    pub processors: u32,
    /// Its memory.
    pub memory: Bytes,
    /// The caching of its disks.
    pub cache: DiskCache,
    /// `true` if it may continue from a snapshot of a booted guest, if its processors are emulated.
    pub snapshot: bool,
}

impl Default for GuestShape {
    fn default() -> Self {
        GuestShape { processors: 2, memory: Bytes(Bytes::GIB), cache: DiskCache::None, snapshot: true }
    }
}
