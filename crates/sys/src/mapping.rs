//! A file in memory: mmap(2) with `MAP_SHARED`, and msync(2).

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A multiple of every page size of the architectures that Linux runs on.
const PAGE: usize = 64 << 10;

/// The first bytes of a file, shared with everything else that maps, reads or writes it.
#[derive(Debug)]
pub struct Mapping {
    start: *mut c_void,
    length: usize,
    /// Where the kernel copies from and to: what is about to be stored, and what was loaded.
    source: CopySource,
}

/// A file in memory that the kernel copies from and to in place of a program's own memory.
#[derive(Debug, Clone)]
pub struct CopySource(Arc<OwnedFd>);

impl CopySource {
    /// An empty one.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn new() -> Result<Self> {
        Ok(CopySource(Arc::new(memfd_create(c"stored", MemfdFlags::CLOEXEC)?)))
    }

    /// Fills a buffer with what was copied last, so with what [`Mapping::load`] found.
    ///
    /// # Errors
    /// `EINVAL` if that was less, else the kernel's error number.
    pub fn copied(&self, buffer: &mut [u8]) -> Result<()> {
        let length = buffer.len();
        if rustix::io::pread(self.0.as_fd(), buffer, 0)? == length { Ok(()) } else { Err(Errno::INVAL) }
    }
}

impl Mapping {
    /// Maps the first `length` bytes of a file that is open for reading and writing.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn new(file: BorrowedFd<'_>, length: usize) -> Result<Self> {
        Mapping::with(file, length, true, CopySource::new()?)
    }

    /// The same with a source that other mappings use as well, one after the other; and only for reading
    /// unless `is_stored_to`. It takes one system call, mmap(2).
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn with(file: BorrowedFd<'_>, length: usize, is_stored_to: bool, source: CopySource) -> Result<Self> {
        let access = if is_stored_to { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the address, so that nothing else is replaced. No reference into the
        // memory is ever made, so that others may change the file.
        let start = unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0) }?;
        Ok(Mapping { start, length, source })
    }

    /// Stores bytes at a position in bytes, as a program would that assigns to memory. The kernel copies
    /// them: if the filesystem cannot provide a page, that is an error here and not the signal SIGBUS.
    ///
    /// # Errors
    /// `EINVAL` if they do not fit, `EFAULT` if a page cannot be provided, else the kernel's error number.
    pub fn store(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        self.check(at, bytes.len())?;
        if rustix::io::pwrite(self.source.0.as_fd(), bytes, 0)? != bytes.len() {
            return Err(Errno::IO);
        }
        let (start, source) = (self.start.cast::<u8>(), self.source.0.as_raw_fd());
        // SAFETY: the range is inside of the mapping, which lives as long as `self`; no reference to it
        // exists. The descriptor is owned.
        copy(bytes.len(), |done| unsafe {
            libc::pread(source, start.add(at + done).cast(), bytes.len() - done, done as libc::off_t)
        })
    }

    /// Loads bytes at a position, as a program would that reads memory. The kernel copies them: if the
    /// filesystem cannot provide a page, that is an error here and not the signal SIGBUS.
    ///
    /// # Errors
    /// `EINVAL` if they are not mapped, `EFAULT` if a page cannot be provided, else the kernel's error
    /// number.
    pub fn load(&self, at: usize, length: usize) -> Result<()> {
        self.check(at, length)?;
        let (start, source) = (self.start.cast::<u8>(), self.source.0.as_raw_fd());
        // SAFETY: as in `store`.
        copy(length, |done| unsafe {
            libc::pwrite(source, start.add(at + done).cast(), length - done, done as libc::off_t)
        })
    }

    /// Unmaps the file.
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn unmap(self) -> Result<()> {
        let mapping = std::mem::ManuallyDrop::new(self);
        // SAFETY: this is the whole mapping, nothing refers to it any more, and it is not dropped again.
        let unmapped = unsafe { munmap(mapping.start, mapping.length) };
        // SAFETY: the value is read once, and its place is never used again.
        drop(unsafe { std::ptr::read(&mapping.source) });
        unmapped
    }

    /// Writes bytes from a position on to the device, with all of the pages that contain them (`MS_SYNC`).
    ///
    /// # Errors
    /// `EINVAL` if they are not mapped, else the kernel's error number.
    pub fn sync(&self, at: usize, length: usize) -> Result<()> {
        self.check(at, length)?;
        let begin = at / PAGE * PAGE;
        // SAFETY: the range is inside of the mapping, up to the end of its last page.
        unsafe { msync(self.start.cast::<u8>().add(begin).cast(), at + length - begin, MsyncFlags::SYNC) }
    }

    fn check(&self, at: usize, length: usize) -> Result<()> {
        let end = at.checked_add(length).ok_or(Errno::INVAL)?;
        if end <= self.length { Ok(()) } else { Err(Errno::INVAL) }
    }
}

/// Repeats a system call that copies, given how many bytes are done, until all are.
fn copy(length: usize, call: impl Fn(usize) -> isize) -> Result<()> {
    let mut done = 0;
    while done < length {
        match usize::try_from(call(done)) {
            Ok(0) => return Err(Errno::IO),
            Ok(copied) => done += copied,
            Err(_) => {
                let error = std::io::Error::last_os_error();
                return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            }
        }
    }
    Ok(())
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and nothing refers to it any more. There is nobody to report an
        // error to, and the only one would be a wrong address.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [1; 100_000]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut mapping = Mapping::new(file.as_fd(), 100_000).unwrap();
        mapping.store(70_000, &[2; 5_000]).unwrap();
        mapping.sync(70_000, 5_000).unwrap();
        let read = std::fs::read(&path).unwrap();
        assert!(read.iter().enumerate().all(|(at, byte)| (70_000..75_000).contains(&at) == (*byte == 2)));
        assert_eq!(mapping.store(99_999, &[3; 2]), Err(Errno::INVAL));
        assert_eq!(mapping.sync(usize::MAX, 2), Err(Errno::INVAL));
    }

    #[test]
    fn a_page_that_is_missing_is_an_error_and_no_signal() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let mut mapping = Mapping::new(file.as_fd(), 1 << 20).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(mapping.store(1000, &[1; 512]), Err(Errno::FAULT));
    }
}
