//! Facts about devices, files and mounts of a host, as the guards and the undo journal need them.

use fsdyno_core::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The identity of a device; compared before every destructive step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceIdentity {
    /// Device number, major and minor.
    pub number: (u32, u32),
    /// Size in bytes.
    pub size_bytes: u64,
    /// The kernel's sequence number of the disk: another one after each re-attachment (Linux 5.15).
    pub diskseq: Option<u64>,
    /// WWN or serial number, if the device has one; a partition has that of its disk.
    pub serial: Option<String>,
    /// Its position, if it is a partition.
    #[serde(default)]
    pub partition: Option<Partition>,
}

impl DeviceIdentity {
    /// Device number of the disk: a partition's disk, or the device itself.
    pub fn disk(&self) -> (u32, u32) {
        self.partition.map_or(self.number, |partition| partition.disk)
    }
}

/// The position of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Device number of its disk.
    pub disk: (u32, u32),
    /// Offset of its first byte on the disk.
    pub start_bytes: u64,
}

/// The identity of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Device number of its filesystem.
    pub device: (u32, u32),
    /// Inode number.
    pub inode: u64,
    /// Time of birth in nanoseconds since 1970, if the filesystem stores it.
    pub birth_ns: Option<i64>,
    /// `true` if it is a regular file.
    pub regular: bool,
}

/// An attached loop device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopInfo {
    /// Its node.
    pub device: PathBuf,
    /// Device number of the filesystem that holds the backing file.
    pub backing_device: (u32, u32),
    /// Inode of the backing file; 0 if its filesystem does not answer any more, like that of a recorder that
    /// was killed.
    pub backing_inode: u64,
    /// Path of the backing file as the kernel names it.
    pub backing_path: String,
    /// The kernel's sequence number of this attachment (Linux 5.15).
    pub diskseq: Option<u64>,
}

impl LoopInfo {
    /// Returns whether the filesystem of the backing file answers.
    pub const fn answers(&self) -> bool {
        self.backing_inode != 0
    }
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountInfo {
    /// Device number of the mounted filesystem; `0:N` for those without a single device, btrfs among them.
    pub device: (u32, u32),
    /// The directory of the filesystem that is mounted there; `/` unless only a part of it is.
    pub root: PathBuf,
    /// Where.
    pub target: PathBuf,
    /// Filesystem type.
    pub filesystem: String,
    /// The source as the mount names it.
    pub source: String,
    /// Options of the mount and of the superblock, joined by commas.
    pub options: String,
}

/// A use of a device that forbids touching it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// Mounted, in this or another mount namespace (with a process in it).
    Mounted {
        /// Where.
        target: String,
        /// A process that sees the mount, when it is not in this namespace.
        namespace_of_pid: Option<u32>,
    },
    /// In use as swap.
    Swap,
    /// Another block device is built on it (md, dm, bcache).
    Holder {
        /// Its name.
        name: String,
    },
    /// It is built on other block devices.
    Slave {
        /// Their name.
        name: String,
    },
    /// It has partitions.
    Partition {
        /// Name of the partition.
        name: String,
    },
    /// A process holds it open.
    OpenedBy {
        /// The process.
        pid: u32,
        /// Its name.
        command: String,
    },
    /// fsdyno itself holds it open, by a descriptor that it was started with.
    Inherited {
        /// The descriptor.
        descriptor: i32,
    },
    /// Another device provides access to the same bytes, and is in use.
    Alias {
        /// The other device.
        name: String,
        /// The use of the other device.
        how: String,
    },
    /// A member of a mounted multi-device filesystem (btrfs).
    Member {
        /// Filesystem type.
        filesystem: String,
        /// Its identifier.
        uuid: String,
    },
    /// It carries, directly or through layers, something that the machine or fsdyno needs.
    Carries {
        /// `/`, `/boot`, swap, the store, the binary.
        what: String,
    },
    /// It is read-only.
    ReadOnly,
    /// The kernel exports it to other machines (nvmet, LIO, a USB gadget), or is set up to.
    Exported {
        /// Which target exports it: `the NVMe target 'nqn.x', namespace 1`.
        by: String,
    },
    /// A system table names it, so that it may be mounted or opened at any time.
    Configured {
        /// Which table: `/etc/fstab`.
        table: String,
        /// The purpose of the entry: `/srv`, `swap`, the name of a mapping.
        purpose: String,
    },
}

/// The kind of a [`Signature`] that is data without any signature.
pub const UNKNOWN_DATA: &str = "unknown-data";
/// The kind of the mark that fsdyno itself leaves on a disk ([`crate::Steps::mark_device`]).
pub const SCRATCH_MARK: &str = "fsdyno-scratch";

/// The evidence that a device contains something: a filesystem, a member of an array, a partition table, or
/// data of unknown kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// As libblkid names it (`ext4`, `crypto_LUKS`, `LVM2_member`, `dos`), or [`UNKNOWN_DATA`], or
    /// [`SCRATCH_MARK`].
    pub kind: String,
    /// Where on the device it was found, in bytes.
    pub offset: u64,
    /// The identifier of what is there, as libblkid writes it.
    pub uuid: Option<String>,
    /// Its name: a filesystem's label, an array's name, the volume group of a physical volume.
    pub label: Option<String>,
    /// Where it was last mounted, for filesystems that record it (ext2, ext3, ext4).
    pub last_mount: Option<String>,
}

impl Signature {
    /// A signature of which only the kind is known.
    pub fn new(kind: &str) -> Self {
        Signature { kind: kind.to_string(), ..Signature::default() }
    }
}

/// The free space in the filesystem of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Bytes free for an unprivileged user.
    pub free: Bytes,
    /// Total bytes.
    pub size: Bytes,
    /// Device number of the filesystem as its mount shows it: the same for all subvolumes of a btrfs.
    pub device: (u32, u32),
    /// `true` if the filesystem lives in memory.
    pub in_memory: bool,
    /// Other data there that fsdyno needs space for: `the store`.
    pub shared_with: Vec<String>,
}

/// Everything that the guards need to know about a device. A fact that could not be determined is listed in
/// `unknown`, and counts as a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProbe {
    /// The path as given.
    pub path: PathBuf,
    /// The path with links resolved.
    pub canonical: PathBuf,
    /// `true` if it is a block device at all.
    pub block: bool,
    /// Which device.
    pub identity: DeviceIdentity,
    /// Model, or the backing file of a loop device.
    pub model: String,
    /// Every use that forbids touching it.
    pub uses: Vec<Use>,
    /// Other partitions of its disk that are in use, each with its use: `'sda1', which is mounted at '/'`.
    #[serde(default)]
    pub shared_with: Vec<String>,
    /// The evidence that it contains something.
    pub signatures: Vec<Signature>,
    /// Its logical block size.
    #[serde(default)]
    pub sector_bytes: u64,
    /// The facts that could not be determined, and why.
    pub unknown: Vec<String>,
}

impl DeviceProbe {
    /// Its size.
    pub fn size(&self) -> Bytes {
        Bytes(self.identity.size_bytes)
    }
}
