//! Files named by the user. No link of another user is followed on the way to output, and each file is
//! written through the directory that was found.

use anyhow::{Context, anyhow};
use fsdyno_path::{Destination, Directory, Place};
use rustix::fs::{Access, OFlags, access};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The destination of output; the encoder of Parquet requires `Send`.
pub type Output<'a> = dyn Write + Send + 'a;

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

/// Read, write and search permission, without set-user-ID and the like.
const PERMISSIONS: u32 = 0o777;

/// Where a path leads.
///
/// # Errors
/// The path with the cause.
pub fn find(path: &Path) -> anyhow::Result<Destination> {
    Destination::of(path).with_context(|| cannot_write(path))
}

/// Opens a directory for output, which is created if necessary.
///
/// # Errors
/// The path with the cause.
pub fn make_directory(path: &Path) -> anyhow::Result<Directory> {
    Directory::make(path).with_context(|| format!("cannot create directory '{}'", path.display()))
}

/// Writes a file completely or not at all: whoever reads it meanwhile sees the old one. A pipe, a character
/// device or an open file is written to directly. Returns the number of bytes.
///
/// # Errors
/// The path with the cause.
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut Output<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    write_to(&find(path)?, path, fill)
}

/// The same for a destination that was found by its path.
///
/// # Errors
/// The path with the cause.
pub fn write_to(
    destination: &Destination,
    path: &Path,
    fill: impl FnOnce(&mut Output<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let written = match destination {
        Destination::Place(Place { directory, name }) => write_named(directory, name, fill),
        Destination::Open(_) => write_into(&destination.through(), OFlags::empty(), fill),
    };
    written.with_context(|| cannot_write(path))
}

/// The same for a name in a directory.
///
/// # Errors
/// The path with the cause.
pub fn write_in(
    directory: &Directory,
    name: &str,
    fill: impl FnOnce(&mut Output<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let written = write_named(directory, OsStr::new(name), fill);
    written.with_context(|| cannot_write(&directory.path().join(name)))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write '{}'", std::path::absolute(path).unwrap_or(path.to_path_buf()).display())
}

fn write_named(
    directory: &Directory,
    name: &OsStr,
    fill: impl FnOnce(&mut Output<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (here, target) = (directory.at("."), directory.at(name));
    let mode = match fs::symlink_metadata(&target) {
        Ok(known) if known.is_dir() => return Err(anyhow!("it is a directory")),
        Ok(known) if known.is_symlink() => {
            return Err(match directory.link_of_others(name) {
                Some(link) => io::Error::new(io::ErrorKind::PermissionDenied, link).into(),
                None => anyhow!("it is a symbolic link; name what it leads to"),
            });
        }
        // Nothing that was found was a link: one that is here now belongs to somebody who is faster.
        Ok(known) if !known.is_file() => return write_into(&target, OFlags::NOFOLLOW, fill),
        // A file of somebody else has the permissions that he wants: he could read, or change, what is his no
        // longer.
        Ok(known) if known.uid() == geteuid().as_raw() => Some(known.mode() & PERMISSIONS),
        Ok(_) | Err(_) => None,
    };
    let file = tempfile::Builder::new()
        .prefix(".fsdyno-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(&here)
        // Its own words name the temporary file.
        .map_err(|error| match access(&here, Access::WRITE_OK | Access::EXEC_OK) {
            Err(cause) => io::Error::from(cause),
            Ok(()) => io::Error::from(error.kind()),
        })?;
    // Not the temporary file itself, whose errors have its name.
    let mut out = Counted { inner: file.as_file(), bytes: 0 };
    fill(&mut out)?;
    let bytes = out.bytes;
    if let Some(mode) = mode {
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    file.persist(target).map_err(|error| error.error)?;
    Ok(bytes)
}

/// Writes into what is there. Block devices are rejected: their content would be lost.
fn write_into(
    path: &Path,
    flags: OFlags,
    fill: impl FnOnce(&mut Output<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    // A pipe without a reader would block for ever.
    let nonblocking = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(nonblocking).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_block_device() {
        return Err(anyhow!("it is a block device; name a file"));
    }
    if kind.is_file() && flags.contains(OFlags::NOFOLLOW) {
        return Err(anyhow!("it was no file a moment ago"));
    }
    if kind.is_file() {
        file.set_len(0)?;
    }
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    let mut out = Counted { inner: &file, bytes: 0 };
    fill(&mut out)?;
    Ok(out.bytes)
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
    use std::os::unix::fs::{chown, lchown, symlink};

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

    /// Otherwise he could read and change what root writes.
    #[test]
    fn a_file_of_another_user_becomes_ones_own_with_the_usual_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        if !geteuid().is_root() {
            return;
        }
        fs::write(path("fresh"), "").unwrap();
        let usual = fs::metadata(path("fresh")).unwrap();
        for mode in [0o666, 0o600, 0o777] {
            fs::write(path("theirs"), "bait").unwrap();
            fs::set_permissions(path("theirs"), Permissions::from_mode(mode)).unwrap();
            chown(path("theirs"), Some(65534), Some(65534)).unwrap();
            write(&path("theirs"), b"page").unwrap();
            let written = fs::metadata(path("theirs")).unwrap();
            let of = |found: &fs::Metadata| (found.uid(), found.gid(), found.mode());
            assert_eq!(of(&written), of(&usual), "{mode:o}");
        }
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
    fn a_pipe_without_a_reader_does_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(write(&pipe, b"page").is_err());
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
    fn an_open_file_is_written_to_wherever_its_name_has_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "a longer text").unwrap();
        let file = File::open(&path).unwrap();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        write(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), b"page").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("moved")).unwrap(), "page");
        let (mut reader, writer) = io::pipe().unwrap();
        write(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())), b"page").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "page");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_written_where_a_link_of_others_leads() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        if !geteuid().is_root() {
            return;
        }
        fs::write(path("file"), "whole").unwrap();
        for (link, target) in [("link", "file"), ("dangling", "none"), ("way", ".")] {
            symlink(target, path(link)).unwrap();
            lchown(path(link), Some(65534), None).unwrap();
        }
        symlink("link", path("second")).unwrap();
        for name in ["link", "second", "dangling", "way/new"] {
            let error = format!("{:#}", write(&path(name), b"page").unwrap_err());
            assert!(error.contains("is a symbolic link that another user can change"), "{name}: {error}");
        }
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "whole");
        assert!(!path("none").exists() && !path("new").exists());
    }

    /// As it would be if somebody swapped a directory while the output is computed.
    #[test]
    fn what_was_found_is_written_whoever_swaps_the_directories_above() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("reports")).unwrap();
        fs::create_dir_all(path("decoy")).unwrap();
        fs::write(path("decoy/report.html"), "precious").unwrap();
        write_whole(&path("reports/report.html"), |out| {
            fs::rename(path("reports"), path("moved"))?;
            symlink(path("decoy"), path("reports"))?;
            Ok(out.write_all(b"page")?)
        })
        .unwrap();
        assert_eq!(fs::read_to_string(path("decoy/report.html")).unwrap(), "precious");
        assert_eq!(fs::read_dir(path("decoy")).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(path("moved/report.html")).unwrap(), "page");
    }
}
