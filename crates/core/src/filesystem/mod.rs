//! The filesystems: everything about each that does not depend on a machine, declared once.
//!
//! A filesystem consists of a descriptor here and a type in the testbed that knows the command lines of its
//! tools. Axes, the names of kernel threads, the options that switch barriers off, the reference and the
//! tests all follow from the descriptor. Each half has a file of the same name, and one line in
//! `for_each_filesystem` registers both.

use crate::Tool;
use crate::telemetry::TaskKind;

/// Calls a macro with the modules of all families of filesystems, the most common ones first. There is a
/// module of this name in `core/src/filesystem/` and another one in `testbed/src/filesystem/`; each exports
/// its `FAMILY`.
#[macro_export]
macro_rules! for_each_filesystem {
    ($register:ident) => {
        $register! {
            ext
            xfs
            btrfs
            f2fs
            nilfs2
            jfs
            reiserfs
            vfat
            exfat
            ntfs
            bcachefs
        }
    };
}

macro_rules! register {
    ($($family:ident)*) => {
        $(mod $family;)*
        static FAMILIES: &[&[Descriptor]] = &[$($family::FAMILY),*];
    };
}
for_each_filesystem!(register);

/// The facts about a filesystem that do not depend on a machine.
#[derive(Debug, PartialEq)]
pub struct Descriptor {
    /// Its name in plans, and the one by which libblkid knows it.
    pub name: &'static str,
    /// Its type in the kernel, with which it is mounted (`/proc/filesystems`).
    pub kernel_type: &'static str,
    /// The kernel's module for it.
    pub module: &'static str,
    /// A version of Debian's kernel that supports it.
    pub debian_kernel: &'static str,
    /// The programs that it needs; the first is its mkfs.
    pub tools: &'static [Tool],
    /// The axes that not every filesystem has, and those for which it has a default of its own.
    pub axes: &'static [OwnAxis],
    /// `true` if it has a separate journal or log, whose location can be chosen.
    pub has_journal: bool,
    /// `true` if an NFS server can export it: the contents of a file handle must suffice to find its inodes
    /// again (Documentation/filesystems/nfs/exporting.rst).
    pub is_exportable: bool,
    /// Mount options that stop it from flushing the disk's write cache (Linux, Documentation/filesystems).
    pub barrier_off: &'static [&'static str],
    /// The names of its kernel threads.
    pub threads: &'static [ThreadName],
    /// The kind of identifier that mkfs gives it, by which it is recognised later.
    pub identifier: Identifier,
}

/// An axis that a filesystem has, and the level that it has if the plan sets none; `None` if that depends on
/// the machine or the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnAxis {
    /// The axis.
    pub name: &'static str,
    /// Its default, in canonical form.
    pub default: Option<&'static str>,
}

/// An axis with a default.
const fn axis(name: &'static str, default: &'static str) -> OwnAxis {
    OwnAxis { name, default: Some(default) }
}

/// An axis whose default depends on the machine or the device.
const fn sized(name: &'static str) -> OwnAxis {
    OwnAxis { name, default: None }
}

/// The beginning of the name of a kernel thread, or of the queue for which a shared worker works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadName {
    /// Its beginning.
    pub prefix: &'static str,
    /// The kind of work that such a thread does.
    pub kind: TaskKind,
    /// `true` if the name of the device follows after the first slash, if there is one.
    pub names_device: bool,
}

impl ThreadName {
    const fn of_device(kind: TaskKind, prefix: &'static str) -> Self {
        ThreadName { prefix, kind, names_device: true }
    }

    const fn anonymous(kind: TaskKind, prefix: &'static str) -> Self {
        ThreadName { prefix, kind, names_device: false }
    }
}

/// The identifier of a filesystem, which libblkid shows as its UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier {
    /// A UUID.
    Uuid,
    /// A UUID that only its own tools show, because libblkid (util-linux 2.38) does not know the filesystem.
    HiddenUuid,
    /// A serial number of 64 bits.
    Serial64,
    /// A serial number of 32 bits.
    Serial32,
}

impl Identifier {
    /// Returns the number of hexadecimal digits of the identifier.
    pub const fn digits(self) -> usize {
        match self {
            Identifier::Uuid | Identifier::HiddenUuid => 32,
            Identifier::Serial64 => 16,
            Identifier::Serial32 => 8,
        }
    }
}

/// Every filesystem that fsdyno builds, the most common ones first.
pub fn all() -> impl Iterator<Item = &'static Descriptor> + Clone {
    FAMILIES.iter().copied().flatten()
}

/// The names of all filesystems.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    all().map(|filesystem| filesystem.name)
}

/// The filesystem of this name.
pub fn find(name: &str) -> Option<&'static Descriptor> {
    all().find(|filesystem| filesystem.name == name)
}

/// Filesystems that people ask for and fsdyno does not build, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("nfs", "nfs needs a server that exports a filesystem"),
    ("tmpfs", "tmpfs is memory, and has no device"),
    ("zfs", "zfs is not part of Linux: it needs zfs-dkms, and zpool creates its pools"),
];

/// For a name that no filesystem has: the one that was meant, or else what it takes to measure another one.
pub(crate) fn unknown(name: &str) -> (Option<&'static str>, String) {
    let name = name.to_lowercase();
    let why = ELSEWHERE.iter().find(|(known, _)| *known == name).map(|(_, why)| format!("{why}; "));
    // Of several that are equally near, the first one counts: `ext5` is hardly a typing error for `ext2`.
    match crate::nearest(&name, ["ext4"].into_iter().chain(names())) {
        Some(nearest) if why.is_none() => (Some(nearest), String::new()),
        _ => {
            let answer = format!(
                ". {}create and mount it yourself, and measure a directory on it: `fsdyno bench DIR`, or \
                 directory = \"DIR\" in [device]",
                why.unwrap_or_default()
            );
            (None, answer)
        }
    }
}

/// Returns whether one of these mount options stops this filesystem from flushing the disk's write cache. For
/// a filesystem that fsdyno does not know, the options of all others count.
pub fn switches_barriers_off<'a>(name: &str, options: impl IntoIterator<Item = &'a str>) -> bool {
    let known = find(name);
    let off = |option: &str| match known {
        Some(filesystem) => filesystem.barrier_off.contains(&option),
        None => all().any(|filesystem| filesystem.barrier_off.contains(&option)),
    };
    options.into_iter().any(off)
}

impl Descriptor {
    /// Its own entry for an axis, which overrides the general one.
    pub(crate) fn own_axis(&self, name: &str) -> Option<&'static OwnAxis> {
        self.axes.iter().find(|axis| axis.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis;

    #[test]
    fn names_are_unique_and_every_axis_exists() {
        for (index, filesystem) in all().enumerate() {
            assert!(names().take(index).all(|name| name != filesystem.name), "{}", filesystem.name);
            assert!(!filesystem.tools.is_empty());
            for own in filesystem.axes {
                let axis = axis::find(own.name).unwrap();
                let default = own.default.map(|level| axis.level(level).unwrap().text);
                assert_eq!(default.as_deref(), own.default, "{} {}", filesystem.name, own.name);
            }
        }
    }

    #[test]
    fn filesystems_switch_barriers_off_with_different_options() {
        assert!(switches_barriers_off("ext4", ["rw", "nobarrier"]));
        assert!(switches_barriers_off("ext4", ["barrier=0"]));
        assert!(switches_barriers_off("reiserfs", ["barrier=none"]));
        assert!(switches_barriers_off("some-other", ["nobarrier"]));
        assert!(!switches_barriers_off("vfat", ["rw", "noatime"]));
    }
}
