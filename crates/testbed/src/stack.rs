//! The first states of a trial: its devices open, locked and verified ([`Stack`]), then formatted
//! ([`Formatted`]).

use crate::device::{self, Device};
use crate::environment;
use crate::error::TestbedError;
use crate::filesystem::{
    self, Filesystem, Targets, all_expectations, all_mount_options, all_risks, not_in_force,
};
use crate::foresight::{contradictions, journal_spec};
use crate::guard::Testbed;
use crate::mounted::Mounted;
use crate::recipe::recipe;
use crate::signature;
use crate::tunable::Queues;
use crate::undo::{UndoAction, UndoJournal, random_name};
use crate::{Result, tunable};
use fsdyno_core::result::{Built, Lifecycle};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Nanos, Warning, WarningKind};
use fsdyno_host::probe::{DeviceIdentity, MountInfo};
use fsdyno_host::{Command, DeviceHandle, Host, MountRequest, Output};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Bytes per second of a slow disk.
const SLOW_RATE: u64 = 10_000_000;
/// The most time that mkfs may take in addition to writing.
const MKFS_BASE: Duration = Duration::from_secs(30);
const MKFS_MOST: Duration = Duration::from_secs(3600);

/// What a trial runs on.
#[derive(Debug, Clone)]
pub(crate) enum Ground {
    /// An existing directory.
    Directory(PathBuf),
    /// Devices to create a filesystem on.
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

    /// The longest that mkfs may take: the time to write all of a slow device, which no mkfs does. It may
    /// hang although its own device is fine: mkfs.btrfs reads every device of the machine to check that a
    /// UUID is new.
    fn mkfs_limit(&self) -> Duration {
        let writing = Duration::from_secs(self.data.identity.size_bytes / SLOW_RATE);
        MKFS_BASE.saturating_add(writing).min(MKFS_MOST)
    }

    /// Opens, locks and verifies the devices again, after they were closed for a mount.
    pub(crate) fn open_again(
        &self,
        host: &mut dyn Host,
        journal: &mut UndoJournal,
        step: &'static str,
    ) -> Result<Vec<DeviceHandle>> {
        self.devices()
            .map(|device| device::open_patiently(host, journal, &device.target.node, &device.identity, step))
            .collect()
    }

