//! The files that the monitors of a trial write, in a directory beside the store.
//!
//! Whatever a monitor does to that directory, nothing outside of it is read, counted or removed: links are
//! never followed, and only plain files stay.

use fsdyno_core::{Bytes, Failure};
use fsdyno_store::OwnMount;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most that all monitors of a trial may write, and that each of their files may hold.
pub(super) const MOST: Bytes = Bytes(64 * Bytes::MIB);
/// The most entries that are looked at.
const ENTRIES: usize = 10_000;
/// The longest part of a name that comes from a program.
const NAME: usize = 32;

/// The directory of a trial.
#[derive(Debug)]
pub(super) struct TrialFiles {
    directory: PathBuf,
    is_made: bool,
}

impl TrialFiles {
    pub fn new(directory: PathBuf) -> Self {
        TrialFiles { directory, is_made: false }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path for a monitor in a phase. The directory is made for the first one; what an earlier attempt at
    /// the trial has left there is removed.
    pub fn path(&mut self, phase: u32, number: u32, program: &str) -> Result<PathBuf, Box<Failure>> {
        if !self.is_made {
            self.make().map_err(|error| {
                let message = format!("cannot make the directory '{}': {error}", self.directory.display());
                Box::new(Failure::new("monitor", message))
            })?;
            self.is_made = true;
        }
        let name = program.rsplit('/').next().unwrap_or_default();
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).take(NAME).collect();
        Ok(self.directory.join(format!("phase{phase}-monitor{number}-{name}")))
    }

    fn make(&self) -> std::io::Result<()> {
        let is_directory = fs::symlink_metadata(&self.directory).map(|found| found.is_dir());
        match is_directory {
            Ok(true) => self.mount()?.remove(&self.directory)?,
            // In place of the directory there is a link or a file, which is removed itself.
            Ok(false) => {
                let parent = self.directory.parent().unwrap_or(&self.directory);
                OwnMount::reaching(self.base(), parent)?;
                fs::remove_file(&self.directory)?;
            }
            Err(_) => drop(self.mount()?),
        }
        fs::create_dir_all(&self.directory)
    }

    /// The mount with the store, if it is still the directory beside it that is here.
    fn mount(&self) -> std::io::Result<OwnMount> {
        OwnMount::reaching(self.base(), &self.directory)
    }

    /// The directory with the store, in which are the files of all sweeps, and in these those of one.
    fn base(&self) -> &Path {
        self.directory.ancestors().nth(3).unwrap_or(Path::new("/"))
    }

    /// Why monitors may write no more: there is more than they may, or it goes elsewhere.
    pub fn excess(&self) -> Option<String> {
        let found = match self.mount() {
            Ok(mount) => self.entries(mount),
            Err(error) => return Some(error.to_string()),
        };
        let bytes: u64 = found.iter().map(|entry| entry.bytes).sum();
        (found.len() >= ENTRIES || bytes > MOST.0).then(|| format!("they had written more than {MOST}"))
    }

    /// Removes what is not a plain file, and the largest files until the rest is within the limit. Returns
    /// the directory if anything is in it, and what was removed.
    pub fn tidy(&self) -> (Option<PathBuf>, Vec<String>) {
        if !self.is_made {
            return (None, Vec::new());
        }
        let mount = match self.mount() {
            Ok(mount) => mount,
            Err(error) => return (None, vec![format!("nothing of the monitors was removed: {error}")]),
        };
        let mut notes = Vec::new();
        let mut found = self.entries(mount);
        found.sort_by_key(|entry| entry.bytes);
        let mut bytes: u64 = found.iter().map(|entry| entry.bytes).sum();
        let mut kept = found.len();
        while let Some(entry) = found.pop() {
            let too_many = bytes > MOST.0 || kept >= ENTRIES;
            let is_directory = entry.is_directory;
            if is_directory || (entry.is_plain && !too_many) {
                continue;
            }
            bytes -= entry.bytes;
            kept -= 1;
            if fs::remove_file(&entry.path).is_ok() && notes.len() < 3 {
                let why = if entry.is_plain { "it was too large" } else { "it was not a plain file" };
                notes.push(format!("'{}' of a monitor was removed: {why}", entry.path.display()));
            }
        }
        // An empty directory is worth nothing; one that is not empty stays.
        let _ = fs::remove_dir(&self.directory);
        let is_there = fs::symlink_metadata(&self.directory).is_ok_and(|it| it.is_dir());
        (is_there.then(|| self.directory.clone()), notes)
    }

