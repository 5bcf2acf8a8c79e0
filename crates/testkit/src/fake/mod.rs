//! A machine that exists only in memory, for tests: a fake of the narrow interface, not a second
//! implementation of a kernel.
//!
//! It represents files, loop devices, block devices, mounts, directories, settings and programs as plain
//! maps, just well enough that what the testbed does and undoes leaves the same traces as on a real machine:
//! a loop device keeps its settings when it is detached, a busy one refuses, changing a scheduler changes the
//! queue depth. Any step can be made to fail ([`FakeHost::fail_at`]) or be the last one before a crash
//! ([`FakeHost::crash_at`]). [`FakeHost::snapshot`] returns the whole state for comparison, except for what
//! is written on scratch devices. A step that no host may be asked to do panics: see `conduct.rs`.

mod conduct;
mod engine;
mod guardian;
mod guest;
mod layers;
mod steps;
mod tools;

pub use conduct::walked;
pub use engine::FakeEngine;
pub use guardian::FakeGuardian;
pub use guest::FakeGuests;
pub use layers::FakeLayer;

use conduct::Conduct;
use fsdyno_core::axis::{self, Levels, QUEUE};
use fsdyno_core::environment::Confinement;
use fsdyno_core::filesystem;
use fsdyno_core::{Bytes, EngineRequest, Nanos, scheduler};
use fsdyno_host::guest::GuestFacts;
use fsdyno_host::probe::{DeviceIdentity, DeviceProbe, FileIdentity, MountInfo, Use};
use fsdyno_host::setting::ROTATIONAL;
use fsdyno_host::{HostError, ImageHandle, MountRequest, Output, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

const EIO: i32 = 5;
const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;
const ENXIO: i32 = 6;

/// Device number of the one filesystem that all fake files are in.
const FILES: (u32, u32) = (0, 42);
/// Device number of the filesystem in memory, /dev/shm.
const MEMORY: (u32, u32) = (0, 21);
const LOOP_MAJOR: u32 = 7;
/// The number of loop devices.
const LOOPS: u32 = 4;
/// The filesystems of its kernel.
const KERNEL_HAS: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// A fault to inject at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The step is not done and reports that; everything continues after it.
    Fail,
    /// The step is not done, does not return, and is abandoned; everything continues after it.
    Hang,
    /// The process dies before the step is done.
    CrashBefore,
    /// The process dies after the step was done, before it sees the result.
    CrashAfter,
}

/// The lasting state of a fake machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Files of sysfs and procfs, and any others whose text matters.
    pub texts: BTreeMap<PathBuf, String>,
    /// The depths of hardware queues that were set while there was no scheduler, by their files: once a
    /// scheduler was set and unset again, the file shows another one.
    pub depths: BTreeMap<PathBuf, String>,
    /// Directories.
    pub directories: BTreeSet<PathBuf>,
    /// Regular files: identity and size.
    pub files: BTreeMap<PathBuf, (FileIdentity, Bytes)>,
    /// Attached loop devices and the inode of their file.
    pub loops: BTreeMap<PathBuf, u64>,
    /// Mounts, in order.
    pub mounts: Vec<MountInfo>,
    /// Arrays and mappings.
    pub layers: BTreeMap<PathBuf, FakeLayer>,
    /// The labels that arrays and volume groups have written to devices in order to recognise them.
    pub labels: BTreeMap<PathBuf, String>,
    /// The UUID of the filesystem or journal that was made on each device last.
    pub signatures: BTreeMap<PathBuf, String>,
}

