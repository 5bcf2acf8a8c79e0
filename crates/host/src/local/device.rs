//! Open devices: locked against udev and other runs, and verified on the descriptor itself.

use super::{device_number, while_busy};
use crate::probe::{DeviceIdentity, Partition};
use crate::{HostError, Result, noise};
use fsdyno_sys::block;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The content of the first sector of a disk that fsdyno has written to, if no filesystem is there. The
/// sector is meant for boot code, so filesystems, arrays and volume groups leave it free or overwrite it.
pub(super) const MARK: &[u8] = b"fsdyno scratch disk: what is on it was made to be destroyed\n";
/// The smallest unit that is written; the rest of it is zeros.
const SECTOR: usize = 512;

/// A block device that is open for reading and writing, under an exclusive flock.
pub(super) struct OpenDevice {
    path: PathBuf,
    descriptor: Arc<OwnedFd>,
    /// The disk of a partition. All partitions of one disk that are open here share it, because its lock
    /// excludes any other.
    disk: Option<Arc<DiskLock>>,
}

/// The disk of a partition, open for reading only, under an exclusive flock: udev respects only the lock of
/// the disk (systemd, "Locking Block Device Access").
pub(super) struct DiskLock {
    number: (u32, u32),
    _descriptor: OwnedFd,
}

impl DiskLock {
    fn take(number: (u32, u32)) -> Result<Self> {
        let (major, minor) = number;
        let uevent = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/uevent"));
        let text = fs::read_to_string(&uevent).map_err(|error| HostError::system("read", &uevent, error))?;
        let name = text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).unwrap_or_default();
        let node = Path::new("/dev").join(name);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&node, flags, Mode::empty())
            .map_err(|error| HostError::system("open the disk", &node, error))?;
        let found = rustix::fs::fstat(&descriptor)
            .map_err(|error| HostError::system("identify the disk", &node, error))?;
        if device_number(found.st_rdev) != number {
            return Err(HostError::system("find the disk", &node, Errno::NODEV));
        }
        while_busy(|| rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive))
            .map_err(|error| HostError::system("lock the disk", &node, error))?;
        Ok(DiskLock { number, _descriptor: descriptor })
    }
}

impl OpenDevice {
    /// The lock is the one that udev respects (systemd, "Locking Block Device Access"). `O_EXCL` is not used:
    /// with it, every mkfs would fail as busy. `others` are already open.
    pub(super) fn open<'a>(
        path: &Path,
        expected: &DeviceIdentity,
        others: impl Iterator<Item = &'a OpenDevice>,
    ) -> Result<Self> {
        let descriptor = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| HostError::system("open for writing", path, error))?;
        while_busy(|| rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive))
            .map_err(|error| HostError::system("lock", path, error))?;
        let disk = match expected.partition {
            None => None,
            Some(Partition { disk, .. }) => {
                let mut shared = others.filter_map(|other| other.disk.as_ref());
                let known = shared.find(|lock| lock.number == disk).map(Arc::clone);
                Some(known.map_or_else(|| DiskLock::take(disk).map(Arc::new), Ok)?)
            }
        };
        let device = OpenDevice { path: path.to_path_buf(), descriptor: Arc::new(descriptor), disk };
        device.verify(expected)?;
        Ok(device)
    }

    /// Compares the identity of the descriptor now with the one that was verified before.
    pub(super) fn verify(&self, expected: &DeviceIdentity) -> Result<()> {
        let found = identity(self.descriptor.as_fd(), &self.path)?;
        match difference(expected, &found) {
            None => Ok(()),
            Some(difference) => {
                Err(HostError::IdentityChanged { path: self.path.display().to_string(), difference })
            }
        }
    }

    /// Returns whether somebody claims the device: a mount, an array, a swap area, or another exclusive
    /// opener. The claim of this check itself is released at once, because no tool could work alongside it.
    pub(super) fn is_claimed(&self) -> Result<bool> {
        match self.open_again(OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK) {
            Ok(_) => Ok(false),
            Err(Errno::BUSY) => Ok(true),
            Err(error) => Err(HostError::system("try to claim", &self.path, error)),
        }
    }

    /// Gives up the lock and the right to write, but stays open: until it is closed, the kernel gives its
    /// number to no other device.
    pub(super) fn downgrade(&mut self) -> Result<()> {
        let reader = self
            .open_again(OFlags::RDONLY)
            .map_err(|error| HostError::system("open for reading", &self.path, error))?;
        self.descriptor = Arc::new(reader);
        self.disk = None;
        Ok(())
    }

    /// Writes our mark into the first sector.
    pub(super) fn mark(&self) -> Result<()> {
        let failed = |error: Errno| HostError::system("mark", &self.path, error);
        let mut sector = [0; SECTOR];
        sector[..MARK.len()].copy_from_slice(MARK);
        match rustix::io::pwrite(&self.descriptor, &sector, 0).map_err(failed)? {
            SECTOR => rustix::fs::fsync(&self.descriptor).map_err(failed),
            _ => Err(failed(Errno::NOSPC)),
        }
    }

    /// Writes random data to a range of it.
    pub(super) fn fill(&self, from: u64, length: u64) -> Result<()> {
        noise::write(&self.descriptor, from, length)
            .map_err(|error| HostError::system("fill", &self.path, error))
    }

    /// Another descriptor of the very device that is open, whatever its path leads to by now.
    fn open_again(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = fsdyno_sys::child::path_of(self.descriptor.as_fd());
        rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Checks that this path leads to the device.
    pub(super) fn is_at(&self, path: &Path) -> Result<()> {
        let failed = |error: Errno| HostError::system("examine", path, error);
        let number = |stat: rustix::fs::Stat| device_number(stat.st_rdev);
        let ours = number(rustix::fs::fstat(&self.descriptor).map_err(failed)?);
        let found = rustix::fs::stat(path).map_err(failed)?;
        let block = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
        let found = number(found);
        if block && found == ours {
            return Ok(());
        }
        let difference =
            format!("its number was {}:{}, but the path leads to {}:{}", ours.0, ours.1, found.0, found.1);
        Err(HostError::IdentityChanged { path: path.display().to_string(), difference })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.descriptor)
    }
}

