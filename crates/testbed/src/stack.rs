//! Devices of one trial: made, attached, opened, locked and verified ([`Stack`]), then formatted ([`Formatted`]).
//!
//! Images are new in every trial, and so are their loop devices: what is open is then ours by its sequence number. A block
//! device goes through the guards again before each trial, for time has passed since they said yes.

use crate::environment;
use crate::error::TestbedError;
use crate::filesystem::{
    self, Filesystem, Target, Targets, all_expectations, all_mount_options, all_risks, not_in_force,
};
use crate::foresight::{contradictions, journal_spec};
use crate::guard::{Refusal, Testbed, refusals};
use crate::mounted::Mounted;
use crate::recipe::recipe;
use crate::undo::{UndoAction, UndoJournal, random_name};
use crate::{Result, tunable};
use fsdyno_core::result::{Built, Lifecycle};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Nanos, Warning, WarningKind};
use fsdyno_host::probe::{DeviceIdentity, DeviceProbe, MountInfo, Use};
use fsdyno_host::{Command, Host, HostError, LoopOptions, MountRequest, Output};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Logical block size of loop devices: that of most disks.
const SECTOR: u32 = 512;
/// How long a device may be held open by something that only looks at it, as udev does after each change.
const GLANCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
const EWOULDBLOCK: i32 = 11;
/// Bytes per second of a slow disk.
const SLOW_RATE: u64 = 10_000_000;
/// What mkfs may take beside writing.
const MKFS_BASE: Duration = Duration::from_secs(30);
const MKFS_MOST: Duration = Duration::from_secs(3600);

/// A device of a trial.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub spec: DeviceSpec,
    pub identity: DeviceIdentity,
    pub model: String,
    pub target: Target,
}

/// What a trial stands on.
#[derive(Debug, Clone)]
pub(crate) enum Ground {
    /// An existing directory.
    Directory(PathBuf),
    /// Devices to make a filesystem on.
    Volume(Box<Volume>),
}

/// A filesystem and its devices.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub filesystem: &'static dyn Filesystem,
    pub data: Device,
    pub journal: Option<Device>,
}

impl Volume {
    pub(crate) fn devices(&self) -> impl Iterator<Item = &Device> {
        std::iter::once(&self.data).chain(&self.journal)
    }

    /// What mkfs may take: writing all of a slow device, which none does. It may hang although its own device is well:
    /// mkfs.btrfs reads every device of the machine to see whether a UUID is new.
    fn mkfs_limit(&self) -> Duration {
        let writing = Duration::from_secs(self.data.identity.size_bytes / SLOW_RATE);
        MKFS_BASE.saturating_add(writing).min(MKFS_MOST)
    }

    pub(crate) fn targets(&self) -> Targets {
        Targets {
            size: Some(Bytes(self.data.identity.size_bytes)),
            data: self.data.target.clone(),
            journal: self.journal.as_ref().map(|device| device.target.clone()),
        }
    }
}

/// What every state of a trial carries along.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub testbed: Testbed,
    pub configuration: Configuration,
    pub seed: u64,
    pub ground: Ground,
    /// Where it will be mounted: a new directory of a random name.
    pub target: PathBuf,
    pub built: Built,
    /// What mkfs and mount took, themselves and nothing beside them.
    pub lifecycle: Lifecycle,
    pub warnings: Vec<Warning>,
}

/// Devices that are open, locked and verified.
#[derive(Debug)]
pub struct Stack(Trial);

/// Devices with a new filesystem.
#[derive(Debug)]
pub struct Formatted(Trial);

