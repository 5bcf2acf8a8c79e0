//! The files of /proc and /sys, below a root that tests can replace.

use rustix::fs::{CWD, Mode, OFlags};
use std::io;
use std::path::{Path, PathBuf};

/// Far more than any file read here contains; the rest is ignored.
const MOST_BYTES: usize = 4 << 20;

/// Reads small text files into one buffer.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    buffer: Vec<u8>,
}

impl Files {
    pub(crate) fn below(root: &Path) -> Self {
        Files { root: root.to_path_buf(), buffer: Vec::with_capacity(16 << 10) }
    }

    /// The text of a file, `path` relative to the root; `None` if it cannot be read. Process names may
    /// contain any bytes: invalid UTF-8 is replaced.
    pub(crate) fn read(&mut self, path: &str) -> Option<std::borrow::Cow<'_, str>> {
        self.fill(path).ok()?;
        Some(String::from_utf8_lossy(&self.buffer))
    }

    fn fill(&mut self, path: &str) -> io::Result<()> {
        self.buffer.clear();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = rustix::fs::openat(CWD, self.root.join(path), flags, Mode::empty())?;
        loop {
            let free = self.buffer.capacity() - self.buffer.len();
            if free == 0 {
                if self.buffer.len() >= MOST_BYTES {
                    return Ok(());
                }
                self.buffer.reserve(self.buffer.len());
            }
            match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut self.buffer)) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The names in a directory; none if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(path)) else { return Vec::new() };
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}
