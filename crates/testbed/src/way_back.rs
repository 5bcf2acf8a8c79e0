//! The changes that can be undone, and the order between them.

use fsdyno_host::probe::{FileIdentity, MountInfo};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The way to undo one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "undo")]
pub enum UndoAction {
    /// Remove a file that we made.
    RemoveFile {
        /// Where it was made.
        path: PathBuf,
        /// Which file it is; `None` only for a name of 128 random bits, journaled before the file was made.
        identity: Option<FileIdentity>,
    },
    /// Detach every loop device on an image that we made.
    DetachLoop {
        /// Where it was made.
        path: PathBuf,
        /// Which file it is.
        image: FileIdentity,
    },
    /// Write a setting of sysfs or a sysctl back.
    WriteSetting {
        /// Its file.
        path: PathBuf,
        /// Its old value, byte for byte; for a choice, the chosen word. Versions before 0.2 trimmed white
        /// space.
        old: String,
        /// The value that fsdyno set; once this was seen to be in force ([`UndoAction::SettingInForce`]), the
        /// old one is restored only while it is. `None`: a setting that changed along with another one and is
        /// restored whenever it differs.
        new: Option<String>,
    },
    /// Nothing to undo: it is known that the kernel took the value as it was written. Until this is known,
    /// the kernel may have made something else of it (`0x10` is 16), which is still fsdyno's doing.
    SettingInForce {
        /// Its file.
        path: PathBuf,
    },
    /// Remove an empty directory of a random name that we made.
    RemoveDirectory {
        /// Where.
        path: PathBuf,
    },
    /// Remove a directory of a random name that we made, with everything that the engine has left in it.
    RemoveTree {
        /// Where.
        path: PathBuf,
    },
    /// Remove a memory cgroup of a random name that we made, once nothing is in it any more.
    RemoveMemoryGroup {
        /// Where.
        path: PathBuf,
    },
    /// Remove an instance of the kernel's tracing, of a random name.
    RemoveTraceInstance {
        /// Its name.
        name: String,
    },
    /// Unmount what we mounted on our own directory.
    Unmount {
        /// Where.
        target: PathBuf,
        /// What; absent in journals of versions before 0.2.
        mounted: Option<MountSource>,
    },
    /// Stop the array of md with this UUID of random bits.
    StopArray {
        /// As mdadm writes it: four groups of eight digits.
        uuid: String,
    },
    /// Remove the device-mapper device of a random name.
    RemoveMapping {
        /// Its name.
        name: String,
    },
    /// Remove what a layer or a filesystem has written to a block device in order to recognise it.
    ClearLabel {
        /// The device as the plan names it.
        disk: PathBuf,
        /// The label that the device has to carry to be fsdyno's.
        label: Label,
    },
}

/// The source of a mount, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSource {
    /// Filesystem type.
    pub filesystem: String,
    /// The device, or the name that the filesystem has given itself.
    pub source: PathBuf,
}

/// The label that a layer writes to its disks in order to recognise them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The superblock of the array of this UUID.
    Md {
        /// In mdadm's words: four groups of eight digits.
        uuid: String,
    },
    /// The label of a physical volume of this volume group.
    Lvm {
        /// Its name.
        group: String,
    },
    /// The signature of the filesystem, or of the journal, of this UUID.
    Filesystem {
        /// As libblkid reports it; the serial number of a filesystem that has no UUID.
        uuid: String,
    },
}

/// The result of undoing one action.
#[derive(Debug)]
pub(crate) enum Undone {
    Nothing,
    Done(String),
    Foreign(String),
}

impl MountSource {
    /// Returns whether a mount is of this.
    pub(crate) fn is(&self, mount: &MountInfo) -> bool {
        mount.filesystem == self.filesystem && Path::new(&mount.source) == self.source
    }
}

