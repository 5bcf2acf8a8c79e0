//! The creation, mounting, verification and checking of each filesystem: one type per family, and nothing of
//! that anywhere else.
//!
//! The facts that do not depend on a machine are in a filesystem's descriptor ([`fsdyno_core::filesystem`]),
//! where both are registered.

use crate::words::{self, Grammar, Words};
pub(crate) use crate::words::{raw_mkfs, raw_mount};
use fsdyno_core::axis::DEFAULT;
use fsdyno_core::filesystem::{Descriptor, Identifier};
use fsdyno_core::hazard::Hazard;
use fsdyno_core::weakening;
use fsdyno_core::{Bytes, Configuration, Warning, WarningKind};
use fsdyno_host::{Command, DeviceHandle, Output};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

macro_rules! register {
    ($($family:ident)*) => {
        $(mod $family;)*
        static FAMILIES: &[&[&dyn Filesystem]] = &[$($family::FAMILY),*];
    };
}
fsdyno_core::for_each_filesystem!(register);

/// Every filesystem that can be built.
pub fn all() -> impl Iterator<Item = &'static dyn Filesystem> {
    FAMILIES.iter().copied().flatten().copied()
}

/// The filesystem of this name.
pub fn find(name: &str) -> Option<&'static dyn Filesystem> {
    all().find(|filesystem| filesystem.name() == name)
}

/// Facts about a kernel that determine which settings it supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Major and minor number of the release.
    pub release: (u32, u32),
    /// Bytes in a page of memory.
    pub page_size: u64,
    /// Sector sizes that its btrfs mounts (`/sys/fs/btrfs/features/supported_sectorsizes`); empty if it does
    /// not say.
    pub btrfs_sector_sizes: Vec<u64>,
}

/// An open device and its node for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The open device.
    pub handle: DeviceHandle,
    /// Its node.
    pub node: PathBuf,
    /// The image or device as the plan names it.
    pub planned: PathBuf,
}

/// The devices of one trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// Size of the data device; absent in a dry run on a block device.
    pub size: Option<Bytes>,
    /// The largest logical block of its devices; absent in a dry run.
    pub sector: Option<Bytes>,
    /// Where the filesystem is; of those over which it spreads, the first.
    pub data: Target,
    /// The others over which it spreads.
    pub others: Vec<Target>,
    /// Where its external journal is.
    pub journal: Option<Target>,
    /// `true` if mkfs must leave the contents of unused blocks as they are instead of discarding them.
    pub keeps_blocks: bool,
}

/// The options that a mount shows if a level is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// This option, optionally with a level after a colon (`compress=zlib:3`).
    Word(String),
    /// None of these, because the level is the default, which the kernel does not show; `commit=` stands for
    /// any value.
    NoneOf(Vec<String>),
}

/// A requested level, and how `/proc/self/mountinfo` shows that it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The axis.
    pub axis: &'static str,
    /// Its level.
    pub level: String,
    /// The options that the mount shows.
    pub shown: Shown,
}

impl Expectation {
    /// Returns whether the options of a mount, joined by commas, show that the level is in force.
    pub fn met(&self, options: &str) -> bool {
        let shows = |word: &String| {
            let shown = options.split(',').filter_map(|shown| shown.strip_prefix(word.as_str()));
            shown.into_iter().any(|rest| rest.is_empty() || rest.starts_with(':') || word.ends_with('='))
        };
        match &self.shown {
            Shown::Word(word) => shows(word),
            Shown::NoneOf(others) => !others.iter().any(shows),
        }
    }
}

/// The space of a filesystem that files can use, as in statfs(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Its blocks: of these, a fill takes a percentage.
    pub whole: Bytes,
    /// Of these, what it keeps from files.
    pub kept_back: Bytes,
}

