//! The virtual machine: one QEMU process, its console, and the streams to its ports.
//!
//! Every stream is one end of a pair of sockets that QEMU inherits, so there is no path to collide with,
//! nobody else can listen, and nothing of it remains. QEMU dies with the thread that started it
//! (`PR_SET_PDEATHSIG`), and the streams end with QEMU.
//!
//! QEMU opens none of fsdyno's files by path. Kernel, archive and disks are descriptors that it inherits, so
//! it gets exactly what was created and verified, and needs no permission for any of them: if root starts it,
//! it runs as another user ([`crate::user`]). Its system calls are filtered (`-sandbox`).

use crate::error::{GuestError, Result};
use crate::user;
use crate::wire::{AGENT_PORT, ENGINE_PORT};
use fsdyno_core::{Bytes, DiskCache, GuestShape};
use fsdyno_host::guest::Link;
use fsdyno_host::local::find_program;
use fsdyno_sys::child;
use fsdyno_sys::confine::{Access, Ruleset};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The program.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// How much of the console to keep, from its end.
const CONSOLE_KEPT: usize = 64 * 1024;
/// How many lines of it to report.
const LINES_TOLD: usize = 20;
/// How long QEMU may take to exit after it was killed or its guest has powered off.
const GRACE: Duration = Duration::from_secs(2);

/// A kernel's first output (init/version.c), which appears if it is told to print everything.
const FIRST_LINE: &str = "Linux version";
/// How a kernel announces serious problems, root causes first.
const ALARMS: &[&str] = &["BUG:", "Oops:", "general protection fault", "Kernel panic", "I/O error, dev"];
/// The coarsest alignment that a disk requires, in bytes.
const FIRST_BLOCK: u64 = 4096;
const PAUSE: Duration = Duration::from_millis(5);

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The processor, by the kernel's module.
    Kvm,
    /// QEMU's own translator, with one thread per processor.
    Tcg,
}

impl Accelerator {
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg,thread=multi",
        }
    }
}

/// What a machine is started with.
pub(crate) struct Setup<'a> {
    /// Its kernel, a bzImage or one to enter directly, which any user may read who has the descriptor; the
    /// archive likewise.
    pub image: File,
    pub initramfs: File,
    pub shape: GuestShape,
    /// Each disk, with its path for a person.
    pub disks: Vec<(&'a Path, &'a OwnedFd)>,
    /// Whether another machine has the last disk, too.
    pub shares_last: bool,
    /// Ends of cables to other guests.
    pub links: &'a [Link],
    /// Where QEMU logs the requests to the first disk, if it is to.
    pub log: Option<&'a OwnedFd>,
    pub accelerator: Accelerator,
    /// Additional words for its kernel's command line.
    pub kernel_words: &'a str,
}

/// What QEMU inherits.
struct Inherited {
    console: Arc<OwnedFd>,
    agent: Arc<OwnedFd>,
    engine: Arc<OwnedFd>,
    image: Arc<OwnedFd>,
    archive: Arc<OwnedFd>,
    disks: Vec<(PathBuf, Arc<OwnedFd>)>,
    shares_last: bool,
    links: Vec<([u8; 6], Arc<OwnedFd>)>,
    log: Option<Arc<OwnedFd>>,
}

impl Inherited {
    fn all(&self) -> Vec<Arc<OwnedFd>> {
        let disks = self.disks.iter().map(|(_, disk)| disk);
        let links = self.links.iter().map(|(_, socket)| socket);
        let others = [&self.console, &self.agent, &self.engine, &self.image, &self.archive];
        others.into_iter().chain(disks).chain(links).chain(&self.log).cloned().collect()
    }
}

/// A running machine. It is killed when dropped.
pub(crate) struct Machine {
    child: Child,
    console: Arc<Mutex<Vec<u8>>>,
    complaints: Arc<Mutex<Vec<u8>>>,
    /// Whether it has not exited on its own.
    killed: bool,
    started: Instant,
}

/// The host's ends of the streams to a guest.
pub(crate) struct Ports {
    pub agent: UnixStream,
    pub engine: UnixStream,
}

