//! A filesystem that is prepared once, and copied for every trial that begins with it.
//!
//! Its images have names that only fsdyno knows, are in a journal of their own, and nothing attaches them
//! once they are complete: each trial attaches a copy, which has the path that the plan names. Where the
//! filesystem below can share blocks between files, a copy shares them; elsewhere it is written.

use crate::Result;
use crate::device::Contents;
use crate::error::{GuardRefusal, TestbedError};
use crate::guard::Testbed;
use crate::image::MadeImage;
use crate::kept::{failed, short};
use crate::name::random_name;
use crate::spec::images;
use crate::stack::{Formatted, Images, Stack, Wanted, open};
use crate::undo::UndoJournal;
use crate::way_back::UndoAction;
use fsdyno_core::device::Image;
use fsdyno_core::{Bytes, Configuration, DeviceSpec};
use fsdyno_host::{Host, NewImage};
use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const STEP: &str = "copy";
/// The number of bytes copied before each sync, so that little of the data is in memory at any time.
const PIECE: u64 = 16 * Bytes::MIB;
const BLOCK: usize = 1 << 20;

/// The images of a filesystem that is prepared for several trials.
#[derive(Debug)]
pub struct Prepared {
    testbed: Testbed,
    /// The configuration that the filesystem is prepared with.
    configuration: Configuration,
    seed: u64,
    images: Vec<Original>,
}

#[derive(Debug)]
struct Original {
    /// With the path that its copies get.
    image: MadeImage,
    /// Its own path.
    hidden: PathBuf,
    /// Open until it is removed, whatever happens to the process that carries out steps.
    file: OwnedFd,
    /// As it was when it was complete.
    state: Option<FileState>,
    /// `true` if a copy may share its blocks.
    shareable: bool,
}

/// The properties that change when a file is written or truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    size: i64,
    modified: (i64, i64),
}

impl FileState {
    fn of(file: &OwnedFd) -> Option<FileState> {
        let found = rustix::fs::fstat(file).ok()?;
        Some(FileState { size: found.st_size, modified: (found.st_mtime as i64, found.st_mtime_nsec as i64) })
    }
}

impl Prepared {
    /// Creates the images that a filesystem is to be prepared on. They stay until [`Prepared::remove`], or
    /// until the journal is undone.
    ///
    /// # Errors
    /// [`TestbedError::Journal`], [`TestbedError::Host`]. What was created stays in the journal.
    pub fn create(
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        testbed: &Testbed,
        configuration: &Configuration,
        seed: u64,
    ) -> Result<Prepared> {
        let mut created = Vec::new();
        for spec in images(configuration, &testbed.devices) {
            let DeviceSpec::Image(spec) = spec else { continue };
            let Image { path, size, .. } = spec;
            let hidden = path.with_file_name(format!(".fsdyno-{}", random_name()));
            journal.append(&[UndoAction::RemoveFile { path: hidden.clone(), identity: None }])?;
            let NewImage { handle, identity } =
                host.create_image(&hidden, *size).map_err(TestbedError::at("image"))?;
            journal.opened_image(handle);
            journal.made(&hidden, &identity);
            let file = host.image_descriptor(handle, &identity).map_err(TestbedError::at("image"))?;
            let image = MadeImage { path: path.clone(), handle, identity, kept: true };
            let shareable = may_share_blocks(&file, spec);
            created.push(Original { image, hidden, file, state: None, shareable });
        }
        let (testbed, configuration) = (testbed.clone(), configuration.clone());
        Ok(Prepared { testbed, configuration, seed, images: created })
    }

    /// Attaches the images themselves, for the filesystem that is to be prepared on them.
    ///
    /// # Errors
    /// As for [`build`](crate::build).
    pub fn build(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        interrupt: &AtomicBool,
    ) -> Result<Stack> {
        let wanted = self.wanted(&self.configuration, interrupt, Contents::Replaced);
        let given: Vec<MadeImage> = self.images.iter().map(|original| original.image.clone()).collect();
        open(host, journal, &wanted, Images::Given(&given)).map(Stack::new)
    }

