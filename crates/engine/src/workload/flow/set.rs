//! A file set as the engine sees it: names, sizes and contents of its files, which follow from the seed and
//! are stored nowhere.

use crate::content::FileIdentity;
use crate::tree::{Model, derive_seed};
use fsdyno_core::workload::flow::Written;
use fsdyno_core::workload::parameter::Refusal;
use fsdyno_core::workload::{FileSet, FileSize, Flow};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ffi::CStr;

/// The word that identities of files derive from.
const SETS: u64 = 6;
/// The longest path below the directory of a set: directories of workers and levels, and a file.
const LONGEST: usize = 127;
/// Room for the names of each worker in the numbers of files.
const NAMES: u64 = 1 << 40;

/// Which of the names of a set, and how many files have had this name before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    /// Of the worker's own names if they are divided, else of all.
    pub(super) name: u32,
    /// The number of times that the name was used before.
    pub(super) incarnation: u32,
}

/// A file set.
pub(super) struct Set {
    pub(super) files: FileSet,
    pub(super) is_changed: bool,
    pub(super) is_divided: bool,
    /// The number of workers among which the names are divided.
    pub(super) sharers: u64,
    /// The way in which its files are written, if what is read is verified.
    pub(super) written: Option<Written>,
    seed: u64,
    sizes: Sizes,
    /// For each level of directories, from the top, how many directories of the last level it divides.
    levels: Vec<u64>,
}

enum Sizes {
    Range(u64, u64),
    Gamma(Gamma<f64>),
    Model(Box<Model>),
}

impl Set {
    pub(super) fn new(flow: &Flow, files: &FileSet, index: usize, seed: u64) -> Result<Self, Refusal> {
        let refused = || Refusal::of("files", "sets whose sizes have a distribution");
        let sizes = match &files.size {
            FileSize::Range(range) => Sizes::Range(range.low.0, range.high.0),
            FileSize::Gamma { mean, gamma } => {
                let scale = mean.0.max(1) as f64 / gamma;
                Sizes::Gamma(Gamma::new(*gamma, scale).map_err(|_| refused())?)
            }
            FileSize::Model(model) => Sizes::Model(Box::new(Model::new(model).map_err(|_| refused())?)),
        };
        let is_divided = flow.divides(files);
        let sharers = if is_divided { u64::from(flow.sharers(&files.name)) } else { 1 };
        let mut set = Set {
            files: files.clone(),
            is_changed: flow.changes(&files.name),
            is_divided,
            sharers,
            written: flow.verify.then(|| flow.written(files)),
            seed: derive_seed(seed, &[SETS, index as u64]),
            sizes,
            levels: Vec::new(),
        };
        set.levels = levels(set.directories(), files.per_directory.map_or(1, u64::from));
        Ok(set)
    }

    /// Returns the number of names that a worker has, or all workers together.
    pub(super) fn names(&self, worker: u64) -> u64 {
        let (each, more) = (self.files.count / self.sharers, self.files.count % self.sharers);
        if self.is_divided { each + u64::from(worker < more) } else { self.files.count }
    }

    /// Returns the number of these names that exist at the beginning.
    pub(super) fn prefilled(&self, worker: u64) -> u64 {
        self.files.prefilled(self.names(worker))
    }

    /// Directories of the last level: of each worker if it has its own.
    pub(super) fn directories(&self) -> u64 {
        let names = if self.files.private { self.names(0) } else { self.files.count };
        self.files.per_directory.map_or(1, |files| names.div_ceil(files.into()))
    }

    /// The path of a file, relative to the directory of the set.
    #[inline]
    pub(super) fn path(&self, worker: u64, name: u32, path: &mut Path) {
        // The files of all workers are in all directories, unless each has its own.
        let number = if self.files.private { u64::from(name) } else { self.position(worker, name) };
        path.clear();
        if self.files.private {
            path.push(b'w', worker);
            path.separate();
        }
        if let Some(files) = self.files.per_directory {
            self.enter(number / u64::from(files), path);
        }
        path.push(b'f', number);
    }

    /// Which of the files of all workers a name of one of them stands for.
    #[inline]
    pub(super) fn position(&self, worker: u64, name: u32) -> u64 {
        if self.is_divided { u64::from(name) * self.sharers + worker } else { u64::from(name) }
    }

    /// A number that follows from the set and from these.
    pub(super) fn derive(&self, from: &[u64]) -> u64 {
        derive_seed(self.seed, from)
    }

    /// The path of a directory of the last level, in its worker's own one if it has one.
    pub(super) fn directory(&self, worker: u64, directory: u64, path: &mut Path) {
        path.clear();
        if self.files.private {
            path.push(b'w', worker);
            path.separate();
        }
        self.enter(directory, path);
    }

    fn enter(&self, directory: u64, path: &mut Path) {
        let mut rest = directory;
        for below in &self.levels {
            path.push(b'd', rest / below);
            path.separate();
            rest %= below;
        }
    }

    fn number(&self, worker: u64, file: File) -> u64 {
        let owner = if self.is_divided { worker } else { 0 };
        derive_seed(self.seed, &[owner * NAMES + u64::from(file.name), file.incarnation.into()])
    }

