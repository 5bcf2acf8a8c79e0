//! Directories for new files: opened once, without following a link of another user, and used by their
//! descriptors.

use crate::{HostError, Result};
use fsdyno_path::Directory;
use fsdyno_sys::child;
use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Directories in which programs look for files of any name, or in which a file uses kernel memory (hier(7)),
/// and those below them that are for everybody.
const OF_THE_SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/spool",
];
const FOR_EVERYBODY: &[&str] = &["/dev/shm", "/run/media", "/run/user"];
/// Where fsdyno mounts, among others a recorded disk as a file: names in `/run` that begin like this.
const OWN_MOUNTS: &str = "fsdyno-";

/// Opens a directory as a place to make files in (`O_PATH`). A plan may name any path, so it must be neither
/// the system's nor among `reserved`, each with its name, where a new file would mean something.
pub(super) fn open(path: &Path, reserved: &[(String, PathBuf)]) -> Result<Directory> {
    let directory = opened(path)?;
    let real = fs::read_link(child::path_of(directory.as_fd()))
        .map_err(|error| HostError::system("determine the real path of", path, error))?;
    match owner(&real, reserved) {
        None => Ok(directory),
        Some(owner) => Err(HostError::System {
            action: "create files in".to_string(),
            object: path.display().to_string(),
            errno: 0,
            reason: format!("it belongs to {owner}"),
        }),
    }
}

/// Checks that a file could be made in a directory. A user without privileges asks on behalf of root.
pub(super) fn verify_writable(directory: &Directory, path: &Path) -> Result<()> {
    match rustix::fs::accessat(directory, ".", Access::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(Errno::ACCESS) if !geteuid().is_root() => Ok(()),
        Err(error) => Err(HostError::system("create files in", path, error)),
    }
}

/// Checks that directories may be made in this one and used by their paths: as root only where no other user
/// can put something else in their place. Otherwise that user could, at any moment, make root write or remove
/// somewhere else.
pub(super) fn verify_uncontested(path: &Path) -> Result<()> {
    if !geteuid().is_root() || !opened(path)?.is_contested() {
        return Ok(());
    }
    Err(HostError::System {
        action: "work as root in".to_string(),
        object: path.display().to_string(),
        errno: 0,
        reason: "another user can rename what is in it, or in a directory above it".to_string(),
    })
}

fn opened(path: &Path) -> Result<Directory> {
    Directory::open(path).map_err(|error| HostError::system("open the directory", path, error))
}

/// Whose directory this is, by its real path.
fn owner<'r>(real: &Path, reserved: &'r [(String, PathBuf)]) -> Option<&'r str> {
    let within = |directories: &[&str]| directories.iter().any(|directory| real.starts_with(directory));
    let own = real
        .strip_prefix("/run")
        .is_ok_and(|below| below.as_os_str().as_encoded_bytes().starts_with(OWN_MOUNTS.as_bytes()));
    if within(OF_THE_SYSTEM) && !within(FOR_EVERYBODY) && !own {
        return Some("the system");
    }
    let contains =
        |directory: &PathBuf| fs::canonicalize(directory).is_ok_and(|found| real.starts_with(found));
    reserved.iter().find(|(_, directory)| contains(directory)).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};

    /// Entries that nobody else can rename are safe by their paths; so are those of a sticky directory.
    #[test]
    fn root_works_only_where_nobody_else_can_rename() {
        if !geteuid().is_root() {
            eprintln!("skipped: requires root");
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for (of_outer, of_inner, is_safe) in [
            (0o755, 0o755, true),
            (0o1777, 0o1777, true),
            (0o755, 0o777, false),
            (0o755, 0o770, false),
            (0o777, 0o755, false),
        ] {
            mode(outer.path(), of_outer);
            mode(&inner, of_inner);
            let found = verify_uncontested(&inner);
            assert_eq!(found.is_ok(), is_safe, "{of_outer:o} {of_inner:o}: {found:?}");
        }
        mode(outer.path(), 0o755);
        mode(&inner, 0o755);
        chown(&inner, Some(65534), None).unwrap();
        let error = verify_uncontested(&inner).unwrap_err().to_string();
        assert!(error.contains("another user can rename what is in it"), "{error}");
    }
}