/// A machine in memory. Tests may set public fields before, and read them afterwards.
#[derive(Debug, Default)]
pub struct FakeHost {
    machine: Machine,
    /// The probe of each block device; loop devices are probed from the state instead.
    pub blocks: BTreeMap<PathBuf, DeviceProbe>,
    /// The block devices that a plan names: no other may be opened. `None`: any may.
    pub planned: Option<BTreeSet<PathBuf>>,
    /// Installed programs, and the output of each.
    pub programs: BTreeMap<String, Output>,
    /// Free and total bytes, everywhere.
    pub space: (Bytes, Bytes),
    /// Other data that needs space in the filesystem of all files except those in /dev/shm.
    pub shared_with: Vec<String>,
    /// Devices that somebody claims exclusively without any other visible use.
    pub claimed: BTreeSet<PathBuf>,
    /// `true` if another mount namespace keeps every filesystem mounted that is unmounted here.
    pub keeps_mounted: bool,
    /// Uses that begin when a device is opened for the first time.
    pub taken_meanwhile: BTreeMap<PathBuf, Use>,
    /// `true` if mounts are of other devices than they show.
    pub mounts_claim_nothing: bool,
    /// Devices that carry fsdyno's mark.
    pub marks: BTreeSet<PathBuf>,
    /// Options that every mount shows in addition to those requested.
    pub mount_shows: Vec<String>,
    /// Options that are accepted, but not shown.
    pub mount_hides: Vec<String>,
    /// The number of upcoming unmounts that find the filesystem busy.
    pub busy_unmounts: u32,
    /// The number of upcoming stops of arrays that come up again at once, as udev would assemble them.
    pub reassemblies: u32,
    /// Loop devices that somebody has set read-only.
    pub read_only_loops: BTreeSet<PathBuf>,
    /// The behaviour of the next engines.
    pub engines: VecDeque<FakeEngine>,
    /// `true` if every mkfs succeeds without writing anything.
    pub mkfs_makes_nothing: bool,
    /// `true` if arrays never finish their background work.
    pub arrays_stay_busy: bool,
    /// Who runs commands of users.
    pub guardian: FakeGuardian,
    /// The restrictions that the machine's kernel imposes on programs.
    pub confinement: Confinement,
    /// Its description as a guest.
    pub facts: GuestFacts,
    /// The requests to engines.
    pub requests: Vec<EngineRequest>,
    /// The command lines that were run.
    pub commands: Vec<String>,
    log: Vec<String>,
    faults: BTreeMap<usize, Fault>,
    lost: bool,
    open: BTreeMap<u64, (PathBuf, DeviceIdentity)>,
    /// The identity of each device when this process last opened it.
    verified: BTreeMap<PathBuf, DeviceIdentity>,
    conduct: Conduct,
    /// Handles that were opened for writing but no longer are.
    read_only: BTreeSet<u64>,
    images: BTreeMap<u64, (PathBuf, FileIdentity)>,
    last_inode: u64,
    last_handle: u64,
    last_layer: u64,
    attachments: BTreeMap<PathBuf, u64>,
}

impl FakeHost {
    /// A machine with the directories `/tmp` and `/run`, four free loop devices, the filesystems that every
    /// distribution's kernel has, and every tool of those.
    pub fn new() -> Self {
        let mut host = FakeHost { space: (Bytes(1 << 40), Bytes(1 << 40)), ..FakeHost::default() };
        host.machine.directories.extend(["/", "/tmp", "/run", "/data", "/dev/shm"].map(PathBuf::from));
        let known = || KERNEL_HAS.iter().filter_map(|name| filesystem::find(name));
        let tools = known().flat_map(|known| known.tools).map(|tool| tool.program);
        for program in tools.chain(["sync", "wipefs", "blkdiscard", "mdadm", "lvm", "dmsetup"]) {
            host.install(program, &format!("{program} 1.0"));
        }
        let types: Vec<String> = known().map(|known| format!("\t{}\n", known.kernel_type)).collect();
        host.write_setting("/proc/filesystems", &format!("nodev\tsysfs\n{}", types.concat()));
        for (path, text) in [
            ("/proc/sys/kernel/osrelease", "6.18.0\n"),
            ("/proc/sys/vm/dirty_ratio", "20\n"),
            ("/proc/sys/vm/dirty_bytes", "0\n"),
            ("/proc/sys/vm/swappiness", "60\n"),
            ("/sys/fs/btrfs/features/supported_sectorsizes", "4096\n"),
            ("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n"),
            ("/dev/loop-control", ""),
        ] {
            host.write_setting(path, text);
        }
        for index in 0..LOOPS {
            host.add_queue((LOOP_MAJOR, index));
        }
        host.write_setting("/sys/block/loop0/queue/scheduler", &schedulers("none"));
        host
    }