impl Machine {
    /// Starts QEMU.
    pub fn start(setup: Setup<'_>) -> Result<(Machine, Ports)> {
        let shape = setup.shape;
        let disks = setup
            .disks
            .iter()
            .map(|(path, disk)| Ok((path.to_path_buf(), prepared(path, disk, shape.cache)?)));
        let disks = disks.collect::<Result<Vec<_>>>()?;
        let log = setup.log.map(OwnedFd::try_clone).transpose();
        let log = log.map_err(GuestError::file("open the log of", Path::new(QEMU)))?;
        let links = setup.links.iter().map(|link| Ok((link.address, Arc::new(link.socket.try_clone()?))));
        let links = links.collect::<io::Result<Vec<_>>>();
        let links = links.map_err(GuestError::file("connect", Path::new(QEMU)))?;
        let streams = || Ok((UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?));
        let ((console, its_console), (agent, its_agent), (engine, its_engine)) =
            streams().map_err(GuestError::file("make sockets for", Path::new(QEMU)))?;
        let inherited = Inherited {
            console: Arc::new(its_console.into()),
            agent: Arc::new(its_agent.into()),
            engine: Arc::new(its_engine.into()),
            image: Arc::new(setup.image.into()),
            archive: Arc::new(setup.initramfs.into()),
            disks,
            shares_last: setup.shares_last,
            links,
            log: log.map(Arc::new),
        };
        let program = find_program(QEMU).ok_or(GuestError::NotInstalled { program: QEMU })?;
        let mut command = Command::new(program);
        command.arg0(QEMU).args(words(&shape, setup.accelerator, setup.kernel_words, &inherited));
        // What it reads is on its command line, and nothing of fsdyno's is in its working directory.
        command.env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        child::set_up_unprivileged(&mut command, inherited.all(), user::of_qemu());
        if let Some(ruleset) = bounds().map_err(GuestError::file("confine", Path::new(QEMU)))? {
            child::confine(&mut command, ruleset);
        }
        let started = Instant::now();
        let mut child = command.spawn().map_err(GuestError::file("start", Path::new(QEMU)))?;
        // They own QEMU's ends of the sockets; once they are closed, the streams end with QEMU.
        drop((command, inherited));
        let collected = collect(console).and_then(|console| {
            Ok((console, child.stderr.take().map(collect).transpose()?.unwrap_or_default()))
        });
        match collected {
            Ok((console, complaints)) => {
                let machine = Machine { child, console, complaints, killed: false, started };
                Ok((machine, Ports { agent, engine }))
            }
            Err(error) => {
                // Nothing of it has been used yet.
                let _ = child.kill().and_then(|()| child.wait());
                Err(GuestError::file("start a thread for", Path::new(QEMU))(error))
            }
        }
    }

    /// The last lines of the console, QEMU's error output, and how it exited.
    pub fn last_words(&mut self) -> String {
        let mut told = telling(&text(&self.console));
        told.extend(text(&self.complaints).lines().map(str::to_string));
        if let (Ok(Some(status)), false) = (self.child.try_wait(), self.killed) {
            told.push(format!("{QEMU} has exited: {status}"));
        }
        told.join("\n")
    }

