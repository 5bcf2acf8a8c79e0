//! Where the blocks of a file are: `FS_IOC_FIEMAP` (Documentation/filesystems/fiemap.rst,
//! `include/uapi/linux/fiemap.h`).

use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::os::fd::BorrowedFd;

// The size in the number is that of the header alone.
const FIEMAP: Opcode = opcode::read_write::<[u8; HEADER]>(b'f', 11);
const HEADER: usize = 32;
/// The number of extents that one call returns; 14 KiB.
const BATCH: usize = 256;

/// The last extent of the file.
const LAST: u32 = 0x1;
/// Its place is unknown: not written back yet.
const UNKNOWN: u32 = 0x2;
/// It is stored among the metadata.
const INLINE: u32 = 0x200;

/// An extent: consecutive bytes of a file that are stored contiguously.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileExtent {
    /// Position in the file, in bytes.
    pub logical: u64,
    /// Position on the device, in bytes.
    pub physical: u64,
    /// Length in bytes.
    pub length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved32: [u32; 3],
}

impl FileExtent {
    /// Returns whether `physical` says where the extent is.
    pub fn has_place(&self) -> bool {
        self.flags & (UNKNOWN | INLINE) == 0
    }

    /// Returns whether the file has no further extent.
    pub fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }
}

/// The structure that the kernel fills.
#[repr(C)]
#[derive(Debug, Clone)]
pub struct Batch {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FileExtent; BATCH],
}

impl Default for Batch {
    fn default() -> Self {
        let extents = [FileExtent::default(); BATCH];
        Batch { start: 0, length: 0, flags: 0, mapped: 0, count: 0, reserved: 0, extents }
    }
}

/// The extents of a file from a position on, as many as one call returns; none if there are no more.
///
/// # Errors
/// `EOPNOTSUPP` or `ENOTTY` if the filesystem does not support this, else the kernel's error number.
pub fn map<'a>(file: BorrowedFd<'_>, start: u64, batch: &'a mut Batch) -> Result<&'a [FileExtent]> {
    (batch.start, batch.length, batch.flags) = (start, u64::MAX - start, 0);
    (batch.mapped, batch.count) = (0, BATCH as u32);
    // SAFETY: the kernel reads the header and fills at most `count` extents behind it, which is as many as
    // the structure has; it has the layout of `struct fiemap`, and lives for the call.
    unsafe { ioctl(file, Updater::<FIEMAP, Batch>::new(batch)) }?;
    Ok(&batch.extents[..(batch.mapped as usize).min(BATCH)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_structure_is_that_of_the_kernel() {
        assert_eq!(size_of::<FileExtent>(), 56);
        assert_eq!(std::mem::offset_of!(Batch, extents), HEADER);
    }

    #[test]
    fn what_has_no_blocks_says_so() {
        let file = std::fs::File::open("/proc/version").unwrap();
        assert!(map(file.as_fd(), 0, &mut Batch::default()).is_err());
    }
}
