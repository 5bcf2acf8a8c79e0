//! The first states of a trial: its devices open, locked and verified ([`Stack`]), then formatted
//! ([`Formatted`]).

use crate::Result;
use crate::device::{self, Contents, Device};
use crate::environment;
use crate::error::TestbedError;
use crate::filesystem::{self, all_expectations, all_risks, distinct, not_in_force, risks_of_levels};
use crate::foresight::{contradictions, unmet_on_disks};
use crate::guard::Testbed;
use crate::image::MadeImage;
use crate::in_force;
use crate::layered;
use crate::modelled;
use crate::mounted::Mounted;
use crate::mounting::{mount_request, mount_verified};
use crate::name::{mount_directory, random_name};
use crate::recipe::recipe;
use crate::setting;
use crate::signature;
use crate::spec::journal_spec;
use crate::tool::{contradiction, run_to_success};
use crate::trial::{Location, Trial, Volume};
use crate::tunable::{self, Queues};
use crate::undo::UndoJournal;
use crate::way_back::UndoAction;
use fsdyno_core::device::Image;
use fsdyno_core::result::{Built, Lifecycle};
use fsdyno_core::{Configuration, DeviceSpec, Nanos, Warning, WarningKind};
use fsdyno_host::{Command, DeviceHandle, Host};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

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
    let wanted = Wanted { testbed, configuration, seed, interrupt, contents: Contents::Replaced };
    open(host, journal, &wanted, Images::Given(&testbed.kept_images())).map(Stack)
}

/// The same for devices that carry the filesystem already that a trial of the same seed has made on them, and
/// layers that were built on this testbed. The outermost layer may have lost a member. Nothing is written to
/// them but by the layers themselves.
///
/// # Errors
/// Those of [`build`]; [`TestbedError::Tool`] in the step [`layered::ASSEMBLY`] if a layer cannot be put
/// together again.
pub fn find(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    testbed: &Testbed,
    configuration: &Configuration,
    seed: u64,
    without: Option<usize>,
    interrupt: &AtomicBool,
) -> Result<Formatted> {
    let wanted = Wanted { testbed, configuration, seed, interrupt, contents: Contents::Kept { without } };
    open(host, journal, &wanted, Images::Given(&testbed.kept_images())).map(Formatted)
}

/// The stack that is to be opened.
pub(crate) struct Wanted<'a> {
    pub testbed: &'a Testbed,
    pub configuration: &'a Configuration,
    pub seed: u64,
    pub interrupt: &'a AtomicBool,
    pub contents: Contents,
}

/// The images among the devices.
pub(crate) enum Images<'a> {
    /// These are there already; the others are made, and empty.
    Given(&'a [MadeImage]),
    /// All are made, and filled by this before they are attached.
    Filled(&'a mut Fill<'a>),
}

/// Writes to new images what they are to contain.
pub(crate) type Fill<'a> = dyn FnMut(&mut dyn Host, &[MadeImage]) -> Result<()> + 'a;

pub(crate) fn open(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    wanted: &Wanted<'_>,
    source: Images<'_>,
) -> Result<Trial> {
    let Wanted { testbed, configuration, seed, interrupt, contents } = *wanted;
    let mut contradictions = contradictions(configuration, &testbed.devices);
    if !testbed.blank_disks {
        contradictions.extend(unmet_on_disks(configuration, &testbed.devices));
    }
    if !contradictions.is_empty() {
        return Err(TestbedError::Contradiction { contradictions });
    }
    let target = mount_directory(&random_name());
    let location = match (&testbed.devices.data, filesystem::find(&configuration.filesystem)) {
        (DeviceSpec::Directory { path }, _) => Location::Directory(path.clone()),
        (data, Some(filesystem)) => {
            let log = journal_spec(configuration, &testbed.devices).map_err(contradiction)?;
            let specs = [Some(data), log].into_iter().flatten().collect::<Vec<_>>();
            let ways_back = signature::ways_back(filesystem, seed, data, log);
            if !(testbed.blank_disks || ways_back.is_empty()) {
                journal.append(&ways_back)?;
            }
            let given = if let Images::Given(given) = &source { given } else { &[][..] };
            let images = device::make_images(host, journal, &specs, Some(&target), given)?;
            if let Images::Filled(fill) = source {
                fill(host, &images)?;
            }
            let mut open = |spec| layered::open(host, journal, testbed, contents, &images, spec, interrupt);
            let mut members = data.members().iter().map(&mut open).collect::<Result<Vec<_>>>()?;
            let log = log.map(open).transpose()?;
            let others = members.split_off(1);
            let Some(data) = members.pop() else {
                return Err(contradiction(format!("'{data}' has no disks")));
            };
            Location::Volume(Box::new(Volume { filesystem, data, others, journal: log }))
        }
        (_, None) => {
            return Err(contradiction(format!(
                "'{}' is not a filesystem that fsdyno can create",
                configuration.filesystem
            )));
        }
    };
    Ok(Trial {
        testbed: testbed.clone(),
        configuration: configuration.clone(),
        seed,
        location,
        target,
        built: Built::default(),
        recipe: None,
        lifecycle: Lifecycle::default(),
        warnings: Vec::new(),
    })
}

