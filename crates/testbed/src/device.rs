//! The disks of one trial: images created and attached, block devices opened, locked and verified. What is
//! built on them is in [`crate::layered`].
//!
//! Images are new in every trial, and so are their loop devices: the sequence number then shows that an open
//! device is fsdyno's own. A block device passes the guards again before each trial, because time has passed
//! since the last check. A layer is built from devices that are verified like this, and holds them
//! afterwards.

use crate::Result;
use crate::error::{GuardRefusal, TestbedError};
use crate::filesystem::Target;
use crate::guard::{Testbed, refusals};
use crate::image::{MadeImage, keep_blocks};
use crate::layer::Member;
use crate::name::random_name;
use crate::signature;
use crate::tool::contradiction;
use crate::undo::UndoJournal;
use crate::way_back::UndoAction;
use fsdyno_core::device::{Block, Image};
use fsdyno_core::environment::LayerFacts;
use fsdyno_core::{Bytes, DeviceSpec, Nanos};
use fsdyno_host::probe::{DeviceIdentity, DeviceProbe, Use};
use fsdyno_host::{AttachedLoop, DeviceHandle, Host, HostError, LoopOptions, NewImage};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time that a device may be held open by something that only reads it, as udev does after each change.
const GLANCE: Duration = Duration::from_secs(5);
/// The time that a device may be claimed by something that ends on its own, such as a program that checks
/// before it acts.
const CLAIM_PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
const EWOULDBLOCK: i32 = 11;
const EEXIST: i32 = 17;

/// The treatment of the contents of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A new filesystem follows.
    Replaced,
    /// It is what the trial is about.
    Kept {
        /// The member that the outermost layer has lost.
        without: Option<usize>,
    },
}

impl Contents {
    fn are_kept(self) -> bool {
        matches!(self, Contents::Kept { .. })
    }
}

/// A device of a trial.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub spec: DeviceSpec,
    pub identity: DeviceIdentity,
    pub model: String,
    pub target: Target,
    /// Other partitions of the same disk that are in use, each with its use.
    pub shared_with: Vec<String>,
    /// Its logical block.
    pub sector: Bytes,
    /// The devices that a layer is built on; empty for a disk.
    pub below: Vec<Device>,
    /// The facts about a layer that was built; nothing for a disk.
    pub made: Option<LayerFacts>,
    /// The time that it took to put the layer together again, if it was there already.
    pub assembled: Nanos,
}

impl Device {
    /// The device and everything below it, outermost first.
    pub fn all(&self) -> Vec<&Device> {
        std::iter::once(self).chain(self.below.iter().flat_map(Device::all)).collect()
    }

    /// The disks at the bottom, in order; a disk is its own.
    pub fn disks(&self) -> Vec<&Device> {
        self.all().into_iter().filter(|device| device.below.is_empty()).collect()
    }

    /// Records that whatever is written to its disks from here on is fsdyno's own, even if it is only half
    /// written.
    pub fn claim(&self, testbed: &Testbed) {
        let disks = self.disks().into_iter().map(|disk| disk.spec.path().to_path_buf());
        testbed.knowledge().formatted.extend(disks);
    }

    /// Checks that it is still the same device, and that nobody claims it: not every tool that writes to it
    /// checks.
    pub fn verify_free(&self, host: &mut dyn Host, step: &'static str) -> Result<()> {
        let handle = self.target.handle;
        host.verify_device(handle, &self.identity).map_err(TestbedError::at(step))?;
        if is_free(host, handle, step)? { Ok(()) } else { Err(claimed(&self.target.node)) }
    }

    /// Writes fsdyno's mark to a named disk before its first filesystem is created, which may overwrite the
    /// mark: if the filesystem is never created, the mark still shows that the disk holds nobody's data.
    pub fn mark(&self, host: &mut dyn Host, testbed: &Testbed) -> Result<()> {
        let DeviceSpec::Block(Block { path, .. }) = &self.spec else { return Ok(()) };
        if testbed.blank_disks || testbed.knowledge().formatted.contains(path) {
            return Ok(());
        }
        self.verify_free(host, "mkfs")?;
        host.mark_device(self.target.handle, &self.target.node).map_err(TestbedError::at("mkfs"))?;
        self.claim(testbed);
        Ok(())
    }

    pub(crate) fn member(&self) -> Member {
        Member { target: self.target.clone(), size_bytes: Some(self.identity.size_bytes) }
    }
}

