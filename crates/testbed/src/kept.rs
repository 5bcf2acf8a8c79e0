//! Images that are written once and serve every trial of a sweep, as a disk would: what a trial leaves on one
//! is overwritten by the next, and no block of it is allocated while a load is timed.
//!
//! They have a journal of their own, because those of the trials are undone after each.

use crate::Result;
use crate::device::make_images;
use crate::error::TestbedError;
use crate::guard::Testbed;
use crate::image::MadeImage;
use crate::undo::UndoJournal;
use fsdyno_core::reserve::reserve;
use fsdyno_core::{Bytes, DeviceSpec};
use fsdyno_host::{Host, HostError, noise};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of bytes written before each sync, so that little of the data is in memory at any time.
const PIECE: u64 = 16 * Bytes::MIB;

impl Testbed {
    /// Makes and writes all images that are kept, unless that has been done; `false` if it was interrupted.
    /// `on_progress` learns how much of them is written.
    ///
    /// # Errors
    /// [`TestbedError::Refused`] if something has appeared at the path of one, [`TestbedError::Host`] if one
    /// cannot be written. Whatever was made is in the journal.
    pub fn write_kept_images(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        interrupt: &AtomicBool,
        on_progress: &mut dyn FnMut(f64),
    ) -> Result<bool> {
        let specs: Vec<&DeviceSpec> = self.kept().collect();
        if specs.is_empty() || !self.knowledge().kept.is_empty() {
            return Ok(true);
        }
        let whole: u64 = specs.iter().filter_map(|spec| spec.size()).map(|size| size.0).sum();
        let mut images = make_images(host, journal, &specs, None, &[])?;
        let mut done = 0;
        for (image, spec) in images.iter_mut().zip(&specs) {
            image.kept = true;
            let file =
                host.image_descriptor(image.handle, &image.identity).map_err(TestbedError::at("image"))?;
            let size = spec.size().unwrap_or_default().0;
            let mut at = 0;
            while at < size {
                if interrupt.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                if let Some(error) = short(&file, &image.path) {
                    return Err(error);
                }
                let length = PIECE.min(size - at);
                noise::write(&file, at, length)
                    .map_err(|errno| failed("write the image", &image.path, errno))?;
                at += length;
                done += length;
                on_progress(done as f64 / whole as f64);
            }
        }
        self.knowledge().kept = images;
        Ok(true)
    }

    /// Returns whether some image is written before the first trial.
    pub fn keeps_images(&self) -> bool {
        self.kept().next().is_some()
    }

    fn kept(&self) -> impl Iterator<Item = &DeviceSpec> {
        let disks = self.devices.all().flat_map(DeviceSpec::disks);
        disks.filter(|disk| matches!(disk, DeviceSpec::Image(image) if image.is_kept()))
    }

    /// Those that have been made.
    pub(crate) fn kept_images(&self) -> Vec<MadeImage> {
        self.knowledge().kept.clone()
    }
}

/// Others may have filled the filesystem since the guards looked at it.
pub(crate) fn short(file: &OwnedFd, path: &Path) -> Option<TestbedError> {
    let found = rustix::fs::fstatvfs(file).ok()?;
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(found.f_frsize));
    let reserve = reserve(bytes(found.f_blocks));
    (bytes(found.f_bavail) < reserve)
        .then(|| failed("leave the reserve free while writing", path, rustix::io::Errno::NOSPC))
}

pub(crate) fn failed(action: &str, path: &Path, errno: rustix::io::Errno) -> TestbedError {
    TestbedError::Host { step: "image", source: HostError::system(action, path, errno) }
}
