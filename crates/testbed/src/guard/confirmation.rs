//! The user's confirmations on the command line; each is for one device, by name.

use super::identity::identity_text;
use fsdyno_host::Host;
use fsdyno_host::probe::DeviceProbe;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The user's confirmations on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Paths of block devices that may be destroyed, or serial numbers of whole disks.
    pub destroy: Vec<PathBuf>,
    /// The signatures that may be overwritten on those devices.
    pub overwrite: Vec<Overwrite>,
    /// Sysctls beyond the known ones that may be set.
    pub sysctls: Vec<String>,
    /// `true` if the commands of the plan may run.
    pub hooks: bool,
    /// The identities of devices, by their paths, if the confirmation is only for those that have these paths
    /// when it is given: a command that runs two sweeps must not find another device in the second.
    #[serde(default)]
    pub given_for: Vec<(PathBuf, String)>,
}

/// A kind of signature that may be overwritten on a device: `/dev/sdb=ext4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overwrite {
    /// Path of the device, or serial number of a whole disk.
    pub device: PathBuf,
    /// The kind, as libblkid names it.
    pub kind: String,
}

/// Why a text is not a confirmation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverwriteError {
    /// Only a kind, which would apply to any device that carries it.
    #[error("'{0}' does not name the device whose signature may be overwritten")]
    NoDevice(String),
    /// Only a device, which would apply to whatever is there now.
    #[error("'{0}' does not name the kind of signature that may be overwritten")]
    NoKind(String),
}

impl FromStr for Overwrite {
    type Err = OverwriteError;

    /// A path may contain the sign, but a kind never does.
    fn from_str(text: &str) -> Result<Self, OverwriteError> {
        match text.rsplit_once('=') {
            None | Some(("", _)) if text.contains('/') => Err(OverwriteError::NoKind(text.to_string())),
            None | Some(("", _)) => Err(OverwriteError::NoDevice(text.to_string())),
            Some((_, kind)) if kind.is_empty() || kind.contains('/') => {
                Err(OverwriteError::NoKind(text.to_string()))
            }
            Some((device, kind)) => Ok(Overwrite { device: device.into(), kind: kind.to_string() }),
        }
    }
}

/// As it is given on the command line.
impl fmt::Display for Overwrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.device.display(), self.kind)
    }
}

impl Confirmation {
    /// The same confirmation, only for the devices that have these paths now.
    pub fn for_those_now(mut self, host: &mut dyn Host, paths: &[PathBuf]) -> Self {
        for path in paths {
            // One that cannot be examined is refused by the guards, which say why.
            if let Ok(probe) = host.probe_device(path) {
                self.given_for.push((path.clone(), identity_text(&probe.identity)));
            }
        }
        self
    }

    /// Returns the identity of the device that this path had when it was confirmed, if it is another one now.
    pub(super) fn replaced(&self, path: &Path, probe: &DeviceProbe) -> Option<&str> {
        let (_, then) = self.given_for.iter().find(|(known, _)| known == path)?;
        (*then != identity_text(&probe.identity)).then_some(then)
    }

    /// Returns whether the user has named this device as one that may be destroyed.
    pub(super) fn destroys(&self, probe: &DeviceProbe) -> bool {
        self.destroy.iter().any(|name| names(name, probe))
    }

    /// Returns whether a signature of this kind may be overwritten on this device.
    pub(super) fn overwrites(&self, probe: &DeviceProbe, kind: &str) -> bool {
        self.overwrite.iter().any(|one| one.kind == kind && names(&one.device, probe))
    }

    /// The same, with every name of one of these devices replaced by its planned path.
    pub(super) fn by_path(mut self, host: &mut dyn Host, probes: &[&DeviceProbe]) -> Self {
        let others = self.destroy.iter_mut().chain(self.overwrite.iter_mut().map(|one| &mut one.device));
        for name in others.filter(|name| !probes.iter().any(|probe| names(name, probe))) {
            let Ok(other) = host.probe_device(name) else { continue };
            let same = |probe: &&&DeviceProbe| other.block && other.identity.number == probe.identity.number;
            if let Some(probe) = probes.iter().find(same) {
                *name = probe.path.clone();
            }
        }
        self
    }
}

/// Returns whether this is a name of the device.
fn names(name: &Path, probe: &DeviceProbe) -> bool {
    // A serial number belongs to a disk, and does not say which of its partitions is meant.
    let serial = probe.identity.serial.as_deref().filter(|_| probe.identity.partition.is_none());
    *name == probe.path || *name == probe.canonical || serial.is_some_and(|serial| name.as_os_str() == serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overwrite_names_its_device_and_its_kind() {
        for (text, device, kind) in [
            ("/dev/sdb=ext4", "/dev/sdb", "ext4"),
            ("/dev/disk/by-path/a=b=LVM2_member", "/dev/disk/by-path/a=b", "LVM2_member"),
            ("naa.5000=unknown-data", "naa.5000", "unknown-data"),
        ] {
            assert_eq!(text.parse(), Ok(Overwrite { device: device.into(), kind: kind.into() }), "{text}");
        }
        for text in ["ext4", "=ext4", ""] {
            assert_eq!(text.parse::<Overwrite>(), Err(OverwriteError::NoDevice(text.to_string())));
        }
        for text in ["/dev/sdb", "/dev/sdb=", "/dev/disk/by-path/a=b/c"] {
            assert_eq!(text.parse::<Overwrite>(), Err(OverwriteError::NoKind(text.to_string())));
        }
    }
}
