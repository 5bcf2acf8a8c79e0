//! Where a path leads, once and for all.

use crate::walk::{Directory, End, Missing, Walk};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A name in an open directory: of a file, or of one that is to be created. It is no link.
#[derive(Debug)]
pub struct Place {
    /// The directory.
    pub directory: Directory,
    /// The name in it.
    pub name: OsString,
}

impl Place {
    /// Finds the place of a file.
    ///
    /// # Errors
    /// The system's; [`LinkOfOthers`](crate::LinkOfOthers).
    pub fn of(path: &Path) -> io::Result<Self> {
        Place::at_end(Walk::new(path, Missing::IsAnError, None)?.into_name()?)
    }

    /// Finds the place of a file, and creates missing directories above it.
    ///
    /// # Errors
    /// Those of [`Place::of`].
    pub fn make(path: &Path) -> io::Result<Self> {
        Place::at_end(Walk::new(path, Missing::IsMade(0o777), None)?.into_name()?)
    }

    fn at_end(end: End) -> io::Result<Self> {
        match end {
            End::Name(directory, name) => Ok(Place { directory, name }),
            End::Open(_) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "is an open file without a name"))
            }
        }
    }

    /// Its path, without links, for people.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// A path that leads to it through the open directory.
    pub fn through(&self) -> PathBuf {
        self.directory.at(&self.name)
    }
}

/// Where output goes.
#[derive(Debug)]
pub enum Destination {
    /// A file, or what else has a name.
    Place(Place),
    /// An open file of a process, such as `/dev/stdout` or `/dev/fd/3`.
    Open(OwnedFd),
}

impl Destination {
    /// Finds the destination that a path names.
    ///
    /// # Errors
    /// Those of [`Place::of`].
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(match Walk::new(path, Missing::IsAnError, None)?.into_name()? {
            End::Name(directory, name) => Destination::Place(Place { directory, name }),
            End::Open(file) => Destination::Open(file),
        })
    }

    /// A path that leads to it through what is open.
    pub fn through(&self) -> PathBuf {
        match self {
            Destination::Place(place) => place.through(),
            Destination::Open(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        }
    }
}
