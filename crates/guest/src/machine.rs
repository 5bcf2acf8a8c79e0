//! The virtual machine: one QEMU process, its console, and the streams to its ports.
//!
//! Every stream is one end of a pair of sockets that QEMU inherits, so there is no path to collide with,
//! nobody else can listen, and nothing of it remains. QEMU dies with the thread that started it
//! (`PR_SET_PDEATHSIG`), and the streams end with QEMU.
//!
//! QEMU opens none of fsdyno's files by path. Kernel, archive and disks are descriptors that it inherits, so
//! it gets exactly what was created and verified, and needs no permission for any of them: if root starts it,
//! it runs as another user ([`crate::user`]). Its system calls are filtered (`-sandbox`).

use crate::command_line::{Accelerator, Inherited, InheritedDisk, InheritedLink, words};
use crate::error::{GuestError, Result};
use crate::user;
use fsdyno_core::{Bytes, DiskCache, GuestShape, meminfo};
use fsdyno_host::guest::Link;
use fsdyno_host::local::find_program;
use fsdyno_sys::child;
use fsdyno_sys::confine::{Access, Ruleset};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The program.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// The number of bytes of the console that are kept, from its end.
const CONSOLE_KEPT: usize = 64 * 1024;
/// The most lines of the console that are reported.
const LINES_TOLD: usize = 20;
/// The time that QEMU may take to exit after it was killed or its guest has powered off.
const GRACE: Duration = Duration::from_secs(2);

/// A kernel's first output (init/version.c), which appears if it is told to print everything.
const FIRST_LINE: &str = "Linux version";
/// The words by which a kernel announces serious problems, root causes first.
const ALARMS: &[&str] = &["BUG:", "Oops:", "general protection fault", "Kernel panic", "I/O error, dev"];
/// The coarsest alignment that a disk requires, in bytes.
const FIRST_BLOCK: u64 = 4096;
const PAUSE: Duration = Duration::from_millis(5);

/// The parameters with which a machine is started.
pub(crate) struct Setup<'a> {
    /// Its kernel, a bzImage or one to enter directly, which any user may read who has the descriptor; the
    /// archive likewise.
    pub image: File,
    pub initramfs: File,
    pub shape: GuestShape,
    pub disks: Vec<Disk<'a>>,
    /// `true` if another machine has the last disk, too.
    pub shares_last: bool,
    pub links: Vec<Cable<'a>>,
    /// Where QEMU logs the requests to the first disk, if it is to.
    pub log: Option<&'a OwnedFd>,
    pub accelerator: Accelerator,
    /// Additional words for its kernel's command line.
    pub kernel_words: &'a str,
    pub start: Start,
}

/// The way in which a machine starts.
pub(crate) enum Start {
    /// Its kernel boots.
    Boot,
    /// Its kernel boots, and QEMU listens for commands.
    BootWithMonitor,
    /// It goes on from a snapshot of a machine with the same devices.
    Resume(File),
}

/// A disk of a machine.
pub(crate) enum Disk<'a> {
    /// A file, with its path for a person.
    File(&'a Path, &'a OwnedFd),
    /// One of this size without anything on it, and nothing behind it.
    Blank(Bytes),
}

/// The connection of a network interface.
pub(crate) enum Cable<'a> {
    /// One end of a cable to another guest.
    To(&'a Link),
    /// Nothing; the interface has this address.
    Unplugged([u8; 6]),
}

/// A running machine. It is killed when dropped.
pub(crate) struct Machine {
    child: Child,
    console: Arc<Mutex<Vec<u8>>>,
    complaints: Arc<Mutex<Vec<u8>>>,
    /// `true` if the machine was killed before it exited on its own.
    killed: bool,
    started: Instant,
}

/// The host's ends of the streams to a guest.
pub(crate) struct Ports {
    pub agent: UnixStream,
    pub engine: UnixStream,
    /// Commands to QEMU itself, if it listens.
    pub monitor: Option<UnixStream>,
}

