//! What can be said of a configuration before anything is changed: whether it makes sense, whether this machine can run
//! it, and which commands it takes.

use crate::capability::{KernelSupport, absent_tools, has_module, kernel_elsewhere, kernel_support};
use crate::filesystem::{self, Filesystem, Kernel, Target, Targets, Tool, all_mount_options, raw_mount};
use crate::layer::{self, Making, Member};
use crate::stack::mount_directory;
use crate::tunable::{self, Queues};
use crate::words;
use fsdyno_core::axis::SYSCTL_PREFIX;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, scheduler};
use fsdyno_host::{DeviceHandle, Host, HostError, MountRequest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Queue depths below this become this (BLKDEV_MIN_RQ in the kernel).
const NR_REQUESTS_MIN: u32 = 4;
const ENOENT: i32 = 2;

/// Settings that contradict each other, the filesystem or the devices, known without looking at the machine: one line each.
pub fn contradictions(configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let mut found: Vec<String> = tunable::contradictions(configuration).collect();
    if let DeviceSpec::Directory { .. } = devices.data {
        let formatting = configuration
            .settings
            .keys()
            .filter(|axis| !axis.starts_with(SYSCTL_PREFIX) && configuration.level(axis).is_some());
        found.extend(
            formatting.map(|axis| format!("{axis} needs a device, and a directory is used as it is")),
        );
        return found;
    }
    let Some(filesystem) = filesystem::find(&configuration.filesystem) else {
        found.push(format!("'{}' is no filesystem that can be made", configuration.filesystem));
        return found;
    };
    for axis in configuration.settings.keys() {
        let applies = fsdyno_core::axis::find(axis).is_ok_and(|axis| axis.applies_to(filesystem.name()));
        if !applies && configuration.level(axis).is_some() {
            found.push(format!("{} has no setting {axis}", filesystem.name()));
        }
    }
    found.extend(filesystem.contradictions(configuration));
    found.extend(device_contradictions(configuration, devices));
    found.extend(mount_contradictions(filesystem, configuration));
    found.extend(words::contradictions(filesystem, configuration));
    if configuration.level("age").is_some_and(|rounds| rounds != "0") && configuration.level("fill").is_none()
    {
        found.push("age needs fill: the files that come and go are its".to_string());
    }
    if let Some(count) = configuration.level("nr_requests").and_then(|level| level.parse::<u32>().ok())
        && count < NR_REQUESTS_MIN
    {
        found.push(format!("nr_requests = {count} is none: {NR_REQUESTS_MIN} at least"));
    }
    if let Some(bytes) = filesystem::size_of(configuration, "readahead")
        && bytes % Bytes::KIB != 0
    {
        found.push(format!("readahead = {} is none: whole KiB", Bytes(bytes)));
    }
    found
}

fn device_contradictions(configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(kernel) = configuration.guest_kernel()
        && !devices.all().all(DeviceSpec::is_of_images)
    {
        found.push(format!("kernel = {kernel} runs in a virtual machine, whose disks are images"));
    }
    if let Err(why) = journal_spec(configuration, devices) {
        found.push(why);
    }
    for (name, journal) in &devices.journals {
        let shared =
            |disk: &&DeviceSpec| devices.data.disks().iter().any(|other| other.path() == disk.path());
        if journal.disks().iter().any(shared) {
            found.push(format!("journal device '{name}' is the data device itself"));
        }
        if matches!(journal, DeviceSpec::Directory { .. }) {
            found.push(format!(
                "journal device '{name}' is a directory; it must be an image or a block device"
            ));
        }
    }
    found
}

/// The device that the external journal goes to.
pub(crate) fn journal_spec<'a>(
    configuration: &Configuration,
    devices: &'a Devices,
) -> Result<Option<&'a DeviceSpec>, String> {
    let Some(name) = configuration.external_journal() else { return Ok(None) };
    let known = || devices.journals.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) => devices.journals.get(name).map(Some).ok_or_else(|| {
            format!("journal = external:{name} names no device of [device.journals], which has: {}", known())
        }),
        None if devices.journals.len() == 1 => Ok(devices.journals.values().next()),
        None if devices.journals.is_empty() => {
            Err("journal = external needs a device in [device.journals]".to_string())
        }
        None => Err(format!("journal = external is ambiguous; write external:NAME with one of: {}", known())),
    }
}

