//! Output files named by the user.

use anyhow::anyhow;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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

/// Creates the file, or truncates it, where [`destination`] leads.
pub fn create(path: &Path) -> anyhow::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    Ok(options.write(true).create(true).truncate(true).custom_flags(flags).open(destination(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

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
