//! The actions that an undo journal is allowed to request.
//!
//! A journal is in a directory that nobody else can write to, but it is only a file: it may be damaged,
//! restored from a backup of another machine, or written by somebody who got that far. So each kind of action
//! is restricted to the names that fsdyno itself creates, both when a journal is taken over and again before
//! the action is carried out.

use crate::mark;
use crate::name::{has_name, is_absolute, is_id, is_memory_group, is_mount_directory};
use crate::way_back::{Label, UndoAction};
use fsdyno_host::setting::{BYTES_MAX, HostSetting};

/// Returns the problem with an action, if it is one that fsdyno never journals.
pub(super) fn violation(action: &UndoAction) -> Option<String> {
    let (what, holds) = match action {
        UndoAction::RemoveFile { path, identity: None } => (
            "removes a file whose name is not one of fsdyno's",
            is_absolute(path) && has_name(path, ".fsdyno-"),
        ),
        UndoAction::RemoveFile { path, identity: Some(identity) } => {
            ("removes something that is not a regular file", is_absolute(path) && identity.regular)
        }
        UndoAction::DetachLoop { path, image } => (
            "detaches a loop device that is not backed by a regular file",
            is_absolute(path) && image.regular,
        ),
        UndoAction::WriteSetting { path, old, new } => {
            let values = std::iter::once(old).chain(new);
            let short = values.clone().all(|value| value.len() <= BYTES_MAX && !value.contains('\0'));
            ("writes to something that is not a setting", short && HostSetting::at(path).is_some())
        }
        UndoAction::SettingInForce { path } => {
            ("names something that is not a setting", HostSetting::at(path).is_some())
        }
        UndoAction::RemoveDirectory { path } | UndoAction::Unmount { target: path, .. } => {
            ("names a mount directory that is not fsdyno's", is_mount_directory(path))
        }
        UndoAction::RemoveTree { path } => (
            "removes a directory whose name is not one of fsdyno's",
            is_absolute(path) && has_name(path, "fsdyno-"),
        ),
        UndoAction::RemoveMemoryGroup { path } => {
            ("removes a memory cgroup that is not fsdyno's", is_memory_group(path))
        }
        UndoAction::RemoveTraceInstance { name } => (
            "removes a trace instance whose name is not one of fsdyno's",
            name.strip_prefix("fsdyno-").is_some_and(is_id),
        ),
        UndoAction::StopArray { uuid } => ("stops an array whose UUID is not valid", is_md_uuid(uuid)),
        UndoAction::RemoveMapping { name } => {
            ("removes a mapping whose name is not one of fsdyno's", is_mapping(name))
        }
        UndoAction::ClearLabel { disk, label } => {
            let ours = match label {
                Label::Md { uuid } => is_md_uuid(uuid),
                Label::Lvm { group } => group.strip_prefix("fsdyno_").is_some_and(is_id),
                Label::Filesystem { uuid } => mark::is_identifier(uuid),
            };
            ("clears a label that is not fsdyno's", ours && is_absolute(disk))
        }
    };
    (!holds).then(|| format!("it {what}: {}", action.describe()))
}

