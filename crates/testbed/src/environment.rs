//! The context of a result: the machine, its settings, the devices, and the geometry of the filesystem.

use crate::device::Device;
use crate::trial::{Location, Trial};
use crate::tunable;
use fsdyno_core::axis::SYSCTL_PREFIX;
use fsdyno_core::environment::{DeviceFacts, Swap};
use fsdyno_core::{Environment, meminfo};
use fsdyno_host::Host;
use fsdyno_host::probe::MountInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Captures the environment of a trial. What does not change within a sweep is read only once.
pub(crate) fn capture(host: &mut dyn Host, trial: &Trial, directory: &Path) -> Environment {
    let known = trial.testbed.knowledge().environment.clone();
    let machine = known.unwrap_or_else(|| machine(host));
    let mut environment = machine.clone();
    {
        let mut knowledge = trial.testbed.knowledge();
        knowledge.environment.get_or_insert(machine);
        environment.tools = knowledge.tools.clone();
        environment.geometry = knowledge.geometry.get(&trial.geometry_key()).cloned().unwrap_or_default();
    }
    environment.clients = host.clients();
    environment.sysctl = sysctls(host, trial);
    let mut read = |path: &str| host.read_text(Path::new(path)).unwrap_or_default();
    environment.swap = swap(&read("/proc/meminfo"));
    environment.load = load(&read("/proc/loadavg"));
    environment.devices = match &trial.location {
        Location::Volume(volume) => {
            volume.devices().flat_map(Device::all).map(|device| device_facts(host, device)).collect()
        }
        Location::Directory(_) => directory_facts(host, directory).into_iter().collect(),
    };
    if let Location::Volume(volume) = &trial.location {
        let layers = volume.devices().flat_map(Device::all).filter_map(|device| device.made.clone());
        environment.layers = layers.collect();
    }
    environment
}

/// The kernel that runs on a host: its release and its version, as results name it.
pub fn running_kernel(host: &mut dyn Host) -> String {
    let mut read =
        |path: &str| host.read_text(Path::new(path)).map(|text| text.trim().to_string()).unwrap_or_default();
    format!("{} {}", read("/proc/sys/kernel/osrelease"), read("/proc/sys/kernel/version"))
}

fn machine(host: &mut dyn Host) -> Environment {
    let confinement = host.confinement().ok();
    let governor = governor(host);
    let kernel = running_kernel(host);
    let mut read =
        |path: &str| host.read_text(Path::new(path)).map(|text| text.trim().to_string()).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let hypervisor = processors.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
    Environment {
        fsdyno: env!("CARGO_PKG_VERSION").to_string(),
        kernel,
        kernel_command_line: read("/proc/cmdline"),
        hostname: read("/proc/sys/kernel/hostname"),
        cpu_model: cpu_model(&processors),
        cpus: allowed_processors(&read("/proc/self/status")),
        memory_bytes: meminfo::value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default().0,
        virtualisation: virtualisation(
            hypervisor,
            &read("/sys/hypervisor/type"),
            &read("/sys/class/dmi/id/sys_vendor"),
        ),
        confinement,
        clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor,
        turbo: turbo(
            &read("/sys/devices/system/cpu/intel_pstate/no_turbo"),
            &read("/sys/devices/system/cpu/cpufreq/boost"),
        ),
        numa_nodes: count(&read("/sys/devices/system/node/online")),
        ..Environment::default()
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"));
    line.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim().to_string()).unwrap_or_default()
}

/// Processors in the status of a process.
fn allowed_processors(status: &str) -> u32 {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    count(list).unwrap_or_default()
}

/// Returns the number of items in a list such as `0-3,8`; `None` if there is no list.
fn count(list: &str) -> Option<u32> {
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u32>().ok()?.checked_sub(first.parse::<u32>().ok()?)?.checked_add(1)
    });
    ranges.sum()
}

/// The governors of all policies, each once.
fn governor(host: &mut dyn Host) -> Option<String> {
    let all = Path::new("/sys/devices/system/cpu/cpufreq");
    let policies = host.list_directory(all).ok()?.into_iter().filter(|name| name.starts_with("policy"));
    let governors = policies.filter_map(|policy| {
        let text = host.read_text(&all.join(policy).join("scaling_governor")).ok()?;
        Some(text.trim().to_string())
    });
    let governors: BTreeSet<String> = governors.collect();
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(", "))
}

/// Returns whether processors may exceed their nominal frequency, as `intel_pstate/no_turbo` or
/// `cpufreq/boost` say (Documentation/admin-guide/pm/cpufreq.rst).
fn turbo(no_turbo: &str, boost: &str) -> Option<bool> {
    match (no_turbo, boost) {
        ("0", _) | ("", "1") => Some(true),
        ("1", _) | ("", "0") => Some(false),
        _ => None,
    }
}