impl Stack {
    pub(crate) fn new(trial: Trial) -> Self {
        Stack(trial)
    }

    /// Creates the filesystem; each device is verified on its descriptor directly before each command that
    /// writes to it.
    ///
    /// # Errors
    /// [`TestbedError::Tool`] with the output of mkfs; [`TestbedError::NotMade`] if the device does not carry
    /// the identifier that mkfs was to write.
    pub fn format(self, host: &mut dyn Host) -> Result<Formatted> {
        let Stack(mut trial) = self;
        let Location::Volume(volume) = &trial.location else { return Ok(Formatted(trial)) };
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
        if let Some(command) = volume.filesystem.forget(&targets) {
            // mkfs has made it remember them by the descriptors that it was given.
            host.run(&command).map_err(TestbedError::at("mkfs"))?;
        }
        let identifier = volume.filesystem.identifier(trial.seed, &targets.data.planned);
        let is_made = match volume.filesystem.shows_identifier(&targets) {
            Some(command) => run_to_success(host, "mkfs", &command)?.stdout.contains(&identifier),
            None => signature::bears(host, &targets.data, &identifier).map_err(TestbedError::at("mkfs"))?,
        };
        if !is_made {
            // A tool that did nothing, or worked elsewhere, is detected before anything is mounted.
            return Err(TestbedError::NotMade { node: targets.data.node, identifier });
        }
        trial.remember_geometry(host, volume, &targets, said)?;
        trial.built.mkfs_command = lines.join(" && ");
        trial.lifecycle.mkfs = Some(Nanos(took_ns));
        Ok(Formatted(trial))
    }
}

impl Formatted {
    pub(crate) fn new(trial: Trial) -> Self {
        Formatted(trial)
    }

