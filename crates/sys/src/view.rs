//! A view of all filesystems in which only what was granted can be written to: a mount namespace of read-only
//! mounts (mount_namespaces(7), mount_setattr(2)).
//!
//! The kernel checks this flag of a mount at every change anyway, so it costs no operation anything; and it
//! applies to every thread that a process in the view starts.

use linux_raw_sys::general::{AT_RECURSIVE, MOUNT_ATTR_NODEV, MOUNT_ATTR_RDONLY, mount_attr};
use rustix::fs::{AtFlags, CWD, StatVfsMountFlags, StatxAttributes, StatxFlags, statvfs, statx};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::path::Arg;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::path::Path;

/// Devices that store nothing and that programs expect: null(4), random(4), tty(4).
const HARMLESS: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The files and devices that stay writable in a view.
#[derive(Debug, Clone, Copy, Default)]
pub struct Granted<'a> {
    /// Files, and directories with everything below them except what is mounted there: they can be changed.
    pub writable: &'a [&'a Path],
    /// Device nodes, which can be opened, in addition to `null`, `zero`, `full`, `random`, `urandom` and
    /// `tty`.
    pub devices: &'a [&'a Path],
    /// Mounts at paths that begin like this are left out of the view, except those that hold something
    /// writable. A view would keep what is mounted there from being unmounted outside, where mounts are
    /// private.
    pub left_out: Option<&'a str>,
}

/// Returns whether this kernel lets this process have such a view. This is tried on a separate thread.
pub fn possible() -> bool {
    let tried = || std::thread::spawn(|| enter(Granted::default())).join();
    matches!(tried(), Ok(Ok(true)))
}

/// Moves the calling thread, and everything that it starts from now on, into such a view; other threads stay
/// outside. What is unmounted outside is also unmounted in the view. What is open stays open as it is.
/// Returns `false`, without having restricted anything, if the kernel does not support this (before Linux
/// 5.12) or not for this process (without `CAP_SYS_ADMIN`, or if its root is not a mount).
///
/// # Errors
/// The kernel's error about a path that was granted.
pub fn enter(granted: Granted<'_>) -> io::Result<bool> {
    if set(Path::new(""), 0, 0, 0) == Err(Errno::NOSYS) {
        return Ok(false);
    }
    // SAFETY: descriptors stay shared; only the mounts, the root, the working directory and the memory shared
    // by System V's calls become this thread's own. The latter goes with the last process of the view, which
    // otherwise nobody removes.
    match unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWIPC) } {
        Ok(()) => {}
        Err(Errno::PERM) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    let root = Path::new("/");
    match mount_change(root, MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC) {
        Ok(()) => {}
        Err(Errno::INVAL) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    }
    if let Some(prefix) = granted.left_out {
        leave_out(prefix, granted.writable)?;
    }
    let harmless = HARMLESS.map(Path::new);
    let devices = harmless.iter().filter(|node| node.exists()).chain(granted.devices);
    let kept: Vec<(&Path, u32)> = (granted.writable.iter().map(|path| (*path, MOUNT_ATTR_RDONLY)))
        .chain(devices.map(|node| (*node, MOUNT_ATTR_NODEV)))
        .collect();
    // Each gets its own mount, so that it has its own flags; an existing mount needs no other one, which
    // every path into it would have to cross.
    for (path, _) in &kept {
        if !is_mount(path)? {
            mount_bind(*path, *path)?;
        }
    }
    // What nobody may write to stays as it is.
    let is_read_only = |path: &Path| {
        statvfs(path).is_ok_and(|filesystem| filesystem.f_flag.contains(StatVfsMountFlags::RDONLY))
    };
    let kept: Vec<(&Path, u32)> =
        kept.into_iter().filter(|(path, flag)| *flag != MOUNT_ATTR_RDONLY || !is_read_only(path)).collect();
    set(root, AT_RECURSIVE, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0)?;
    for (path, flag) in kept {
        set(path, 0, 0, flag)?;
    }
    Ok(true)
}

/// Detaches mounts of the calling thread's namespace.
fn leave_out(prefix: &str, writable: &[&Path]) -> io::Result<()> {
    let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo")?;
    // Paths are the fifth field (proc_pid_mountinfo(5)). Later mounts may be on earlier ones.
    let targets = mounts.lines().rev().filter_map(|line| line.split(' ').nth(4));
    for target in targets.filter(|target| target.starts_with(prefix)) {
        if !writable.iter().any(|path| path.starts_with(target)) {
            match unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                // It has been unmounted outside.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(())
}

/// Sets and clears flags of the mount at a path.
fn set(path: &Path, flags: u32, wanted: u32, cleared: u32) -> rustix::io::Result<()> {
    let change = mount_attr {
        attr_set: u64::from(wanted),
        attr_clr: u64::from(cleared),
        propagation: 0,
        userns_fd: 0,
    };
    path.into_with_c_str(|path| {
        // SAFETY: the path ends with a zero, and the structure has the size that is told; the kernel reads
        // both.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                path.as_ptr(),
                flags,
                &raw const change,
                size_of::<mount_attr>(),
            )
        };
        let errno = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
        if result == 0 { Ok(()) } else { Err(errno()) }
    })
}