/// A filesystem: how it is created, mounted, verified and checked.
///
/// All methods are functions of the configuration; none touches a machine.
pub trait Filesystem: std::fmt::Debug + Sync {
    /// Its name in plans.
    fn name(&self) -> &'static str;
    /// Its descriptor, which does not depend on a machine.
    fn descriptor(&self) -> &'static Descriptor {
        fsdyno_core::filesystem::find(self.name())
            .expect("both halves of a filesystem are registered at once")
    }
    /// The smallest device that its mkfs accepts.
    fn minimum_size(&self, configuration: &Configuration) -> Bytes;
    /// Returns the space that its files can use at most on a device of this size.
    fn capacity(&self, _configuration: &Configuration, size: Bytes) -> Capacity {
        Capacity { whole: size, kept_back: Bytes(0) }
    }
    /// The fewest devices that a configuration needs; `None` if it is always on one.
    fn least_members(&self, _configuration: &Configuration) -> Option<usize> {
        None
    }
    /// Settings that contradict each other or this filesystem, one line each.
    fn contradictions(&self, configuration: &Configuration) -> Vec<String>;
    /// Settings that this kernel, its tools, or a device of this size do not support, one line each, with the
    /// nearest alternative.
    fn unmet(&self, _configuration: &Configuration, _kernel: &Kernel, _size: Option<Bytes>) -> Vec<String> {
        Vec::new()
    }
    /// The commands that create it, in order. With a seed they are those of a trial: UUID and hash seed
    /// follow from it, and no tool asks whether the device may be overwritten. Without a seed, those of a
    /// person.
    fn mkfs(&self, configuration: &Configuration, targets: &Targets, seed: Option<u64>) -> Vec<Command>;
    /// Its identifier on the data device, as libblkid reports it: the UUID that a trial's mkfs sets, or the
    /// serial number of a filesystem that has no UUID.
    fn identifier(&self, seed: u64, data: &Path) -> String {
        let uuid = uuid(seed, Purpose::Filesystem { filesystem: self.name(), on: data });
        match self.descriptor().identifier {
            Identifier::Uuid | Identifier::HiddenUuid => uuid,
            serial => uuid.replace('-', "")[..serial.digits()].to_string(),
        }
    }
    /// The command that shows its identifier, if libblkid does not know it.
    fn shows_identifier(&self, _targets: &Targets) -> Option<Command> {
        None
    }
    /// The same for its journal on a device of its own, if it has one.
    fn journal_identifier(&self, _seed: u64, _data: &Path, _journal: &Path) -> Option<String> {
        None
    }
    /// Its own mount options, as in mount(8); the journal is a device node. Empty unless its axes need some.
    fn mount_options(&self, _configuration: &Configuration, _journal: Option<&Path>) -> Vec<String> {
        Vec::new()
    }
    /// The mount option that names another device over which it spreads.
    fn member_option(&self, _node: &Path) -> Option<String> {
        None
    }
    /// The values of its mkfs options, by the tool's man page and source. A plan's mkfs text is checked
    /// against this, and an option that is not listed is rejected.
    fn mkfs_words(&self) -> Words;
    /// The values of its mount options. An option with a value that is not listed is rejected.
    fn mount_words(&self) -> Words;
    /// The mount options with which two copies of it can be mounted at the same time; `None` if they cannot.
    fn beside_a_copy(&self) -> Option<&'static [&'static str]> {
        None
    }
    /// Returns the expectations that show whether its own mount options are in force.
    fn expectations(&self, _configuration: &Configuration) -> Vec<Expectation> {
        Vec::new()
    }
    /// Returns the effect of the filesystem itself on what survives a power cut, whatever its settings.
    fn own_hazard(&self) -> Hazard {
        Hazard::Harmless
    }
    /// When it is checked at boot: the sixth field of fstab(5), 0 for never.
    fn check_order(&self) -> u32 {
        0
    }
    /// Notes that every result on it needs.
    fn caveats(&self) -> Vec<Warning> {
        Vec::new()
    }
    /// The command that makes the kernel forget its devices once it is unmounted, if it remembers any.
    fn forget(&self, _targets: &Targets) -> Option<Command> {
        None
    }
    /// The command that replays its journal before a mount, as the boot of a machine does; `None` if the
    /// kernel does so itself when it mounts.
    fn replay(&self, _targets: &Targets) -> Option<Command> {
        None
    }
    /// The command that checks it without changing anything; `None` if there is none.
    fn check(&self, targets: &Targets) -> Option<Command>;
    /// The same for a small one of which many are checked, without what pays on large ones only.
    fn check_small(&self, targets: &Targets) -> Option<Command> {
        self.check(targets)
    }
    /// Returns whether a check found the filesystem clean; `None` if the check itself failed.
    fn clean(&self, output: &Output) -> Option<bool>;
    /// The command that prints its geometry, if its mkfs does not.
    fn geometry(&self, _targets: &Targets) -> Option<Command> {
        None
    }
}

