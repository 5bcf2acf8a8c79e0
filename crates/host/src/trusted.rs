//! Directories that root may trust, because nobody else could have put anything there.
//!
//! An undo journal is a list of orders, and a cached kernel is code: whoever can write to their directory, or
//! swap one of the directories or symlinks on the way to it, controls whoever reads them. So a path is
//! resolved here component by component, each opened below the one before it without following links, and
//! every directory and every link on the way must belong to root (or to the user who asks) and be writable by
//! nobody else. Directories with the sticky bit, such as /tmp, are fine on the way: others cannot replace
//! what is in them.

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, mkdirat, open, openat, readlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// Write permission of the group and of others. With an access control list, the group's permission is its
/// mask (acl(5)).
const WRITE_OF_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// Why a path cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{place}' {reason}")]
pub struct Untrusted {
    /// The component that is wrong.
    pub place: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// What to do about missing directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Nobody else has put anything there either.
    Fine,
    Made,
}

/// Checks an absolute path that is, or will be, a directory: what exists of it must belong to root or to
/// `user`, with nobody else able to write to it.
///
/// # Errors
/// [`Untrusted`] with the component that belongs to somebody else.
pub fn check(path: &Path, user: u32) -> Result<(), Untrusted> {
    follow(path, user, Missing::Fine).map(drop)
}

/// Like [`check`], but creates missing directories, writable only by their owner.
///
/// # Errors
/// [`Untrusted`], also if a directory cannot be created.
pub fn make(path: &Path, user: u32) -> Result<(), Untrusted> {
    follow(path, user, Missing::Made).map(drop)
}

/// Like [`check`], for a file, which must exist.
///
/// # Errors
/// [`Untrusted`].
pub fn check_file(path: &Path, user: u32) -> Result<(), Untrusted> {
    let untrusted = |reason: String| Untrusted { place: path.to_path_buf(), reason };
    let real = std::fs::canonicalize(path).map_err(|error| untrusted(format!("cannot be found: {error}")))?;
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(untrusted("is not a file".to_string()));
    };
    if let Some(parent) = path.parent() {
        check(parent, user)?;
    }
    let Some(directory) = follow(parent, user, Missing::Fine)? else {
        return Err(untrusted("cannot be found".to_string()));
    };
    let found = openat(&directory, name, PATH_ONLY, Mode::empty()).and_then(|file| fstat(&file));
    let stat = found.map_err(|error| untrusted(format!("cannot be examined: {error}")))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => closed(&stat, user, false).map_err(untrusted),
        _ => Err(untrusted("is not a file".to_string())),
    }
}

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Resolves every link of a path; `None` if nothing is there.
fn follow(path: &Path, user: u32, missing: Missing) -> Result<Option<OwnedFd>, Untrusted> {
    let fail = |place: &Path, reason: String| Untrusted { place: place.to_path_buf(), reason };
    if !path.is_absolute() {
        return Err(fail(path, "is not an absolute path".to_string()));
    }
    let root = || {
        let root = open("/", PATH_ONLY, Mode::empty())
            .map_err(|error| fail(Path::new("/"), format!("cannot be opened: {error}")))?;
        look(&root, Path::new("/"), user, false).map(|_| (root, PathBuf::from("/")))
    };
    let mut way = vec![root()?];
    let mut rest = names(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        let Some((here, place)) = way.last() else { break };
        if name == ".." {
            if way.len() > 1 {
                way.pop();
            }
            continue;
        }
        let place = place.join(&name);
        let Some(found) = enter(here, &name, &place, missing)? else { return Ok(None) };
        match look(&found, &place, user, false)? {
            Kind::Directory => way.push((found, place)),
            Kind::Link => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(fail(&place, "leads through too many symbolic links".to_string()));
                }
                let target = readlinkat(&found, "", Vec::new())
                    .map_err(|error| fail(&place, format!("cannot be read: {error}")))?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    way = vec![root()?];
                }
                rest.extend(names(&target));
            }
        }
    }
    let end = way.pop();
    if let Some((end, place)) = &end {
        look(end, place, user, true)?;
    }
    Ok(end.map(|(end, _)| end))
}

/// The names of a path, the last one first; `..` is one of them.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

/// Opens a name in a directory; a missing one is created if requested.
fn enter(here: &OwnedFd, name: &OsStr, place: &Path, missing: Missing) -> Result<Option<OwnedFd>, Untrusted> {
    let fail = |action: &str, error: Errno| Untrusted {
        place: place.to_path_buf(),
        reason: format!("cannot be {action}: {error}"),
    };
    match openat(here, name, PATH_ONLY, Mode::empty()) {
        Err(Errno::NOENT) if missing == Missing::Fine => return Ok(None),
        Err(Errno::NOENT) => {}
        result => return result.map(Some).map_err(|error| fail("opened", error)),
    }
    match mkdirat(here, name, Mode::from_raw_mode(0o755)) {
        // Somebody else was faster; what is there now is checked like anything else.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(fail("created", error)),
    }
    openat(here, name, PATH_ONLY, Mode::empty()).map(Some).map_err(|error| fail("opened", error))
}

