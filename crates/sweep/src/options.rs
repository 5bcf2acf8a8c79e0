//! The options of a sweep, and the machines on which it runs.

use crate::asked::Asked;
use fsdyno_core::{Nanos, Warning};
use fsdyno_host::Host;
use fsdyno_host::guest::Guests;
use fsdyno_store::SweepId;
use fsdyno_testbed::Confirmation;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

/// The most blocks that are added at once.
const MOST_ADDED: u32 = 100_000;

/// The options with which a sweep is run.
#[derive(Debug)]
pub struct RunOptions<'a> {
    /// Directory of the undo journals.
    pub state_dir: &'a Path,
    /// The confirmation of the user.
    pub confirmation: &'a Confirmation,
    /// Where to keep the record of a trial if neither the store nor its directory accepts it.
    pub keep: &'a [PathBuf],
    /// Set by Ctrl-C: stop, undo everything, keep what is finished.
    pub interrupt: &'a AtomicBool,
    /// Set by a second Ctrl-C: stop waiting, and report what is left.
    pub hurry: &'a AtomicBool,
    /// The request to follow once the trial in progress has ended.
    pub asked: &'a Asked,
    /// The warnings about the devices that are known from before: trials on this machine carry them.
    pub known: &'a [Warning],
    /// Continue this sweep instead of starting a new one.
    pub resume: Option<SweepId>,
    /// Add blocks to the sweep that is continued, which has ended.
    pub more: Option<MoreBlocks>,
}

/// Blocks to add to a sweep that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoreBlocks {
    /// So many.
    Count(u32),
    /// Those that fit into this time, until the answer is decided; all of them if it already is.
    Within(Nanos),
}

/// A text that is neither a number of blocks nor a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither a number of blocks nor a time; examples: 10, 90s, 1h")]
pub struct MoreBlocksError(String);

impl FromStr for MoreBlocks {
    type Err = MoreBlocksError;

    /// A number without a unit counts blocks.
    fn from_str(text: &str) -> Result<Self, MoreBlocksError> {
        let refused = || MoreBlocksError(text.to_string());
        match (text.trim().parse::<u32>(), text.parse::<Nanos>()) {
            (Ok(count), _) if (1..=MOST_ADDED).contains(&count) => Ok(MoreBlocks::Count(count)),
            (Ok(_), _) | (_, Err(_) | Ok(Nanos(0))) => Err(refused()),
            (Err(_), Ok(_)) if text.trim().parse::<f64>().is_ok() => Err(refused()),
            (Err(_), Ok(time)) => Ok(MoreBlocks::Within(time)),
        }
    }
}

/// Where trials run.
pub struct Machines<'a> {
    /// This machine.
    pub host: &'a mut dyn Host,
    /// Where guests come from.
    pub guests: &'a mut dyn Guests,
}
