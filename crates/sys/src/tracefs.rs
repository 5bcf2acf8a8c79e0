//! The kernel's tracing filesystem (Documentation/trace/ftrace.rst), mounted where nobody else sees it.

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::os::fd::OwnedFd;

/// The directory of trace instances.
const INSTANCES: &str = "instances";

/// A mount that only this descriptor leads to, and that is gone when it is closed.
///
/// # Errors
/// The kernel's, for everyone but root, and where there is no tracefs.
pub fn open() -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Creates a trace instance: buffers and switches of its own. It stays until it is removed.
///
/// # Errors
/// The kernel's.
pub fn create_instance(tracefs: &OwnedFd, name: &str) -> Result<(), Errno> {
    rustix::fs::mkdirat(tracefs, format!("{INSTANCES}/{name}"), Mode::RWXU)
}

/// Removes a trace instance, whatever it records. Returns whether there was one.
///
/// # Errors
/// The kernel's: `EBUSY` while somebody reads from it.
pub fn remove_instance(tracefs: &OwnedFd, name: &str) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(tracefs, format!("{INSTANCES}/{name}"), AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(false),
        result => result.map(|()| true),
    }
}

/// The path of a file of an instance below [`open`]'s descriptor.
pub fn of_instance(name: &str, file: &str) -> String {
    format!("{INSTANCES}/{name}/{file}")
}
