//! Files named by the user.

use anyhow::{Context, anyhow};
use rustix::fs::{Access, OFlags, access};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// As many links as the kernel follows (path_resolution(7)).
const LINKS: usize = 40;

/// The filesystem of pipes that have no name (include/uapi/linux/magic.h).
const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;

/// Opens a file to read it. A pipe may be one that a shell made, as for `/dev/stdin` and `<(...)`, but not
/// one with a name: opening that waits for a writer, who may never come.
///
/// # Errors
/// The system's, or what the file is.
pub fn open(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    let refuse = |reason: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    if kind.is_fifo() && rustix::fs::fstatfs(&file)?.f_type != PIPEFS_MAGIC {
        return refuse(
            "it is a named pipe, which may have no writer; name a file, or - and write to standard input",
        );
    }
    if kind.is_dir() || kind.is_block_device() {
        return refuse(if kind.is_dir() { "it is a directory" } else { "it is a block device" });
    }
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

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

/// Writes a file completely or not at all: whoever reads it meanwhile sees the old one. A pipe or a character
/// device is written to directly. Returns the number of bytes.
///
/// # Errors
/// The path with the cause.
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let shown = std::path::absolute(path).unwrap_or(path.to_path_buf());
    fill_whole(path, fill).with_context(|| format!("cannot write '{}'", shown.display()))
}

fn fill_whole(path: &Path, fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<u64> {
    // A link stays a link.
    let target = destination(path)?;
    let mode = match fs::metadata(&target) {
        Ok(known) if known.is_dir() => return Err(anyhow!("it is a directory")),
        Ok(known) if !known.is_file() => {
            let mut out = Counted { inner: create(&target)?, bytes: 0 };
            fill(&mut out)?;
            return Ok(out.bytes);
        }
        Ok(known) => Some(known.permissions()),
        Err(_) => None,
    };
    let directory =
        target.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::Builder::new()
        .prefix(".fsdyno-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        // Its own words name the temporary file.
        .map_err(|error| match access(directory, Access::WRITE_OK | Access::EXEC_OK) {
            Err(cause) => io::Error::from(cause),
            Ok(()) => io::Error::from(error.kind()),
        })?;
    // Not the temporary file itself, whose errors have its name.
    let mut out = Counted { inner: file.as_file(), bytes: 0 };
    fill(&mut out)?;
    let bytes = out.bytes;
    if let Some(mode) = mode {
        file.as_file().set_permissions(mode)?;
    }
    file.persist(&target).map_err(|error| error.error)?;
    Ok(bytes)
}

/// Counts what is written.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
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
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{lchown, symlink};

    fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<u64> {
        write_whole(path, |out| Ok(out.write_all(bytes)?))
    }

    #[test]
    fn a_whole_file_replaces_another_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        write(&path, b"old").unwrap();
        assert_eq!(write(&path, b"newest").unwrap(), 6);
        assert_eq!(fs::read(&path).unwrap(), b"newest");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let link = directory.path().join("link.html");
        symlink(&path, &link).unwrap();
        write(&link, b"newer").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "it stays as secret");
    }

    #[test]
    fn what_cannot_be_written_is_an_error_with_path_and_cause_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let said = |path: &Path| format!("{:#}", write(path, b"page").unwrap_err());
        let shown = directory.path().display();
        assert_eq!(said(directory.path()), format!("cannot write '{shown}': it is a directory"));
        assert_eq!(
            said(&directory.path().join("none/report.html")),
            format!("cannot write '{shown}/none/report.html': No such file or directory (os error 2)")
        );
        write(Path::new("/dev/null"), b"page").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

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
    fn a_named_pipe_is_not_waited_for_and_one_of_a_shell_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let refused = |path: &Path| open(path).unwrap_err().to_string();
        assert!(refused(&path("pipe")).starts_with("it is a named pipe"), "{}", refused(&path("pipe")));
        assert_eq!(refused(directory.path()), "it is a directory");
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"packed").unwrap();
        let mut file = open(Path::new(&format!("/proc/self/fd/{}", reader.as_raw_fd()))).unwrap();
        let mut bytes = [0; 6];
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"packed");
        assert!(!rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK), "it waits for the rest");
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
