//! The shape of a real directory tree, as a model for plans.
//!
//! Only names, types, link counts and sizes are read, and then a few blocks, to see how well they compress.
//! The scan stays in one filesystem, follows no link, and counts a file with several names once. What may not
//! be read is counted, and the scan continues. The result contains histograms and nothing that identifies a
//! file.

use crate::compressibility::Draw;
use crate::error::EngineError;
use crate::plant::DIRECTORY;
use crate::removal::ENTRIES;
use fsdyno_core::workload::{Bin, Profile};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Scans a directory.
///
/// # Errors
/// [`EngineError::System`] if the directory itself cannot be read.
pub fn scan(directory: &Path) -> Result<Profile, EngineError> {
    let fail = |errno| EngineError::system("read the directory", directory)(errno);
    // The directory itself may be given as a link.
    let top =
        rustix::fs::openat(CWD, directory, DIRECTORY - OFlags::NOFOLLOW, Mode::empty()).map_err(fail)?;
    let attributes = look_at(&top, c"").map_err(fail)?;
    let mut scan = Scan { device: (attributes.stx_dev_major, attributes.stx_dev_minor), ..Scan::default() };
    scan.directory(&top, 1).map_err(fail)?;
    let compressible = std::mem::take(&mut scan.draw).estimate(&top);
    Ok(Profile { compressible, ..scan.profile() })
}

#[derive(Default)]
struct Scan {
    device: (u32, u32),
    /// The directory that is being scanned, below the top one.
    at: PathBuf,
    draw: Draw,
    /// Inodes of files with several names that were counted.
    seen: HashSet<u64>,
    bytes: u64,
    unreadable: u64,
    sizes: Histogram,
    files: Histogram,
    directories: Histogram,
    depths: Histogram,
    name_lengths: Histogram,
}

impl Scan {
    /// One directory and everything below it. The only error is that this very directory cannot be read; what
    /// is unreadable below it is counted.
    fn directory(&mut self, directory: &OwnedFd, depth: u64) -> Result<(), Errno> {
        let (mut files, mut below) = (0, Vec::new());
        let mut buffer = vec![MaybeUninit::uninit(); ENTRIES];
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(attributes) = look_at(directory, name) else {
                self.unreadable += 1;
                continue;
            };
            match FileType::from_raw_mode(attributes.stx_mode.into()) {
                FileType::RegularFile => files += u64::from(self.file(&attributes, name, depth)),
                FileType::Directory
                    if (attributes.stx_dev_major, attributes.stx_dev_minor) == self.device =>
                {
                    below.push(CString::from(name));
                }
                _ => {}
            }
        }
        drop(buffer);
        self.files.add(files);
        self.directories.add(below.len() as u64);
        for name in below {
            self.at.push(OsStr::from_bytes(name.as_bytes()));
            let scanned = rustix::fs::openat(directory, &name, DIRECTORY, Mode::empty())
                .and_then(|child| self.directory(&child, depth + 1));
            self.at.pop();
            self.unreadable += u64::from(scanned.is_err());
        }
        Ok(())
    }

    /// Counts a file, and returns whether it had not been counted yet.
    fn file(&mut self, attributes: &Statx, name: &CStr, depth: u64) -> bool {
        if attributes.stx_nlink > 1 && !self.seen.insert(attributes.stx_ino) {
            return false;
        }
        self.bytes += attributes.stx_size;
        self.draw.add(|| self.at.join(OsStr::from_bytes(name.to_bytes())), attributes.stx_size);
        self.sizes.add(attributes.stx_size);
        self.depths.add(depth);
        self.name_lengths.add(name.count_bytes() as u64);
        true
    }

    fn profile(self) -> Profile {
        Profile {
            files: self.sizes.count(),
            directories: self.files.count(),
            bytes: self.bytes,
            unreadable: self.unreadable,
            file_size_bytes: self.sizes.bins(),
            files_per_directory: self.files.bins(),
            directories_per_directory: self.directories.bins(),
            depth: self.depths.bins(),
            name_length_bytes: self.name_lengths.bins(),
            compressible: None,
        }
    }
}

fn look_at(directory: &OwnedFd, name: &CStr) -> Result<Statx, Errno> {
    rustix::fs::statx(
        directory,
        name,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS,
    )
}

/// Counts by value: exact below 64, then 16 bins for each doubling.
#[derive(Default)]
struct Histogram(BTreeMap<u64, (u64, u64)>);

/// log2 of the bins for each doubling.
const BIN_BITS: u32 = 4;

impl Histogram {
    fn add(&mut self, value: u64) {
        let magnitude = (value | (1 << BIN_BITS)).ilog2() - BIN_BITS;
        let width = if value < 64 { 0 } else { magnitude };
        let low = value >> width << width;
        self.0.entry(low).or_insert((low | ((1 << width) - 1), 0)).1 += 1;
    }

    fn count(&self) -> u64 {
        self.0.values().map(|(_, count)| count).sum()
    }

    fn bins(&self) -> Vec<Bin> {
        self.0.iter().map(|(low, (high, count))| Bin { low: *low, high: *high, count: *count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_scan_counts_what_is_there() {
        let top = tempfile::tempdir().unwrap();
        let path = |name: &str| top.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("one"), [0; 100]).unwrap();
        fs::write(path("a/two"), []).unwrap();
        fs::write(path("a/b/three"), [0; 5000]).unwrap();
        fs::hard_link(path("one"), path("a/b/one-again")).unwrap();
        std::os::unix::fs::symlink("one", path("link")).unwrap();
        let profile = scan(top.path()).unwrap();
        assert_eq!((profile.files, profile.directories, profile.bytes), (3, 3, 5100));
        assert_eq!(profile.unreadable, 0);
        let one = |value| Bin { low: value, high: value, count: 1 };
        assert_eq!(profile.depth, [one(1), one(2), one(3)]);
        assert_eq!(profile.directories_per_directory, [one(0), Bin { count: 2, ..one(1) }]);
        assert_eq!(profile.file_size_bytes[0], one(0));
        assert!(profile.file_size_bytes[2].low <= 5000 && profile.file_size_bytes[2].high >= 5000);
        let lengths: u64 = profile.name_length_bytes.iter().map(|bin| bin.count).sum();
        assert_eq!(lengths, 3);
    }

    #[test]
    fn a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = scan(file.path()).unwrap_err();
        assert!(matches!(error, EngineError::System { errno: Errno::NOTDIR, .. }), "{error:?}");
    }

    #[test]
    fn bins_hold_their_values_and_do_not_overlap() {
        let mut histogram = Histogram::default();
        let values: Vec<u64> = (0..200).chain((7..63).map(|bit| (1 << bit) + 12345 % (1 << bit))).collect();
        values.iter().for_each(|value| histogram.add(*value));
        let bins = histogram.bins();
        for value in &values {
            let bin = bins.iter().find(|bin| bin.low <= *value && *value <= bin.high).unwrap();
            assert!(bin.high - bin.low <= bin.low / 15, "{bin:?}");
        }
        assert!(bins.windows(2).all(|pair| pair[0].high < pair[1].low));
        assert_eq!(histogram.count(), values.len() as u64);
    }
}
