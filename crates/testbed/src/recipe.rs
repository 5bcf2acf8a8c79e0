//! The recipe for building a configuration by hand on another device: the commands of its trials, without the
//! parts that make these repeatable.
//!
//! The code that built the configuration writes the recipe to the trial, so that a recommendation can show
//! commands that were actually measured.

use crate::filesystem::{Filesystem, Target, Targets, all_mount_options};
use crate::layer::{self, Layer};
use crate::trial::Volume;
use crate::tunable::{self, Queues};
use fsdyno_core::axis::SYSCTL_PREFIX;
use fsdyno_core::result::Recipe;
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Command, DeviceHandle};
use std::path::PathBuf;

/// The recipe of a configuration on the devices of its trial. Their size and sectors matter: a filesystem and
/// its external journal must have the same block size, which depends on both.
pub(crate) fn recipe(configuration: &Configuration, volume: &Volume) -> Recipe {
    let Targets { size, sector, others, journal, .. } = volume.targets();
    let devices = Devices { size, sector, members: 1 + others.len(), external_journal: journal.is_some() };
    Recipe {
        device: layer::all(&volume.data.spec).into_iter().rev().flat_map(Layer::recipe).collect(),
        ..of_filesystem(volume.filesystem, configuration, &devices)
    }
}

/// The properties of a trial's devices that matter for a recipe.
struct Devices {
    size: Option<Bytes>,
    sector: Option<Bytes>,
    /// Over how many the filesystem spreads.
    members: usize,
    external_journal: bool,
}

fn of_filesystem(filesystem: &dyn Filesystem, configuration: &Configuration, devices: &Devices) -> Recipe {
    let target =
        |index, name: &str| Target { handle: DeviceHandle(index), node: name.into(), planned: name.into() };
    let others =
        (2..=devices.members as u64).map(|number| target(number, &format!("{}{number}", Recipe::DEVICE)));
    let targets = Targets {
        size: devices.size,
        sector: devices.sector,
        data: target(0, Recipe::DEVICE),
        others: others.collect(),
        journal: devices.external_journal.then(|| target(1, Recipe::JOURNAL)),
        // A disk in use has no reason to keep them.
        keeps_blocks: false,
    };
    let journal = targets.journal.as_ref().map(|target| target.node.as_path());
    let queues = Queues::of_disk(PathBuf::from("queue"));
    let settings = tunable::settings(configuration, Some(&queues));
    let of_queue = settings.iter().filter(|setting| !setting.axis.starts_with(SYSCTL_PREFIX));
    let of_kernel =
        settings.iter().filter_map(|setting| Some((setting.axis.strip_prefix(SYSCTL_PREFIX)?, setting)));
    Recipe {
        device: Vec::new(),
        mkfs: filesystem.mkfs(configuration, &targets, None).iter().map(Command::line).collect(),
        filesystem: filesystem.descriptor().kernel_type.to_string(),
        mount_options: all_mount_options(filesystem, configuration, journal),
        check_order: filesystem.check_order(),
        queue: of_queue
            .map(|setting| {
                let file = setting.path.file_name().unwrap_or_default();
                (file.to_string_lossy().into_owned(), setting.value.clone())
            })
            .collect(),
        sysctl: of_kernel.map(|(key, setting)| (key.to_string(), setting.value.clone())).collect(),
        // Whoever serves it adds how.
        serve: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem;

    fn of(name: &str, settings: &[(&str, &str)], external: bool) -> Recipe {
        on((8 << 30, 512), name, settings, external)
    }

    /// On devices of this size with sectors of this size.
    fn on((size, sector): (u64, u64), name: &str, settings: &[(&str, &str)], external: bool) -> Recipe {
        let settings = settings.iter().map(|(axis, level)| ((*axis).to_string(), (*level).to_string()));
        let configuration =
            Configuration { name: String::new(), filesystem: name.to_string(), settings: settings.collect() };
        let (size, sector) = (Some(Bytes(size)), Some(Bytes(sector)));
        let devices = Devices { size, sector, members: 1, external_journal: external };
        of_filesystem(filesystem::find(name).unwrap(), &configuration, &devices)
    }

    #[test]
    fn it_names_the_settings_and_nothing_of_the_trial() {
        let settings = [
            ("atime", "noatime"),
            ("data", "journal"),
            ("mkfs", "-E stride=4"),
            ("scheduler", "bfq"),
            ("readahead", "1M"),
            ("sysctl.vm.dirty_ratio", "10"),
            ("sysctl.vm.swappiness", "default"),
        ];
        let recipe = of("ext4", &settings, false);
        assert_eq!(recipe.mkfs, ["mkfs.ext4 -E lazy_itable_init=0,lazy_journal_init=0,stride=4 DEVICE"]);
        assert_eq!(recipe.mount_options, ["noatime", "data=journal"]);
        let pair = |(a, b): (&str, &str)| (a.to_string(), b.to_string());
        assert_eq!(recipe.queue, [("scheduler", "bfq"), ("read_ahead_kb", "1024")].map(pair));
        assert_eq!(recipe.sysctl, [("vm.dirty_ratio", "10")].map(pair));
        assert_eq!(recipe.check_order, 2);
    }

    #[test]
    fn nothing_is_forced_and_no_uuid_is_given() {
        for filesystem in filesystem::all() {
            for line in of(filesystem.name(), &[], false).mkfs {
                let words: Vec<&str> = line.split_whitespace().collect();
                for silencing in ["-f", "-F", "-U", "-m"] {
                    assert!(!words.contains(&silencing), "{line}");
                }
                assert!(!line.contains("uuid") && !line.contains("hash_seed"), "{line}");
            }
        }
    }

    #[test]
    fn an_external_journal_is_a_device_to_name() {
        let recipe = of("ext4", &[("journal", "external")], true);
        assert_eq!(
            recipe.mkfs,
            [
                "mke2fs -O journal_dev -b 4096 JOURNAL",
                "mkfs.ext4 -b 4096 -J device=JOURNAL -E lazy_itable_init=0,lazy_journal_init=0 DEVICE"
            ]
        );
        let recipe = of("xfs", &[("journal", "external")], true);
        assert_eq!(recipe.mkfs, ["mkfs.xfs -l logdev=JOURNAL DEVICE"]);
        assert_eq!(recipe.mount_options, ["logdev=JOURNAL"]);
    }

    #[test]
    fn an_external_journal_fits_the_sectors_of_its_disk() {
        let small = |sector, name: &str, mkfs: &str| {
            let settings = [("journal", "external"), ("mkfs", mkfs)];
            on((64 << 20, sector), name, &settings, true).mkfs
        };
        for (sector, block) in [(512, 1024), (4096, 4096)] {
            let lines = small(sector, "ext4", "default");
            assert_eq!(lines[0], format!("mke2fs -O journal_dev -b {block} JOURNAL"));
            assert!(lines[1].starts_with(&format!("mkfs.ext4 -b {block} ")), "{lines:?}");
        }
        assert_eq!(small(512, "xfs", "default"), ["mkfs.xfs -l logdev=JOURNAL DEVICE"]);
        assert_eq!(small(4096, "xfs", "default"), ["mkfs.xfs -s size=4096 -l logdev=JOURNAL DEVICE"]);
        for raw in ["-l sectsize=8192", "-s size=8192", "-ssize=8192"] {
            let told_once = format!("mkfs.xfs -l logdev=JOURNAL {raw} DEVICE");
            assert_eq!(small(4096, "xfs", raw), [told_once]);
        }
    }
}
