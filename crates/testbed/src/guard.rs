//! The guards before the first destructive step: all of them, on all devices that the plan names, with nothing written.
//!
//! What the host found out about a device goes through [`refusals`], a pure function. A fact that could not be found out is
//! a refusal. Each refusal says what is in the way and what to do next; all are given, not the first.

use crate::Result;
use crate::error::TestbedError;
use crate::filesystem;
use crate::foresight::minimum_size;
use crate::layer;
use crate::tunable;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Environment, sysctl};
use fsdyno_host::probe::{DeviceIdentity, DeviceProbe, Use};
use fsdyno_host::{Command, Host};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the user has confirmed on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confirmation {
    /// Paths or serial numbers of block devices that may be destroyed.
    pub destroy: Vec<PathBuf>,
    /// Kinds of signature that may be overwritten, in libblkid's words.
    pub signatures: Vec<String>,
    /// Sysctls beyond the known ones that may be set.
    pub sysctls: Vec<String>,
}

/// Why a guard said no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The device, or the sysctl, as the plan names it.
    pub device: PathBuf,
    /// What is in the way, as the end of a sentence about it.
    pub reason: String,
    /// The next step.
    pub hint: String,
}

/// What the plan needs of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The least size.
    pub size: Bytes,
    /// What needs it.
    pub by: String,
}

/// mke2fs makes no smaller journal device than 1024 blocks.
const JOURNAL_SIZE_MIN: Bytes = Bytes(4 * Bytes::MIB);

/// Devices on which every guard said yes, and what was learnt about the machine so far. Clones share what they learn.
#[derive(Debug, Clone)]
pub struct Testbed {
    pub(crate) devices: Devices,
    pub(crate) confirmation: Confirmation,
    pub(crate) needs: BTreeMap<PathBuf, Need>,
    /// Whether block devices are new and hold nothing but zeros.
    pub(crate) blank_disks: bool,
    knowledge: Arc<Mutex<Knowledge>>,
}

/// What is asked of the machine once per sweep, not once per trial.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// The identity that each block device had when the guards looked.
    pub identities: BTreeMap<PathBuf, DeviceIdentity>,
    /// Block devices whose signatures are our own.
    pub formatted: BTreeSet<PathBuf>,
    /// First line of `--version` of each tool.
    pub tools: BTreeMap<String, String>,
    /// What filesystems said of their geometry, by configuration.
    pub geometry: BTreeMap<String, String>,
    /// What does not change from trial to trial.
    pub environment: Option<Environment>,
}

impl Testbed {
    /// Applies all guards to all devices that the plan names. `space` is what the trees of the plan need at most. Tools of
    /// the configurations' filesystems are asked for their versions. Nothing is written.
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
        let (mut refusals, identities) = examine(host, devices, &needs, confirmation);
        refusals.extend(sysctl_refusals(configurations, confirmation));
        if !refusals.is_empty() {
            return Err(TestbedError::Refused { refusals });
        }
        let knowledge =
            Knowledge { identities, tools: versions(host, configurations, devices), ..Knowledge::default() };
        Ok(Testbed {
            devices: devices.clone(),
            confirmation: confirmation.clone(),
            needs,
            blank_disks: false,
            knowledge: Arc::new(Mutex::new(knowledge)),
        })
    }

    /// Takes block devices as new and full of zeros, as the disks of a guest are.
    #[must_use]
    pub fn with_blank_disks(mut self) -> Self {
        self.blank_disks = true;
        self
    }

    pub(crate) fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        // What is known stays true when a thread panicked.
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`Testbed::verify`] would refuse once the user has confirmed every device of the plan. Nothing is written.
pub fn foresee(
    host: &mut dyn Host,
    devices: &Devices,
    configurations: &[Configuration],
    space: Bytes,
) -> Vec<Refusal> {
    let destroy = devices.all().flat_map(DeviceSpec::disks).map(|disk| disk.path().to_path_buf()).collect();
    let confirmation = Confirmation { destroy, ..Confirmation::default() };
    let mut refusals = examine(host, devices, &needs(devices, configurations, space), &confirmation).0;
    refusals.extend(sysctl_refusals(configurations, &confirmation));
    refusals
}