/// The smallest data device that a configuration fits on.
pub(crate) fn minimum_size(configuration: &Configuration) -> Bytes {
    find(&configuration.filesystem).map_or(Bytes(0), |filesystem| filesystem.minimum_size(configuration))
}

/// Returns the words that a filesystem's tools and mount take.
pub(crate) fn grammar(filesystem: &dyn Filesystem) -> Grammar {
    Grammar {
        filesystem: filesystem.name(),
        tool: filesystem.descriptor().tools.first().map_or("mkfs", |tool| tool.program),
        mkfs: filesystem.mkfs_words(),
        mount: filesystem.mount_words(),
    }
}

/// The options that a configuration is mounted with.
pub(crate) fn all_mount_options(
    filesystem: &dyn Filesystem,
    configuration: &Configuration,
    journal: Option<&Path>,
) -> Vec<String> {
    let mut options: Vec<String> = configuration.level("atime").map(str::to_string).into_iter().collect();
    options.extend(filesystem.mount_options(configuration, journal));
    options.extend(raw_mount(configuration).map(str::to_string));
    options
}

/// The same configuration for mounting a filesystem while a copy of it is mounted; `None` if that cannot be.
pub fn beside_a_copy(configuration: &Configuration) -> Option<Configuration> {
    let own = find(&configuration.filesystem)?.beside_a_copy()?;
    let words: Vec<&str> = raw_mount(configuration).chain(own.iter().copied()).collect();
    let mut beside = configuration.clone();
    if !words.is_empty() {
        beside.settings.insert("mount".to_string(), words.join(","));
    }
    Some(beside)
}

/// Everything that the options of a mount must show.
pub(crate) fn all_expectations(
    filesystem: &dyn Filesystem,
    configuration: &Configuration,
) -> Vec<Expectation> {
    let mut expectations = filesystem.expectations(configuration);
    if let Some(level) = configuration.level("atime") {
        let shown = match level {
            "strictatime" => none_of(["relatime", "noatime"]),
            word => Shown::Word(word.to_string()),
        };
        expectations.push(expect("atime", level, shown));
    }
    for word in raw_mount(configuration) {
        if !["defaults", "rw"].contains(&word) {
            expectations.push(expect("mount", word, Shown::Word(word.to_string())));
        }
    }
    expectations
}

/// Returns warnings about the settings that weaken durability, for a configuration that was built elsewhere.
/// Nothing there is known to be durable, so settings of unknown effect add no warning. For an unknown
/// filesystem, the warnings are those for its settings on any other filesystem.
pub fn declared_risks(configuration: &Configuration) -> Vec<Warning> {
    let mut found = match find(&configuration.filesystem) {
        Some(filesystem) => all_risks(filesystem, configuration),
        None => all().flat_map(|filesystem| risks_of_settings(filesystem, configuration)).collect(),
    };
    found.retain(|warning| warning.kind == WarningKind::Durability);
    distinct(found)
}

/// Warnings about what the settings of a configuration weaken, or may weaken, as far as that is known before
/// it is built.
pub fn foreseen_risks(configuration: &Configuration) -> Vec<Warning> {
    find(&configuration.filesystem).map_or(Vec::new(), |filesystem| all_risks(filesystem, configuration))
}

