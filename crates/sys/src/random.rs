//! The kernel's random number generator.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, Result};
use rustix::ioctl::{NoArg, Opcode, Setter, ioctl, opcode};
use std::ffi::c_int;

/// The number of bytes that [`reseed`] takes: as many as the generator's key has.
pub const SEED: usize = 32;

/// Random bytes and their entropy in bits (random(4), `struct rand_pool_info`).
#[repr(C)]
struct Pool {
    entropy: c_int,
    size: c_int,
    bytes: [u8; SEED],
}

/// `RNDADDENTROPY`; the header declares it with two numbers as its argument (include/uapi/linux/random.h).
const ADD: Opcode = opcode::write::<[c_int; 2]>(b'R', 0x03);
/// `RNDRESEEDCRNG`, since Linux 4.17.
const RESEED: Opcode = opcode::none(b'R', 0x07);

fn device() -> Result<OwnedFd> {
    open("/dev/urandom", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns whether the generator of this kernel can be reseeded at once.
pub fn can_be_reseeded() -> bool {
    // SAFETY: the request has no argument.
    let reseeded = device().and_then(|device| unsafe { ioctl(&device, NoArg::<RESEED>::new()) });
    // One that has too little entropy so far can be reseeded with more.
    matches!(reseeded, Ok(()) | Err(Errno::NODATA))
}

/// Mixes these bytes into the generator and makes it generate everything from the result from now on. Needs
/// root.
///
/// # Errors
/// The kernel's; `EINVAL` if it is older than 4.17.
pub fn reseed(seed: &[u8; SEED]) -> Result<()> {
    let device = device()?;
    let pool = Pool { entropy: SEED as c_int * 8, size: SEED as c_int, bytes: *seed };
    // SAFETY: the request reads a `struct rand_pool_info` that is followed by as many bytes as it says.
    unsafe { ioctl(&device, Setter::<ADD, Pool>::new(pool)) }?;
    // SAFETY: the request has no argument.
    unsafe { ioctl(&device, NoArg::<RESEED>::new()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn todays_kernel_can_be_reseeded_by_root_only() {
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(can_be_reseeded(), is_root);
        assert_eq!(reseed(&[7; SEED]), if is_root { Ok(()) } else { Err(Errno::PERM) });
    }
}