enum Kind {
    Directory,
    Link,
}

/// The kind of a component on the way, if it can be trusted.
fn look(found: &OwnedFd, place: &Path, user: u32, is_end: bool) -> Result<Kind, Untrusted> {
    let untrusted = |reason: String| Untrusted { place: place.to_path_buf(), reason };
    let stat = fstat(found).map_err(|error| untrusted(format!("cannot be examined: {error}")))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            closed(&stat, user, !is_end).map_err(untrusted)?;
            Ok(Kind::Directory)
        }
        // The permissions of a link mean nothing (symlink(7)).
        FileType::Symlink => owned(&stat, user).map_err(untrusted).map(|()| Kind::Link),
        _ => Err(untrusted("is not a directory".to_string())),
    }
}

/// Whether nobody else can write to it or, if it is only on the way, replace what is in it.
fn closed(stat: &Stat, user: u32, sticky_is_fine: bool) -> Result<(), String> {
    owned(stat, user)?;
    if stat.st_mode & WRITE_OF_OTHERS == 0 || (sticky_is_fine && stat.st_mode & STICKY != 0) {
        return Ok(());
    }
    Err(format!("can be written by others (mode {:04o})", stat.st_mode & 0o7777))
}

fn owned(stat: &Stat, user: u32) -> Result<(), String> {
    match stat.st_uid {
        owner if owner == ROOT || owner == user => Ok(()),
        owner => Err(format!("belongs to user {owner}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// A directory of the current user in a sticky one.
    fn ours() -> tempfile::TempDir {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        mode(directory.path(), 0o755);
        directory
    }

    #[test]
    fn what_is_ours_is_obeyed_and_made_where_it_is_missing() {
        let directory = ours();
        let deep = directory.path().join("a/b/../c");
        assert_eq!(check(&deep, me()), Ok(()));
        assert!(!directory.path().join("a").exists(), "checking makes nothing");
        make(&deep, me()).unwrap();
        let made = directory.path().join("a/c");
        assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o022, 0);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_obeyed() {
        let directory = ours();
        let open = directory.path().join("open");
        fs::create_dir_all(open.join("state")).unwrap();
        mode(&open, 0o775);
        let error = check(&open.join("state"), me()).unwrap_err();
        assert_eq!(error.place, open);
        assert!(error.reason.contains("0775"), "{error}");
        // Sticky: others cannot replace what is in it, but they can add to it.
        mode(&open, 0o1777);
        assert_eq!(check(&open.join("state"), me()), Ok(()));
        assert_eq!(check(&open, me()).unwrap_err().place, open);
    }

    #[test]
    fn a_path_of_somebody_else_is_not_obeyed() {
        let directory = ours();
        let state = directory.path().join("state");
        fs::create_dir(&state).unwrap();
        let stranger = me() + 1;
        if me() != ROOT {
            assert!(check(&state, stranger).unwrap_err().reason.contains("belongs to user"));
            return;
        }
        std::os::unix::fs::chown(&state, Some(1000), None).unwrap();
        let error = check(&state.join("undo"), ROOT).unwrap_err();
        assert_eq!((error.place, error.reason.as_str()), (state, "belongs to user 1000"));
    }

    #[test]
    fn links_are_followed_as_long_as_nobody_else_made_them() {
        let directory = ours();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("real/open/state")).unwrap();
        symlink("real/../real", path("link")).unwrap();
        symlink(path("link"), path("absolute")).unwrap();
        assert_eq!(check(&path("absolute/open/state"), me()), Ok(()));
        mode(&path("real/open"), 0o777);
        let error = check(&path("absolute/open/state"), me()).unwrap_err();
        assert_eq!(error.place, path("real/open"));
        symlink("loop", path("loop")).unwrap();
        assert!(check(&path("loop"), me()).unwrap_err().reason.contains("too many symbolic links"));
        if me() == ROOT {
            std::os::unix::fs::lchown(path("link"), Some(1000), None).unwrap();
            assert_eq!(check(&path("link"), me()).unwrap_err().place, path("link"));
        }
    }

    #[test]
    fn a_program_that_others_can_change_is_not_obeyed() {
        let directory = ours();
        let file = directory.path().join("fsdyno");
        fs::write(&file, "").unwrap();
        mode(&file, 0o755);
        symlink(&file, directory.path().join("link")).unwrap();
        assert_eq!(check_file(&directory.path().join("link"), me()), Ok(()));
        mode(&file, 0o775);
        assert!(check_file(&file, me()).is_err());
        assert!(check_file(directory.path(), me()).is_err());
        assert!(check_file(&directory.path().join("absent"), me()).is_err());
    }
}
