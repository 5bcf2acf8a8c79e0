//! The guards before the first destructive step: all of them, on all devices that the plan names, without
//! writing anything.
//!
//! The host's findings about a device are passed to [`refusals`], a pure function. A fact that could not be
//! determined is a refusal. Each refusal says what is in the way and what to do next; all of them are
//! reported, not just the first.

mod confirmation;
mod identity;
mod refusal;
mod room;

pub use confirmation::{Confirmation, Overwrite, OverwriteError};
pub use identity::identity_text;
pub use refusal::{DeviceNeed, refusals};

use crate::Result;
use crate::error::{GuardRefusal, TestbedError, refusal};
use crate::filesystem;
use crate::filesystem::minimum_size;
use crate::image::MadeImage;
use crate::layer;
use crate::tunable;
use fsdyno_core::device::Image;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Environment, sysctl};
use fsdyno_host::probe::{DeviceIdentity, DeviceProbe, FileIdentity, LoopInfo};
use fsdyno_host::{Command, Host, HostError};
use refusal::too_small;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// mke2fs creates no journal device smaller than 1024 blocks.
const JOURNAL_SIZE_MIN: Bytes = Bytes(4 * Bytes::MIB);

/// Devices that have passed every guard, and what is known about the machine so far. Clones share this
/// knowledge.
#[derive(Debug, Clone)]
pub struct Testbed {
    pub(crate) devices: Devices,
    pub(crate) confirmation: Confirmation,
    pub(crate) needs: BTreeMap<PathBuf, DeviceNeed>,
    /// `true` if block devices are new and contain only zeros.
    pub(crate) blank_disks: bool,
    knowledge: Arc<Mutex<Knowledge>>,
}

/// Facts about the machine that are determined once per sweep, not once per trial.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// Images that are written once per sweep, when that has been done.
    pub kept: Vec<MadeImage>,
    /// The identity of each block device when the guards examined it.
    pub identities: BTreeMap<PathBuf, DeviceIdentity>,
    /// The layers that were built last, with the random bits that they are known by.
    layers: Vec<(DeviceSpec, String)>,
    /// Block devices whose signatures are fsdyno's own.
    pub formatted: BTreeSet<PathBuf>,
    /// First line of `--version` of each tool.
    pub tools: BTreeMap<String, String>,
    /// The geometry of filesystems, by configuration.
    pub geometry: BTreeMap<String, String>,
    /// The part of the environment that does not change from trial to trial.
    pub environment: Option<Environment>,
}

impl Knowledge {
    /// Notes the random bits of a layer.
    pub fn layer_made(&mut self, spec: &DeviceSpec, id: &str) {
        self.layers.retain(|(known, _)| known != spec);
        self.layers.push((spec.clone(), id.to_string()));
    }

    /// The random bits of a layer, if it was built.
    pub fn id_of_layer(&self, spec: &DeviceSpec) -> Option<String> {
        self.layers.iter().find(|(known, _)| known == spec).map(|(_, id)| id.clone())
    }
}

impl Testbed {
    /// Applies all guards to all devices that the plan names. `space` is the most that the trees and writers
    /// of the plan are certain to need. Tools of the configurations' filesystems are asked for their
    /// versions. Nothing is written.
    ///
    /// # Errors
    /// [`TestbedError::Refused`] with every refusal.
    pub fn verify(
        host: &mut dyn Host,
        devices: &Devices,
        configurations: &[Configuration],
        space: Bytes,
        confirmation: &Confirmation,
    ) -> Result<Testbed> {
        let needs = needs(devices, configurations, space);
        let Examined { mut refusals, identities, confirmation } =
            examine(host, devices, &needs, confirmation);
        refusals.extend(room::refusals(host, devices, configurations, space));
        refusals.extend(sysctl_refusals(configurations, &confirmation));
        if !refusals.is_empty() {
            return Err(TestbedError::Refused { refusals });
        }
        let knowledge =
            Knowledge { identities, tools: versions(host, configurations, devices), ..Knowledge::default() };
        Ok(Testbed {
            devices: devices.clone(),
            confirmation,
            needs,
            blank_disks: false,
            knowledge: Arc::new(Mutex::new(knowledge)),
        })
    }

    /// The device that filesystems are created on.
    pub fn device(&self) -> &DeviceSpec {
        &self.devices.data
    }

    /// Treats block devices as new and full of zeros, like the disks of a guest.
    #[must_use]
    pub fn with_blank_disks(mut self) -> Self {
        self.blank_disks = true;
        self
    }

