//! The settings of configurations, and those that differ from their defaults.

use fsdyno_core::Configuration;
use fsdyno_core::axis::{self, DEFAULT};
use fsdyno_stats::{Ratio, Verdict};

/// The axis that every configuration has.
pub(crate) const FILESYSTEM: &str = "filesystem";

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

/// Returns the number of settings that differ from their defaults.
pub(crate) fn changes(configuration: &Configuration) -> usize {
    let changed =
        |(name, level): &(&String, &String)| !axis::is_default(name, &configuration.filesystem, level);
    configuration.settings.iter().filter(changed).count()
}
