//! Results that take long to obtain and serve later guests as well: decompressed kernels, snapshots, and the
//! finding that KVM does not work.
//!
//! Files are kept in the download cache until the machine reboots or they take too much space. Each has the
//! hash of whatever it was made from in its name, and at its end a checksum of its name and content: one that
//! is damaged, or has the place of another, is made anew.

use fsdyno_core::Bytes;
use fsdyno_core::reserve::reserve;
use fsdyno_sys::child;
use rustix::fs::{AtFlags, CWD, OFlags, linkat, statvfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The most space that all kept files may take together.
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

/// The marker at the end of a file, which is followed by the file's checksum.
const SEAL: &[u8; 12] = b"fsdyno kept\n";
const SEAL_BYTES: u64 = SEAL.len() as u64 + size_of::<u32>() as u64;
/// The number of bytes that are read at once to compute a checksum.
const PIECE: usize = 1 << 20;

/// Files that were whole when this process read them, as they were then (device, inode, length, time of the
/// last change): reading hundreds of megabytes before each trial would take longer than waking a guest.
static SEEN: Mutex<BTreeSet<FileStamp>> = Mutex::new(BTreeSet::new());
type FileStamp = (u64, u64, u64, i64, i64);

fn state(found: &Metadata) -> FileStamp {
    (found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec())
}

/// The checksum of a name, and of so much of a file.
fn sum(name: &str, file: &File, length: u64) -> io::Result<u32> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(name.as_bytes());
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    while at < length {
        let part = &mut piece[..(length - at).min(PIECE as u64) as usize];
        file.read_exact_at(part, at)?;
        sum.update(part);
        at += part.len() as u64;
    }
    Ok(sum.finalize())
}

/// Ends a file of this name with its checksum.
fn seal(name: &str, file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let sum = sum(name, file, length)?;
    file.write_all_at(&[&SEAL[..], &sum.to_le_bytes()].concat(), length)
}

/// Returns whether a file of this name is as it was sealed.
fn is_whole(name: &str, file: &File, length: u64) -> io::Result<bool> {
    let Some(content) = length.checked_sub(SEAL_BYTES) else { return Ok(false) };
    let mut end = [0; SEAL_BYTES as usize];
    file.read_exact_at(&mut end, content)?;
    let (seal, expected) = end.split_at(SEAL.len());
    Ok(seal == SEAL && expected == sum(name, file, content)?.to_le_bytes())
}

/// Returns whether only this user or root can change a file or directory.
fn is_trusted(found: &Metadata) -> bool {
    [0, geteuid().as_raw()].contains(&found.uid()) && found.mode() & 0o022 == 0
}

/// The state of a kept file, as far as it is known.
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
pub(crate) struct KeptFiles {
    directory: PathBuf,
    /// The most space that the files may take.
    most: Bytes,
}

