//! Directories that root may trust, because nobody else could have put anything there.
//!
//! An undo journal is a list of orders, and a cached kernel is code: whoever can write to their directory, or
//! swap one of the directories or symlinks on the way to it, controls whoever reads them. So every directory
//! and every link on the way must belong to root (or to the user who asks) and be writable by nobody else.
//! Directories with the sticky bit, such as /tmp, are fine on the way: others cannot replace what is in them.

use crate::walk::{Directory, End, Missing, Stop, Walk, closed};
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// Why a path cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{place}' {reason}")]
pub struct Untrusted {
    /// The component that is wrong.
    pub place: PathBuf,
    /// The reason why the component cannot be trusted.
    pub reason: String,
}

/// Checks an absolute path that is, or will be, a directory: what exists of it must belong to root or to
/// `user`, with nobody else able to write to it.
///
/// # Errors
/// [`Untrusted`] with the component that belongs to somebody else.
pub fn check(path: &Path, user: u32) -> Result<(), Untrusted> {
    match walk(path, user, Missing::IsAnError, Walk::into_directory) {
        // Nobody else has put anything there either.
        Err(stop) if stop.error.kind() == io::ErrorKind::NotFound => Ok(()),
        walked => walked.map(drop).map_err(Untrusted::from),
    }
}

/// Creates the missing directories of such a path, writable only by their owner.
///
/// # Errors
/// [`Untrusted`], also if a directory cannot be created.
pub fn make(path: &Path, user: u32) -> Result<Directory, Untrusted> {
    walk(path, user, Missing::IsMade(0o755), Walk::into_directory).map_err(Untrusted::from)
}

/// Like [`check`], for a file, which must exist.
///
/// # Errors
/// [`Untrusted`].
pub fn check_file(path: &Path, user: u32) -> Result<(), Untrusted> {
    let untrusted = |reason: String| Untrusted { place: path.to_path_buf(), reason };
    if let Some(parent) = path.parent() {
        check(parent, user)?;
    }
    let End::Name(directory, name) = walk(path, user, Missing::IsAnError, Walk::into_name)? else {
        return Err(untrusted("is not a file".to_string()));
    };
    let found = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW);
    let found = found.map_err(|error| untrusted(format!("cannot be examined: {error}")))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => closed(&found, user, false).map_err(untrusted),
        _ => Err(untrusted("is not a file".to_string())),
    }
}

fn walk<T>(
    path: &Path,
    user: u32,
    missing: Missing,
    to_end: impl FnOnce(Walk) -> Result<T, Stop>,
) -> Result<T, Stop> {
    if !path.is_absolute() {
        let error = io::Error::other("is not an absolute path");
        return Err(Stop { place: path.to_path_buf(), error });
    }
    Walk::new(path, missing, Some(user)).and_then(to_end)
}

impl From<Stop> for Untrusted {
    fn from(Stop { place, error }: Stop) -> Self {
        let reason = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP) => "leads through too many symbolic links".to_string(),
            Some(Errno::NOTDIR) => "is not a directory".to_string(),
            Some(_) => format!("cannot be opened: {error}"),
            None => error.to_string(),
        };
        Untrusted { place, reason }
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
        if me() != 0 {
            assert!(check(&state, stranger).unwrap_err().reason.contains("belongs to user"));
            return;
        }
        std::os::unix::fs::chown(&state, Some(1000), None).unwrap();
        let error = check(&state.join("undo"), 0).unwrap_err();
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
        if me() == 0 {
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
