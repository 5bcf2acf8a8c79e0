//! The contents of memory when a phase begins: emptying the kernel's caches, and filling them again.

use crate::background::Gauge;
use crate::bounds::DROP_CACHES;
use crate::fill;
use fsdyno_core::meminfo;
use fsdyno_core::units::Bytes;
use fsdyno_sys::code;
use fsdyno_sys::extents::{self, Batch};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The maximum number of times that caches are dropped.
const MOST_DROPS: u32 = 8;
/// If less than this goes away, dropping once more is of no use.
const NOTHING: Bytes = Bytes(Bytes::MIB);
/// Bytes of each read that fills the page cache.
const PIECE: usize = 1 << 20;

/// The outcome of dropping caches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropped {
    /// The number of times that the caches were dropped.
    pub drops: u32,
    /// The bytes left in page cache, buffers and reclaimable slabs of the whole machine.
    pub left: Bytes,
}

/// Drops the caches until nothing more goes away: what one drop releases, such as an inode that a page held,
/// the next one can free.
///
/// # Errors
/// Without the privilege.
pub(crate) fn drop_all() -> Result<Dropped, Errno> {
    let mut left = cached();
    for drops in 1..=MOST_DROPS {
        // 3: pages, directory entries and inodes (Documentation/admin-guide/sysctl/vm.rst).
        std::fs::write(DROP_CACHES, "3")
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let now = cached();
        let gone = left.0.saturating_sub(now.0);
        left = now;
        if drops > 1 && gone < NOTHING.0 {
            return Ok(Dropped { drops, left });
        }
    }
    Ok(Dropped { drops: MOST_DROPS, left })
}

/// Returns the bytes that caches of the machine hold and that are in no process.
fn cached() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |key| meminfo::value(&text, key).unwrap_or_default().0;
    Bytes((value("Cached") + value("Buffers") + value("SReclaimable")).saturating_sub(value("Shmem")))
}

/// Reads every directory and inode below `base` and where the files have their data, and the data too if
/// `all`. Returns the bytes that came from the device; `None` where the kernel does not say (no
/// CONFIG_TASK_IO_ACCOUNTING).
///
/// # Errors
/// The first file that could not be read.
pub(crate) fn read(base: &Path, all: bool, gauge: &Gauge) -> std::io::Result<Option<Bytes>> {
    // What this thread itself needs would count as well.
    code::page_in();
    let before = from_device();
    let mut buffer = if all { vec![0; PIECE] } else { Vec::new() };
    let mut batch = Box::<Batch>::default();
    let mut directories = vec![base.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in Dir::new(open(&directory, OFlags::DIRECTORY)?)? {
            if gauge.cancelled() {
                return Ok(None);
            }
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            gauge.advance(1);
            let path = directory.join(name);
            let attributes = rustix::fs::lstat(&path)?;
            match FileType::from_raw_mode(attributes.st_mode) {
                // Nothing reads what only fills the filesystem.
                FileType::Directory if directory == base && name == fill::NAME => {}
                FileType::Directory => directories.push(path),
                FileType::RegularFile => read_file(&path, &mut batch, &mut buffer, gauge)?,
                _ => {}
            }
        }
    }
    Ok(before.and_then(|before| Some(Bytes(from_device()?.0.saturating_sub(before.0)))))
}

/// Opens for reading, if possible without a change to the time of access, which is part of what the phase
/// measures. On overlayfs and FUSE the files may belong to somebody else, who alone may avoid that (open(2)).
fn open(path: &Path, flags: OFlags) -> std::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
        opened => opened,
    };
    Ok(file?)
}

fn read_file(path: &Path, batch: &mut Batch, buffer: &mut [u8], gauge: &Gauge) -> std::io::Result<()> {
    let file = open(path, OFlags::empty())?;
    let mut position = 0;
    // A filesystem that does not say where its files are has nothing to be read for that.
    while let Ok([.., last]) = extents::map(file.as_fd(), position, batch) {
        position = last.logical.saturating_add(last.length);
        if last.is_last() {
            break;
        }
    }
    while !buffer.is_empty() && !gauge.cancelled() && rustix::io::read(&file, &mut *buffer)? > 0 {}
    Ok(())
}

/// Bytes that this thread has made the kernel read from devices (proc_pid_io(5)).
fn from_device() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:")?.trim().parse().ok()).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_what_fills_the_filesystem_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        std::fs::create_dir_all(base.join("tree/below")).unwrap();
        std::fs::create_dir(base.join(fill::NAME)).unwrap();
        for name in ["tree/below/one", "tree/two"] {
            std::fs::write(base.join(name), vec![1; 3 * PIECE / 2]).unwrap();
        }
        // If it were read, the link would lead to an error.
        std::os::unix::fs::symlink("nowhere", base.join("tree/link")).unwrap();
        std::fs::write(base.join(fill::NAME).join("unread"), "").unwrap();
        let gauge = Gauge::default();
        read(base, true, &gauge).unwrap();
        assert_eq!(gauge.done(), 6, "tree, below, one, two, link, and the directory of the filling");
        // What was just read is in memory.
        assert_eq!(read(base, true, &Gauge::default()).unwrap(), Some(Bytes(0)));
    }
}
