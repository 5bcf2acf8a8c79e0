//! Removes a directory of fsdyno's with everything in it.
//!
//! Whoever can write to the tree may insert links and mounts while it is being removed. So every directory is
//! opened below its parent, no link is followed, no other filesystem is entered, and names are removed from
//! open directories.

use crate::{HostError, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, unlinkat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The maximum depth; each directory is open while its content is removed.
const DEEPEST: usize = 200;

/// Removes a directory with everything in it. A missing one is an error.
pub(super) fn remove(path: &Path) -> Result<()> {
    let failed = |error: Errno| HostError::system("remove the tree", path, error);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(Errno::INVAL));
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, directory, Mode::empty()).map_err(failed)?;
    let tree = enter(parent.as_fd(), name).map_err(failed)?;
    empty(&tree, &mut path.to_path_buf(), DEEPEST)?;
    unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(failed)
}

/// Opens a directory in a directory of the same filesystem.
fn enter<N: rustix::path::Arg>(parent: BorrowedFd<'_>, name: N) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stay = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    openat2(parent, name, flags, Mode::empty(), stay)
}

fn empty(directory: &OwnedFd, path: &mut PathBuf, depth: usize) -> Result<()> {
    let failed = |error: Errno, path: &Path| HostError::system("remove", path, error);
    let entries = Dir::read_from(directory).map_err(|error| failed(error, path))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(error, path))?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        path.push(as_path(name));
        let removed = match entry.file_type() {
            FileType::Directory => remove_directory(directory.as_fd(), name, path, depth),
            FileType::Unknown => match unlinkat(directory, name, AtFlags::empty()) {
                Err(Errno::ISDIR) => remove_directory(directory.as_fd(), name, path, depth),
                result => result.map_err(|error| failed(error, path)),
            },
            _ => unlinkat(directory, name, AtFlags::empty()).map_err(|error| failed(error, path)),
        };
        removed?;
        path.pop();
    }
    Ok(())
}

fn remove_directory(parent: BorrowedFd<'_>, name: &CStr, path: &mut PathBuf, depth: usize) -> Result<()> {
    let failed = |error: Errno, path: &Path| HostError::system("remove", path, error);
    if depth == 0 {
        return Err(failed(Errno::NAMETOOLONG, path));
    }
    let directory = enter(parent, name).map_err(|error| failed(error, path))?;
    empty(&directory, path, depth - 1)?;
    drop(directory);
    unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(|error| failed(error, path))
}

fn as_path(name: &CStr) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_removed_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, precious) = (directory.path().join("tree"), directory.path().join("precious"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "kept").unwrap();
        fs::write(tree.join("a/b/file"), "gone").unwrap();
        fs::hard_link(precious.join("file"), tree.join("a/hard")).unwrap();
        symlink(&precious, tree.join("a/b/link")).unwrap();
        symlink("nowhere", tree.join("dangling")).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "kept");
    }

    #[test]
    fn a_link_in_the_place_of_the_tree_stays_with_what_it_leads_to() {
        let directory = tempfile::tempdir().unwrap();
        let (link, precious) = (directory.path().join("link"), directory.path().join("precious"));
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "kept").unwrap();
        symlink(&precious, &link).unwrap();
        remove(&link).unwrap_err();
        assert!(precious.join("file").exists() && fs::symlink_metadata(&link).is_ok());
        assert_eq!(remove(&directory.path().join("absent")).unwrap_err().errno(), Some(2));
    }

    #[test]
    fn a_tree_that_is_too_deep_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut path = directory.path().join("tree");
        for _ in 0..DEEPEST + 2 {
            path.push("d");
        }
        fs::create_dir_all(&path).unwrap();
        remove(&directory.path().join("tree")).unwrap_err();
    }
}