    /// Installs a program that always succeeds and prints this.
    pub fn install(&mut self, program: &str, says: &str) {
        let output =
            Output { status: 0, stdout: says.into(), stderr: String::new(), duration: Nanos(1_000_000) };
        self.programs.insert(program.to_string(), output);
    }

    /// Sets the text of a file of sysfs or procfs.
    pub fn write_setting(&mut self, path: impl AsRef<Path>, text: &str) {
        let path = path.as_ref();
        let scheduler = self.machine.texts.get(&path.with_file_name("scheduler"));
        let is_depth = path.file_name().is_some_and(|name| name == "nr_requests");
        if is_depth && scheduler.is_some_and(|text| text.contains("[none]")) {
            self.machine.depths.insert(path.to_path_buf(), text.to_string());
        }
        self.machine.texts.insert(path.to_path_buf(), text.to_string());
    }

    /// Adds the mounts of a mountinfo (proc(5)).
    pub fn add_mounts(&mut self, text: &str) {
        self.machine.mounts.extend(fsdyno_host::mountinfo::parse(text).0);
    }

    /// Adds a block device with settings of its own.
    pub fn add_block(&mut self, path: impl AsRef<Path>, number: (u32, u32), size: Bytes) {
        let path = path.as_ref().to_path_buf();
        let identity = DeviceIdentity {
            number,
            size_bytes: size.0,
            diskseq: Some(1),
            serial: Some("FAKE1".to_string()),
            partition: None,
        };
        let probe = DeviceProbe {
            path: path.clone(),
            canonical: path.clone(),
            block: true,
            identity,
            sector_bytes: 512,
            ..DeviceProbe::default()
        };
        self.blocks.insert(path, probe);
        self.add_queue(number);
    }

    /// Adds a file that existed before.
    pub fn add_file(&mut self, path: impl AsRef<Path>, size: Bytes) {
        let identity = self.new_identity();
        self.machine.files.insert(path.as_ref().to_path_buf(), (identity, size));
    }

    /// Adds a directory that existed before.
    pub fn add_directory(&mut self, path: impl AsRef<Path>) {
        self.machine.directories.insert(path.as_ref().to_path_buf());
    }

    /// Attaches a file that existed before to the first free loop device, as somebody else would have;
    /// returns its node.
    pub fn add_loop(&mut self, file: impl AsRef<Path>) -> PathBuf {
        let (identity, _) = self.machine.files.get(file.as_ref()).expect("a file");
        self.attach(file.as_ref(), identity.inode).expect("a free device")
    }

    /// Attaches a file to the first free loop device; returns its node.
    fn attach(&mut self, file: &Path, inode: u64) -> Result<PathBuf> {
        let mut nodes = (0..LOOPS).map(|index| PathBuf::from(format!("/dev/loop{index}")));
        let free = nodes.find(|node| !self.machine.loops.contains_key(node));
        let node = free.ok_or_else(|| system("attach", file, EBUSY))?;
        self.machine.loops.insert(node.clone(), inode);
        *self.attachments.entry(node.clone()).or_default() += 1;
        Ok(node)
    }

    fn add_queue(&mut self, number: (u32, u32)) {
        let queue = queue(number);
        for attribute in &QUEUE {
            let first = match axis::find(attribute.axis).map(|axis| axis.levels) {
                Ok(Levels::Words([first, ..])) => attribute.text(first),
                _ => None,
            };
            let text = match attribute.axis {
                "scheduler" => schedulers("none"),
                _ => first.unwrap_or("128".to_string()) + "\n",
            };
            self.write_setting(queue.join(attribute.file), &text);
        }
        self.write_setting(queue.join(ROTATIONAL), "0\n");
    }

