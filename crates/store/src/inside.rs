//! Whether a directory that programs of the user may have changed is still one of ours, before anything in it
//! is counted or removed.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs;
use std::io;
use std::path::Path;

/// Checks that a directory below `base` is reached without links, and that neither it nor a directory in it
/// is on another mount. One that does not exist is in order.
///
/// # Errors
/// What is in the way, with its path; what cannot be read.
pub fn stays_inside(base: &Path, directory: &Path) -> io::Result<()> {
    let mount = mount_of(base)?;
    let Ok(below) = directory.strip_prefix(base) else {
        return Err(refused(directory, "is not below the directory of the results"));
    };
    let mut path = base.to_path_buf();
    for name in below {
        path.push(name);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(refused(&path, "is not a directory")),
            Err(error) => return Err(error),
        }
    }
    let mut open = vec![path];
    while let Some(directory) = open.pop() {
        if mount_of(&directory)? != mount {
            return Err(refused(&directory, "is on another mount"));
        }
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            // This does not follow links.
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(())
}

/// The mount of a directory; before Linux 5.8, its device.
fn mount_of(path: &Path) -> io::Result<(bool, u64)> {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID)?;
    let is_known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let device = (u64::from(found.stx_dev_major) << 32) | u64::from(found.stx_dev_minor);
    Ok((is_known, if is_known { found.stx_mnt_id } else { device }))
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("'{}' {why}, so nothing in it was removed", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_outside_and_plain_directories_do_not() {
        let base = tempfile::tempdir().unwrap();
        let own = base.path().join("files/1/0");
        assert!(stays_inside(base.path(), &own).is_ok());
        fs::create_dir_all(own.join("deep")).unwrap();
        symlink("/etc", own.join("link")).unwrap();
        assert!(stays_inside(base.path(), &own).is_ok());
        fs::remove_dir_all(base.path().join("files/1")).unwrap();
        symlink("/etc", base.path().join("files/1")).unwrap();
        let error = stays_inside(base.path(), &own).unwrap_err().to_string();
        assert!(error.contains("files/1' is not a directory"), "{error}");
        assert!(stays_inside(base.path(), Path::new("/etc")).is_err());
    }
}
