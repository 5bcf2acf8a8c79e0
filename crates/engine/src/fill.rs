//! Filling a filesystem, and ageing it, before anything is measured.
//!
//! Filling creates trees of the model `home` until the filesystem itself reports that the level is reached.
//! Each step leaves a tenth of the remaining space, because metadata also takes space. A round of ageing
//! removes a random half of all these files and creates new ones up to the level. Which files are removed
//! follows from the seed and their numbers, so that only one small record per tree is kept: the same seed
//! creates the same files.

use crate::background::Gauge;
use crate::content::Content;
use crate::error::OperationFailure;
use crate::plant::{self, DIRECTORY, PIECE};
use crate::tree::{Model, Tree, TreeEntry, TreeLimits, derive_seed};
use fsdyno_core::configuration::Precondition;
use fsdyno_core::result::{Filled, TreeSummary};
use fsdyno_core::units::Bytes;
use fsdyno_core::workload;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::ffi::CString;
use std::path::Path;
use std::time::Instant;

/// The directory of the fill, inside the engine's own.
pub(crate) const NAME: &str = "fill";
/// The largest tree: the most that is written between two checks of the filesystem.
pub(crate) const LARGEST_TREE: u64 = Bytes::GIB;
/// The level is reached when less than this share of the filesystem is missing.
const NEAR: u64 = 256;
/// Seeds of the trees, and of the choice of the files to remove.
const TREES: u64 = 0x6669_6c6c;
const CHOICE: u64 = 0x0061_6765;
/// The maximum number of trees in one filling: a filesystem that never reports more use is left as it is.
const MOST_TREES: usize = 100_000;

/// A tree that was created, and how often it has been thinned out since.
#[derive(Debug, Clone, Copy)]
struct Planted {
    seed: u64,
    limits: TreeLimits,
    thinned: u32,
}

struct Filling<'a> {
    directory: OwnedFd,
    model: &'a Model,
    content: Content,
    seed: u64,
    target: u64,
    trees: Vec<Planted>,
    filled: Filled,
    gauge: &'a Gauge,
}

/// Fills and ages the filesystem of a directory, in a subdirectory. The gauge counts bytes, also of what is
/// removed.
///
/// # Errors
/// The system call that failed, with the path.
pub(crate) fn fill(
    base: &Path,
    model: &Model,
    seed: u64,
    precondition: Precondition,
    gauge: &Gauge,
) -> Result<Filled, OperationFailure> {
    let begin = Instant::now();
    let failed = |errno| failure(NAME, errno);
    let parent = rustix::fs::open(base, DIRECTORY, Mode::empty()).map_err(failed)?;
    let directory = plant::make_directory(&parent, c"fill").map_err(failed)?;
    let (size, _) = space(&directory)?;
    let mut filling = Filling {
        directory,
        model,
        content: Content::new(workload::Content::Random, seed, PIECE),
        seed,
        target: (u128::from(size) * u128::from(precondition.fill_percent) / 100) as u64,
        trees: Vec::new(),
        filled: Filled::default(),
        gauge,
    };
    filling.reach()?;
    for round in 0..precondition.age_rounds {
        filling.age(round)?;
        filling.filled.rounds += u32::from(!gauge.cancelled());
    }
    let (size_bytes, used_bytes) = space(&filling.directory)?;
    Ok(Filled { duration_ns: begin.elapsed().into(), size_bytes, used_bytes, ..filling.filled })
}