/// Makes images and attaches them, or goes through the guards of a block device again; opens, locks and verifies.
///
/// # Errors
/// [`TestbedError::Refused`] when a guard says no by now; [`TestbedError::Contradiction`] for settings that make no sense.
pub fn build(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    configuration: &Configuration,
    seed: u64,
) -> Result<Stack> {
    let contradictions = contradictions(configuration, &testbed.devices);
    if !contradictions.is_empty() {
        return Err(TestbedError::Contradiction { contradictions });
    }
    let target = testbed.mount_root.join(format!("fsdyno-{}", random_name()));
    let ground = match (&testbed.devices.data, filesystem::find(&configuration.filesystem)) {
        (DeviceSpec::Directory { path }, _) => Ground::Directory(path.clone()),
        (data, Some(filesystem)) => {
            let log = journal_spec(configuration, &testbed.devices).map_err(contradiction)?;
            let specs = [Some(data), log].into_iter().flatten().collect::<Vec<_>>();
            make_images(host, journal, &specs, Some(&target))?;
            let data = open(host, journal, testbed, data)?;
            let log = log.map(|spec| open(host, journal, testbed, spec)).transpose()?;
            Ground::Volume(Box::new(Volume { filesystem, data, journal: log }))
        }
        (_, None) => {
            return Err(contradiction(format!(
                "'{}' is no filesystem that can be made",
                configuration.filesystem
            )));
        }
    };
    Ok(Stack(Trial {
        testbed: testbed.clone(),
        configuration: configuration.clone(),
        seed,
        ground,
        target,
        built: Built::default(),
        lifecycle: Lifecycle::default(),
        warnings: Vec::new(),
    }))
}

fn contradiction(why: String) -> TestbedError {
    TestbedError::Contradiction { contradictions: vec![why] }
}

/// Makes the images under names of 128 random bits first, so that the journal can name them before they exist; then they
/// get their own names, unless something stands there by now. Where they
/// are to be attached to loop devices and mounted on `target`, the ways back from that are journaled along: each sync counts.
pub(crate) fn make_images(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    specs: &[&DeviceSpec],
    target: Option<&Path>,
) -> Result<()> {
    let images: Vec<(&Path, Bytes, PathBuf)> = specs
        .iter()
        .filter_map(|spec| match spec {
            DeviceSpec::Image { path, size, .. } => {
                Some((path.as_path(), *size, path.with_file_name(format!(".fsdyno-{}", random_name()))))
            }
            DeviceSpec::Block { .. } | DeviceSpec::Directory { .. } => None,
        })
        .collect();
    if !images.is_empty() {
        let hidden =
            images.iter().map(|(_, _, path)| UndoAction::RemoveFile { path: path.clone(), identity: None });
        journal.append(&hidden.collect::<Vec<_>>())?;
    }
    let mut ways_back: Vec<UndoAction> = Vec::new();
    for (path, size, hidden) in &images {
        let identity = host.create_image(hidden, *size).map_err(TestbedError::at("image"))?;
        let path = path.to_path_buf();
        ways_back.push(UndoAction::RemoveFile { path: path.clone(), identity: Some(identity.clone()) });
        ways_back.extend(target.map(|_| UndoAction::DetachLoop { path, image: identity }));
    }
    if let Some(target) = target.map(Path::to_path_buf) {
        ways_back.push(UndoAction::RemoveDirectory { path: target.clone() });
        ways_back.push(UndoAction::Unmount { target });
    }
    journal.append(&ways_back)?;
    for (path, _, hidden) in &images {
        host.rename_new(hidden, path).map_err(|error| taken(error, path))?;
    }
    Ok(())
}

const EEXIST: i32 = 17;

fn taken(error: HostError, path: &Path) -> TestbedError {
    if error.errno() != Some(EEXIST) {
        return TestbedError::Host { step: "image", source: error };
    }
    TestbedError::Refused {
        refusals: vec![Refusal {
            device: path.to_path_buf(),
            reason: "exists already, and fsdyno overwrites no file that it did not make".to_string(),
            hint: "name another path, or remove the file yourself".to_string(),
        }],
    }
}

