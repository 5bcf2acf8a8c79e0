//! The vocabulary of fsdyno, which the other crates share; nothing here touches a machine.
//!
//! A *plan* names *axes*; their product gives *configurations*; a configuration under a *workload* is a
//! *case*; one execution of a case is a *trial*, the unit of replication. The engine measures *operations* of
//! *workers* in *roles* inside the *window* of a *phase*. Each of these words is a type here, with its unit
//! in its name.
//!
//! This crate does no input or output, reads no clock, holds no state and imports no other crate of the
//! workspace.

pub mod after_trial;
pub mod axis;
pub mod cache;
pub mod configuration;
pub mod device;
pub mod durability;
pub mod environment;
pub mod figures;
pub mod filesystem;
pub mod glance;
pub mod hazard;
pub mod kernel;
mod looks;
pub mod measure;
pub mod meminfo;
pub mod operation;
pub mod outcome;
pub mod parallel;
pub mod printed;
pub mod process_stat;
pub mod profile;
pub mod progress;
pub mod protocol;
mod quantile;
pub mod race;
pub mod reached;
pub mod reserve;
pub mod result;
pub mod scheduler;
pub mod study;
pub mod sweep_header;
pub mod sweep_name;
pub mod sysctl;
pub mod telemetry;
pub mod tool;
pub mod units;
pub mod warning;
pub mod weakening;
pub mod workload;

pub use after_trial::AfterTrial;
pub use axis::{AXES, Axis};
pub use cache::CacheState;
pub use configuration::{Configuration, Precondition};
pub use device::{DeviceSpec, Devices};
pub use environment::Environment;
pub use glance::Glance;
pub use kernel::{DiskCache, GuestShape, KernelSpec};
pub use looks::{Looks, More, RepeatedBlock};
pub use measure::Measure;
pub use operation::{Operation, Role};
pub use outcome::{Failure, Outcome};
pub use progress::{Progress, TrialStep};
pub use protocol::{EngineEvent, EngineRequest};
pub use race::{RaceBudget, RaceRules};
pub use reached::{OwnedFile, Reached, ReadAgain, Reread};
pub use result::{PhaseResult, Recipe, TrialRecord};
pub use study::Study;
pub use sweep_header::SweepHeader;
pub use telemetry::{Telemetry, TelemetryRequest};
pub use tool::Tool;
pub use units::{Bytes, Nanos};
pub use warning::{Warning, WarningKind};
pub use workload::Workload;

/// The nearest of `known` to a mistyped `word`, if one is close enough to be worth suggesting.
///
/// Similarity is Jaro-Winkler, which favours a common prefix, as typing errors do. It misses a swap in a word
/// of three letters (`xsf`), so a single typing error counts as near too, and so does a part of a longer
/// name.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (similarity(&word, &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        // If several are equally near, the first one: lists begin with the most common.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}

/// The suggestion as the end of an error message.
fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|word| format!("; did you mean '{word}'?")).unwrap_or_default()
}

/// The same, or all known words if none is near.
fn alternatives<'a>(nearest: &Option<String>, known: impl Iterator<Item = &'a str>) -> String {
    match nearest {
        Some(_) => did_you_mean(nearest),
        None => format!("; expected one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

fn similarity(word: &str, candidate: &str) -> f64 {
    if candidate != word && candidate.split('-').any(|part| part == word) {
        return 0.95;
    }
    let distance = strsim::osa_distance(word, candidate);
    // Jaro and Winkler find a short word near a long one that begins alike.
    if distance * 5 > 3 * word.chars().count().max(candidate.chars().count()) {
        return 0.0;
    }
    let slip = candidate.len() > 2 && distance == 1;
    strsim::jaro_winkler(word, candidate).max(if slip { 0.8 } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_part_of_a_longer_name_is_nearer_than_a_name_that_ends_alike() {
        let flows = ["videoserver", "filebench-fileserver"];
        assert_eq!(nearest("fileserver", flows), Some("filebench-fileserver"));
        assert_eq!(nearest("vidoserver", flows), Some("videoserver"));
        assert_eq!(nearest("bench", flows), None);
    }
}
