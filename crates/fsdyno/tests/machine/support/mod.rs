//! The harness: requirements, the state of the machine before and after, and how to run the built binary.

pub mod disk;
pub mod guarded;
pub mod hosts;
mod lanes;
pub mod sick;

pub use fsdyno_testkit::Requirement;

use fsdyno_host::setting::lasting_attributes;
use lanes::{APART, GUESTS, IMAGES, Lane, MACHINE, Member, ON_IMAGES, ON_RECORDED_DISKS, RECORDED};
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

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

/// The requirements for creating and mounting ext4, xfs and btrfs.
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

/// The same, for tests on images of their own.
pub const MAKING_ON_IMAGES: &[Requirement] = &[Requirement::All(MAKING_FILESYSTEMS), Requirement::OwnImages];

impl Test {
    fn into_trial(self) -> Trial {
        let unmet: Vec<String> = self.requires.iter().filter_map(|requirement| requirement.unmet()).collect();
        if !unmet.is_empty() {
            eprintln!("skipped {}: requires {}", self.shown(), unmet.join(", "));
        }
        let (name, member) = (self.shown(), self.group());
        let run = move || {
            let result = self.run();
            drop(member);
            result
        };
        Trial::test(name, run).with_ignored_flag(!unmet.is_empty())
    }

    /// Its name without that of the suite, which its file is called after.
    fn shown(&self) -> &'static str {
        self.name.split_once("::").map_or(self.name, |(_, name)| name)
    }

    fn needs(&self, requirement: Requirement) -> bool {
        Requirement::All(self.requires).includes(requirement)
    }

    /// Returns whether the test's disks, or those of its guests, are files that fsdyno shows below `/run`.
    fn is_recorded(&self) -> bool {
        self.needs(Requirement::Recorder) || self.emulates() && self.needs(Requirement::Fuse)
    }

    /// Returns whether the test disturbs those on recorded disks, or is disturbed by them: it makes mount
    /// namespaces, kills the process that shows the disk, or looks for whatever is left in `/run`.
    fn disturbs(&self) -> bool {
        [Requirement::Program("unshare"), Requirement::DyingRecorder, Requirement::NoRecorder]
            .iter()
            .any(|requirement| self.needs(*requirement))
    }

    /// Returns whether the test uses nothing of the machine that others use, except that it may mount FUSE
    /// filesystems.
    fn is_apart(&self) -> bool {
        if self.needs(Requirement::OnlyLooks) {
            return true;
        }
        let elsewhere = self.emulates() || self.needs(Requirement::Fuse);
        let shares = self.needs(Requirement::Loop) || self.needs(Requirement::IoUring);
        !shares && (elsewhere || !self.needs(Requirement::Root))
    }

    /// Returns whether the test boots virtual machines, which keep a processor busy.
    fn emulates(&self) -> bool {
        self.needs(Requirement::Program("qemu-system-x86_64"))
    }

    /// Returns whether it runs beside others that are on images of their own, too.
    fn runs_beside_others(&self) -> bool {
        self.needs(Requirement::OwnImages) && !self.needs(Requirement::Quiet)
    }

    /// Makes it one of the tests that others wait for, if it is.
    fn group(&self) -> Option<Member> {
        if self.is_recorded() {
            Some(ON_RECORDED_DISKS.member())
        } else {
            self.runs_beside_others().then(|| ON_IMAGES.member())
        }
    }

    /// Returns the tests that it takes turns with, and what they are called.
    fn lane(&self) -> (&'static Lane, &'static str) {
        match self.is_recorded() {
            true => (&RECORDED, "on recorded disks"),
            false if self.is_apart() && self.emulates() => (&GUESTS, "in guests"),
            false if self.is_apart() => (&APART, "apart"),
            false if self.runs_beside_others() => (&IMAGES, "on images of their own, two at once"),
            false => (&MACHINE, "on the machine's own devices"),
        }
    }

    fn run(&self) -> Result<(), Failed> {
        let (lane, among) = self.lane();
        let is_alone = std::ptr::eq(lane, &MACHINE);
        let among =
            if self.needs(Requirement::Quiet) { "that need the machine for themselves" } else { among };
        if is_alone && !self.needs(Requirement::Quiet) {
            ON_IMAGES.wait_for_all();
        }
        if self.disturbs() {
            ON_RECORDED_DISKS.wait_for_all();
        }
        lane.run(|| {
            timed(self.shown(), among, || match is_alone {
                true => guarded(self.body),
                false if self.emulates() => yielding(|| outcome(catch_unwind(self.body))),
                false => outcome(catch_unwind(self.body)),
            })
        })
    }
}