    /// The size of a file that is written whole.
    pub(super) fn size(&self, worker: u64, file: File) -> u64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.number(worker, file));
        let largest = self.files.size.largest();
        match &self.sizes {
            Sizes::Range(low, high) if low == high => *low,
            Sizes::Range(low, high) => random.random_range(*low..=*high),
            Sizes::Gamma(gamma) => (gamma.sample(&mut random) as u64).min(largest),
            Sizes::Model(model) => model.size(&mut random, largest),
        }
    }

    /// Returns the identity that the contents of a file follow from.
    pub(super) fn identity(&self, worker: u64, file: File) -> FileIdentity {
        FileIdentity::new(self.number(worker, file), 0)
    }
}

/// Returns the number of directories of the last level that each directory of a level has below it, from the
/// top, with at most `width` directories in each. One directory needs no level: it is that of the set.
fn levels(directories: u64, width: u64) -> Vec<u64> {
    if directories <= 1 {
        return Vec::new();
    }
    let (width, mut below) = (width.max(2), 1_u64);
    let mut levels = vec![below];
    while below.saturating_mul(width) < directories {
        below *= width;
        levels.insert(0, below);
    }
    levels
}

/// A path without memory of its own, ready for a system call.
#[derive(Clone)]
pub(super) struct Path {
    bytes: [u8; LONGEST + 1],
    length: usize,
    /// Where the last name begins.
    last: usize,
}

impl Path {
    pub(super) const fn new() -> Self {
        Path { bytes: [0; LONGEST + 1], length: 0, last: 0 }
    }

    fn clear(&mut self) {
        self.bytes[..self.length].fill(0);
        (self.length, self.last) = (0, 0);
    }

    /// A letter and a number; 20 digits at most.
    fn push(&mut self, letter: u8, number: u64) {
        self.bytes[self.length] = letter;
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut rest = number;
        for place in (self.length + 1..=self.length + digits).rev() {
            self.bytes[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.length += 1 + digits;
    }

    fn separate(&mut self) {
        self.bytes[self.length] = b'/';
        self.length += 1;
        self.last = self.length;
    }

    /// The path.
    #[inline]
    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"_")
    }

    /// Becomes the path of the directory that has the file.
    pub(super) fn leave(&mut self) {
        self.bytes[self.last..self.length].fill(0);
        self.length = self.last;
        if self.length == 0 {
            self.bytes[0] = b'.';
            self.length = 1;
        }
        self.last = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;
    use std::collections::{BTreeMap, HashSet};

    fn files(count: u64, per_directory: Option<u32>) -> FileSet {
        FileSet {
            name: "some".to_string(),
            count,
            size: FileSize::exactly(Bytes(10)),
            per_directory,
            prefill: 1.0,
            private: false,
            limit: Bytes(Bytes::GIB),
        }
    }

    fn set(files: FileSet) -> Set {
        Set::new(&Flow::default(), &files, 0, 42).unwrap()
    }

    #[test]
    fn directories_have_as_many_entries_as_they_should() {
        for (count, width) in [(1, 20), (20, 20), (21, 20), (1000, 20), (9999, 20), (300, 1), (7, 3)] {
            let set = set(files(count, Some(width)));
            let (mut path, mut paths) = (Path::new(), HashSet::new());
            let mut entries: BTreeMap<String, HashSet<String>> = BTreeMap::new();
            for name in 0..count as u32 {
                set.path(0, name, &mut path);
                let text = path.as_c_str().to_str().unwrap().to_string();
                let mut above = String::new();
                for part in text.split('/') {
                    entries.entry(above.clone()).or_default().insert(part.to_string());
                    above = format!("{above}/{part}");
                }
                assert!(paths.insert(text));
                let mut directory = Path::new();
                set.directory(0, u64::from(name / width), &mut directory);
                path.leave();
                let left = path.as_c_str().to_str().unwrap();
                assert!(left == directory.as_c_str().to_str().unwrap() || left == ".");
            }
            let most = entries.values().map(HashSet::len).max().unwrap();
            assert!(most <= width.max(2) as usize, "{count} files, {width} each: {most}");
        }
    }

    #[test]
    fn sizes_have_their_mean_and_depend_on_seed_and_file_alone() {
        for (size, mean) in [
            (FileSize::Gamma { mean: Bytes(16_384), gamma: 1.5 }, 16_384.0),
            (FileSize::exactly(Bytes(5)), 5.0),
        ] {
            let (one, other) = (
                set(FileSet { size: size.clone(), ..files(9, None) }),
                set(FileSet { size, ..files(9, None) }),
            );
            let sizes: Vec<u64> =
                (0..20_000).map(|name| one.size(0, File { name, incarnation: 3 })).collect();
            let sum: u64 = sizes.iter().sum();
            assert!((sum as f64 / 20_000.0 / mean - 1.0).abs() < 0.03);
            assert_eq!(sizes[7], other.size(0, File { name: 7, incarnation: 3 }));
        }
    }
}
