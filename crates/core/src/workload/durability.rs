//! Parameters of `durability`, which measures what a power cut loses.

use super::io_errors::{LEAST_DISK, no_two_are_equal};
use super::measures::{LossFigure, OwnFigure, OwnMeasure};
use super::parameter::{Refusal, parameters, words};
use super::{Load, Need, Timing, Workload};
use crate::units::{Bytes, Nanos};

/// Files of each promise are at most this large.
const FILE_MAX: Bytes = Bytes(128 * Bytes::KIB);
/// A piece of work that nothing syncs has this many bytes, or is a directory.
const UNSYNCED_BYTES: Bytes = Bytes(16 * Bytes::KIB);
/// Assumed time to mount, verify, unmount and check a small disk.
const ASSUMED_LOOK: Nanos = Nanos::from_millis(100);
const MAX_PROMISES: u32 = 10_000;
const MAX_CUTS: u32 = 100_000;
const LONGEST: Nanos = Nanos::from_secs(3600);

words! {
    /// Which of the writes that were completed before a cut are on stable storage after it.
    #[derive(PartialOrd, Ord, Hash)]
    CacheModel, "cache model" {
        /// All of them: the kernel crashed, or the drive has power-loss protection.
        Completed = "completed",
        /// Those that a flush has covered.
        Flushed = "flushed",
        /// Those that a flush has covered, and a random subset of the others, possibly torn.
        Subset = "subset",
        /// All but a random subset of the most recent ones: a drive with a small volatile cache.
        Window = "window",
    }
}

impl CacheModel {
    /// All of them, in the order of tables.
    pub const ALL: [CacheModel; 4] =
        [CacheModel::Completed, CacheModel::Flushed, CacheModel::Subset, CacheModel::Window];

    /// One line for readers.
    pub const fn description(self) -> &'static str {
        match self {
            CacheModel::Completed => {
                "every completed write survives: a kernel crash, or power-loss protection"
            }
            CacheModel::Flushed => "only what was flushed survives: a volatile cache that is lost as a whole",
            CacheModel::Subset => {
                "what was flushed survives, and a random subset of the rest, reordered and possibly torn"
            }
            CacheModel::Window => "only the most recent writes may be lost: a small volatile cache",
        }
    }
}

parameters! {
    /// Promises of system calls, made on a disk that records every write; power cuts at places in the record;
    /// a look at what each has left. Sizes in bytes, times in nanoseconds.
    Durability {
        promises: u32 = 60, "how many promises of each kind are made, spread over `duration`";
        duration: Nanos = Nanos::from_secs(4), "how long promises are made, alongside work that nothing \
            syncs";
        unsynced: Nanos = Nanos::from_secs(12), "how long work goes on afterwards that nothing syncs, to see \
            how much of it is lost; longer than the commit interval of the filesystem";
        cuts: u32 = 60, "places at which power is cut: a third at random times, a third just after \
            acknowledgements, a third at flushes";
        models: Vec<CacheModel> = CacheModel::ALL.to_vec(), "which writes survive a cut, each in states of \
            its own: `completed`, `flushed`, `subset`, `window`";
        subsets: u32 = 1, "states per cut of the models `subset` and `window`, each with a random subset of \
            its own";
        atom: Bytes = Bytes(4 * Bytes::KIB), "the unit in which the device writes as a whole, in the models \
            `subset` and `window`: `512` or `4k`";
        volatile: Bytes = Bytes(8 * Bytes::MIB), "the most recent writes that the model `window` may lose";
        size: Bytes = Bytes(512 * Bytes::MIB), "size of the recorded disk; of an array, a volume or a pool, \
            about what it holds";
        degraded: bool = false, "whether a disk of the md array is lost along with power, another one in \
            each state: what is left is forced to start";
        keep_log: bool = false, "whether the recorded log is kept, so that `fsdyno durability --show` can \
            show any of its states";
    }
}

impl Durability {
    /// Returns the number of states that are looked at, over all models.
    pub fn states(&self) -> u64 {
        let per_cut = self.models.iter().map(|model| u64::from(self.subsets_of(*model)));
        per_cut.sum::<u64>() * u64::from(self.cuts)
    }

    /// Returns the number of states of a model that are looked at per cut.
    pub const fn subsets_of(&self, model: CacheModel) -> u32 {
        match model {
            CacheModel::Completed | CacheModel::Flushed => 1,
            CacheModel::Subset | CacheModel::Window => self.subsets,
        }
    }
}

impl Workload {
    /// Returns whether the workload runs on recorded disks of fsdyno's own instead of the plan's devices.
    pub const fn is_recorded(&self) -> bool {
        matches!(self, Workload::Durability(_) | Workload::IoErrors(_))
    }
}

