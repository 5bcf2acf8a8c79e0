//! How a sweep is to be run, and where.

use crate::asked::Asked;
use fsdyno_core::Warning;
use fsdyno_host::Host;
use fsdyno_host::guest::Guests;
use fsdyno_store::SweepId;
use fsdyno_testbed::Confirmation;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// How a sweep is to be run.
#[derive(Debug)]
pub struct RunOptions<'a> {
    /// Directory of the undo journals.
    pub state_dir: &'a Path,
    /// What the user has confirmed.
    pub confirmation: &'a Confirmation,
    /// Where to keep the record of a trial if neither the store nor its directory accepts it.
    pub keep: &'a [PathBuf],
    /// Set by Ctrl-C: stop, undo everything, keep what is finished.
    pub interrupt: &'a AtomicBool,
    /// Set by a second Ctrl-C: stop waiting, and report what is left.
    pub hurry: &'a AtomicBool,
    /// What is to happen once the trial in progress has ended.
    pub asked: &'a Asked,
    /// What is known of the devices from before: trials on this machine carry it.
    pub known: &'a [Warning],
    /// Continue this sweep instead of starting a new one.
    pub resume: Option<SweepId>,
}

/// Where trials run.
pub struct Machines<'a> {
    /// This machine.
    pub host: &'a mut dyn Host,
    /// Where guests come from.
    pub guests: &'a mut dyn Guests,
}
