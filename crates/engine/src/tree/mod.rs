//! Directory trees from a seed: names, sizes and shape as a stream of entries, in constant memory.
//!
//! A [`Tree`] is an iterator that walks a tree that is stored nowhere: it enters a directory, lists its
//! files, descends into its subdirectories one after the other, and leaves it. It keeps only one small record
//! per level. The same model, seed and limits give the same stream, entry by entry. The top directory gets as
//! many subdirectories as the size of the tree requires; below it every directory draws the number of its
//! files and subdirectories from the model. For the content of files see [`crate::content`].

mod distribution;
mod model;
mod name;

pub use model::Model;
pub use name::Name;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The next step of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEntry {
    /// A directory in the current one, which becomes the current one.
    Enter {
        /// Its name.
        name: Name,
    },
    /// A regular file in the current directory.
    File {
        /// Its name.
        name: Name,
        /// Its size in bytes.
        size_bytes: u64,
        /// Its position among the files of the tree.
        index: u64,
    },
    /// Back to the directory above. The top directory is neither entered nor left.
    Leave,
}

/// Where a tree ends, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLimits {
    /// Sum of the sizes of all files; the last file is truncated so that it is met exactly.
    pub size_bytes: u64,
    /// No file is larger.
    pub file_bytes: u64,
    /// Sizes of files are rounded up to whole multiples.
    pub multiple_bytes: u64,
}

impl TreeLimits {
    /// A tree of this size, in which no file takes more than an eighth of it.
    pub fn new(size_bytes: u64, multiple_bytes: u64) -> Self {
        let file_bytes = (size_bytes / 8 / multiple_bytes * multiple_bytes).max(multiple_bytes);
        TreeLimits { size_bytes, file_bytes, multiple_bytes }
    }
}

/// A walk through a generated tree.
#[derive(Debug)]
pub struct Tree<'a> {
    model: &'a Model,
    limits: TreeLimits,
    random: Xoshiro256PlusPlus,
    levels: Vec<Level>,
    files: u64,
    left_bytes: u64,
}

/// The entries still to come in one directory.
#[derive(Debug)]
struct Level {
    files: u64,
    directories: u64,
    /// Entries so far: the number that makes the next name unique.
    entries: u64,
}

impl<'a> Tree<'a> {
    /// The tree of this seed.
    pub fn new(model: &'a Model, seed: u64, limits: TreeLimits) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let top = Level { files: model.files(&mut random), directories: u64::MAX, entries: 0 };
        let left_bytes = limits.size_bytes;
        Tree { model, limits, random, levels: vec![top], files: 0, left_bytes }
    }

    fn file(&mut self) -> TreeEntry {
        let TreeLimits { file_bytes, multiple_bytes, .. } = self.limits;
        let size = self.model.size(&mut self.random, file_bytes);
        let size_bytes = size.next_multiple_of(multiple_bytes).min(self.left_bytes);
        self.left_bytes -= size_bytes;
        let (name, index) = (self.name(false), self.files);
        self.files += 1;
        TreeEntry::File { name, size_bytes, index }
    }

    fn directory(&mut self) -> TreeEntry {
        let name = self.name(true);
        let depth = self.levels.len() as u64;
        let files = self.model.files(&mut self.random);
        let directories = self.model.directories(&mut self.random, depth);
        self.levels.push(Level { files, directories, entries: 0 });
        TreeEntry::Enter { name }
    }

    fn name(&mut self, directory: bool) -> Name {
        let length = self.model.name_length(&mut self.random);
        let number = self.levels.last_mut().map_or(0, |level| {
            level.entries += 1;
            level.entries
        });
        Name::random(&mut self.random, length, number, directory)
    }
}

impl Iterator for Tree<'_> {
    type Item = TreeEntry;

    fn next(&mut self) -> Option<TreeEntry> {
        if self.left_bytes > 0 {
            let level = self.levels.last_mut()?;
            if level.files > 0 {
                level.files -= 1;
                return Some(self.file());
            }
            if level.directories > 0 {
                level.directories -= 1;
                return Some(self.directory());
            }
        }
        self.levels.pop();
        (!self.levels.is_empty()).then_some(TreeEntry::Leave)
    }
}

