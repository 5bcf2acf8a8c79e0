//! The guest from the inside: fsdyno as the first process of a kernel.
//!
//! It mounts what programs expect, loads the modules in the archive, finds its two ports, waits until it is
//! woken, and serves the ports until the host closes them; then it powers off. It must not exit, because a
//! kernel panics if its first process exits.

use crate::initramfs::{BINARY, MODULES};
use crate::wire::{AGENT_PORT, Awake, ENGINE_PORT, GuestReady, Time, Wake, line};
use fsdyno_host::agent::serve;
use fsdyno_host::local::LocalHost;
use fsdyno_host::remote::{Engines, News, Order};
use fsdyno_sys::block::read_partitions;
use fsdyno_sys::random::{can_be_reseeded, reseed};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};
use rustix::time::{ClockId, Timespec, clock_settime};
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The mounts that programs expect, and the kernel options that provide them.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", "PROC_FS"),
    ("sysfs", "/sys", "SYSFS"),
    ("devtmpfs", "/dev", "DEVTMPFS"),
    ("tmpfs", "/run", "TMPFS"),
    ("tmpfs", "/tmp", "TMPFS"),
];
/// The time that the ports may take to appear.
const PORTS_LIMIT: Duration = Duration::from_secs(30);
/// The interval at which to check for an engine's events between commands.
const TURN: Duration = Duration::from_millis(20);

/// Runs as the first process of a guest until it is switched off.
pub fn run() {
    if let Err(error) = live() {
        eprintln!("fsdyno: {error}");
    }
    // Nobody needs what this would write back: the disks are scratch.
    let _ = reboot(RebootCommand::PowerOff);
}

fn live() -> io::Result<()> {
    for (kind, target, option) in MOUNTS {
        mount(*kind, *target, *kind, MountFlags::empty(), None).map_err(lacks(option))?;
    }
    // tmpfs is writable by everybody, but these two belong to root on any machine.
    for directory in ["/", "/run"] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    // Only a load whose memory is limited needs cgroups; without them its trial says so.
    let cgroups = "/sys/fs/cgroup";
    if mount("cgroup2", cgroups, "cgroup2", MountFlags::empty(), None).is_ok() {
        let _ = fs::write(format!("{cgroups}/cgroup.subtree_control"), "+memory");
    }
    // Starting a process needs a pair of sockets: better to report a problem now than when the first start
    // fails.
    UnixStream::pair().map_err(lacks("NET and CONFIG_UNIX"))?;
    // Older tools look there for the list of mounts.
    fs::create_dir_all("/etc")?;
    symlink("/proc/self/mounts", "/etc/mtab")?;
    sethostname(b"guest")?;
    load_modules()?;
    let agent = port(AGENT_PORT)?;
    let engine = port(ENGINE_PORT)?;
    let orders = BufReader::new(engine.try_clone()?);
    // Engines die with the thread that starts them, and this thread lives as long as the guest.
    thread::spawn(move || serve_engines(orders, &Mutex::new(engine)));
    let mut requests = BufReader::new(agent.try_clone()?);
    wake(&mut requests, &agent)?;
    serve(requests, agent, LocalHost::of_guest(PathBuf::from(BINARY)));
    Ok(())
}

/// Says that everything is there, and waits for what makes this guest different from others that go on from
/// the same snapshot.
fn wake(requests: &mut impl BufRead, mut answers: &File) -> io::Result<()> {
    let reseeds = can_be_reseeded();
    answers.write_all(&line(&GuestReady { reseeds })?)?;
    let mut answer = |done: io::Result<()>| {
        let awake: Awake = done.map_err(|error| error.to_string());
        answers.write_all(&line(&awake)?)
    };
    let wake: Wake = heard(requests)?;
    answer(woken(&wake, reseeds))?;
    let time: Time = heard(requests)?;
    answer(set_clock(&time))
}