    /// Makes something go wrong at the k-th step from now on, counted from 0.
    pub fn fault_at(&mut self, step: usize, fault: Fault) {
        self.faults.insert(self.log.len() + step, fault);
    }

    /// The k-th step from now on fails.
    pub fn fail_at(&mut self, step: usize) {
        self.fault_at(step, Fault::Fail);
    }

    /// The process dies at the k-th step from now on: `done` says whether the step still happens. Every later
    /// step finds the host lost, until [`FakeHost::revive`].
    pub fn crash_at(&mut self, step: usize, done: bool) {
        self.fault_at(step, if done { Fault::CrashAfter } else { Fault::CrashBefore });
    }

    /// A new process on the same machine: no device is open, nothing is scheduled to go wrong.
    pub fn revive(&mut self) {
        self.lost = false;
        self.open.clear();
        self.verified.clear();
        self.images.clear();
        self.faults.clear();
    }

    /// Every step so far, failed ones included.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// The whole lasting state.
    pub fn snapshot(&self) -> Machine {
        self.machine.clone()
    }

    /// Returns whether the host's process has died.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Devices and images that are open now.
    pub fn open_devices(&self) -> usize {
        self.open.len() + self.images.len()
    }

    /// One step: logged, counted, and perhaps going wrong.
    fn step<T>(&mut self, text: String, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let lost = || HostError::Lost { host: "fake".to_string(), reason: "it crashed".to_string() };
        if self.lost {
            return Err(lost());
        }
        let fault = self.faults.get(&self.log.len()).copied();
        self.log.push(text.clone());
        match fault {
            None => act(self),
            Some(Fault::Fail) => Err(system("do", &text, EIO)),
            Some(Fault::Hang) => Err(HostError::Hung { action: text, seconds: 60 }),
            Some(Fault::CrashBefore) => {
                self.lost = true;
                Err(lost())
            }
            Some(Fault::CrashAfter) => {
                let _ = act(self);
                self.lost = true;
                Err(lost())
            }
        }
    }

    fn new_identity(&mut self) -> FileIdentity {
        self.last_inode += 1;
        let birth_ns = Some(self.last_inode as i64 * 1_000);
        FileIdentity { device: FILES, inode: self.last_inode, birth_ns, regular: true }
    }

    /// Returns whether anything exists at a path.
    fn exists(&self, path: &Path) -> bool {
        self.machine.files.contains_key(path)
            || self.machine.directories.contains(path)
            || self.machine.texts.contains_key(path)
            || self.blocks.contains_key(path)
    }

    fn image(&self, handle: ImageHandle) -> Result<(PathBuf, FileIdentity)> {
        self.images.get(&handle.0).cloned().ok_or_else(|| system("use", "an image that is not open", EBADF))
    }

    fn file_of_inode(&self, inode: u64) -> Option<(&PathBuf, Bytes)> {
        self.machine
            .files
            .iter()
            .find(|(_, (id, _))| id.inode == inode)
            .map(|(path, (_, size))| (path, *size))
    }

    fn is_busy(&self, device: &Path) -> bool {
        let mut layers = self.machine.layers.values();
        layers.any(|layer| layer.members.iter().any(|member| member == device)) || self.is_mounted(device)
    }

    fn is_mounted(&self, device: &Path) -> bool {
        self.machine.mounts.iter().any(|mount| {
            Path::new(&mount.source) == device
                || mount.options.split(',').any(|word| word.ends_with(&*device.to_string_lossy()))
                || self.made_with(&mount.source, device)
        })
    }

    /// Returns whether the filesystem on a node was created together with this device, as one with an
    /// external journal is.
    fn made_with(&self, node: &str, device: &Path) -> bool {
        let made = |line: &&String| line.starts_with("mkfs.") && line.ends_with(&format!(" {node}"));
        let words = self.commands.iter().rfind(made).map(|line| line.split([' ', ',', '=']));
        words.is_some_and(|mut words| words.any(|word| Path::new(word) == device))
    }

