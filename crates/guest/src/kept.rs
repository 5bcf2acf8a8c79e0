//! What takes long to make or to find out and serves later guests as well: decompressed kernels, snapshots,
//! and that KVM does not work.
//!
//! Files are kept in the download cache until the machine reboots or they take too much space. Each has the
//! hash of whatever it was made from in its name.

use fsdyno_core::Bytes;
use fsdyno_core::reserve::reserve;
use fsdyno_sys::child;
use rustix::fs::{AtFlags, CWD, linkat, statvfs};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How much space all of them take at most.
const MOST: Bytes = Bytes(4 * Bytes::GIB);

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The hash of a whole file.
pub(crate) fn digest(file: &File) -> io::Result<Vec<u8>> {
    let mut hash = Sha256::new();
    // From its beginning, whatever has been read of it.
    let mut file = BufReader::with_capacity(1 << 20, File::open(child::path_of(file.as_fd()))?);
    while let length @ 1.. = file.fill_buf()?.len() {
        hash.update(file.buffer());
        file.consume(length);
    }
    Ok(hash.finalize().to_vec())
}

/// A hash as a name.
pub(crate) fn hexadecimal(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is known about a file.
pub(crate) enum Known {
    /// It is there.
    There(File),
    /// It cannot be made.
    Never,
    /// Nobody has tried.
    Unknown,
}

/// The directory of the files that were made since the host booted.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    directory: PathBuf,
}

impl Kept {
    /// `None` if it is unknown which boot of the host this is.
    pub fn below(cache: &Path) -> Option<Kept> {
        let boot = fs::read_to_string(BOOT_ID).ok()?;
        Some(Kept { directory: cache.join("kept").join(boot.trim()) })
    }

    pub fn find(&self, name: &str) -> Known {
        let found = File::open(self.directory.join(name)).and_then(|file| Ok((file.metadata()?.len(), file)));
        let Ok((length, file)) = found else { return Known::Unknown };
        // The one that was used longest ago goes first. That it was used is no reason to fail.
        let _ = file.set_modified(SystemTime::now());
        if length == 0 { Known::Never } else { Known::There(file) }
    }

    /// Whether it was tried in vain.
    pub fn has_failed(&self, name: &str) -> bool {
        matches!(self.find(name), Known::Never)
    }

    /// Notes that it cannot be made.
    pub fn refuse(&self, name: &str) -> io::Result<()> {
        self.keep(name, Bytes(0), |_| Ok(()))
    }

    /// Keeps what `save` writes to an empty file, which is `size` at most, and makes room for it. Any user
    /// may read it who has its descriptor. It is on the disk afterwards, so that no load has to compete with
    /// its being written back.
    pub fn keep(
        &self,
        name: &str,
        size: Bytes,
        save: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        self.remove_those_of_other_boots();
        fs::create_dir_all(&self.directory)?;
        self.make_room(size)?;
        // Until it is complete it has no name, so that nothing is left of one that is not.
        let file = tempfile::tempfile_in(&self.directory)?;
        save(&file)?;
        file.set_permissions(Permissions::from_mode(0o444))?;
        file.sync_data()?;
        let path = self.directory.join(name);
        match linkat(CWD, child::path_of(file.as_fd()), CWD, path, AtFlags::SYMLINK_FOLLOW) {
            // Somebody else was faster.
            Err(Errno::EXIST) => Ok(()),
            linked => Ok(linked?),
        }
    }

    /// Forgets one that is of no use.
    pub fn forget(&self, name: &str) {
        // If it stays, the next guest finds out the same.
        let _ = fs::remove_file(self.directory.join(name));
    }

    /// Removes the oldest until another one of this size fits.
    fn make_room(&self, size: Bytes) -> io::Result<()> {
        let files = fs::read_dir(&self.directory)?.flatten();
        let mut kept: Vec<_> = files.filter_map(|file| Some((file.metadata().ok()?, file.path()))).collect();
        kept.sort_by_key(|(found, _)| (found.mtime(), found.mtime_nsec()));
        let mut sum = size.0 + kept.iter().map(|(found, _)| found.len()).sum::<u64>();
        for (found, path) in &kept {
            if sum <= MOST.0 {
                break;
            }
            fs::remove_file(path)?;
            sum -= found.len();
        }
        let room = statvfs(&self.directory)?;
        let free = Bytes(room.f_bavail * room.f_frsize);
        if free.0 < size.0.saturating_add(reserve(Bytes(room.f_blocks * room.f_frsize)).0) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn remove_those_of_other_boots(&self) {
        let all = self.directory.parent().map(fs::read_dir).into_iter().flatten().flatten();
        for other in all.flatten().map(|entry| entry.path()).filter(|path| *path != self.directory) {
            // They only take space.
            let _ = fs::remove_dir_all(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    fn kept(cache: &Path) -> Kept {
        Kept::below(cache).expect("a boot")
    }

    #[test]
    fn one_is_found_whole_or_not_at_all() {
        let cache = tempfile::tempdir().unwrap();
        let files = kept(cache.path());
        assert!(matches!(files.find("a"), Known::Unknown));
        let cut = files.keep("a", Bytes(1), |mut file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::Other.into())
        });
        assert!(cut.is_err() && matches!(files.find("a"), Known::Unknown));
        files.keep("a", Bytes(1), |mut file| file.write_all(b"whole")).unwrap();
        let Known::There(mut file) = files.find("a") else { panic!("it was kept") };
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "whole");
        files.refuse("b").unwrap();
        assert!(matches!(files.find("b"), Known::Never));
        files.forget("a");
        assert!(matches!(files.find("a"), Known::Unknown));
        assert_eq!(fs::read_dir(&files.directory).unwrap().count(), 1);
    }

    #[test]
    fn the_oldest_make_room_and_those_of_another_boot_go() {
        let cache = tempfile::tempdir().unwrap();
        let files = kept(cache.path());
        let before = cache.path().join("kept/before");
        fs::create_dir_all(&before).unwrap();
        fs::write(before.join("x"), "x").unwrap();
        for (name, age) in [("old", 9), ("older", 10), ("new", 1)] {
            files.keep(name, Bytes(0), |file| file.set_len(MOST.0 / 3)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age * 60);
            File::open(files.directory.join(name)).unwrap().set_modified(then).unwrap();
        }
        assert!(!before.exists());
        assert!(matches!(files.find("older"), Known::There(_)), "and is the newest now");
        files.keep("another", Bytes(MOST.0 / 4), |mut file| file.write_all(b"x")).unwrap();
        let mut left: Vec<_> = fs::read_dir(&files.directory).unwrap().flatten().collect();
        left.sort_by_key(|entry| entry.file_name());
        let names: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["another", "new", "older"]);
    }

    #[test]
    fn one_that_does_not_fit_is_not_made() {
        let cache = tempfile::tempdir().unwrap();
        let result = kept(cache.path()).keep("a", Bytes(u64::MAX / 2), |_| panic!("there is no room"));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
