//! A machine that exists only in memory, for tests: a fake of the narrow seam, not a second implementation of a kernel.
//!
//! It knows files, loop devices, block devices, mounts, directories, settings and programs as plain maps, just well enough
//! that what the testbed does and undoes leaves the traces that it would leave on a real machine: a loop device keeps its
//! settings when it is detached, a busy one refuses, changing a scheduler changes the queue depth. Any step can be made to
//! fail ([`FakeHost::fail_at`]) or be the last one before a crash ([`FakeHost::crash_at`]). [`FakeHost::snapshot`] gives
//! the whole state for comparison, but for what is written on scratch devices.

use crate::probe::{DeviceIdentity, DeviceProbe, FileIdentity, LoopInfo, MountInfo, Use};
use crate::{
    Command, DeviceHandle, EngineOutput, EngineProcess, Host, HostError, LoopOptions, MountRequest, Output,
    Result,
};
use fsdyno_core::{Bytes, EngineRequest, Nanos};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EIO: i32 = 5;
const ENOENT: i32 = 2;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const ENOTEMPTY: i32 = 39;
const ENXIO: i32 = 6;

/// Device number of the one filesystem that all fake files are in.
const FILES: (u32, u32) = (0, 42);
const LOOP_MAJOR: u32 = 7;
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// What is to go wrong at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The step is not done and says so; everything goes on after it.
    Fail,
    /// The process dies before the step is done.
    CrashBefore,
    /// The process dies after the step was done, before it learns of it.
    CrashAfter,
}

/// The lasting state of a fake machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Files of sysfs and procfs, and any others whose text matters.
    pub texts: BTreeMap<PathBuf, String>,
    /// Directories.
    pub directories: BTreeSet<PathBuf>,
    /// Regular files: identity and size.
    pub files: BTreeMap<PathBuf, (FileIdentity, Bytes)>,
    /// Attached loop devices and the inode of their file.
    pub loops: BTreeMap<PathBuf, u64>,
    /// Mounts, in order.
    pub mounts: Vec<MountInfo>,
}

/// A machine in memory. Public fields are for tests to set before, and to look at after.
#[derive(Debug, Default)]
pub struct FakeHost {
    machine: Machine,
    /// What each block device is; loop devices are probed from the state instead.
    pub blocks: BTreeMap<PathBuf, DeviceProbe>,
    /// Installed programs, and what each says when it runs.
    pub programs: BTreeMap<String, Output>,
    /// Bytes free and in all, everywhere.
    pub space: (Bytes, Bytes),
    /// Options that every mount shows beside those that it was asked for.
    pub mount_shows: Vec<String>,
    /// Options that are accepted, but not shown.
    pub mount_hides: Vec<String>,
    /// So many of the next unmounts find the filesystem busy.
    pub busy_unmounts: u32,
    /// What the next engines do.
    pub engines: VecDeque<FakeEngine>,
    /// What engines were asked.
    pub requests: Vec<EngineRequest>,
    /// The command lines that were run.
    pub commands: Vec<String>,
    log: Vec<String>,
    faults: BTreeMap<usize, Fault>,
    lost: bool,
    open: BTreeMap<u64, (PathBuf, DeviceIdentity)>,
    last_inode: u64,
    last_handle: u64,
    attachments: BTreeMap<PathBuf, u64>,
}

