//! Everything that the guards need to know about a device.
//!
//! Each fact comes from where the kernel keeps it. A fact that cannot be determined is reported as unknown,
//! which the guards treat as a refusal. The facts are gathered first ([`graph`], [`users`], [`signatures`],
//! [`exports`], [`tables`]), then evaluated by functions that read nothing ([`judge`]).
//!
//! Uses that no file reveals, such as a mount in a namespace without any process or a filesystem's external
//! journal, show up when an exclusive open fails: the kernel admits nobody alongside such a claim. Not
//! detected are descriptors of processes outside the PID namespace, of io_uring's registered files, and of
//! threads with a descriptor table of their own.

mod carried;
mod content;
mod exports;
mod graph;
mod judge;
mod signatures;
mod tables;
mod users;

use super::device::{identity, model, partition, serial};
use super::{BUSY_PATIENCE, device_number, files, while_busy};
use crate::probe::{DeviceIdentity, DeviceProbe, Signature, Use};
use crate::{HostError, Result};
use graph::Graph;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use users::{Opened, Opener};

/// Device number, major and minor.
type Number = (u32, u32);

/// Where the system itself is.
const SYSTEM: &[&str] = &["/", "/boot", "/boot/efi", "/usr", "/var"];

/// Everything that the guards need to know about what is at a path. `protected` is what no device under test
/// may carry, each with its name.
pub(super) fn probe(path: &Path, protected: &[(String, PathBuf)]) -> Result<DeviceProbe> {
    let canonical = fs::canonicalize(path).map_err(|error| HostError::system("find", path, error))?;
    let stat =
        rustix::fs::stat(&canonical).map_err(|error| HostError::system("examine", &canonical, error))?;
    let mut found = DeviceProbe { path: path.to_path_buf(), canonical, ..DeviceProbe::default() };
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return Ok(found);
    }
    found.block = true;
    let number = device_number(stat.st_rdev);
    found.identity.number = number;
    found.model = model(number).unwrap_or_default();
    look_at_descriptor(&mut found);
    look_at_uses(&mut found, protected);
    look_for_claim(&mut found);
    Ok(found)
}

/// Identity, write protection, logical block size and signatures, from one descriptor, so that all are of the
/// same device.
fn look_at_descriptor(found: &mut DeviceProbe) {
    let device = match open(&found.canonical, OFlags::empty()) {
        Ok(device) => Arc::new(device),
        Err(error) => {
            found.unknown.push(format!("content: it cannot be opened: {}", crate::reason(error.into())));
            found.identity = identity_from_sysfs(found.identity.number);
            return;
        }
    };
    match identity(device.as_fd(), &found.canonical) {
        Ok(identity) => found.identity = identity,
        Err(error) => found.unknown.push(format!("identity: {error}")),
    }
    match fsdyno_sys::block::read_only(device.as_fd()) {
        Ok(true) => found.uses.push(Use::ReadOnly),
        Ok(false) => {}
        Err(error) => found.unknown.push(format!("write protection: {}", crate::reason(error.into()))),
    }
    match fsdyno_sys::block::sector_size(device.as_fd()) {
        Ok(bytes) => found.sector_bytes = bytes,
        Err(error) => found.unknown.push(format!("logical block size: {}", crate::reason(error.into()))),
    }
    match signatures::read(&device, found.identity.size_bytes) {
        Ok(signatures) => found.signatures = signatures,
        Err(reason) => found.unknown.push(format!("signatures: {reason}")),
    }
}

/// For a device that cannot be opened: enough to name it.
fn identity_from_sysfs(number: Number) -> DeviceIdentity {
    let directory = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
    let value = |name: &str| files::read_text(&directory.join(name)).ok()?.trim().parse::<u64>().ok();
    DeviceIdentity {
        number,
        // Sectors of 512 bytes, whatever the device's own (Documentation/ABI/stable/sysfs-block).
        size_bytes: value("size").unwrap_or(0) * 512,
        // A partition has none of its own.
        diskseq: value("diskseq").or_else(|| value("../diskseq")),
        serial: serial(number),
        partition: partition(number),
    }
}

