//! An estimate of how well the files of a real directory compress, from a few blocks of them.
//!
//! Blocks are drawn by bytes, so that a large file counts for as much as it occupies: [`BLOCKS`] reservoirs
//! of one file each, a file being kept with the probability of its share of all bytes so far. Each block is
//! compressed as btrfs does with `compress=zstd`: alone, 128 KiB at a time, level 3.

use fsdyno_core::workload::Compressibility;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};

/// The maximum number of blocks read: 32 MiB.
const BLOCKS: usize = 256;
/// The unit in which btrfs compresses (btrfs(5), COMPRESSION).
const BLOCK: u64 = 128 * 1024;
const LEVEL: i32 = 3;

/// Files that were drawn so far.
pub(crate) struct Draw {
    random: Xoshiro256PlusPlus,
    bytes: u64,
    files: Vec<Option<(PathBuf, u64)>>,
}

impl Default for Draw {
    fn default() -> Self {
        Draw { random: Xoshiro256PlusPlus::seed_from_u64(1), bytes: 0, files: vec![None; BLOCKS] }
    }
}

impl Draw {
    /// A file of this size, by its path below the directory that is scanned.
    pub(crate) fn add(&mut self, path: impl Fn() -> PathBuf, size: u64) {
        if size == 0 {
            return;
        }
        self.bytes += size;
        for kept in &mut self.files {
            if self.random.random_range(0..self.bytes) < size {
                *kept = Some((path(), size));
            }
        }
    }

    /// Reads a block of each, and compresses it; `None` if nothing could be read.
    pub(crate) fn estimate(mut self, top: &OwnedFd) -> Option<Compressibility> {
        let mut saved = Vec::new();
        for (path, size) in self.files.into_iter().flatten() {
            let first = self.random.random_range(0..size.div_ceil(BLOCK)) * BLOCK;
            saved.extend(read(top, &path, first).as_deref().and_then(saved_share));
        }
        let blocks = saved.len() as f64;
        if saved.is_empty() {
            return None;
        }
        let share = saved.iter().sum::<f64>() / blocks;
        let spread = saved.iter().map(|one| (one - share).powi(2)).sum::<f64>() / (blocks - 1.0).max(1.0);
        Some(Compressibility { share, standard_error: (spread / blocks).sqrt(), blocks: saved.len() as u64 })
    }
}

/// The block at a position of a file, which may have changed since it was seen. It is no reason to change the
/// file's access time.
fn read(top: &OwnedFd, path: &Path, position: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // Only the owner of a file may ask for NOATIME (open(2)).
    let file = rustix::fs::openat(top, path, flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| rustix::fs::openat(top, path, flags, Mode::empty()))
        .ok()?;
    let mut block = vec![0; BLOCK as usize];
    let length = rustix::io::pread(&file, &mut block, position).ok()?;
    block.truncate(length);
    (length > 0).then_some(block)
}

/// The share of a block that compressing it saves.
fn saved_share(block: &[u8]) -> Option<f64> {
    let compressed = zstd::bulk::compress(block, LEVEL).ok()?.len();
    Some((1.0 - compressed as f64 / block.len() as f64).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::scan;
    use rand::Rng;
    use std::fs;

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Xoshiro256PlusPlus::seed_from_u64(9).fill_bytes(&mut bytes);
        bytes
    }

    /// Checks that what the engine writes as `{ compressible = share }` is measured as that share.
    #[test]
    fn the_share_is_that_of_the_bytes_that_compress() {
        for share in [0.0, 0.25, 0.5, 1.0] {
            let directory = tempfile::tempdir().unwrap();
            let mut bytes = noise(2 << 20);
            let zeros = (512.0 * share) as usize;
            bytes.chunks_mut(512).for_each(|sector| sector[512 - zeros..].fill(0));
            fs::write(directory.path().join("a"), &bytes).unwrap();
            let found = scan(directory.path()).unwrap().compressible.unwrap();
            assert!((found.share - share).abs() < 0.06, "{share}: {found:?}");
            assert!(found.blocks == BLOCKS as u64 && found.standard_error < 0.01, "{found:?}");
        }
    }

    /// One large file of noise beside a thousand small ones of zeros: most bytes do not compress.
    #[test]
    fn files_count_by_their_bytes() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("small")).unwrap();
        for number in 0..1000 {
            fs::write(directory.path().join(format!("small/{number}")), [0; 1024]).unwrap();
        }
        fs::write(directory.path().join("large"), noise(9 << 20)).unwrap();
        let found = scan(directory.path()).unwrap().compressible.unwrap();
        assert!((found.share - 0.1).abs() < 4.0 * found.standard_error + 0.02, "{found:?}");
    }

    #[test]
    fn a_directory_without_bytes_has_no_estimate() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("empty"), []).unwrap();
        assert_eq!(scan(directory.path()).unwrap().compressible, None);
    }
}