impl Machine {
    /// Starts QEMU.
    pub fn start(setup: &Setup<'_>) -> Result<(Machine, Ports)> {
        let (inherited, ports, console) = inherited(setup)?;
        let program = find_program(QEMU).ok_or(GuestError::NotInstalled { program: QEMU })?;
        let mut command = Command::new(program);
        command.arg0(QEMU).args(words(&setup.shape, setup.accelerator, setup.kernel_words, &inherited));
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
                Ok((machine, ports))
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
        let mut lines = telling(&text(&self.console));
        lines.extend(text(&self.complaints).lines().map(str::to_string));
        if let (Ok(Some(status)), false) = (self.child.try_wait(), self.killed) {
            lines.push(format!("{QEMU} has exited: {status}"));
        }
        lines.join("\n")
    }

    /// Returns whether the guest's kernel reports within this time that it has started.
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

    /// Returns whether QEMU has exited.
    pub fn has_exited(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Returns the time since QEMU was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the amount of memory that QEMU uses, no less than the amount that its guest has touched.
    pub fn resident(&self) -> Bytes {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        meminfo::value(&status, "VmRSS").unwrap_or_default()
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

/// Returns the files and sockets that QEMU inherits, and the host's ends of them: the ports and the console.
fn inherited(setup: &Setup<'_>) -> Result<(Inherited, Ports, UnixStream)> {
    let of_qemu = Path::new(QEMU);
    let cloned = |file: &OwnedFd| file.try_clone().map(Arc::new);
    let disk = |disk: &Disk<'_>| match disk {
        Disk::File(path, disk) => {
            Ok(InheritedDisk::File(path.to_path_buf(), prepared(path, disk, setup.shape.cache)?))
        }
        Disk::Blank(size) => Ok(InheritedDisk::Blank(*size)),
    };
    let link = |cable: &Cable<'_>| match cable {
        Cable::To(link) => {
            cloned(&link.socket).map(|socket| InheritedLink { address: link.address, socket: Some(socket) })
        }
        Cable::Unplugged(address) => Ok(InheritedLink { address: *address, socket: None }),
    };
    let disks = setup.disks.iter().map(disk).collect::<Result<Vec<_>>>()?;
    let opened = || {
        let links = setup.links.iter().map(link).collect::<io::Result<Vec<_>>>()?;
        let (console, its_console) = UnixStream::pair()?;
        let (agent, its_agent) = UnixStream::pair()?;
        let (engine, its_engine) = UnixStream::pair()?;
        let (monitor, its_monitor) = match setup.start {
            Start::BootWithMonitor => UnixStream::pair().map(|(ours, its)| (Some(ours), Some(its)))?,
            Start::Boot | Start::Resume(_) => (None, None),
        };
        let snapshot = match &setup.start {
            Start::Resume(snapshot) => Some(Arc::new(snapshot.try_clone()?.into())),
            Start::Boot | Start::BootWithMonitor => None,
        };
        let inherited = Inherited {
            console: Arc::new(its_console.into()),
            agent: Arc::new(its_agent.into()),
            engine: Arc::new(its_engine.into()),
            image: Arc::new(setup.image.try_clone()?.into()),
            archive: Arc::new(setup.initramfs.try_clone()?.into()),
            disks,
            shares_last: setup.shares_last,
            links,
            log: setup.log.map(cloned).transpose()?,
            monitor: its_monitor.map(|stream| Arc::new(stream.into())),
            snapshot,
        };
        Ok((inherited, Ports { agent, engine, monitor }, console))
    };
    opened().map_err(GuestError::file("open the files and sockets of", of_qemu))
}

/// Returns the bounds of QEMU: apart from what it inherits, it may change only the kernel module that
/// executes its guest.
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

#[cfg(test)]
mod tests {
    use super::*;
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
