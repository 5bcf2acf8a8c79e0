//! Setting up a worker thread, and closing descriptors so that errors are seen.
//!
//! A worker has its own descriptor table, so that opening and closing files takes no lock that another worker holds;
//! none of the standard streams, so that one that is stuck in the kernel keeps no pipe open; and no signals, so that no
//! system call of its is ever cut short.

use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io;
use rustix::process::Signal;
use rustix::thread::UnshareFlags;
use std::mem::MaybeUninit;

/// Gives the calling thread a descriptor table of its own, with copies of the descriptors that are open now.
///
/// A descriptor that another thread opens from now on does not exist here, nor the other way round. The caller must not
/// carry descriptors between threads after this call; one that is inherited may be used here, and closing it in one
/// table leaves it open in the other.
///
/// # Errors
/// What `unshare(2)` says.
pub fn unshare_files() -> io::Result<()> {
    // SAFETY: the contract of this function forbids what is unsafe about it: using descriptors of another table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }
}

/// Points the standard streams of the calling thread's own table to `/dev/null`, after [`unshare_files`].
///
/// # Errors
/// What `open(2)` or `dup2(2)` says.
pub fn release_standard_streams() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)
}

/// Blocks every signal that can be blocked, in the calling thread and in those that it starts.
pub fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that it is given and fails for no set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was initialised above; the old mask is not asked for. The call fails only for an unknown `how`.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
}

/// Has the kernel kill this process when the thread that started it ends.
///
/// # Errors
/// What `prctl(2)` says.
pub fn die_with_parent() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
}

/// Closes a descriptor and says what came of it: some filesystems report a failed write only here.
///
/// # Errors
/// What `close(2)` says; the descriptor is gone all the same.
#[inline]
pub fn close(descriptor: OwnedFd) -> io::Result<()> {
    let raw = descriptor.into_raw_fd();
    // SAFETY: the descriptor was owned and given up just now, so nothing else closes or uses it.
    unsafe { io::try_close(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_thread_with_its_own_table_leaves_the_others_alone() {
        let outside = File::open("/dev/zero").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&outside);
        let stdout = std::fs::read_link("/proc/self/fd/1").unwrap();
        std::thread::spawn(move || {
            unshare_files().unwrap();
            release_standard_streams().unwrap();
            let target = std::fs::read_link("/proc/thread-self/fd/1").unwrap();
            assert_eq!(target.to_str(), Some("/dev/null"));
            // The copy in this table goes away with it.
            let path = format!("/proc/thread-self/fd/{number}");
            assert_eq!(std::fs::read_link(path).unwrap().to_str(), Some("/dev/zero"));
        })
        .join()
        .unwrap();
        assert!(outside.metadata().is_ok());
        assert_eq!(std::fs::read_link("/proc/self/fd/1").unwrap(), stdout);
    }

    #[test]
    fn a_worker_gets_no_signals() {
        std::thread::spawn(|| {
            block_signals();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
            for signal in [Signal::INT, Signal::TERM, Signal::ALARM, Signal::HUP] {
                assert_ne!(mask & (1 << (signal.as_raw() - 1)), 0, "signal {signal:?}");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn closing_reports_and_frees() {
        let file = OwnedFd::from(File::open("/dev/null").unwrap());
        assert_eq!(close(file), Ok(()));
    }
}
