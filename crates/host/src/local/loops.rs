//! Loop devices: attach, detach at once or not at all, list.

use super::{device_number, while_busy};
use crate::probe::LoopInfo;
use crate::{HostError, LoopOptions, Result};
use fsdyno_sys::loopdev;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// How often another free device is asked for when somebody else took the last one first.
const ATTACH_RACES: usize = 64;

/// An attached loop device, with what [`LoopInfo`] leaves out.
pub(super) struct Attached {
    pub(super) info: LoopInfo,
    /// Device number of the backing file, when that is a block device itself.
    pub(super) backing_block: Option<(u32, u32)>,
}

/// Attaches an image to a free loop device, and reads back that it got what was asked.
pub(super) fn attach(image: &Path, options: &LoopOptions) -> Result<PathBuf> {
    let failed = |error: Errno| HostError::system("attach a loop device to", image, error);
    let image = fs::canonicalize(image).map_err(|error| HostError::system("find", image, error))?;
    let backing = open(&image, OFlags::RDWR)?;
    let control_path = Path::new("/dev/loop-control");
    let control = open(control_path, OFlags::RDWR)?;
    for _ in 0..ATTACH_RACES {
        let number = loopdev::get_free(control.as_fd())
            .map_err(|error| HostError::system("find a free loop device by", control_path, error))?;
        let node = PathBuf::from(format!("/dev/loop{number}"));
        let device = match rustix::fs::open(&node, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(device) => device,
            Err(Errno::BUSY | Errno::NXIO) => continue,
            Err(error) => return Err(HostError::system("open", &node, error)),
        };
        let name = image.to_string_lossy();
        match loopdev::configure(
            device.as_fd(),
            backing.as_fd(),
            &name,
            options.block_size,
            options.direct_io,
        ) {
            Ok(()) => {
                return match refused_option(&device, options) {
                    None => Ok(node),
                    Some(reason) => {
                        drop(device);
                        detach(&node)?;
                        Err(not_in_force(&image, reason))
                    }
                };
            }
            Err(Errno::BUSY) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(Errno::BUSY))
}

/// The kernel attaches without direct I/O, and with another block size, where the backing file does not allow them.
fn refused_option(device: &OwnedFd, options: &LoopOptions) -> Option<String> {
    let direct_io = loopdev::status(device.as_fd()).map(|status| status.direct_io());
    if direct_io != Ok(options.direct_io) {
        let wanted = if options.direct_io { "on" } else { "off" };
        return Some(format!("direct I/O cannot be switched {wanted} for this file"));
    }
    let block_size = rustix::fs::ioctl_blksszget(device);
    (block_size != Ok(options.block_size))
        .then(|| format!("a block size of {} bytes cannot be had for this file", options.block_size))
}

fn not_in_force(image: &Path, reason: String) -> HostError {
    HostError::System {
        action: "attach a loop device to".to_string(),
        object: image.display().to_string(),
        errno: Errno::OPNOTSUPP.raw_os_error(),
        reason,
    }
}

/// Detaches a loop device now, trying for a short time while it is busy.
pub(super) fn detach(node: &Path) -> Result<()> {
    while_busy(|| detach_once(node)).map_err(|error| HostError::system("detach the loop device", node, error))
}

/// `LOOP_CLR_FD` never fails for a busy device: it makes the detaching wait for the last opener. So mounts and other
/// holders are found first by an exclusive open, and plain openers afterwards: when the device outlives our own close, the
/// waiting is taken back.
fn detach_once(node: &Path) -> rustix::io::Result<()> {
    // Without O_CREAT, O_EXCL on a block device means: no mount, no holder, no other exclusive opener (open(2)).
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let device = rustix::fs::open(node, flags, Mode::empty())?;
    loopdev::clear(device.as_fd())?;
    drop(device);
    let device = match rustix::fs::open(node, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        // A loop device that was added beside the first ones can be removed by others as soon as it is free.
        Err(Errno::NOENT | Errno::NXIO) => return Ok(()),
        device => device?,
    };
    match loopdev::status(device.as_fd()) {
        Err(Errno::NXIO) => Ok(()),
        Err(error) => Err(error),
        // Somebody else attached another file in between: not ours any more.
        Ok(status) if !status.autoclear() => Ok(()),
        Ok(status) => match loopdev::clear_autoclear(device.as_fd(), status) {
            Err(Errno::NXIO) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(Errno::BUSY),
        },
    }
}

/// Every attached loop device.
pub(super) fn attached() -> Result<Vec<Attached>> {
    let blocks = Path::new("/sys/block");
    let failed = |error| HostError::system("list the directory", blocks, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(blocks).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name.starts_with("loop") {
            found.extend(look(&name)?);
        }
    }
    found.sort_by_key(|attached| {
        let node = attached.info.device.to_string_lossy().into_owned();
        (node.len(), node)
    });
    Ok(found)
}

/// What a loop device is attached to; `None` when it is free, or became so while we looked.
fn look(name: &str) -> Result<Option<Attached>> {
    let file = Path::new("/sys/block").join(name).join("loop/backing_file");
    let Ok(backing_path) = fs::read_to_string(&file) else {
        return Ok(None);
    };
    let node = Path::new("/dev").join(name);
    let device = match rustix::fs::open(&node, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NXIO | Errno::NOENT) => return Ok(None),
        device => device.map_err(|error| HostError::system("open", &node, error))?,
    };
    let status = match loopdev::status(device.as_fd()) {
        Err(Errno::NXIO) => return Ok(None),
        status => status.map_err(|error| HostError::system("ask for the status of", &node, error))?,
    };
    Ok(Some(Attached {
        info: LoopInfo {
            device: node,
            backing_device: device_number(status.backing_device()),
            backing_inode: status.backing_inode(),
            backing_path: backing_path.trim_end_matches('\n').to_string(),
        },
        backing_block: status.backing_block().map(device_number),
    }))
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| HostError::system("open", path, error))
}
