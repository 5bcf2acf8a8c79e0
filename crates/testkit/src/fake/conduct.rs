//! The rules that no step on a host may break, whatever the plan; a step that breaks one of them panics.
//!
//! The rules know nothing about plans and share no code with what they check. A file, directory, loop device
//! or array may be changed only by whoever created it; a device is opened, verified and unchanged before
//! anything is written to it or mounted from it; text is written only to sysctls and sysfs; and no word of a
//! command names anything but an open device. What a plan may name is up to a test ([`FakeHost::planned`]),
//! or can be compared with [`FakeHost::touched`].

use super::tools;
use super::{FakeHost, system};
use fsdyno_core::EngineRequest;
use fsdyno_core::protocol::MOUNT_PREFIX;
use fsdyno_host::{Command, HostError, ImageHandle, MountRequest, Result};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Where text may be written.
const SETTINGS: [&str; 2] = ["/proc/sys", "/sys"];
/// Mount options whose value is a device or a file outside of the filesystem.
const DEVICE_OPTIONS: [&str; 7] =
    ["device", "journal_path", "journal_dev", "jdev", "logdev", "rtdev", "loop"];

/// The record of actions on a machine, and of who took them.
#[derive(Debug, Default)]
pub(super) struct Conduct {
    /// Inodes of the files that were created here.
    files: BTreeSet<u64>,
    directories: BTreeSet<PathBuf>,
    /// Every path that was made, written, renamed or removed, and every device node that was opened.
    touched: BTreeSet<PathBuf>,
    /// `true` while somebody else is acting, to whom the rules do not apply.
    somebody_else: bool,
}

impl FakeHost {
    /// Every path that was made, written, renamed or removed so far, and every device node that was opened.
    pub fn touched(&self) -> &BTreeSet<PathBuf> {
        &self.conduct.touched
    }