/// Runs this and whatever it starts with a lower priority: the tests on the machine's own devices decide how
/// long the suite takes, and emulated processors take whatever they can get.
fn yielding<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let lowered = scope.spawn(|| {
            // Without it, the suite takes longer; with more, it never ends beside others that work.
            let _ = rustix::process::nice(2);
            run()
        });
        lowered.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Set for the long run before a release, whose tests then run in place of the others.
const SOAK: &str = "FSDYNO_SOAK";

/// Runs the tests, those that need the machine for themselves first. The state of the machine is recorded
/// before and after each of those that run on the machine itself, and before and after all others.
pub fn run(mut tests: Vec<Test>) {
    let mut arguments = Arguments::from_args();
    let soak = std::env::var_os(SOAK).is_some();
    tests.retain(|test| test.needs(Requirement::Soak) == soak);
    let (quiet, others): (Vec<Test>, Vec<Test>) =
        tests.into_iter().partition(|test| test.needs(Requirement::Quiet));
    if !arguments.list {
        use_loop_devices_once();
    }
    let before = &fuse_mounts() | &recorded_disks();
    let machine = Machine::look();
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
    // What other programs of this machine have there meanwhile is gone sooner or later.
    let mut left = &(&fuse_mounts() | &recorded_disks()) - &before;
    wait_until(&format!("{left:#?} are removed"), || {
        left.retain(|one| fuse_mounts().contains(one) || recorded_disks().contains(one));
        left.is_empty()
    });
    // Settings of loop devices are compared around tests that run alone: those of recorded disks come and go.
    let changed = lasting_difference(&machine, |line| !line.contains(" queue/"));
    assert!(changed.is_empty(), "some test left the machine changed:\n{}", changed.join("\n"));
    conclusions.iter().for_each(Conclusion::exit_if_failed);
}

/// Recent kernels (seen with 6.18) reset the readahead of a loop device when a file is attached. A loop
/// device that was never used has another readahead, which the first test that uses it could not restore.
fn use_loop_devices_once() {
    if Requirement::Root.unmet().is_some() {
        return;
    }
    let image = tempfile::NamedTempFile::new().expect("a temporary file");
    image.as_file().set_len(1 << 20).expect("a sparse file");
    for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = block.file_name().to_string_lossy().into_owned();
        if name.starts_with("loop") && !block.path().join("loop/backing_file").exists() {
            let node = format!("/dev/{name}");
            // A loop device that cannot be used is not used by any test either.
            let attached = Command::new("losetup").arg(&node).arg(image.path()).output();
            if attached.is_ok_and(|output| output.status.success()) {
                let _ = Command::new("losetup").args(["--detach", &node]).output();
            }
        }
    }
}

/// The duration of each test with its lane, to find out which ones slow the suite down.
static TOOK: Mutex<Vec<(Duration, &str, &str)>> = Mutex::new(Vec::new());
const SLOWEST: usize = 10;
/// The time in which the machine may become again what it was.
const SETTLING: Duration = Duration::from_secs(10);

fn timed(
    name: &'static str,
    lane: &'static str,
    run: impl FnOnce() -> Result<(), Failed>,
) -> Result<(), Failed> {
    let begin = Instant::now();
    let result = run();
    TOOK.lock().expect("no thread has panicked").push((begin.elapsed(), name, lane));
    result
}

