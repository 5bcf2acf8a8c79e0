//! Images: created in a directory that is opened once, and from then on used by their descriptors.

use super::{directory, files};
use crate::probe::FileIdentity;
use crate::{HostError, Result};
use fsdyno_core::Bytes;
use fsdyno_path::Directory;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// An image that this process has made.
pub(super) struct OpenImage {
    /// Its directory as it was named.
    parent: PathBuf,
    directory: Directory,
    /// Its name there.
    name: OsString,
    file: File,
    identity: FileIdentity,
}

impl OpenImage {
    /// File and directory entry are on disk when this returns, so that an undo journal that names them is
    /// still correct after a power cut. No image is created in a `reserved` directory.
    pub(super) fn create(path: &Path, size: Bytes, reserved: &[(String, PathBuf)]) -> Result<Self> {
        let failed = |error: Errno| HostError::system("create the image", path, error);
        let (parent, name) = split(path).ok_or(failed(Errno::INVAL))?;
        let directory = directory::open(parent, reserved)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let identity = files::identity_of(file.as_fd(), path)?;
        let image = OpenImage {
            parent: parent.to_path_buf(),
            directory,
            name: name.to_os_string(),
            file: File::from(file),
            identity,
        };
        match image.size_and_sync(size) {
            Ok(()) => Ok(image),
            Err(error) => Err(image.given_up(HostError::system("set the size of the image", path, error))),
        }
    }

    fn size_and_sync(&self, size: Bytes) -> std::io::Result<()> {
        self.file.set_len(size.0)?;
        self.file.sync_all()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        File::from(directory).sync_all()
    }

    pub(super) fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// Its path, for a person.
    pub(super) fn path(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The number of its descriptor.
    pub(super) fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Renames it. The path to its directory must still lead there; otherwise the file is removed, because
    /// nobody would find it again.
    pub(super) fn rename(&mut self, to: &Path) -> Result<()> {
        let failed =
            |error: Errno| HostError::system(&format!("rename '{}' to", self.path().display()), to, error);
        let (parent, name) = split(to).ok_or(failed(Errno::INVAL))?;
        if parent != self.parent {
            return Err(failed(Errno::XDEV));
        }
        if !self.is_named(&self.name)? {
            return Err(replaced(&self.path(), "another file has taken its name"));
        }
        self.move_within(&self.name, name).map_err(failed)?;
        if !self.is_named(name)? {
            // The file that was moved is another one, which appeared between the check and the move.
            let left =
                if self.move_within(name, &self.name).is_ok() { "" } else { " and cannot be moved back" };
            return Err(replaced(to, &format!("another file took its place{left}")));
        }
        self.name = name.to_os_string();
        match files::identity(to)? {
            Some(found) if found == self.identity => Ok(()),
            _ => Err(self.given_up(replaced(to, "its path now leads elsewhere"))),
        }
    }

    fn move_within(&self, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(&self.directory, from, &self.directory, to, RenameFlags::NOREPLACE)
    }

    /// Returns whether a name in the image's directory is that of this file.
    fn is_named(&self, name: &OsStr) -> Result<bool> {
        let found = files::identity_at(self.directory.as_fd(), Path::new(name))?;
        Ok(found.is_some_and(|found| found == self.identity))
    }

    /// Removes it after an error, which is returned and extended by what could not be removed.
    fn given_up(&self, error: HostError) -> HostError {
        let removed = match self.is_named(&self.name) {
            Ok(true) => rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty()),
            _ => Ok(()),
        };
        match (error, removed) {
            (HostError::System { action, object, errno, reason }, Err(left)) => {
                let left = crate::reason(left.into());
                HostError::System {
                    action,
                    object,
                    errno,
                    reason: format!("{reason}; it could not be removed: {left}"),
                }
            }
            (error, _) => error,
        }
    }
}

/// Removes a file if it is this one. Directory and file are looked up together, so that no link inserted into
/// the path in the meantime leads to another file.
pub(super) fn remove(path: &Path, expected: &FileIdentity) -> Result<()> {
    let failed = |error: Errno| HostError::system("remove", path, error);
    let (parent, name) = split(path).ok_or(failed(Errno::INVAL))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(parent, flags, Mode::empty()).map_err(failed)?;
    match files::identity_at(directory.as_fd(), Path::new(name))? {
        None => Err(failed(Errno::NOENT)),
        Some(found) if found == *expected => {
            rustix::fs::unlinkat(&directory, name, AtFlags::empty()).map_err(failed)
        }
        Some(_) => Err(replaced(path, "another file has taken its name")),
    }
}

/// The directory of a path and the name in it.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let parent = path.parent().map(|parent| match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    });
    parent.zip(path.file_name())
}

fn replaced(path: &Path, difference: &str) -> HostError {
    HostError::Replaced { path: path.display().to_string(), difference: difference.to_string() }
}

/// Opens an image that a process on this machine has open under this number, and verifies that it is this
/// file. An entry in `/proc/PID/fd` leads to the file itself, not to whatever has its name by now (proc(5)).
pub(crate) fn take(pid: u32, number: i32, expected: &FileIdentity) -> Result<OwnedFd> {
    let path = PathBuf::from(format!("/proc/{pid}/fd/{number}"));
    let image = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| HostError::system("open", &path, error))?;
    match files::identity_of(image.as_fd(), &path)? {
        found if found == *expected => Ok(image),
        _ => Err(replaced(&path, "it is not the image that was created")),
    }
}