fn open(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    spec: &DeviceSpec,
) -> Result<Device> {
    let (node, model, identity) = match spec {
        DeviceSpec::Image { path, direct_io, .. } => {
            let options = LoopOptions { direct_io: *direct_io, block_size: SECTOR };
            let node = host.attach_loop(path, &options).map_err(TestbedError::at("attach"))?;
            let identity = identity_of_loop(host, path, &node)?;
            (node, spec.to_string(), identity)
        }
        DeviceSpec::Block { path, .. } => {
            let probe = guard_again(host, testbed, spec)?;
            let verified = testbed.knowledge().identities.get(path).cloned();
            (probe.canonical, probe.model, verified.unwrap_or_default())
        }
        DeviceSpec::Directory { path } => {
            return Err(contradiction(format!("'{}' is a directory, not a device", path.display())));
        }
    };
    let handle = open_patiently(host, &node, &identity)?;
    journal.opened(handle);
    let target = Target { handle, node, planned: spec.path().to_path_buf() };
    Ok(Device { spec: spec.clone(), identity, model, target })
}

/// Which device a loop device is that was just attached. Nobody else can know it yet, so that there is nothing to guard
/// and no need of a whole probe, which looks at every process.
fn identity_of_loop(host: &mut dyn Host, image: &Path, node: &Path) -> Result<DeviceIdentity> {
    let directory = Path::new("/sys/block").join(node.file_name().unwrap_or_default());
    let mut read = |file: &str| host.read_text(&directory.join(file)).map_err(TestbedError::at("attach"));
    // A loop device stays read-only when it is attached again (blockdev(8), --setro).
    if read("ro")?.trim() == "1" {
        return Err(read_only(image, node));
    }
    let number = read("dev")?;
    let (major, minor) = number.trim().split_once(':').unwrap_or_default();
    let whole = |text: &str| text.trim().parse::<u64>().unwrap_or(0);
    Ok(DeviceIdentity {
        number: (whole(major) as u32, whole(minor) as u32),
        size_bytes: whole(&read("size")?) * u64::from(SECTOR),
        // Since Linux 5.15.
        diskseq: read("diskseq").ok().map(|text| whole(&text)),
        serial: None,
    })
}

fn read_only(image: &Path, node: &Path) -> TestbedError {
    let node = node.display();
    TestbedError::Refused {
        refusals: vec![Refusal {
            device: image.to_path_buf(),
            reason: format!("was attached to {node}, which somebody has set read-only"),
            hint: format!("make it writable: blockdev --setrw {node}"),
        }],
    }
}

/// Opens and locks a device, waiting for udev, which holds a lock of its own while it looks at one.
fn open_patiently(
    host: &mut dyn Host,
    node: &Path,
    identity: &DeviceIdentity,
) -> Result<fsdyno_host::DeviceHandle> {
    let start = Instant::now();
    loop {
        match host.open_device(node, identity) {
            Err(error) if error.errno() == Some(EWOULDBLOCK) && start.elapsed() < GLANCE => {
                std::thread::sleep(PAUSE)
            }
            result => return result.map_err(TestbedError::at("open")),
        }
    }
}

