//! The data that survived power cuts.

use crate::durability::{CacheModel, LogSummary, Promise, PromiseBasis};
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// The findings on one filesystem after power cuts at places in one log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Durability {
    /// The summary of the recorded log.
    pub log: LogSummary,
    /// The number of places at which the log was cut; each cache model has at least one state per cut.
    pub cuts: u32,
    /// One result per cache model.
    pub models: Vec<ModelResult>,
    /// The first states in which something was lost or wrong, in the order of the cuts.
    pub losing: Vec<LosingState>,
}

/// The findings under one cache model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResult {
    /// Which writes survived.
    pub model: CacheModel,
    /// Disks that were looked at.
    pub states: u32,
    /// Those that could be mounted.
    pub mounted: u32,
    /// Those of which the mount did not return in time, or crashed.
    pub hung: u32,
    /// Why the others could not be mounted, each reason with its number of states.
    pub mount_errors: Vec<(String, u32)>,
    /// States that were checked after the mount.
    pub checked: u32,
    /// Those that the check found damaged.
    pub damaged: u32,
    /// The time to mount, recovery included.
    pub recovery_ns: Spread,
    /// The outcome of each promise, for those that were made.
    pub promises: Vec<PromiseResult>,
    /// The loss of work that nothing synced: files with content.
    pub unsynced_files: UnsyncedResult,
    /// The same for directories, of which only the name can be lost.
    pub unsynced_names: UnsyncedResult,
    /// The survival of that work, by its age at the cut; files and directories together.
    pub survival: Vec<AgeBin>,
}

impl ModelResult {
    /// Returns the number of acknowledged promises that the standard makes, and the number of them that were
    /// lost.
    pub fn acknowledged(&self) -> (u64, u64) {
        let standard = self.promises.iter().filter(|one| one.promise.source() == PromiseBasis::Standard);
        standard.fold((0, 0), |(made, lost): (u64, u64), one| {
            (made.saturating_add(one.made), lost.saturating_add(one.lost))
        })
    }
}

/// The middle and the end of a distribution over states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub p50: u64,
    /// Maximum.
    pub max: u64,
}

impl Spread {
    /// The larger median, and the larger maximum.
    pub fn worst(self, other: Spread) -> Spread {
        Spread { p50: self.p50.max(other.p50), max: self.max.max(other.max) }
    }

    /// The spread of some values; zeros of none. The median of an even number is the lower one of the middle.
    pub fn of(mut values: Vec<u64>) -> Spread {
        values.sort_unstable();
        let middle = values.len().saturating_sub(1) / 2;
        Spread { p50: values.get(middle).copied().unwrap_or(0), max: values.last().copied().unwrap_or(0) }
    }
}

/// The outcome of one promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromiseResult {
    /// Which.
    pub promise: Promise,
    /// The number of promises of this kind that were acknowledged before the cuts, summed over all states.
    pub made: u64,
    /// The number of those that were not kept. All of them where the filesystem could not be mounted.
    pub lost: u64,
    /// Files that contain what they must not.
    pub wrong: WrongInside,
    /// States in which at least one was acknowledged.
    pub states: u32,
    /// States in which at least one was not kept.
    pub losing: u32,
    /// The number of different ones that were lost in some state, of all that were made in this log.
    pub lost_once: u64,
}

/// Files by what they wrongly contain; a file may count for several. A file that is too short is lost, not
/// wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongInside {
    /// Zeros in place of data.
    pub zeros: u64,
    /// Bytes that no worker has ever written.
    pub garbage: u64,
    /// Data of an earlier version than was acknowledged.
    pub old: u64,
    /// Data of another file.
    pub foreign: u64,
}

impl std::iter::Sum for WrongInside {
    fn sum<I: Iterator<Item = WrongInside>>(all: I) -> WrongInside {
        all.fold(WrongInside::default(), |sum, one| sum.plus(&one))
    }
}

impl WrongInside {
    /// All of them.
    pub const fn total(&self) -> u64 {
        let bytes = self.zeros.saturating_add(self.garbage);
        bytes.saturating_add(self.old).saturating_add(self.foreign)
    }

    /// Both together.
    #[must_use]
    pub const fn plus(&self, other: &WrongInside) -> WrongInside {
        WrongInside {
            zeros: self.zeros.saturating_add(other.zeros),
            garbage: self.garbage.saturating_add(other.garbage),
            old: self.old.saturating_add(other.old),
            foreign: self.foreign.saturating_add(other.foreign),
        }
    }
}

/// The loss of work that nothing synced, over the states in which there was some.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsyncedResult {
    /// States that were mounted and whose cut came when nothing was synced any more: before, such work
    /// was synced along with what others did.
    pub states: u32,
    /// The number of files or directories that were lost.
    pub lost: Spread,
    /// The age of the oldest that was lost: how far back in time work is missing.
    pub lost_ns: Spread,
    /// Bytes lost.
    pub lost_bytes: Spread,
    /// Files that contain what they must not. Zeros count here: an unsynced file may be absent or empty, but
    /// must not claim a length that it has no data for.
    pub wrong: WrongInside,
}

/// Work of similar age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgeBin {
    /// The upper end of the bin; the lower end is half of it, or 0 for the first.
    pub up_to_ns: Nanos,
    /// The number of files and directories of this age, over all states.
    pub made: u64,
    /// The number of them that were there after the cut.
    pub survived: u64,
}

/// A state in which something was lost or wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosingState {
    /// Number of the cut, from 0.
    pub cut: u32,
    /// Under which model.
    pub model: CacheModel,
    /// Which of the states of this cut and model, from 0.
    pub subset: u32,
    /// The findings, in at most three lines.
    pub found: Vec<String>,
}

/// The findings of a look at one filesystem after a cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The promises that were acknowledged before the cut.
    pub promises: Vec<VerifiedPromise>,
    /// Files that nothing synced.
    pub files: VerifiedUnsynced,
    /// Directories that nothing synced.
    pub names: VerifiedUnsynced,
    /// The survival of that work, by age.
    pub survival: Vec<AgeBin>,
    /// The first few things that were lost or wrong, one line each.
    pub found: Vec<String>,
}

/// One promise in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedPromise {
    /// Which.
    pub promise: Promise,
    /// The number of promises of this kind that were acknowledged before the cut.
    pub made: u64,
    /// The numbers of those that were not kept.
    pub lost: Vec<u64>,
    /// Files that contain what they must not.
    pub wrong: WrongInside,
}

/// Work that nothing synced, in one state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedUnsynced {
    /// The number of files or directories that were made before the cut.
    pub made: u64,
    /// The number of them that are gone, empty, short or wrong.
    pub lost: u64,
    /// From when the oldest of these was done to the cut.
    pub lost_ns: Nanos,
    /// Bytes in the lost ones.
    pub lost_bytes: u64,
    /// Files that contain what they must not.
    pub wrong: WrongInside,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_few_values() {
        assert_eq!(Spread::of(vec![]), Spread { p50: 0, max: 0 });
        assert_eq!(Spread::of(vec![7]), Spread { p50: 7, max: 7 });
        assert_eq!(Spread::of(vec![9, 1, 5]), Spread { p50: 5, max: 9 });
        assert_eq!(Spread::of(vec![4, 3, 2, 1]), Spread { p50: 2, max: 4 });
    }
}
