//! The models: sizes of files, files and subdirectories per directory, lengths of names.
//!
//! | | sizes | files per directory | subdirectories |
//! |---|---|---|---|
//! | home | lognormal, median 4 KiB, sigma 2.12, cap 256 MiB: mean 38 KB as the 2009 tables imply | geometric, mean 10.8 | Poisson, mean 1.5, six levels |
//! | impressions | lognormal mu 9.48, sigma 2.46; Pareto tail above 512 MiB, weight 6e-5, alpha 0.91 | inverse polynomial, degree 2, offset 2.36 | limit of "parent with probability ~ children + 2" |
//! | profile | as scanned | as scanned | as scanned, scaled by level so that the depths of files come out |
//!
//! Impressions: Agrawal, Arpaci-Dusseau and Arpaci-Dusseau, "Generating Realistic Impressions for File-System
//! Benchmarking", FAST 2009, table 2.

use super::distribution::{Bins, Count, Size, Tail};
use crate::error::EngineError;
use fsdyno_core::units::Bytes;
use fsdyno_core::workload::{Bin, Profile, TreeModel};
use rand::{Rng, RngExt};

/// A model ready to be drawn from.
#[derive(Debug, Clone)]
pub struct Model {
    size: Size,
    largest_bytes: u64,
    files: Count,
    directories: Count,
    /// Factor on the number of subdirectories of a directory at this depth (the top: 0); 0 beyond the end.
    scale: Vec<f64>,
    name_length: Count,
}

impl Model {
    /// Prepares a model.
    ///
    /// # Errors
    /// [`EngineError::Parameter`] if no tree can be created from a profile.
    pub fn new(model: &TreeModel) -> Result<Self, EngineError> {
        match model {
            TreeModel::Home => Ok(home()),
            TreeModel::Impressions => Ok(impressions()),
            TreeModel::Profile(profile) => scanned(profile),
        }
    }

    pub(crate) fn size(&self, random: &mut impl Rng, largest: u64) -> u64 {
        self.size.draw(random, largest.min(self.largest_bytes))
    }

    pub(super) fn files(&self, random: &mut impl Rng) -> u64 {
        self.files.draw(random)
    }

    /// The number of subdirectories of a directory at this depth.
    pub(super) fn directories(&self, random: &mut impl Rng, depth: u64) -> u64 {
        let scale = self.scale.get(depth as usize).copied().unwrap_or(0.0);
        let scaled = self.directories.draw(random) as f64 * scale;
        // Rounded up with the probability of the fraction, so that the mean is preserved.
        scaled as u64 + u64::from(scaled.fract() > 0.0 && random.random_bool(scaled.fract()))
    }

    pub(super) fn name_length(&self, random: &mut impl Rng) -> u64 {
        self.name_length.draw(random)
    }
}

fn home() -> Model {
    Model {
        size: Size::log_normal(4096_f64.ln(), 2.12, None),
        largest_bytes: 256 * Bytes::MIB,
        files: Count::geometric(10.8),
        directories: Count::poisson(1.5),
        scale: vec![1.0; 5],
        name_length: Count::Uniform(4, 20),
    }
}

fn impressions() -> Model {
    const MOST_FILES: u32 = 4096;
    const MOST_DIRECTORIES: u32 = 1000;
    const DEEPEST: usize = 24;
    let files = (0..=MOST_FILES).map(|n| (f64::from(n) + 2.36).powi(-2));
    // Directories that choose their parent with probability ~ children + 2: in the limit a share of 72 / ((k
    // + 2) (k + 3) (k + 4) (k + 5)) has k subdirectories. The mean is 1: below the top such a tree is
    // critical, so that only the depth bounds it.
    let directories =
        (0..=MOST_DIRECTORIES).map(f64::from).map(|k| 72.0 / ((k + 2.0) * (k + 3.0) * (k + 4.0) * (k + 5.0)));
    let tail = Tail { weight: 6e-5, from_bytes: (512 * Bytes::MIB) as f64, alpha: 0.91 };
    Model {
        size: Size::log_normal(9.48, 2.46, Some(tail)),
        largest_bytes: 64 * Bytes::GIB,
        files: Count::Bins(Bins::from_weights(files)),
        directories: Count::Bins(Bins::from_weights(directories)),
        scale: vec![1.0; DEEPEST],
        name_length: Count::Uniform(4, 20),
    }
}

fn scanned(profile: &Profile) -> Result<Model, EngineError> {
    let bins = |parameter: &'static str, bins: &[Bin]| {
        Bins::new(bins).ok_or_else(|| EngineError::Parameter {
            parameter,
            expected: "values in bins whose low end is not greater than the high end".to_string(),
        })
    };
    let size = bins("tree.profile.file_size_bytes", &profile.file_size_bytes)?;
    let files = bins("tree.profile.files_per_directory", &profile.files_per_directory)?;
    let name_length = bins("tree.profile.name_length_bytes", &profile.name_length_bytes)?;
    let directories = Bins::new(&profile.directories_per_directory);
    // Without data or without files a tree would never reach its size.
    for (parameter, mean) in
        [("tree.profile.file_size_bytes", size.mean()), ("tree.profile.files_per_directory", files.mean())]
    {
        if mean <= 0.0 {
            return Err(EngineError::Parameter {
                parameter,
                expected: "a list with at least one value above 0".to_string(),
            });
        }
    }
    let mean = directories.as_ref().map_or(0.0, Bins::mean);
    Ok(Model {
        size: Size::Bins(size),
        largest_bytes: u64::MAX,
        files: Count::Bins(files),
        scale: if mean > 0.0 { scale_by_depth(&profile.depth, mean) } else { Vec::new() },
        directories: directories.map_or(Count::Uniform(0, 0), Count::Bins),
        name_length: Count::Bins(name_length),
    })
}

/// Returns, for each depth, the ratio of the number of subdirectories of a directory to that of the mean
/// directory, so that files appear at the depths of the profile: level by level as many directories as files,
/// relative to the level above.
fn scale_by_depth(depth: &[Bin], mean: f64) -> Vec<f64> {
    const DEEPEST: usize = 64;
    let mut files = vec![0_u64; DEEPEST + 1];
    for bin in depth {
        let level = (bin.low as usize).clamp(1, DEEPEST) - 1;
        files[level] = files[level].saturating_add(bin.count);
    }
    let ratio = |pair: &[u64]| if pair[0] == 0 { 1.0 } else { pair[1] as f64 / pair[0] as f64 };
    let levels = files.iter().rposition(|count| *count > 0).unwrap_or(0);
    files.windows(2).take(levels).map(|pair| ratio(pair) / mean).collect()
}
