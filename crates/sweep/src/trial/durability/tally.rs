//! The findings on all states, added up.

use fsdyno_core::Nanos;
use fsdyno_core::durability::{CacheModel, Cut, Mark, Moment, Promise};
use fsdyno_core::result::{
    AgeBin, Durability, LogSummary, LosingState, ModelResult, PromiseResult, Spread, UnsyncedResult,
    Verified, VerifiedUnsynced,
};
use fsdyno_core::workload;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of listed states that lost something.
const LISTED: usize = 64;
/// The maximum number of lines that are kept of each.
const LINES: usize = 3;

/// The findings on a disk.
#[derive(Debug)]
pub(super) enum DiskFindings {
    /// The kernel refused to mount it.
    NotMounted {
        /// The reason that the kernel gave.
        reason: String,
    },
    /// A step on it did not return.
    Hung,
    /// It was mounted, verified, unmounted and checked.
    Looked {
        recovery: Nanos,
        /// `true` if nobody else looked at a disk meanwhile.
        alone: bool,
        verified: Verified,
        /// The verdict of the check, if the filesystem has one.
        clean: Option<bool>,
    },
}

/// The states so far.
pub(super) struct Tally<'a> {
    log: LogSummary,
    marks: &'a [Mark],
    cuts: u32,
    /// From this number of marks on, nothing was synced any more. What is lost of unsynced work counts
    /// only then: before, it was synced along with what others did.
    quiet_from: u64,
    models: Vec<ModelTally>,
    losing: Vec<LosingState>,
}

#[derive(Default)]
struct ModelTally {
    model: Option<CacheModel>,
    states: u32,
    mounted: u32,
    hung: u32,
    mount_errors: BTreeMap<String, u32>,
    checked: u32,
    damaged: u32,
    recovery: Vec<u64>,
    /// While another disk was looked at: that takes longer, and counts if there is nothing else.
    recovery_beside: Vec<u64>,
    promises: BTreeMap<Promise, PromiseTally>,
    files: UnsyncedTally,
    names: UnsyncedTally,
    survival: BTreeMap<Nanos, (u64, u64)>,
}

#[derive(Default)]
struct PromiseTally {
    made: u64,
    lost: u64,
    wrong: fsdyno_core::result::WrongInside,
    states: u32,
    losing: u32,
    lost_once: BTreeSet<u64>,
}

#[derive(Default)]
struct UnsyncedTally {
    lost: Vec<u64>,
    lost_ns: Vec<u64>,
    lost_bytes: Vec<u64>,
    wrong: fsdyno_core::result::WrongInside,
}

impl<'a> Tally<'a> {
    pub fn new(log: LogSummary, marks: &'a [Mark], parameters: &workload::Durability) -> Self {
        let of = |model: &CacheModel| ModelTally { model: Some(*model), ..ModelTally::default() };
        let promised = marks.iter().rposition(|mark| mark.promise.is_some());
        let quiet_from = promised.map_or(0, |last| last as u64 + 1);
        Tally {
            log,
            marks,
            quiet_from: if parameters.unsynced > Nanos(0) { quiet_from } else { 0 },
            cuts: parameters.cuts,
            models: parameters.models.iter().map(of).collect(),
            losing: Vec::new(),
        }
    }

    pub fn add(&mut self, number: u32, model: CacheModel, subset: u32, cut: &Cut, found: DiskFindings) {
        let marks = &self.marks[..self.marks.len().min(cut.marks as usize)];
        let Some(tally) = self.models.iter_mut().find(|tally| tally.model == Some(model)) else { return };
        let said = tally.add(marks, found, cut.marks > self.quiet_from);
        if !said.is_empty() && self.losing.len() < LISTED {
            self.losing.push(LosingState { cut: number, model, subset, found: said });
        }
    }

    pub fn result(self) -> Durability {
        let models = self.models.into_iter().filter_map(ModelTally::result).collect();
        Durability { log: self.log, cuts: self.cuts, models, losing: self.losing }
    }
}

