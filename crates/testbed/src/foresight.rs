//! The facts that are known about a configuration before anything is changed: whether it is consistent,
//! whether this machine can run it, and which commands it needs.

use crate::capability::{KernelSupport, absent_tools, kernel_elsewhere, kernel_support};
use crate::carriers;
use crate::conditioning;
use crate::filesystem::{self, Filesystem, Kernel, Target, Targets, all_mount_options, grammar, raw_mount};
use crate::kernel_module::has_module;
use crate::layer::{self, Making, Member};
use crate::memory;
use crate::modelled;
use crate::name::mount_directory;
use crate::setting::{self, NR_REQUESTS_MIN};
use crate::spec::journal_spec;
use crate::tunable::{self, Queues};
use crate::words;
use fsdyno_core::axis::{OF_THE_LOAD, QUEUE, QueueContent, SYSCTL_PREFIX};
use fsdyno_core::device::{Block, Image, Preallocation};
use fsdyno_core::filesystem::Identifier;
use fsdyno_core::tool::{Tool, how_to_install};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, scheduler};
use fsdyno_host::{DeviceHandle, Host, HostError, MountRequest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ENOENT: i32 = 2;

/// Settings that contradict each other, the filesystem or the devices, without looking at the machine: one
/// line each.
pub fn contradictions(configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let mut found: Vec<String> = tunable::contradictions(configuration).collect();
    if let DeviceSpec::Directory { .. } = devices.data {
        let applies = |axis: &str| axis.starts_with(SYSCTL_PREFIX) || OF_THE_LOAD.contains(&axis);
        let asked = configuration.settings.keys().filter(|axis| configuration.level(axis).is_some());
        let formatting = asked.filter(|axis| !applies(axis));
        found.extend(
            formatting.map(|axis| format!("{axis} needs a device, but a directory is used as it is")),
        );
        found.extend(memory::contradiction(configuration));
        return found;
    }
    let Some(filesystem) = filesystem::find(&configuration.filesystem) else {
        found.push(format!("'{}' is not a filesystem that fsdyno can create", configuration.filesystem));
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
    found.extend(words::contradictions(grammar(filesystem), configuration));
    if configuration.level("age").is_some_and(|rounds| rounds != "0") && configuration.level("fill").is_none()
    {
        found.push("age needs fill: ageing replaces the files that fill creates".to_string());
    }
    if let Some(count) = configuration.level("nr_requests").and_then(|level| level.parse::<u32>().ok())
        && count < NR_REQUESTS_MIN
    {
        found.push(format!("nr_requests = {count} is too small; the minimum is {NR_REQUESTS_MIN}"));
    }
    found.extend(memory::contradiction(configuration));
    for attribute in QUEUE.iter().filter(|attribute| attribute.content == QueueContent::Kibibytes) {
        let axis = attribute.axis;
        if let Some(bytes) = filesystem::size_of(configuration, axis)
            && bytes % Bytes::KIB != 0
        {
            found.push(format!("{axis} = {} is invalid: it must be a multiple of 1 KiB", Bytes(bytes)));
        }
    }
    found
}

fn device_contradictions(configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(kernel) = configuration.guest_kernel()
        && !devices.all().all(DeviceSpec::is_of_images)
    {
        found.push(format!("kernel = {kernel} runs in a virtual machine, whose disks must be images"));
    }
    let unusual = |disk: &&DeviceSpec| match disk {
        DeviceSpec::Image(image) => image.is_kept() || image.sector != Image::SECTORS[0],
        _ => false,
    };
    if let Some(kernel) = configuration.guest_kernel()
        && let Some(disk) = devices.all().flat_map(DeviceSpec::disks).find(unusual)
    {
        found.push(format!(
            "kernel = {kernel} runs in a virtual machine, whose disks are new in each trial and have sectors \
             of {}: '{disk}' is for the machine's own kernel only",
            Image::SECTORS[0]
        ));
    }
    found.extend(members_contradiction(configuration, &devices.data));
    found.extend(conditioning::discarding_words(configuration, devices));
    if let Err(why) = journal_spec(configuration, devices) {
        found.push(why);
    }
    for (name, journal) in &devices.journals {
        let shared =
            |disk: &&DeviceSpec| devices.data.disks().iter().any(|other| other.path() == disk.path());
        if journal.disks().iter().any(shared) {
            found.push(format!("journal device '{name}' is also the data device"));
        }
        if matches!(journal, DeviceSpec::Directory { .. }) {
            found.push(format!(
                "journal device '{name}' is a directory; it must be an image or a block device"
            ));
        }
    }
    found
}

/// A filesystem that is always on one device, in a pool; one that needs more devices than there are.
fn members_contradiction(configuration: &Configuration, data: &DeviceSpec) -> Option<String> {
    let filesystem = filesystem::find(&configuration.filesystem)?;
    let members = data.members().len();
    let name = filesystem.name();
    match filesystem.least_members(configuration) {
        None if members > 1 => Some(format!(
            "{name} is created on one device, not on a pool; [device.md] and [device.lvm] build one from \
             several disks"
        )),
        Some(least) if members < least => Some(format!(
            "{name} needs at least {least} disks with these profiles, and [device.pool] names them; here it \
             has {members}"
        )),
        _ => None,
    }
}

/// Options that both the plan's `mount` text and its axes set, with different values.
fn mount_contradictions(filesystem: &dyn Filesystem, configuration: &Configuration) -> Vec<String> {
    let mut axes = configuration.clone();
    axes.settings.remove("mount");
    let typed = all_mount_options(filesystem, &axes, None);
    let mut found = Vec::new();
    for raw in raw_mount(configuration) {
        for word in typed.iter().filter(|word| *word != raw && option_key(word) == option_key(raw)) {
            found.push(format!("the mount option '{raw}' contradicts '{word}', which an axis sets"));
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

/// Returns whether building a configuration takes root: it creates and mounts a filesystem, or changes
/// settings.
pub fn needs_root(configuration: &Configuration) -> bool {
    let sysctls = configuration.settings.keys().any(|axis| axis.starts_with(SYSCTL_PREFIX));
    sysctls || filesystem::find(&configuration.filesystem).is_some()
}

/// Everything that this host lacks for a configuration, apart from root ([`needs_root`]); empty if it can
/// run. For contradictory settings see [`contradictions`].
pub fn unmet(host: &mut dyn Host, configuration: &Configuration, devices: &Devices) -> Vec<String> {
    let mut missing = missing_sysctls(host, configuration);
    let Some(filesystem) = filesystem::find(&configuration.filesystem) else { return missing };
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
    missing.extend(conditioning::unmet(host, configuration, devices));
    if used().flat_map(DeviceSpec::disks).any(|disk| matches!(disk, DeviceSpec::Image(_))) {
        missing.extend(missing_loops(host));
    }
    let size = device_size(host, &devices.data);
    if let Some(size) = size
        && size < filesystem.minimum_size(configuration)
    {
        let least = filesystem.minimum_size(configuration);
        missing.push(format!(
            "{} needs at least {least}, but {} is too small",
            filesystem.name(),
            devices.data
        ));
    }
    missing.extend(filesystem.unmet(configuration, &kernel, size));
    missing
}

/// Why a configuration is not built on the disks that a plan names; those of a guest are images. What nothing
/// recognises on a disk cannot be cleared from it.
pub fn unmet_on_disks(configuration: &Configuration, devices: &Devices) -> Option<String> {
    let filesystem = filesystem::find(&configuration.filesystem)?;
    let is_hidden = filesystem.descriptor().identifier == Identifier::HiddenUuid;
    let mut disks = devices.data.disks().into_iter();
    let disk = disks.find(|disk| is_hidden && !matches!(disk, DeviceSpec::Image(_)))?;
    let name = filesystem.name();
    Some(format!(
        "{name} is created on images only: wipefs does not recognise it, and could not clear it from {disk}"
    ))
}

/// Why images cannot be attached: no loop devices, or a place that hides them, as a container or a changed
/// root may. Does not open the devices, which only root may do.
fn missing_loops(host: &mut dyn Host) -> Option<String> {
    match (host.list_directory(Path::new("/sys/block")), host.file_identity(Path::new("/dev/loop-control"))) {
        (Err(error), _) => {
            Some(format!("loop devices, which images need, are not visible here (is /sys mounted?): {error}"))
        }
        (Ok(blocks), Ok(None)) if blocks.iter().any(|name| name == "loop0") => Some(
            "'/dev/loop-control' does not exist here, which images need: mount a /dev that has it"
                .to_string(),
        ),
        (Ok(_), Ok(None)) => {
            Some("the kernel has no loop devices (CONFIG_BLK_DEV_LOOP), which images need".to_string())
        }
        _ => None,
    }
}

fn missing_tools(tools: Vec<&'static Tool>) -> Vec<String> {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tool in tools {
        missing.entry(tool.package).or_default().push(tool.program);
    }
    missing
        .into_iter()
        .map(|(package, programs)| {
            format!("{} not installed ({})", programs.join(", "), how_to_install(package))
        })
        .collect()
}

fn missing_kernel_filesystem(host: &mut dyn Host, filesystem: &dyn Filesystem) -> Option<String> {
    let absent = kernel_support(host, filesystem) == KernelSupport::Absent;
    absent.then(|| {
        format!(
            "the kernel does not support {} ({})",
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
    // Every disk of a stack gets the scheduler; all of them offer the same ones.
    let path = match *device.disks().first()? {
        DeviceSpec::Block(Block { path, .. }) => {
            tunable::queue_directory(&host.probe_device(path).ok()?.identity).join("scheduler")
        }
        // Every loop device offers the same.
        _ => PathBuf::from("/sys/block/loop0/queue/scheduler"),
    };
    let text = host.read_text(&path).ok()?;
    let mut has_module = || scheduler::module(asked).is_some_and(|module| has_module(host, module));
    if setting::offered(&text).contains(&asked) || has_module() {
        return None;
    }
    Some(format!("the kernel has no scheduler {asked}; available: {}", setting::offered(&text).join(", ")))
}

fn missing_sysctls(host: &mut dyn Host, configuration: &Configuration) -> Vec<String> {
    let mut missing = Vec::new();
    for key in tunable::sysctl_keys(configuration) {
        match host.read_setting(&tunable::sysctl_path(key)) {
            Ok(_) => {}
            Err(HostError::System { errno: ENOENT, .. }) => {
                missing.push(format!("the kernel has no sysctl {key}{}", similar(host, key)));
            }
            Err(error) => missing.push(format!("{error}, so sysctl {key} could not be restored afterwards")),
        }
    }
    missing
}

/// A sysctl that may have been meant instead of one that does not exist, or where to look for it.
fn similar(host: &mut dyn Host, key: &str) -> String {
    let near = key.rsplit_once('.').and_then(|(group, name)| {
        let others = host.list_directory(&tunable::sysctl_path(group)).ok()?;
        Some(format!("{group}.{}", fsdyno_core::nearest(name, others.iter().map(String::as_str))?))
    });
    match near {
        Some(near) => format!("; did you mean {near}?"),
        None => "; sysctl -a lists those that it has, and a kernel module may add others".to_string(),
    }
}

fn device_size(host: &mut dyn Host, spec: &DeviceSpec) -> Option<Bytes> {
    let size = spec.size_by(&mut |disk| match disk {
        DeviceSpec::Image(Image { size, .. }) => Ok(*size),
        DeviceSpec::Block(Block { path, .. }) => {
            host.probe_device(path).map(|probe| probe.size()).map_err(|_| ())
        }
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

/// `6.18.44-fc` is (6, 18). A release that cannot be parsed counts as new.
fn parse_release(text: &str) -> (u32, u32) {
    let mut numbers = text.trim().split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (u32::MAX, 0),
    }
}

/// The commands of a trial as a person would type them, for a dry run. Devices appear as the plan names them;
/// a system call of fsdyno appears as the equivalent command.
pub fn commands(
    configuration: &Configuration,
    devices: &Devices,
    seed: u64,
    queues: &DiskQueues,
) -> Vec<String> {
    commands_on(configuration, devices, seed, queues, None)
}

/// The `queue` directories of named disks, by their paths in the plan.
pub type DiskQueues = BTreeMap<PathBuf, PathBuf>;

/// Where the queues of all named disks are: a partition has none of its own, and a path below `/dev/disk`
/// does not have the kernel's name in it. A disk that cannot be examined is left out.
pub fn disk_queues(host: &mut dyn Host, devices: &Devices) -> DiskQueues {
    let disks = devices.all().flat_map(DeviceSpec::disks);
    let named = disks.filter(|disk| matches!(disk, DeviceSpec::Block(_))).map(DeviceSpec::path);
    named
        .filter_map(|path| {
            let identity = host.probe_device(path).ok()?.identity;
            let directory = match carriers::name_of(host, identity.disk()) {
                // As sysfs has it: a slash in a node's name is an exclamation mark there.
                Some(name) => Path::new("/sys/block").join(name.replace('/', "!")).join("queue"),
                None => tunable::queue_directory(&identity),
            };
            Some((path.to_path_buf(), directory))
        })
        .collect()
}

/// The same. In a guest, block devices are new and contain only zeros, and these commands are run while the
/// filesystem is mounted.
pub(crate) fn commands_on(
    configuration: &Configuration,
    devices: &Devices,
    seed: u64,
    queues: &DiskQueues,
    in_guest: Option<&[String]>,
) -> Vec<String> {
    let data = &devices.data;
    let sysctls = || tunable::settings(configuration, None).into_iter().map(|setting| write_line(&setting));
    let memory =
        configuration.memory().map(|limit| format!("# run the load in a memory cgroup limited to {limit}"));
    let Some(filesystem) = filesystem::find(&configuration.filesystem) else {
        return sysctls().chain(memory).collect();
    };
    let journal = journal_spec(configuration, devices).ok().flatten();
    let mut lines = Vec::new();
    for disk in [Some(data), journal].into_iter().flatten().flat_map(DeviceSpec::disks) {
        match disk {
            DeviceSpec::Image(image) => lines.extend(of_image(image)),
            DeviceSpec::Block(block) => lines.extend(conditioning::lines(block)),
            _ => {}
        }
    }
    let keeps_blocks = [Some(data), journal].into_iter().flatten().any(DeviceSpec::is_filled_before);
    let mut target = |(index, spec): (u64, &DeviceSpec)| Target {
        handle: DeviceHandle(index),
        node: planned_node(spec, in_guest.is_some(), &mut lines),
        planned: spec.path().to_path_buf(),
    };
    let mut numbered = (0..).zip(data.members());
    let Some(first) = numbered.next().map(&mut target) else { return Vec::new() };
    let others: Vec<Target> = numbered.map(&mut target).collect();
    let journal = journal.map(|spec| target((u64::MAX, spec)));
    let targets = Targets { size: data.size(), sector: None, data: first, others, journal, keeps_blocks };
    lines.extend(filesystem.mkfs(configuration, &targets, Some(seed)).iter().map(fsdyno_host::Command::line));
    let queues = planned_queues(data, queues);
    lines.extend(tunable::settings(configuration, Some(&queues)).iter().map(write_line));
    let journal_node = targets.journal.as_ref().map(|target| target.node.as_path());
    let members = targets.others.iter().filter_map(|target| filesystem.member_option(&target.node));
    let options = all_mount_options(filesystem, configuration, journal_node);
    let request = MountRequest {
        filesystem: filesystem.descriptor().kernel_type.to_string(),
        source: targets.data.node.clone(),
        device: None,
        options: options.into_iter().chain(members).collect(),
        target: mount_directory("RANDOM"),
    };
    lines.push(request.line());
    lines.extend_from_slice(in_guest.unwrap_or_default());
    lines.extend(memory);
    lines.push(format!("umount {}", request.target.display()));
    lines.extend(filesystem.check(&targets).map(|command| command.line()));
    lines
}

/// Making and attaching an image.
fn of_image(image: &Image) -> Vec<String> {
    let path = image.path.to_string_lossy();
    let (path, size) = (fsdyno_host::quoted(&path), image.size);
    let made = match image.preallocate {
        Preallocation::None => format!("truncate -s {size} {path}"),
        Preallocation::Write => format!("head -c {} /dev/urandom > {path}  # once per sweep", size.0),
    };
    let direct = if image.direct_io { " --direct-io=on" } else { "" };
    let sector = match image.sector == Image::SECTORS[0] {
        true => String::new(),
        false => format!(" --sector-size {}", image.sector.0),
    };
    let attached = format!("losetup{direct}{sector} -f {path}");
    let kept = image.is_kept().then(|| "echo 0 > /sys/block/loopN/queue/discard_max_bytes".to_string());
    let modelled = image.model.iter().flat_map(modelled::commands);
    [made, attached].into_iter().chain(kept).chain(modelled).collect()
}

/// Adds the commands that build a stack, lowest layer first, and returns its path. A disk appears as the plan
/// names it.
fn planned_node(spec: &DeviceSpec, blank: bool, lines: &mut Vec<String>) -> PathBuf {
    let Some(layer) = layer::of(spec) else { return spec.path().to_path_buf() };
    let mut members = Vec::new();
    for below in spec.below() {
        let node = planned_node(below, blank, lines);
        let target = Target { handle: DeviceHandle(0), node, planned: below.path().to_path_buf() };
        members.push(Member { target, size_bytes: below.size().map(|size| size.0) });
    }
    let making = Making { members: &members, id: "RANDOM", blank: blank || spec.is_of_new_images() };
    lines.extend(layer.commands(&making).iter().map(fsdyno_host::Command::line));
    layer.path("RANDOM")
}

/// The queues of a device that does not exist yet.
fn planned_queues(spec: &DeviceSpec, known: &DiskQueues) -> Queues {
    let directory = |spec: &DeviceSpec| {
        let name = match spec {
            DeviceSpec::Block(Block { path, .. }) => {
                if let Some(directory) = known.get(path) {
                    return directory.clone();
                }
                path.file_name().map_or("DEVICE".into(), |name| name.to_string_lossy().into_owned())
            }
            DeviceSpec::Md(_) => "mdN".to_string(),
            DeviceSpec::Lvm(_) | DeviceSpec::Delayed(_) => "dm-N".to_string(),
            DeviceSpec::Image(_) | DeviceSpec::Directory { .. } | DeviceSpec::Pool(_) => "loopN".to_string(),
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
    use fsdyno_host::probe::Partition;
    use fsdyno_testkit::fake::FakeHost;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(parse_release("6.18.44-fc-v657\n"), (6, 18));
        assert_eq!(parse_release("6.12-rc1"), (6, 12));
        assert!(parse_release("6.9.1") < (6, 12));
    }

    /// `/sys/block/sdb1/queue` does not exist.
    #[test]
    fn the_scheduler_of_a_partition_is_that_of_its_disk() {
        let mut host = FakeHost::new();
        host.add_block("/dev/sdb1", (8, 17), Bytes(Bytes::GIB));
        host.write_setting("/sys/dev/block/8:16/uevent", "DEVNAME=sdb\nDEVTYPE=disk\n");
        let partition = host.blocks.get_mut(Path::new("/dev/sdb1")).expect("just added");
        partition.identity.partition = Some(Partition { disk: (8, 16), start_bytes: Bytes::MIB });
        let devices = Devices { data: DeviceSpec::block("/dev/sdb1"), journals: BTreeMap::new() };
        let settings = [("scheduler".to_string(), "bfq".to_string())].into();
        let configuration = Configuration { name: String::new(), filesystem: "ext4".into(), settings };
        let queues = disk_queues(&mut host, &devices);
        let lines = commands(&configuration, &devices, 42, &queues);
        assert!(lines.contains(&"echo bfq > /sys/block/sdb/queue/scheduler".to_string()), "{lines:#?}");
    }

    #[test]
    fn what_no_library_recognises_is_built_on_images_only() {
        let devices = |data| Devices { data, journals: BTreeMap::new() };
        let disk = devices(DeviceSpec::block("/dev/sdx"));
        let image = devices(DeviceSpec::image("/var/tmp/x.img", Bytes(Bytes::GIB)));
        let reason = |filesystem: &str, devices: &Devices| {
            let (name, settings) = (String::new(), BTreeMap::new());
            let configuration = Configuration { name, filesystem: filesystem.to_string(), settings };
            unmet_on_disks(&configuration, devices)
        };
        assert!(reason("bcachefs", &disk).is_some_and(|reason| reason.contains("/dev/sdx")));
        assert_eq!(reason("bcachefs", &image), None);
        assert_eq!(reason("ext4", &disk), None);
    }
}