/// Sysctls that are not known to be harmless, each once, unless the user has allowed them by name.
fn sysctl_refusals(configurations: &[Configuration], confirmation: &Confirmation) -> Vec<Refusal> {
    let asked: BTreeSet<&str> = configurations.iter().flat_map(tunable::sysctl_keys).collect();
    let free =
        |key: &&str| sysctl::is_known(key) || confirmation.sysctls.iter().any(|allowed| allowed == key);
    let barred = asked.into_iter().filter(|key| !free(key));
    barred
        .map(|key| {
            refusal(
                Path::new(key),
                "is a sysctl that the plan sets, and none of those that filesystem benchmarks vary",
                format!("if you know what it does to this machine: --allow-sysctl {key}"),
            )
        })
        .collect()
}

/// Looks at every device: all that is in the way, and who the block devices are.
fn examine(
    host: &mut dyn Host,
    devices: &Devices,
    needs: &BTreeMap<PathBuf, Need>,
    confirmation: &Confirmation,
) -> (Vec<Refusal>, BTreeMap<PathBuf, DeviceIdentity>) {
    let mut refusals = Vec::new();
    let mut identities = BTreeMap::new();
    for spec in devices.all() {
        let disks = spec.disks();
        for disk in &disks {
            let need = &needs[disk.path()];
            match disk {
                DeviceSpec::Image { path, size, .. } => {
                    let beside = disks.iter().filter(|other| other.path().parent() == path.parent());
                    refusals.extend(image_refusals(host, path, *size, need, beside.count()));
                }
                DeviceSpec::Block { path, .. } => {
                    let (found, identity) = block_refusals(host, disk, path, confirmation, need);
                    refusals.extend(found);
                    identities.extend(identity.map(|identity| (path.clone(), identity)));
                }
                other => refusals.extend(directory_refusals(host, other.path())),
            }
        }
    }
    (refusals, identities)
}

fn needs(devices: &Devices, configurations: &[Configuration], space: Bytes) -> BTreeMap<PathBuf, Need> {
    // A configuration that needs more than the least is skipped; a device that no configuration fits on is refused.
    let least = configurations
        .iter()
        .map(|configuration| (minimum_size(configuration), configuration))
        .min_by_key(|pair| pair.0);
    let data = match least {
        Some((size, configuration)) if size > space => {
            Need { size, by: format!("the structures of {} alone", configuration.filesystem) }
        }
        _ => Need { size: space, by: "the plan's trees".to_string() },
    };
    let journal = Need { size: JOURNAL_SIZE_MIN, by: "the structures of a journal".to_string() };
    let mut needs = BTreeMap::new();
    devices.journals.values().for_each(|spec| share_out(spec, &journal, &mut needs));
    share_out(&devices.data, &data, &mut needs);
    needs
}

/// What each disk of a stack has to hold.
fn share_out(spec: &DeviceSpec, need: &Need, needs: &mut BTreeMap<PathBuf, Need>) {
    let below = spec.below();
    if below.is_empty() {
        needs.insert(spec.path().to_path_buf(), need.clone());
    }
    let by = match below.len() {
        0 | 1 => need.by.clone(),
        count => format!("{}, in {count} parts,", need.by),
    };
    let share = Need { size: spec.share_of(need.size), by };
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
        .flat_map(|filesystem| filesystem.tools())
        .chain(devices.all().flat_map(layer::all).flat_map(|layer| layer.tools()))
        .map(|tool| (tool.program, tool.version_argument))
        .collect();
    let mut versions = BTreeMap::new();
    for (program, argument) in tools {
        // A tool that is missing makes its cases skipped, with the reason, later.
        if let Ok(output) = host.run(&Command::new(program).args([argument])) {
            let text = if output.stdout.trim().is_empty() { output.stderr } else { output.stdout };
            let line = text.trim().lines().next().unwrap_or_default().trim_end();
            versions.insert(program.to_string(), line.to_string());
        }
    }
    versions
}

fn directory_refusals(host: &mut dyn Host, path: &Path) -> Vec<Refusal> {
    match host.list_directory(path) {
        Ok(_) => Vec::new(),
        Err(error) => vec![refusal(path, format!("cannot be used: {error}"), "name an existing directory")],
    }
}

