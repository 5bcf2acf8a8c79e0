//! A disk after a cut, mounted for a person.

use super::looking::Looking;
use super::place::LogPlace;
use super::site::DiskSite;
use super::work::state_of;
use super::{STEP_LIMIT, ask, cuts_of, start_recorder};
use crate::recorded::{Recorded, Shape};
use crate::trial::Stop;
use fsdyno_core::durability::{CacheModel, RecorderRequest};
use fsdyno_core::workload::{Durability, Load};
use fsdyno_core::{Configuration, DeviceSpec, Failure};
use fsdyno_host::Host;
use fsdyno_testbed::UndoJournal;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Which disk to show.
#[derive(Debug, Clone)]
pub struct ShownState {
    /// The log that the trial has kept.
    pub log: PathBuf,
    /// The configuration that the trial built.
    pub configuration: Configuration,
    /// The parameters with which it recorded and cut.
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
/// The failure; everything has been taken down as far as possible. A disk that cannot be mounted is one.
pub fn show_state(
    host: &mut dyn Host,
    state_dir: &Path,
    shown: &ShownState,
    look: &mut dyn FnMut(&Path),
) -> Result<Vec<String>, Box<Failure>> {
    let parent = shown.log.parent().unwrap_or(&shown.log);
    let place = LogPlace::make(host, parent, state_dir)?;
    let seen = see(host, state_dir, &place, shown, look);
    let left_of_place = place.leave(host, None);
    match seen {
        Ok(mut left) => {
            left.extend(left_of_place);
            Ok(left)
        }
        Err(mut failure) => {
            failure.details.push_str(&left_of_place.join("\n"));
            Err(failure)
        }
    }
}

fn see(
    host: &mut dyn Host,
    state_dir: &Path,
    place: &LogPlace,
    shown: &ShownState,
    look: &mut dyn FnMut(&Path),
) -> Result<Vec<String>, Box<Failure>> {
    place.take_log(&shown.log)?;
    let parameters = &shown.parameters;
    // It unmounts itself at the end, when nothing uses its disk any more.
    let space = parameters.least_space();
    let log = place.complete_log(parameters.size);
    let mut recorder = start_recorder(host, place, Some(log), 1, false).map_err(failure)?;
    let disk = DeviceSpec::image("", parameters.size);
    let devices = Shape::of(&disk, Recorded::Cuts(parameters)).devices(place.mountpoint(), false);
    let site = DiskSite::on_machine(host, place, &shown.configuration, &devices, space);
    let mut site = site.map_err(failure)?;
    let cuts = cuts_of(recorder.as_mut(), parameters, shown.seed).map_err(failure)?;
    let none = || Failure::new("record", "the log has no such cut");
    let cut = cuts.get(shown.cut as usize).ok_or_else(none)?;
    let state = state_of(parameters, shown.seed, cut, shown.cut, shown.model, shown.subset);
    ask(recorder.as_mut(), &RecorderRequest::State(state)).map_err(failure)?;
    let never = AtomicBool::new(false);
    let mut journal = UndoJournal::create(host, state_dir).map_err(|error| error.failure())?;
    let mut looking = Looking {
        machine: host,
        site: &mut site,
        journal: &mut journal,
        seed: shown.seed,
        without: None,
        parameters,
        interrupt: &never,
    };
    looking.host().limit_steps(Some(STEP_LIMIT));
    let mounted = looking.mount();
    looking.host().limit_steps(None);
    let result = match mounted {
        Ok(Ok((mounted, _))) => {
            look(mounted.directory());
            Ok(())
        }
        Ok(Err(reason)) => Err(Failure::new("mount", format!("it cannot be mounted: {reason}")).into()),
        Err(stop) => Err(failure(stop)),
    };
    let mut left = looking.take_down();
    left.extend(journal.close().err().map(|error| error.failure().message));
    match result {
        Ok(()) => Ok(left),
        Err(mut failure) => {
            failure.details.extend(left.into_iter().map(|line| line + "\n"));
            Err(failure)
        }
    }
}

/// A reason to stop, for a person who looks at one state.
fn failure(stop: Stop) -> Box<Failure> {
    match stop {
        Stop::Failed(failure) | Stop::Hung(failure, _) | Stop::NoRoom(failure) => failure,
        Stop::Skipped(unmet) => Failure::new("mount", unmet.join("; ")).into(),
        Stop::Interrupted => Failure::new("mount", "interrupted").into(),
    }
}