    /// Lets another user of the machine act: the rules do not apply, and what is created is not fsdyno's.
    pub fn as_somebody_else<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.conduct.somebody_else = true;
        let result = act(self);
        self.conduct.somebody_else = false;
        result
    }

    pub(super) fn is_somebody_else(&self) -> bool {
        self.conduct.somebody_else
    }

    /// A rule: panics unless it holds. A host that is lost does nothing any more, and cannot break it.
    fn rule(&self, kept: bool, broken: impl FnOnce() -> String) {
        assert!(
            kept || self.lost || self.conduct.somebody_else,
            "no host may be asked for this: {}",
            broken()
        );
    }

    fn touch(&mut self, path: &Path) {
        if !self.lost && !self.conduct.somebody_else {
            self.conduct.touched.insert(path.to_path_buf());
        }
    }

    pub(super) fn watch_write(&mut self, path: &Path) {
        let setting = SETTINGS.iter().any(|root| path.starts_with(root));
        self.rule(setting, || format!("write text to '{}', which is no setting", path.display()));
        self.touch(path);
    }

    pub(super) fn watch_new(&mut self, path: &Path) {
        self.rule(path.is_absolute(), || format!("make '{}', a relative path", path.display()));
        self.touch(path);
    }

    pub(super) fn made_file(&mut self, inode: u64) {
        if !self.conduct.somebody_else {
            self.conduct.files.insert(inode);
        }
    }

    pub(super) fn made_directory(&mut self, path: &Path) {
        if !self.conduct.somebody_else {
            self.conduct.directories.insert(path.to_path_buf());
        }
    }

    fn is_our_file(&self, path: &Path) -> bool {
        let inode = self.machine.files.get(path).map(|(identity, _)| identity.inode);
        inode.is_none_or(|inode| self.conduct.files.contains(&inode))
    }

    /// Removing a file; the machine itself refuses one that does not exist.
    pub(super) fn watch_file(&mut self, action: &str, path: &Path) {
        self.rule(self.is_our_file(path), || {
            format!("{action} '{}', which was not made here", path.display())
        });
        self.touch(path);
    }

    /// Renaming or attaching an image, which uses its descriptor, whatever has its name by now.
    pub(super) fn watch_image(&mut self, action: &str, image: ImageHandle) {
        let Ok((path, identity)) = self.image(image) else { return };
        let ours = self.conduct.files.contains(&identity.inode);
        self.rule(ours, || format!("{action} '{}', which was not made here", path.display()));
        self.touch(&path);
    }

    pub(super) fn watch_directory_removal(&mut self, path: &Path) {
        let ours = self.conduct.directories.contains(path) || !self.machine.directories.contains(path);
        self.rule(ours, || format!("remove the directory '{}', which was not made here", path.display()));
        self.touch(path);
    }

    pub(super) fn watch_detach(&mut self, device: &Path) {
        let inode = self.machine.loops.get(device);
        let ours = inode.is_none_or(|inode| self.conduct.files.contains(inode));
        self.rule(ours, || format!("detach '{}', which holds a file of somebody else", device.display()));
        self.touch(device);
    }

    /// Opening a device for writing: a loop device on fsdyno's own file, its own layer, or a planned disk.
    pub(super) fn watch_open(&mut self, path: &Path) {
        let loop_of_ours = || self.machine.loops.get(path).map(|inode| self.conduct.files.contains(inode));
        let layer_of_ours = || self.machine.layers.get(path).map(|layer| layer.ours);
        let planned = || self.planned.as_ref().is_none_or(|planned| planned.contains(path));
        let may = loop_of_ours().or_else(layer_of_ours).unwrap_or_else(planned);
        self.rule(may, || format!("open '{}', which is neither ours nor planned", path.display()));
        self.touch(path);
    }

    /// Returns whether this node was opened by this process and has not changed since.
    fn is_verified(&self, node: &Path) -> bool {
        let now = self.probe(node).map(|probe| probe.identity);
        self.verified.get(node).is_some_and(|then| now.is_ok_and(|now| now == *then))
    }

    pub(super) fn watch_mount(&mut self, request: &MountRequest) {
        let MountRequest { source, target, .. } = request;
        self.rule(self.is_verified(source), || format!("mount '{}' without verifying it", source.display()));
        let ours =
            self.conduct.directories.contains(target) && target.to_string_lossy().starts_with(MOUNT_PREFIX);
        self.rule(ours, || format!("mount on '{}', which is no directory of ours", target.display()));
        for option in &request.options {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let names = DEVICE_OPTIONS.contains(&key) || value.contains('/');
            let within = key == "subvol";
            let known = !names || within || self.is_verified(Path::new(value));
            self.rule(known, || format!("mount with '{option}', which names a device that was not verified"));
        }
        self.touch(target);
    }

    pub(super) fn watch_unmount(&mut self, target: &Path) {
        let ours = self.conduct.directories.contains(target) || !self.is_mount_point(target);
        self.rule(ours, || format!("unmount '{}', which was not mounted here", target.display()));
    }

    fn is_mount_point(&self, path: &Path) -> bool {
        self.machine.mounts.iter().any(|mount| mount.target == path)
    }

    pub(super) fn watch_engine(&self, request: &EngineRequest) {
        let ours = |directory: &Path| {
            directory.ancestors().any(|above| self.conduct.directories.contains(above))
                // The overhead of the tool is measured in a directory of this process's own, where no file is
                // created.
                || request.workload.kind() == "null"
        };
        let directory = &request.directory;
        self.rule(ours(directory), || format!("start an engine in '{}', not made here", directory.display()));
        if let Some(device) = &request.device {
            let verified = self.verified.contains_key(device);
            self.rule(verified, || format!("give an engine '{}', which was not verified", device.display()));
        }
    }

    /// Every device of a command is open, and no word names anything else.
    pub(super) fn watch_command(&self, command: &Command) {
        for argument in &command.arguments {
            if let Some((handle, node)) = &argument.device {
                let open = self.open.get(&handle.0).is_some_and(|(open, _)| open == node);
                self.rule(open, || format!("run '{}' on '{}', not open", command.line(), node.display()));
            }
        }
        let broken = tools::broken_rule(command, &|path| self.may_be_named(path));
        self.rule(broken.is_none(), || format!("run '{}': {}", command.line(), broken.unwrap_or_default()));
    }

    /// Returns whether the words of a command may name this path: an open device, or a directory or an array
    /// that was created here.
    fn may_be_named(&self, path: &Path) -> bool {
        let open = self.open.values().any(|(node, _)| node == path);
        let layer = self.machine.layers.get(path).is_some_and(|layer| layer.ours);
        open || layer || self.conduct.directories.contains(path)
    }
}

/// A path as the kernel resolves it where there are no links: without `.` and `..`.
pub fn walked(path: &Path) -> PathBuf {
    let mut walked = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                walked.pop();
            }
            Component::CurDir => {}
            other => walked.push(other),
        }
    }
    walked
}