    /// Knows the layers that were built on another testbed of the same disks, to put them together again.
    #[must_use]
    pub fn with_layers_of(self, other: &Testbed) -> Self {
        let layers = other.knowledge().layers.clone();
        self.knowledge().layers = layers;
        self
    }

    pub(crate) fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        // What is known remains true if a thread has panicked.
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the refusals that [`Testbed::verify`] would report after the user has confirmed every device of
/// the plan. Nothing is written.
pub fn foresee(
    host: &mut dyn Host,
    devices: &Devices,
    configurations: &[Configuration],
    space: Bytes,
) -> Vec<GuardRefusal> {
    let destroy = devices.all().flat_map(DeviceSpec::disks).map(|disk| disk.path().to_path_buf()).collect();
    let confirmation = Confirmation { destroy, ..Confirmation::default() };
    let mut refusals = examine(host, devices, &needs(devices, configurations, space), &confirmation).refusals;
    refusals.extend(room::refusals(host, devices, configurations, space));
    refusals.extend(sysctl_refusals(configurations, &confirmation));
    refusals
}

/// Sysctls that are not known to be harmless, each once, unless the user has allowed them by name.
fn sysctl_refusals(configurations: &[Configuration], confirmation: &Confirmation) -> Vec<GuardRefusal> {
    let asked: BTreeSet<&str> = configurations.iter().flat_map(tunable::sysctl_keys).collect();
    let free =
        |key: &&str| sysctl::is_known(key) || confirmation.sysctls.iter().any(|allowed| allowed == key);
    let barred = asked.into_iter().filter(|key| !free(key));
    barred
        .map(|key| {
            refusal(
                Path::new(key),
                "is a sysctl that the plan sets, but not one that filesystem benchmarks usually vary",
                format!("if you know what it does to this machine, confirm with --allow-sysctl {key}"),
            )
        })
        .collect()
}

/// The findings of the guards.
struct Examined {
    /// All that is in the way.
    refusals: Vec<GuardRefusal>,
    /// The identities of the block devices.
    identities: BTreeMap<PathBuf, DeviceIdentity>,
    /// The user's confirmations, by the paths of the plan.
    confirmation: Confirmation,
}

/// Looks at every device.
fn examine(
    host: &mut dyn Host,
    devices: &Devices,
    needs: &BTreeMap<PathBuf, DeviceNeed>,
    confirmation: &Confirmation,
) -> Examined {
    let disks: Vec<&DeviceSpec> = devices.all().flat_map(DeviceSpec::disks).collect();
    let blocks = disks.iter().filter(|disk| matches!(disk, DeviceSpec::Block(_)));
    let probes: BTreeMap<&Path, fsdyno_host::Result<DeviceProbe>> =
        blocks.map(|disk| (disk.path(), host.probe_device(disk.path()))).collect();
    let found: Vec<&DeviceProbe> = probes.values().filter_map(|probe| probe.as_ref().ok()).collect();
    let confirmation = confirmation.clone().by_path(host, &found);
    let mut refusals = Vec::new();
    for disk in &disks {
        let need = &needs[disk.path()];
        match (disk, probes.get(disk.path())) {
            (_, Some(Ok(probe))) => {
                refusals.extend(refusal::refusals(probe, disk, &confirmation, need, false))
            }
            (_, Some(Err(error))) => refusals.push(not_examined(disk.path(), error)),
            (DeviceSpec::Image(Image { path, size, .. }), None) => {
                refusals.extend(image_refusals(host, path, *size, need));
            }
            (other, None) => refusals.extend(directory_refusals(host, other.path())),
        }
    }
    refusals.extend(named_twice(&found));
    let known = probes.iter().filter_map(|(path, probe)| Some((path.to_path_buf(), probe.as_ref().ok()?)));
    let identities = known.map(|(path, probe)| (path, probe.identity.clone())).collect();
    Examined { refusals, identities, confirmation }
}

/// Devices that the plan names by two paths: writing by one name would destroy what is there under the other.
fn named_twice(probes: &[&DeviceProbe]) -> Vec<GuardRefusal> {
    let mut refusals = Vec::new();
    for (index, probe) in probes.iter().enumerate() {
        let same = |other: &&&DeviceProbe| other.identity.number == probe.identity.number;
        if let Some(other) = probes[..index].iter().find(same) {
            let reason =
                format!("is the same device as '{}', which the plan also names", other.path.display());
            refusals.push(refusal(&probe.path, reason, "name two different devices"));
        }
    }
    refusals
}

fn not_examined(path: &Path, error: &HostError) -> GuardRefusal {
    let hint = "name an existing block device that this user can read";
    refusal(path, format!("could not be examined: {error}"), hint)
}

fn needs(devices: &Devices, configurations: &[Configuration], space: Bytes) -> BTreeMap<PathBuf, DeviceNeed> {
    // A configuration that needs more than the minimum is skipped; a device too small for every configuration
    // is refused.
    let least = configurations
        .iter()
        .map(|configuration| (minimum_size(configuration), configuration))
        .min_by_key(|pair| pair.0);
    let data = match least {
        Some((size, configuration)) if size > space => {
            DeviceNeed { size, by: format!("the structures of {} alone", configuration.filesystem) }
        }
        _ => DeviceNeed { size: space, by: "the plan's trees and writers".to_string() },
    };
    let journal = DeviceNeed { size: JOURNAL_SIZE_MIN, by: "the structures of a journal".to_string() };
    let mut needs = BTreeMap::new();
    devices.journals.values().for_each(|spec| share_out(spec, &journal, &mut needs));
    share_out(&devices.data, &data, &mut needs);
    needs
}

/// Adds the share of a need that each disk of a stack has to meet.
fn share_out(spec: &DeviceSpec, need: &DeviceNeed, needs: &mut BTreeMap<PathBuf, DeviceNeed>) {
    let below = spec.below();
    if below.is_empty() {
        needs.insert(spec.path().to_path_buf(), need.clone());
    }
    let by = match below.len() {
        0 | 1 => need.by.clone(),
        count => format!("{}, in {count} parts,", need.by),
    };
    let share = DeviceNeed { size: spec.share_of(need.size), by };
    below.iter().for_each(|spec| share_out(spec, &share, needs));
}

fn versions(
    host: &mut dyn Host,
    configurations: &[Configuration],
    devices: &Devices,
) -> BTreeMap<String, String> {
    let names: BTreeSet<&str> =
        configurations.iter().map(|configuration| configuration.filesystem.as_str()).collect();
    let tools: BTreeSet<_> = names
        .into_iter()
        .filter_map(filesystem::find)
        .flat_map(|filesystem| filesystem.descriptor().tools)
        .chain(devices.all().flat_map(layer::all).flat_map(|layer| layer.tools()))
        .filter_map(|tool| Some((tool.program, tool.version_argument?)))
        .collect();
    let mut versions = BTreeMap::new();
    for (program, argument) in tools {
        // A missing tool makes its cases skipped later, with the reason.
        if let Ok(output) = host.run(&Command::new(program).args([argument])) {
            let text = if output.stdout.trim().is_empty() { output.stderr } else { output.stdout };
            let line = text.trim().lines().next().unwrap_or_default().trim_end();
            versions.insert(program.to_string(), line.to_string());
        }
    }
    versions
}

fn directory_refusals(host: &mut dyn Host, path: &Path) -> Vec<GuardRefusal> {
    match host.list_directory(path) {
        Ok(_) => Vec::new(),
        Err(error) => vec![refusal(path, format!("cannot be used: {error}"), "name an existing directory")],
    }
}

/// Why a file is not replaced by an image. Whoever is told to remove it must not destroy what another sweep
/// is using.
fn in_the_way(host: &mut dyn Host, path: &Path, found: &FileIdentity) -> GuardRefusal {
    let loops = host.loops().unwrap_or_default();
    let same = |one: &&LoopInfo| (one.backing_device, one.backing_inode) == (found.device, found.inode);
    match loops.iter().find(same) {
        Some(attached) => refusal(
            path,
            format!("already exists and is in use: '{}' is attached to it", attached.device.display()),
            "wait until the sweep that uses it ends, name another path, or run `fsdyno restore` if a sweep \
             has crashed",
        ),
        None => refusal(
            path,
            "already exists, and fsdyno does not overwrite files that it did not create",
            "name another path, run `fsdyno restore` if a sweep has crashed, or remove the file yourself if \
             nothing uses it",
        ),
    }
}

fn image_refusals(host: &mut dyn Host, path: &Path, size: Bytes, need: &DeviceNeed) -> Vec<GuardRefusal> {
    let mut refusals = Vec::new();
    match host.file_identity(path) {
        Ok(None) => {}
        Ok(Some(found)) => refusals.push(in_the_way(host, path, &found)),
        Err(error) => {
            refusals.push(refusal(path, format!("could not be examined: {error}"), "name another path"))
        }
    }
    if size < need.size {
        refusals.push(too_small(path, size, need));
    }
    refusals
}