/// Options that the plan's `mount` text and its axes both set, each differently.
fn mount_contradictions(filesystem: &dyn Filesystem, configuration: &Configuration) -> Vec<String> {
    let mut axes = configuration.clone();
    axes.settings.remove("mount");
    let typed = all_mount_options(filesystem, &axes, None);
    let mut found = Vec::new();
    for raw in raw_mount(configuration) {
        for word in typed.iter().filter(|word| *word != raw && option_key(word) == option_key(raw)) {
            found.push(format!("the mount option '{raw}' contradicts '{word}', which follows from an axis"));
        }
    }
    found
}

fn option_key(word: &str) -> &str {
    let key = word.split('=').next().unwrap_or(word);
    match key {
        "strictatime" | "relatime" | "noatime" | "atime" | "norelatime" => "atime",
        key => key.strip_prefix("no").unwrap_or(key),
    }
}

/// The smallest data device that a configuration fits on.
pub(crate) fn minimum_size(configuration: &Configuration) -> Bytes {
    filesystem::find(&configuration.filesystem)
        .map_or(Bytes(0), |filesystem| filesystem.minimum_size(configuration))
}

/// Everything that this host lacks for a configuration; empty: it can run. Settings that contradict each other are the
/// business of [`contradictions`].
pub fn unmet(host: &mut dyn Host, configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let mut missing = missing_sysctls(host, configuration);
    let filesystem = filesystem::find(&configuration.filesystem);
    let sysctls = configuration.settings.keys().any(|axis| axis.starts_with(SYSCTL_PREFIX));
    if (filesystem.is_some() || sysctls) && unprivileged(host) {
        missing.push("root, to make and mount filesystems and to change settings".to_string());
    }
    let Some(filesystem) = filesystem else { return missing };
    let kernel = kernel_facts(host);
    missing.extend(missing_kernel_filesystem(host, filesystem));
    missing.extend(missing_tools(absent_tools(host, filesystem.descriptor().tools)));
    missing.extend(missing_scheduler(host, configuration, &devices.data));
    let used =
        || [Some(&devices.data), journal_spec(configuration, devices).ok().flatten()].into_iter().flatten();
    let mut of_layers: Vec<String> = Vec::new();
    for layer in used().flat_map(layer::all) {
        of_layers.extend(missing_tools(absent_tools(host, layer.tools())));
        of_layers.extend(layer.unmet(host));
    }
    of_layers.sort();
    of_layers.dedup();
    missing.extend(of_layers);
    if used().flat_map(DeviceSpec::disks).any(|disk| matches!(disk, DeviceSpec::Image { .. }))
        && matches!(host.file_identity(Path::new("/dev/loop-control")), Ok(None))
    {
        missing.push(
            "no loop devices in the kernel (CONFIG_BLK_DEV_LOOP), to put a filesystem into an image"
                .to_string(),
        );
    }
    let size = device_size(host, &devices.data);
    if let Some(size) = size
        && size < filesystem.minimum_size(configuration)
    {
        let least = filesystem.minimum_size(configuration);
        missing.push(format!(
            "{} needs at least {least}, and {} is too small",
            filesystem.name(),
            devices.data
        ));
    }
    missing.extend(filesystem.unmet(configuration, &kernel, size));
    missing
}

