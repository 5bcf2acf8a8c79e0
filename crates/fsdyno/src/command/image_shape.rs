//! The findings on whether it matters how images are made, by the filesystem that holds them.

use crate::file;
use fsdyno_core::device::{Image, Preallocation};
use fsdyno_core::{Bytes, DeviceSpec, Warning, WarningKind};
use fsdyno_sweep::Plan;
use serde::{Deserialize, Serialize};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file with the last one for each filesystem, below the directory of state.
const FILE: &str = "images.json";

/// A way in which an image can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Way {
    pub(super) preallocate: Preallocation,
    pub(super) sector: Bytes,
}

impl Way {
    /// Returns whether an image is like this one where this one differs from another.
    fn is_shared_by(self, image: &Image, other: Way) -> bool {
        (self.preallocate == other.preallocate || self.preallocate == image.preallocate)
            && (self.sector == other.sector || self.sector == image.sector)
    }

    pub(super) fn name(self) -> String {
        let made = if self.preallocate == Preallocation::Write { "written" } else { "sparse" };
        format!("{made}, sectors of {}", self.sector.0)
    }
}

/// The findings on one filesystem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeptShape {
    /// Device number of the filesystem that holds the images, and one of its directories.
    pub(super) place: u64,
    pub(super) directory: PathBuf,
    /// When it was found.
    pub(super) finished: String,
    /// The filesystem that was created on the images.
    pub(super) filesystem: String,
    pub(super) rows: Vec<Compared>,
}

/// A measure on images that are made in two ways.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Compared {
    pub(super) ways: [Way; 2],
    pub(super) measure: String,
    /// Means, in bytes per second.
    pub(super) means: [f64; 2],
    /// The second to the first, and its 95 % interval.
    pub(super) ratio: Option<f64>,
    pub(super) interval: Option<[f64; 2]>,
    /// In words.
    pub(super) verdict: String,
    /// `true` if the means differ by more than a share of 5 %.
    pub(super) differs: bool,
    /// `true` if the trials show that they do or that they do not.
    #[serde(default)]
    pub(super) is_decided: bool,
}

impl Compared {
    /// For a warning.
    fn short(&self) -> String {
        let [before, after] = self.ways.map(Way::name);
        let ratio = self.ratio.unwrap_or(f64::NAN);
        format!("{} is {ratio:.2} times as high on '{after}' as on '{before}'", self.measure)
    }
}

fn all_kept(state: &Path) -> Vec<KeptShape> {
    let text = std::fs::read(state.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Replaces what was found on the same filesystem before.
pub(super) fn keep(state: &Path, kept: &KeptShape) -> anyhow::Result<()> {
    let mut all = all_kept(state);
    all.retain(|other| other.place != kept.place);
    all.push(kept.clone());
    let text = serde_json::to_vec_pretty(&all)?;
    file::replace(&state.join(FILE), &text, Permissions::from_mode(0o644))
}

/// Returns the warnings for the trials of a plan: images on a filesystem where others were faster or slower.
pub(super) fn warnings(state: &Path, plan: &Plan) -> Vec<Warning> {
    let all = all_kept(state);
    let disks = plan.devices.all().flat_map(DeviceSpec::disks);
    let images = disks.filter_map(|disk| match disk {
        DeviceSpec::Image(image) => Some(image),
        _ => None,
    });
    let mut warnings = Vec::new();
    for image in images {
        let place =
            image.path.parent().and_then(|directory| directory.metadata().ok()).map(|found| found.dev());
        let Some(kept) = all.iter().find(|kept| Some(kept.place) == place) else { continue };
        let differ =
            kept.rows.iter().filter(|row| row.differs && row.ways[0].is_shared_by(image, row.ways[1]));
        let differ: Vec<String> = differ.map(Compared::short).collect();
        if !differ.is_empty() {
            let text = format!(
                "'{}' could have been made otherwise: on its filesystem, {} (doctor --device, {})",
                image.path.display(),
                differ.join(", "),
                kept.finished
            );
            warnings.push(Warning::new(WarningKind::ImageShape, text));
        }
    }
    warnings
}
