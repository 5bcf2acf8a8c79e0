//! The decisions about the end of a sweep, if its trials made them: how often it was judged, and which blocks
//! were added or measured again.

use crate::TrialRecord;
use crate::units::Nanos;
use crate::warning::{Warning, WarningKind};
use serde::{Deserialize, Serialize};

/// The looks at the trials of a sweep that decided whether it goes on. With any, its comparisons hold however
/// often the trials were looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    /// The numbers of complete blocks after which the sweep was judged, in ascending order.
    pub after: Vec<u32>,
    /// Blocks added to the sweep after it had ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<More>,
    /// Disturbed blocks that were measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedBlock>,
}

/// Blocks that were added to a sweep that had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// Index of the first added block, from 0.
    pub from: u32,
    /// The maximum number of blocks to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// The time limit for the added blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<Nanos>,
}

/// A block that was measured again because the machine was disturbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedBlock {
    /// Index of the disturbed block, from 0.
    pub block: u32,
    /// Index of the block that replaces it, from 0.
    pub by: u32,
    /// The warnings that count as a disturbance.
    pub why: Vec<WarningKind>,
    /// True once the replacement is complete and undisturbed. Until then, the original block counts.
    pub counts: bool,
}

impl Looks {
    /// Returns true if the sweep ran a fixed number of blocks: it was never judged while it ran, extended or
    /// repeated.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty() && self.more.is_empty() && self.repeated.is_empty()
    }

    /// Returns true if interim results decided how many blocks the sweep has.
    pub fn are_repeated(&self) -> bool {
        !self.after.is_empty()
    }

    /// Returns the entry of the block that replaces this one, if there is one.
    pub fn in_place_of(&self, block: u32) -> Option<&RepeatedBlock> {
        self.repeated.iter().find(|one| one.block == block && one.counts)
    }

    /// Adds a warning to a trial whose block was replaced.
    pub fn mark(&self, trial: &mut TrialRecord) {
        let Some(repeated) = self.in_place_of(trial.block) else { return };
        let why: Vec<&str> = repeated.why.iter().map(|kind| kind.name()).collect();
        let text = format!(
            "does not count: the machine was disturbed during block {} ({}), which was measured again as \
             block {}",
            repeated.block + 1,
            why.join(", "),
            repeated.by + 1
        );
        trial.warnings.push(Warning::new(WarningKind::MeasuredAgain, text));
    }
}

impl TrialRecord {
    /// Returns true if the block of this trial was disturbed and measured again, so the trial is not counted.
    pub fn is_measured_again(&self) -> bool {
        self.warnings.iter().any(|warning| warning.kind == WarningKind::MeasuredAgain)
    }
}