impl FakeHost {
    /// A machine with the directories `/tmp` and `/run`, two free loop devices, an ext2/3/4, xfs and btrfs kernel, and every
    /// tool of those.
    pub fn new() -> Self {
        let mut host = FakeHost { space: (Bytes(1 << 40), Bytes(1 << 40)), ..FakeHost::default() };
        host.machine.directories.extend(["/", "/tmp", "/run", "/data"].map(PathBuf::from));
        for program in [
            "mkfs.ext2",
            "mkfs.ext3",
            "mkfs.ext4",
            "mke2fs",
            "e2fsck",
            "dumpe2fs",
            "mkfs.xfs",
            "xfs_repair",
            "mkfs.btrfs",
            "btrfs",
            "sync",
        ] {
            host.install(program, &format!("{program} 1.0"));
        }
        for (path, text) in [
            ("/proc/filesystems", "nodev\tsysfs\n\text3\n\text2\n\text4\n\txfs\n\tbtrfs\n"),
            ("/proc/sys/kernel/osrelease", "6.18.0\n"),
            ("/proc/sys/vm/dirty_ratio", "20\n"),
            ("/proc/sys/vm/dirty_bytes", "0\n"),
            ("/proc/sys/vm/swappiness", "60\n"),
            ("/sys/fs/btrfs/features/supported_sectorsizes", "4096\n"),
            ("/dev/loop-control", ""),
        ] {
            host.write_setting(path, text);
        }
        for index in 0..2 {
            host.add_queue((LOOP_MAJOR, index));
        }
        host.write_setting("/sys/block/loop0/queue/scheduler", &schedulers("none"));
        host
    }

    /// Installs a program that always succeeds and says this.
    pub fn install(&mut self, program: &str, says: &str) {
        let output =
            Output { status: 0, stdout: says.into(), stderr: String::new(), duration: Nanos(1_000_000) };
        self.programs.insert(program.to_string(), output);
    }

    /// Gives a file of sysfs or procfs a text.
    pub fn write_setting(&mut self, path: impl AsRef<Path>, text: &str) {
        self.machine.texts.insert(path.as_ref().to_path_buf(), text.to_string());
    }

    /// Adds a block device with settings of its own.
    pub fn add_block(&mut self, path: impl AsRef<Path>, number: (u32, u32), size: Bytes) {
        let path = path.as_ref().to_path_buf();
        let identity = DeviceIdentity {
            number,
            size_bytes: size.0,
            diskseq: Some(1),
            serial: Some("FAKE1".to_string()),
        };
        let probe = DeviceProbe {
            path: path.clone(),
            canonical: path.clone(),
            block: true,
            identity,
            ..DeviceProbe::default()
        };
        self.blocks.insert(path, probe);
        self.add_queue(number);
    }

    /// Adds a file that was there before.
    pub fn add_file(&mut self, path: impl AsRef<Path>, size: Bytes) {
        let identity = self.new_identity();
        self.machine.files.insert(path.as_ref().to_path_buf(), (identity, size));
    }

    fn add_queue(&mut self, number: (u32, u32)) {
        let queue = queue(number);
        self.write_setting(queue.join("scheduler"), &schedulers("none"));
        self.write_setting(queue.join("nr_requests"), "128\n");
        self.write_setting(queue.join("read_ahead_kb"), "128\n");
    }

    /// Lets something go wrong at the k-th step from now on, counted from 0.
    pub fn fault_at(&mut self, step: usize, fault: Fault) {
        self.faults.insert(self.log.len() + step, fault);
    }

    /// The k-th step from now on fails.
    pub fn fail_at(&mut self, step: usize) {
        self.fault_at(step, Fault::Fail);
    }

    /// The process dies at the k-th step from now on: `done` tells whether the step still happens. Every later step finds
    /// the host lost, until [`FakeHost::revive`].
    pub fn crash_at(&mut self, step: usize, done: bool) {
        self.fault_at(step, if done { Fault::CrashAfter } else { Fault::CrashBefore });
    }

