//! Loop devices: attach, detach (immediately or not at all), list.

use super::images::OpenImage;
use super::{device_number, while_busy};
use crate::probe::{FileIdentity, LoopInfo};
use crate::setting::lasting_attributes;
use crate::{AttachedLoop, HostError, LoopOptions, Result};
use fsdyno_sys::{block, loopdev};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The number of other free devices to try if somebody else is faster.
const ATTACH_RACES: usize = 64;

/// An attached loop device, with what [`LoopInfo`] leaves out.
pub(super) struct Attached {
    pub(super) info: LoopInfo,
    /// Device number of the backing file, when that is a block device itself.
    pub(super) backing_block: Option<(u32, u32)>,
}

/// Attaches an image to a free loop device, and reads back that the options took effect.
pub(super) fn attach(image: &OpenImage, options: &LoopOptions) -> Result<AttachedLoop> {
    let path = image.path();
    let failed = |error: Errno| HostError::system("attach a loop device to", &path, error);
    let control_path = Path::new("/dev/loop-control");
    let control = open(control_path, OFlags::RDWR)?;
    for _ in 0..ATTACH_RACES {
        let number = loopdev::get_free(control.as_fd())
            .map_err(|error| HostError::system("find a free loop device with", control_path, error))?;
        let node = PathBuf::from(format!("/dev/loop{number}"));
        // Who used it last may have been killed in between.
        if has_lost_discards(&node) {
            renew(&node)?;
        }
        let device = match rustix::fs::open(&node, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(device) => device,
            Err(Errno::BUSY | Errno::NXIO) => continue,
            Err(error) => return Err(HostError::system("open", &node, error)),
        };
        let (name, LoopOptions { block_size, direct_io }) = (path.to_string_lossy(), options.clone());
        match loopdev::configure(device.as_fd(), image.descriptor(), &name, block_size, direct_io) {
            Ok(()) => return read_back(&device, node, image, options),
            Err(Errno::BUSY) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(Errno::BUSY))
}

/// Returns the attached device as reported by the descriptor that attached it: as long as that is open,
/// nobody can give the device another file.
fn read_back(
    device: &OwnedFd,
    node: PathBuf,
    image: &OpenImage,
    options: &LoopOptions,
) -> Result<AttachedLoop> {
    let in_force = || {
        verify(device, &node, image.identity())?;
        if let Some(reason) = refused_option(device, options) {
            return Err(not_in_force(&image.path(), reason));
        }
        let read_only = block::read_only(device.as_fd())
            .map_err(|error| HostError::system("read the write protection of", &node, error))?;
        let identity = super::device::identity(device.as_fd(), &node)?;
        Ok(AttachedLoop { node: node.clone(), identity, read_only })
    };
    in_force().inspect_err(|_| {
        // It goes away with the last descriptor, which is this one or one of a process that only looks at it.
        let _ = loopdev::clear(device.as_fd());
    })
}

/// Verifies that a loop device has this file.
pub(super) fn verify(device: &OwnedFd, node: &Path, image: &FileIdentity) -> Result<()> {
    let status = loopdev::status(device.as_fd())
        .map_err(|error| HostError::system("read the status of", node, error))?;
    match backing(&status) {
        found if found == (image.device, image.inode) => Ok(()),
        found => Err(replaced(node, file_text((image.device, image.inode)), file_text(found))),
    }
}

/// A file by the device number of its filesystem and its inode.
type File = ((u32, u32), u64);

/// A file whose filesystem does not answer any more.
const UNANSWERED: File = ((0, 0), 0);

fn backing(status: &loopdev::LoopStatus) -> File {
    (device_number(status.backing_device()), status.backing_inode())
}

fn file_text(((major, minor), inode): File) -> String {
    format!("inode {inode} on {major}:{minor}")
}

fn replaced(node: &Path, before: String, now: String) -> HostError {
    HostError::Replaced {
        path: node.display().to_string(),
        difference: format!("it was attached to {before} and is attached to {now}"),
    }
}

/// The kernel silently attaches without direct I/O, or with another block size, if the backing file does not
/// allow them.
fn refused_option(device: &OwnedFd, options: &LoopOptions) -> Option<String> {
    let direct_io = loopdev::status(device.as_fd()).map(|status| status.direct_io());
    if direct_io != Ok(options.direct_io) {
        let wanted = if options.direct_io { "on" } else { "off" };
        return Some(format!("direct I/O cannot be switched {wanted} for this file"));
    }
    let block_size = rustix::fs::ioctl_blksszget(device);
    (block_size != Ok(options.block_size))
        .then(|| format!("a block size of {} bytes is not possible for this file", options.block_size))
}

fn not_in_force(image: &Path, reason: String) -> HostError {
    HostError::System {
        action: "attach a loop device to".to_string(),
        object: image.display().to_string(),
        errno: Errno::OPNOTSUPP.raw_os_error(),
        reason,
    }
}

/// The result of detaching.
enum Detached {
    Yes,
    /// The device is attached to something else by now, and was left alone.
    Other(HostError),
}

/// Detaches a loop device now, trying for a short time while it is busy.
pub(super) fn detach(attached: &LoopInfo) -> Result<()> {
    let node = &attached.device;
    let has_lost_discards = has_lost_discards(node);
    match while_busy(|| detach_once(attached)) {
        Ok(Detached::Yes) if has_lost_discards => renew(node),
        Ok(Detached::Yes) => Ok(()),
        Ok(Detached::Other(error)) => Err(error),
        Err(error) => Err(HostError::system("detach the loop device", node, error)),
    }
}

/// The attribute of its queue.
fn queue(node: &Path, attribute: &str) -> PathBuf {
    Path::new("/sys/block").join(node.file_name().unwrap_or_default()).join("queue").join(attribute)
}

/// Returns whether discards were switched off, as for images that are kept. The kernel keeps that for the
/// next file, and accepts no other value any more: without discards their granularity is 0, of which nothing
/// is a multiple (seen with 6.18; `queue_discard_max_store`).
fn has_lost_discards(node: &Path) -> bool {
    let is_zero = |attribute| fs::read_to_string(queue(node, attribute)).map(|text| text.trim() == "0");
    matches!((is_zero("discard_max_bytes"), is_zero("discard_max_hw_bytes")), (Ok(true), Ok(false)))
}

/// Removes a free loop device and adds it again, which brings back what it was able to do, with the other
/// settings of its queue as they are. If somebody else uses it by now, it is left alone.
fn renew(node: &Path) -> Result<()> {
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(number) = name.strip_prefix("loop").and_then(|number| number.parse().ok()) else {
        return Ok(());
    };
    let failed = |error| HostError::system("remove and add the loop device", node, error);
    let read = |attribute| fs::read_to_string(queue(node, attribute)).ok();
    let before: Vec<_> = lasting_attributes(&name).map(|attribute| (attribute, read(attribute))).collect();
    let control = open(Path::new("/dev/loop-control"), OFlags::RDWR)?;
    match while_busy(|| loopdev::remove(control.as_fd(), number)) {
        Err(Errno::BUSY | Errno::NODEV) => return Ok(()),
        removed => removed.map_err(failed)?,
    }
    match loopdev::add(control.as_fd(), number) {
        Err(Errno::EXIST) => return Ok(()),
        added => added.map_err(failed)?,
    }
    for (attribute, before) in before {
        let Some(before) = before.filter(|before| read(attribute).is_some_and(|now| now != *before)) else {
            continue;
        };
        // The scheduler in force stands in brackets among all that there are.
        let in_force =
            before.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
        let path = queue(node, attribute);
        fs::write(&path, in_force.unwrap_or(before.trim())).map_err(|error| {
            HostError::system("write", &path, Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })?;
    }
    Ok(())
}

/// `LOOP_CLR_FD` never fails for a busy device: it defers the detaching until the last opener is gone. So
/// mounts and other holders are detected first by an exclusive open, and plain openers afterwards: if the
/// device outlives our own close, the deferred detaching is cancelled. Each check uses the descriptor that is
/// used next: while that is open, nobody can give the device another file.
fn detach_once(attached: &LoopInfo) -> rustix::io::Result<Detached> {
    // Without O_CREAT, O_EXCL on a block device means: no mount, no holder, no other exclusive opener
    // (open(2)).
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let device = rustix::fs::open(&attached.device, flags, Mode::empty())?;
    let file = match loopdev::status(device.as_fd()) {
        Err(Errno::NOTCONN) => UNANSWERED,
        status => backing(&status?),
    };
    if let Some(other) = other_than(attached, &device, file) {
        return Ok(Detached::Other(other));
    }
    loopdev::clear(device.as_fd())?;
    drop(device);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let device = match rustix::fs::open(&attached.device, flags, Mode::empty()) {
        // A loop device beyond the initial ones can be removed by others as soon as it is free.
        Err(Errno::NOENT | Errno::NXIO) => return Ok(Detached::Yes),
        device => device?,
    };
    match loopdev::status(device.as_fd()) {
        Err(Errno::NXIO) => Ok(Detached::Yes),
        // It is still open somewhere.
        Err(Errno::NOTCONN) => Err(Errno::BUSY),
        Err(error) => Err(error),
        // Somebody else attached another file in the meantime: it is not fsdyno's any more, whatever its
        // flags.
        Ok(status) if other_than(attached, &device, backing(&status)).is_some() => Ok(Detached::Yes),
        Ok(status) if !status.autoclear() => Ok(Detached::Yes),
        Ok(status) => match loopdev::clear_autoclear(device.as_fd(), status) {
            Err(Errno::NXIO) => Ok(Detached::Yes),
            Err(error) => Err(error),
            Ok(()) => Err(Errno::BUSY),
        },
    }
}

/// Returns an error if a loop device no longer has this file or this attachment. If its file does not answer,
/// the number of the attachment decides alone.
fn other_than(attached: &LoopInfo, device: &OwnedFd, file_now: File) -> Option<HostError> {
    let file = (attached.backing_device, attached.backing_inode);
    let diskseq = block::diskseq(device.as_fd()).ok();
    let now = (file_now, diskseq);
    let is_same = match file_now {
        UNANSWERED => diskseq.is_some() && diskseq == attached.diskseq,
        _ => now == (file, attached.diskseq),
    };
    (!is_same).then(|| {
        let text = |(file, diskseq): (File, Option<u64>)| {
            let diskseq = diskseq.map(|diskseq| format!(", diskseq {diskseq}")).unwrap_or_default();
            file_text(file) + &diskseq
        };
        replaced(&attached.device, text((file, attached.diskseq)), text(now))
    })
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

/// Returns the attachment of a loop device; `None` if it is free, or became so in the meantime.
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
        Err(Errno::NOTCONN) => None,
        status => Some(status.map_err(|error| HostError::system("read the status of", &node, error))?),
    };
    let (backing_device, backing_inode) = status.as_ref().map_or(UNANSWERED, backing);
    Ok(Some(Attached {
        info: LoopInfo {
            device: node,
            backing_device,
            backing_inode,
            backing_path: backing_path.trim_end_matches('\n').to_string(),
            diskseq: block::diskseq(device.as_fd()).ok(),
        },
        backing_block: status.and_then(|status| status.backing_block()).map(device_number),
    }))
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| HostError::system("open", path, error))
}
