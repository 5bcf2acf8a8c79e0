//! Settings of the block layer and sysctls: which file, which value, and whether it took effect.
//!
//! Each setting is read, journaled, written and read back. If it does not read back as written, this machine
//! cannot run the case, because its result would be labelled wrongly.

use crate::Result;
use crate::error::TestbedError;
use crate::setting::{SYSCTLS, in_force, same, to_write_back};
use crate::undo::UndoJournal;
use crate::way_back::UndoAction;
use fsdyno_core::Configuration;
use fsdyno_core::axis::{self, DEFAULT, QUEUE, QueueAttribute, SYSCTL_PREFIX};
use fsdyno_host::probe::DeviceIdentity;
use fsdyno_host::{Host, HostError};
use std::path::{Path, PathBuf};

/// One setting to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The axis that asks for it.
    pub axis: String,
    /// Its file.
    pub path: PathBuf,
    /// The value to write.
    pub value: String,
    /// A setting that the kernel changes along with this one.
    pub companion: Option<PathBuf>,
    /// `true` if the companion must be restored after this setting; otherwise it is restored before it.
    pub companion_last: bool,
}

/// The `queue` directories of a data device in sysfs. For a plain disk they are one and the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queues {
    /// That of the device with the filesystem.
    pub top: PathBuf,
    /// Those of its disks. Arrays and mappings pass requests on and have neither a scheduler nor a depth.
    pub disks: Vec<PathBuf>,
}

impl Queues {
    /// Each queue of a disk counts once: partitions of one disk share it.
    pub fn new(top: PathBuf, disks: impl Iterator<Item = PathBuf>) -> Self {
        let mut queues = Queues { top, disks: Vec::new() };
        for disk in disks {
            if !queues.disks.contains(&disk) {
                queues.disks.push(disk);
            }
        }
        queues
    }

    /// Those of a disk as it is.
    pub fn of_disk(queue: PathBuf) -> Self {
        Queues { top: queue.clone(), disks: vec![queue] }
    }
}

/// Every setting of a configuration, in the order in which they are applied. Without a device there are only
/// sysctls.
pub(crate) fn settings(configuration: &Configuration, queues: Option<&Queues>) -> Vec<Setting> {
    let of_queues = queues.into_iter().flat_map(|queues| {
        let of_attribute = |attribute| of_queue(attribute, configuration, queues);
        QUEUE.iter().flat_map(of_attribute)
    });
    of_queues.chain(sysctls(configuration)).collect()
}

/// The settings of one attribute.
fn of_queue(attribute: &QueueAttribute, configuration: &Configuration, queues: &Queues) -> Vec<Setting> {
    let text = configuration.level(attribute.axis).and_then(|level| attribute.text(level));
    let queues = if attribute.of_each_disk { &queues.disks[..] } else { std::slice::from_ref(&queues.top) };
    let of_queue = |value: String| {
        queues.iter().map(move |queue| Setting {
            axis: attribute.axis.to_string(),
            path: queue.join(attribute.file),
            value: value.clone(),
            companion: attribute.resets.map(|file| queue.join(file)),
            companion_last: attribute.resets.is_some(),
        })
    };
    text.into_iter().flat_map(of_queue).collect()
}

/// The keys of the sysctls that a configuration sets.
pub(crate) fn sysctl_keys(configuration: &Configuration) -> impl Iterator<Item = &str> {
    let asked = configuration.settings.iter().filter(|(_, level)| *level != DEFAULT);
    asked.filter_map(|(axis, _)| axis.strip_prefix(SYSCTL_PREFIX))
}

/// Invalid names and values under `sysctl.`, one line each. Plan parsing has rejected them already; this also
/// stops a configuration from another source.
pub(crate) fn contradictions(configuration: &Configuration) -> impl Iterator<Item = String> {
    let asked = configuration.settings.iter().filter(|(axis, _)| axis.starts_with(SYSCTL_PREFIX));
    asked
        .filter_map(|(name, level)| axis::find(name).and_then(|axis| axis.level(level)).err())
        .map(|error| error.to_string())
}