/// The guards of a block device, once more. Something that holds it open only for a moment is waited for.
fn guard_again(host: &mut dyn Host, testbed: &Testbed, spec: &DeviceSpec) -> Result<DeviceProbe> {
    let path = spec.path();
    let ours = testbed.knowledge().formatted.contains(path);
    let mut confirmation = testbed.confirmation.clone();
    // Verified when the sweep began; the identity on the descriptor says that it is still the same device.
    confirmation.destroy.push(path.to_path_buf());
    let start = Instant::now();
    loop {
        let probe = host.probe_device(path).map_err(TestbedError::at("probe"))?;
        let refusals = refusals(&probe, spec, &confirmation, &testbed.needs[path], ours);
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

impl Stack {
    /// Makes the filesystem; each device is verified on its descriptor directly before each command that writes to it.
    ///
    /// # Errors
    /// [`TestbedError::Tool`] with what mkfs said.
    pub fn format(self, host: &mut dyn Host, _journal: &mut UndoJournal) -> Result<Formatted> {
        let Stack(mut trial) = self;
        let Ground::Volume(volume) = &trial.ground else { return Ok(Formatted(trial)) };
        let targets = volume.targets();
        let mut lines = Vec::new();
        let mut said = String::new();
        let mut took_ns = 0;
        let limit = volume.mkfs_limit();
        for command in volume.filesystem.mkfs(&trial.configuration, &targets, Some(trial.seed)) {
            let command = Command { limit, ..command };
            for device in volume.devices() {
                host.verify_device(device.target.handle, &device.identity)
                    .map_err(TestbedError::at("mkfs"))?;
                // From here on its signatures are ours, also when mkfs fails half-way.
                trial.testbed.knowledge().formatted.insert(device.spec.path().to_path_buf());
            }
            let output = run_to_success(host, "mkfs", &command)?;
            took_ns += output.duration.0;
            said = output.stdout;
            lines.push(command.line());
        }
        trial.remember_geometry(host, volume, &targets, said)?;
        trial.built.mkfs_command = lines.join(" && ");
        trial.lifecycle.mkfs = Some(Nanos(took_ns));
        Ok(Formatted(trial))
    }
}

/// Runs a tool that must succeed.
fn run_to_success(host: &mut dyn Host, step: &'static str, command: &Command) -> Result<Output> {
    let output = host.run(command).map_err(TestbedError::at(step))?;
    if output.status == 0 {
        return Ok(output);
    }
    let said = [output.stderr.trim(), output.stdout.trim()].join("\n");
    Err(TestbedError::Tool {
        step,
        command: command.line(),
        status: output.status,
        output: said.trim().to_string(),
    })
}

impl Trial {
    /// The geometry of a configuration is asked for once per sweep: it costs a process.
    fn remember_geometry(
        &self,
        host: &mut dyn Host,
        volume: &Volume,
        targets: &Targets,
        said: String,
    ) -> Result<()> {
        let key = self.geometry_key();
        if self.testbed.knowledge().geometry.contains_key(&key) {
            return Ok(());
        }
        let text = match volume.filesystem.geometry(targets) {
            Some(command) => host.run(&command).map_err(TestbedError::at("mkfs"))?.stdout,
            None => said,
        };
        self.testbed.knowledge().geometry.insert(key, text.trim().to_string());
        Ok(())
    }

    pub(crate) fn geometry_key(&self) -> String {
        format!("{} {:?}", self.configuration.filesystem, self.configuration.settings)
    }
}

impl Formatted {
    /// What mkfs took.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.0.lifecycle
    }

    /// Sets the tunables, mounts in a new directory, and reads back what is in force.
    ///
    /// # Errors
    /// [`TestbedError::Unmet`] when a tunable does not take; [`TestbedError::WrongMount`] when another filesystem is seen
    /// than the one that was made.
    pub fn mount(self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<Mounted> {
        let Formatted(trial) = self;
        match trial.ground.clone() {
            Ground::Directory(directory) => use_directory(trial, host, journal, directory),
            Ground::Volume(volume) => mount_volume(trial, host, journal, &volume),
        }
    }
}

/// A directory of our own in the one that stays, so that nothing in it can be mistaken for ours.
fn use_directory(
    mut trial: Trial,
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    directory: PathBuf,
) -> Result<Mounted> {
    let own = directory.join(format!("fsdyno-{}", random_name()));
    let ways_back = [UndoAction::RemoveTree { path: own.clone() }];
    tunable::journal_and_apply(host, journal, &tunable::settings(&trial.configuration, None), &ways_back)?;
    host.create_directory(&own).map_err(TestbedError::at("mount"))?;
    let mounts = host.mounts().map_err(TestbedError::at("mount"))?;
    let queue = environment::mount_of(&mounts, &directory).map(|mount| {
        trial.built.mount_options_in_force = mount.options.clone();
        tunable::queue_directory(mount.device)
    });
    if let Some(text) = queue.and_then(|queue| host.read_text(&queue.join("scheduler")).ok()) {
        trial.built.scheduler_in_force = tunable::active(&text);
    }
    Ok(Mounted::new(trial, own, None))
}

fn mount_volume(
    mut trial: Trial,
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    volume: &Volume,
) -> Result<Mounted> {
    let Volume { filesystem, data, journal: log } = volume;
    let filesystem = *filesystem;
    let log = log.as_ref().map(|device| device.target.node.as_path());
    let queue = tunable::queue_directory(data.identity.number);
    let target = trial.target.clone();
    let request = MountRequest {
        filesystem: filesystem.name().to_string(),
        source: data.target.node.clone(),
        options: all_mount_options(filesystem, &trial.configuration, log),
        target: target.clone(),
    };
    let settings = tunable::settings(&trial.configuration, Some(&queue));
    tunable::journal_and_apply(host, journal, &settings, &[])?;
    host.create_directory(&target).map_err(TestbedError::at("mount"))?;
    // A kernel without CONFIG_BLK_DEV_WRITE_MOUNTED mounts no device that is open for writing.
    for device in volume.devices() {
        host.verify_device(device.target.handle, &device.identity).map_err(TestbedError::at("mount"))?;
        journal.close_device(host, device.target.handle).map_err(TestbedError::at("mount"))?;
    }
    let start = Instant::now();
    host.mount(&request).map_err(TestbedError::at("mount"))?;
    trial.lifecycle.mount = Some(start.elapsed().into());
    let mount = read_back(host, &request, &data.identity)?;
    trial.warnings = not_in_force(&all_expectations(filesystem, &trial.configuration), &mount.options);
    let mut risks = all_risks(filesystem, &trial.configuration);
    risks.extend(journal_in_memory(host, volume));
    trial.warnings.extend(risks.into_iter().map(|risk| Warning::new(WarningKind::Durability, risk)));
    trial.built.mount_command = request.line();
    trial.built.recipe =
        Some(recipe(filesystem, &trial.configuration, volume.targets().size, volume.journal.is_some()));
    trial.built.mount_options_in_force = mount.options;
    let scheduler = host.read_text(&queue.join("scheduler")).map_err(TestbedError::at("mount"))?;
    trial.built.scheduler_in_force = tunable::active(&scheduler);
    Ok(Mounted::new(trial, target.clone(), Some(target)))
}

/// An external journal that a power cut takes away.
fn journal_in_memory(host: &mut dyn Host, volume: &Volume) -> Option<String> {
    let journal = volume.journal.as_ref()?;
    let text =
        || "journal in memory: a power cut loses it, and with it the filesystem's consistency".to_string();
    match &journal.spec {
        DeviceSpec::Image { path, .. } => {
            let mounts = host.mounts().ok()?;
            let mount = environment::mount_of(&mounts, path)?;
            ["tmpfs", "ramfs"].contains(&mount.filesystem.as_str()).then(text)
        }
        _ => {
            let name = journal.target.node.file_name().unwrap_or_default().to_string_lossy();
            ["ram", "zram"].iter().any(|kind| name.starts_with(kind)).then(text)
        }
    }
}

/// The mount as the kernel shows it, which must be of the device that was verified.
fn read_back(host: &mut dyn Host, request: &MountRequest, identity: &DeviceIdentity) -> Result<MountInfo> {
    let mounts = host.mounts().map_err(TestbedError::at("mount"))?;
    let found = mounts.into_iter().rfind(|mount| mount.target == request.target);
    match found {
        Some(mount) if mount.filesystem == request.filesystem && is_of(&mount, identity, &request.source) => {
            Ok(mount)
        }
        found => Err(TestbedError::WrongMount {
            target: request.target.clone(),
            node: request.source.clone(),
            found: found
                .map_or("nothing".to_string(), |mount| format!("{} of '{}'", mount.filesystem, mount.source)),
        }),
    }
}

/// Btrfs may have several devices and shows none of their numbers, so there the source counts.
fn is_of(mount: &MountInfo, identity: &DeviceIdentity, node: &Path) -> bool {
    mount.device == identity.number || (mount.device.0 == 0 && Path::new(&mount.source) == node)
}