/// Which device a descriptor is.
pub(super) fn identity(device: BorrowedFd<'_>, path: &Path) -> Result<DeviceIdentity> {
    let failed = |error: Errno| HostError::system("identify", path, error);
    let stat = rustix::fs::fstat(device).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Err(failed(Errno::NOTBLK));
    }
    let number = device_number(stat.st_rdev);
    Ok(DeviceIdentity {
        number,
        size_bytes: block::size(device).map_err(failed)?,
        diskseq: block::diskseq(device).ok(),
        serial: serial(number),
        partition: partition(number),
    })
}

/// Where a partition is; `None` for a disk.
pub(super) fn partition((major, minor): (u32, u32)) -> Option<Partition> {
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if !own.join("partition").exists() {
        return None;
    }
    let read = |file: &str| fs::read_to_string(own.join(file)).map(|text| text.trim().to_string());
    // In sectors of 512 bytes, whatever the disk's own (Documentation/ABI/stable/sysfs-block).
    let start = read("start").ok()?.parse::<u64>().ok()? * 512;
    let number = read("../dev").ok()?;
    let (major, minor) = number.split_once(':')?;
    Some(Partition { disk: (major.parse().ok()?, minor.parse().ok()?), start_bytes: start })
}

/// WWN or serial number, from wherever the driver puts it; a partition has that of its disk.
pub(super) fn serial(number: (u32, u32)) -> Option<String> {
    let places = ["wwid", "device/wwid", "serial", "device/serial", "dm/uuid", "md/uuid"];
    attribute(number, &places)
}

/// Model name, from wherever the driver puts it.
pub(super) fn model(number: (u32, u32)) -> Option<String> {
    attribute(number, &["loop/backing_file", "device/model", "dm/name", "md/level"])
}

fn attribute((major, minor): (u32, u32), places: &[&str]) -> Option<String> {
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let disk = own.join("partition").exists().then(|| own.join(".."));
    let directory = disk.unwrap_or(own);
    places.iter().find_map(|place| {
        // A serial number is whatever bytes the device gave.
        let text = fs::read(directory.join(place)).ok()?;
        let text = String::from_utf8_lossy(&text).trim().to_string();
        (!text.is_empty()).then_some(text)
    })
}

/// The first fact that differs, before and now.
fn difference(expected: &DeviceIdentity, found: &DeviceIdentity) -> Option<String> {
    let number = |(major, minor): (u32, u32)| format!("{major}:{minor}");
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_string());
    let place = |identity: &DeviceIdentity| {
        let text = |part: Partition| format!("byte {} of {}", part.start_bytes, number(part.disk));
        or_none(identity.partition.map(text))
    };
    let diskseq = |identity: &DeviceIdentity| or_none(identity.diskseq.map(|number| number.to_string()));
    // A partition that moved may also have another number, but its position says more.
    let facts = [
        ("place on a disk", place(expected), place(found)),
        ("device number", number(expected.number), number(found.number)),
        ("size in bytes", expected.size_bytes.to_string(), found.size_bytes.to_string()),
        ("disk sequence number", diskseq(expected), diskseq(found)),
        ("serial number", or_none(expected.serial.clone()), or_none(found.serial.clone())),
    ];
    let changed = facts.into_iter().find(|(_, before, now)| before != now);
    changed.map(|(fact, before, now)| format!("its {fact} was {before} and is {now}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_of_the_identity_counts() {
        let before = DeviceIdentity {
            number: (7, 0),
            size_bytes: 1024,
            diskseq: Some(9),
            serial: Some("naa.5000".to_string()),
            partition: Some(Partition { disk: (8, 0), start_bytes: 1 << 20 }),
        };
        assert_eq!(difference(&before, &before), None);
        let changed = [
            (DeviceIdentity { number: (7, 1), ..before.clone() }, "7:0 and is 7:1"),
            (DeviceIdentity { size_bytes: 2048, ..before.clone() }, "1024 and is 2048"),
            (DeviceIdentity { diskseq: Some(10), ..before.clone() }, "9 and is 10"),
            (DeviceIdentity { diskseq: None, ..before.clone() }, "9 and is none"),
            (DeviceIdentity { serial: None, ..before.clone() }, "naa.5000 and is none"),
            (
                DeviceIdentity {
                    partition: Some(Partition { disk: (8, 0), start_bytes: 2 << 20 }),
                    ..before.clone()
                },
                "byte 1048576 of 8:0 and is byte 2097152 of 8:0",
            ),
        ];
        for (now, words) in changed {
            let text = difference(&before, &now).expect("a difference");
            assert!(text.contains(words), "{text}");
        }
    }
}