/// Creates the images under names of 128 random bits first, so that the journal can name them before they
/// exist; then renames them, unless something has appeared at the destination. Those among `kept` are there
/// already. If they are to be attached to loop devices and mounted on `target`, the ways to undo that are
/// journaled at the same time, because each sync costs time.
///
/// From here on an image is identified by its descriptor: what is at its path may be another file at any
/// moment.
pub(crate) fn make_images(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    specs: &[&DeviceSpec],
    target: Option<&Path>,
    kept: &[MadeImage],
) -> Result<Vec<MadeImage>> {
    let used = specs.iter().flat_map(|spec| spec.disks()).filter_map(|disk| match disk {
        DeviceSpec::Image(image) => Some(image),
        _ => None,
    });
    let (mut images, mut wanted): (Vec<MadeImage>, Vec<(&Path, Bytes, PathBuf)>) = Default::default();
    for Image { path, size, .. } in used {
        match kept.iter().find(|image| image.path == *path) {
            Some(image) => images.push(image.clone()),
            None => wanted.push((path, *size, path.with_file_name(format!(".fsdyno-{}", random_name())))),
        }
    }
    if !wanted.is_empty() {
        let hidden =
            wanted.iter().map(|(_, _, path)| UndoAction::RemoveFile { path: path.clone(), identity: None });
        journal.append(&hidden.collect::<Vec<_>>())?;
    }
    let detach = |image: &MadeImage| UndoAction::DetachLoop {
        path: image.path.clone(),
        image: image.identity.clone(),
    };
    let mut ways_back: Vec<UndoAction> = images.iter().filter(|_| target.is_some()).map(detach).collect();
    let already = images.len();
    for (path, size, hidden) in &wanted {
        let NewImage { handle, identity } =
            host.create_image(hidden, *size).map_err(TestbedError::at("image"))?;
        journal.opened_image(handle);
        journal.made(hidden, &identity);
        let path = path.to_path_buf();
        ways_back.push(UndoAction::RemoveFile { path: path.clone(), identity: Some(identity.clone()) });
        let image = MadeImage { path, handle, identity, kept: false };
        ways_back.extend(target.map(|_| detach(&image)));
        images.push(image);
    }
    if let Some(target) = target.map(Path::to_path_buf) {
        ways_back.push(UndoAction::RemoveDirectory { path: target });
    }
    journal.append(&ways_back)?;
    for (image, (_, _, hidden)) in images[already..].iter().zip(&wanted) {
        host.rename_image(image.handle, &image.path).map_err(|error| taken(error, &image.path))?;
        journal.renamed(hidden);
    }
    Ok(images)
}

fn taken(error: HostError, path: &Path) -> TestbedError {
    if error.errno() != Some(EEXIST) {
        return TestbedError::Host { step: "image", source: error };
    }
    TestbedError::Refused {
        refusals: vec![GuardRefusal {
            device: path.to_path_buf(),
            reason: "already exists, and fsdyno does not overwrite files that it did not create".to_string(),
            hint: "name another path, or remove the file yourself if nothing uses it".to_string(),
        }],
    }
}

/// Opens a disk.
pub(crate) fn open_disk(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    contents: Contents,
    images: &[MadeImage],
    spec: &DeviceSpec,
) -> Result<Device> {
    let found = match spec {
        DeviceSpec::Image(image) => {
            let sector_bytes = image.sector.0;
            let options = LoopOptions { direct_io: image.direct_io, block_size: sector_bytes as u32 };
            let AttachedLoop { node, identity, .. } = attach(host, journal, images, &image.path, &options)?;
            if image.is_kept() {
                keep_blocks(host, &identity)?;
            }
            let model = spec.to_string();
            DeviceProbe { canonical: node, model, identity, sector_bytes, ..DeviceProbe::default() }
        }
        DeviceSpec::Block(Block { path, .. }) => {
            let probe = guard_again(host, testbed, contents, spec)?;
            let verified = testbed.knowledge().identities.get(path).cloned();
            DeviceProbe { identity: verified.unwrap_or_default(), ..probe }
        }
        other => return Err(contradiction(format!("'{other}' is not a disk"))),
    };
    let DeviceProbe { canonical: node, model, identity, shared_with, sector_bytes, .. } = found;
    let handle = open_patiently(host, journal, &node, &identity, "open")?;
    let target = Target { handle, node, planned: spec.path().to_path_buf() };
    let mut disk = Device {
        spec: spec.clone(),
        identity,
        model,
        target,
        shared_with,
        sector: Bytes(sector_bytes),
        below: Vec::new(),
        made: None,
        assembled: Nanos(0),
    };
    if let DeviceSpec::Image(image) = spec
        && image.is_kept()
        && contents == Contents::Replaced
    {
        // It still holds what an earlier trial wrote.
        signature::wipe(host, &disk.target, &[])?;
    }
    if let DeviceSpec::Block(_) = spec {
        // From now on, whoever respects the lock stays away; whoever came before it is found here.
        let probe = guard_again(host, testbed, contents, spec)?;
        let kinds = signature::known_to_libblkid(&probe.signatures);
        if !kinds.is_empty() {
            disk.verify_free(host, "wipe")?;
            signature::wipe(host, &disk.target, &kinds)?;
            disk.mark(host, testbed)?;
        }
        disk.shared_with = probe.shared_with;
    }
    Ok(disk)
}

