//! The ioctls of loop devices: loop(4) and `include/uapi/linux/loop.h`.
//!
//! One function is one ioctl. The caller decides their order and what to do when a device is busy, and checks
//! whether the kernel did what it was asked.

use linux_raw_sys::loop_device as raw;
use rustix::io::Result;
use rustix::ioctl::{Getter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};

const CONFIGURE: Opcode = raw::LOOP_CONFIGURE as Opcode;
const CLEAR: Opcode = raw::LOOP_CLR_FD as Opcode;
const GET_STATUS: Opcode = raw::LOOP_GET_STATUS64 as Opcode;
const SET_STATUS: Opcode = raw::LOOP_SET_STATUS64 as Opcode;
const GET_FREE: Opcode = raw::LOOP_CTL_GET_FREE as Opcode;
const ADD: Opcode = raw::LOOP_CTL_ADD as Opcode;
const REMOVE: Opcode = raw::LOOP_CTL_REMOVE as Opcode;

const AUTOCLEAR: u32 = raw::LO_FLAGS_AUTOCLEAR as u32;
const DIRECT_IO: u32 = raw::LO_FLAGS_DIRECT_IO as u32;

/// The status of an attached loop device.
#[derive(Debug, Clone, Copy)]
pub struct LoopStatus(raw::loop_info64);

impl LoopStatus {
    /// Device number (`st_dev`) of the filesystem that holds the backing file.
    pub fn backing_device(&self) -> u64 {
        self.0.lo_device
    }

    /// Inode number of the backing file.
    pub fn backing_inode(&self) -> u64 {
        self.0.lo_inode
    }

    /// Device number (`st_rdev`) of the backing file when that is a block device itself.
    pub fn backing_block(&self) -> Option<u64> {
        (self.0.lo_rdevice != 0).then_some(self.0.lo_rdevice)
    }

    /// Returns whether the device detaches itself when its last opener closes it.
    pub fn autoclear(&self) -> bool {
        self.0.lo_flags & AUTOCLEAR != 0
    }

    /// Returns whether the backing file is accessed with direct I/O.
    pub fn direct_io(&self) -> bool {
        self.0.lo_flags & DIRECT_IO != 0
    }
}

/// `LOOP_CTL_GET_FREE` on `/dev/loop-control`: the number of a loop device that is free at this moment,
/// created if necessary.
///
/// # Errors
/// The kernel's error number.
pub fn get_free(control: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: the request takes no argument and returns its answer as the value of the call; the caller's
    // borrow keeps the descriptor open.
    unsafe { ioctl(control, GetFree) }
}

/// `LOOP_CTL_ADD` on `/dev/loop-control`: creates the loop device of this number.
///
/// # Errors
/// `EEXIST` if there is one, else the kernel's error number.
pub fn add(control: BorrowedFd<'_>, number: u32) -> Result<()> {
    // SAFETY: the request takes its argument by value and touches no user memory; the caller's borrow keeps
    // the descriptor open.
    unsafe { ioctl(control, WithNumber::<ADD>(number)) }
}

/// `LOOP_CTL_REMOVE` on `/dev/loop-control`: removes a loop device that is free and that nobody has open.
///
/// # Errors
/// `EBUSY` if it is in use, `ENODEV` if there is none, else the kernel's error number.
pub fn remove(control: BorrowedFd<'_>, number: u32) -> Result<()> {
    // SAFETY: as for `add`.
    unsafe { ioctl(control, WithNumber::<REMOVE>(number)) }
}

/// `LOOP_CONFIGURE` (Linux 5.8): attaches a file, without partition scan and without autoclear.
///
/// # Errors
/// `EBUSY` if another process was faster, else the kernel's error number.
pub fn configure(
    device: BorrowedFd<'_>,
    backing: BorrowedFd<'_>,
    name: &str,
    block_size: u32,
    direct_io: bool,
) -> Result<()> {
    let mut info = empty();
    info.lo_flags = if direct_io { DIRECT_IO } else { 0 };
    // The name is for display and may be truncated; its last byte stays 0.
    for (to, from) in info.lo_file_name[..63].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // An open descriptor is never negative.
    let config =
        raw::loop_config { fd: backing.as_raw_fd().cast_unsigned(), block_size, info, __reserved: [0; 8] };
    // SAFETY: the opcode takes a pointer to a `loop_config`, which `Setter` owns for the length of the call;
    // both descriptors are borrowed, and the kernel takes its own reference to the backing file.
    unsafe { ioctl(device, Setter::<CONFIGURE, raw::loop_config>::new(config)) }
}

/// `LOOP_CLR_FD`: marks the device to be detached when its last opener closes it, which may be this
/// descriptor.
///
/// # Errors
/// `ENXIO` when it is not attached, else the kernel's error number.
pub fn clear(device: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: the request takes no argument; the caller's borrow keeps the descriptor open.
    unsafe { ioctl(device, NoArg::<CLEAR>::new()) }
}

/// `LOOP_GET_STATUS64`.
///
/// # Errors
/// `ENXIO` when it is not attached, else the kernel's error number.
pub fn status(device: BorrowedFd<'_>) -> Result<LoopStatus> {
    // SAFETY: the opcode fills a `loop_info64`, plain integers and byte arrays for which every bit pattern is
    // valid.
    unsafe { ioctl(device, Getter::<GET_STATUS, raw::loop_info64>::new()) }.map(LoopStatus)
}

/// `LOOP_SET_STATUS64` with autoclear off and everything else as in `status`: cancels a [`clear`] that found
/// the device busy.
///
/// # Errors
/// `ENXIO` if it is no longer attached, else the kernel's error number.
pub fn clear_autoclear(device: BorrowedFd<'_>, status: LoopStatus) -> Result<()> {
    let mut info = status.0;
    info.lo_flags &= !AUTOCLEAR;
    // SAFETY: the opcode takes a pointer to a `loop_info64`, which `Setter` owns for the length of the call.
    unsafe { ioctl(device, Setter::<SET_STATUS, raw::loop_info64>::new(info)) }
}

fn empty() -> raw::loop_info64 {
    raw::loop_info64 {
        lo_device: 0,
        lo_inode: 0,
        lo_rdevice: 0,
        lo_offset: 0,
        lo_sizelimit: 0,
        lo_number: 0,
        lo_encrypt_type: 0,
        lo_encrypt_key_size: 0,
        lo_flags: 0,
        lo_file_name: [0; 64],
        lo_crypt_name: [0; 64],
        lo_encrypt_key: [0; 32],
        lo_init: [0; 2],
    }
}

/// A request whose answer is the value of the call, a pattern that rustix has no type for.
struct WithNumber<const OPCODE: Opcode>(u32);

// SAFETY: LOOP_CTL_ADD and LOOP_CTL_REMOVE take a number instead of a pointer, touch no user memory, and
// return the number or an error.
unsafe impl<const OPCODE: Opcode> Ioctl for WithNumber<OPCODE> {
    type Output = ();
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0 as usize)
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

struct GetFree;

// SAFETY: LOOP_CTL_GET_FREE ignores its argument, touches no user memory, and returns a number or an error.
unsafe impl Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<u32> {
        Ok(out.cast_unsigned())
    }
}