/// `beside`: so many images of the same stack lie in the same directory, this one counted.
fn image_refusals(host: &mut dyn Host, path: &Path, size: Bytes, need: &Need, beside: usize) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    match host.file_identity(path) {
        Ok(None) => {}
        Ok(Some(_)) => refusals.push(refusal(
            path,
            "exists already, and fsdyno overwrites no file that it did not make",
            "name another path, remove the file yourself, or run `fsdyno restore` if a crashed sweep left it",
        )),
        Err(error) => {
            refusals.push(refusal(path, format!("could not be looked at: {error}"), "name another path"))
        }
    }
    if size < need.size {
        refusals.push(too_small(path, size, need));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let all = Bytes(need.size.0.saturating_mul(beside as u64));
    match host.space(parent) {
        Ok((free, _)) if free < all => refusals.push(refusal(
            path,
            format!("lies where only {free} are free, and {} take {all}", need.by),
            "make room, or name a path on another filesystem",
        )),
        Ok(_) => {}
        Err(error) => {
            refusals.push(refusal(
                path,
                format!("cannot be made: {error}"),
                "name a path in an existing directory",
            ));
        }
    }
    refusals
}

fn block_refusals(
    host: &mut dyn Host,
    spec: &DeviceSpec,
    path: &Path,
    confirmation: &Confirmation,
    need: &Need,
) -> (Vec<Refusal>, Option<DeviceIdentity>) {
    let probe = match host.probe_device(path) {
        Ok(probe) => probe,
        Err(error) => {
            let hint = "name an existing block device that this user may read";
            return (vec![refusal(path, format!("could not be examined: {error}"), hint)], None);
        }
    };
    let mut confirmation = confirmation.clone();
    if !confirmed(&probe, &confirmation) && confirmed_by_another_name(host, &probe, &confirmation) {
        confirmation.destroy.push(path.to_path_buf());
    }
    (refusals(&probe, spec, &confirmation, need, false), Some(probe.identity))
}

fn confirmed_by_another_name(host: &mut dyn Host, probe: &DeviceProbe, confirmation: &Confirmation) -> bool {
    confirmation.destroy.iter().any(|name| {
        host.probe_device(name)
            .is_ok_and(|other| other.block && other.identity.number == probe.identity.number)
    })
}

/// Whether the user has named this device as one that may be destroyed.
fn confirmed(probe: &DeviceProbe, confirmation: &Confirmation) -> bool {
    confirmation.destroy.iter().any(|name| {
        let serial = probe.identity.serial.as_deref();
        *name == probe.path
            || *name == probe.canonical
            || serial.is_some_and(|serial| name.as_os_str() == serial)
    })
}

/// Every reason not to destroy a block device, given what was found out about it. `ours`: its signatures were made by this
/// sweep, so they need no confirmation.
pub fn refusals(
    probe: &DeviceProbe,
    spec: &DeviceSpec,
    confirmation: &Confirmation,
    need: &Need,
    ours: bool,
) -> Vec<Refusal> {
    let path = spec.path();
    let mut refusals = Vec::new();
    if !probe.block {
        refusals.push(refusal(path, "is no block device", "name a block device, or use `image` for a file"));
        return refusals;
    }
    if !confirmed(probe, confirmation) {
        refusals.push(refusal(
            path,
            format!("is not confirmed ({}, {})", describe_model(probe), identity_text(&probe.identity)),
            format!("everything on it will be lost; confirm with --destroy {}", path.display()),
        ));
    }
    let (carried, uses): (Vec<&Use>, Vec<&Use>) =
        probe.uses.iter().partition(|usage| matches!(usage, Use::Carries { .. }));
    refusals.extend(uses.into_iter().map(|usage| {
        let (reason, hint) = explain(usage);
        refusal(path, reason, hint)
    }));
    if !carried.is_empty() {
        // A disk that carries the system carries many things: one refusal names them all.
        let reasons: Vec<String> = carried.into_iter().map(|usage| explain(usage).0).collect();
        let list = reasons.join(", ").replace(", carries ", ", ");
        refusals.push(refusal(path, list, "name another device"));
    }
    if !ours {
        let unconfirmed = probe.signatures.iter().filter(|kind| !confirmation.signatures.contains(kind));
        refusals.extend(unconfirmed.map(|kind| {
            refusal(
                path,
                format!("carries a signature of {kind}"),
                format!("if it may be lost, confirm with --overwrite {kind}; wipefs(8) shows and removes signatures"),
            )
        }));
    }
    if let DeviceSpec::Block { identity: Some(pinned), .. } = spec {
        refusals.extend(pin_differences(pinned, &probe.identity).into_iter().map(|difference| {
            refusal(
                path,
                format!("is not the device that the plan pins: {difference}"),
                format!("if it is the right one, write identity = \"{}\"", identity_text(&probe.identity)),
            )
        }));
    }
    if probe.size() < need.size {
        refusals.push(too_small(path, probe.size(), need));
    }
    refusals.extend(probe.unknown.iter().map(|unknown| {
        let hint = "fsdyno destroys only what it could examine whole; remove the cause and try again";
        refusal(path, format!("could not be examined whole: {unknown}"), hint)
    }));
    refusals
}

