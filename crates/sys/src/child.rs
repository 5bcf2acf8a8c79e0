//! Set-up of a child process between fork and exec.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// Makes the child die by SIGKILL with the *thread* that spawns it (prctl(2), `PR_SET_PDEATHSIG`), and puts it into a
/// process group of its own, so that Ctrl-C on the terminal reaches only the parent, which then decides.
///
/// The given descriptors stay open in the child under the same numbers; in the parent they keep close-on-exec, so that no
/// other child gets them. The command shares their ownership for as long as it lives.
pub fn set_up(command: &mut Command, inherited: Vec<Arc<OwnedFd>>) {
    let parent = getpid();
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes system calls only; it takes no lock and allocates nothing (an
    // `io::Error` from an error number is a plain value). The descriptors that it names are open, for it owns them.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            inherited.iter().try_for_each(|descriptor| keep_across_exec(descriptor))
        });
    }
}

fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above took effect; then there is nothing to do any more.
    if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

fn keep_across_exec(descriptor: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
}

/// The path under which a child that inherits a descriptor finds it.
pub fn path_of(descriptor: BorrowedFd<'_>) -> String {
    let number: RawFd = descriptor.as_raw_fd();
    format!("/proc/self/fd/{number}")
}
