//! The properties that an open block device reports about itself: `include/uapi/linux/fs.h`.

use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, NoArg, Opcode, ioctl, opcode};
use std::ffi::c_int;
use std::os::fd::BorrowedFd;

// `BLKGETSIZE64` is declared with a size_t, though it fills a u64 on every architecture.
const SIZE: Opcode = opcode::read::<usize>(0x12, 114);
const DISKSEQ: Opcode = opcode::read::<u64>(0x12, 128);
const READ_PARTITIONS: Opcode = opcode::none(0x12, 95);
const READ_ONLY: Opcode = opcode::none(0x12, 94);
const SECTOR_SIZE: Opcode = opcode::none(0x12, 104);

/// `BLKGETSIZE64`: its size in bytes.
///
/// # Errors
/// `ENOTTY` for anything but a block device, else the kernel's error number.
pub fn size(device: BorrowedFd<'_>) -> Result<u64> {
    // SAFETY: the opcode fills a u64.
    unsafe { ioctl(device, Getter::<SIZE, u64>::new()) }
}

/// `BLKGETDISKSEQ` (Linux 5.15): a new number after each attachment of a medium or a backing file.
///
/// # Errors
/// `ENOTTY` on older kernels, else the kernel's error number.
pub fn diskseq(device: BorrowedFd<'_>) -> Result<u64> {
    // SAFETY: the opcode fills a u64.
    unsafe { ioctl(device, Getter::<DISKSEQ, u64>::new()) }
}

/// `BLKROGET`: whether it is read-only.
///
/// # Errors
/// `ENOTTY` for anything but a block device, else the kernel's error number.
pub fn read_only(device: BorrowedFd<'_>) -> Result<bool> {
    // SAFETY: the opcode, though declared without a direction, fills an int (block/ioctl.c, `put_int`).
    unsafe { ioctl(device, Getter::<READ_ONLY, c_int>::new()) }.map(|flag| flag != 0)
}

/// `BLKRRPART`: makes the kernel look for partitions again.
///
/// # Errors
/// `EBUSY` if a partition is in use, else the kernel's error number.
pub fn read_partitions(device: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the request has no argument.
    unsafe { ioctl(device, NoArg::<READ_PARTITIONS>::new()) }
}

/// `BLKSSZGET`: its logical block size in bytes, the smallest unit that can be read or written.
///
/// # Errors
/// `ENOTTY` for anything but a block device, else the kernel's error number.
pub fn sector_size(device: BorrowedFd<'_>) -> Result<u64> {
    // SAFETY: the opcode, though declared without a direction, fills an int (block/ioctl.c, `put_int`).
    let size = unsafe { ioctl(device, Getter::<SECTOR_SIZE, c_int>::new()) }?;
    u64::try_from(size).map_err(|_| Errno::RANGE)
}