impl ModelTally {
    /// Adds a state; returns what it has lost, for a person.
    fn add(&mut self, marks: &[Mark], found: DiskFindings, is_quiet: bool) -> Vec<String> {
        self.states += 1;
        match found {
            DiskFindings::NotMounted { reason } => {
                self.add_lost(marks);
                *self.mount_errors.entry(reason.clone()).or_default() += 1;
                vec![format!("it could not be mounted: {reason}")]
            }
            DiskFindings::Hung => {
                self.hung += 1;
                self.add_lost(marks);
                vec!["it hung".to_string()]
            }
            DiskFindings::Looked { recovery, alone, verified, clean } => {
                self.mounted += 1;
                match alone {
                    true => self.recovery.push(recovery.0),
                    false => self.recovery_beside.push(recovery.0),
                }
                self.checked += u32::from(clean.is_some());
                self.damaged += u32::from(clean == Some(false));
                let mut said = verified.found.clone();
                said.truncate(LINES);
                if clean == Some(false) {
                    said.truncate(LINES - 1);
                    said.push("the check found it damaged".to_string());
                }
                self.add_verified(&verified);
                if is_quiet {
                    self.add_unsynced(&verified);
                }
                said
            }
        }
    }

    /// Nothing of what was acknowledged can be read.
    fn add_lost(&mut self, marks: &[Mark]) {
        for (promise, numbers) in acknowledged(marks) {
            let lost: Vec<u64> = numbers.into_iter().collect();
            self.promises.entry(promise).or_default().add(lost.len() as u64, &lost);
        }
    }

    fn add_verified(&mut self, verified: &Verified) {
        for one in &verified.promises {
            let tally = self.promises.entry(one.promise).or_default();
            tally.add(one.made, &one.lost);
            tally.wrong = tally.wrong.plus(&one.wrong);
        }
        self.files.wrong = self.files.wrong.plus(&verified.files.wrong);
    }

    fn add_unsynced(&mut self, verified: &Verified) {
        self.files.add(&verified.files);
        self.names.add(&verified.names);
        for bin in &verified.survival {
            let (made, survived) = self.survival.entry(bin.up_to_ns).or_default();
            *made += bin.made;
            *survived += bin.survived;
        }
    }

    fn result(self) -> Option<ModelResult> {
        let promises = self.promises.into_iter().filter(|(_, tally)| tally.states > 0);
        let promises = promises.map(|(promise, tally)| PromiseResult {
            promise,
            made: tally.made,
            lost: tally.lost,
            wrong: tally.wrong,
            states: tally.states,
            losing: tally.losing,
            lost_once: tally.lost_once.len() as u64,
        });
        let bin = |(up_to_ns, (made, survived))| AgeBin { up_to_ns, made, survived };
        Some(ModelResult {
            model: self.model?,
            states: self.states,
            mounted: self.mounted,
            hung: self.hung,
            mount_errors: self.mount_errors.into_iter().collect(),
            checked: self.checked,
            damaged: self.damaged,
            recovery_ns: Spread::of(if self.recovery.is_empty() {
                self.recovery_beside
            } else {
                self.recovery
            }),
            promises: promises.collect(),
            unsynced_files: self.files.result(),
            unsynced_names: self.names.result(),
            survival: self.survival.into_iter().map(bin).collect(),
        })
    }
}

impl PromiseTally {
    fn add(&mut self, made: u64, lost: &[u64]) {
        self.made += made;
        self.lost += lost.len() as u64;
        self.states += u32::from(made > 0);
        self.losing += u32::from(!lost.is_empty());
        self.lost_once.extend(lost);
    }
}

impl UnsyncedTally {
    fn add(&mut self, one: &VerifiedUnsynced) {
        if one.made > 0 {
            self.lost.push(one.lost);
            self.lost_ns.push(one.lost_ns.0);
            self.lost_bytes.push(one.lost_bytes);
        }
    }

    fn result(self) -> UnsyncedResult {
        UnsyncedResult {
            states: u32::try_from(self.lost.len()).unwrap_or(u32::MAX),
            lost: Spread::of(self.lost),
            lost_ns: Spread::of(self.lost_ns),
            lost_bytes: Spread::of(self.lost_bytes),
            wrong: self.wrong,
        }
    }
}