/// Returns whether something is mounted at a path; kernels that cannot report this (before Linux 5.8) do not
/// support views either.
fn is_mount(path: &Path) -> rustix::io::Result<bool> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty())?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, OpenOptions};
    use std::process::Command;

    /// The result of an attempt inside of a view.
    fn tried<T: Send>(granted: Granted<'_>, attempt: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                assert!(enter(granted).expect("a view"));
                attempt()
            });
            inside.join().expect("the thread")
        })
    }

    fn is_refused<T>(result: io::Result<T>) -> bool {
        result.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }

    #[test]
    fn only_what_was_granted_can_be_written_to_by_the_thread_and_what_it_starts() {
        if !possible() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (inside, outside) = (path("inside"), path("outside"));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, "whole").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        tried(Granted { writable: &[&inside], ..Granted::default() }, || {
            fs::write(inside.join("new"), "text").unwrap();
            assert!(is_refused(fs::write(&outside, "text")));
            assert!(is_refused(fs::write(inside.join("link"), "text")));
            assert!(is_refused(fs::remove_file(inside.join("../outside"))));
            assert!(is_refused(File::create(path("other"))));
            assert!(fs::rename(inside.join("new"), path("new")).is_err());
            assert!(is_refused(fs::write("/proc/sys/vm/swappiness", "60")));
            let worker =
                std::thread::scope(|scope| scope.spawn(|| fs::remove_file(&outside)).join().unwrap());
            assert!(is_refused(worker));
            let program = Command::new("sh").args(["-c", "echo text > \"$0\""]).arg(&outside).output();
            assert!(!program.unwrap().status.success());
            fs::write("/dev/null", "text").unwrap();
        });
        assert_eq!(fs::read_to_string(&outside).unwrap(), "whole");
        assert!(inside.join("new").exists());
        fs::write(&outside, "free").unwrap();
    }

    #[test]
    fn no_device_can_be_opened_but_what_was_granted() {
        if !possible() {
            return;
        }
        // A device of a kind that every machine has, but not one of the harmless ones.
        let node = Path::new("/dev/kmsg");
        let open = || OpenOptions::new().read(true).open(node).map(drop).map_err(|error| error.kind());
        if open().is_err() {
            return;
        }
        assert_eq!(tried(Granted::default(), open), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(tried(Granted { devices: &[node], ..Granted::default() }, open), Ok(()));
        assert_eq!(open(), Ok(()));
    }

    #[test]
    fn mounts_that_are_left_out_are_gone_from_the_view_only() {
        if !possible() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (own, other) = (path("m-own"), path("m-other"));
        // In a namespace of its own, so that nothing of it is left if this fails.
        let outside = || {
            assert!(enter(Granted { writable: &[directory.path()], ..Granted::default() }).expect("a view"));
            for mount in [&own, &other] {
                fs::create_dir(mount).unwrap();
                mount_bind(directory.path(), mount).unwrap();
            }
            let prefix = path("m-");
            let left_out = prefix.to_str();
            let seen = tried(Granted { writable: &[&own], left_out, ..Granted::default() }, || {
                [&own, &other].map(|mount| is_mount(mount).unwrap())
            });
            assert_eq!(seen, [true, false]);
            assert_eq!([&own, &other].map(|mount| is_mount(mount).unwrap()), [true, true]);
        };
        std::thread::scope(|scope| scope.spawn(outside).join().unwrap());
    }

    /// Root in a view has no more rights than outside.
    #[test]
    fn what_is_mounted_read_only_stays_so() {
        if !possible() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let outside = || {
            assert!(enter(Granted { writable: &[directory.path()], ..Granted::default() }).expect("a view"));
            set(directory.path(), 0, MOUNT_ATTR_RDONLY, 0).unwrap();
            let written = tried(Granted { writable: &[directory.path()], ..Granted::default() }, || {
                fs::write(directory.path().join("new"), "text")
            });
            assert!(is_refused(written));
        };
        std::thread::scope(|scope| scope.spawn(outside).join().unwrap());
    }

    #[test]
    fn what_is_not_there_cannot_be_granted() {
        if !possible() {
            return;
        }
        let absent = [Path::new("/absent/directory")];
        let entered = std::thread::scope(|scope| {
            let enter =
                || enter(Granted { writable: &absent, ..Granted::default() }).map_err(|error| error.kind());
            scope.spawn(enter).join().expect("the thread")
        });
        assert_eq!(entered, Err(io::ErrorKind::NotFound));
    }
}
