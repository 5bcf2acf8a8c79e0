//! A machine in memory with the remains of a trial, and with files and devices of other people.

use fsdyno_core::Bytes;
use fsdyno_host::probe::FileIdentity;
use fsdyno_host::{Command, LoopOptions, MountRequest, Steps};
use fsdyno_testkit::fake::{FakeHost, Machine};
use std::path::{Path, PathBuf};

/// The random part of the names that a trial has left, in place of 128 random bits.
const ID: &str = "00000000000000000000000000000001";
const UUID: &str = "66736479-6e6f-8000-8000-000000000001";
const ARRAY: &str = "01234567:89abcdef:01234567:89abcdef";
/// A file of somebody else, which also has a loop device.
const DIARY: &str = "/data/diary";
/// Text files of others; none of them is a setting.
const OTHERS: &[(&str, &str)] =
    &[("/etc/passwd", "root:x:0:0::/root:/bin/sh\n"), ("/root/notes", "mine\n"), ("/proc/sysrq-trigger", "")];
const OTHER_DIRECTORIES: &[&str] = &["/home", "/root", "/run/user"];
const OTHER_MOUNT: &str = "/home";

/// The machine on which a trial was killed. It panics if it is asked to do what is never allowed.
pub fn with_remains() -> FakeHost {
    let mut host = FakeHost::new();
    host.add_file(DIARY, Bytes(1 << 20));
    host.add_loop(DIARY);
    for (path, text) in OTHERS {
        host.write_setting(path, text);
    }
    for directory in OTHER_DIRECTORIES {
        host.add_directory(directory);
    }
    for (minor, disk) in [(0, "/dev/decoy"), (1, "/dev/sdb"), (2, "/dev/sdc"), (3, "/dev/sdd")] {
        host.add_block(disk, (259, minor), Bytes(1 << 30));
        host.write_setting(disk, "");
    }
    host.planned = Some(["/dev/sdb", "/dev/sdc", "/dev/sdd"].map(PathBuf::from).into());
    host.as_somebody_else(|host| mount(host, "/dev/decoy", OTHER_MOUNT));
    leave_trial(&mut host);
    host.revive();
    host
}

/// Leaves a disk with a mount, an image on a loop device, an array, settings and directories.
fn leave_trial(host: &mut FakeHost) {
    let options = LoopOptions { direct_io: true, block_size: 512 };
    let image = host.create_image(Path::new("/data/fsdyno.img"), Bytes(1 << 30)).expect("an image");
    host.attach_loop(image.handle, &options).expect("a loop device");
    host.create_image(Path::new(&format!("/data/.fsdyno-{ID}")), Bytes(0)).expect("an image");
    host.create_directory(Path::new(&format!("/data/fsdyno-{ID}"))).expect("a directory");
    let handle = open(host, "/dev/sdb");
    let mkfs = Command::new("mkfs.ext4").args(["-U", UUID]).device("", handle, Path::new("/dev/sdb"));
    host.run(&mkfs).expect("a filesystem");
    host.close_device(handle).expect("closed");
    let target = format!("/run/fsdyno-{ID}");
    host.create_directory(Path::new(&target)).expect("a directory");
    mount(host, "/dev/sdb", &target);
    let members = ["/dev/sdc", "/dev/sdd"].map(|disk| (open(host, disk), disk));
    let uuid = format!("--uuid={ARRAY}");
    let create = Command::new("mdadm").args([
        "--create",
        "/dev/md/fsdyno-000000000000000000000001",
        &uuid,
        "--level=1",
    ]);
    let create =
        members.iter().fold(create, |create, (handle, disk)| create.device("", *handle, Path::new(disk)));
    host.run(&create).expect("an array");
    host.change_setting(Path::new("/proc/sys/vm/dirty_ratio"), "5").expect("a setting");
}

fn open(host: &mut FakeHost, disk: &str) -> fsdyno_host::DeviceHandle {
    let identity = host.probe_device(Path::new(disk)).expect("a probe").identity;
    host.open_device(Path::new(disk), &identity).expect("a descriptor")
}

fn mount(host: &mut FakeHost, disk: &str, target: &str) {
    let handle = open(host, disk);
    host.downgrade_device(handle).expect("a reader");
    let request = MountRequest {
        filesystem: "ext4".to_string(),
        source: disk.into(),
        device: Some(handle),
        options: vec!["noatime".to_string()],
        target: target.into(),
    };
    host.mount(&request).expect("a mount");
    host.close_device(handle).expect("closed");
}

/// Panics unless everything that belongs to others is as it was.
pub fn assert_untouched(before: &Machine, after: &Machine) {
    for (path, text) in OTHERS {
        assert_eq!(after.texts.get(Path::new(path)).map(String::as_str), Some(*text), "{path} has changed");
    }
    let diary = Path::new(DIARY);
    assert_eq!(after.files.get(diary), before.files.get(diary), "{DIARY} has changed");
    for directory in OTHER_DIRECTORIES {
        assert!(after.directories.contains(Path::new(directory)), "'{directory}' is gone");
    }
    let mounted =
        |machine: &Machine| machine.mounts.iter().any(|mount| mount.target == Path::new(OTHER_MOUNT));
    assert_eq!(mounted(after), mounted(before), "'{OTHER_MOUNT}' was unmounted");
    let inode = before.files[diary].0.inode;
    let attached = |machine: &Machine| machine.loops.values().filter(|found| **found == inode).count();
    assert_eq!(attached(after), attached(before), "the loop device on {DIARY} was detached");
    assert!(after.texts.keys().all(|path| before.texts.contains_key(path)), "a setting was created");
    assert!(after.files.keys().all(|path| before.files.contains_key(path)), "a file was created");
}

/// Returns whether this identity is that of a file of somebody else. A journal that contains it looks like an
/// honest one.
pub fn is_of_others(host: &FakeHost, identity: &FileIdentity) -> bool {
    host.snapshot().files[Path::new(DIARY)].0.inode == identity.inode
}