    fn probe(&self, path: &Path) -> Result<DeviceProbe> {
        let mounted = self.machine.mounts.iter().filter(|mount| Path::new(&mount.source) == path);
        let uses = mounted
            .map(|mount| Use::Mounted { target: mount.target.display().to_string(), namespace_of_pid: None });
        if let Some(inode) = self.machine.loops.get(path) {
            let Some((file, size)) = self.file_of_inode(*inode) else {
                return Err(system("probe", path, ENXIO));
            };
            return Ok(DeviceProbe {
                path: path.to_path_buf(),
                canonical: path.to_path_buf(),
                block: true,
                identity: DeviceIdentity {
                    number: (LOOP_MAJOR, index_of(path)),
                    size_bytes: size.0,
                    diskseq: self.attachments.get(path).copied(),
                    serial: None,
                    partition: None,
                },
                model: file.display().to_string(),
                sector_bytes: 512,
                uses: uses.collect(),
                ..DeviceProbe::default()
            });
        }
        if let Some(identity) = self.identity_of_layer(path) {
            let members =
                self.machine.layers.get(path).map(|layer| layer.members.clone()).unwrap_or_default();
            let sizes =
                members.iter().filter_map(|member| Some(self.probe(member).ok()?.identity.size_bytes));
            let size_bytes = sizes.min().unwrap_or(0);
            return Ok(DeviceProbe {
                path: path.to_path_buf(),
                canonical: path.to_path_buf(),
                block: true,
                identity: DeviceIdentity { size_bytes, ..identity },
                sector_bytes: 512,
                uses: uses.collect(),
                ..DeviceProbe::default()
            });
        }
        let mut probe = self.blocks.get(path).cloned().ok_or_else(|| system("probe", path, ENOENT))?;
        probe.uses.extend(uses);
        Ok(probe)
    }

    fn write_known_setting(&mut self, path: &Path, text: &str) -> Result<()> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let value = text.trim();
        match name.as_str() {
            "scheduler" => {
                if !scheduler::NAMES.contains(&value) {
                    return Err(system("write", path, EINVAL));
                }
                let depth = if value == "none" { "128\n" } else { "256\n" };
                self.write_setting(path, &schedulers(value));
                self.machine.texts.insert(path.with_file_name("nr_requests"), depth.to_string());
            }
            "dirty_ratio" | "dirty_bytes" => {
                if value == "0" {
                    return Err(system("write", path, EINVAL));
                }
                let other = if name == "dirty_ratio" { "dirty_bytes" } else { "dirty_ratio" };
                self.write_setting(path, &format!("{value}\n"));
                self.write_setting(path.with_file_name(other), "0\n");
            }
            // The text as it is: whether a setting was restored is checked byte for byte.
            _ => self.write_setting(path, text),
        }
        Ok(())
    }

    fn shown_options(&self, request: &MountRequest) -> String {
        let asked = request.options.iter().filter(|option| !self.mount_hides.contains(option));
        let shown =
            std::iter::once("rw".to_string()).chain(asked.cloned()).chain(self.mount_shows.iter().cloned());
        shown.collect::<Vec<_>>().join(",")
    }
}

fn schedulers(active: &str) -> String {
    let words =
        scheduler::NAMES.map(|word| if word == active { format!("[{word}]") } else { word.to_string() });
    format!("{}\n", words.join(" "))
}

fn queue(number: (u32, u32)) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}/queue", number.0, number.1))
}

fn index_of(node: &Path) -> u32 {
    node.to_string_lossy().trim_start_matches("/dev/loop").parse().unwrap_or(0)
}

fn system(action: &str, object: impl AsRef<Path>, errno: i32) -> HostError {
    HostError::System {
        action: action.to_string(),
        object: object.as_ref().display().to_string(),
        errno,
        reason: format!("fake error {errno}"),
    }
}