fn swap(meminfo: &str) -> Option<Swap> {
    let (size, free) = (meminfo::value(meminfo, "SwapTotal")?, meminfo::value(meminfo, "SwapFree")?);
    Some(Swap { size_bytes: size.0, used_bytes: size.0.saturating_sub(free.0) })
}

/// The three averages at the beginning of /proc/loadavg.
fn load(loadavg: &str) -> Option<[f64; 3]> {
    let mut averages = loadavg.split_whitespace().map(|word| word.parse().ok());
    let mut next = || averages.next().flatten();
    Some([next()?, next()?, next()?])
}

fn virtualisation(hypervisor: bool, kind: &str, vendor: &str) -> Option<String> {
    if !kind.is_empty() {
        return Some(kind.to_string());
    }
    hypervisor
        .then(|| if vendor.is_empty() { "hypervisor".to_string() } else { format!("hypervisor ({vendor})") })
}

/// `vm.dirty_*` and every sysctl that the configuration sets.
fn sysctls(host: &mut dyn Host, trial: &Trial) -> BTreeMap<String, String> {
    let names = host.list_directory(Path::new("/proc/sys/vm")).unwrap_or_default();
    let dirty = names.into_iter().filter(|name| name.starts_with("dirty")).map(|name| format!("vm.{name}"));
    let asked = trial.configuration.settings.keys().filter_map(|axis| axis.strip_prefix(SYSCTL_PREFIX));
    let keys: Vec<String> = dirty.chain(asked.map(str::to_string)).collect();
    keys.into_iter()
        .filter_map(|key| {
            let text = host.read_text(&tunable::sysctl_path(&key)).ok()?;
            Some((key, text.trim().to_string()))
        })
        .collect()
}

fn device_facts(host: &mut dyn Host, device: &Device) -> DeviceFacts {
    DeviceFacts {
        path: device.target.node.display().to_string(),
        model: device.model.clone(),
        serial: device.identity.serial.clone(),
        size_bytes: device.identity.size_bytes,
        queue: queue(host, &tunable::queue_directory(&device.identity)),
    }
}

/// The device under a directory, if its filesystem has a single one.
fn directory_facts(host: &mut dyn Host, path: &Path) -> Option<DeviceFacts> {
    let mounts = host.mounts().ok()?;
    let mount = mount_of(&mounts, path)?;
    let directory = tunable::queue_of_mount(host, mount.device);
    Some(DeviceFacts {
        path: mount.source.clone(),
        model: mount.filesystem.clone(),
        serial: None,
        size_bytes: host.room(path).map(|room| room.size.0).unwrap_or(0),
        queue: queue(host, &directory),
    })
}

/// The mount that holds a path: the one with the longest target, the last of those.
pub(crate) fn mount_of<'a>(mounts: &'a [MountInfo], path: &Path) -> Option<&'a MountInfo> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.target))
        .max_by_key(|mount| mount.target.as_os_str().len())
}

fn queue(host: &mut dyn Host, directory: &Path) -> BTreeMap<String, String> {
    let names = host.list_directory(directory).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| {
            let text = host.read_text(&directory.join(&name)).ok()?;
            Some((name, text.trim().to_string()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_words_of_the_kernel() {
        assert_eq!(allowed_processors("Name:\tx\nCpus_allowed_list:\t0-3,8\n"), 5);
        assert_eq!((count("0-1\n"), count("")), (Some(2), None));
        assert_eq!([turbo("0", ""), turbo("1", "1"), turbo("", "0")], [Some(true), Some(false), Some(false)]);
        assert_eq!(turbo("", ""), None);
        let meminfo = "SwapTotal:  8 kB\nSwapFree:  6 kB\n";
        assert_eq!(swap(meminfo), Some(Swap { size_bytes: 8192, used_bytes: 2048 }));
        assert_eq!(swap(""), None);
        assert_eq!(load("0.50 1.25 2.00 1/345 6789\n"), Some([0.5, 1.25, 2.0]));
        assert_eq!(load("0.50"), None);
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n"), "AMD EPYC");
        assert_eq!(virtualisation(true, "", "Acme"), Some("hypervisor (Acme)".to_string()));
        assert_eq!(virtualisation(false, "", "Acme"), None);
    }

    #[test]
    fn a_path_belongs_to_the_innermost_mount() {
        let mount = |target: &str| MountInfo {
            device: (0, 0),
            root: "/".into(),
            target: target.into(),
            filesystem: String::new(),
            source: String::new(),
            options: String::new(),
        };
        let mounts = [mount("/"), mount("/home"), mount("/ho")];
        assert_eq!(mount_of(&mounts, Path::new("/home/a")).unwrap().target, Path::new("/home"));
        assert_eq!(mount_of(&mounts, Path::new("/hom")).unwrap().target, Path::new("/"));
    }
}
