//! The results that a user can look at: the user's own and, beside them, those that root has measured on this
//! machine.

use super::{Surroundings, not_found};
use crate::exit::{Status, Trouble};
use crate::say;
use anyhow::anyhow;
use fsdyno_core::sweep_name::{LATEST, ROOTS_PREFIX};
use fsdyno_store::{DamagedTrial, Origin, Store, StoreError, Sweep, SweepState, SweepSummary, select};
use jiff::Timestamp;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Stores to read, the user's own first.
pub struct Shelves {
    stores: Vec<Store>,
    /// `true` once a message has said that a newer sweep is not the latest.
    names_newer: Cell<bool>,
    /// The number of sweeps that cannot be read, once a message has said so.
    damaged: Cell<Option<usize>>,
    /// The sweeps that a message has called unfinished.
    unfinished: RefCell<BTreeSet<String>>,
}

/// A sweep of which every trial was read.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// The sweep.
    #[serde(flatten)]
    pub sweep: SweepSummary,
    /// Its trials that cannot be read.
    pub damaged: Vec<DamagedTrial>,
}

impl Surroundings {
    /// Opens the results that this user can see. Nothing is created.
    pub fn results(&self) -> Result<Shelves, Trouble> {
        if !self.store.exists() {
            if self.store != self.state.store() {
                let error = anyhow!("there are no results in '{}'", self.store.display());
                return Err(Trouble::new(Status::Usage, error).hint(
                    "--store names a file that `fsdyno bench` or `fsdyno sweep` has made with this option",
                ));
            }
            if let Some(hint) = self.state.elsewhere_hint() {
                say::note(&format!("hint: {hint}"));
            }
        }
        let own = Store::open_to_read(&self.store)?;
        self.tell_of_upgrade(&own);
        let mut stores = vec![own];
        if let Some(path) = self.roots_store.as_ref().filter(|path| path.exists()) {
            match Store::open_to_read(path) {
                Ok(store) => stores.push(store.with_prefix(ROOTS_PREFIX)),
                Err(error) => say::note(&format!("note: {:#}", anyhow::Error::from(error))),
            }
        }
        Ok(Shelves {
            stores,
            names_newer: Cell::new(false),
            damaged: Cell::new(None),
            unfinished: RefCell::default(),
        })
    }
}

impl Shelves {
    /// All sweeps, oldest first, except those that cannot be read, which a message names.
    pub fn sweeps(&self) -> Result<Vec<SweepSummary>, StoreError> {
        self.each_sweep(|_, sweep| Ok(sweep))
    }

    /// The same with their trials that cannot be read. Reads the whole of every file.
    pub fn checked(&self) -> Result<Vec<Checked>, StoreError> {
        self.stores.iter().try_for_each(Store::check_file)?;
        self.each_sweep(|store, sweep| Ok(Checked { damaged: store.damaged_trials(sweep.id)?, sweep }))
    }

    /// Returns whether a message has reported sweeps that cannot be read.
    pub fn has_damaged_sweeps(&self) -> bool {
        self.damaged.get().is_some_and(|count| count > 0)
    }

    fn each_sweep<T>(
        &self,
        of: impl Fn(&Store, SweepSummary) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for store in &self.stores {
            let sweeps = store.all_sweeps()?;
            unreadable.extend(sweeps.damaged);
            // In a store, a later one never comes before an earlier one, even if a clock was set back.
            let mut began = None;
            for sweep in sweeps.readable {
                began = began.max(sweep.started.parse::<Timestamp>().ok());
                found.push((began, of(store, sweep)?));
            }
        }
        // Nobody should think that they are gone.
        if self.damaged.replace(Some(unreadable.len())).is_none() {
            for (_, error) in unreadable {
                say::note(&format!("warning: {}", Trouble::from(error).text()));
            }
        }
        found.sort_by_key(|(began, _)| *began);
        Ok(found.into_iter().map(|(_, of)| of).collect())
    }

    /// The sweep that a user selects, and the store that has it.
    pub fn find(&self, selector: Option<&str>) -> Result<(&Store, Sweep), StoreError> {
        let sweeps = self.sweeps()?;
        let found = select(&sweeps, selector)?;
        if selector.is_none_or(|selector| selector.trim() == LATEST) {
            self.tell_of_newer(&sweeps, found);
        }
        for store in &self.stores {
            match store.sweep(found.id) {
                Ok(sweep) if sweep.summary.selector == found.selector => return Ok((store, sweep)),
                Ok(_) | Err(StoreError::UnknownSweep { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::UnknownSweep { selector: found.selector.clone(), nearest: None })
    }

    /// Nobody should take a part of a sweep for the whole of it.
    pub fn tell_of_unfinished(&self, sweep: &SweepSummary) {
        let SweepSummary { selector, name, .. } = sweep;
        let is_part = sweep.done() < sweep.trials;
        let end = match sweep.state {
            SweepState::Running => format!("{}; fsdyno watch {selector} follows it", sweep.end()),
            SweepState::Interrupted => {
                format!("{}; fsdyno sweep PLAN --resume {selector} continues it", sweep.end())
            }
            SweepState::Finished if is_part => {
                let next = match sweep.origin {
                    Origin::Run => format!("; fsdyno sweep PLAN --resume {selector} measures the others"),
                    Origin::Import | Origin::Pack => String::new(),
                };
                format!("has only {} of {} trials{next}", sweep.done(), sweep.trials)
            }
            SweepState::Finished => return,
        };
        if self.unfinished.borrow_mut().insert(selector.clone()) {
            say::note(&format!("note: sweep {selector} ('{name}') {end}"));
        }
    }

    /// Nobody should take the results of an earlier sweep for those of the last one.
    fn tell_of_newer(&self, sweeps: &[SweepSummary], found: &SweepSummary) {
        let Some(last) = sweeps.last().filter(|last| last.selector != found.selector) else { return };
        if !self.names_newer.replace(true) {
            let SweepSummary { selector, name, .. } = last;
            say::note(&format!(
                "note: sweep {selector} ('{name}') is newer, but {}; the latest one with results is sweep {} \
                 ('{}')",
                last.end(),
                found.selector,
                found.name
            ));
        }
    }
}

/// The sweep that a user means, with the store that has it.
pub fn find<'a>(
    surroundings: &Surroundings,
    shelves: &'a Shelves,
    selector: Option<&str>,
) -> Result<(&'a Store, Sweep), Trouble> {
    shelves.find(selector).map_err(|error| not_found(surroundings, error))
}
