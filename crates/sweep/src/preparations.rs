//! Filesystems that are prepared once, and copied for every trial that begins with the same.

use crate::order::Slot;
use crate::plan::Case;
use fsdyno_core::result::{Filled, TimerFacts, TreeSummary};
use fsdyno_core::{Reached, Warning};
use fsdyno_host::Host;
use fsdyno_testbed::{Prepared, Testbed, TestbedError, UndoJournal};
use std::path::Path;

/// Those that a later trial begins with, as far as it is planned, and the journal of their images.
#[derive(Debug)]
pub(crate) struct Preparations {
    journal: UndoJournal,
    all: Vec<Preparation>,
}

/// One of them.
#[derive(Debug)]
struct Preparation {
    prepared: Prepared,
    case: Case,
    seed: u64,
    /// The result of the preparation; `None` while it is in progress, and if it has failed.
    made: Option<Made>,
}

/// The report of a preparation, which belongs to the record of each trial that begins with a copy.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    /// The trial that prepared it.
    pub trial: u32,
    pub mkfs_command: String,
    pub timer: Option<TimerFacts>,
    pub trees: TreeSummary,
    pub filled: Option<Filled>,
    pub warnings: Vec<Warning>,
    /// The points that the writers of a verified load reached.
    pub reached: Vec<Reached>,
}

impl Preparation {
    fn serves(&self, case: &Case, seed: u64) -> bool {
        self.seed == seed
            && self.case.workload == case.workload
            && self.case.configuration.traces() == case.configuration.traces()
    }
}

impl Preparations {
    /// None yet; the journal is made in this directory.
    ///
    /// # Errors
    /// [`TestbedError::Journal`] if it cannot be written.
    pub fn new(host: &mut dyn Host, directory: &Path) -> Result<Self, TestbedError> {
        Ok(Preparations { journal: UndoJournal::create(host, directory)?, all: Vec::new() })
    }

    /// Returns the preparation that a trial begins with, if it is ready.
    pub fn ready(&self, case: &Case, slot: &Slot) -> Option<(&Prepared, &Made)> {
        let found = self.all.iter().find(|one| one.serves(case, slot.seed))?;
        Some((&found.prepared, found.made.as_ref()?))
    }

    /// Creates images that a filesystem is going to be prepared on.
    ///
    /// # Errors
    /// Those of [`Prepared::create`].
    pub fn begin(
        &mut self,
        host: &mut dyn Host,
        testbed: &Testbed,
        case: &Case,
        slot: &Slot,
    ) -> Result<&Prepared, TestbedError> {
        let prepared = Prepared::create(host, &mut self.journal, testbed, &case.configuration, slot.seed)?;
        self.all.push(Preparation { prepared, case: case.clone(), seed: slot.seed, made: None });
        Ok(&self.all[self.all.len() - 1].prepared)
    }

    /// The one that was begun last is ready.
    ///
    /// # Errors
    /// [`TestbedError::Host`] if its images cannot be closed.
    pub fn finish(&mut self, host: &mut dyn Host, made: Made) -> Result<(), TestbedError> {
        if let Some(last) = self.all.last_mut() {
            last.prepared.complete(host, &mut self.journal)?;
            last.made = Some(made);
        }
        Ok(())
    }

    /// Removes those that no trial of these needs, what could not be prepared, and what somebody else has
    /// changed. Returns what is left, one line each.
    pub fn keep_for(&mut self, host: &mut dyn Host, slots: &[Slot], cases: &[Case]) -> Vec<String> {
        let is_needed = |one: &Preparation| {
            let needs =
                |slot: &Slot| cases.get(slot.case as usize).is_some_and(|case| one.serves(case, slot.seed));
            one.made.is_some() && one.prepared.is_unchanged() && slots.iter().any(needs)
        };
        let (kept, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.all).into_iter().partition(is_needed);
        self.all = kept;
        others.into_iter().flat_map(|other| other.prepared.remove(host, &mut self.journal)).collect()
    }

    /// The journal, which still has to be undone.
    pub fn into_journal(self) -> UndoJournal {
        self.journal
    }
}
