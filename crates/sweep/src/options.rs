//! How a sweep is to be run, and where.

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
    /// Where the record of a trial goes that neither the store nor its directory takes.
    pub keep: &'a [PathBuf],
    /// Set by Ctrl-C: stop, undo everything, keep what is finished.
    pub interrupt: &'a AtomicBool,
    /// Set by a second one: wait for nothing any more, and say what is left.
    pub hurry: &'a AtomicBool,
    /// Go on with this sweep instead of beginning one.
    pub resume: Option<SweepId>,
}

/// Where trials run.
pub struct Machines<'a> {
    /// This machine.
    pub host: &'a mut dyn Host,
    /// Where guests come from.
    pub guests: &'a mut dyn Guests,
}
