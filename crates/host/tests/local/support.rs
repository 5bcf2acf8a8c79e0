//! The harness: requirements, a directory of a test's own, and a look at what a test has left behind.

pub use fsdyno_testkit::Requirement;

use fsdyno_core::Bytes;
use fsdyno_host::local::LocalHost;
use fsdyno_host::probe::LoopInfo;
use fsdyno_host::{MountRequest, Steps};
use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};

/// A test with its requirements.
#[derive(Clone, Copy)]
pub struct Test {
    /// `area::what_must_hold`.
    pub name: &'static str,
    /// All that it needs.
    pub requires: &'static [Requirement],
    /// Panics when it does not hold.
    pub body: fn(&Sandbox),
}

/// Runs the tests one after the other, each in a sandbox of its own.
pub fn run(tests: Vec<Test>) {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = tests
        .into_iter()
        .map(|test| {
            let unmet: Vec<String> = test.requires.iter().filter_map(|one| one.unmet()).collect();
            if !unmet.is_empty() {
                eprintln!("skipped {}: requires {}", test.name, unmet.join(", "));
            }
            Trial::test(test.name, move || guarded(test.body)).with_ignored_flag(!unmet.is_empty())
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn guarded(body: fn(&Sandbox)) -> Result<(), Failed> {
    let sandbox = Sandbox::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&sandbox)));
    let left = sandbox.clean_up();
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().cloned();
        return Err(text.or(panic.downcast_ref::<&str>().map(|t| t.to_string())).unwrap_or_default().into());
    }
    if left.is_empty() { Ok(()) } else { Err(format!("the test left behind: {}", left.join(", ")).into()) }
}

/// This program.
pub fn binary() -> PathBuf {
    std::env::current_exe().expect("the path of this program")
}

pub fn host() -> LocalHost {
    LocalHost::new(binary(), Vec::new())
}

/// A directory of a test's own in memory.
pub struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("fsdyno-host-").tempdir_in("/dev/shm");
        Sandbox(directory.expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A directory in it.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory");
        path
    }

    /// A sparse image in it.
    pub fn image(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.path(name);
        host().create_image(&path, Bytes(mib * Bytes::MIB)).expect("an image");
        path
    }

    /// A loop device over a new image in it.
    pub fn device(&self, name: &str, mib: u64) -> PathBuf {
        attach(&self.image(name, mib))
    }

    /// Unmounts and detaches what is left in here, and names it. What others do on the machine is not our
    /// affair.
    fn clean_up(&self) -> Vec<String> {
        let mut host = host();
        let mut left = Vec::new();
        let mut mounts = host.mounts().expect("the mounts");
        mounts.retain(|mount| mount.target.starts_with(self.0.path()));
        for mount in mounts.iter().rev() {
            left.push(format!("mount '{}'", mount.target.display()));
            let _ = rustix::mount::unmount(&*mount.target, rustix::mount::UnmountFlags::DETACH);
        }
        // Loop devices over loop devices come later and go first.
        let mut ours: Vec<String> = vec![self.0.path().display().to_string()];
        let mut devices = Vec::new();
        for one in host.loops().expect("the loop devices") {
            if ours.iter().any(|path| one.backing_path.starts_with(path.as_str())) {
                ours.push(one.device.display().to_string());
                devices.push(one);
            }
        }
        for one in devices.iter().rev() {
            left.push(format!("loop device '{}' over '{}'", one.device.display(), one.backing_path));
            let _ = host.detach_loop(one);
        }
        left
    }
}

/// Attaches whatever is at a path, as somebody else on the machine does.
pub fn attach(file: &Path) -> PathBuf {
    sh(&format!("losetup --find --show {}", file.display())).trim().into()
}

pub fn detach(device: &Path) {
    let attached = attached(device).expect("it is attached");
    host().detach_loop(&attached).expect("detach");
}

/// Returns the attachment of a loop device.
pub fn attached(device: &Path) -> Option<LoopInfo> {
    host().loops().expect("the loop devices").into_iter().find(|one| one.device == device)
}

/// Runs a program that must succeed; gives its stdout.
pub fn sh(script: &str) -> String {
    let output = std::process::Command::new("sh").args(["-c", script]).output().expect("run sh");
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "'{script}' failed: {}{}", said[0], said[1]);
    said[0].clone()
}

/// A script that runs when this is dropped, a panic included.
pub struct Afterwards(pub String);

impl Drop for Afterwards {
    fn drop(&mut self) {
        sh(&self.0);
    }
}

pub fn request(filesystem: &str, source: &Path, target: &Path, options: &[&str]) -> MountRequest {
    MountRequest {
        filesystem: filesystem.to_string(),
        source: source.to_path_buf(),
        device: None,
        options: options.iter().map(|option| (*option).to_string()).collect(),
        target: target.to_path_buf(),
    }
}