    /// Attaches copies of the images. `on_progress` learns the share that is copied.
    ///
    /// # Errors
    /// As for [`build`](crate::build); [`TestbedError::Host`] if a copy cannot be written, or if the
    /// filesystem below has only its reserve left; [`TestbedError::Interrupted`].
    pub fn copy(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        configuration: &Configuration,
        interrupt: &AtomicBool,
        on_progress: &mut dyn FnMut(f64),
    ) -> Result<Formatted> {
        let wanted = self.wanted(configuration, interrupt, Contents::Kept { without: None });
        let copied =
            |host: &mut dyn Host, copies: &[MadeImage]| self.copy_to(host, copies, interrupt, on_progress);
        let trial = open(host, journal, &wanted, Images::Filled(&mut { copied }))?;
        trial.adopt_geometry(&self.configuration);
        Ok(Formatted::new(trial))
    }

    fn wanted<'a>(
        &'a self,
        configuration: &'a Configuration,
        interrupt: &'a AtomicBool,
        contents: Contents,
    ) -> Wanted<'a> {
        Wanted { testbed: &self.testbed, configuration, seed: self.seed, interrupt, contents }
    }

    fn copy_to(
        &self,
        host: &mut dyn Host,
        copies: &[MadeImage],
        interrupt: &AtomicBool,
        on_progress: &mut dyn FnMut(f64),
    ) -> Result<()> {
        for copy in copies {
            let original = self.images.iter().find(|original| original.image.path == copy.path);
            let Some(original) = original else { continue };
            if original.state != FileState::of(&original.file) {
                return Err(changed(&original.hidden));
            }
            let from = &original.file;
            let to = host.image_descriptor(copy.handle, &copy.identity).map_err(TestbedError::at(STEP))?;
            let mut on = |share: f64| {
                on_progress(share);
                match short(&to, &copy.path) {
                    _ if interrupt.load(Ordering::Relaxed) => {
                        let what = format!("'{}' was being copied", copy.path.display());
                        Err(TestbedError::Interrupted { what })
                    }
                    Some(error) => Err(error),
                    None => Ok(()),
                }
            };
            let at = |errno| failed("copy to", &copy.path, errno);
            if !(original.shareable && shares_blocks(from, &to).map_err(at)?) {
                copy_data(from, &to, &copy.path, &mut on)?;
            }
        }
        Ok(())
    }

    /// Closes the images for those who attach them: what is prepared on them is complete.
    ///
    /// # Errors
    /// [`TestbedError::Host`].
    pub fn complete(&mut self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<()> {
        for Original { image, file, state, .. } in &mut self.images {
            journal.close_image(host, image.handle).map_err(TestbedError::at(STEP))?;
            *state = FileState::of(file);
        }
        Ok(())
    }

    /// Returns whether the images are as they were when they were complete.
    pub fn is_unchanged(&self) -> bool {
        self.images.iter().all(|original| original.state == FileState::of(&original.file))
    }

    /// Removes the images. Returns what could not be removed, one line each; it stays in the journal.
    pub fn remove(self, host: &mut dyn Host, journal: &mut UndoJournal) -> Vec<String> {
        let paths: Vec<&Path> = self.images.iter().map(|original| original.hidden.as_path()).collect();
        journal.remove_files(host, &paths)
    }
}

/// Returns whether the loop device of an image can still bypass the page cache if the image shares blocks
/// with another file: xfs then takes direct I/O in whole blocks only (fs/xfs/xfs_iops.c,
/// `xfs_report_dioalign`).
fn may_share_blocks(file: &OwnedFd, image: &Image) -> bool {
    const XFS: u32 = 0x5846_5342;
    match rustix::fs::fstatfs(file) {
        Ok(found) if found.f_type as u32 == XFS => !image.direct_io || image.sector.0 >= found.f_bsize as u64,
        _ => true,
    }
}

fn changed(path: &Path) -> TestbedError {
    let reason = "was changed by another program after a filesystem had been prepared on it".to_string();
    let hint = "the next trial that needs it prepares it again".to_string();
    TestbedError::Refused { refusals: vec![GuardRefusal { device: path.to_path_buf(), reason, hint }] }
}

