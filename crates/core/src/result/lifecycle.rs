//! The steps of a trial outside its windows, and how long they took.

use crate::progress::TrialStep;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Declares the steps once: key in the JSON, label in tables, description, and the measure of its duration,
/// if any. Steps with the same measure are added up.
macro_rules! lifecycle {
    ($($key:ident = $variant:ident, $label:expr, $help:literal, $measure:expr;)*) => {
        /// Durations of the steps of a trial outside its windows; absent if the step did not happen.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Lifecycle {
            $(#[doc = $help] #[serde(default)] pub $key: Option<Nanos>,)*
        }

        /// A step of a trial outside its windows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LifecycleStep {
            $(#[doc = $help] $variant,)*
        }

        impl LifecycleStep {
            /// Every step, in the order of a trial; the whole trial comes last.
            pub const ALL: &'static [LifecycleStep] = &[$(LifecycleStep::$variant),*];

            /// The key in `lifecycle_ns`.
            pub const fn key(self) -> &'static str {
                match self { $(LifecycleStep::$variant => stringify!($key),)* }
            }

            /// The name in tables.
            pub const fn label(self) -> &'static str {
                match self { $(LifecycleStep::$variant => $label,)* }
            }

            /// Returns the description of the step, for the reference.
            pub const fn help(self) -> &'static str {
                match self { $(LifecycleStep::$variant => $help,)* }
            }

            /// The measure that its duration counts for.
            pub const fn measure(self) -> Option<&'static str> {
                match self { $(LifecycleStep::$variant => $measure,)* }
            }

            /// Returns the time that the step took in a trial; `None` if it did not happen.
            pub const fn of(self, lifecycle: &Lifecycle) -> Option<Nanos> {
                match self { $(LifecycleStep::$variant => lifecycle.$key,)* }
            }

            /// The field of its duration.
            pub const fn of_mut(self, lifecycle: &mut Lifecycle) -> &mut Option<Nanos> {
                match self { $(LifecycleStep::$variant => &mut lifecycle.$key,)* }
            }
        }
    };
}

lifecycle! {
    boot = Boot, "boot of the guest", "starting the guest until its agent answers", Some("boot-time");
    precondition = Precondition, TrialStep::Precondition.name(), "discarding or filling the disks before the filesystem is \
        created", None;
    mkfs = Mkfs, TrialStep::Mkfs.name(), "creating the filesystem", Some("mkfs-time");
    mount = Mount, TrialStep::Mount.name(), "mounting it", Some("mount-time");
    prepare = Prepare, TrialStep::Prepare.name(), "creating the trees", None;
    umount_between = UmountBetween, TrialStep::UmountBetween.name(), "unmounting it after the files were written, \
        before the first phase that uses them", Some("remount-time");
    copy = Copy, TrialStep::Copy.name(), "copying the filesystem that was prepared for several trials", None;
    mount_between = MountBetween, TrialStep::MountBetween.name(), "mounting it again", Some("remount-time");
    umount = Umount, TrialStep::Umount.name(), "unmounting it after the load, including \
        writeback", Some("umount-time");
    read_again = ReadAgain, TrialStep::ReadAgain.name(), "reading again everything that a verified load has left, after \
        mounting it again", None;
    check = Check, TrialStep::Check.name(), "checking it after the load", Some("check-time");
    total = Total, "total", "the whole trial", None;
}
