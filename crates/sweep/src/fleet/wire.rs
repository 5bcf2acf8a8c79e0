//! The messages between the coordinator of a fleet and its members, in lines that the clients' connection
//! carries.

use crate::order::Slot;
use crate::plan::Plan;
use crate::sizes::Sizes;
use fsdyno_core::environment::DeviceFacts;
use fsdyno_core::{Nanos, Progress, TrialRecord};
use fsdyno_store::SweepId;
use fsdyno_testbed::Confirmation;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// To a member.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToMember {
    /// The plan, with the devices that this member has. Its answer is [`FromMember::Ready`] or
    /// [`FromMember::Refused`].
    Begin(Box<Task>),
    /// Run a trial.
    Run {
        slot: Slot,
        /// Those that are to follow in its block.
        rest: Vec<Slot>,
    },
    /// There are no more. Its last answer is [`FromMember::Left`].
    End,
}

/// The task of a member.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub plan: Plan,
    /// The user's confirmation for this machine.
    pub confirmation: Confirmation,
    /// The sweep that is resumed, and the devices on which this machine has run trials of it.
    pub resumed: Option<(i64, Vec<DeviceFacts>)>,
}

impl Task {
    /// The sweep as hooks would know it.
    pub fn sweep(&self) -> SweepId {
        SweepId(self.resumed.as_ref().map_or(0, |(sweep, _)| *sweep))
    }
}

/// From a member.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromMember {
    /// It can run trials.
    Ready(Box<MemberReady>),
    /// It cannot, and has changed nothing.
    Refused(String),
    /// Where the trial is.
    At(Box<Progress>),
    /// The trial has ended, and counts.
    Ended { record: Box<TrialRecord>, took: Option<Nanos> },
    /// It was stopped, and everything is undone.
    Interrupted,
    /// No further trial can run there. One that runs does not count.
    Broken(String),
    /// The leftovers on the machine at the end, one line each.
    Left(Vec<String>),
}

/// A member that can run trials.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MemberReady {
    /// The requirements of each case that the machine does not meet.
    pub unmet: Vec<Vec<String>>,
    pub sizes: Sizes,
    /// Its named disks that have a serial number, with that.
    pub serials: Vec<(PathBuf, String)>,
    /// The things that were restored on it before, and those that could not be.
    pub restored: Vec<String>,
    pub left: Vec<String>,
}

/// A line for the other end.
pub(super) fn line(value: &impl Serialize) -> String {
    // Nothing in these types can fail: keys of maps are strings.
    serde_json::to_string(value).unwrap_or_default()
}