fn sysctls(configuration: &Configuration) -> Vec<Setting> {
    sysctl_keys(configuration)
        .map(|key| {
            let axis = format!("{SYSCTL_PREFIX}{key}");
            Setting {
                path: sysctl_path(key),
                value: configuration.settings[&axis].clone(),
                axis,
                companion: counterpart(key).map(sysctl_path),
                companion_last: false,
            }
        })
        .collect()
}

/// `vm.dirty_ratio` as a file; the key is one ([`fsdyno_core::sysctl::is_key`]).
pub(crate) fn sysctl_path(key: &str) -> PathBuf {
    PathBuf::from(format!("{SYSCTLS}/{}", key.replace('.', "/")))
}

/// Setting one of a pair sets the other to 0, but 0 itself is rejected
/// (Documentation/admin-guide/sysctl/vm.rst).
fn counterpart(key: &str) -> Option<&'static str> {
    Some(match key {
        "vm.dirty_bytes" => "vm.dirty_ratio",
        "vm.dirty_ratio" => "vm.dirty_bytes",
        "vm.dirty_background_bytes" => "vm.dirty_background_ratio",
        "vm.dirty_background_ratio" => "vm.dirty_background_bytes",
        _ => return None,
    })
}

/// Reads the current settings and returns the undo actions, in journal order.
pub(crate) fn ways_back(host: &mut dyn Host, settings: &[Setting]) -> Result<Vec<UndoAction>> {
    let mut actions = Vec::new();
    for setting in settings {
        let own = way_back(host, &setting.path, Some(setting.value.clone()))?;
        match &setting.companion {
            None => actions.push(own),
            Some(path) if setting.companion_last => actions.extend([way_back(host, path, None)?, own]),
            Some(path) => actions.extend([own, way_back(host, path, None)?]),
        }
    }
    Ok(actions)
}

/// A setting that could not be restored to its value is not changed.
fn way_back(host: &mut dyn Host, path: &Path, new: Option<String>) -> Result<UndoAction> {
    let old = match host.read_setting(path) {
        Ok(text) => to_write_back(path, &text),
        Err(error @ HostError::System { .. }) => {
            return Err(TestbedError::Unmet { unmet: vec![format!("{error}, so it is not changed")] });
        }
        Err(error) => return Err(TestbedError::at("settings")(error)),
    };
    Ok(UndoAction::WriteSetting { path: path.to_path_buf(), old, new })
}

/// Makes the settings, each read back.
///
/// # Errors
/// [`TestbedError::Unmet`] when the kernel refuses a value or has another one in force.
pub(crate) fn apply(host: &mut dyn Host, settings: &[Setting]) -> Result<()> {
    for setting in settings {
        match host.change_setting(&setting.path, &setting.value) {
            Err(HostError::System { reason, errno, .. }) if [EINVAL, ENODEV, ENOENT].contains(&errno) => {
                return Err(not_taken(setting, &format!("the kernel rejects it: {reason}")));
            }
            result => result.map_err(TestbedError::at("settings"))?,
        }
        let found = host.read_setting(&setting.path).map_err(TestbedError::at("settings"))?;
        let found = in_force(&setting.path, &found);
        if !same(&found, &setting.value) {
            return Err(not_taken(setting, &format!("'{found}' is in force after writing")));
        }
    }
    Ok(())
}

const ENOENT: i32 = 2;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;

fn not_taken(setting: &Setting, why: &str) -> TestbedError {
    let Setting { axis, value, path, .. } = setting;
    TestbedError::Unmet { unmet: vec![format!("{axis} = '{value}' in '{}': {why}", path.display())] }
}

/// Makes settings and journals the ways back first, and afterwards that the kernel took them as written.
pub(crate) fn journal_and_apply(
    host: &mut dyn Host,
    journal: &mut UndoJournal,
    settings: &[Setting],
    also: &[UndoAction],
) -> Result<()> {
    let mut actions = ways_back(host, settings)?;
    actions.extend_from_slice(also);
    if !actions.is_empty() {
        journal.append(&actions)?;
    }
    apply(host, settings)?;
    let in_force = |setting: &Setting| UndoAction::SettingInForce { path: setting.path.clone() };
    match settings {
        [] => Ok(()),
        _ => journal.append(&settings.iter().map(in_force).collect::<Vec<_>>()),
    }
}