impl UndoAction {
    /// Describes what is left if it was not undone.
    pub(crate) fn describe(&self) -> String {
        match self {
            UndoAction::RemoveFile { path, .. } => format!("file '{}'", path.display()),
            UndoAction::DetachLoop { path, .. } => format!("loop device on '{}'", path.display()),
            UndoAction::WriteSetting { path, old, .. } => {
                format!("setting '{}', which was '{}'", path.display(), old.trim_end())
            }
            UndoAction::SettingInForce { path } => format!("note on '{}'", path.display()),
            UndoAction::RemoveDirectory { path } | UndoAction::RemoveTree { path } => {
                format!("directory '{}'", path.display())
            }
            UndoAction::RemoveMemoryGroup { path } => format!("memory cgroup '{}'", path.display()),
            UndoAction::RemoveTraceInstance { name } => format!("trace instance '{name}'"),
            UndoAction::Unmount { target, .. } => format!("mount '{}'", target.display()),
            UndoAction::StopArray { uuid } => format!("array with UUID {uuid}"),
            UndoAction::RemoveMapping { name } => format!("mapping '{name}'"),
            UndoAction::ClearLabel { disk, label: Label::Md { .. } } => {
                format!("superblock of an array on '{}'", disk.display())
            }
            UndoAction::ClearLabel { disk, label: Label::Lvm { .. } } => {
                format!("label of a volume group on '{}'", disk.display())
            }
            UndoAction::ClearLabel { disk, label: Label::Filesystem { .. } } => {
                format!("signature of a filesystem or a journal on '{}'", disk.display())
            }
        }
    }

    /// Files stay, and so does what is written on disks, from which arrays and volumes come up again on their
    /// own.
    pub(crate) fn outlives_reboot(&self) -> bool {
        !matches!(
            self,
            UndoAction::DetachLoop { .. }
                | UndoAction::WriteSetting { .. }
                | UndoAction::SettingInForce { .. }
                | UndoAction::RemoveMemoryGroup { .. }
                | UndoAction::RemoveTraceInstance { .. }
                | UndoAction::Unmount { .. }
        )
    }

    /// The setting that it restores in any case, because another one changed it as a side effect.
    pub(crate) fn taken_along(&self) -> Option<&PathBuf> {
        match self {
            UndoAction::WriteSetting { path, new: None, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the action to take if these settings were seen to be in force: any other setting is restored
    /// whatever it is now.
    pub(crate) fn knowing(self, in_force: &[PathBuf]) -> UndoAction {
        match self {
            UndoAction::WriteSetting { path, old, new } => {
                let new = new.filter(|_| in_force.contains(&path));
                UndoAction::WriteSetting { path, old, new }
            }
            other => other,
        }
    }

    /// Returns whether the action restores one of these settings.
    pub(crate) fn is_of_setting(&self, settings: &[PathBuf]) -> bool {
        matches!(self, UndoAction::WriteSetting { path, .. } if settings.contains(path))
    }

    /// Returns whether the action takes down something that is built on disks.
    pub(crate) fn is_layer(&self) -> bool {
        matches!(self, UndoAction::StopArray { .. } | UndoAction::RemoveMapping { .. })
    }
}

/// Returns the reason why a change has to stay, if something that depends on it, or would change it again,
/// could not be undone: an image whose loop device is still attached, a device whose filesystem is still
/// mounted, a setting that changes along with one that is not restored yet.
pub(crate) fn stands_on(action: &UndoAction, left: &[UndoAction]) -> Option<&'static str> {
    left.iter().find_map(|other| match (action, other) {
        (UndoAction::RemoveFile { identity: Some(identity), .. }, UndoAction::DetachLoop { image, .. }) => {
            (image == identity).then_some("its loop device is still attached")
        }
        // What one is restored to may depend on another one that was made before it.
        (UndoAction::WriteSetting { path, .. }, UndoAction::WriteSetting { path: other, .. })
            if path.starts_with("/sys") && path.parent() == other.parent() =>
        {
            Some("a later setting of the same queue is not restored yet")
        }
        (
            UndoAction::WriteSetting { path, new: None, .. },
            UndoAction::WriteSetting { path: other, new: Some(_), .. },
        ) => {
            (path.parent() == other.parent()).then_some("the setting that it depends on is not restored yet")
        }
        (UndoAction::RemoveDirectory { path }, UndoAction::Unmount { target, .. }) => {
            (path == target).then_some("it is still mounted")
        }
        // A journal belongs to one trial, so its mount is on its devices.
        (action, UndoAction::Unmount { .. })
            if action.is_layer()
                || matches!(action, UndoAction::DetachLoop { .. } | UndoAction::ClearLabel { .. }) =>
        {
            Some("its filesystem is still mounted")
        }
        (UndoAction::DetachLoop { .. } | UndoAction::ClearLabel { .. }, other) if other.is_layer() => {
            Some("an array or a mapping still uses it")
        }
        (UndoAction::WriteSetting { path, .. }, UndoAction::Unmount { .. }) => {
            path.starts_with("/sys").then_some("the filesystem on its device is still mounted")
        }
        _ => None,
    })
}
