//! The settings in force where a load runs, and their effect on what survives a power cut.
//!
//! A plan says what was asked for. A directory may be on any filesystem, mounted by anybody, and also where
//! fsdyno mounts, defaults of tools and kernels decide along with the plan. So the mount itself is judged, by
//! the same words ([`crate::words`]).

use crate::environment::mount_of;
use crate::filesystem::{self, distinct};
use crate::words::risks_of_mount;
use fsdyno_core::axis::WRITE_CACHE;
use fsdyno_core::hazard::NO_JOURNAL;
use fsdyno_core::weakening;
use fsdyno_core::{Warning, WarningKind};
use fsdyno_host::Host;
use fsdyno_host::probe::MountInfo;
use std::path::{Path, PathBuf};

/// Filesystems that are in memory and nowhere else.
const IN_MEMORY: [&str; 3] = ["devtmpfs", "ramfs", "tmpfs"];
/// Block devices that are in memory.
const MEMORY_DISKS: [&str; 2] = ["ram", "zram"];
/// Images in images, of which no more are looked at.
const DEPTH_MAX: u32 = 4;

/// Returns whether the files of a mount are in memory.
pub(crate) fn is_in_memory(mount: &MountInfo) -> bool {
    IN_MEMORY.contains(&mount.filesystem.as_str())
}

/// Returns whether a block device of this name is in memory.
pub(crate) fn is_memory_disk(name: &str) -> bool {
    MEMORY_DISKS.iter().any(|kind| name.starts_with(kind))
}

/// Returns warnings about a filesystem as it is mounted.
pub(crate) fn risks_of_filesystem(host: &mut dyn Host, mount: &MountInfo) -> Vec<Warning> {
    let kind = mount.filesystem.as_str();
    let options = mount.options.split(',');
    let weakens = |text: String| vec![Warning::new(WarningKind::Durability, text)];
    let Some(known) = filesystem::all().find(|known| known.descriptor().kernel_type == kind) else {
        return if is_in_memory(mount) {
            weakens(format!("{kind} is in memory: a power cut loses everything"))
        } else if kind == "overlay" && options.into_iter().any(|option| option == "volatile") {
            // Documentation/filesystems/overlayfs.rst, "Volatile mount".
            weakens("volatile: overlay passes on no sync, and a power cut may lose everything".to_string())
        } else {
            vec![weakening::unknown(&format!("fsdyno does not know what {kind} does"))]
        };
    };
    let mut found: Vec<Warning> = known.own_hazard().warning(known.name(), kind, "").into_iter().collect();
    found.extend(risks_of_mount(known.name(), known.mount_words(), options));
    if let Some(name) = ext_name(host, mount) {
        // Defaults of the superblock are in force, and the mount does not show them (`_ext4_show_options` in
        // fs/ext4/super.c). Most of what is here has no word of mount, so only what weakens counts.
        let shown =
            host.read_text(&Path::new("/proc/fs/ext4").join(&name).join("options")).unwrap_or_default();
        let all = risks_of_mount(known.name(), known.mount_words(), shown.lines());
        found.extend(all.into_iter().filter(|risk| risk.kind == WarningKind::Durability));
        // `journal_task_show` in fs/ext4/sysfs.c.
        let task = host.read_text(&Path::new("/sys/fs/ext4").join(&name).join("journal_task"));
        if task.is_ok_and(|task| task.trim() == "<none>") {
            found.extend(NO_JOURNAL.warning(known.name(), kind, ""));
        }
    }
    distinct(found)
}

/// The name that the driver of ext2, ext3 and ext4 has for a mount.
fn ext_name(host: &mut dyn Host, mount: &MountInfo) -> Option<String> {
    if !mount.filesystem.starts_with("ext") {
        return None;
    }
    let uevent = host.read_text(&block_directory(mount).join("uevent")).ok()?;
    uevent.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| name.replace('/', "!"))
}

/// Returns warnings about the mount of a directory, and about everything below it that the kernel shows.
pub(crate) fn risks_of_directory(
    host: &mut dyn Host,
    mounts: &[MountInfo],
    mount: &MountInfo,
) -> Vec<Warning> {
    let mut found = risks_of_filesystem(host, mount);
    let mut below = image_below(host, mount);
    found.extend(unflushed(host, mount, below.is_some()));
    for _ in 0..DEPTH_MAX {
        let Some(outer) = below.and_then(|image| mount_of(mounts, &image)) else { break };
        let of_outer = risks_of_filesystem(host, outer).into_iter();
        found.extend(
            of_outer.map(|warning| Warning { text: format!("below it, {}", warning.text), ..warning }),
        );
        below = image_below(host, outer);
        found.extend(unflushed(host, outer, below.is_some()));
    }
    if is_memory_disk(&mount.source.replace("/dev/", "")) {
        let text = format!("{} is in memory: a power cut loses everything", mount.source);
        found.push(Warning::new(WarningKind::Durability, text));
    }
    distinct(found)
}

/// The device of a mount in sysfs; that of btrfs is known only by its name.
fn block_directory(mount: &MountInfo) -> PathBuf {
    match (mount.device, mount.source.strip_prefix("/dev/")) {
        ((0, _), Some(name)) => Path::new("/sys/class/block").join(name.replace('/', "!")),
        ((major, minor), _) => PathBuf::from(format!("/sys/dev/block/{major}:{minor}")),
    }
}

/// The image behind the loop device of a mount.
fn image_below(host: &mut dyn Host, mount: &MountInfo) -> Option<PathBuf> {
    let disk = disk_directory(host, mount);
    let text = host.read_text(&disk.join("loop/backing_file")).ok()?;
    Some(PathBuf::from(text.trim_end_matches('\n')))
}

/// A disk that the kernel does not flush although its cache is volatile: that of a loop device is the page
/// cache, and the others say so themselves (`cache_type` of sd and of virtio_blk).
fn unflushed(host: &mut dyn Host, mount: &MountInfo, is_loop: bool) -> Option<Warning> {
    let disk = disk_directory(host, mount);
    let types = host.list_directory(&disk.join("device/scsi_disk")).unwrap_or_default();
    let types = types.iter().map(|name| disk.join("device/scsi_disk").join(name).join("cache_type"));
    let types: Vec<PathBuf> = types.chain([disk.join("cache_type")]).collect();
    let mut says = |file: &Path, word: &str| host.read_text(file).is_ok_and(|text| text.trim() == word);
    let never = says(&disk.join("queue/write_cache"), "write through");
    let is_volatile = is_loop || types.iter().any(|file| says(file, "write back"));
    (never && is_volatile).then(|| weakening::of_level("", WRITE_CACHE, "write-through")).flatten()
}

/// The disk of a mount in sysfs, also of one that is on a partition.
fn disk_directory(host: &mut dyn Host, mount: &MountInfo) -> PathBuf {
    let device = block_directory(mount);
    match host.read_text(&device.join("partition")) {
        // The link is followed before `..` is.
        Ok(_) => device.join(".."),
        Err(_) => device,
    }
}