/// Returns warnings about the effect of a filesystem and the settings of a configuration on what survives a
/// power cut.
pub(crate) fn all_risks(filesystem: &dyn Filesystem, configuration: &Configuration) -> Vec<Warning> {
    let own = filesystem.own_hazard().warning(filesystem.name(), filesystem.name(), "");
    distinct(own.into_iter().chain(risks_of_settings(filesystem, configuration)).collect())
}

fn risks_of_settings(filesystem: &dyn Filesystem, configuration: &Configuration) -> Vec<Warning> {
    let options = all_mount_options(filesystem, configuration, None);
    let (name, words) = (filesystem.name(), options.iter().map(String::as_str));
    let mut found = words::risks_of_mount(name, filesystem.mount_words(), words);
    found.extend(words::risks_of_mkfs(name, filesystem.mkfs_words(), configuration));
    found.extend(risks_of_levels(name, configuration));
    found
}

/// The same of its levels that become no words of mkfs or mount.
pub(crate) fn risks_of_levels(filesystem: &str, configuration: &Configuration) -> Vec<Warning> {
    let settings = configuration.settings.iter().filter(|(_, level)| *level != DEFAULT);
    settings.filter_map(|(name, level)| weakening::of_level(filesystem, name, level)).collect()
}

/// Each warning once.
pub(crate) fn distinct(warnings: Vec<Warning>) -> Vec<Warning> {
    let mut found: Vec<Warning> = Vec::new();
    for warning in warnings {
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    found
}

/// Returns warnings about the settings that were requested but are not in force.
pub(crate) fn not_in_force(expectations: &[Expectation], options: &str) -> Vec<Warning> {
    let missing = expectations.iter().filter(|expectation| !expectation.met(options));
    missing
        .map(|Expectation { axis, level, .. }| {
            let text = if *axis == "mount" {
                format!(
                    "the active mount options do not include '{level}': it is the default or has no \
                    effect (active: {options})"
                )
            } else {
                format!("{axis} = {level} was requested, but the active mount options are {options}")
            };
            Warning::new(WarningKind::OptionNotInForce, text)
        })
        .collect()
}

pub(crate) fn expect(axis: &'static str, level: impl Into<String>, shown: Shown) -> Expectation {
    Expectation { axis, level: level.into(), shown }
}

pub(crate) fn none_of<const N: usize>(words: [&str; N]) -> Shown {
    Shown::NoneOf(words.map(str::to_string).to_vec())
}

/// The journaling modes of file data (Documentation/admin-guide/ext4.rst).
pub(crate) const DATA_MODES: Hazard = Hazard::By(&[
    (&["data=journal", "data=ordered"], Hazard::Harmless),
    (
        &["data=writeback"],
        Hazard::Weakens("data = writeback: after a power cut, files may contain stale data from other files"),
    ),
]);

/// A mount that leaves the log as it is.
pub(crate) const NO_RECOVERY: Hazard =
    Hazard::Weakens("no recovery: what was synced last is missing, because the log is not replayed");

/// Returns the expectation for the axis `barrier` if the kernel shows nothing but `nobarrier`.
pub(crate) fn nobarrier_in_force(configuration: &Configuration) -> Option<Expectation> {
    let level = configuration.level("barrier")?;
    let shown = if level == "1" { none_of(["nobarrier"]) } else { Shown::Word("nobarrier".to_string()) };
    Some(expect("barrier", level, shown))
}

/// A contradiction if the filesystem does not support the requested block size, with its own term for blocks.
pub(crate) fn no_such_blocks(
    filesystem: &str,
    blocks: &str,
    known: std::ops::RangeInclusive<u64>,
    configuration: &Configuration,
) -> Option<String> {
    let fits = |bytes: &u64| bytes.is_power_of_two() && known.contains(bytes);
    let bytes = Bytes(size_of(configuration, "block_size").filter(|bytes| !fits(bytes))?);
    let (least, most) = (Bytes(*known.start()), Bytes(*known.end()));
    let has = if least == most { most.to_string() } else { format!("a power of two from {least} to {most}") };
    Some(format!("{filesystem} does not support {blocks} of {bytes}; supported: {has}"))
}

/// A contradiction if a journal on another device was requested for a filesystem that fsdyno creates only
/// with an internal one; with its own term for it.
pub(crate) fn journal_inside_only(
    filesystem: &str,
    journal: &str,
    configuration: &Configuration,
) -> Option<String> {
    configuration.external_journal()?;
    Some(format!("fsdyno supports {filesystem} only with an internal {journal}; nearest: journal = internal"))
}

/// The meaning of a check's exit status: 0 if the filesystem is clean, one of these if it is not; `None` if
/// the check itself failed.
pub(crate) fn clean_by_status(output: &Output, errors: &[i32]) -> Option<bool> {
    match output.status {
        0 => Some(true),
        status => errors.contains(&status).then_some(false),
    }
}

/// A size level in bytes.
pub(crate) fn size_of(configuration: &Configuration, axis: &str) -> Option<u64> {
    configuration.level(axis)?.parse::<Bytes>().ok().map(|size| size.0)
}

/// The purpose of a UUID; each has its own, and all of a trial follow from its seed.
///
/// Filesystems and journals on different devices have different ones, whatever the seed: the kernel refuses
/// to mount an xfs or a btrfs alongside another one with the same UUID. Different filesystems on one device
/// also differ: trials of one block share their seed, and mkfs.btrfs refuses a UUID that anything on the
/// machine already has. The hash seed determines the order of directories, so it must not depend on either.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose<'a> {
    Filesystem { filesystem: &'static str, on: &'a Path },
    HashSeed,
    Journal { filesystem: &'static str, on: &'a Path },
}

