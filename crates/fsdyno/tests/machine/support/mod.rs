//! The harness: requirements, the state of the machine before and after, and how to run the built binary.

pub mod disk;
pub mod guarded;
pub mod hosts;
mod lanes;
mod machine;
pub mod sick;

pub use fsdyno_testkit::Requirement;
pub use machine::Machine;

use lanes::{prefix, print_slowest};
use libtest_mimic::{Arguments, Conclusion, Trial};
use machine::{disks_of_others, fuse_mounts, use_loop_devices_once};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// ID of the user and the group without privileges.
pub const NOBODY: u32 = 65534;

/// Declares the tests of a file, as its `tests()`: `name: requirements;`, each the function of that name, or
/// `name: requirements => closure;`. The compiler rejects a test that is not declared, as code that is never
/// used.
macro_rules! tests {
    ($($name:ident: $requires:expr $(=> $body:expr)?;)+) => {
        pub fn tests() -> Vec<$crate::support::Test> {
            vec![$($crate::support::Test {
                name: concat!(module_path!(), "::", stringify!($name)),
                requires: $requires,
                body: tests!(@body $name $($body)?),
            }),+]
        }
    };
    (@body $name:ident) => { $name };
    (@body $name:ident $body:expr) => { $body };
}

/// A test with its requirements.
#[derive(Clone)]
pub struct Test {
    /// `machine::area::what_must_hold`.
    pub name: &'static str,
    /// Everything that it needs.
    pub requires: &'static [Requirement],
    /// Panics if it does not hold.
    pub body: fn(),
}

/// What is needed to create and mount ext4, xfs and btrfs.
pub const MAKING_FILESYSTEMS: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("mkfs.ext4"),
    Requirement::Program("mkfs.xfs"),
    Requirement::Program("mkfs.btrfs"),
    Requirement::Filesystem("ext4"),
    Requirement::Filesystem("xfs"),
    Requirement::Filesystem("btrfs"),
];

/// The same for images of the test's own: all of them in its sandbox, or in directories of
/// [`on_disk`] and [`in_memory`].
pub const MAKING_OWN_FILESYSTEMS: &[Requirement] =
    &[Requirement::All(MAKING_FILESYSTEMS), Requirement::OwnImages];

/// For images of the test's own, too.
pub const ROOT_AND_OWN_IMAGES: &[Requirement] =
    &[Requirement::Root, Requirement::Loop, Requirement::OwnImages];

impl Test {
    fn into_trial(self) -> Trial {
        let unmet: Vec<String> = self.requires.iter().filter_map(|requirement| requirement.unmet()).collect();
        if !unmet.is_empty() {
            eprintln!("skipped {}: requires {}", self.shown(), unmet.join(", "));
        }
        Trial::test(self.shown(), move || self.run()).with_ignored_flag(!unmet.is_empty())
    }

    /// Its name without that of the suite, which its file is called after.
    fn shown(&self) -> &'static str {
        self.name.split_once("::").map_or(self.name, |(_, name)| name)
    }

    fn needs(&self, requirement: Requirement) -> bool {
        self.requires.iter().any(|one| match one {
            Requirement::All(all) => all.contains(&requirement),
            one => *one == requirement,
        })
    }
}

/// Runs the tests, those that need the machine for themselves first. The state of the machine is recorded
/// before and after those that run on the machine itself.
pub fn run(tests: Vec<Test>) {
    let mut arguments = Arguments::from_args();
    let (quiet, mut others): (Vec<Test>, Vec<Test>) =
        tests.into_iter().partition(|test| test.needs(Requirement::Quiet));
    // Those that let nobody else run wait until the others have ended.
    others.sort_by_key(|test| (test.disturbs(), test.place()));
    if !arguments.list {
        use_loop_devices_once();
    }
    let (before, disks) = (fuse_mounts(), disks_of_others());
    let mut run = |tests: Vec<Test>, at_once| {
        arguments.test_threads = Some(at_once);
        let trials = tests.into_iter().map(Test::into_trial).collect();
        libtest_mimic::run(&arguments, trials)
    };
    let quiet = run(quiet, 1);
    // scripts/test waits for this file before it runs the other suites beside this one.
    if let Some(path) = std::env::var_os("FSDYNO_QUIET_ENDED") {
        fs::write(path, "").expect("a file in the directory of scripts/test");
    }
    // They wait for their turns in their lanes.
    let others_at_once = others.len().max(1);
    let conclusions = [quiet, run(others, others_at_once)];
    print_slowest();
    assert_eq!(fuse_mounts(), before, "a test left a FUSE filesystem mounted");
    assert_eq!(disks_of_others(), disks, "a test left a disk of its own attached");
    conclusions.iter().for_each(Conclusion::exit_if_failed);
}