    pub(crate) fn targets(&self) -> Targets {
        Targets {
            size: Some(Bytes(self.data.identity.size_bytes)),
            sector: self.devices().map(|device| device.sector).max(),
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
    /// Duration of mkfs and mount alone.
    pub lifecycle: Lifecycle,
    pub warnings: Vec<Warning>,
}

/// Devices that are open, locked and verified.
#[derive(Debug)]
pub struct Stack(Trial);

/// Devices with a new filesystem.
#[derive(Debug)]
pub struct Formatted(Trial);

/// Creates images and attaches them, or passes a block device through the guards again; then opens, locks and
/// verifies.
///
/// # Errors
/// [`TestbedError::Refused`] if a guard now refuses; [`TestbedError::Contradiction`] for inconsistent
/// settings.
pub fn build(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    configuration: &Configuration,
    seed: u64,
    interrupt: &AtomicBool,
) -> Result<Stack> {
    let contradictions = contradictions(configuration, &testbed.devices);
    if !contradictions.is_empty() {
        return Err(TestbedError::Contradiction { contradictions });
    }
    let target = mount_directory(&random_name());
    let ground = match (&testbed.devices.data, filesystem::find(&configuration.filesystem)) {
        (DeviceSpec::Directory { path }, _) => Ground::Directory(path.clone()),
        (data, Some(filesystem)) => {
            let log = journal_spec(configuration, &testbed.devices).map_err(contradiction)?;
            let specs = [Some(data), log].into_iter().flatten().collect::<Vec<_>>();
            let ways_back = signature::ways_back(filesystem, seed, data, log);
            if !(testbed.blank_disks || ways_back.is_empty()) {
                journal.append(&ways_back)?;
            }
            let images = device::make_images(host, journal, &specs, Some(&target))?;
            let mut open = |spec| device::open(host, journal, testbed, &images, spec, interrupt);
            let data = open(data)?;
            let log = log.map(open).transpose()?;
            Ground::Volume(Box::new(Volume { filesystem, data, journal: log }))
        }
        (_, None) => {
            return Err(contradiction(format!(
                "'{}' is not a filesystem that fsdyno can create",
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

/// Where a trial mounts its filesystem.
pub(crate) fn mount_directory(name: &str) -> PathBuf {
    Path::new("/run").join(format!("fsdyno-{name}"))
}

pub(crate) fn contradiction(why: String) -> TestbedError {
    TestbedError::Contradiction { contradictions: vec![why] }
}

impl Stack {
    /// Creates the filesystem; each device is verified on its descriptor directly before each command that
    /// writes to it.
    ///
    /// # Errors
    /// [`TestbedError::Tool`] with the output of mkfs; [`TestbedError::NotMade`] if the device does not carry
    /// the identifier that mkfs was told to write.
    pub fn format(self, host: &mut dyn Host) -> Result<Formatted> {
        let Stack(mut trial) = self;
        let Ground::Volume(volume) = &trial.ground else { return Ok(Formatted(trial)) };
        let targets = volume.targets();
        let mut lines = Vec::new();
        let mut said = String::new();
        let mut took_ns = 0;
        let limit = volume.mkfs_limit();
        for device in volume.devices() {
            device.mark(host, &trial.testbed)?;
        }
        for command in volume.filesystem.mkfs(&trial.configuration, &targets, Some(trial.seed)) {
            let command = Command { limit, ..command };
            for device in volume.devices() {
                device.verify_free(host, "mkfs")?;
                device.claim(&trial.testbed);
            }
            let output = run_to_success(host, "mkfs", &command)?;
            took_ns += output.duration.0;
            said = output.stdout;
            lines.push(command.line());
        }
        let identifier = volume.filesystem.identifier(trial.seed, &targets.data.planned);
        if !signature::bears(host, &targets.data, &identifier).map_err(TestbedError::at("mkfs"))? {
            // A tool that did nothing, or worked elsewhere, is detected before anything is mounted.
            return Err(TestbedError::NotMade { node: targets.data.node, identifier });
        }
        trial.remember_geometry(host, volume, &targets, said)?;
        trial.built.mkfs_command = lines.join(" && ");
        trial.lifecycle.mkfs = Some(Nanos(took_ns));
        Ok(Formatted(trial))
    }
}

/// Runs a tool that must succeed.
pub(crate) fn run_to_success(host: &mut dyn Host, step: &'static str, command: &Command) -> Result<Output> {
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
    /// The geometry of a configuration is determined once per sweep, because it costs a process.
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
            Some(command) => host.run(&command.reading_only()).map_err(TestbedError::at("mkfs"))?.stdout,
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

    /// Applies the tunables, mounts in a new directory, and reads back what is in force.
    ///
    /// # Errors
    /// [`TestbedError::Unmet`] if a tunable does not take effect; [`TestbedError::WrongMount`] if another
    /// filesystem appears than the one that was created.
    pub fn mount(self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<Mounted> {
        let Formatted(trial) = self;
        match trial.ground.clone() {
            Ground::Directory(directory) => use_directory(trial, host, journal, directory),
            Ground::Volume(volume) => mount_volume(trial, host, journal, &volume),
        }
    }
}

/// Creates a new directory inside the one that stays, so that nothing in it can be mistaken for fsdyno's.
fn use_directory(
    mut trial: Trial,
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    directory: PathBuf,
) -> Result<Mounted> {
    // `fsdyno restore` runs in another directory.
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    let own = directory.join(format!("fsdyno-{}", random_name()));
    let ways_back = [UndoAction::RemoveTree { path: own.clone() }];
    tunable::journal_and_apply(host, journal, &tunable::settings(&trial.configuration, None), &ways_back)?;
    host.create_directory(&own).map_err(TestbedError::at("mount"))?;
    let mounts = host.mounts().map_err(TestbedError::at("mount"))?;
    let queue = environment::mount_of(&mounts, &directory).map(|mount| {
        trial.built.mount_options_in_force = mount.options.clone();
        tunable::queue_of_mount(host, mount.device)
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
    let Volume { filesystem, data, .. } = volume;
    let filesystem = *filesystem;
    let queues = queues(data);
    let target = trial.target.clone();
    let settings = tunable::settings(&trial.configuration, Some(&queues));
    tunable::journal_and_apply(host, journal, &settings, &[])?;
    host.create_directory(&target).map_err(TestbedError::at("mount"))?;
    let handles: Vec<DeviceHandle> = volume.devices().map(|device| device.target.handle).collect();
    let request = mount_request(&trial, volume, handles[0]);
    let (mount, took) = mount_verified(host, journal, volume, &handles, &request)?;
    trial.lifecycle.mount = Some(took);
    trial.warnings = not_in_force(&all_expectations(filesystem, &trial.configuration), &mount.options);
    let mut risks = all_risks(filesystem, &trial.configuration);
    risks.extend(journal_in_memory(host, volume));
    trial.warnings.extend(risks.into_iter().map(|risk| Warning::new(WarningKind::Durability, risk)));
    trial.warnings.extend(filesystem.caveats());
    trial
        .warnings
        .extend(volume.devices().flat_map(Device::disks).filter_map(|disk| shared(disk, &settings)));
    if filesystem.check(&volume.targets()).is_none() {
        let text = format!("{} has no check, so nothing says whether it came out sound", filesystem.name());
        trial.warnings.push(Warning::new(WarningKind::NotChecked, text));
    }
    trial.built.mount_command = request.line();
    trial.built.recipe = Some(recipe(&trial.configuration, volume));
    trial.built.mount_options_in_force = mount.options;
    trial.built.scheduler_in_force = schedulers(host, &queues)?;
    Ok(Mounted::new(trial, target.clone(), Some(target)))
}

/// Mounts again what was mounted before; records what is in force now but was not then.
pub(crate) fn mount_again(
    trial: &mut Trial,
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    volume: &Volume,
) -> Result<()> {
    let handles = volume.open_again(host, journal, "mount")?;
    let request = mount_request(trial, volume, handles[0]);
    let (mount, took) = mount_verified(host, journal, volume, &handles, &request)?;
    trial.lifecycle.mount_between = Some(took);
    let before = &trial.built.mount_options_in_force;
    trial.warnings.clear();
    if mount.options != *before {
        let text = format!(
            "after mounting again, the active mount options are {}; before, they were {before}",
            mount.options
        );
        trial.warnings.push(Warning::new(WarningKind::OptionNotInForce, text));
    }
    Ok(())
}

/// How a volume is mounted each time, from the device that is open.
fn mount_request(trial: &Trial, volume: &Volume, open: DeviceHandle) -> MountRequest {
    let log = volume.journal.as_ref().map(|device| device.target.node.as_path());
    MountRequest {
        filesystem: volume.filesystem.descriptor().kernel_type.to_string(),
        source: volume.data.target.node.clone(),
        device: Some(open),
        options: all_mount_options(volume.filesystem, &trial.configuration, log),
        target: trial.target.clone(),
    }
}

/// Mounts devices that were verified directly before, and compares afterwards; returns what is in force, and
/// how long the mount itself took.
///
/// The kernel mounts whatever a path leads to. The devices stay open meanwhile, so that nothing else can get
/// their numbers, whatever happens to the paths: a mount that shows the number and claims the descriptors is
/// of these very devices.
fn mount_verified(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    volume: &Volume,
    handles: &[DeviceHandle],
    request: &MountRequest,
) -> Result<(MountInfo, Nanos)> {
    // A kernel without CONFIG_BLK_DEV_WRITE_MOUNTED mounts no device that is open for writing.
    for (device, handle) in volume.devices().zip(handles) {
        host.verify_device(*handle, &device.identity).map_err(TestbedError::at("mount"))?;
        host.downgrade_device(*handle).map_err(TestbedError::at("mount"))?;
    }
    let start = Instant::now();
    host.mount(request).map_err(TestbedError::at("mount"))?;
    let took = start.elapsed().into();
    for (device, handle) in volume.devices().zip(handles) {
        host.verify_device(*handle, &device.identity).map_err(TestbedError::at("mount"))?;
        if !host.is_claimed(*handle).map_err(TestbedError::at("mount"))? {
            let found = format!("a filesystem that does not use '{}'", device.target.node.display());
            return Err(wrong_mount(request, found));
        }
    }
    let mount = read_back(host, request, &volume.data.identity)?;
    for handle in handles {
        journal.close_device(host, *handle).map_err(TestbedError::at("mount"))?;
    }
    Ok((mount, took))
}

fn wrong_mount(request: &MountRequest, found: String) -> TestbedError {
    TestbedError::WrongMount { target: request.target.clone(), node: request.source.clone(), found }
}

/// Requests queue at the disks; readahead is decided at the device that the filesystem reads.
fn queues(device: &Device) -> Queues {
    let of = |device: &Device| tunable::queue_directory(&device.identity);
    Queues::new(of(device), device.disks().into_iter().map(of))
}

/// The scheduler of the disks; all of them if they differ.
fn schedulers(host: &mut dyn Host, queues: &Queues) -> Result<String> {
    let mut found: Vec<String> = Vec::new();
    for queue in &queues.disks {
        let text = host.read_text(&queue.join("scheduler")).map_err(TestbedError::at("mount"))?;
        found.push(tunable::active(&text));
    }
    found.dedup();
    Ok(found.join(", "))
}

/// A disk with other partitions in use. Settings of its queue also affect those.
fn shared(disk: &Device, settings: &[tunable::Setting]) -> Option<Warning> {
    if disk.shared_with.is_empty() {
        return None;
    }
    let queue = tunable::queue_directory(&disk.identity);
    let set = settings.iter().filter(|setting| setting.path.starts_with(&queue));
    let names: Vec<&str> = set.map(|setting| setting.axis.as_str()).collect();
    let also = match names.is_empty() {
        true => String::new(),
        false => format!("; the trial's {} also applied to them", names.join(", ")),
    };
    let text = format!(
        "'{}' shares its disk with {}: the figures include what others read and write there{also}",
        disk.target.planned.display(),
        disk.shared_with.join(", ")
    );
    Some(Warning::new(WarningKind::SharedDisk, text))
}

/// An external journal that would not survive a power cut.
fn journal_in_memory(host: &mut dyn Host, volume: &Volume) -> Option<String> {
    let journal = volume.journal.as_ref()?;
    let text =
        || "journal in memory: a power cut loses it, and with it the filesystem's consistency".to_string();
    let in_memory = |disk: &Device| match &disk.spec {
        DeviceSpec::Image { path, .. } => {
            let mounts = host.mounts().unwrap_or_default();
            let mount = environment::mount_of(&mounts, path);
            mount.is_some_and(|mount| ["tmpfs", "ramfs"].contains(&mount.filesystem.as_str()))
        }
        _ => {
            let name = disk.target.node.file_name().unwrap_or_default().to_string_lossy();
            ["ram", "zram"].iter().any(|kind| name.starts_with(kind))
        }
    };
    journal.disks().into_iter().any(in_memory).then(text)
}

/// The mount as the kernel shows it, which must be of the device that was verified.
fn read_back(host: &mut dyn Host, request: &MountRequest, identity: &DeviceIdentity) -> Result<MountInfo> {
    let mounts = host.mounts().map_err(TestbedError::at("mount"))?;
    let found = mounts.into_iter().rfind(|mount| mount.target == request.target);
    match found {
        Some(mount) if mount.filesystem == request.filesystem && is_of(&mount, identity, &request.source) => {
            Ok(mount)
        }
        Some(mount) => Err(wrong_mount(request, format!("{} of '{}'", mount.filesystem, mount.source))),
        None => Err(wrong_mount(request, "nothing".to_string())),
    }
}

/// A btrfs may span devices and shows none of their numbers, so the source counts there.
fn is_of(mount: &MountInfo, identity: &DeviceIdentity, node: &Path) -> bool {
    mount.device == identity.number || (mount.device.0 == 0 && Path::new(&mount.source) == node)
}
