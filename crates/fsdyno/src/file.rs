//! Output files named by the user.

use anyhow::anyhow;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// As many links as the kernel follows (path_resolution(7)).
const LINKS: usize = 40;

/// Where a path leads. A link created by somebody else is rejected: in a directory where everybody may create
/// one, it could lead root to any file, and the kernel's protection against that (`fs.protected_symlinks`)
/// can be switched off.
pub fn destination(path: &Path) -> anyhow::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS {
        let Some(found) = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_symlink) else {
            return Ok(path);
        };
        if ![0, rustix::process::geteuid().as_raw()].contains(&found.uid()) {
            return Err(anyhow!("'{}' is a symbolic link owned by user {}", path.display(), found.uid()));
        }
        let target = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(anyhow!("'{}' leads through too many symbolic links", path.display()))
}

/// Creates the file, or truncates it, where [`destination`] leads. Block devices are rejected: their content
/// would be lost.
pub fn create(path: &Path) -> anyhow::Result<File> {
    // A pipe without a reader would block for ever.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).custom_flags(flags).open(destination(path)?)?;
    let kind = file.metadata()?.file_type();
    if kind.is_block_device() {
        return Err(anyhow!("'{}' is a block device; name a file", path.display()));
    }
    if kind.is_file() {
        file.set_len(0)?;
    }
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Writes a file completely or not at all, so that it is on the disk afterwards.
pub fn replace(path: &Path, bytes: &[u8], permissions: Permissions) -> anyhow::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file =
        tempfile::Builder::new().prefix(".fsdyno-").permissions(permissions).tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn a_pipe_without_a_reader_does_not_block_and_a_file_is_truncated() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "whole").unwrap();
        create(&path("file")).unwrap();
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(create(&path("pipe")).is_err());
    }

    #[test]
    fn ones_own_links_are_followed_and_those_of_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "whole").unwrap();
        symlink("file", path("link")).unwrap();
        symlink("link", path("second")).unwrap();
        symlink("round", path("round")).unwrap();
        assert_eq!(destination(&path("second")).unwrap(), path("file"));
        assert_eq!(destination(&path("new")).unwrap(), path("new"));
        assert!(destination(&path("round")).is_err());
        if !rustix::process::geteuid().is_root() {
            return;
        }
        lchown(path("link"), Some(65534), None).unwrap();
        for name in ["link", "second"] {
            let error = create(&path(name)).unwrap_err().to_string();
            assert!(error.contains("link' is a symbolic link owned by user 65534"), "{error}");
        }
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "whole");
    }
}