impl Load for Durability {
    fn check(&self) -> Result<(), Refusal> {
        let count = |most: u32| format!("a whole number from 1 to {most}");
        Refusal::unless((1..=MAX_PROMISES).contains(&self.promises), "promises", count(MAX_PROMISES))?;
        Refusal::unless((1..=MAX_CUTS).contains(&self.cuts), "cuts", count(MAX_CUTS))?;
        Refusal::unless((1..=1000).contains(&self.subsets), "subsets", count(1000))?;
        for (parameter, time) in [("duration", self.duration), ("unsynced", self.unsynced)] {
            Refusal::unless(time <= LONGEST, parameter, format!("at most {LONGEST}"))?;
        }
        Refusal::unless(self.duration > Nanos(0), "duration", "greater than zero")?;
        Refusal::unless(!self.models.is_empty(), "models", "a list of cache models that is not empty")?;
        Refusal::unless(no_two_are_equal(&self.models), "models", "each cache model once")?;
        Refusal::unless([Bytes(512), Bytes(4096)].contains(&self.atom), "atom", "`512` or `4k`")?;
        let whole = self.size.0.is_multiple_of(4096);
        let expected = format!("at least {LEAST_DISK}, in whole blocks of 4k");
        Refusal::unless(whole && self.size >= LEAST_DISK, "size", expected)
    }

    fn without_effect(&self) -> Vec<(&'static [&'static str], &'static str)> {
        let has = |models: &[CacheModel]| models.iter().any(|model| self.models.contains(model));
        super::unmet_needs([
            (
                has(&[CacheModel::Subset, CacheModel::Window]),
                &["subsets", "atom"][..],
                "the model \"subset\" or \"window\"",
            ),
            (has(&[CacheModel::Window]), &["volatile"], "the model \"window\""),
        ])
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    fn writes(&self) -> Bytes {
        let files = u64::from(self.promises) * 16;
        let unsynced = (self.unsynced.0.saturating_add(self.duration.0)) / 10_000_000 * UNSYNCED_BYTES.0;
        Bytes(files.saturating_mul(FILE_MAX.0 / 4).saturating_add(unsynced))
    }

    fn timing(&self) -> Timing {
        Timing {
            windows: 1,
            window: Nanos(self.duration.0.saturating_add(self.unsynced.0)),
            ..Timing::default()
        }
    }

    fn follows(&self) -> Nanos {
        Nanos(self.states().saturating_mul(ASSUMED_LOOK.0))
    }

    fn title(&self) -> String {
        format!(
            "durability, {} of each promise, {} at {}{}",
            self.promises,
            super::plural(u32::try_from(self.states()).unwrap_or(u32::MAX), "state"),
            super::plural(self.cuts, "cut"),
            if self.degraded { ", a disk lost" } else { "" }
        )
    }

    /// Its findings are about what is left of its promises.
    fn short_runs(&self) -> &'static [&'static str] {
        &[]
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Recorder]
    }

    fn default_measure(&self) -> &'static str {
        "acknowledged-lost"
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::new(
                "acknowledged-lost",
                "share of acknowledged promises that a power cut loses, of those that the standard makes, \
                 under the cache model that loses the most",
                OwnFigure::Durability(LossFigure::Acknowledged),
            )
            .in_words("acknowledged promises lost"),
            OwnMeasure::new(
                "unsynced-lost",
                "how far back a power cut loses work that nothing has synced, median over the states of \
                 the cache model that loses the most",
                OwnFigure::Durability(LossFigure::Unsynced),
            )
            .in_words("unsynced work lost"),
            OwnMeasure::new(
                "recovery-time",
                "time to mount after a power cut, median over the states of the slowest cache model",
                OwnFigure::Durability(LossFigure::Recovery),
            )
            .in_words("time to mount after a power cut"),
        ]
    }

    fn throughput(&self) -> &'static str {
        "acknowledged-lost"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_from_cuts_models_and_subsets() {
        let durability = Durability { cuts: 10, subsets: 3, ..Durability::default() };
        assert_eq!(durability.states(), 10 * (1 + 1 + 3 + 3));
        let one = Durability { models: vec![CacheModel::Flushed], ..durability };
        assert_eq!(one.states(), 10);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Durability| parameters.check().unwrap_err().parameter;
        let good = Durability::default;
        assert_eq!(refused(Durability { promises: 0, ..good() }), "promises");
        assert_eq!(refused(Durability { cuts: 0, ..good() }), "cuts");
        assert_eq!(refused(Durability { subsets: 0, ..good() }), "subsets");
        assert_eq!(refused(Durability { models: vec![], ..good() }), "models");
        assert_eq!(refused(Durability { atom: Bytes(1024), ..good() }), "atom");
        assert_eq!(refused(Durability { size: Bytes(Bytes::MIB), ..good() }), "size");
        assert_eq!(refused(Durability { duration: Nanos(0), ..good() }), "duration");
    }
}