/// A seed for one part of a whole: the same for the same words, and unrelated to those of other parts.
pub fn derive_seed(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(seed, |state, word| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(state ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.random()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::workload::{Bin, Profile, TreeModel};
    use sha2::{Digest, Sha256};
    use std::collections::HashSet;

    fn limits(size_bytes: u64) -> TreeLimits {
        TreeLimits::new(size_bytes, 1)
    }

    fn digest(model: &Model, seed: u64, limits: TreeLimits) -> Vec<u8> {
        let mut hash = Sha256::new();
        for entry in Tree::new(model, seed, limits) {
            match entry {
                TreeEntry::Enter { name } => hash.update([b"enter ", name.as_c_str().to_bytes()].concat()),
                TreeEntry::File { name, size_bytes, .. } => {
                    hash.update([name.as_c_str().to_bytes(), &size_bytes.to_le_bytes()].concat());
                }
                TreeEntry::Leave => hash.update(b"leave"),
            }
        }
        hash.finalize().to_vec()
    }

    fn profile() -> Profile {
        let bin = |low, high, count| Bin { low, high, count };
        Profile {
            files: 100,
            directories: 20,
            bytes: 1_000_000,
            file_size_bytes: vec![bin(0, 0, 10), bin(1, 4096, 60), bin(4097, 40_000, 30)],
            files_per_directory: vec![bin(0, 0, 5), bin(5, 8, 15)],
            directories_per_directory: vec![bin(0, 0, 14), bin(1, 1, 2), bin(4, 5, 4)],
            depth: vec![bin(1, 1, 5), bin(2, 2, 60), bin(3, 3, 35)],
            name_length_bytes: vec![bin(3, 8, 50), bin(9, 20, 50)],
            compressible: None,
            ..Profile::default()
        }
    }

    fn models() -> Vec<Model> {
        [TreeModel::Home, TreeModel::Impressions, TreeModel::Profile(Box::new(profile()))]
            .iter()
            .map(|model| Model::new(model).unwrap())
            .collect()
    }

    #[test]
    fn a_home_tree_has_the_shape_that_the_published_tables_imply() {
        let model = Model::new(&TreeModel::Home).unwrap();
        for seed in [1, 2, 3, 42] {
            let (mut files, mut directories, mut bytes) = (0_u64, 1_u64, 0_u64);
            for entry in Tree::new(&model, seed, limits(u64::MAX)) {
                match entry {
                    TreeEntry::File { size_bytes, .. } => (files, bytes) = (files + 1, bytes + size_bytes),
                    TreeEntry::Enter { .. } => directories += 1,
                    TreeEntry::Leave => {}
                }
                if files == 100_000 {
                    break;
                }
            }
            let mean = bytes as f64 / files as f64;
            assert!((mean / 38_000.0 - 1.0).abs() < 0.10, "seed {seed}: mean size {mean}");
            let per_directory = files as f64 / directories as f64;
            assert!(
                (per_directory / 10.8 - 1.0).abs() < 0.05,
                "seed {seed}: {per_directory} files per directory"
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_tree_and_another_does_not() {
        for model in models() {
            let once = digest(&model, 7, limits(20_000_000));
            assert_eq!(once, digest(&model, 7, limits(20_000_000)));
            assert_ne!(once, digest(&model, 8, limits(20_000_000)));
        }
    }

    #[test]
    fn trees_have_exactly_the_requested_size_and_unique_names() {
        for model in models() {
            for multiple in [1, 4096] {
                let limits = TreeLimits::new(50_000_000 / multiple * multiple, multiple);
                let (mut bytes, mut open, mut names) = (0, 0, vec![HashSet::new()]);
                for entry in Tree::new(&model, 3, limits) {
                    match entry {
                        TreeEntry::File { name, size_bytes, .. } => {
                            bytes += size_bytes;
                            assert!(size_bytes <= limits.file_bytes && size_bytes % multiple == 0);
                            assert!(names.last_mut().unwrap().insert(name.as_c_str().to_owned()));
                        }
                        TreeEntry::Enter { name } => {
                            assert!(names.last_mut().unwrap().insert(name.as_c_str().to_owned()));
                            names.push(HashSet::new());
                            open += 1;
                            assert!(open <= 40, "{open} levels");
                        }
                        TreeEntry::Leave => {
                            names.pop();
                            open -= 1;
                        }
                    }
                }
                assert_eq!((bytes, open), (limits.size_bytes, 0));
            }
        }
    }

    #[test]
    fn home_is_nested_a_few_levels() {
        let model = Model::new(&TreeModel::Home).unwrap();
        let (mut depth, mut deepest) = (0, 0);
        for entry in Tree::new(&model, 1, limits(1 << 30)) {
            match entry {
                TreeEntry::Enter { .. } => depth += 1,
                TreeEntry::Leave => depth -= 1,
                TreeEntry::File { .. } => deepest = deepest.max(depth + 1),
            }
        }
        assert_eq!(deepest, 6);
    }

    #[test]
    fn a_profile_gives_trees_of_its_own_shape() {
        let model = Model::new(&TreeModel::Profile(Box::new(profile()))).unwrap();
        let (mut files, mut directories, mut empty, mut depth) = (0_u64, 1_u64, 0_u64, 0);
        for entry in Tree::new(&model, 5, limits(200_000_000)) {
            match entry {
                TreeEntry::File { name, size_bytes, .. } => {
                    files += 1;
                    empty += u64::from(size_bytes == 0);
                    let length = name.as_c_str().to_bytes().len();
                    assert!((3..=20).contains(&length), "{name:?}");
                    assert!(depth < 3);
                }
                TreeEntry::Enter { .. } => (directories, depth) = (directories + 1, depth + 1),
                TreeEntry::Leave => depth -= 1,
            }
        }
        let share = empty as f64 / files as f64;
        assert!((share - 0.10).abs() < 0.01, "the share of empty files is {share}, in the profile 0.10");
        let per_directory = files as f64 / directories as f64;
        let expected = 15.0 * 6.5 / 20.0;
        assert!((per_directory / expected - 1.0).abs() < 0.05, "{per_directory} files per directory");
    }

    #[test]
    fn a_profile_without_data_is_refused() {
        let empty = Profile { files: 3, ..Profile::default() };
        assert!(Model::new(&TreeModel::Profile(Box::new(empty))).is_err());
        let inverted = Profile { file_size_bytes: vec![Bin { low: 5, high: 4, count: 1 }], ..profile() };
        assert!(Model::new(&TreeModel::Profile(Box::new(inverted))).is_err());
    }

    #[test]
    fn seeds_of_parts_differ() {
        let seeds: HashSet<u64> =
            (0..1000).map(|n| derive_seed(42, &[n / 10, n % 10])).chain([derive_seed(43, &[0, 0])]).collect();
        assert_eq!(seeds.len(), 1001);
    }
}
