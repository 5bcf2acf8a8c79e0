//! How a sweep decided when to end, if its trials did: how often it was judged, and which blocks were added
//! or measured again.

use crate::TrialRecord;
use crate::units::Nanos;
use crate::warning::{Warning, WarningKind};
use serde::{Deserialize, Serialize};

/// The looks at the trials of a sweep that decided whether it goes on. With any, its comparisons hold however
/// often the trials were looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    /// After how many blocks it was judged, in order.
    pub after: Vec<u32>,
    /// What was added after it had ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<More>,
    /// Disturbed blocks that were measured again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedBlock>,
}

/// Blocks that were added to a sweep that had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// The first of them, from 0.
    pub from: u32,
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// How long they may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<Nanos>,
}

/// A block that was measured again because the machine was disturbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedBlock {
    /// The disturbed one, from 0.
    pub block: u32,
    /// The one that counts in its place.
    pub by: u32,
    /// What disturbed it.
    pub why: Vec<WarningKind>,
    /// Whether the latter is complete and was not disturbed itself; until then the former counts.
    pub counts: bool,
}

impl Looks {
    /// Whether the number of trials depends on no look at them.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty() && self.more.is_empty() && self.repeated.is_empty()
    }

    /// Whether trials were looked at to decide how many there are.
    pub fn are_repeated(&self) -> bool {
        !self.after.is_empty()
    }

    /// The block that counts in the place of this one.
    pub fn in_place_of(&self, block: u32) -> Option<&RepeatedBlock> {
        self.repeated.iter().find(|one| one.block == block && one.counts)
    }

    /// Marks a trial that does not count, because its block was measured again.
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
    /// Whether it is declared not to count, because its block was disturbed and measured again.
    pub fn is_measured_again(&self) -> bool {
        self.warnings.iter().any(|warning| warning.kind == WarningKind::MeasuredAgain)
    }
}