fn look_at_uses(found: &mut DeviceProbe, protected: &[(String, PathBuf)]) {
    let unknown = &mut found.unknown;
    let mut graph = Graph::read(unknown);
    let namespaces = users::namespaces(unknown);
    graph.place_backing_files(users::own_mounts(&namespaces), unknown);
    let swaps = users::swaps(unknown);
    let system = SYSTEM.iter().map(|path| ((*path).to_string(), PathBuf::from(path)));
    let protected: Vec<(String, PathBuf)> = system.chain(protected.iter().cloned()).collect();
    let carried = carried::by_device(&graph, users::own_mounts(&namespaces), &swaps, &protected, unknown);
    let number = found.identity.number;
    let watched = judge::watched(&graph, number);
    let announced = announced(number, &watched, &found.signatures, unknown);
    let siblings = graph.siblings(number).map(Opened::Block).collect();
    let openers = lasting_openers(&watched, &siblings, unknown);
    let facts = judge::Facts { graph, namespaces, swaps, carried, openers };
    found.uses.extend(facts.uses_of(number));
    found.shared_with = facts.shared_with(number);
    found.uses.extend(announced);
}

/// Recorded uses: what the kernel exports to other machines, and the system tables. For a partition those of
/// its disk also count.
fn announced(
    number: Number,
    watched: &BTreeSet<Opened>,
    signatures: &[Signature],
    unknown: &mut Vec<String>,
) -> Vec<Use> {
    let leads_here = |path: &Path| tables::opened_at(path).is_some_and(|opened| watched.contains(&opened));
    let exports = exports::exports(Path::new(exports::CONFIGFS), Path::new(exports::MODULES), unknown);
    let served = exports.into_iter().filter(|export| leads_here(&export.path));
    let mut uses: Vec<Use> = served.map(|export| Use::Exported { by: export.by }).collect();
    let entries = tables::entries(Path::new("/"), unknown);
    let uevent = files::read_text(Path::new(&format!("/sys/dev/block/{}:{}/uevent", number.0, number.1)));
    let partition = uevent.ok().and_then(|text| tables::Partition::parse(&text));
    let known = tables::Known { signatures, partition: partition.as_ref() };
    uses.extend(tables::uses(&entries, known, Path::new("/dev/disk"), &leads_here, unknown));
    uses
}

/// udev and the programs that it runs open every new device for a moment: only lasting openers count. Openers
/// of a sibling partition are reported, but not waited for: they are not in the way. From root, only the
/// child of a supervisor that is itself hidden can hide, between its fork and its exec.
fn lasting_openers(
    watched: &BTreeSet<Opened>,
    siblings: &BTreeSet<Opened>,
    unknown: &mut Vec<String>,
) -> Vec<Opener> {
    let all = watched.union(siblings).copied().collect();
    let start = Instant::now();
    loop {
        let mut unseen = Vec::new();
        let openers = users::openers(&all, &mut unseen);
        let in_the_way = openers.iter().any(|opener| watched.contains(&opener.opened));
        let hides_briefly = !unseen.is_empty() && rustix::process::geteuid().is_root();
        if !(in_the_way || hides_briefly) || start.elapsed() >= BUSY_PATIENCE {
            unknown.extend(unseen);
            return openers;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An exclusive open fails alongside a mount, a swap area, an array, a journal, or another exclusive opener.
fn look_for_claim(found: &mut DeviceProbe) {
    let explained = found.uses.iter().any(|one| {
        !matches!(
            one,
            Use::OpenedBy { .. }
                | Use::Inherited { .. }
                | Use::Alias { .. }
                | Use::ReadOnly
                | Use::Exported { .. }
                | Use::Configured { .. }
        )
    });
    // Errors other than busy were reported with the first open.
    if !explained && while_busy(|| open(&found.canonical, OFlags::EXCL)).err() == Some(Errno::BUSY) {
        let name = "something that has claimed it exclusively and is not visible elsewhere";
        found.uses.push(Use::Holder { name: name.to_string() });
    }
}

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

/// Device numbers of the nodes that a mount's source names, joined by colons where there are several
/// (bcachefs).
fn devices_named(source: &str) -> Vec<Number> {
    let nodes = source.split(':').filter(|path| path.starts_with('/'));
    nodes.filter_map(|path| block_number(Path::new(path))).collect()
}

/// Device number of a block device node.
fn block_number(path: &Path) -> Option<Number> {
    let stat = rustix::fs::stat(path).ok()?;
    let block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    block.then(|| device_number(stat.st_rdev))
}