impl KeptFiles {
    /// `None` if it is unknown which boot of the host this is, or if others can change what is kept.
    pub fn below(cache: &Path) -> Option<KeptFiles> {
        let boot = fs::read_to_string(BOOT_ID).ok()?;
        let all = cache.join("kept");
        let directory = all.join(boot.trim());
        let is_ours = |path: &Path| match path.symlink_metadata() {
            Ok(found) => found.is_dir() && is_trusted(&found),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        (is_ours(&all) && is_ours(&directory)).then_some(KeptFiles { directory, most: MOST })
    }

    /// One that is not as it was kept is forgotten.
    pub fn find(&self, name: &str) -> Known {
        match self.opened(name) {
            Ok(Some((_, SEAL_BYTES))) => Known::Never,
            Ok(Some((file, _))) => Known::There(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Known::Unknown,
            Ok(None) | Err(_) => {
                self.forget(name);
                Known::Unknown
            }
        }
    }

    /// A file with its length; `None` if it is not what it has to be.
    fn opened(&self, name: &str) -> io::Result<Option<(File, u64)>> {
        // A FIFO would make us wait for somebody who writes to it.
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let mut options = OpenOptions::new();
        let file =
            options.read(true).custom_flags(flags.bits().cast_signed()).open(self.directory.join(name))?;
        let found = file.metadata()?;
        if !found.is_file() || !is_trusted(&found) {
            return Ok(None);
        }
        let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen().contains(&state(&found)) && !is_whole(name, &file, found.len())? {
            return Ok(None);
        }
        // The one that was used longest ago goes first. That it was used is no reason to fail.
        let _ = file.set_modified(SystemTime::now());
        seen().insert(state(&file.metadata()?));
        Ok(Some((file, found.len())))
    }

    /// Returns whether a file was noted as one that cannot be made.
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
        DirBuilder::new().recursive(true).mode(0o755).create(&self.directory)?;
        self.make_room(size)?;
        // Until it is complete it has no name, so that nothing is left of one that is not.
        let file = tempfile::tempfile_in(&self.directory)?;
        save(&file)?;
        seal(name, &file)?;
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
            if sum <= self.most.0 {
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

    fn kept(cache: &Path) -> KeptFiles {
        KeptFiles::below(cache).expect("a boot")
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
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        assert!(content.starts_with(b"wholefsdyno kept\n") && content.len() == 5 + SEAL_BYTES as usize);
        files.refuse("b").unwrap();
        assert!(matches!(files.find("b"), Known::Never));
        files.forget("a");
        assert!(matches!(files.find("a"), Known::Unknown));
        assert_eq!(fs::read_dir(&files.directory).unwrap().count(), 1);
    }

    #[test]
    fn the_oldest_make_room_and_those_of_another_boot_go() {
        let cache = tempfile::tempdir().unwrap();
        let most = Bytes(3 * Bytes::MIB);
        let files = KeptFiles { most, ..kept(cache.path()) };
        let before = cache.path().join("kept/before");
        fs::create_dir_all(&before).unwrap();
        fs::write(before.join("x"), "x").unwrap();
        for (name, age) in [("old", 9), ("older", 10), ("new", 1)] {
            files.keep(name, Bytes(0), |file| file.set_len(most.0 / 4)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age * 60);
            File::open(files.directory.join(name)).unwrap().set_modified(then).unwrap();
        }
        assert!(!before.exists());
        assert!(matches!(files.find("older"), Known::There(_)), "and is the newest now");
        files.keep("another", Bytes(most.0 / 3), |mut file| file.write_all(b"x")).unwrap();
        let mut left: Vec<_> = fs::read_dir(&files.directory).unwrap().flatten().collect();
        left.sort_by_key(|entry| entry.file_name());
        let names: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["another", "new", "older"]);
    }

    #[test]
    fn one_that_is_damaged_or_another_is_forgotten() {
        let cache = tempfile::tempdir().unwrap();
        let files = kept(cache.path());
        let path = |name: &str| files.directory.join(name);
        let make =
            |name: &str| files.keep(name, Bytes(1), |mut file| file.write_all(name.as_bytes())).unwrap();
        type Harm<'a> = &'a dyn Fn();
        let harms: [Harm<'_>; 7] = [
            &|| fs::rename(path("b"), path("a")).unwrap(),
            &|| OpenOptions::new().write(true).open(path("a")).unwrap().write_all_at(b"x", 0).unwrap(),
            &|| OpenOptions::new().write(true).open(path("a")).unwrap().set_len(10).unwrap(),
            &|| fs::write(path("a"), "").unwrap(),
            &|| fs::set_permissions(path("a"), Permissions::from_mode(0o666)).unwrap(),
            &|| {
                fs::remove_file(path("a")).unwrap();
                std::os::unix::fs::symlink(path("b"), path("a")).unwrap();
            },
            &|| {
                fs::remove_file(path("a")).unwrap();
                rustix::fs::mkfifoat(CWD, path("a"), rustix::fs::Mode::RUSR).unwrap();
            },
        ];
        for (number, harm) in harms.iter().enumerate() {
            make("a");
            make("b");
            assert!(matches!(files.find("a"), Known::There(_)), "{number}");
            assert!(matches!(files.find("a"), Known::There(_)), "{number}: and again");
            fs::set_permissions(path("a"), Permissions::from_mode(0o644)).unwrap();
            harm();
            assert!(matches!(files.find("a"), Known::Unknown), "{number}");
            assert!(path("a").symlink_metadata().is_err(), "{number}");
        }
        fs::set_permissions(cache.path().join("kept"), Permissions::from_mode(0o777)).unwrap();
        assert!(KeptFiles::below(cache.path()).is_none());
    }

    #[test]
    fn one_that_does_not_fit_is_not_made() {
        let cache = tempfile::tempdir().unwrap();
        let result = kept(cache.path()).keep("a", Bytes(u64::MAX / 2), |_| panic!("there is no room"));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
