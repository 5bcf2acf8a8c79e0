//! Where a trial is: from the engine, which reports its load, over the machine that runs the trial, to those
//! who watch the sweep.

use crate::glance::Glance;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Declares the steps once, each with its name in progress, errors and JSON.
macro_rules! trial_steps {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal;)+) => {
        /// A step of a trial, in the order in which they follow each other.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum TrialStep {
            $($(#[$doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl TrialStep {
            /// Returns its name.
            pub const fn name(self) -> &'static str {
                match self { $(TrialStep::$variant => $name,)+ }
            }
        }
    };
}

trial_steps! {
    /// Writing images for all trials, before the first that needs them.
    Images = "image";
    /// Leaving the machine alone.
    Cooldown = "cooldown";
    /// Running the hook of the plan.
    BeforeTrial = "before the trial";
    /// Starting a guest.
    Boot = "boot";
    /// Discarding or filling the disks.
    Precondition = "precondition";
    /// Making the devices: images, arrays, volumes.
    Build = "build";
    /// Creating the filesystem.
    Mkfs = "mkfs";
    /// Mounting it.
    Mount = "mount";
    /// Copying the filesystem that was prepared for several trials.
    Copy = "copy";
    /// Unmounting it within the load.
    UmountBetween = "unmount within the load";
    /// Mounting it again.
    MountBetween = "mount again";
    /// Starting the engine.
    StartEngine = "start the engine";
    /// Filling and ageing the filesystem.
    Fill = "fill";
    /// Creating the trees.
    Prepare = "prepare";
    /// Syncing and dropping caches.
    Settle = "settle";
    /// Waiting for a calm device.
    Quiesce = "wait for a calm device";
    /// The load runs, but nothing counts yet.
    Ramp = "ramp";
    /// The window.
    Measure = "measure";
    /// Waiting for operations in flight at the end of the window.
    Drain = "drain";
    /// Reading the layout of the files.
    Layout = "look at the files";
    /// Unmounting the filesystem after the load.
    Umount = "unmount after the load";
    /// Reading again what a verified load has left.
    ReadAgain = "read again";
    /// Removing the trees.
    CleanUp = "clean up";
    /// Checking the filesystem after the load.
    Check = "check";
    /// Looking at a recorded disk as a power cut would leave it.
    Cut = "cut";
    /// Working on a disk of which requests fail.
    Fault = "fault";
    /// Undoing everything.
    TearDown = "tear down";
}

/// Where a trial is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The current step.
    pub step: TrialStep,
    /// The phase of the load; empty outside of phases.
    pub phase: String,
    /// Share of the step that is done, 0 to 1, if that is known.
    pub done: Option<f64>,
    /// Time until the last phase of the load ends, if that is known.
    pub left_ns: Option<Nanos>,
    /// The activity of the workers of a phase, for somebody who watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glance: Option<Box<Glance>>,
}

impl Progress {
    /// At a step of which nothing else is known.
    pub const fn at(step: TrialStep) -> Progress {
        Progress { step, phase: String::new(), done: None, left_ns: None, glance: None }
    }

    /// Returns whether step and phase are the same.
    pub fn is_like(&self, other: &Progress) -> bool {
        (self.step, &self.phase) == (other.step, &other.phase)
    }
}