fn refusal(device: &Path, reason: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal { device: device.to_path_buf(), reason: reason.into(), hint: hint.into() }
}

fn too_small(path: &Path, size: Bytes, need: &Need) -> Refusal {
    refusal(
        path,
        format!("has {size}, and {} take {}", need.by, need.size),
        "take a larger device, or smaller trees by --set",
    )
}

fn describe_model(probe: &DeviceProbe) -> String {
    let model = if probe.model.is_empty() { "unknown model" } else { probe.model.as_str() };
    format!("{model}, {}", probe.size())
}

fn explain(usage: &Use) -> (String, String) {
    let (reason, hint): (String, &str) = match usage {
        Use::Mounted { target, namespace_of_pid: None } => {
            (format!("is mounted on '{target}'"), "unmount it, or name another device")
        }
        Use::Mounted { target, namespace_of_pid: Some(pid) } => (
            format!("is mounted on '{target}' in the mount namespace of process {pid}"),
            "unmount it there (nsenter -m -t PID), or end that process",
        ),
        Use::Swap => ("is in use as swap".to_string(), "swapoff it, or name another device"),
        Use::Holder { name } => (
            format!("is used by the block device '{name}'"),
            "take that device apart first, or name it instead",
        ),
        Use::Slave { name } => {
            (format!("stands on the block device '{name}'"), "name the device that it stands on, or another")
        }
        Use::Partition { name } => {
            (format!("has the partition '{name}'"), "remove its partitions yourself, or name another device")
        }
        Use::IsPartition { of } => (
            format!("is a partition of '{of}', not a disk"),
            "name a whole disk, or use an image on this partition",
        ),
        Use::OpenedBy { pid, command } => {
            (format!("is held open by process {pid} ({command})"), "end that process, or name another device")
        }
        Use::Alias { name, how } => (
            format!("holds the same bytes as '{name}', which is {how}"),
            "release that device, or name another",
        ),
        Use::Member { filesystem, uuid } => (
            format!("is a member of the mounted {filesystem} filesystem {uuid}"),
            "unmount that filesystem or remove the device from it, or name another device",
        ),
        Use::Carries { what } => (format!("carries {what}"), "name another device"),
        Use::ReadOnly => {
            ("is read-only".to_string(), "name another device, or make it writable (blockdev --setrw)")
        }
    };
    (reason, hint.to_string())
}

/// The identity of a device as `fsdyno plan` prints it and `[device] identity` pins it: its serial number where it has one,
/// else the kernel's sequence number, which holds until the device is attached again; and its size.
pub fn identity_text(identity: &DeviceIdentity) -> String {
    let who = match (&identity.serial, identity.diskseq) {
        (Some(serial), _) => format!("serial={serial}"),
        (None, Some(diskseq)) => format!("diskseq={diskseq}"),
        (None, None) => format!("number={}:{}", identity.number.0, identity.number.1),
    };
    format!("{who},size={}", identity.size_bytes)
}

fn pin_differences(pinned: &str, identity: &DeviceIdentity) -> Vec<String> {
    let differ = |part: &str| {
        let Some((key, pinned)) = part.split_once('=') else {
            return Some(format!("'{part}' is no key=value; the keys are serial, diskseq, number and size"));
        };
        let found = match key.trim() {
            "serial" => identity.serial.clone(),
            "diskseq" => identity.diskseq.map(|diskseq| diskseq.to_string()),
            "number" => Some(format!("{}:{}", identity.number.0, identity.number.1)),
            "size" => Some(identity.size_bytes.to_string()),
            key => return Some(format!("'{key}' is no key; they are serial, diskseq, number and size")),
        };
        let found = found.unwrap_or("none".to_string());
        (found != pinned.trim()).then(|| format!("{} is {found}, the plan has {}", key.trim(), pinned.trim()))
    };
    // A serial number may itself hold a comma; a size never does, and it stands last.
    let (rest, size) = match pinned.rsplit_once(",size=") {
        Some((rest, size)) => (rest, Some(format!("size={size}"))),
        None => (pinned, None),
    };
    [Some(rest.to_string()), size].into_iter().flatten().filter_map(|part| differ(part.trim())).collect()
}
