//! The directory of a soak: small filesystems for images and for the store, scratch disks, decoys, and the
//! state of the machine.

use crate::plan::Device;
use fsdyno_host::setting::lasting_attributes;
use rustix::fs::{FallocateFlags, fallocate};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The size in bytes of the filesystem that holds images, itself sparse; filling it is one of the endings.
const SCRATCH_BYTES: u64 = 3 << 30;
/// The size of the filesystem for the store and the undo journals, which is in memory because they are synced
/// all the time.
const STATE_ROOM: &str = "48M";
/// Where a sweep mounts.
const MOUNT_PREFIX: &str = "/run/fsdyno-";
/// Where records are kept that a full store cannot take, and what marks their names.
const RUN: &str = "/run";
const KEPT: &str = ".kept-";
const DECOY_BYTES: usize = 8 << 20;
/// No filesystem here has smaller blocks.
const BLOCK: u64 = 1024;
const DISK_BYTES: u64 = 400 << 20;

/// The directory, with everything that exists before and after a run.
pub struct TestArea {
    directory: PathBuf,
    /// The disk of the filesystem that holds the images.
    below: Option<Disk>,
    decoys: Vec<Disk>,
}

impl TestArea {
    /// Sets it up, after removing what an earlier soak may have left.
    pub fn new(directory: &Path) -> Self {
        let directory = directory.canonicalize().expect("a directory").join("ground");
        let mut area = TestArea { directory, below: None, decoys: Vec::new() };
        for name in ["scratch", "state"] {
            fs::create_dir_all(area.path(name)).expect("a directory");
        }
        area.clean_up();
        area.take_down();
        use_loop_devices_once(&area.path("once"));
        let state = text(&area.path("state"));
        run("mount", &["-t", "tmpfs", "-o", &format!("size={STATE_ROOM},mode=0755"), "soak", &state]);
        let image = area.path("scratch.img");
        File::create(&image).and_then(|file| file.set_len(SCRATCH_BYTES)).expect("an image");
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &text(&image)]);
        let below = Disk::attach(image);
        run("mount", &[&below.node, &text(&area.path("scratch"))]);
        area.below = Some(below);
        // A separate copy of the binary: every process that runs it belongs to the soak.
        fs::copy(env!("CARGO_BIN_EXE_fsdyno"), area.binary()).expect("copy the binary");
        for name in ["decoy.random", "decoy.ext4"] {
            let file = area.path(name);
            fs::write(&file, noise(DECOY_BYTES)).expect("a decoy");
            if name == "decoy.ext4" {
                run("mkfs.ext4", &["-q", "-F", "-L", "precious", &text(&file)]);
            }
            area.decoys.push(Disk::attach(file));
        }
        area
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn binary(&self) -> PathBuf {
        self.directory.join("fsdyno")
    }

    /// Where the store and the undo journals are.
    pub fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// The binary with its own state directory.
    pub fn fsdyno<T: AsRef<std::ffi::OsStr>>(&self, arguments: &[T]) -> Command {
        // A hangup is one of the endings, even if the soak itself ignores it, as under nohup.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(self.binary()).args(arguments);
        command.env("XDG_STATE_HOME", self.state()).current_dir(&self.directory);
        // Ctrl-C is meant for the soak, which lets the run end.
        command.process_group(0);
        command
    }

    pub fn write_plan(&self, plan: &str) -> String {
        let path = self.directory.join("plan.toml");
        fs::write(&path, plan).expect("write the plan");
        text(&path)
    }

    /// Creates disks for a run, and a file of somebody else next to the images.
    pub fn scratch(&self, device: Device) -> Scratch {
        let directory = self.directory.join("scratch");
        fs::write(directory.join("precious"), noise(4096)).expect("a decoy");
        let disk = |index| {
            let file = directory.join(format!("disk{index}"));
            File::create_new(&file).and_then(|file| file.set_len(DISK_BYTES)).expect("a disk");
            Disk::attach(file)
        };
        Scratch { disks: (0..device.disks()).map(disk).collect(), directory }
    }

    /// Returns the remains of a sweep after it was restored.
    pub fn left(&self, scratch: &Scratch) -> Vec<String> {
        let mut left = Vec::new();
        let names = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let disks: Vec<String> = (0..scratch.disks.len()).map(|index| format!("disk{index}")).collect();
        let known = |name: &String| ["precious", "lost+found"].contains(&&**name) || disks.contains(name);
        left.extend(
            names(scratch.directory())
                .into_iter()
                .filter(|name| !known(name))
                .map(|name| format!("file {name}")),
        );
        left.extend(
            names(&self.state().join("fsdyno/undo")).into_iter().map(|name| format!("journal {name}")),
        );
        let kept =
            [self.state().join("fsdyno"), PathBuf::from(RUN)].into_iter().flat_map(|path| names(&path));
        left.extend(kept.filter(|name| name.contains(KEPT)).map(|name| format!("kept record {name}")));
        left.extend(self.processes().into_iter().map(|process| format!("process {process}")));
        let ours = |disk: &&Disk| {
            scratch.disks.iter().chain(&self.decoys).chain(&self.below).any(|ours| ours.node == disk.node)
        };
        let attached = attached_below(&self.directory);
        left.extend(
            attached.iter().filter(|disk| !ours(disk)).map(|disk| format!("loop device {}", disk.node)),
        );
        left
    }

    /// Processes that run the binary of the soak or have one of its files in their arguments.
    fn processes(&self) -> Vec<String> {
        let mut found = Vec::new();
        let scratch = text(&self.directory.join("scratch"));
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.parse::<u32>().is_err() {
                continue;
            }
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let binary = fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == self.binary());
            if binary || line.contains(&scratch) {
                found.push(format!("{name} {line}"));
            }
        }
        found
    }

    /// Settings, decoys and loop devices as they are now.
    pub fn look(&self) -> Look {
        let mut facts = BTreeMap::new();
        for disk in &self.decoys {
            for path in [&disk.file, Path::new(&disk.node)] {
                facts.insert(format!("content of {}", path.display()), hash(path));
            }
        }
        facts.insert("content of precious".to_string(), hash(&self.directory.join("scratch/precious")));
        for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let name = block.file_name();
            let settings = lasting_attributes(&name.to_string_lossy())
                .map(|attribute| format!("queue/{attribute}"))
                .collect::<Vec<_>>();
            for file in settings.into_iter().chain(["loop/backing_file".to_string()]) {
                if let Ok(value) = fs::read_to_string(block.path().join(&file)) {
                    facts.insert(format!("{} {file}", text(&block.path())), value);
                }
            }
        }
        for target in mounts().into_iter().filter(|target| target.starts_with(MOUNT_PREFIX)) {
            facts.insert(format!("mount {target}"), String::new());
        }
        for entry in fs::read_dir("/run").into_iter().flatten().flatten() {
            let path = text(&entry.path());
            if path.starts_with(MOUNT_PREFIX) {
                facts.insert(format!("directory {path}"), String::new());
            }
        }
        for entry in fs::read_dir("/proc/sys/vm").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("dirty") || name == "swappiness" {
                facts.insert(name, fs::read_to_string(entry.path()).unwrap_or_default());
            }
        }
        Look(facts)
    }

    /// Removes what a run with findings has left in this directory, so that the next one starts clean.
    pub fn clean_up(&self) {
        let ours = attached_below(&self.path("scratch"));
        for (target, source) in mounts_with_sources() {
            if target.starts_with(MOUNT_PREFIX) && ours.iter().any(|disk| disk.node == source) {
                let _ = Command::new("umount").arg(&target).status();
                let _ = fs::remove_dir(&target);
            }
        }
        ours.iter().for_each(Disk::detach);
        for directory in ["scratch", "state/fsdyno/undo"] {
            for entry in fs::read_dir(self.path(directory)).into_iter().flatten().flatten() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Deletes the results of a run, because there is little room for them.
    pub fn forget_results(&self) {
        for entry in fs::read_dir(self.path("state/fsdyno")).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
    }

    fn take_down(&mut self) {
        for name in ["scratch", "state"] {
            let target = self.path(name);
            while mounts().contains(&text(&target)) {
                let status = Command::new("umount").arg(&target).status().expect("umount");
                assert!(status.success(), "cannot unmount '{}'", target.display());
            }
        }
        self.decoys.clear();
        self.below = None;
        attached_below(&self.directory).iter().for_each(Disk::detach);
    }
}

impl Drop for TestArea {
    fn drop(&mut self) {
        self.take_down();
    }
}

/// The state of the machine at one moment.
pub struct Look(BTreeMap<String, String>);

impl Look {
    /// Returns the changes. A loop device that was created in the meantime stays as a free one; its settings
    /// do not matter.
    pub fn differences(&self, now: &Look) -> Vec<String> {
        let both = self.0.iter().filter_map(|(key, old)| Some((key, old, now.0.get(key)?)));
        let changed = both.filter(|(_, old, new)| old != new);
        let changed =
            changed.map(|(key, old, new)| format!("{key}: '{}' became '{}'", old.trim(), new.trim()));
        let content = self.0.keys().filter(|key| key.starts_with("content") && !now.0.contains_key(*key));
        let fresh = |key: &&String| key.starts_with("mount") || key.starts_with("directory");
        let fresh = now.0.keys().filter(fresh).filter(|key| !self.0.contains_key(*key));
        let gone = content.map(|key| format!("{key}: gone"));
        changed.chain(gone).chain(fresh.map(|key| format!("{key} is left"))).collect()
    }
}

/// The directory and the disks that a run may destroy.
pub struct Scratch {
    directory: PathBuf,
    disks: Vec<Disk>,
}

impl Scratch {
    /// Where images are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The nodes of the disks.
    pub fn nodes(&self) -> Vec<String> {
        self.disks.iter().map(|disk| disk.node.clone()).collect()
    }

    /// Detaches every loop device on a file in this directory; one in use is detached when its last user
    /// closes it.
    pub fn detach_all(&self) {
        attached_below(&self.directory).iter().for_each(Disk::detach);
    }

    /// Truncates every file in this directory that has a loop device.
    pub fn truncate_all(&self) {
        for disk in attached_below(&self.directory) {
            // It may be gone already.
            let _ = OpenOptions::new().write(true).open(&disk.file).and_then(|file| file.set_len(0));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for disk in &self.disks {
            let attached = attached_below(&self.directory);
            if attached.iter().any(|other| other.node == disk.node && other.file == disk.file) {
                disk.detach();
            }
            let _ = fs::remove_file(&disk.file);
        }
    }
}

/// A loop device.
struct Disk {
    node: String,
    file: PathBuf,
}

impl Disk {
    fn attach(file: PathBuf) -> Self {
        let node = run("losetup", &["--find", "--show", &text(&file)]);
        Disk { node, file }
    }

    fn detach(&self) {
        // It may be gone already; anything left is detected later.
        let _ = Command::new("losetup").args(["--detach", &self.node]).output();
    }
}

/// The loop devices on files below a directory.
fn attached_below(directory: &Path) -> Vec<Disk> {
    let mut disks = Vec::new();
    for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let Ok(file) = fs::read_to_string(block.path().join("loop/backing_file")) else { continue };
        let file = PathBuf::from(file.trim().trim_end_matches(" (deleted)"));
        if file.starts_with(directory) {
            disks.push(Disk { node: format!("/dev/{}", block.file_name().to_string_lossy()), file });
        }
    }
    disks
}

/// Keeps a filesystem full until it is dropped.
pub struct Filler(PathBuf);

impl Filler {
    pub fn new(directory: &Path) -> Self {
        let path = directory.join("filler");
        let file = File::create(&path).expect("a file");
        let (mut end, mut chunk) = (0, 1 << 30);
        while chunk >= BLOCK {
            match fallocate(&file, FallocateFlags::empty(), end, chunk) {
                Ok(()) => end += chunk,
                Err(_) => chunk /= 2,
            }
        }
        Filler(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn mounts() -> Vec<String> {
    mounts_with_sources().into_iter().map(|(target, _)| target).collect()
}

/// Mount points with their sources (proc(5), `/proc/[pid]/mountinfo`).
fn mounts_with_sources() -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let one = |line: &str| {
        let (place, what) = line.split_once(" - ")?;
        Some((place.split(' ').nth(4)?.to_string(), what.split(' ').nth(1)?.to_string()))
    };
    text.lines().filter_map(one).collect()
}

/// Recent kernels (seen with 6.18) reset the readahead of a loop device when a file is attached, so the first
/// use of a loop device changes it, whoever uses it.
fn use_loop_devices_once(file: &Path) {
    File::create(file).and_then(|file| file.set_len(1 << 20)).expect("a file");
    for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = block.file_name().to_string_lossy().into_owned();
        if name.starts_with("loop") && !block.path().join("loop/backing_file").exists() {
            let node = format!("/dev/{name}");
            let attached = Command::new("losetup").arg(&node).arg(file).output();
            if attached.is_ok_and(|output| output.status.success()) {
                Disk { node, file: file.to_path_buf() }.detach();
            }
        }
    }
    let _ = fs::remove_file(file);
}

fn hash(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| format!("{error}").into_bytes());
    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are the same each time and that no filesystem would write.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Runs a tool that must succeed; returns its output.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect(program);
    assert!(output.status.success(), "{program} {arguments:?}: {}", described(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// An exit code and the output.
pub fn described(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    format!("{}\n{out}{err}", output.status)
}
