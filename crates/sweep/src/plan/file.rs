//! Files named by users: a plan, or what a plan refers to.

use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The largest size of a plan, or of a file that it refers to, in bytes.
pub const MOST: u64 = 1 << 20;

/// Reads a regular file of at most [`MOST`] bytes. A pipe or a device may never end, and opening it may never
/// return.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let refuse = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(refuse("it is a directory".to_string()));
    }
    if !kind.is_file() {
        return Err(refuse("it is not a regular file".to_string()));
    }
    let mut text = String::new();
    file.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(refuse(format!("it is larger than {} MiB", MOST >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_regular_file_of_a_bounded_size_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.toml");
        let refused = |path: &Path| read(path).unwrap_err().to_string();
        fs::write(&path, "name = 1").unwrap();
        assert_eq!(read(&path).unwrap(), "name = 1");
        fs::File::create(&path).and_then(|file| file.set_len(MOST)).unwrap();
        assert_eq!(read(&path).unwrap().len() as u64, MOST);
        fs::File::create(&path).and_then(|file| file.set_len(MOST + 1)).unwrap();
        assert_eq!(refused(&path), "it is larger than 1 MiB");
        assert_eq!(refused(directory.path()), "it is a directory");
        assert_eq!(refused(Path::new("/dev/zero")), "it is not a regular file");
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(refused(&pipe), "it is not a regular file");
    }
}
