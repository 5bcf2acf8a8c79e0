//! Names that fsdyno makes: 128 random bits, so that nobody else has them.

use fsdyno_core::protocol::MOUNT_PREFIX;
use std::path::{Component, Path, PathBuf};

/// Where cgroups are mounted (cgroups(7)).
const CGROUPS: &str = "/sys/fs/cgroup";
const ID_DIGITS: usize = 32;

/// 128 random bits in hexadecimal: a name that nobody else has.
pub(crate) fn random_name() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Where a trial mounts its filesystem.
pub(crate) fn mount_directory(name: &str) -> PathBuf {
    PathBuf::from(format!("{MOUNT_PREFIX}{name}"))
}

/// A memory cgroup below another one.
pub(crate) fn memory_group(parent: &Path) -> PathBuf {
    parent.join(format!("fsdyno-{}", random_name()))
}

/// An instance of the kernel's tracing.
pub(crate) fn trace_instance() -> String {
    format!("fsdyno-{}", random_name())
}

/// Returns whether memory cgroups of ours may be at a path or below it.
pub(crate) fn may_hold_groups(path: &Path) -> bool {
    is_straight(path) && path.starts_with(CGROUPS)
}

/// Returns whether a path is that of a memory cgroup of ours.
pub(crate) fn is_memory_group(path: &Path) -> bool {
    may_hold_groups(path) && has_name(path, "fsdyno-")
}

/// Returns whether a path begins at the root and contains no NUL.
pub(crate) fn is_absolute(path: &Path) -> bool {
    path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&0)
}

/// Returns whether an absolute path also contains no `..`, so that it stays below its root.
pub(crate) fn is_straight(path: &Path) -> bool {
    let straight = |component| matches!(component, Component::RootDir | Component::Normal(_));
    is_absolute(path) && path.components().all(straight)
}

/// Returns whether a path is one where trials are mounted.
pub(crate) fn is_mount_directory(path: &Path) -> bool {
    let name = path.to_str().and_then(|path| path.strip_prefix(MOUNT_PREFIX));
    name.is_some_and(is_id)
}

/// Returns whether the last name of a path is this prefix and 128 bits in hexadecimal.
pub(crate) fn has_name(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(prefix)).is_some_and(is_id)
}

/// Returns whether these digits are 128 bits in hexadecimal.
pub(crate) fn is_id(digits: &str) -> bool {
    digits.len() == ID_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