    /// A new process on the same machine: no device is open any more, nothing is going to go wrong.
    pub fn revive(&mut self) {
        self.lost = false;
        self.open.clear();
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

    /// Devices that are open now.
    pub fn open_devices(&self) -> usize {
        self.open.len()
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

    fn file_of_inode(&self, inode: u64) -> Option<(&PathBuf, Bytes)> {
        self.machine
            .files
            .iter()
            .find(|(_, (id, _))| id.inode == inode)
            .map(|(path, (_, size))| (path, *size))
    }

    fn is_busy(&self, device: &Path) -> bool {
        self.machine.mounts.iter().any(|mount| {
            Path::new(&mount.source) == device
                || mount.options.split(',').any(|word| word.ends_with(&*device.to_string_lossy()))
        })
    }

    /// What sysfs tells of an attached loop device: `/sys/block/loop0/size`.
    fn loop_attribute(&self, path: &Path) -> Option<String> {
        let node = Path::new("/dev").join(path.parent()?.strip_prefix("/sys/block").ok()?);
        let (_, size) = self.file_of_inode(*self.machine.loops.get(&node)?)?;
        Some(match path.file_name()?.to_str()? {
            "dev" => format!("{LOOP_MAJOR}:{}\n", index_of(&node)),
            "size" => format!("{}\n", size.0 / 512),
            "diskseq" => format!("{}\n", self.attachments.get(&node)?),
            "ro" => "0\n".to_string(),
            _ => return None,
        })
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
                },
                model: file.display().to_string(),
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
                if !SCHEDULERS.contains(&value) {
                    return Err(system("write", path, EINVAL));
                }
                let depth = if value == "none" { "128\n" } else { "256\n" };
                self.write_setting(path, &schedulers(value));
                self.write_setting(path.with_file_name("nr_requests"), depth);
            }
            "dirty_ratio" | "dirty_bytes" => {
                if value == "0" {
                    return Err(system("write", path, EINVAL));
                }
                let other = if name == "dirty_ratio" { "dirty_bytes" } else { "dirty_ratio" };
                self.write_setting(path, &format!("{value}\n"));
                self.write_setting(path.with_file_name(other), "0\n");
            }
            _ => self.write_setting(path, &format!("{value}\n")),
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
    let words = SCHEDULERS.map(|word| if word == active { format!("[{word}]") } else { word.to_string() });
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

impl Host for FakeHost {
    fn name(&self) -> String {
        "fake machine".to_string()
    }

    fn run(&mut self, command: &Command) -> Result<Output> {
        self.step(format!("run {}", command.line()), |host| {
            host.commands.push(command.line());
            let missing = || HostError::NoProgram { program: command.program.clone() };
            host.programs.get(&command.program).cloned().ok_or_else(missing)
        })
    }

    fn find_program(&mut self, program: &str) -> Result<Option<PathBuf>> {
        self.step(format!("find program {program}"), |host| {
            Ok(host.programs.contains_key(program).then(|| Path::new("/usr/sbin").join(program)))
        })
    }

    fn read_text(&mut self, path: &Path) -> Result<String> {
        self.step(format!("read {}", path.display()), |host| {
            let text = host.machine.texts.get(path).cloned().or_else(|| host.loop_attribute(path));
            text.ok_or_else(|| system("read", path, ENOENT))
        })
    }

    fn write_text(&mut self, path: &Path, text: &str) -> Result<()> {
        self.step(format!("write '{text}' to {}", path.display()), |host| {
            if !host.machine.texts.contains_key(path) {
                return Err(system("write", path, ENOENT));
            }
            host.write_known_setting(path, text)
        })
    }

    fn list_directory(&mut self, path: &Path) -> Result<Vec<String>> {
        self.step(format!("list {}", path.display()), |host| {
            let paths =
                host.machine.texts.keys().chain(host.machine.files.keys()).chain(&host.machine.directories);
            let names: BTreeSet<String> = paths
                .filter_map(|child| child.strip_prefix(path).ok()?.components().next())
                .map(|first| first.as_os_str().to_string_lossy().into_owned())
                .collect();
            if names.is_empty() && !host.machine.directories.contains(path) {
                return Err(system("list", path, ENOENT));
            }
            Ok(names.into_iter().collect())
        })
    }

    fn create_directory(&mut self, path: &Path) -> Result<()> {
        self.step(format!("mkdir {}", path.display()), |host| {
            let new = host.machine.directories.insert(path.to_path_buf());
            if new { Ok(()) } else { Err(system("make directory", path, EEXIST)) }
        })
    }

    fn remove_directory(&mut self, path: &Path) -> Result<()> {
        self.step(format!("rmdir {}", path.display()), |host| {
            let busy = host.machine.mounts.iter().any(|mount| mount.target == path);
            let full = host.machine.files.keys().any(|file| file.starts_with(path));
            match (busy, full) {
                (true, _) => Err(system("remove directory", path, EBUSY)),
                (_, true) => Err(system("remove directory", path, ENOTEMPTY)),
                _ if host.machine.directories.remove(path) => Ok(()),
                _ => Err(system("remove directory", path, ENOENT)),
            }
        })
    }

    fn file_identity(&mut self, path: &Path) -> Result<Option<FileIdentity>> {
        self.step(format!("stat {}", path.display()), |host| {
            let other = FileIdentity { device: FILES, inode: 0, birth_ns: None, regular: false };
            let known = host.machine.directories.contains(path)
                || host.machine.texts.contains_key(path)
                || host.blocks.contains_key(path);
            let file = host.machine.files.get(path).map(|(identity, _)| identity.clone());
            Ok(file.or(known.then_some(other)))
        })
    }

    fn create_image(&mut self, path: &Path, size: Bytes) -> Result<FileIdentity> {
        self.step(format!("create {} of {size}", path.display()), |host| {
            if host.machine.files.contains_key(path) {
                return Err(system("create", path, EEXIST));
            }
            let identity = host.new_identity();
            host.machine.files.insert(path.to_path_buf(), (identity.clone(), size));
            Ok(identity)
        })
    }

    fn rename_new(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.step(format!("rename {} to {}", from.display(), to.display()), |host| {
            if host.machine.files.contains_key(to) {
                return Err(system("rename", to, EEXIST));
            }
            let file = host.machine.files.remove(from).ok_or_else(|| system("rename", from, ENOENT))?;
            host.machine.files.insert(to.to_path_buf(), file);
            Ok(())
        })
    }

    fn remove_file(&mut self, path: &Path) -> Result<()> {
        self.step(format!("remove {}", path.display()), |host| {
            host.machine.files.remove(path).map(|_| ()).ok_or_else(|| system("remove", path, ENOENT))
        })
    }

    fn space(&mut self, path: &Path) -> Result<(Bytes, Bytes)> {
        self.step(format!("space at {}", path.display()), |host| {
            let known = host.machine.directories.contains(path);
            if known { Ok(host.space) } else { Err(system("look at", path, ENOENT)) }
        })
    }

    fn loops(&mut self) -> Result<Vec<LoopInfo>> {
        self.step("loops".to_string(), |host| {
            let info = |(device, inode): (&PathBuf, &u64)| LoopInfo {
                device: device.clone(),
                backing_device: FILES,
                backing_inode: *inode,
                backing_path: host
                    .file_of_inode(*inode)
                    .map(|(path, _)| path.display().to_string())
                    .unwrap_or_default(),
            };
            Ok(host.machine.loops.iter().map(info).collect())
        })
    }

    fn attach_loop(&mut self, image: &Path, _options: &LoopOptions) -> Result<PathBuf> {
        self.step(format!("attach {}", image.display()), |host| {
            let identity = host.machine.files.get(image).map(|(identity, _)| identity.inode);
            let inode = identity.ok_or_else(|| system("attach", image, ENOENT))?;
            let nodes = (0..2).map(|index| PathBuf::from(format!("/dev/loop{index}")));
            let free = nodes.into_iter().find(|node| !host.machine.loops.contains_key(node));
            let node = free.ok_or_else(|| system("attach", image, EBUSY))?;
            host.machine.loops.insert(node.clone(), inode);
            *host.attachments.entry(node.clone()).or_default() += 1;
            Ok(node)
        })
    }

    fn detach_loop(&mut self, device: &Path) -> Result<()> {
        self.step(format!("detach {}", device.display()), |host| {
            if host.is_busy(device) || host.open.values().any(|(node, _)| node == device) {
                return Err(system("detach", device, EBUSY));
            }
            host.machine.loops.remove(device).map(|_| ()).ok_or_else(|| system("detach", device, ENXIO))
        })
    }

    fn probe_device(&mut self, path: &Path) -> Result<DeviceProbe> {
        self.step(format!("probe {}", path.display()), |host| host.probe(path))
    }

    fn open_device(&mut self, path: &Path, expected: &DeviceIdentity) -> Result<DeviceHandle> {
        self.step(format!("open {}", path.display()), |host| {
            if host.open.values().any(|(node, _)| node == path) {
                return Err(system("lock", path, EAGAIN));
            }
            let identity = host.probe(path)?.identity;
            same_device(path, expected, &identity)?;
            host.last_handle += 1;
            host.open.insert(host.last_handle, (path.to_path_buf(), identity));
            Ok(DeviceHandle(host.last_handle))
        })
    }

    fn verify_device(&mut self, handle: DeviceHandle, expected: &DeviceIdentity) -> Result<()> {
        self.step(format!("verify device {}", handle.0), |host| match host.open.get(&handle.0) {
            Some((path, identity)) => same_device(path, expected, identity),
            None => Err(system("verify", "a closed device", ENXIO)),
        })
    }

    fn close_device(&mut self, handle: DeviceHandle) -> Result<()> {
        self.step(format!("close device {}", handle.0), |host| {
            host.open.remove(&handle.0).map(|_| ()).ok_or_else(|| system("close", "a closed device", ENXIO))
        })
    }

    fn mount(&mut self, request: &MountRequest) -> Result<()> {
        self.step(request.line(), |host| {
            if !host.machine.directories.contains(&request.target) {
                return Err(system("mount on", &request.target, ENOENT));
            }
            let number = host.probe(&request.source)?.identity.number;
            let device = if request.filesystem == "btrfs" { (0, 99) } else { number };
            let mount = MountInfo {
                device,
                target: request.target.clone(),
                filesystem: request.filesystem.clone(),
                source: request.source.display().to_string(),
                options: host.shown_options(request),
            };
            host.machine.mounts.push(mount);
            Ok(())
        })
    }

    fn unmount(&mut self, target: &Path) -> Result<()> {
        self.step(format!("umount {}", target.display()), |host| {
            if host.busy_unmounts > 0 {
                host.busy_unmounts -= 1;
                return Err(system("unmount", target, EBUSY));
            }
            let position = host.machine.mounts.iter().rposition(|mount| mount.target == target);
            position
                .map(|index| host.machine.mounts.remove(index))
                .map(|_| ())
                .ok_or_else(|| system("unmount", target, EINVAL))
        })
    }

    fn mounts(&mut self) -> Result<Vec<MountInfo>> {
        self.step("mounts".to_string(), |host| Ok(host.machine.mounts.clone()))
    }

    fn start_engine(&mut self, request: &EngineRequest) -> Result<Box<dyn EngineProcess>> {
        self.step(format!("engine in {}", request.directory.display()), |host| {
            host.requests.push(request.clone());
            let engine = host.engines.pop_front();
            engine
                .map(|engine| Box::new(engine) as Box<dyn EngineProcess>)
                .ok_or_else(|| HostError::NoProgram { program: "fake engine".to_string() })
        })
    }
}

fn same_device(path: &Path, expected: &DeviceIdentity, found: &DeviceIdentity) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let difference = format!("{expected:?} became {found:?}");
    Err(HostError::IdentityChanged { path: path.display().to_string(), difference })
}

/// An engine that says what it was told to say.
#[derive(Debug, Clone, Default)]
pub struct FakeEngine {
    /// What comes from it, in order.
    pub outputs: VecDeque<EngineOutput>,
    /// Whether it stays silent after that, as one whose worker hangs; else its stdout ends.
    pub hangs: bool,
    /// Whether it cannot be ended.
    pub unstoppable: bool,
}

impl EngineProcess for FakeEngine {
    fn next(&mut self, _timeout: Duration) -> EngineOutput {
        let after = if self.hangs { EngineOutput::Silence } else { EngineOutput::End(String::new()) };
        self.outputs.pop_front().unwrap_or(after)
    }

    fn ask_to_stop(&mut self) {}

    fn stop(&mut self, _limit: Duration) -> bool {
        !self.unstoppable
    }

    fn pid(&self) -> u32 {
        1
    }
}