fn print_slowest() {
    let mut took = std::mem::take(&mut *TOOK.lock().expect("no thread has panicked"));
    took.sort_unstable();
    let mut lanes: BTreeMap<&str, Vec<(Duration, &str)>> = BTreeMap::new();
    for (took, name, lane) in took.into_iter().rev() {
        lanes.entry(lane).or_default().push((took, name));
    }
    for (lane, tests) in lanes {
        let all: Duration = tests.iter().map(|(took, _)| *took).sum();
        eprintln!("{:6.1} s one after the other: tests {lane}", all.as_secs_f64());
        for (took, name) in tests.iter().take(SLOWEST) {
            eprintln!("{:11.1} s {name}", took.as_secs_f64());
        }
    }
}

fn guarded(body: fn()) -> Result<(), Failed> {
    let before = Machine::look();
    let result = catch_unwind(body);
    let difference = lasting_difference(&before, |_| true);
    outcome(result)?;
    match difference {
        difference if difference.is_empty() => Ok(()),
        difference => Err(format!("the test left the machine changed:\n{}", difference.join("\n")).into()),
    }
}

/// The differences from before that count, once they no longer go away by themselves: a loop device that
/// another program has open for a moment is detached when that closes it (losetup(8)).
fn lasting_difference(before: &Machine, counts: impl Fn(&str) -> bool) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let mut difference = before.difference(&Machine::look());
        difference.retain(|line| counts(line));
        if difference.is_empty() || begin.elapsed() > SETTLING {
            return difference;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The result of a test that may have panicked.
fn outcome(result: std::thread::Result<()>) -> Result<(), Failed> {
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default().into()
    })
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

fn is_fuse(line: &str) -> bool {
    line.split_once(" - ").is_some_and(|(_, mount)| mount.starts_with("fuse"))
}

fn fuse_mounts() -> BTreeSet<String> {
    mounts().lines().filter(|line| is_fuse(line)).map(str::to_string).collect()
}

/// The loop devices of disks that fsdyno shows below `/run`.
fn recorded_disks() -> BTreeSet<String> {
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let recorded = blocks.filter(|block| is_recorded(&block.path()));
    recorded.map(|block| block.file_name().to_string_lossy().into_owned()).collect()
}

fn is_recorded(block: &Path) -> bool {
    fs::read_to_string(block.join("loop/backing_file")).is_ok_and(|file| file.starts_with("/run/fsdyno-"))
}

/// The state that a test must not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    state: BTreeMap<String, String>,
    /// Loop devices that tests on recorded disks used meanwhile, whose settings say nothing.
    others: BTreeSet<String>,
}

impl Machine {
    /// Loop devices, mounts, queue settings, `vm` sysctls and complaints in the kernel log. Tests that run in
    /// parallel mount FUSE filesystems and disks on them, so those are compared when all tests have ended.
    pub fn look() -> Self {
        let mut state = BTreeMap::new();
        let mut others = recorded_disks();
        let mounts = mounts();
        others.extend(recorded_disks());
        let is_others = |line: &str| {
            let source = line.split_once(" - ").and_then(|(_, mount)| mount.split(' ').nth(1));
            source.and_then(|source| source.strip_prefix("/dev/")).is_some_and(|name| others.contains(name))
        };
        for line in mounts.lines().filter(|line| !is_fuse(line) && !is_others(line)) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            state.insert(format!("mount {}", fields[4]), fields[5..].join(" "));
        }
        for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let name = block.file_name().to_string_lossy().into_owned();
            let is_recorded = || is_recorded(&block.path());
            if is_recorded() {
                others.insert(name.clone());
            }
            // A loop device without a backing file still has its settings, and they must be as before.
            let settings = lasting_attributes(&name).map(|attribute| format!("queue/{attribute}"));
            for file in settings.chain(["loop/backing_file".to_string()]) {
                if let Ok(text) = fs::read_to_string(block.path().join(&file)) {
                    state.insert(format!("block {name} {file}"), text.trim().to_string());
                }
            }
            // It may have been attached or detached meanwhile.
            if is_recorded() {
                others.insert(name);
            }
        }
        for setting in fs::read_dir("/proc/sys/vm").into_iter().flatten().flatten() {
            let name = setting.file_name().to_string_lossy().into_owned();
            if name.starts_with("dirty") {
                state.insert(
                    format!("sysctl vm.{name}"),
                    fs::read_to_string(setting.path()).unwrap_or_default(),
                );
            }
        }
        let log = Command::new("dmesg").output().map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
        let complaints = ["BUG:", "WARNING:", "Oops", "blocked for more than"];
        for line in
            log.unwrap_or_default().lines().filter(|line| complaints.iter().any(|word| line.contains(word)))
        {
            state.insert(format!("kernel log {line}"), String::new());
        }
        Machine { state, others }
    }

    /// The differences, one line each. Loop nodes that were added without being attached do not count.
    pub fn difference(&self, after: &Machine) -> Vec<String> {
        let mut lines = Vec::new();
        let of_others = |key: &str| {
            let name = key.strip_prefix("block ").and_then(|rest| rest.split(' ').next());
            name.is_some_and(|name| self.others.contains(name) || after.others.contains(name))
        };
        for (key, value) in after.state.iter().filter(|(key, _)| !of_others(key)) {
            match self.state.get(key) {
                Some(old) if old != value => lines.push(format!("{key}: '{old}' became '{value}'")),
                Some(_) => {}
                None if key.starts_with("block") && !key.contains("backing_file") => {}
                None => lines.push(format!("{key}: new, '{value}'")),
            }
        }
        let is_gone = |key: &str| !after.state.contains_key(key) && !key.starts_with("kernel log");
        let gone = self.state.iter().filter(|(key, _)| is_gone(key) && !of_others(key));
        lines.extend(gone.map(|(key, value)| format!("{key}: gone, was '{value}'")));
        lines
    }
}

