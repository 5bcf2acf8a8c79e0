//! Sets up a worker thread, and closes descriptors so that errors are noticed.
//!
//! A worker has its own descriptor table, so that opening and closing files takes no lock that another worker
//! holds; none of the standard streams, so that one that is stuck in the kernel keeps no pipe open; and no
//! signals, so that none of its system calls is ever interrupted.

use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io;
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities, set_capabilities};
use std::collections::HashMap;
use std::mem::MaybeUninit;

/// Gives the calling thread its own descriptor table, with copies of the descriptors that are open now.
///
/// A descriptor that another thread opens from now on does not exist here, and vice versa. The caller must
/// not pass descriptors between threads after this call; an inherited one may be used here, and closing it in
/// one table leaves it open in the other.
///
/// # Errors
/// The error of `unshare(2)`.
pub fn unshare_files() -> io::Result<()> {
    // SAFETY: the contract of this function forbids what is unsafe about it: using descriptors of another
    // table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }
}

/// Points the standard streams of the calling thread's own table to `/dev/null`, after [`unshare_files`].
///
/// # Errors
/// The error of `open(2)` or `dup2(2)`.
pub fn release_standard_streams() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)
}

/// Removes from the calling thread the capabilities that lead out of a view of the filesystems
/// (capabilities(7)): to other processes' roots (`/proc/PID/root`), mounts, device nodes and raw I/O. Those
/// for files stay.
///
/// # Errors
/// The error of `capset(2)`.
pub fn drop_capabilities_beyond_files() -> io::Result<()> {
    let beyond = CapabilitySet::SYS_PTRACE
        | CapabilitySet::SYS_ADMIN
        | CapabilitySet::SYS_CHROOT
        | CapabilitySet::SYS_RAWIO
        | CapabilitySet::SYS_MODULE
        | CapabilitySet::SYS_BOOT
        | CapabilitySet::MKNOD;
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(beyond);
    }
    set_capabilities(None, sets)
}

/// Blocks every signal that can be blocked, in the calling thread and in those that it starts.
pub fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that it is given and fails for no set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was initialised above; the old mask is not asked for. The call fails only for an
    // unknown `how`.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut()) };
}

/// Makes the kernel kill this process when the thread that started it exits.
///
/// # Errors
/// The error of `prctl(2)`.
pub fn die_with_parent() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
}

/// Closes a descriptor and returns the result: some filesystems report a failed write only here.
///
/// # Errors
/// The error of `close(2)`; the descriptor is closed in any case.
#[inline]
pub fn close(descriptor: OwnedFd) -> io::Result<()> {
    let raw = descriptor.into_raw_fd();
    // SAFETY: the descriptor was owned and given up just now, so nothing else closes or uses it.
    unsafe { io::try_close(raw) }
}

/// Number of the calling thread, as [`cpu_time`] expects it.
pub fn id() -> u32 {
    rustix::thread::gettid().as_raw_pid().cast_unsigned()
}

/// The threads that the kernel created in this process to carry out ring requests, by the thread that
/// requested. Looking costs time in proportion to all threads, so it is done once for many of them.
///
/// The kernel passes requests that would block to such threads, named after the requesting thread
/// (`iou-wrk-TID`, io_uring/io-wq.c), and ends them after some seconds of idleness.
#[derive(Debug, Default)]
pub struct Helpers(HashMap<u32, Vec<u32>>);

impl Helpers {
    /// Those that there are now.
    pub fn look() -> Self {
        let mut helpers: HashMap<u32, Vec<u32>> = HashMap::new();
        for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let asker = name.trim_end().strip_prefix("iou-wrk-").and_then(|asker| asker.parse().ok());
            let helper = task.file_name().to_str().and_then(|helper| helper.parse().ok());
            if let Some((asker, helper)) = asker.zip(helper) {
                helpers.entry(asker).or_default().push(helper);
            }
        }
        Helpers(helpers)
    }
}

/// Processor time of a thread of this process so far, including that of its helpers: user and system, in
/// nanoseconds. What a helper used that has ended by now is missing.
///
/// The sum is exact (the thread's CPU clock, as in pthread_getcpuclockid(3)). Its division is the kernel's
/// own estimate, with the resolution of its accounting (`/proc/self/task/TID/stat`).
///
/// # Errors
/// The kernel's error if the thread has ended.
pub fn cpu_time(thread: u32, helpers: &Helpers) -> io::Result<(u64, u64)> {
    let own = own_cpu_time(thread)?;
    // A helper that ends in the meantime is treated as ended.
    let helpers =
        helpers.0.get(&thread).into_iter().flatten().filter_map(|helper| own_cpu_time(*helper).ok());
    Ok(helpers.fold(own, |sum, helper| (sum.0 + helper.0, sum.1 + helper.1)))
}

fn own_cpu_time(thread: u32) -> io::Result<(u64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"))
        .map_err(|error| io::Errno::from_io_error(&error).unwrap_or(io::Errno::SRCH))?;
    let (user, system) = ticks(&stat).ok_or(io::Errno::INVAL)?;
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // The kernel's own encoding of a thread in the number of a clock: the complement of the thread's number,
    // then CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED (include/linux/posix-timers.h).
    let clock = ((!thread.cast_signed()) << 3) | 4 | 2;
    // SAFETY: the pointer is to a local that the call fills; an unknown clock is an error, not undefined.
    let result = unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Errno::SRCH);
    }
    // SAFETY: the call succeeded, so it has written the whole structure.
    let time = unsafe { time.assume_init() };
    let total_ns = time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned();
    let system_ns = match user + system {
        0 => total_ns,
        ticks => (u128::from(total_ns) * u128::from(system) / u128::from(ticks)) as u64,
    };
    Ok((total_ns - system_ns, system_ns))
}

/// User and system time in clock ticks, fields 14 and 15 of `/proc/PID/stat`. The second field is the name in
/// parentheses, which may itself contain blanks and parentheses (proc_pid_stat(5)).
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
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
    fn a_thread_that_works_uses_its_processor() {
        let (send, receive) = std::sync::mpsc::channel();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            // Its own time, not that of the wall, of which it may get little on a busy machine.
            let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            while used().tv_sec == 0 && used().tv_nsec < 60_000_000 {
                std::hint::black_box(std::fs::metadata("/").is_ok());
            }
            send.send(id()).unwrap();
            let _ = wait.recv();
        });
        let thread = receive.recv().unwrap();
        let (user, system) = cpu_time(thread, &Helpers::default()).unwrap();
        drop(go_on);
        worker.join().unwrap();
        assert!((1_000_000..10_000_000_000).contains(&(user + system)), "{user} + {system}");
        // The kernel wakes whoever joins a thread before it has taken the thread off its list.
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while cpu_time(thread, &Helpers::default()).is_ok() {
            assert!(std::time::Instant::now() < patience, "a thread that ended still has its time");
            std::thread::yield_now();
        }
    }

    #[test]
    fn times_are_found_behind_a_strange_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 57 6 7 8 20 0 1 0 98765";
        assert_eq!(ticks(stat), Some((57, 6)));
        assert_eq!(ticks("42 (a"), None);
    }

    #[test]
    fn closing_reports_and_frees() {
        let file = OwnedFd::from(File::open("/dev/null").unwrap());
        assert_eq!(close(file), Ok(()));
    }
}