fn missing_tools(tools: Vec<&'static Tool>) -> Vec<String> {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tool in tools {
        missing.entry(tool.package).or_default().push(tool.program);
    }
    missing
        .into_iter()
        .map(|(package, programs)| {
            format!("{} (install {package}: apt-get install {package})", programs.join(", "))
        })
        .collect()
}

fn missing_kernel_filesystem(host: &mut dyn Host, filesystem: &dyn Filesystem) -> Option<String> {
    let absent = kernel_support(host, filesystem) == KernelSupport::Absent;
    absent.then(|| {
        format!(
            "no filesystem {} in the kernel ({})",
            filesystem.descriptor().kernel_type,
            kernel_elsewhere(filesystem)
        )
    })
}

fn missing_scheduler(
    host: &mut dyn Host,
    configuration: &Configuration,
    device: &DeviceSpec,
) -> Option<String> {
    let asked = configuration.level("scheduler")?;
    // Every disk of a stack gets it; what one offers, all do.
    let path = match *device.disks().first()? {
        DeviceSpec::Block { path, .. } => {
            tunable::queue_directory(&host.probe_device(path).ok()?.identity).join("scheduler")
        }
        // Every loop device offers the same.
        _ => PathBuf::from("/sys/block/loop0/queue/scheduler"),
    };
    let text = host.read_text(&path).ok()?;
    let mut has_module = || scheduler::module(asked).is_some_and(|module| has_module(host, module));
    if tunable::offered(&text).contains(&asked) || has_module() {
        return None;
    }
    Some(format!("no scheduler {asked} in the kernel, which offers: {}", tunable::offered(&text).join(", ")))
}

fn missing_sysctls(host: &mut dyn Host, configuration: &Configuration) -> Vec<String> {
    let mut missing = Vec::new();
    for key in tunable::sysctl_keys(configuration) {
        match host.read_setting(&tunable::sysctl_path(key)) {
            Ok(_) => {}
            Err(HostError::System { errno: ENOENT, .. }) => {
                missing.push(format!("no sysctl {key} in the kernel"));
            }
            Err(error) => missing.push(format!("{error}, so sysctl {key} could not be set back")),
        }
    }
    missing
}

fn unprivileged(host: &mut dyn Host) -> bool {
    let Ok(status) = host.read_text(Path::new("/proc/self/status")) else { return false };
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    user.is_some_and(|user| user != "0")
}

fn device_size(host: &mut dyn Host, spec: &DeviceSpec) -> Option<Bytes> {
    let size = spec.size_by(&mut |disk| match disk {
        DeviceSpec::Image { size, .. } => Ok(*size),
        DeviceSpec::Block { path, .. } => host.probe_device(path).map(|probe| probe.size()).map_err(|_| ()),
        _ => Err(()),
    });
    size.ok()
}

fn kernel_facts(host: &mut dyn Host) -> Kernel {
    let release = host.read_text(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    let sizes = host.read_text(Path::new("/sys/fs/btrfs/features/supported_sectorsizes")).unwrap_or_default();
    Kernel {
        release: parse_release(&release),
        page_size: rustix::param::page_size() as u64,
        btrfs_sector_sizes: sizes.split_whitespace().filter_map(|size| size.parse().ok()).collect(),
    }
}

/// `6.18.44-fc` is (6, 18). A release that is not understood counts as new.
fn parse_release(text: &str) -> (u32, u32) {
    let mut numbers = text.trim().split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (u32::MAX, 0),
    }
}

/// The commands of a trial as a person would type them, for a dry run. Devices stand as the plan names them; where fsdyno
/// makes a system call, the command that does the same is given.
pub fn commands(configuration: &Configuration, devices: &Devices, seed: u64) -> Vec<String> {
    commands_on(configuration, devices, seed, false)
}