/// Copies a program. A separate process does it: if this one had the copy open for writing, a child that
/// another test starts at that moment would inherit the descriptor, and until that child calls exec nobody
/// could run the copy.
pub fn install(program: &Path, copy: &Path) {
    let output =
        Command::new("install").args(["-m", "755"]).args([program, copy]).output().expect("install runs");
    assert!(output.status.success(), "{}", describe(&output));
}

/// A directory for one test, with its own store and undo journal, removed at the end.
pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    /// In the default temporary directory.
    pub fn new() -> Self {
        Sandbox { directory: tempfile::tempdir().expect("a temporary directory") }
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

    /// The binary with the sandbox as its state directory, and lines of its own width, whatever the terminal.
    pub fn fsdyno(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        command.args(arguments).env("XDG_STATE_HOME", self.path("state")).current_dir(self.directory.path());
        command.env_remove("COLUMNS");
        command
    }

    /// Runs the binary until it ends.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.fsdyno(arguments).output().expect("run fsdyno")
    }

    /// Runs the binary and kills it as soon as a line on stderr contains this text.
    pub fn kill_at(&self, arguments: &[&str], text: &str) {
        let mut command = self.fsdyno(arguments);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("run fsdyno");
        let lines = BufReader::new(running.stderr.take().expect("a pipe")).lines();
        for line in lines.map_while(Result::ok) {
            if line.contains(text) {
                running.kill().expect("send SIGKILL");
            }
        }
        running.wait().expect("its end");
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

/// Longer than anything takes that a test waits for, however busy the machine: only a test that hangs waits
/// for so long.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until there is what a test needs to go on; fails with the message of `otherwise` if it never comes.
pub fn wait_for<T>(mut found: impl FnMut() -> Option<T>, otherwise: impl Fn() -> String) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until this holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(|| holds().then_some(()), || format!("never happened: {what}"));
}

/// Unmounts what is mounted there, if anything is. A program that another test starts at that moment has what
/// this one had open there, until it calls exec. What stays mounted, the harness finds.
pub fn unmount(mountpoint: &Path) {
    let is_mounted =
        || mounts().lines().any(|line| line.split(' ').nth(4).map(Path::new) == Some(mountpoint));
    let begin = Instant::now();
    while is_mounted() && begin.elapsed() < SETTLING {
        let unmounted = Command::new("umount").arg(mountpoint).output();
        if !unmounted.is_ok_and(|output| output.status.success()) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the JSON that a run printed.
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
