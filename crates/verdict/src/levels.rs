//! The settings of configurations, and those that differ from their defaults.

use fsdyno_core::Configuration;
use fsdyno_core::axis::{self, DEFAULT};
use fsdyno_stats::{Ratio, Verdict};

/// The axis that every configuration has.
pub(crate) const FILESYSTEM: &str = "filesystem";

/// The name of a configuration that is kept without being known to be the default.
pub(crate) const BASELINE: &str = "baseline";
/// By default, a difference of up to 5 % does not matter.
pub const THRESHOLD: f64 = 0.05;
/// The most trials of each side that are worth asking for.
const MOST_TRIALS: usize = 99;

/// Returns the number of blocks or trials of each side that would decide, if it is more than there are and
/// anybody would make so many. Whoever adds blocks to a sweep has looked at those that there are, so that it
/// is by intervals that hold after every look.
pub(crate) fn worth_asking(ratio: &Ratio, threshold: f64, comparisons: usize) -> Option<usize> {
    let continued = if ratio.paired { ratio.at_any_time() } else { *ratio };
    match continued.verdict_among(threshold, Some(1.0), comparisons) {
        Verdict::CannotTell(needed) => needed.filter(|needed| (ratio.n + 1..=MOST_TRIALS).contains(needed)),
        _ => None,
    }
}

/// The level of an axis in a configuration, set or not.
pub(crate) fn level(configuration: &Configuration, name: &str) -> String {
    if name == FILESYSTEM {
        return configuration.filesystem.clone();
    }
    let default = || axis::find(name).ok().and_then(|axis| axis.default_level(&configuration.filesystem));
    configuration.level(name).or_else(default).unwrap_or(DEFAULT).to_string()
}

/// Returns the name of the configuration that is kept unless another is shown to be better: `default`, or
/// `baseline` if they differ in one of its settings that is not known to be the default. Those of a disk's
/// queue depend on the kernel, on udev and on the disk.
pub(crate) fn name_of_kept<'a>(
    kept: &Configuration,
    all: impl Iterator<Item = &'a Configuration> + Clone,
) -> &'static str {
    let is_chosen = |(name, own): (&String, &String)| {
        !axis::is_default(name, &kept.filesystem, own) && all.clone().any(|one| level(one, name) != *own)
    };
    if kept.settings.iter().any(is_chosen) { BASELINE } else { DEFAULT }
}

/// Returns the number of settings that differ from their defaults.
pub(crate) fn changes(configuration: &Configuration) -> usize {
    let changed =
        |(name, level): &(&String, &String)| !axis::is_default(name, &configuration.filesystem, level);
    configuration.settings.iter().filter(changed).count()
}