    /// Returns the time that mkfs took.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.0.lifecycle
    }

    /// Replays the journal, as the boot of a machine does, if the kernel does not do so when it mounts.
    /// Returns how long that took, and the assembly of layers before it. If it does not succeed, the mount
    /// will tell.
    ///
    /// # Errors
    /// [`TestbedError::Host`] if the program cannot be run.
    pub fn replay(&self, host: &mut dyn Host) -> Result<Nanos> {
        let Location::Volume(volume) = &self.0.location else { return Ok(Nanos(0)) };
        let devices = volume.devices().flat_map(Device::all);
        let assembled = devices.map(|device| device.assembled.0).fold(0, u64::saturating_add);
        let Some(command) = volume.filesystem.replay(&volume.targets()) else { return Ok(Nanos(assembled)) };
        let replayed = host.run(&command).map_err(TestbedError::at("replay"))?.duration;
        Ok(Nanos(assembled.saturating_add(replayed.0)))
    }

    /// Applies the tunables, mounts in a new directory, and reads back what is in force.
    ///
    /// # Errors
    /// [`TestbedError::Unmet`] if a tunable does not take effect; [`TestbedError::WrongMount`] if another
    /// filesystem appears than the one that was created.
    pub fn mount(self, host: &mut dyn Host, journal: &mut UndoJournal) -> Result<Mounted> {
        let Formatted(trial) = self;
        match trial.location.clone() {
            Location::Directory(directory) => use_directory(trial, host, journal, directory),
            Location::Volume(volume) => mount_volume(trial, host, journal, &volume),
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
    // As the kernel finds it, wherever links lead.
    let resolved = directory.canonicalize().unwrap_or(directory);
    let queue = environment::mount_of(&mounts, &resolved).map(|mount| {
        trial.built.mount_options_in_force = mount.options.clone();
        trial.warnings = in_force::risks_of_directory(host, &mounts, mount);
        tunable::queue_of_mount(host, mount.device)
    });
    if let Some(text) = queue.and_then(|queue| host.read_text(&queue.join("scheduler")).ok()) {
        trial.built.scheduler_in_force = setting::active(&text);
    }
    trial.warnings.extend(risks_of_levels("", &trial.configuration));
    Ok(Mounted::new(trial, own, None))
}

fn mount_volume(
    mut trial: Trial,
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    volume: &Volume,
) -> Result<Mounted> {
    let filesystem = volume.filesystem;
    let queues = queues(volume);
    let target = trial.target.clone();
    for device in volume.devices().flat_map(Device::disks) {
        modelled::adopt_queue(host, journal, device)?;
    }
    let settings = tunable::settings(&trial.configuration, Some(&queues));
    tunable::journal_and_apply(host, journal, &settings, &[])?;
    host.create_directory(&target).map_err(TestbedError::at("mount"))?;
    let handles: Vec<DeviceHandle> = volume.devices().map(|device| device.target.handle).collect();
    let request = mount_request(&trial, volume, handles[0]);
    let (mount, took) = mount_verified(host, journal, volume, &handles, &request)?;
    trial.lifecycle.mount = Some(took);
    trial.warnings = not_in_force(&all_expectations(filesystem, &trial.configuration), &mount.options);
    let mut risks = all_risks(filesystem, &trial.configuration);
    risks.extend(in_force::risks_of_filesystem(host, &mount));
    risks.extend(journal_in_memory(host, volume));
    trial.warnings.extend(distinct(risks));
    trial.warnings.extend(filesystem.caveats());
    trial
        .warnings
        .extend(volume.devices().flat_map(Device::disks).filter_map(|disk| shared(disk, &settings)));
    if filesystem.check(&volume.targets()).is_none() {
        let text =
            format!("{} has no check, so it is unknown whether it is still consistent", filesystem.name());
        trial.warnings.push(Warning::new(WarningKind::NotChecked, text));
    }
    trial.built.mount_command = request.line();
    trial.recipe = Some(recipe(&trial.configuration, volume));
    trial.built.mount_options_in_force = mount.options;
    trial.built.scheduler_in_force = schedulers(host, &queues)?;
    Ok(Mounted::new(trial, target.clone(), Some(target)))
}

/// Requests queue at the disks; readahead is decided at the device that the filesystem reads.
fn queues(volume: &Volume) -> Queues {
    let of = |device: &Device| tunable::queue_directory(&device.identity);
    let members = std::iter::once(&volume.data).chain(&volume.others);
    Queues::new(of(&volume.data), members.flat_map(Device::disks).map(of))
}

/// The scheduler of the disks; all of them if they differ.
fn schedulers(host: &mut dyn Host, queues: &Queues) -> Result<String> {
    let mut found: Vec<String> = Vec::new();
    for queue in &queues.disks {
        let text = host.read_text(&queue.join("scheduler")).map_err(TestbedError::at("mount"))?;
        found.push(setting::active(&text));
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
fn journal_in_memory(host: &mut dyn Host, volume: &Volume) -> Option<Warning> {
    let journal = volume.journal.as_ref()?;
    let text = "journal in memory: a power cut loses it, and with it the filesystem's consistency";
    let in_memory = |disk: &Device| match &disk.spec {
        DeviceSpec::Image(Image { path, .. }) => {
            let mounts = host.mounts().unwrap_or_default();
            let mount = environment::mount_of(&mounts, path);
            mount.is_some_and(in_force::is_in_memory)
        }
        _ => in_force::is_memory_disk(&disk.target.node.file_name().unwrap_or_default().to_string_lossy()),
    };
    journal.disks().into_iter().any(in_memory).then(|| Warning::new(WarningKind::Durability, text))
}
