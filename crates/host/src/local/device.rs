//! Open devices: locked against udev and other runs, and verified on the descriptor itself.

use super::{device_number, while_busy};
use crate::probe::DeviceIdentity;
use crate::{HostError, Result};
use fsdyno_sys::block;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A block device that is open for reading and writing, under an exclusive flock.
pub(super) struct OpenDevice {
    path: PathBuf,
    descriptor: Arc<OwnedFd>,
}

impl OpenDevice {
    /// The lock is the one that udev respects (systemd, "Locking Block Device Access"). `O_EXCL` is not used: with it held
    /// here, every mkfs fails as busy.
    pub(super) fn open(path: &Path, expected: &DeviceIdentity) -> Result<Self> {
        let descriptor = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| HostError::system("open for writing", path, error))?;
        while_busy(|| rustix::fs::flock(&descriptor, FlockOperation::NonBlockingLockExclusive))
            .map_err(|error| HostError::system("lock", path, error))?;
        let device = OpenDevice { path: path.to_path_buf(), descriptor: Arc::new(descriptor) };
        device.verify(expected)?;
        Ok(device)
    }

    /// Compares what the descriptor is now with what was verified before.
    pub(super) fn verify(&self, expected: &DeviceIdentity) -> Result<()> {
        let found = identity(self.descriptor.as_fd(), &self.path)?;
        match difference(expected, &found) {
            None => Ok(()),
            Some(difference) => {
                Err(HostError::IdentityChanged { path: self.path.display().to_string(), difference })
            }
        }
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
    })
}

/// WWN or serial number, from the places where drivers put it; a partition has that of its disk.
pub(super) fn serial(number: (u32, u32)) -> Option<String> {
    let places = ["wwid", "device/wwid", "serial", "device/serial", "dm/uuid", "md/uuid"];
    attribute(number, &places)
}

/// Model name, from the places where drivers put it.
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
    let diskseq = |identity: &DeviceIdentity| or_none(identity.diskseq.map(|number| number.to_string()));
    let facts = [
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
        };
        assert_eq!(difference(&before, &before), None);
        let changed = [
            (DeviceIdentity { number: (7, 1), ..before.clone() }, "7:0 and is 7:1"),
            (DeviceIdentity { size_bytes: 2048, ..before.clone() }, "1024 and is 2048"),
            (DeviceIdentity { diskseq: Some(10), ..before.clone() }, "9 and is 10"),
            (DeviceIdentity { diskseq: None, ..before.clone() }, "9 and is none"),
            (DeviceIdentity { serial: None, ..before.clone() }, "naa.5000 and is none"),
        ];
        for (now, words) in changed {
            let text = difference(&before, &now).expect("a difference");
            assert!(text.contains(words), "{text}");
        }
    }
}
