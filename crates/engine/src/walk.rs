//! The system calls of those who walk a tree, and their buffers.

use crate::plant::DIRECTORY;
use crate::removal::ENTRIES;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, Statx, StatxFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// A buffer for the entries of a directory.
type Entries = Box<[MaybeUninit<u8>]>;

/// Buffers for directory entries, one per level, reused for the next directory of that level.
#[derive(Default)]
pub(crate) struct LevelBuffers(Vec<Entries>);

impl LevelBuffers {
    pub(crate) fn take(&mut self) -> Entries {
        self.0.pop().unwrap_or_else(|| vec![MaybeUninit::uninit(); ENTRIES].into_boxed_slice())
    }

    pub(crate) fn give_back(&mut self, buffer: Entries) {
        self.0.push(buffer);
    }
}

/// Looks at a name, and at a link itself.
pub(crate) fn look_at(directory: &OwnedFd, name: &CStr) -> Result<Statx, Errno> {
    rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
}

pub(crate) fn open_directory(parent: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}
