//! Removing a tree, timed or not.

use crate::plant::DIRECTORY;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Buffer for one `getdents64`.
pub(crate) const ENTRIES: usize = 32 << 10;

/// The remover: each method is one system call that may be timed.
pub(crate) trait Remover {
    /// The error that ends the removal early.
    type Error;

    /// A step that is not timed has failed.
    fn failed(&mut self, name: &CStr, errno: Errno) -> Self::Error;

    /// Removes one name: a file, or an empty directory with [`AtFlags::REMOVEDIR`].
    fn unlink(&mut self, directory: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Self::Error>;
}

/// Removes the directory `name` in `parent` with everything below it.
pub(crate) fn remove<R: Remover>(remover: &mut R, parent: &OwnedFd, name: &CStr) -> Result<(), R::Error> {
    let directory = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
        .map_err(|errno| remover.failed(name, errno))?;
    empty(remover, &directory, name)?;
    drop(directory);
    remover.unlink(rustix::fd::AsFd::as_fd(parent), name, AtFlags::REMOVEDIR)
}

/// Removes everything in a directory. Starts over until nothing is found, for filesystems that lose their
/// position in a shrinking directory.
fn empty<R: Remover>(remover: &mut R, directory: &OwnedFd, name: &CStr) -> Result<(), R::Error> {
    let mut buffer = vec![MaybeUninit::uninit(); ENTRIES].into_boxed_slice();
    loop {
        let mut removed = false;
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| remover.failed(name, errno))?;
            let entry_name = entry.file_name();
            if entry_name == c"." || entry_name == c".." {
                continue;
            }
            if is_directory(directory, entry_name, entry.file_type())
                .map_err(|errno| remover.failed(entry_name, errno))?
            {
                remove(remover, directory, entry_name)?;
            } else {
                remover.unlink(rustix::fd::AsFd::as_fd(directory), entry_name, AtFlags::empty())?;
            }
            removed = true;
        }
        if !removed {
            return Ok(());
        }
        rustix::fs::seek(directory, SeekFrom::Start(0)).map_err(|errno| remover.failed(name, errno))?;
    }
}

/// Filesystems need not report the type of a name in the directory.
fn is_directory(directory: &OwnedFd, name: &CStr, kind: FileType) -> Result<bool, Errno> {
    if kind != FileType::Unknown {
        return Ok(kind == FileType::Directory);
    }
    let attributes = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(attributes.st_mode) == FileType::Directory)
}
