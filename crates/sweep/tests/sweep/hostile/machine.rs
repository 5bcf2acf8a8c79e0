//! A machine with more on it than a plan may touch: disks, files, loop devices and settings of other people.

use crate::lab::{full, measured};
use fsdyno_core::Bytes;
use fsdyno_host::HostError;
use fsdyno_host::guest::{GuestFacts, NotStarted};
use fsdyno_host::setting::queue_attributes;
use fsdyno_testkit::fake::{FakeEngine, FakeGuests, FakeHost};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::{Path, PathBuf};

/// Disks that are confirmed.
pub const DISKS: &[&str] = &["/dev/fake1", "/dev/fake2", "/dev/fake3"];
/// Another name of the first of them.
pub const ALIAS: &str = "/dev/disk/by-id/fake-1";
/// A disk that nobody confirms.
pub const DECOY_DISK: &str = "/dev/decoy";
/// A loop device of somebody else, on [`PRECIOUS`].
pub const DECOY_LOOP: &str = "/dev/loop0";
/// A file of somebody else.
pub const PRECIOUS: &str = "/data/precious";
/// Major number of [`DISKS`].
const MAJOR: u32 = 259;
/// Guests that are at hand, more than there are trials.
const GUESTS: usize = 64;
/// Engines that are at hand.
const ENGINES: usize = 256;

/// The machine before a sweep.
pub fn machine(random: &mut Xoshiro256PlusPlus) -> FakeHost {
    let mut host = FakeHost::new();
    for (index, path) in DISKS.iter().enumerate() {
        host.add_block(path, (MAJOR, index as u32), Bytes(8 * Bytes::GIB));
        host.write_setting(format!("/sys/dev/block/{MAJOR}:{index}/uevent"), "DEVTYPE=disk\n");
    }
    let mut alias = host.blocks[Path::new(DISKS[0])].clone();
    alias.path = ALIAS.into();
    host.blocks.insert(ALIAS.into(), alias);
    host.add_block(DECOY_DISK, (8, 16), Bytes(8 * Bytes::GIB));
    host.add_directory("/data/deep");
    host.add_file(PRECIOUS, Bytes(Bytes::GIB));
    assert_eq!(host.add_loop(PRECIOUS), Path::new(DECOY_LOOP));
    host.write_setting("/data/notes", "precious\n");
    host.write_setting("/proc/sys/kernel/core_pattern", "core\n");
    host.write_setting("/proc/mdstat", "Personalities : [raid0] [raid1] [raid5] [raid6] [raid10]\n");
    host.write_setting("/proc/devices", "Block devices:\n252 device-mapper\n");
    host.write_setting(
        "/proc/filesystems",
        "\text2\n\text3\n\text4\n\txfs\n\tbtrfs\n\tf2fs\n\tnilfs2\n\tjfs\n\treiserfs\n\tvfat\n\tntfs3\n",
    );
    install_tools(&mut host);
    host.engines = (0..ENGINES).map(|_| engine(random)).collect();
    host
}

fn install_tools(host: &mut FakeHost) {
    for program in [
        "mkfs.f2fs",
        "fsck.f2fs",
        "mkfs.nilfs2",
        "nilfs-tune",
        "mkfs.jfs",
        "jfs_tune",
        "fsck.jfs",
        "mkfs.reiserfs",
        "reiserfsck",
        "mkfs.vfat",
        "fsck.vfat",
        "mkfs.ntfs",
        "ntfslabel",
        "ntfsfix",
        "rm",
        "fio",
        "bonnie++",
        "postmark",
    ] {
        host.install(program, &format!("{program} 1.0"));
    }
}

/// An engine that mostly does its work.
fn engine(random: &mut Xoshiro256PlusPlus) -> FakeEngine {
    match random.random_range(0..40) {
        0 => full(),
        1 => FakeEngine { hangs: true, ..FakeEngine::default() },
        2 => FakeEngine { hangs: true, unstoppable: true, ..FakeEngine::default() },
        3 => FakeEngine::default(),
        _ => measured(),
    }
}