    fn entries(&self, mount: OwnMount) -> Vec<Entry> {
        let (mut found, mut open) = (Vec::new(), vec![self.directory.clone()]);
        while let Some(directory) = open.pop() {
            if !mount.holds(&directory) {
                continue;
            }
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                // This does not follow links.
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    open.push(entry.path());
                }
                found.push(Entry {
                    path: entry.path(),
                    bytes: metadata.blocks().saturating_mul(512),
                    is_directory: metadata.is_dir(),
                    is_plain: metadata.is_file() && metadata.nlink() == 1,
                });
                if found.len() >= ENTRIES {
                    return found;
                }
            }
        }
        found
    }
}

/// Something in the directory.
struct Entry {
    path: PathBuf,
    bytes: u64,
    is_directory: bool,
    is_plain: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_plain_files_within_the_limit_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let decoy = scratch.path().join("decoy");
        fs::write(&decoy, "whole").unwrap();
        let mut files = TrialFiles::new(scratch.path().join("files/7/3"));
        let out = files.path(1, 2, "/usr/bin/perf").unwrap();
        assert!(out.ends_with("files/7/3/phase1-monitor2-perf"), "{}", out.display());
        fs::write(&out, "data").unwrap();
        symlink(&decoy, files.directory().join("link")).unwrap();
        fs::hard_link(&decoy, files.directory().join("hard")).unwrap();
        symlink(scratch.path(), files.directory().join("out")).unwrap();
        assert_eq!(files.excess(), None);
        let large = fs::File::create(files.directory().join("large")).unwrap();
        rustix::fs::fallocate(&large, rustix::fs::FallocateFlags::empty(), 0, MOST.0).unwrap();
        assert!(files.excess().is_some_and(|why| why.contains("more than 64M")));
        let (directory, notes) = files.tidy();
        assert_eq!(directory.as_deref(), Some(files.directory()));
        assert_eq!(notes.len(), 3, "{notes:?}");
        let left: Vec<_> = fs::read_dir(files.directory()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(
            (fs::read_to_string(&out).unwrap().as_str(), fs::read_to_string(&decoy).unwrap().as_str()),
            ("data", "whole")
        );
    }

    #[test]
    fn a_link_in_place_of_the_directory_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let others = scratch.path().join("others");
        fs::create_dir(&others).unwrap();
        symlink("nowhere", others.join("link")).unwrap();
        let mut files = TrialFiles::new(scratch.path().join("files/7/3"));
        files.path(1, 1, "x").unwrap();
        fs::remove_dir(files.directory()).unwrap();
        symlink(&others, files.directory()).unwrap();
        files.tidy();
        assert!(others.join("link").symlink_metadata().is_ok());
        files.make().unwrap();
        assert!(others.join("link").symlink_metadata().is_ok() && files.directory().is_dir());
    }

    #[test]
    fn a_directory_that_is_gone_has_no_files() {
        let scratch = tempfile::tempdir().unwrap();
        let mut files = TrialFiles::new(scratch.path().join("files/7/3"));
        files.path(1, 1, "x").unwrap();
        fs::remove_dir_all(files.directory()).unwrap();
        assert_eq!(files.excess(), None);
        assert_eq!(files.tidy(), (None, Vec::new()));
    }
}
