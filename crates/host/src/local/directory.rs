//! Directories for new files, opened once and without following anything that another user could swap.
//!
//! Each system call that takes a path resolves it again, and whoever can write to a directory on the way can
//! make it lead elsewhere in between. So a directory is opened once, and everything in it is done relative to
//! that descriptor. On the way there, another user may still choose between directories that he can rename
//! anyway, which gains him nothing; but his symbolic link could lead anywhere. Root follows only links that
//! nobody else can create, move or replace. (The kernel's `fs.protected_symlinks` covers only sticky
//! directories.)

use crate::{HostError, Result};
use fsdyno_sys::child;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows in one path (path_resolution(7)).
const MOST_LINKS: usize = 40;
const ROOT: u32 = 0;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

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
pub(super) fn open(path: &Path, reserved: &[(String, PathBuf)]) -> Result<OwnedFd> {
    let directory = match geteuid().is_root() {
        true => Walk::along(path)?.here,
        // Misleading a user gains nobody anything if that user has no additional rights.
        false => open_at(CWD, path.as_os_str(), OFlags::DIRECTORY)
            .map_err(|error| HostError::system("open the directory", path, error))?,
    };
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

/// Whether a file could be made in a directory. A user without privileges asks on behalf of root.
pub(super) fn verify_writable(directory: &OwnedFd, path: &Path) -> Result<()> {
    match rustix::fs::accessat(directory, ".", Access::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(Errno::ACCESS) if !geteuid().is_root() => Ok(()),
        Err(error) => Err(HostError::system("create files in", path, error)),
    }
}

/// Whether directories may be made in this one and used by their paths: as root only where no other user can
/// put something else in their place. There he could, at any moment, let root write or remove somewhere else.
pub(super) fn verify_uncontested(path: &Path) -> Result<()> {
    if !geteuid().is_root() || !Walk::along(path)?.contested {
        return Ok(());
    }
    Err(HostError::System {
        action: "work as root in".to_string(),
        object: path.display().to_string(),
        errno: 0,
        reason: "another user can rename what is in it, or in a directory above it".to_string(),
    })
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

/// A walk from directory to directory.
struct Walk<'a> {
    whole: &'a Path,
    here: OwnedFd,
    /// Whether another user can replace what comes next.
    contested: bool,
    left: VecDeque<OsString>,
    links: usize,
}

impl<'a> Walk<'a> {
    fn along(whole: &'a Path) -> Result<Self> {
        let begin = if whole.is_absolute() { "/" } else { "." };
        let here = open_at(CWD, OsStr::new(begin), OFlags::DIRECTORY).map_err(failed(whole))?;
        let contested = may_be_changed(&rustix::fs::fstat(&here).map_err(failed(whole))?);
        let mut walk = Walk { whole, here, contested, left: VecDeque::new(), links: 0 };
        walk.lies_ahead(whole);
        while let Some(name) = walk.left.pop_front() {
            walk.step(&name)?;
        }
        Ok(walk)
    }

    /// Puts a path in front of what is left.
    fn lies_ahead(&mut self, path: &Path) {
        let names = path.components().filter(|part| *part != Component::CurDir);
        let names: Vec<OsString> = names.map(|part| part.as_os_str().to_os_string()).collect();
        names.into_iter().rev().for_each(|name| self.left.push_front(name));
    }

    fn step(&mut self, name: &OsStr) -> Result<()> {
        // The kernel triggers an automount only if a directory is requested.
        match open_at(self.here.as_fd(), name, OFlags::NOFOLLOW | OFlags::DIRECTORY) {
            Ok(next) => {
                let stat = rustix::fs::fstat(&next).map_err(failed(self.whole))?;
                self.contested |= may_be_changed(&stat);
                self.here = next;
                Ok(())
            }
            Err(Errno::NOTDIR | Errno::LOOP) => self.follow(name),
            Err(error) => Err(failed(self.whole)(error)),
        }
    }

    fn follow(&mut self, name: &OsStr) -> Result<()> {
        let link = open_at(self.here.as_fd(), name, OFlags::NOFOLLOW).map_err(failed(self.whole))?;
        let stat = rustix::fs::fstat(&link).map_err(failed(self.whole))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Err(failed(self.whole)(Errno::NOTDIR));
        }
        if self.contested || stat.st_uid != ROOT {
            return Err(self.refuse(name));
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(failed(self.whole)(Errno::LOOP));
        }
        let target = rustix::fs::readlinkat(&link, "", Vec::new()).map_err(failed(self.whole))?;
        self.lies_ahead(&PathBuf::from(OsString::from_vec(target.into_bytes())));
        Ok(())
    }

    fn refuse(&self, name: &OsStr) -> HostError {
        HostError::System {
            action: "open the directory".to_string(),
            object: self.whole.display().to_string(),
            errno: Errno::LOOP.raw_os_error(),
            reason: format!(
                "'{}' in it is a symbolic link that another user can change, and root does not follow such \
                 links",
                name.display()
            ),
        }
    }
}

/// An error with the directory, for `map_err`.
fn failed(path: &Path) -> impl FnOnce(Errno) -> HostError + use<'_> {
    move |error| HostError::system("open the directory", path, error)
}

/// Whether another user can rename, remove or replace what is in a directory.
fn may_be_changed(directory: &Stat) -> bool {
    let mode = directory.st_mode;
    directory.st_uid != ROOT || (mode & OTHERS_WRITE != 0 && mode & STICKY == 0)
}

fn open_at(at: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(at, name, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};

    /// What nobody else can rename is safe to use by its path; a sticky directory is as well.
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