/// Makes a file share all blocks of another (ioctl_ficlone(2)); `false` if their filesystem cannot do that.
fn shares_blocks(from: &OwnedFd, to: &OwnedFd) -> rustix::io::Result<bool> {
    match rustix::fs::ioctl_ficlone(to, from) {
        // What is still in memory belongs to no timed phase.
        Ok(()) => rustix::fs::fdatasync(to).map(|()| true),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::INVAL | Errno::XDEV | Errno::TXTBSY) => {
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}

/// Copies what is not a hole. `on` learns the share of the file that is behind, and ends it with an error.
fn copy_data(from: &OwnedFd, to: &OwnedFd, path: &Path, on: &mut dyn FnMut(f64) -> Result<()>) -> Result<()> {
    let at = |errno| failed("copy to", path, errno);
    let size = rustix::fs::fstat(from).map_err(at)?.st_size as u64;
    let mut block = vec![0; BLOCK];
    // What is copied since the last sync begins at `synced`, and has `waiting` bytes.
    let (mut place, mut synced, mut waiting) = (0, 0, 0);
    while let Some(data) = next_data(from, place, size).map_err(at)? {
        let end = rustix::fs::seek(from, SeekFrom::Hole(data)).map_err(at)?.min(size);
        place = data;
        while place < end {
            let most = block.len().min((end - place) as usize);
            let copied = copy_block(from, to, place, &mut block[..most]).map_err(at)?;
            place += copied;
            waiting += copied;
            if waiting >= PIECE {
                settle(from, to, synced, place).map_err(at)?;
                (synced, waiting) = (place, 0);
                on(place as f64 / size as f64)?;
            }
        }
    }
    settle(from, to, synced, size).map_err(at)
}

/// The next byte from here on that is not in a hole; `None` if there is none.
fn next_data(from: &OwnedFd, place: u64, size: u64) -> rustix::io::Result<Option<u64>> {
    match rustix::fs::seek(from, SeekFrom::Data(place)) {
        _ if place >= size => Ok(None),
        Err(Errno::NXIO) => Ok(None),
        found => found.map(|place| (place < size).then_some(place)),
    }
}

/// Copies what fits into this block; returns how much that was.
fn copy_block(from: &OwnedFd, to: &OwnedFd, at: u64, block: &mut [u8]) -> rustix::io::Result<u64> {
    let read = rustix::io::pread(from, &mut *block, at)?;
    let mut written = 0;
    while written < read {
        written += rustix::io::pwrite(to, &block[written..read], at + written as u64)?;
    }
    // It was opened by its size, and nobody else has it.
    if read == 0 { Err(Errno::IO) } else { Ok(read as u64) }
}

/// Waits until everything is on the disk, and drops a range from memory.
fn settle(from: &OwnedFd, to: &OwnedFd, start: u64, end: u64) -> rustix::io::Result<()> {
    rustix::fs::fdatasync(to)?;
    let Some(length) = NonZeroU64::new(end - start) else { return Ok(()) };
    rustix::fs::fadvise(from, start, Some(length), Advice::DontNeed)?;
    rustix::fs::fadvise(to, start, Some(length), Advice::DontNeed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    fn file(size: u64) -> File {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.set_len(size).unwrap();
        file
    }

    #[test]
    fn a_copy_has_the_same_data_and_the_same_holes() {
        let size = 64 * Bytes::MIB;
        let (from, to) = (file(size), file(size));
        for (at, length) in [(0, 5000), (20 * Bytes::MIB - 4096, PIECE as usize + 8192), (size - 4096, 4096)]
        {
            from.write_all_at(&vec![0x5a; length], at).unwrap();
        }
        from.sync_all().unwrap();
        let (from, to) = (OwnedFd::from(from), OwnedFd::from(to));
        let mut shares = Vec::new();
        let on = &mut |share| {
            shares.push(share);
            Ok(())
        };
        copy_data(&from, &to, Path::new("copy"), on).unwrap();
        assert!(!shares.is_empty() && shares.is_sorted() && shares.iter().all(|share| *share <= 1.0));
        let (from, to) = (File::from(from), File::from(to));
        let read = |file: &File| {
            let mut bytes = vec![0; size as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        assert!(read(&from) == read(&to));
        let blocks = [&from, &to].map(|file| file.metadata().unwrap().blocks());
        assert!(blocks[1] <= blocks[0] + 64, "{blocks:?}");
    }

    #[test]
    fn an_empty_file_is_copied_and_an_error_ends_it() {
        let (from, to) = (OwnedFd::from(file(Bytes::MIB)), OwnedFd::from(file(Bytes::MIB)));
        let never = &mut |_| -> Result<()> { panic!("there is nothing to copy") };
        copy_data(&from, &to, Path::new("copy"), never).unwrap();
        let (from, to) = (OwnedFd::from(file(2 * PIECE)), OwnedFd::from(file(2 * PIECE)));
        File::from(from.try_clone().unwrap()).write_all_at(&vec![1; PIECE as usize], 4096).unwrap();
        let stop = &mut |_| Err(TestbedError::Interrupted { what: "copying".to_string() });
        assert!(copy_data(&from, &to, Path::new("copy"), stop).is_err());
    }
}
