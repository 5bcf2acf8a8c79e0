//! Set-up of a child process between fork and exec.

use crate::confine::Ruleset;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal,
};
use rustix::thread::{
    Gid, Uid, UnshareFlags, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// Makes the child die by SIGKILL with the *thread* that spawns it (prctl(2), `PR_SET_PDEATHSIG`), and puts
/// it into a process group of its own, so that Ctrl-C on the terminal reaches only the parent, which then
/// decides.
///
/// The given descriptors stay open in the child under the same numbers; in the parent they keep
/// close-on-exec, so that no other child gets them. The command shares their ownership for as long as it
/// lives.
pub fn set_up(command: &mut Command, inherited: Vec<Arc<OwnedFd>>) {
    let parent = getpid();
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes system calls only; it takes no lock and allocates
    // nothing (an `io::Error` from an error number is a plain value). The descriptors that it names are open,
    // for it owns them.
    unsafe {
        command.pre_exec(move || {
            die_with(parent)?;
            inherited.iter().try_for_each(|descriptor| keep_across_exec(descriptor))
        });
    }
}

/// Puts a child into a process group of its own and lets it inherit the descriptors, like [`set_up`], but the
/// child outlives its parent: it must notice by itself that the parent is gone, for it has something to end.
pub fn set_up_outliving(command: &mut Command, inherited: Vec<Arc<OwnedFd>>) {
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes system calls only; it takes no lock and allocates
    // nothing. The descriptors that it names are open, for it owns them.
    unsafe {
        command.pre_exec(move || inherited.iter().try_for_each(|descriptor| keep_across_exec(descriptor)));
    }
}

/// A user for a child, with the groups that it is in. The child keeps no rights of the parent beyond those of
/// this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub user: u32,
    /// The number of its own group.
    pub group: u32,
    /// The numbers of the other groups.
    pub groups: Vec<u32>,
}

/// Like [`set_up`], for a program that needs no privilege: neither it nor what it runs gets any
/// (`PR_SET_NO_NEW_PRIVS`), and if a user is given, it becomes that user.
pub fn set_up_unprivileged(command: &mut Command, inherited: Vec<Arc<OwnedFd>>, user: Option<User>) {
    let groups: Vec<Gid> =
        user.iter().flat_map(|user| &user.groups).map(|group| Gid::from_raw(*group)).collect();
    // SAFETY: between fork and exec the closure makes system calls only, on memory that was allocated before;
    // it takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if let Some(user) = &user {
                become_user(user, &groups)?;
            }
            Ok(set_no_new_privs(true)?)
        });
    }
    // Last, because the kernel drops the parent-death signal when the user changes (prctl(2)).
    set_up(command, inherited);
}

/// Groups first, because afterwards the user may not change them any more. In a child there is only one
/// thread, so the calls of a thread are those of the process.
fn become_user(user: &User, groups: &[Gid]) -> io::Result<()> {
    set_thread_groups(groups)?;
    let group = Gid::from_raw(user.group);
    set_thread_res_gid(group, group, group)?;
    let user = Uid::from_raw(user.user);
    Ok(set_thread_res_uid(user, user, user)?)
}

/// Like [`set_up`], for a program that starts others: if the kernel allows it, the child becomes the first
/// process of a PID namespace, so that everything it has started dies with it, whoever kills it. Returns
/// whether that is so; without privilege it is not.
///
/// A thread that has prepared for a namespace can no longer start threads (`clone(2)` forbids it): call this
/// from a thread that exists only for the child, and spawn the child on it.
///
/// # Errors
/// The error of `pidfd_open(2)`.
pub fn enclose(command: &mut Command) -> io::Result<bool> {
    let parent = pidfd_open(getpid(), PidfdFlags::empty())?;
    // SAFETY: this namespace concerns the numbers of processes that are started from now on, and no
    // descriptor or memory.
    let enclosed = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWPID) }.is_ok();
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes two system calls; it takes no lock and allocates
    // nothing. The descriptor is open, for the closure owns it.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // From inside its namespace a child does not see its parent's number, but it can see its parent
            // exit.
            let mut watched = [PollFd::new(&parent, PollFlags::IN)];
            match poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? {
                0 => Ok(()),
                _ended => Err(rustix::io::Errno::SRCH.into()),
            }
        });
    }
    Ok(enclosed)
}

/// Confines the child before it executes another program, so that nothing of that program runs unconfined.
pub fn confine(command: &mut Command, ruleset: Ruleset) {
    // SAFETY: between fork and exec the closure makes two system calls; it takes no lock and allocates
    // nothing. The ruleset is open, for the closure owns it.
    unsafe {
        command.pre_exec(move || ruleset.restrict_thread());
    }
}

fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above took effect; then there is nothing left to do.
    if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
}

fn keep_across_exec(descriptor: &OwnedFd) -> io::Result<()> {
    Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
}

/// Keeps every child from inheriting what this process itself has inherited beyond the standard streams: a
/// descriptor that is open for writing is not subject to rules about paths. To be called before anything is
/// opened that children should inherit.
///
/// # Errors
/// The kernel's error about `/proc/self/fd`.
pub fn keep_what_is_open_from_children() -> io::Result<()> {
    let names = std::fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
    let open: Vec<RawFd> =
        names.filter_map(|name| name.to_str()?.parse().ok()).filter(|fd| *fd > 2).collect();
    for descriptor in open {
        // SAFETY: it is borrowed for this call only; the one that was the directory's own is closed by now,
        // which the kernel answers with an error that says just that.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        match fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
            Ok(()) | Err(rustix::io::Errno::BADF) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The path under which a child finds an inherited descriptor.
pub fn path_of(descriptor: BorrowedFd<'_>) -> String {
    let number: RawFd = descriptor.as_raw_fd();
    format!("/proc/self/fd/{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_open_goes_to_no_child() {
        let file = tempfile::tempfile().unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        keep_what_is_open_from_children().unwrap();
        let its_own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let seen = Command::new("test").args(["-e", &its_own]).status().unwrap();
        assert!(!seen.success());
    }
}
