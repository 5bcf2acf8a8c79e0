//! The outcome of a sweep, and what it has left.

use crate::sweep_error::SweepError;
use fsdyno_store::SweepId;

/// The outcome of a sweep.
#[derive(Debug)]
pub struct SweepOutcome {
    /// Its number in the store.
    pub sweep: SweepId,
    /// The way in which it ended.
    pub end: SweepEnd,
    /// Trials stored by this run that were measured.
    pub measured: u32,
    /// Trials stored by this run that were skipped.
    pub skipped: u32,
    /// Trials stored by this run that failed.
    pub failed: u32,
    /// The leftovers on the machine, of this sweep or of earlier ones, one line each.
    pub left: Vec<String>,
    /// Why it could not continue, if that ended it.
    pub broken: Option<SweepError>,
    /// `true` if its results have been copied elsewhere, because somebody has removed the store.
    pub is_elsewhere: bool,
}

/// The way in which a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepEnd {
    /// Every planned trial is stored, or all that fit into the time limit, and the machine is as it was.
    Finished,
    /// The user stopped it; the machine is as it was.
    Interrupted,
    /// It could not continue ([`SweepOutcome::broken`]); the machine is as it was.
    Broken,
    /// However it ended, something is left on the machine.
    NotRestored,
}
