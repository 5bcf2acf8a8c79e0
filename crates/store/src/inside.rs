//! A check that a directory that the user's programs may have changed is still ours, before anything in it is
//! counted or removed.

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use std::fs;
use std::io;
use std::path::Path;

/// The mount with the directory of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnMount {
    /// Its number; before Linux 5.8, that of its device.
    number: u64,
}

impl OwnMount {
    /// That of a directory, after checking that another one below it is reached without links and is on the
    /// same mount. That one need not exist.
    ///
    /// # Errors
    /// An error that names the path in the way, or that of reading a path.
    pub fn reaching(base: &Path, directory: &Path) -> io::Result<Self> {
        let (number, _) = look(base)?;
        let own = OwnMount { number };
        let Ok(below) = directory.strip_prefix(base) else {
            return Err(refused(directory, "is not below the directory of the results"));
        };
        let mut path = base.to_path_buf();
        for name in below {
            path.push(name);
            match own.check(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                checked => checked?,
            }
        }
        Ok(own)
    }

    /// Returns whether a path is a directory on this mount, and not a link to one.
    pub fn holds(self, directory: &Path) -> bool {
        self.check(directory).is_ok()
    }

    /// Removes a directory with everything in it, unless another mount is in it. One that does not exist is
    /// removed already.
    ///
    /// # Errors
    /// An error that names the path in the way, or that of reading or removing a path.
    pub fn remove(self, directory: &Path) -> io::Result<()> {
        let mut open = vec![directory.to_path_buf()];
        while let Some(directory) = open.pop() {
            match self.check(&directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                checked => checked?,
            }
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                // This does not follow links.
                if entry.file_type()?.is_dir() {
                    open.push(entry.path());
                }
            }
        }
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn check(self, path: &Path) -> io::Result<()> {
        match look(path)? {
            (_, false) => Err(refused(path, "is not a directory")),
            (number, _) if number != self.number => Err(refused(path, "is on another mount")),
            _ => Ok(()),
        }
    }
}

/// The mount of a path, and whether it is a directory; links are not followed.
fn look(path: &Path) -> io::Result<(u64, bool)> {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID | StatxFlags::TYPE)?;
    let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let device = (u64::from(found.stx_dev_major) << 32) | u64::from(found.stx_dev_minor);
    let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
    Ok((if is_known { found.stx_mnt_id } else { device }, is_directory))
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("'{}' {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_is_ours_unless_a_link_leads_to_it() {
        let base = tempfile::tempdir().unwrap();
        let own = base.path().join("files/1/0");
        let mount = OwnMount::reaching(base.path(), &own).unwrap();
        mount.remove(&own).unwrap();
        fs::create_dir_all(own.join("deep")).unwrap();
        let others = base.path().join("others");
        fs::create_dir(&others).unwrap();
        symlink(&others, own.join("link")).unwrap();
        assert!(mount.holds(&own.join("deep")) && !mount.holds(&own.join("link")));
        mount.remove(&own).unwrap();
        assert!(!own.exists() && others.is_dir());
        fs::remove_dir(base.path().join("files/1")).unwrap();
        symlink(&others, base.path().join("files/1")).unwrap();
        let error = OwnMount::reaching(base.path(), &own).unwrap_err().to_string();
        assert!(error.contains("files/1' is not a directory"), "{error}");
        assert!(OwnMount::reaching(base.path(), Path::new("/etc")).is_err());
    }

    #[test]
    fn another_mount_is_left_alone() {
        // Every machine has it.
        let mount = OwnMount::reaching(Path::new("/"), Path::new("/")).unwrap();
        assert!(mount.holds(Path::new("/")) && !mount.holds(Path::new("/proc")));
        let error = mount.remove(Path::new("/proc")).unwrap_err().to_string();
        assert!(error.contains("'/proc' is on another mount"), "{error}");
    }
}