/// Guests that come up, or do not.
pub fn guests(random: &mut Xoshiro256PlusPlus) -> FakeGuests {
    let mut guests = FakeGuests::default();
    if random.random_bool(0.5) {
        guests.unmet.push("no QEMU".to_string());
    }
    for _ in 0..GUESTS {
        guests.next.push_back(if random.random_bool(0.2) { Err(not_started()) } else { Ok(guest(random)) });
    }
    guests
}

fn not_started() -> NotStarted {
    let error = HostError::Lost { host: "debian:6.1".into(), reason: "the guest exited".into() };
    NotStarted { error: Box::new(error), last_words: "\u{1b}[2JKernel panic".into() }
}

fn guest(random: &mut Xoshiro256PlusPlus) -> FakeHost {
    let mut guest = FakeHost::new();
    for (index, letter) in ('a'..='z').enumerate() {
        guest.add_block(format!("/dev/vd{letter}"), (254, 16 * index as u32), Bytes(4 * Bytes::GIB));
    }
    guest.facts = GuestFacts {
        description: "QEMU".into(),
        emulated: true,
        release: "6.1.0".into(),
        ..GuestFacts::default()
    };
    guest.engines = (0..4).map(|_| engine(random)).collect();
    guest
}

/// Which paths a sweep of a plan may have touched.
pub struct Allowed {
    /// Images, their directories walked.
    pub images: Vec<PathBuf>,
    /// A directory that is used as it is.
    pub directory: Option<PathBuf>,
    /// Nodes of disks.
    pub disks: Vec<PathBuf>,
    /// Sysctls that the plan sets.
    pub sysctls: Vec<PathBuf>,
}

impl Allowed {
    /// Why a path may not be touched.
    pub fn holds(&self, path: &Path) -> bool {
        let text = path.to_string_lossy();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let beside = |image: &PathBuf| image.parent() == path.parent();
        let hidden = name.strip_prefix(".fsdyno-").is_some_and(is_random);
        let image = self.images.iter().any(|image| image == path || is_substitute(image, path));
        let below_run = text.strip_prefix("/run/fsdyno-").is_some_and(is_random);
        let own = name.strip_prefix("fsdyno-").is_some_and(is_random)
            && self.directory.as_deref().is_some_and(|directory| path.parent() == Some(directory));
        image
            || (hidden && self.images.iter().any(beside))
            || below_run
            || own
            || self.disks.iter().any(|disk| disk == path)
            || self.sysctls.iter().any(|sysctl| sysctl == path)
            || self.is_queue(&text)
            || is_node_of_ours(&text)
    }

    /// The settings of a planned disk, a loop device other than the decoy's, or a layer.
    fn is_queue(&self, path: &str) -> bool {
        let Some((number, file)) =
            path.strip_prefix("/sys/dev/block/").and_then(|rest| rest.split_once("/queue/"))
        else {
            return false;
        };
        let known = queue_attributes().any(|known| known == file);
        let disk = |disk: &PathBuf| {
            let index = DISKS.iter().position(|known| Path::new(known) == disk);
            index.is_some_and(|index| number == format!("{MAJOR}:{index}"))
        };
        let of_kernel = |major: &str| number.strip_prefix(major).is_some_and(|minor| !minor.is_empty());
        let ours = (of_kernel("7:") && number != "7:0") || of_kernel("9:") || of_kernel("252:");
        known && (ours || self.disks.iter().any(disk))
    }
}

/// The image that stands in for one whose trial could not be taken down: its name with a number.
fn is_substitute(image: &Path, path: &Path) -> bool {
    let (image, path) = (image.to_string_lossy(), path.to_string_lossy());
    let number = path.strip_prefix(&*image).and_then(|rest| rest.strip_prefix('.'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn is_random(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Loop devices but the decoy's, arrays and mappings: the fake host itself lets nobody open one that is not
/// ours.
fn is_node_of_ours(path: &str) -> bool {
    let numbered = ["/dev/loop", "/dev/md", "/dev/dm-"].iter().find_map(|kind| path.strip_prefix(kind));
    path != DECOY_LOOP && numbered.is_some_and(|number| number.parse::<u32>().is_ok())
}