/// Copies a program. A separate process does it: if this one had the copy open for writing, a child that
/// another test starts at that moment would inherit the descriptor, and until that child calls exec nobody
/// could run the copy.
pub fn install(program: &Path, copy: &Path) {
    let output =
        Command::new("install").args(["-m", "755"]).args([program, copy]).output().expect("install runs");
    assert!(output.status.success(), "{}", describe(&output));
}

/// A directory of a test on a disk, not in memory.
pub fn on_disk() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix(prefix()).tempdir_in("/var/tmp");
    directory.expect("a directory on a disk")
}

/// A directory of a test in memory, where there is such.
pub fn in_memory() -> tempfile::TempDir {
    fsdyno_testkit::in_memory_named(prefix())
}

/// A directory for one test, with its own store and undo journal, removed at the end.
pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    /// In the default temporary directory.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix(prefix()).tempdir();
        Sandbox { directory: directory.expect("a temporary directory") }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("write into the sandbox");
        path
    }

    /// Creates directories and gives them to a user without privileges, together with a copy of the binary,
    /// because that user may not be able to read the build directory. Returns the path of the copy.
    pub fn give_away(&self, directories: &[&str]) -> PathBuf {
        for name in directories {
            let path = self.path(name);
            fs::create_dir_all(&path).expect("a directory");
            chown(&path, Some(NOBODY), Some(NOBODY)).expect("give it away");
        }
        let binary = self.path("fsdyno");
        install(Path::new(env!("CARGO_BIN_EXE_fsdyno")), &binary);
        binary
    }

    /// The binary with the sandbox as its state directory.
    pub fn fsdyno(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.args(arguments).env("XDG_STATE_HOME", self.path("state")).current_dir(self.directory.path());
        command
    }

    /// Runs the binary until it ends.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.fsdyno(arguments).output().expect("run fsdyno")
    }

    /// Runs the binary, which succeeds or has warnings, and requires that it prints all of these texts.
    pub fn shows(&self, arguments: &[&str], texts: &[&str]) {
        let output = self.run(arguments);
        assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", describe(&output));
        let shown = String::from_utf8_lossy(&output.stdout);
        for text in texts {
            assert!(shown.contains(text), "{arguments:?}: no '{text}' in:\n{shown}");
        }
    }

    /// Runs the binary under strace with these options, and returns what strace wrote as well.
    pub fn traced(&self, options: &[&str], arguments: &[&str]) -> (Output, String) {
        let (fsdyno, trace) = (self.fsdyno(arguments), self.path("trace"));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq"]).args(options).arg("-o").arg(&trace);
        strace.arg(fsdyno.get_program()).args(fsdyno.get_args());
        let variables = fsdyno.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let output = strace.envs(variables).current_dir(self.directory.path()).output().expect("run strace");
        (output, fs::read_to_string(trace).expect("the trace"))
    }

    /// Runs a plan, every trial of which must be measured.
    pub fn sweep(&self, plan: &str) -> Output {
        self.write("plan.toml", plan);
        let swept = self.run(&["sweep", "plan.toml"]);
        assert_eq!(swept.status.code(), Some(0), "{}", describe(&swept));
        swept
    }

    /// The sweep that began last as stored, however it ended.
    pub fn stored(&self) -> Value {
        let list = json(&self.run(&["list", "--format", "json"]));
        let last = list.as_array().and_then(|sweeps| sweeps.last()).expect("a sweep");
        json(&self.run(&["show", last["selector"].as_str().expect("a selector"), "--format", "json"]))
    }
}

/// What a run printed.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", describe(output)))
}

/// Exit code, stdout and stderr of a run, for assertion messages.
pub fn describe(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