    /// Whether the guest's kernel reports that it has started, within this time.
    pub fn begins(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline && !self.has_exited() {
            if text(&self.console).contains(FIRST_LINE) {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        false
    }

    /// Whether QEMU has exited.
    pub fn has_exited(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// How long ago QEMU was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits a moment for a guest that is powering off, so that its last output is complete.
    pub fn settle(&mut self) -> bool {
        let deadline = Instant::now() + GRACE;
        loop {
            if self.has_exited() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        // It has not been reaped unless it has exited, so its number is still its own.
        if let Ok(None) = self.child.try_wait() {
            self.killed = true;
            let _ = self.child.kill();
            self.settle();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What QEMU may change in addition to what it inherits: the kernel module that executes its guest.
fn bounds() -> io::Result<Option<Ruleset>> {
    Ruleset::new(["/dev/kvm", "/dev/null"].map(|path| (path, Access::File)))
}

/// The most informative lines of a console: those from the first sign of a problem on, or else the last ones.
fn telling(console: &str) -> Vec<String> {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let end = lines.len().saturating_sub(LINES_TOLD);
    let of_alarm = |alarm: &&str| lines.iter().position(|line| line.contains(*alarm));
    let start = ALARMS.iter().find_map(of_alarm).unwrap_or(end);
    lines[start..].iter().take(LINES_TOLD).map(|line| (*line).to_string()).collect()
}

fn text(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// Reads all of a stream in a separate thread, so that the writer never waits; its last part is kept.
fn collect(mut stream: impl Read + Send + 'static) -> io::Result<Arc<Mutex<Vec<u8>>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&kept);
    std::thread::Builder::new().spawn(move || {
        let mut buffer = [0_u8; 4096];
        while let Ok(length) = stream.read(&mut buffer) {
            if length == 0 {
                return;
            }
            let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..length]);
            let surplus = kept.len().saturating_sub(CONSOLE_KEPT);
            kept.drain(..surplus);
        }
    })?;
    Ok(kept)
}

/// A disk for QEMU: reopened, so that it has its own flags, through the descriptor, so that it is the same
/// file.
fn prepared(path: &Path, disk: &OwnedFd, cache: DiskCache) -> Result<Arc<OwnedFd>> {
    allocate_first_block(disk).map_err(GuestError::file("prepare the disk", path))?;
    let direct = if cache == DiskCache::None { OFlags::DIRECT } else { OFlags::empty() };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | direct;
    match rustix::fs::open(child::path_of(disk.as_fd()), flags, Mode::empty()) {
        Ok(disk) => Ok(Arc::new(disk)),
        Err(Errno::INVAL) if !direct.is_empty() => Err(GuestError::NoDirectIo { path: path.to_path_buf() }),
        Err(error) => Err(GuestError::file("open the disk", path)(error.into())),
    }
}

/// Writes to the beginning of a sparse file, if there is a hole, without changing what is read. QEMU
/// determines the alignment of direct requests by reading there; a hole accepts requests of any size, from
/// which QEMU concludes 4096 bytes, and would read and write back the surroundings of each smaller request of
/// the guest.
fn allocate_first_block(disk: &OwnedFd) -> io::Result<()> {
    let file = File::from(disk.try_clone()?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(());
    }
    let mut block = vec![0; usize::try_from(found.len().min(FIRST_BLOCK)).unwrap_or_default()];
    file.read_exact_at(&mut block, 0)?;
    file.write_all_at(&block, 0)?;
    file.sync_data()
}

/// What QEMU may not do once it runs: change its user, start programs, move between processors, use system
/// calls that no libc uses any more (qemu(1)).
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// The command line of QEMU.
fn words(
    shape: &GuestShape,
    accelerator: Accelerator,
    kernel_words: &str,
    inherited: &Inherited,
) -> Vec<String> {
    let chardev =
        |name: &str, descriptor: &OwnedFd| format!("socket,id={name},fd={}", descriptor.as_fd().as_raw_fd());
    let port = |name: &str, of: &str| format!("virtserialport,chardev={name},name={of}");
    let memory = shape.memory.0 / Bytes::MIB;
    let mut words: Vec<String> = ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        .into_iter()
        .map(str::to_string)
        .collect();
    let mut option = |name: &str, value: String| words.extend([name.to_string(), value]);
    option("-sandbox", SANDBOX.to_string());
    option("-machine", "q35".to_string());
    option("-accel", accelerator.option().to_string());
    option("-cpu", "max".to_string());
    option("-smp", shape.processors.to_string());
    option("-m", format!("{memory}M"));
    option("-kernel", child::path_of(inherited.image.as_fd()));
    option("-initrd", child::path_of(inherited.archive.as_fd()));
    // The first output shows whether a guest under KVM is alive at all; an emulated serial line is slow.
    let loglevel = if accelerator == Accelerator::Kvm { 7 } else { 4 };
    option("-append", format!("loglevel={loglevel} {kernel_words} {COMMAND_LINE}"));
    option("-chardev", chardev("console", &inherited.console));
    option("-serial", "chardev:console".to_string());
    option("-device", "virtio-serial-pci".to_string());
    option("-chardev", chardev("agent", &inherited.agent));
    option("-device", port("agent", AGENT_PORT));
    option("-chardev", chardev("engine", &inherited.engine));
    option("-device", port("engine", ENGINE_PORT));
    for (index, (address, socket)) in inherited.links.iter().enumerate() {
        let descriptor = socket.as_fd().as_raw_fd();
        let address = address.map(|byte| format!("{byte:02x}")).join(":");
        option("-netdev", format!("stream,id=link{index},server=off,addr.type=fd,addr.str={descriptor}"));
        option("-device", format!("virtio-net-pci,netdev=link{index},mac={address},romfile="));
    }
    for (index, (path, disk)) in inherited.disks.iter().enumerate() {
        option("-add-fd", fdset(index, path, disk));
        option("-blockdev", blockdev(index, shape.cache));
        let node = match &inherited.log {
            Some(log) if index == 0 => {
                let set = inherited.disks.len();
                option("-add-fd", fdset(set, Path::new("log"), log));
                option("-blockdev", format!("driver=file,node-name=log,filename=/dev/fdset/{set}"));
                option("-blockdev", LOGGED.to_string());
                "logged".to_string()
            }
            _ => format!("disk{index}"),
        };
        // The guest gets all errors, including those of a full host filesystem, for which QEMU would
        // otherwise pause it.
        let errors = "werror=report,rerror=report";
        // Requests reach the disk as the guest's kernel made them. If QEMU merged them they could have more
        // segments than a system call accepts, and fail.
        let merging = "request-merging=off";
        // Otherwise QEMU locks the file.
        let is_shared = inherited.shares_last && index + 1 == inherited.disks.len();
        let sharing = if is_shared { ",share-rw=on" } else { "" };
        option(
            "-device",
            format!("virtio-blk-pci,drive={node},serial=fsdyno{index},{errors},{merging}{sharing}"),
        );
    }
    words
}

/// The first disk with a log of its requests, which is complete at any time.
const LOGGED: &str =
    "driver=blklogwrites,node-name=logged,file=disk0,log=log,log-sector-size=512,log-super-update-interval=1";

/// The command line of a guest's kernel. Mitigations cost emulated processors most and protect nobody here;
/// the clock of the emulated processor is steady, which the kernel would not believe; tests of cryptographic
/// algorithms take it half a second; a kernel that panics exits at once, and one that has oopsed is no longer
/// trusted.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 oops=panic mitigations=off tsc=reliable \
                            clocksource=tsc cryptomgr.notests rdinit=/fsdyno -- guest";

/// The descriptor of a disk under one of QEMU's names, `/dev/fdset/0`; the path tells a person what it is.
fn fdset(index: usize, path: &Path, disk: &OwnedFd) -> String {
    // A comma separates options; two of them stand for one in a name.
    let path = path.display().to_string().replace(',', ",,");
    format!("fd={},set={index},opaque={path}", disk.as_fd().as_raw_fd())
}

/// A disk, with the cache mode in the words of `-drive` spelled out (qemu(1)).
fn blockdev(index: usize, cache: DiskCache) -> String {
    let (direct, no_flush) = match cache {
        DiskCache::None => ("on", "off"),
        DiskCache::Writeback => ("off", "off"),
        DiskCache::Unsafe => ("off", "on"),
    };
    format!(
        "driver=file,node-name=disk{index},filename=/dev/fdset/{index},aio=threads,discard=unmap,\
         cache.direct={direct},cache.no-flush={no_flush}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_disk_keeps_its_file_when_its_name_goes_to_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a,b");
        let disk = File::create_new(&path).unwrap();
        disk.set_len(1 << 20).unwrap();
        let disk = OwnedFd::from(File::options().read(true).write(true).open(&path).unwrap());
        fs::rename(&path, directory.path().join("moved")).unwrap();
        fs::write(&path, b"decoy").unwrap();
        let given = prepared(&path, &disk, DiskCache::Writeback).unwrap();
        let inode = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_ino;
        assert_eq!(inode(&given), inode(&disk));
        assert_eq!(fs::read(&path).unwrap(), b"decoy");
        assert!(fdset(2, &path, &given).ends_with("/a,,b") && fdset(2, &path, &given).contains(",set=2,"));
    }

    #[test]
    fn a_disk_says_how_it_is_cached() {
        let disk = |cache| blockdev(3, cache);
        assert!(disk(DiskCache::None).contains("filename=/dev/fdset/3,"));
        assert!(disk(DiskCache::None).ends_with("cache.direct=on,cache.no-flush=off"));
        assert!(disk(DiskCache::Writeback).ends_with("cache.direct=off,cache.no-flush=off"));
        assert!(disk(DiskCache::Unsafe).ends_with("cache.direct=off,cache.no-flush=on"));
    }

    #[test]
    fn the_begin_of_a_disk_is_no_hole_and_reads_as_before() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        let open = || OwnedFd::from(File::options().read(true).write(true).open(&disk).unwrap());
        File::create(&disk).and_then(|file| file.set_len(1 << 20)).unwrap();
        allocate_first_block(&open()).unwrap();
        assert!(fs::metadata(&disk).unwrap().blocks() > 0);
        assert!(fs::read(&disk).unwrap().iter().all(|byte| *byte == 0));
        fs::write(&disk, b"short").unwrap();
        allocate_first_block(&open()).unwrap();
        assert_eq!(fs::read(&disk).unwrap(), b"short");
    }

    #[test]
    fn a_console_tells_what_killed_its_kernel() {
        let lines =
            |range: std::ops::Range<u32>| range.map(|n| format!("[ 1] line {n}\n")).collect::<String>();
        let console = format!("{}[ 2] Kernel panic - not syncing: x\n{}", lines(0..50), lines(50..100));
        assert_eq!(telling(&console)[..2], ["[ 2] Kernel panic - not syncing: x", "[ 1] line 50"]);
        assert_eq!(telling(&console).len(), LINES_TOLD);
        assert_eq!(telling(&lines(0..50)).last().map(String::as_str), Some("[ 1] line 49"));
    }

    #[test]
    fn only_the_end_of_a_long_console_is_kept() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let kept = collect(reader).unwrap();
        for number in 0..20_000 {
            io::Write::write_all(&mut writer, format!("line {number}\n").as_bytes()).unwrap();
        }
        drop(writer);
        while !text(&kept).ends_with("line 19999\n") {
            std::thread::yield_now();
        }
        assert!(text(&kept).len() <= CONSOLE_KEPT);
    }
}
