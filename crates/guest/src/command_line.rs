//! The command line of QEMU.

use crate::wire::{AGENT_PORT, ENGINE_PORT};
use fsdyno_core::{Bytes, DiskCache, GuestShape};
use fsdyno_sys::child;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The component that executes the guest's instructions.
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

/// The files and sockets that QEMU inherits.
pub(crate) struct Inherited {
    pub console: Arc<OwnedFd>,
    pub agent: Arc<OwnedFd>,
    pub engine: Arc<OwnedFd>,
    pub image: Arc<OwnedFd>,
    pub archive: Arc<OwnedFd>,
    pub disks: Vec<InheritedDisk>,
    pub shares_last: bool,
    pub links: Vec<InheritedLink>,
    pub log: Option<Arc<OwnedFd>>,
    /// The stream of commands to QEMU itself.
    pub monitor: Option<Arc<OwnedFd>>,
    /// The snapshot from which the guest resumes.
    pub snapshot: Option<Arc<OwnedFd>>,
}

/// A disk of the guest.
pub(crate) enum InheritedDisk {
    /// A file, with its path for a person.
    File(PathBuf, Arc<OwnedFd>),
    /// One of this size without anything on it, and nothing behind it.
    Blank(Bytes),
}

/// A network interface with its address.
pub(crate) struct InheritedLink {
    pub address: [u8; 6],
    /// The end of a cable, if there is one.
    pub socket: Option<Arc<OwnedFd>>,
}

impl Inherited {
    pub fn all(&self) -> Vec<Arc<OwnedFd>> {
        let disks = self.disks.iter().filter_map(|disk| match disk {
            InheritedDisk::File(_, disk) => Some(disk),
            InheritedDisk::Blank(_) => None,
        });
        let links = self.links.iter().filter_map(|link| link.socket.as_ref());
        let others = [&self.console, &self.agent, &self.engine, &self.image, &self.archive];
        let optional = [&self.log, &self.monitor, &self.snapshot].into_iter().flatten();
        others.into_iter().chain(disks).chain(links).chain(optional).cloned().collect()
    }
}

/// The actions that are forbidden to QEMU once it runs: changing its user, starting programs, moving between
/// processors, using system calls that no libc uses any more (qemu(1)).
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// The way of a network card out of the guest: a socket, or nowhere.
fn network(index: usize, socket: Option<BorrowedFd<'_>>) -> String {
    match socket {
        Some(socket) => {
            format!("stream,id=link{index},server=off,addr.type=fd,addr.str={}", socket.as_raw_fd())
        }
        None => format!("hubport,id=link{index},hubid={index}"),
    }
}

/// The words after the program's name.
pub(crate) fn words(
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
    for (index, InheritedLink { address, socket }) in inherited.links.iter().enumerate() {
        option("-netdev", network(index, socket.as_ref().map(AsFd::as_fd)));
        let address = address.map(|byte| format!("{byte:02x}")).join(":");
        option("-device", format!("virtio-net-pci,netdev=link{index},mac={address},romfile="));
    }
    for (index, disk) in inherited.disks.iter().enumerate() {
        match disk {
            InheritedDisk::File(path, disk) => {
                option("-add-fd", fdset(index, path, disk));
                option("-blockdev", blockdev(index, shape.cache));
            }
            InheritedDisk::Blank(size) => option("-blockdev", blank(index, *size)),
        }
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
    if let Some(monitor) = &inherited.monitor {
        option("-chardev", chardev("monitor", monitor));
        option("-mon", "chardev=monitor,mode=control".to_string());
    }
    if let Some(snapshot) = &inherited.snapshot {
        option("-incoming", format!("fd:{}", snapshot.as_fd().as_raw_fd()));
    }
    words
}

/// The first disk with a log of its requests, which is complete at any time.
const LOGGED: &str =
    "driver=blklogwrites,node-name=logged,file=disk0,log=log,log-sector-size=512,log-super-update-interval=1";

/// The command line of a guest's kernel. Mitigations cost emulated processors most and protect nobody here;
/// the clock of the emulated processor is steady, which the kernel would not believe; tests of cryptographic
/// algorithms take it half a second; a kernel that panics exits at once, and one that has oopsed is no longer
/// trusted. At boot the kernel counts ticks to see if the timer works, and on a busy host an emulated timer
/// is so late that it gives up or hangs; under KVM it does without that check, too.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 oops=panic mitigations=off tsc=reliable clocksource=tsc \
                            no_timer_check cryptomgr.notests rdinit=/fsdyno -- guest";

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

fn blank(index: usize, size: Bytes) -> String {
    format!("driver=null-co,node-name=disk{index},size={},read-zeroes=on", size.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_disk_says_how_it_is_cached() {
        let disk = |cache| blockdev(3, cache);
        assert!(disk(DiskCache::None).contains("filename=/dev/fdset/3,"));
        assert!(disk(DiskCache::None).ends_with("cache.direct=on,cache.no-flush=off"));
        assert!(disk(DiskCache::Writeback).ends_with("cache.direct=off,cache.no-flush=off"));
        assert!(disk(DiskCache::Unsafe).ends_with("cache.direct=off,cache.no-flush=on"));
    }

    #[test]
    fn a_path_with_a_comma_is_one_name() {
        let disk = OwnedFd::from(File::open("/dev/null").unwrap());
        let set = fdset(2, Path::new("/a,b"), &disk);
        assert!(set.ends_with("/a,,b") && set.contains(",set=2,"), "{set}");
    }

    /// A snapshot can be resumed only by a machine with the same devices.
    #[test]
    fn a_machine_without_files_has_the_same_devices() {
        let null = || Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
        let machine = |disk, socket| Inherited {
            console: null(),
            agent: null(),
            engine: null(),
            image: null(),
            archive: null(),
            disks: vec![disk],
            shares_last: false,
            links: vec![InheritedLink { address: [2; 6], socket }],
            log: None,
            monitor: None,
            snapshot: None,
        };
        let devices = |inherited: &Inherited| {
            let words = words(&GuestShape::default(), Accelerator::Tcg, "", inherited);
            let values = words.windows(2).filter(|pair| pair[0] == "-device").map(|pair| pair[1].clone());
            values.collect::<Vec<_>>()
        };
        let real = machine(InheritedDisk::File("/disk".into(), null()), Some(null()));
        let blank = machine(InheritedDisk::Blank(Bytes(Bytes::MIB)), None);
        assert_eq!(devices(&real), devices(&blank));
        assert_eq!(devices(&real).len(), 5);
    }
}