/// The `queue` directory of a device: that of its disk, when it is a partition.
pub(crate) fn queue_directory(identity: &DeviceIdentity) -> PathBuf {
    let (major, minor) = identity.disk();
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}/queue"))
}

/// The same of the device under a mount.
pub(crate) fn queue_of_mount(host: &mut dyn Host, (major, minor): (u32, u32)) -> PathBuf {
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    match host.read_text(&device.join("partition")) {
        // The link is followed before `..` is, so this is the disk's.
        Ok(_) => device.join("../queue"),
        Err(_) => device.join("queue"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_host::probe::Partition;

    #[test]
    fn partitions_have_the_queue_of_their_disk() {
        let partition = |number, start_bytes| DeviceIdentity {
            number,
            partition: Some(Partition { disk: (8, 0), start_bytes }),
            ..DeviceIdentity::default()
        };
        let queue = PathBuf::from("/sys/dev/block/8:0/queue");
        let both = [partition((8, 1), 1 << 20), partition((8, 2), 2 << 20)];
        let queues = Queues::new(PathBuf::from("top"), both.iter().map(queue_directory));
        assert_eq!(queues.disks, [queue]);
        let disk = DeviceIdentity { number: (8, 16), ..DeviceIdentity::default() };
        assert_eq!(queue_directory(&disk), Path::new("/sys/dev/block/8:16/queue"));
    }

    #[test]
    fn a_key_or_a_value_that_leaves_its_place_is_a_contradiction() {
        for (axis, level) in
            [("sysctl./etc/passwd", "x"), ("sysctl.vm...x", "1"), ("sysctl.vm.dirty_ratio", "1\n2")]
        {
            let settings = [(axis.to_string(), level.to_string())].into();
            let configuration = Configuration { name: String::new(), filesystem: "ext4".into(), settings };
            assert_eq!(contradictions(&configuration).count(), 1, "{axis} = {level}");
        }
    }

    #[test]
    fn a_scheduler_takes_the_queue_depth_along() {
        let configuration = Configuration {
            name: String::new(),
            filesystem: "ext4".into(),
            settings: [("scheduler", "bfq"), ("readahead", "1M"), ("sysctl.vm.dirty_bytes", "1048576")]
                .map(|(axis, level)| (axis.to_string(), level.to_string()))
                .into(),
        };
        let queue = PathBuf::from("/sys/dev/block/7:0/queue");
        let settings = settings(&configuration, Some(&Queues::of_disk(queue)));
        let shown: Vec<(String, &str, Option<String>)> = settings
            .iter()
            .map(|setting| {
                let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
                (name(&setting.path), setting.value.as_str(), setting.companion.as_ref().map(name))
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("scheduler".to_string(), "bfq", Some("nr_requests".to_string())),
                ("read_ahead_kb".to_string(), "1024", None),
                ("dirty_bytes".to_string(), "1048576", Some("dirty_ratio".to_string())),
            ]
        );
    }

    #[test]
    fn requests_wait_at_the_disks_and_the_top_reads_ahead() {
        let levels =
            [("scheduler", "bfq"), ("readahead", "1M"), ("nr_requests", "64"), ("max_request", "512k")];
        let configuration = Configuration {
            name: String::new(),
            filesystem: "ext4".into(),
            settings: levels.map(|(axis, level)| (axis.to_string(), level.to_string())).into(),
        };
        let queues = Queues { top: "md0".into(), disks: vec!["sda".into(), "sdb".into()] };
        let settings: Vec<(PathBuf, String)> = settings(&configuration, Some(&queues))
            .into_iter()
            .map(|setting| (setting.path, setting.value))
            .collect();
        let expected = [
            ("sda/scheduler", "bfq"),
            ("sdb/scheduler", "bfq"),
            ("md0/read_ahead_kb", "1024"),
            ("sda/nr_requests", "64"),
            ("sdb/nr_requests", "64"),
            ("sda/max_sectors_kb", "512"),
            ("sdb/max_sectors_kb", "512"),
        ];
        assert_eq!(settings, expected.map(|(path, value)| (PathBuf::from(path), value.to_string())));
    }
}