/// The promises that somebody may rely on, by their numbers.
fn acknowledged(marks: &[Mark]) -> BTreeMap<Promise, BTreeSet<u64>> {
    let mut found: BTreeMap<Promise, BTreeSet<u64>> = BTreeMap::new();
    for mark in marks.iter().filter(|mark| mark.moment == Moment::Acknowledged) {
        if let Some(promise) = mark.promise {
            found.entry(promise).or_default().insert(mark.number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::result::{VerifiedPromise, WrongInside};

    fn mark(promise: Promise, number: u64, moment: Moment) -> Mark {
        Mark { promise: Some(promise), number, moment, time_ns: Nanos(number) }
    }

    #[test]
    fn what_cannot_be_mounted_has_lost_everything_that_was_acknowledged_before_the_cut() {
        let marks = [
            mark(Promise::Append, 0, Moment::Begun),
            mark(Promise::Append, 0, Moment::Acknowledged),
            mark(Promise::Append, 1, Moment::Begun),
            mark(Promise::Append, 1, Moment::Acknowledged),
        ];
        let parameters = workload::Durability::default();
        let mut tally = Tally::new(LogSummary::default(), &marks, &parameters);
        let cut = Cut { at: 9, marks: 3, time_ns: Nanos(9) };
        let found = || DiskFindings::NotMounted { reason: "bad superblock".to_string() };
        tally.add(0, CacheModel::Flushed, 0, &cut, found());
        tally.add(1, CacheModel::Flushed, 0, &Cut { marks: 4, ..cut }, found());
        let result = tally.result();
        let flushed = result.models.iter().find(|one| one.model == CacheModel::Flushed).unwrap();
        assert_eq!((flushed.states, flushed.mounted), (2, 0));
        assert_eq!(flushed.mount_errors, [("bad superblock".to_string(), 2)]);
        let append = &flushed.promises[0];
        assert_eq!((append.made, append.lost, append.states, append.losing), (3, 3, 2, 2));
        assert_eq!(append.lost_once, 2);
        assert_eq!(flushed.acknowledged(), (3, 3));
        assert_eq!(result.losing.len(), 2);
    }

    #[test]
    fn states_that_were_looked_at_add_up() {
        let parameters = workload::Durability::default();
        let mut tally = Tally::new(LogSummary::default(), &[], &parameters);
        let cut = Cut { at: 9, marks: 1, time_ns: Nanos(9) };
        for (recovery, lost, clean) in [(10, vec![], true), (30, vec![4, 5], false)] {
            let verified = Verified {
                promises: vec![VerifiedPromise {
                    promise: Promise::Create,
                    made: 7,
                    lost,
                    wrong: WrongInside { zeros: 1, ..WrongInside::default() },
                }],
                files: VerifiedUnsynced { made: 3, lost: 2, lost_ns: Nanos(recovery), ..Default::default() },
                survival: vec![AgeBin { up_to_ns: Nanos(8), made: 3, survived: 1 }],
                ..Verified::default()
            };
            let found =
                DiskFindings::Looked { recovery: Nanos(recovery), alone: true, verified, clean: Some(clean) };
            tally.add(0, CacheModel::Subset, 0, &cut, found);
        }
        let result = tally.result();
        let subset = result.models.iter().find(|one| one.model == CacheModel::Subset).unwrap();
        assert_eq!((subset.mounted, subset.checked, subset.damaged), (2, 2, 1));
        assert_eq!(subset.recovery_ns, Spread { p50: 10, max: 30 });
        let create = &subset.promises[0];
        assert_eq!((create.made, create.lost, create.losing, create.wrong.zeros), (14, 2, 1, 2));
        assert_eq!(subset.unsynced_files.lost_ns, Spread { p50: 10, max: 30 });
        assert_eq!(subset.unsynced_names.states, 0);
        assert_eq!(subset.survival, [AgeBin { up_to_ns: Nanos(8), made: 6, survived: 2 }]);
        assert_eq!(result.losing.len(), 1);
    }
}
