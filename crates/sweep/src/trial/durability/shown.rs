//! A disk after a cut, mounted for a person.

use super::place::Place;
use super::{Looking, PATIENCE, STEP_LIMIT, state_of};
use crate::plan::Case;
use crate::recorded;
use crate::trial::Stop;
use crate::trial::report::host_failure;
use fsdyno_core::durability::{CacheModel, Cut, RecorderReply, RecorderRequest};
use fsdyno_core::workload::{Durability, Workload};
use fsdyno_core::{Configuration, Failure};
use fsdyno_host::Host;
use fsdyno_testbed::{Confirmation, Testbed, UndoJournal};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Which disk to show.
#[derive(Debug, Clone)]
pub struct ShownState {
    /// The log that the trial has kept.
    pub log: PathBuf,
    /// What it built.
    pub configuration: Configuration,
    /// How it recorded and cut.
    pub parameters: Durability,
    /// Its seed.
    pub seed: u64,
    /// Number of the cut.
    pub cut: u32,
    /// The cache model.
    pub model: CacheModel,
    /// Number of the subset.
    pub subset: u32,
}

/// Mounts a disk as a trial found it after a cut, calls `look` with the directory, and takes everything down.
/// Returns what is left, one line each.
///
/// # Errors
/// What failed; everything has been taken down as far as possible. A disk that cannot be mounted is one.
pub fn show_state(
    host: &mut dyn Host,
    state_dir: &Path,
    shown: &ShownState,
    look: &mut dyn FnMut(&Path),
) -> Result<Vec<String>, Box<Failure>> {
    let parent = shown.log.parent().unwrap_or(&shown.log);
    let place = Place::make(host, parent, state_dir)?;
    let seen = see(host, state_dir, &place, shown, look);
    let mut left = place.leave(host, None);
    let mut taken_down = seen.map_err(|mut failure| {
        failure.details = left.join("\n");
        failure
    })?;
    taken_down.append(&mut left);
    Ok(taken_down)
}

fn see(
    host: &mut dyn Host,
    state_dir: &Path,
    place: &Place,
    shown: &ShownState,
    look: &mut dyn FnMut(&Path),
) -> Result<Vec<String>, Box<Failure>> {
    let failed = |error: &fsdyno_host::HostError| host_failure(error);
    place.take_log(&shown.log)?;
    let mut recorder = host.start_recorder().map_err(|error| failed(&error))?;
    let parameters = &shown.parameters;
    let begin = RecorderRequest::Begin {
        directory: place.log().to_path_buf(),
        mountpoint: place.mountpoint().to_path_buf(),
        size: Some(parameters.size),
    };
    recorder.ask(&begin, PATIENCE).map_err(|error| failed(&error))?;
    let cuts = RecorderRequest::Cuts { count: parameters.cuts, seed: shown.seed };
    let RecorderReply::Cuts { cuts } = recorder.ask(&cuts, PATIENCE).map_err(|error| failed(&error))? else {
        return Err(Failure::new("record", "the recorder gave another reply than was asked for").into());
    };
    let none = || Failure::new("record", "the log has no such cut");
    let cut: Cut = cuts.get(shown.cut as usize).copied().ok_or_else(none)?;
    let state = state_of(parameters, shown.seed, &cut, shown.cut, shown.model, shown.subset);
    recorder.ask(&RecorderRequest::State(state), PATIENCE).map_err(|error| failed(&error))?;
    let devices = recorded::devices(place.mountpoint(), parameters.size);
    let testbed = Testbed::verify(host, &devices, &[], parameters.size, &Confirmation::default())
        .map_err(|error| error.failure())?;
    let case = Case {
        index: 0,
        configuration: shown.configuration.clone(),
        workload: Workload::Durability(parameters.clone()),
        warnings: Vec::new(),
        contradictions: Vec::new(),
        impossible: Vec::new(),
    };
    let never = AtomicBool::new(false);
    let mut looking = Looking {
        journal: UndoJournal::create(host, state_dir).map_err(|error| error.failure())?,
        seed: shown.seed,
        case: &case,
        parameters,
        place,
        testbed: &testbed,
        interrupt: &never,
        host,
    };
    looking.host.limit_steps(Some(STEP_LIMIT));
    let mounted = looking.mount();
    looking.host.limit_steps(None);
    let result = match mounted {
        Ok(Ok(mounted)) => {
            look(mounted.directory());
            Ok(())
        }
        Ok(Err(reason)) => Err(Failure::new("mount", format!("it cannot be mounted: {reason}")).into()),
        Err(Stop::Failed(failure) | Stop::Hung(failure, _) | Stop::NoRoom(failure)) => Err(failure),
        Err(Stop::Skipped(unmet)) => Err(Failure::new("mount", unmet.join("; ")).into()),
        Err(Stop::Interrupted) => Err(Failure::new("mount", "interrupted").into()),
    };
    let mut left = looking.take_down();
    left.extend(looking.journal.close().err().map(|error| error.failure().message));
    // It unmounts itself.
    drop(recorder);
    result.map(|()| left)
}