/// A UUID by which fsdyno recognises its own; it follows from the trial's seed and, for a device, from the
/// device's path and the filesystem's name.
pub(crate) fn uuid(seed: u64, purpose: Purpose<'_>) -> String {
    let (number, place) = match purpose {
        Purpose::Filesystem { filesystem, on } => (1, fnv_1a(on, filesystem)),
        Purpose::HashSeed => (2, 0),
        Purpose::Journal { filesystem, on } => (3, fnv_1a(on, filesystem)),
    };
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number << 56) ^ place);
    let bits = (u128::from(generator.next_u64()) << 64) | u128::from(generator.next_u64());
    crate::mark::uuid(bits)
}

/// The FNV-1a hash of a path and a name, the same in every release (draft-eastlake-fnv).
fn fnv_1a(path: &Path, name: &str) -> u64 {
    // No path contains the zero between them.
    let bytes = path.as_os_str().as_bytes().iter().chain(&[0]).chain(name.as_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_follow_from_seed_place_and_filesystem_and_differ_by_purpose() {
        let (here, there) = (Path::new("/var/tmp/a.img"), Path::new("/var/tmp/a.img.1"));
        let filesystem = |on, filesystem| Purpose::Filesystem { filesystem, on };
        let one = uuid(42, filesystem(here, "ext4"));
        assert_eq!(one, uuid(42, filesystem(here, "ext4")));
        assert_ne!(one, uuid(43, filesystem(here, "ext4")));
        assert_ne!(one, uuid(42, filesystem(there, "ext4")));
        assert_ne!(one, uuid(42, filesystem(here, "btrfs")));
        assert_ne!(one, uuid(42, Purpose::Journal { filesystem: "ext4", on: here }));
        assert_ne!(one, uuid(42, Purpose::HashSeed));
        assert_eq!(one.len(), 36);
    }

    #[test]
    fn every_filesystem_that_a_plan_may_name_can_be_built() {
        let built: Vec<&str> = all().map(|filesystem| filesystem.name()).collect();
        assert_eq!(built, fsdyno_core::filesystem::names().collect::<Vec<_>>());
    }
}