fn heard<T: DeserializeOwned>(requests: &mut impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    requests.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn set_clock(time: &Time) -> io::Result<()> {
    let now = Timespec::try_from(time.now).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(clock_settime(ClockId::Realtime, now)?)
}

fn woken(wake: &Wake, reseeds: bool) -> io::Result<()> {
    if reseeds {
        reseed(&wake.seed)?;
    }
    look_for_partitions()
}

/// Disks may have got their content after the kernel found them.
fn look_for_partitions() -> io::Result<()> {
    for disk in fs::read_dir("/sys/block")?.flatten().map(|entry| entry.file_name()) {
        if disk.as_bytes().starts_with(b"vd") {
            read_partitions(File::open(Path::new("/dev").join(disk))?.as_fd())?;
        }
    }
    Ok(())
}

/// A missing kernel feature, named after its configuration option.
fn lacks<E: Into<io::Error>>(option: &str) -> impl FnOnce(E) -> io::Error {
    let option = option.to_string();
    move |error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("this kernel lacks CONFIG_{option}: {error}"))
    }
}

/// Loads the modules; one that the kernel rejects, for example because of the processor, is reported on the
/// console.
fn load_modules() -> io::Result<()> {
    for path in fs::read_to_string(MODULES)?.lines() {
        match finit_module(File::open(path)?, c"", 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => eprintln!("fsdyno: module '{path}': {error}"),
        }
        // Its memory is needed elsewhere.
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Opens the port with this name, waiting for the kernel to find it.
fn port(name: &str) -> io::Result<File> {
    let deadline = Instant::now() + PORTS_LIMIT;
    loop {
        if let Some(node) = port_node(name) {
            match OpenOptions::new().read(true).write(true).open(&node) {
                // devtmpfs creates the node shortly after the name appears in sysfs.
                Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => {}
                result => return result,
            }
        }
        if Instant::now() >= deadline {
            let text = format!(
                "there is no port '{name}': this kernel lacks CONFIG_VIRTIO_PCI or CONFIG_VIRTIO_CONSOLE"
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn port_node(name: &str) -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let own =
        |directory: &Path| fs::read_to_string(directory.join("name")).is_ok_and(|text| text.trim() == name);
    let found = ports.map(|port| port.path()).find(|path| own(path))?;
    Some(Path::new("/dev").join(found.file_name()?))
}

/// Carries out commands and passes on the output of engines, until the port is closed.
fn serve_engines(input: impl BufRead + Send, output: &Mutex<impl Write + Send>) {
    let (sender, orders) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for line in input.lines().map_while(Result::ok) {
                let passed_on = match serde_json::from_str::<Order>(&line) {
                    Ok(order) => match order.answered_at_once() {
                        Some(news) => tell(output, &news).is_ok(),
                        None => sender.send(order).is_ok(),
                    },
                    Err(error) => {
                        eprintln!("fsdyno: a command is not valid: {error}");
                        true
                    }
                };
                if !passed_on {
                    return;
                }
            }
        });
        let mut engines = Engines::new(PathBuf::from(BINARY));
        loop {
            let news = match next_order(&orders, engines.is_busy()) {
                Err(()) => return,
                Ok(Some(order)) => engines.carry_out(order),
                Ok(None) => engines.news(TURN),
            };
            if news.is_some_and(|news| tell(output, &news).is_err()) {
                return;
            }
        }
    });
}

/// The next command; without an engine to listen to, there is time to wait for it.
fn next_order(orders: &Receiver<Order>, busy: bool) -> Result<Option<Order>, ()> {
    if !busy {
        return orders.recv().map(Some).map_err(drop);
    }
    match orders.recv_timeout(Duration::ZERO) {
        Ok(order) => Ok(Some(order)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(()),
    }
}

fn tell(output: &Mutex<impl Write>, news: &News) -> io::Result<()> {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(&line(news)?)?;
    output.flush()
}
