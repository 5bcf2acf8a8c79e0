//! Settings of the block layer and sysctls: which file, which value, and whether it took.
//!
//! Each setting is read, journaled, written and read back. One that does not read back as written makes the case
//! impossible on this machine, for its result would carry a wrong label.

use crate::Result;
use crate::error::TestbedError;
use crate::undo::{UndoAction, UndoJournal};
use fsdyno_core::axis::{DEFAULT, SYSCTL_PREFIX};
use fsdyno_core::{Bytes, Configuration};
use fsdyno_host::{Host, HostError};
use std::path::{Path, PathBuf};

/// One setting to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The axis that asks for it.
    pub axis: String,
    /// Its file.
    pub path: PathBuf,
    /// What to write.
    pub value: String,
    /// A setting that the kernel changes along with this one.
    pub companion: Option<PathBuf>,
    /// Whether the companion has to be written back after this one; else before it.
    pub companion_last: bool,
}

/// The `queue` directories of a data device in sysfs. Of a disk as it is they are one and the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queues {
    /// That of the device with the filesystem.
    pub top: PathBuf,
    /// Those of its disks. Arrays and mappings pass requests on and have neither a scheduler nor a depth.
    pub disks: Vec<PathBuf>,
}

impl Queues {
    /// Those of a disk as it is.
    pub fn of_disk(queue: PathBuf) -> Self {
        Queues { top: queue.clone(), disks: vec![queue] }
    }
}

/// Every setting of a configuration, in the order in which they are made. Without a device there are only sysctls.
pub(crate) fn settings(configuration: &Configuration, queues: Option<&Queues>) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let Some(queues) = queues {
        let plain = |axis: &str, queue: &Path, file: &str, value: String| Setting {
            axis: axis.to_string(),
            path: queue.join(file),
            value,
            companion: None,
            companion_last: false,
        };
        if let Some(scheduler) = configuration.level("scheduler") {
            // Another scheduler starts with a queue depth of its own (elevator_switch in block/elevator.c).
            settings.extend(queues.disks.iter().map(|queue| Setting {
                companion: Some(queue.join("nr_requests")),
                companion_last: true,
                ..plain("scheduler", queue, "scheduler", scheduler.to_string())
            }));
        }
        if let Some(size) = configuration.level("readahead").and_then(|level| level.parse::<Bytes>().ok()) {
            let kib = (size.0 / Bytes::KIB).to_string();
            settings.push(plain("readahead", &queues.top, "read_ahead_kb", kib));
        }
        if let Some(count) = configuration.level("nr_requests") {
            let disks = queues.disks.iter();
            settings.extend(disks.map(|queue| plain("nr_requests", queue, "nr_requests", count.to_string())));
        }
    }
    settings.extend(sysctls(configuration));
    settings
}

fn sysctls(configuration: &Configuration) -> Vec<Setting> {
    let asked = configuration.settings.iter().filter(|(_, level)| *level != DEFAULT);
    asked
        .filter_map(|(axis, level)| {
            let key = axis.strip_prefix(SYSCTL_PREFIX)?;
            Some(Setting {
                axis: axis.clone(),
                path: sysctl_path(key),
                value: level.clone(),
                companion: counterpart(key).map(sysctl_path),
                companion_last: false,
            })
        })
        .collect()
}

/// `vm.dirty_ratio` as a file.
pub(crate) fn sysctl_path(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key.replace('.', "/"))
}

/// Setting one of a pair sets the other to 0, and 0 itself is refused (Documentation/admin-guide/sysctl/vm.rst).
fn counterpart(key: &str) -> Option<&'static str> {
    Some(match key {
        "vm.dirty_bytes" => "vm.dirty_ratio",
        "vm.dirty_ratio" => "vm.dirty_bytes",
        "vm.dirty_background_bytes" => "vm.dirty_background_ratio",
        "vm.dirty_background_ratio" => "vm.dirty_background_bytes",
        _ => return None,
    })
}

/// Reads what the settings are now and gives the ways back, in the order in which they belong into the journal.
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

fn way_back(host: &mut dyn Host, path: &Path, new: Option<String>) -> Result<UndoAction> {
    let old = active(&host.read_text(path).map_err(TestbedError::at("settings"))?);
    Ok(UndoAction::WriteSetting { path: path.to_path_buf(), old, new })
}

/// Makes the settings, each read back.
///
/// # Errors
/// [`TestbedError::Unmet`] when the kernel refuses a value or has another one in force.
pub(crate) fn apply(host: &mut dyn Host, settings: &[Setting]) -> Result<()> {
    for setting in settings {
        match host.write_text(&setting.path, &setting.value) {
            Err(HostError::System { reason, errno, .. }) if [EINVAL, ENODEV, ENOENT].contains(&errno) => {
                return Err(not_taken(setting, &format!("the kernel refuses it: {reason}")));
            }
            result => result.map_err(TestbedError::at("settings"))?,
        }
        let found = active(&host.read_text(&setting.path).map_err(TestbedError::at("settings"))?);
        if !same(&found, &setting.value) {
            return Err(not_taken(setting, &format!("'{found}' is in force after it was written")));
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

/// Makes settings and journals the ways back first.
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
    apply(host, settings)
}

/// The value in force in the text of a setting: the word in brackets where there is a choice, else all of it.
pub(crate) fn active(text: &str) -> String {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(text.trim()).to_string()
}

/// Every word that a setting with a choice offers.
pub(crate) fn offered(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect()
}

/// Whether two values are the same but for white space.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// The `queue` directory of a whole disk.
pub(crate) fn queue_directory(number: (u32, u32)) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}/queue", number.0, number.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_in_force() {
        assert_eq!(active("none [mq-deadline] kyber bfq\n"), "mq-deadline");
        assert_eq!(active("128\n"), "128");
        assert_eq!(offered("[none] mq-deadline"), ["none", "mq-deadline"]);
        assert!(same("4096\t87380 6291456\n", "4096 87380 6291456"));
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
        let levels = [("scheduler", "bfq"), ("readahead", "1M"), ("nr_requests", "64")];
        let configuration = Configuration {
            name: String::new(),
            filesystem: "ext4".into(),
            settings: levels.map(|(axis, level)| (axis.to_string(), level.to_string())).into(),
        };
        let queues = Queues { top: "md0".into(), disks: vec!["sda".into(), "sdb".into()] };
        let paths: Vec<PathBuf> =
            settings(&configuration, Some(&queues)).into_iter().map(|setting| setting.path).collect();
        let expected =
            ["sda/scheduler", "sdb/scheduler", "md0/read_ahead_kb", "sda/nr_requests", "sdb/nr_requests"];
        assert_eq!(paths, expected.map(PathBuf::from));
    }
}