/// Attaches an open image. Nobody else can know the device yet, so there is nothing to guard and no need for
/// a full probe, which looks at every process.
fn attach(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    images: &[MadeImage],
    path: &Path,
    options: &LoopOptions,
) -> Result<AttachedLoop> {
    let image = images.iter().find(|image| image.path == path);
    let image =
        image.ok_or_else(|| contradiction(format!("no image was created for '{}'", path.display())))?;
    let attached = host.attach_loop(image.handle, options).map_err(TestbedError::at("attach"))?;
    if !image.kept {
        // The loop device has it open from now on.
        journal.close_image(host, image.handle).map_err(TestbedError::at("attach"))?;
    }
    // A loop device stays read-only when it is attached again (blockdev(8), --setro).
    match attached.read_only {
        true => Err(read_only(path, &attached.node)),
        false => Ok(attached),
    }
}

fn claimed(node: &Path) -> TestbedError {
    TestbedError::Refused {
        refusals: vec![GuardRefusal {
            device: node.to_path_buf(),
            reason: "has since been claimed by a mount, an array, swap or a program with exclusive access"
                .to_string(),
            hint: "find out what uses it (lsblk, swapon, fuser -v), release it, and try again".to_string(),
        }],
    }
}

fn read_only(image: &Path, node: &Path) -> TestbedError {
    let node = node.display();
    TestbedError::Refused {
        refusals: vec![GuardRefusal {
            device: image.to_path_buf(),
            reason: format!("was attached to {node}, which is set read-only"),
            hint: format!("make it writable: blockdev --setrw {node}"),
        }],
    }
}

/// Opens and locks a device until everything is undone, waiting for udev, which holds its own lock while it
/// probes one.
pub(crate) fn open_patiently(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    node: &Path,
    identity: &DeviceIdentity,
    step: &'static str,
) -> Result<DeviceHandle> {
    let start = Instant::now();
    loop {
        match host.open_device(node, identity) {
            Err(error) if error.errno() == Some(EWOULDBLOCK) && start.elapsed() < GLANCE => {
                std::thread::sleep(PAUSE)
            }
            result => {
                let handle = result.map_err(TestbedError::at(step))?;
                journal.opened(handle);
                return Ok(handle);
            }
        }
    }
}

/// Returns whether nobody claims an open device, after waiting for a moment.
pub(crate) fn is_free(host: &mut dyn Host, handle: DeviceHandle, step: &'static str) -> Result<bool> {
    let start = Instant::now();
    while host.is_claimed(handle).map_err(TestbedError::at(step))? {
        if start.elapsed() > CLAIM_PATIENCE {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(true)
}

/// The guards of a block device, repeated. It waits for processes that hold the device open only for a
/// moment.
fn guard_again(
    host: &mut dyn Host,
    testbed: &Testbed,
    contents: Contents,
    spec: &DeviceSpec,
) -> Result<DeviceProbe> {
    let path = spec.path();
    let used_before = testbed.knowledge().formatted.contains(path);
    let mut confirmation = testbed.confirmation.clone();
    // It was verified when the sweep began; the identity of the descriptor shows that it is still the same
    // device.
    confirmation.destroy.push(path.to_path_buf());
    let start = Instant::now();
    loop {
        let mut probe = host.probe_device(path).map_err(TestbedError::at("probe"))?;
        if contents.are_kept() {
            // What is not overwritten needs no permission.
            probe.signatures.clear();
        }
        let refusals = refusals(&probe, spec, &confirmation, &testbed.needs[path], used_before);
        if refusals.is_empty() {
            return Ok(probe);
        }
        let only_open = probe.uses.iter().all(|usage| matches!(usage, Use::OpenedBy { .. }))
            && refusals.len() == probe.uses.len();
        if !only_open || start.elapsed() > GLANCE {
            return Err(TestbedError::Refused { refusals });
        }
        std::thread::sleep(PAUSE);
    }
}