/// Returns whether a name is that of a mapping: `fsdyno-ID` of a delay, `fsdyno_ID-data` of a volume.
fn is_mapping(name: &str) -> bool {
    let delay = name.strip_prefix("fsdyno-").is_some_and(is_id);
    let volume = name.strip_prefix("fsdyno_").and_then(|rest| rest.split_once('-'));
    delay
        || volume
            .is_some_and(|(id, volume)| is_id(id) && volume.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Four groups of eight digits, as mdadm writes them.
fn is_md_uuid(uuid: &str) -> bool {
    let groups: Vec<&str> = uuid.split(':').collect();
    groups.len() == 4 && groups.iter().all(|group| group.len() == 8) && is_id(&groups.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_host::probe::FileIdentity;

    const ID: &str = "0123456789abcdef0123456789abcdef";
    const MD: &str = "01234567:89abcdef:01234567:89abcdef";

    fn file(regular: bool) -> FileIdentity {
        FileIdentity { device: (8, 1), inode: 7, birth_ns: None, regular }
    }

    /// Pairs of which one is fsdyno's and the other is not.
    fn pairs() -> Vec<(UndoAction, UndoAction)> {
        let remove = |path: &str, identity| UndoAction::RemoveFile { path: path.into(), identity };
        let setting = |path: &str| UndoAction::WriteSetting { path: path.into(), old: "1".into(), new: None };
        let unmount = |path: &str| UndoAction::Unmount { target: path.into(), mounted: None };
        let directory = |path: &str| UndoAction::RemoveDirectory { path: path.into() };
        let tree = |path: &str| UndoAction::RemoveTree { path: path.into() };
        let group = |path: &str| UndoAction::RemoveMemoryGroup { path: path.into() };
        let trace = |name: &str| UndoAction::RemoveTraceInstance { name: name.into() };
        let detach = |path: &str, regular| UndoAction::DetachLoop { path: path.into(), image: file(regular) };
        let array = |uuid: &str| UndoAction::StopArray { uuid: uuid.into() };
        let mapping = |name: &str| UndoAction::RemoveMapping { name: name.into() };
        let label = |disk: &str, label| UndoAction::ClearLabel { disk: disk.into(), label };
        let md = |uuid: &str| Label::Md { uuid: uuid.into() };
        let lvm = |group: &str| Label::Lvm { group: group.into() };
        let named = |text: &str| text.replace("ID", ID);
        vec![
            (remove(&named("/var/.fsdyno-ID"), None), remove("/etc/passwd", None)),
            (remove(&named("/var/.fsdyno-ID"), None), remove(&named("/var/.fsdyno-ID/.."), None)),
            (remove("/var/tmp/a.img", Some(file(true))), remove("/var/tmp", Some(file(false)))),
            (remove("/var/tmp/a.img", Some(file(true))), remove("tmp/a.img", Some(file(true)))),
            (detach("/a.img", true), detach("/dev/sda", false)),
            (setting("/proc/sys/vm/swappiness"), setting("/proc/sysrq-trigger")),
            (setting("/sys/dev/block/8:0/queue/scheduler"), setting("/sys/../etc/passwd")),
            (setting("/sys/dev/block/8:0/queue/scheduler"), setting("/system/passwd")),
            (unmount(&named("/run/fsdyno-ID")), unmount("/home")),
            (unmount(&named("/run/fsdyno-ID")), unmount(&named("/run/x/fsdyno-ID"))),
            (directory(&named("/run/fsdyno-ID")), directory("/run/fsdyno-")),
            (directory(&named("/run/fsdyno-ID")), directory(&named("/run/../run/fsdyno-ID"))),
            (tree(&named("/home/u/fsdyno-ID")), tree("/home/u")),
            (tree(&named("/home/u/fsdyno-ID")), tree(&named("/home/u/fsdyno-ID/.."))),
            (group(&named("/sys/fs/cgroup/memory/fsdyno-ID")), group("/sys/fs/cgroup/memory/user")),
            (group(&named("/sys/fs/cgroup/fsdyno-ID")), group(&named("/sys/fs/cgroup/../block/fsdyno-ID"))),
            (trace(&named("fsdyno-ID")), trace("theirs")),
            (trace(&named("fsdyno-ID")), trace(&named("../fsdyno-ID"))),
            (array(MD), array("--scan")),
            (mapping(&named("fsdyno-ID")), mapping("root")),
            (mapping(&named("fsdyno_ID-data")), mapping(&named("fsdyno_ID-data --force"))),
            (label("/dev/sda", md(MD)), label("/dev/sda", md(ID))),
            (label("/dev/disk/by-id/x", lvm(&named("fsdyno_ID"))), label("/dev/sda", lvm("vg0"))),
            (label("/dev/sda", md(MD)), label("sda", md(MD))),
        ]
    }

    #[test]
    fn only_what_fsdyno_itself_journals_is_carried_out() {
        for (ours, other) in pairs() {
            assert_eq!(violation(&ours), None);
            assert!(violation(&other).is_some(), "{other:?}");
        }
    }

    #[test]
    fn a_value_longer_than_any_setting_is_no_value() {
        let write = |old: String| UndoAction::WriteSetting { path: "/proc/sys/vm/x".into(), old, new: None };
        assert_eq!(violation(&write("x".repeat(BYTES_MAX))), None);
        assert!(violation(&write("x".repeat(BYTES_MAX + 1))).is_some());
        assert!(violation(&write("1\0".to_string())).is_some());
    }
}
