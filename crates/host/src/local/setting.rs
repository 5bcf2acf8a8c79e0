//! Reading and writing a kernel setting: the only place in this host that writes to /proc/sys or /sys.
//!
//! The file is opened below its root with openat2(2), by names that are neither `..` nor a link, and both
//! ends must be on procfs or sysfs: the kernel refuses a path that leads elsewhere, whoever created it.

use crate::setting::{BYTES_MAX, HostSetting, Root};
use crate::{HostError, Result};
use rustix::fs::{FileType, FsWord, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The number from statfs(2), for which rustix has no name.
const SYSFS_MAGIC: FsWord = 0x6265_6572;

/// The whole text of a setting, exactly as it is.
///
/// A value that does not fit into one read, is not text, or is empty could not be restored, and is an error.
pub(super) fn read(path: &Path) -> Result<String> {
    let file = open(path, OFlags::RDONLY)?;
    let failed = |error: Errno| HostError::system("read the setting", path, error);
    let mut buffer = [0_u8; BYTES_MAX + 1];
    let length = rustix::io::read(&file, &mut buffer[..]).map_err(failed)?;
    let mut more = [0_u8; 1];
    let whole =
        (1..=BYTES_MAX).contains(&length) && rustix::io::read(&file, &mut more[..]).map_err(failed)? == 0;
    match std::str::from_utf8(&buffer[..length]) {
        Ok(text) if whole && !text.contains('\0') => Ok(text.to_string()),
        Ok(_) if length == 0 => {
            Err(not_whole(path, "it is empty, and an empty value cannot be written back"))
        }
        Ok(_) if !whole => Err(not_whole(path, "it is longer than what can be written back in one call")),
        _ => Err(not_whole(path, "it is not text")),
    }
}

/// One `write` with the whole text: each call counts as a new value.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let file = open(path, OFlags::WRONLY)?;
    let failed = |error: Errno| HostError::system(&format!("write '{}' to", text.trim_end()), path, error);
    if text.len() > BYTES_MAX {
        return Err(failed(Errno::MSGSIZE));
    }
    match rustix::io::write(&file, text.as_bytes()).map_err(failed)? {
        written if written == text.len() => Ok(()),
        _ => Err(failed(Errno::MSGSIZE)),
    }
}

fn open(path: &Path, access: OFlags) -> Result<OwnedFd> {
    let Some(setting) = HostSetting::at(path) else {
        return Err(refused(path, "it is neither a sysctl nor a queue setting of a disk"));
    };
    let failed = |error: Errno| HostError::system("open the setting", path, error);
    let root = setting.root.path();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root, flags, Mode::empty()).map_err(failed)?;
    let file = real_place(directory.as_fd(), &setting).map_err(failed)?;
    let file = open_beneath(directory.as_fd(), &file, access).map_err(failed)?;
    for descriptor in [directory.as_fd(), file.as_fd()] {
        if rustix::fs::fstatfs(descriptor).map_err(failed)?.f_type != magic(setting.root) {
            return Err(refused(path, "it is not on the filesystem of the kernel's settings"));
        }
    }
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file).map_err(failed)?.st_mode);
    if kind == FileType::RegularFile { Ok(file) } else { Err(refused(path, "it is not a file")) }
}

fn magic(root: Root) -> FsWord {
    match root {
        Root::Sysctl => PROC_SUPER_MAGIC,
        Root::Sysfs => SYSFS_MAGIC,
    }
}

/// The path of a setting without the link of a device number: `dev/block/7:0` leads to `../../devices/…`.
fn real_place(root: BorrowedFd<'_>, setting: &HostSetting) -> rustix::io::Result<PathBuf> {
    let Some((link, rest)) = setting.behind_link() else { return Ok(setting.file.clone()) };
    let target = rustix::fs::readlinkat(root, &link, Vec::new())?;
    let target = PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes()));
    // The kernel creates these links; one that leads elsewhere is not the kernel's.
    let device = target.strip_prefix("../..").map_err(|_| Errno::XDEV)?;
    if device.starts_with("devices") { Ok(device.join(rest)) } else { Err(Errno::XDEV) }
}

fn open_beneath(root: BorrowedFd<'_>, file: &Path, access: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(root, file, flags, Mode::empty(), resolve)
}

fn refused(path: &Path, reason: &str) -> HostError {
    HostError::System {
        action: "use as a setting".to_string(),
        object: path.display().to_string(),
        errno: 0,
        reason: reason.to_string(),
    }
}

fn not_whole(path: &Path, reason: &str) -> HostError {
    HostError::System {
        action: "keep the value of".to_string(),
        object: path.display().to_string(),
        errno: 0,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_that_is_no_setting_is_neither_read_nor_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "precious").unwrap();
        let below = |root: &str| PathBuf::from(format!("{root}/../../../../../..{}", file.display()));
        for path in
            [file.clone(), below("/proc/sys/vm"), below("/sys/dev/block/7:0/queue"), "/proc/self/comm".into()]
        {
            for error in [write(&path, "x").unwrap_err(), read(&path).unwrap_err()] {
                assert!(error.to_string().starts_with("cannot use as a setting"), "{error}");
            }
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }

    #[test]
    fn no_link_and_no_parent_leads_out_of_the_root() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "precious").unwrap();
        let inside = tempfile::tempdir().unwrap();
        symlink(outside.path(), inside.path().join("directory")).unwrap();
        symlink(outside.path().join("file"), inside.path().join("link")).unwrap();
        fs::write(inside.path().join("own"), "own").unwrap();
        symlink("own", inside.path().join("relative")).unwrap();
        let root = rustix::fs::open(inside.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let name = outside.path().file_name().unwrap().to_str().unwrap();
        for bad in ["directory/file", "link", "relative", &format!("../{name}/file"), "/etc/passwd"] {
            assert!(open_beneath(root.as_fd(), Path::new(bad), OFlags::RDONLY).is_err(), "{bad}");
        }
        assert!(open_beneath(root.as_fd(), Path::new("own"), OFlags::RDONLY).is_ok());
    }

    #[test]
    fn a_device_number_is_followed_to_where_its_device_is() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("dev/block")).unwrap();
        let real = "../../devices/virtual/block/loop0";
        let elsewhere = ["/etc", "../../../etc", "../../power", "devices/x"];
        let links = std::iter::once(real).chain(elsewhere).enumerate();
        for (minor, target) in links {
            let link = format!("7:{minor}");
            symlink(target, root.path().join("dev/block").join(link)).unwrap();
        }
        let directory =
            rustix::fs::open(root.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let place = |number: &str| {
            let path = format!("/sys/dev/block/{number}/queue/scheduler");
            real_place(directory.as_fd(), &HostSetting::at(Path::new(&path)).unwrap())
        };
        assert_eq!(place("7:0").unwrap(), Path::new("devices/virtual/block/loop0/queue/scheduler"));
        for minor in 1..=elsewhere.len() {
            assert_eq!(place(&format!("7:{minor}")), Err(Errno::XDEV));
        }
        assert_eq!(place("7:9"), Err(Errno::NOENT));
    }

    #[test]
    fn a_setting_is_read_as_it_is() {
        let path = Path::new("/proc/sys/kernel/ostype");
        assert_eq!(read(path).unwrap(), fs::read_to_string(path).unwrap());
        assert_eq!(read(Path::new("/proc/sys/kernel/no_such_setting")).unwrap_err().errno(), Some(2));
        assert!(read(Path::new("/proc/sys/kernel")).is_err());
    }
}