/// A name that no directory entry can have.
pub(super) fn check_name(action: &str, path: &Path) -> Result<()> {
    const EINVAL: i32 = 22;
    const ENAMETOOLONG: i32 = 36;
    const NAME_MAX: usize = 255;
    let text = path.as_os_str().as_encoded_bytes();
    let refused = |errno| -> Result<()> { Err::<(), HostError>(system(action, path, errno)) };
    match path.file_name() {
        _ if text.contains(&0) => refused(EINVAL),
        Some(name) if name.len() > NAME_MAX => refused(ENAMETOOLONG),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;
    use fsdyno_host::{LoopOptions, Steps};

    const OPTIONS: LoopOptions = LoopOptions { direct_io: false, block_size: 512 };

    fn host() -> FakeHost {
        let mut host = FakeHost::new();
        host.add_block("/dev/fake1", (259, 0), Bytes(Bytes::GIB));
        host.add_block("/dev/decoy", (259, 1), Bytes(Bytes::GIB));
        host.planned = Some([PathBuf::from("/dev/fake1")].into());
        host.add_file("/data/precious", Bytes(7));
        host.add_loop("/data/precious");
        host
    }

    /// Returns whether a step broke a rule.
    fn broken<T>(step: impl FnOnce(&mut FakeHost) -> Result<T>) -> bool {
        let mut host = host();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&mut host)));
        if let Ok(Err(error)) = &result {
            panic!("the machine itself refused: {error}");
        }
        result.is_err()
    }

    fn opened(host: &mut FakeHost, node: &str) -> fsdyno_host::DeviceHandle {
        let identity = host.probe_device(Path::new(node)).expect("a probe").identity;
        host.open_device(Path::new(node), &identity).expect("it may be opened")
    }

    #[test]
    fn nothing_of_somebody_else_is_changed() {
        let precious = Path::new("/data/precious");
        assert!(broken(|host| {
            let found = host.file_identity(precious)?.expect("a file");
            host.remove_file(precious, &found)
        }));
        let theirs = |host: &mut FakeHost| {
            host.as_somebody_else(|host| host.create_image(Path::new("/data/theirs"), Bytes(512)))
        };
        assert!(broken(|host| {
            let image = theirs(host)?.handle;
            host.rename_image(image, Path::new("/data/other"))
        }));
        assert!(broken(|host| {
            let image = theirs(host)?.handle;
            host.attach_loop(image, &OPTIONS)
        }));
        assert!(broken(|host| {
            let attached = host.loops()?.remove(0);
            host.detach_loop(&attached)
        }));
        assert!(broken(|host| host.remove_directory(Path::new("/data"))));
        assert!(broken(|host| {
            let identity = host.probe_device(Path::new("/dev/decoy"))?.identity;
            host.open_device(Path::new("/dev/decoy"), &identity)
        }));
        assert!(broken(|host| {
            let identity = host.probe_device(Path::new("/dev/loop0"))?.identity;
            host.open_device(Path::new("/dev/loop0"), &identity)
        }));
    }

    #[test]
    fn what_was_made_here_may_go() {
        assert!(!broken(|host| {
            let path = Path::new("/data/a/../image");
            let image = host.create_image(path, Bytes(512))?;
            host.attach_loop(image.handle, &OPTIONS)?;
            let attached = host.loops()?.pop().expect("a loop device");
            host.detach_loop(&attached)?;
            host.remove_file(path, &image.identity)?;
            host.change_setting(Path::new("/proc/sys/vm/swappiness"), "10")
        }));
    }

    #[test]
    fn nothing_is_mounted_that_was_not_verified_or_elsewhere_than_below_run() {
        let request = |target: &str, option: &str| MountRequest {
            filesystem: "ext4".into(),
            source: "/dev/fake1".into(),
            device: None,
            options: vec![option.to_string()],
            target: target.into(),
        };
        let mounted = |open: bool, target: &'static str, option: &'static str| {
            broken(move |host| {
                if open {
                    let handle = opened(host, "/dev/fake1");
                    host.downgrade_device(handle)?;
                }
                host.create_directory(Path::new(target))?;
                host.mount(&request(target, option))
            })
        };
        assert!(!mounted(true, "/run/fsdyno-1", "noatime"));
        assert!(mounted(false, "/run/fsdyno-1", "noatime"));
        assert!(mounted(true, "/srv", "noatime"));
        assert!(mounted(true, "/run/fsdyno-1", "logdev=/dev/decoy"));
        assert!(mounted(true, "/run/fsdyno-1", "journal_dev=2049"));
    }

    #[test]
    fn a_command_gets_open_devices_and_names_nothing_else() {
        let run = |words: &'static [&'static str]| {
            broken(move |host| {
                let handle = opened(host, "/dev/fake1");
                let command = Command::new("mkfs.ext4").args(words.iter().copied());
                host.run(&command.device("", handle, Path::new("/dev/fake1")))
            })
        };
        assert!(!run(&["-F", "-b", "4096", "-E", "lazy_itable_init=0"]));
        assert!(run(&["-F", "sdb"]) && run(&["-Jdevice=LABEL=x"]) && run(&["-d", "/etc"]) && run(&["-n"]));
        assert!(broken(|host| {
            let handle = opened(host, "/dev/fake1");
            host.close_device(handle)?;
            host.run(&Command::new("mkfs.ext4").device("", handle, Path::new("/dev/fake1")))
        }));
    }

    #[test]
    fn somebody_else_may_do_as_they_like() {
        let mut host = host();
        let precious = Path::new("/data/precious");
        let found = host.file_identity(precious).expect("a look").expect("a file");
        let attached = host.loops().expect("loop devices").remove(0);
        host.as_somebody_else(|host| host.detach_loop(&attached)).expect("detached");
        host.as_somebody_else(|host| host.remove_file(precious, &found)).expect("removed");
    }
}
