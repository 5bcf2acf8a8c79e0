//! The bounds that the kernel sets for a program: it may change only the devices that its arguments name and
//! the paths that its command grants.

use crate::{Command, DeviceHandle, Grant, HostError, Result};
use fsdyno_core::environment::Confinement;
use fsdyno_sys::child;
use fsdyno_sys::confine::{self, Access, Ruleset};
use fsdyno_sys::view;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where every program may write.
const NULL: &str = "/dev/null";

/// Returns the confinement that this kernel supports.
pub(crate) fn of_this_kernel() -> Confinement {
    let abi = confine::abi();
    let owned = |kinds: Vec<&str>| kinds.into_iter().map(str::to_string).collect();
    Confinement {
        landlock_abi: abi,
        refused: owned(confine::refused(abi)),
        not_refused: owned(confine::beyond(abi)),
        read_only_mounts: view::possible(),
    }
}

/// The bounds of a program; `None` if the kernel does not support Landlock.
pub(super) fn ruleset(
    command: &Command,
    devices: &[(DeviceHandle, Arc<OwnedFd>)],
) -> Result<Option<Ruleset>> {
    Ruleset::new(granted(command, devices))
        .map_err(|error| HostError::system("confine", Path::new(&command.program), error))
}

/// Returns the paths that a program may change, each with its access.
fn granted(command: &Command, devices: &[(DeviceHandle, Arc<OwnedFd>)]) -> Vec<(PathBuf, Access)> {
    // Even a reader asks for size and geometry. An ioctl that changes a device needs a descriptor for
    // writing.
    let access = if command.reads_only { Access::Control } else { Access::File };
    // The descriptor leads to the node that was verified, whatever is at its path by now.
    let named = devices.iter().map(|(_, device)| (PathBuf::from(child::path_of(device.as_fd())), access));
    let more = command.grants.iter().map(parts).map(|(path, access)| (path.to_path_buf(), access));
    named.chain(more).chain([(PathBuf::from(NULL), Access::File)]).collect()
}

fn parts(grant: &Grant) -> (&Path, Access) {
    match grant {
        Grant::File(path) => (path, Access::File),
        Grant::Control(path) => (path, Access::Control),
        Grant::Tree(path) => (path, Access::Tree),
        Grant::Nodes(path) => (path, Access::Nodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn rules(command: &Command) -> Vec<(PathBuf, Access)> {
        granted(command, &[(DeviceHandle(1), Arc::new(File::open("/dev/zero").unwrap().into()))])
    }

    #[test]
    fn a_program_may_change_the_devices_of_its_words_and_what_is_granted() {
        let command = Command::new("mdadm")
            .args(["/dev/decoy"])
            .device("", DeviceHandle(1), Path::new("/dev/loop1"))
            .may_change([Grant::Nodes("/dev".into()), Grant::Tree("/run/mdadm".into())]);
        let found = rules(&command);
        assert!(found[0].0.starts_with("/proc/self/fd") && found[0].1 == Access::File, "{found:?}");
        let rest = [("/dev", Access::Nodes), ("/run/mdadm", Access::Tree), (NULL, Access::File)];
        assert_eq!(found[1..], rest.map(|(path, access)| (PathBuf::from(path), access)));
    }

    #[test]
    fn a_program_that_reads_may_change_nothing() {
        let command =
            Command::new("e2fsck").device("", DeviceHandle(1), Path::new("/dev/loop1")).reading_only();
        let found = rules(&command);
        assert!(found[0].0.starts_with("/proc/self/fd") && found[0].1 == Access::Control, "{found:?}");
        assert_eq!(found[1..], [(PathBuf::from(NULL), Access::File)]);
    }
}
