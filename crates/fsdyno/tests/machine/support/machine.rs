//! What a test must not change of the machine, and what it must not leave.

use super::Requirement;
use super::lanes::{OWN_IMAGES, outcome};
use fsdyno_host::setting::lasting_attributes;
use libtest_mimic::Failed;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;

/// Recent kernels (seen with 6.18) reset the readahead of a loop device when a file is attached. A loop
/// device that was never used has another readahead, which the first test that uses it could not restore.
pub(super) fn use_loop_devices_once() {
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

pub(super) fn guarded(body: fn()) -> Result<(), Failed> {
    let before = Machine::look();
    let result = catch_unwind(body);
    let after = Machine::look();
    outcome(result)?;
    match before.difference(&after) {
        difference if difference.is_empty() => Ok(()),
        difference => Err(format!("the test left the machine changed:\n{}", difference.join("\n")).into()),
    }
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

fn is_fuse(line: &str) -> bool {
    line.split_once(" - ").is_some_and(|(_, mount)| mount.starts_with("fuse"))
}

pub(super) fn fuse_mounts() -> Vec<String> {
    mounts().lines().filter(|line| is_fuse(line)).map(str::to_string).collect()
}

/// The loop devices of tests that run beside those on the machine's own devices.
pub(super) fn disks_of_others() -> BTreeSet<String> {
    loop_devices(|file| is_recorded(file) || is_own_image(file))
}

fn loop_devices(of: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let found = blocks.filter(|block| backing_file(&block.path()).is_some_and(|file| of(&file)));
    found.map(|block| block.file_name().to_string_lossy().into_owned()).collect()
}

fn backing_file(block: &Path) -> Option<String> {
    fs::read_to_string(block.join("loop/backing_file")).ok()
}

/// A file that fsdyno shows below `/run`.
fn is_recorded(file: &str) -> bool {
    file.starts_with("/run/fsdyno-")
}

fn is_own_image(file: &str) -> bool {
    file.split('/').any(|name| name.starts_with(OWN_IMAGES))
}

/// The device that is mounted, by its name in `/sys/block`.
fn mounted_disk(line: &str) -> Option<&str> {
    line.split_once(" - ").and_then(|(_, mount)| mount.split(' ').nth(1)?.strip_prefix("/dev/"))
}

/// Loop devices on images of tests that have such, and what is mounted from there.
pub(super) fn on_own_images_now() -> BTreeSet<String> {
    let disks = loop_devices(is_own_image);
    let mounts = mounts();
    let mounted = mounts.lines().filter(|line| mounted_disk(line).is_some_and(|disk| disks.contains(disk)));
    disks.iter().cloned().chain(mounted.map(str::to_string)).collect()
}

/// What a test must not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    state: BTreeMap<String, String>,
    /// Loop devices that other tests used meanwhile, whose settings say nothing.
    others: BTreeSet<String>,
}

impl Machine {
    /// Loop devices, mounts, queue settings, `vm` sysctls and complaints in the kernel log. Tests that run in
    /// parallel mount FUSE filesystems and disks on them, so those are compared when all tests have ended.
    pub fn look() -> Self {
        let mut state = BTreeMap::new();
        let mut others = disks_of_others();
        let mounts = mounts();
        others.extend(disks_of_others());
        let is_others = |line: &str| mounted_disk(line).is_some_and(|name| others.contains(name));
        for line in mounts.lines().filter(|line| !is_fuse(line) && !is_others(line)) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            state.insert(format!("mount {}", fields[4]), fields[5..].join(" "));
        }
        for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let name = block.file_name().to_string_lossy().into_owned();
            if backing_file(&block.path()).is_some_and(|file| is_recorded(&file) || is_own_image(&file)) {
                others.insert(name);
                continue;
            }
            // A loop device without a backing file still has its settings, and they must be as before.
            let settings = lasting_attributes(&name).map(|attribute| format!("queue/{attribute}"));
            for file in settings.chain(["loop/backing_file".to_string()]) {
                if let Ok(text) = fs::read_to_string(block.path().join(&file)) {
                    state.insert(format!("block {name} {file}"), text.trim().to_string());
                }
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
