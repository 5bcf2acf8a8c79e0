//! The changes that a program or a thread may make: the kernel's Landlock (landlock(7)).
//!
//! Whatever a [`Ruleset`] does not grant is blocked: writing, truncating, creating and removing names, ioctls
//! of devices, TCP, and signals and abstract sockets beyond the confined processes. Reading and executing
//! stay allowed. A kernel enforces as much of this as its version of Landlock supports ([`abi`], [`beyond`]).

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset as Wanted,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The version of the interface from which each kind of access can be blocked, with the Linux version that
/// introduced it.
const KINDS: &[(u32, &str)] = &[
    (1, "writing, making and removing files"),
    (3, "truncating files (Linux 6.2)"),
    (4, "TCP (Linux 6.7)"),
    (5, "ioctls of devices (Linux 6.10)"),
    (6, "signals and abstract sockets (Linux 6.12)"),
];

/// The permission that is granted on a file or below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To write and truncate this file or device, and the ioctls of a device.
    File,
    /// The ioctls of this device, but not writing to it.
    Control,
    /// To change everything below this directory, except creating device nodes and using ioctls.
    Tree,
    /// To create and remove device nodes, links and directories below this directory, and the ioctls of
    /// devices, but not writing to them.
    Nodes,
}

impl Access {
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            Access::File => make_bitflags!(AccessFs::{WriteFile | Truncate | IoctlDev}),
            Access::Control => AccessFs::IoctlDev.into(),
            Access::Tree => handled() & !make_bitflags!(AccessFs::{MakeBlock | MakeChar | IoctlDev}),
            Access::Nodes => {
                make_bitflags!(AccessFs::{MakeBlock | MakeSym | MakeDir | RemoveFile | RemoveDir | Refer | IoctlDev})
            }
        }
    }
}

/// Every way to change a filesystem that Landlock can block.
fn handled() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI::V5)
}

/// Version of this kernel's Landlock; 0 if it has none, or if it was not enabled at boot.
pub fn abi() -> u32 {
    const VERSION: u32 = 1; // LANDLOCK_CREATE_RULESET_VERSION
    // SAFETY: with this flag the call takes no pointer and no size; it makes nothing and answers with a
    // number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}

/// Returns the kinds of access that a Landlock of this version blocks.
pub fn refused(abi: u32) -> Vec<&'static str> {
    KINDS.iter().filter(|(since, _)| *since <= abi).map(|(_, kind)| *kind).collect()
}

/// Returns the kinds of access that a Landlock of this version does not block, although it should.
pub fn beyond(abi: u32) -> Vec<&'static str> {
    KINDS.iter().filter(|(since, _)| *since > abi).map(|(_, kind)| *kind).collect()
}

/// Everything that may be changed.
#[derive(Debug)]
pub struct Ruleset(OwnedFd);

impl Ruleset {
    /// A ruleset with what is granted at each of these paths; a missing path cannot be granted. `None`: this
    /// kernel has no Landlock.
    ///
    /// # Errors
    /// The kernel's error; a kernel that enforces only part of it is not an error.
    pub fn new<P: AsRef<Path>>(grants: impl IntoIterator<Item = (P, Access)>) -> io::Result<Option<Self>> {
        if abi() == 0 {
            return Ok(None);
        }
        let refused = |error: RulesetError| io::Error::other(error);
        let mut ruleset = Wanted::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(handled())
            .and_then(|wanted| wanted.handle_access(AccessNet::from_all(ABI::V4)))
            .and_then(|wanted| wanted.scope(Scope::from_all(ABI::V6)))
            .and_then(Wanted::create)
            .map_err(refused)?;
        for (path, access) in grants {
            match rustix::fs::open(path.as_ref(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
                Ok(file) => {
                    ruleset = ruleset.add_rule(PathBeneath::new(file, access.rights())).map_err(refused)?;
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Option::<OwnedFd>::from(ruleset).map(Ruleset))
    }

    /// Confines the calling thread, and everything that it starts from now on; other threads are not
    /// affected. There is no way back, and executing a program can no longer gain privileges, which the
    /// kernel requires.
    ///
    /// This makes two system calls and nothing else, so that it can be done between fork and exec.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn restrict_thread(&self) -> io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the descriptor is open, for this owns it; the call takes two integers and touches no
        // memory.
        let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0_u32) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    /// Returns the result of an attempt in a thread that is confined to these grants.
    fn tried(grants: &[(&Path, Access)], attempt: impl FnOnce() -> io::Result<()> + Send) -> io::Result<()> {
        let ruleset = Ruleset::new(grants.iter().copied()).unwrap().expect("Landlock");
        std::thread::scope(|scope| {
            let confined = scope.spawn(|| {
                ruleset.restrict_thread().unwrap();
                attempt()
            });
            confined.join().unwrap()
        })
    }

    fn denied(result: io::Result<()>) -> bool {
        result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    #[test]
    fn each_version_refuses_more_and_every_kind_is_either_refused_or_not() {
        for abi in 0..=7 {
            assert_eq!(refused(abi).len() + beyond(abi).len(), KINDS.len());
        }
        assert_eq!((refused(0).len(), beyond(6).len()), (0, 0));
        assert_eq!(refused(2), ["writing, making and removing files"]);
    }

    #[test]
    fn no_grant_reaches_beyond_what_is_handled_and_only_one_makes_nodes() {
        let all = [Access::File, Access::Control, Access::Tree, Access::Nodes];
        assert!(all.iter().all(|access| handled().contains(access.rights())));
        let makes_nodes =
            |access: &&Access| access.rights().intersects(AccessFs::MakeBlock | AccessFs::MakeChar);
        assert_eq!(all.iter().filter(makes_nodes).collect::<Vec<_>>(), [&Access::Nodes]);
        assert!(!Access::Nodes.rights().intersects(AccessFs::WriteFile | AccessFs::Truncate));
    }

    #[test]
    fn what_is_not_granted_is_refused_to_the_thread_alone() {
        if abi() < 3 {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("inside"), directory.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, "whole").unwrap();
        let tree = [(inside.as_path(), Access::Tree)];
        tried(&tree, || fs::write(inside.join("new"), "text")).unwrap();
        assert!(denied(tried(&tree, || fs::write(&outside, "text"))));
        assert!(denied(tried(&tree, || fs::remove_file(&outside))));
        assert!(denied(tried(&tree, || fs::rename(inside.join("new"), directory.path().join("new")))));
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        assert!(denied(tried(&tree, || fs::write(inside.join("link"), "text"))));
        assert!(denied(tried(&tree, || File::create(directory.path().join("other")).map(drop))));
        assert_eq!(
            tried(&tree, || fs::read_to_string(&outside).map(drop)).map_err(|error| error.kind()),
            Ok(())
        );
        assert_eq!(fs::read_to_string(&outside).unwrap(), "whole");
        fs::write(&outside, "free").unwrap();
    }

    #[test]
    fn a_file_is_granted_without_its_neighbours() {
        if abi() < 3 {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        fs::write(&one, "").unwrap();
        fs::write(&other, "").unwrap();
        let file = [(one.as_path(), Access::File)];
        tried(&file, || fs::write(&one, "text")).unwrap();
        assert!(denied(tried(&file, || fs::write(&other, "text"))));
        assert!(denied(tried(&file, || fs::remove_file(&one))));
    }
}