impl Filling<'_> {
    /// Creates trees until the level is reached.
    fn reach(&mut self) -> Result<(), OperationFailure> {
        let mut before = None;
        while self.trees.len() < MOST_TREES && !self.gauge.cancelled() {
            let (size, used) = space(&self.directory)?;
            let missing = self.target.saturating_sub(used);
            // Steps are rounded, so that a few blocks of metadata more or less lead to the same tree.
            let step = (size / NEAR).max(Bytes::KIB);
            // A filesystem that is no fuller than before will not get fuller.
            if missing < step || before == Some(used) {
                return Ok(());
            }
            before = Some(used);
            let bytes = ((missing / 10 * 9) / step * step).clamp(step, LARGEST_TREE);
            self.plant(bytes)?;
        }
        Ok(())
    }

    fn plant(&mut self, bytes: u64) -> Result<(), OperationFailure> {
        let seed = derive_seed(self.seed, &[TREES, self.trees.len() as u64]);
        let limits = TreeLimits::new(bytes, 1);
        let name = tree_name(self.trees.len());
        let made =
            plant::plant(&self.directory, &name, self.model, seed, limits, &mut self.content, self.gauge)?;
        rustix::fs::syncfs(&self.directory).map_err(|errno| failure(NAME, errno))?;
        self.trees.push(Planted { seed, limits, thinned: 0 });
        self.filled.files += made.files;
        self.filled.bytes += made.bytes;
        Ok(())
    }

    /// A round of ageing: a random half of all files is removed, and as many bytes are created again, fewer
    /// if the level was exceeded. The space in use is not queried in between: filesystems may free the blocks
    /// of a file later (xfs).
    fn age(&mut self, round: u32) -> Result<(), OperationFailure> {
        let (size, used) = space(&self.directory)?;
        let gone = self.thin(round)?;
        let step = (size / NEAR).max(Bytes::KIB);
        let mut bytes = (gone + self.target).saturating_sub(used).min(gone) / step * step;
        while bytes > 0 && self.trees.len() < MOST_TREES && !self.gauge.cancelled() {
            let tree = bytes.min(LARGEST_TREE);
            self.plant(tree)?;
            bytes -= tree;
        }
        Ok(())
    }

    /// Removes a random half of all files; returns their bytes.
    fn thin(&mut self, round: u32) -> Result<u64, OperationFailure> {
        let mut bytes = 0;
        for number in 0..self.trees.len() {
            let gone = self.thin_tree(number, round)?;
            self.trees[number].thinned += 1;
            self.filled.files -= gone.files;
            self.filled.bytes -= gone.bytes;
            self.filled.removed += gone.files;
            bytes += gone.bytes;
        }
        rustix::fs::syncfs(&self.directory).map_err(|errno| failure(NAME, errno))?;
        Ok(bytes)
    }

    /// Walks a tree as it was planted.
    fn thin_tree(&self, number: usize, round: u32) -> Result<TreeSummary, OperationFailure> {
        let tree = self.trees[number];
        let top = tree_name(number);
        let mut path = vec![top.to_string_lossy().into_owned()];
        let fail = |path: &[String], errno| failure(&path.join("/"), errno);
        let open = |parent: &OwnedFd, name: &std::ffi::CStr| {
            rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
        };
        let mut directories = vec![open(&self.directory, &top).map_err(|errno| fail(&path, errno))?];
        let mut gone = TreeSummary::default();
        for entry in Tree::new(self.model, tree.seed, tree.limits) {
            let Some(directory) = directories.last() else { break };
            match entry {
                TreeEntry::Enter { name } => {
                    path.push(name.as_c_str().to_string_lossy().into_owned());
                    let entered = open(directory, name.as_c_str()).map_err(|errno| fail(&path, errno))?;
                    directories.push(entered);
                }
                TreeEntry::File { name, size_bytes, index } if tree.goes_in(index, round) => {
                    rustix::fs::unlinkat(directory, name.as_c_str(), AtFlags::empty())
                        .map_err(|errno| fail(&path, errno))?;
                    gone.files += 1;
                    gone.bytes += size_bytes;
                    self.gauge.advance(size_bytes.max(1));
                }
                TreeEntry::File { .. } => {}
                TreeEntry::Leave => {
                    directories.pop();
                    path.pop();
                }
            }
            if self.gauge.cancelled() {
                break;
            }
        }
        Ok(gone)
    }
}

impl Planted {
    /// Returns whether a file is removed in this round: it was spared in all earlier rounds of its tree, but
    /// not in this one.
    fn goes_in(&self, index: u64, round: u32) -> bool {
        let spared =
            |round: u32| derive_seed(self.seed, &[CHOICE, u64::from(round), index]).is_multiple_of(2);
        (round - self.thinned..round).all(spared) && !spared(round)
    }
}

fn tree_name(number: usize) -> CString {
    CString::new(format!("tree-{number}")).unwrap_or_default()
}

/// Size of the filesystem and the space in use, as it reports them.
fn space(directory: &OwnedFd) -> Result<(u64, u64), OperationFailure> {
    let space = rustix::fs::fstatvfs(directory).map_err(|errno| failure(NAME, errno))?;
    let size = space.f_blocks * space.f_frsize;
    Ok((size, size.saturating_sub(space.f_bfree * space.f_frsize)))
}

fn failure(path: &str, errno: Errno) -> OperationFailure {
    OperationFailure { operation: None, path: path.to_string(), errno }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rounds remove each file once at most, and about half of what is left each time.
        #[test]
        fn a_file_goes_once_at_most(seed in any::<u64>(), index in 0..1_000_000_u64) {
            let tree = |thinned| Planted { seed, limits: TreeLimits::new(1, 1), thinned };
            let rounds = (0..20).filter(|round| tree(*round).goes_in(index, *round)).count();
            prop_assert!(rounds <= 1);
        }
    }

    #[test]
    fn half_of_the_files_go_in_a_round() {
        let tree = Planted { seed: 7, limits: TreeLimits::new(1, 1), thinned: 0 };
        let gone = (0..10_000).filter(|index| tree.goes_in(*index, 0)).count();
        assert!((4_800..5_200).contains(&gone), "{gone}");
        let again = Planted { thinned: 1, ..tree };
        let next = (0..10_000).filter(|index| again.goes_in(*index, 1)).count();
        assert!((2_300..2_700).contains(&next), "{next}");
    }
}