/// The same; `blank` tells that block devices are new and hold nothing but zeros.
pub(crate) fn commands_on(
    configuration: &Configuration,
    devices: &Devices,
    seed: u64,
    blank: bool,
) -> Vec<String> {
    let data = &devices.data;
    let sysctls = || tunable::settings(configuration, None).into_iter().map(|setting| write_line(&setting));
    let Some(filesystem) = filesystem::find(&configuration.filesystem) else { return sysctls().collect() };
    let journal = journal_spec(configuration, devices).ok().flatten();
    let mut lines = Vec::new();
    for disk in [Some(data), journal].into_iter().flatten().flat_map(DeviceSpec::disks) {
        if let DeviceSpec::Image { path, size, direct_io } = disk {
            let path = path.to_string_lossy();
            let path = fsdyno_host::quoted(&path);
            lines.push(format!("truncate -s {size} {path}"));
            let direct = if *direct_io { " --direct-io=on" } else { "" };
            lines.push(format!("losetup{direct} -f {path}"));
        }
    }
    let mut target = |index, spec: &DeviceSpec| Target {
        handle: DeviceHandle(index),
        node: planned_node(spec, blank, &mut lines),
        planned: spec.path().to_path_buf(),
    };
    let targets = Targets {
        size: data.size(),
        sector: None,
        data: target(0, data),
        journal: journal.map(|spec| target(1, spec)),
    };
    lines.extend(filesystem.mkfs(configuration, &targets, Some(seed)).iter().map(fsdyno_host::Command::line));
    let queues = planned_queues(data);
    lines.extend(tunable::settings(configuration, Some(&queues)).iter().map(write_line));
    let journal_node = targets.journal.as_ref().map(|target| target.node.as_path());
    let request = MountRequest {
        filesystem: filesystem.descriptor().kernel_type.to_string(),
        source: targets.data.node.clone(),
        device: None,
        options: all_mount_options(filesystem, configuration, journal_node),
        target: mount_directory("RANDOM"),
    };
    lines.push(request.line());
    lines.push(format!("umount {}", request.target.display()));
    lines.extend(filesystem.check(&targets).map(|command| command.line()));
    lines
}

/// Adds the commands that build a stack, the lowest layer first; gives where it can then be found. A disk stands as the plan
/// names it.
fn planned_node(spec: &DeviceSpec, blank: bool, lines: &mut Vec<String>) -> PathBuf {
    let Some(layer) = layer::of(spec) else { return spec.path().to_path_buf() };
    let mut members = Vec::new();
    for below in spec.below() {
        let node = planned_node(below, blank, lines);
        let target = Target { handle: DeviceHandle(0), node, planned: below.path().to_path_buf() };
        members.push(Member { target, size_bytes: below.size().map(|size| size.0) });
    }
    let making = Making { members: &members, id: "RANDOM", blank: blank || spec.is_of_images() };
    lines.extend(layer.commands(&making).iter().map(fsdyno_host::Command::line));
    layer.path("RANDOM")
}

/// The queues of a device that is not there yet.
fn planned_queues(spec: &DeviceSpec) -> Queues {
    let directory = |spec: &DeviceSpec| {
        let name = match spec {
            DeviceSpec::Block { path, .. } => {
                path.file_name().map_or("DEVICE".into(), |name| name.to_string_lossy().into_owned())
            }
            DeviceSpec::Md(_) => "mdN".to_string(),
            DeviceSpec::Lvm(_) | DeviceSpec::Delayed(_) => "dm-N".to_string(),
            DeviceSpec::Image { .. } | DeviceSpec::Directory { .. } => "loopN".to_string(),
        };
        Path::new("/sys/block").join(name).join("queue")
    };
    Queues::new(directory(spec), spec.disks().into_iter().map(directory))
}

fn write_line(setting: &tunable::Setting) -> String {
    format!("echo {} > {}", fsdyno_host::quoted(&setting.value), setting.path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(parse_release("6.18.44-fc-v657\n"), (6, 18));
        assert_eq!(parse_release("6.12-rc1"), (6, 12));
        assert!(parse_release("6.9.1") < (6, 12));
    }
}
