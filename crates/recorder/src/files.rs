//! Files of which parts are read and written.

use crate::Result;
use crate::error::RecorderError;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The number of bytes that are copied at a time.
pub(crate) const PIECE: usize = 1 << 20;
/// Access to the files of a log: what is on the disk may be secret.
const OWNER_ONLY: u32 = 0o600;

/// An open file that errors can name.
#[derive(Debug)]
pub(crate) struct NamedFile {
    file: File,
    path: PathBuf,
}

impl NamedFile {
    /// Makes a new file.
    pub fn create(path: &Path) -> Result<NamedFile> {
        NamedFile::open(path, OpenOptions::new().read(true).write(true).create_new(true).mode(OWNER_ONLY))
    }

    /// Opens a file that exists, to read it.
    pub fn read(path: &Path) -> Result<NamedFile> {
        NamedFile::open(path, OpenOptions::new().read(true))
    }

    fn open(path: &Path, options: &OpenOptions) -> Result<NamedFile> {
        let file = options.open(path).map_err(RecorderError::file("open", path))?;
        Ok(NamedFile { file, path: path.to_path_buf() })
    }

    pub fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(RecorderError::file("examine", &self.path))?.len())
    }

    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(RecorderError::file("resize", &self.path))
    }

    /// Makes the file empty, and gives its blocks back.
    pub fn clear(&self, bytes: u64) -> Result<()> {
        self.set_len(0)?;
        self.set_len(bytes)
    }

    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(RecorderError::file("write", &self.path))
    }

    /// Fills the buffer; what lies beyond the end of the file is zeros.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RecorderError::file("read", &self.path)(error)),
            }
        }
        buffer[done..].fill(0);
        Ok(())
    }

    /// Makes a range of zeros, giving its blocks back where that is possible.
    pub fn zero(&self, at: u64, length: u64) -> Result<()> {
        use rustix::fs::FallocateFlags;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if length == 0 || rustix::fs::fallocate(&self.file, hole, at, length).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; PIECE];
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(PIECE as u64);
            self.write_at(&zeros[..piece as usize], at + done)?;
            done += piece;
        }
        Ok(())
    }

    /// Copies a range from another file.
    pub fn copy_from(
        &self,
        from: &NamedFile,
        from_at: u64,
        at: u64,
        length: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(PIECE as u64) as usize;
            buffer.resize(piece, 0);
            from.read_at(buffer, from_at + done)?;
            self.write_at(buffer, at + done)?;
            done += piece as u64;
        }
        Ok(())
    }

    /// The next range that holds data at or after a place.
    pub fn next_data(&self, at: u64) -> Result<Option<(u64, u64)>> {
        use rustix::fs::SeekFrom;
        use rustix::io::Errno;
        let failed = |error: Errno| RecorderError::file("read", &self.path)(error.into());
        let begin = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(Errno::NXIO) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(begin)).map_err(failed)?;
        Ok(Some((begin, end)))
    }
}
