//! The requirements of a test on the machine, and how to find those that are not met.

use std::fs;
use std::path::Path;

/// Something that a test needs from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// Effective user 0.
    Root,
    /// `/dev/loop-control`.
    Loop,
    /// `/dev/fuse`.
    Fuse,
    /// The means to show a disk of which every request is known: FUSE and loop devices. fsdyno shows it below
    /// `/run`, and attaches it to a loop device.
    Recorder,
    /// The same, to be killed: until such a disk is taken down, mkfs.btrfs fails on whatever it examines.
    DyingRecorder,
    /// That nobody shows such a disk meanwhile. Whoever runs the tests sees to it.
    NoRecorder,
    /// io_uring, which the kernel has one switch for: those who need it and those who turn it off take turns.
    IoUring,
    /// Landlock that refuses truncation, too (Linux 6.2).
    Landlock,
    /// Memory cgroups, of version 1, or of version 2 and passed on by some group.
    MemoryGroups,
    /// The kernel's tracing (tracefs).
    Tracing,
    /// A program in the usual places or in PATH.
    Program(&'static str),
    /// A variable of the environment.
    Variable(&'static str),
    /// A filesystem that the kernel has.
    Filesystem(&'static str),
    /// That no other test runs meanwhile, for what compares times, depends on the machine's caches or takes
    /// something from all programs. Whoever runs the tests sees to it.
    Quiet,
    /// That the rest exists, and nothing more: the test looks at the machine and uses none of its devices.
    OnlyLooks,
    /// Room for images and directories of its own: the test names no device, and looks at nothing that others
    /// have. Whoever runs the tests may run several of them at once.
    OwnImages,
    /// Time for the long run before a release, which this is left to: `scripts/soak faults`. Whoever runs the
    /// tests sees to it.
    Soak,
    /// All of these.
    All(&'static [Requirement]),
}

impl Requirement {
    /// Returns whether this is the given requirement, or has it among its parts.
    pub fn includes(self, requirement: Requirement) -> bool {
        match self {
            Requirement::All(all) => all.iter().any(|one| one.includes(requirement)),
            one => one == requirement,
        }
    }

    /// Returns the name of what is missing, or `None` if the requirement is met.
    pub fn unmet(self) -> Option<String> {
        let (met, text) = match self {
            Requirement::Root => (rustix::process::geteuid().is_root(), "root".to_string()),
            Requirement::Loop => (Path::new("/dev/loop-control").exists(), "loop devices".to_string()),
            Requirement::Fuse => (Path::new("/dev/fuse").exists(), "FUSE".to_string()),
            Requirement::IoUring => {
                let switch = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
                (switch.map_or(true, |switch| switch.trim() == "0"), "io_uring".to_string())
            }
            Requirement::Recorder | Requirement::DyingRecorder => {
                return Requirement::All(&[Requirement::Fuse, Requirement::Loop]).unmet();
            }
            Requirement::Landlock => (fsdyno_sys::confine::abi() >= 3, "Landlock of Linux 6.2".to_string()),
            Requirement::MemoryGroups => {
                let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
                let passed_on =
                    fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control").unwrap_or_default();
                let unified = passed_on.split_whitespace().any(|controller| controller == "memory");
                (own.contains(":memory:") || unified, "memory cgroups".to_string())
            }
            Requirement::Tracing => (fsdyno_sys::tracefs::open().is_ok(), "tracefs".to_string()),
            Requirement::Program(name) => {
                let path = std::env::var("PATH").unwrap_or_default();
                let found = ["/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin", "/sbin", "/bin"]
                    .into_iter()
                    .chain(path.split(':'))
                    .any(|directory| Path::new(directory).join(name).exists());
                (found, format!("program {name}"))
            }
            Requirement::Variable(name) => {
                (std::env::var_os(name).is_some(), format!("environment variable {name}"))
            }
            Requirement::Filesystem(name) => {
                let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
                (known.split_whitespace().any(|word| word == name), format!("kernel filesystem {name}"))
            }
            Requirement::Quiet
            | Requirement::NoRecorder
            | Requirement::OnlyLooks
            | Requirement::OwnImages
            | Requirement::Soak => (true, String::new()),
            Requirement::All(all) => {
                let unmet: Vec<String> = all.iter().filter_map(|requirement| requirement.unmet()).collect();
                (unmet.is_empty(), unmet.join(", "))
            }
        };
        (!met).then_some(text)
    }
}
