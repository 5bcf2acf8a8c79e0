//! Mounting and unmounting, with options that are taken and options that are refused.

use crate::support::Requirement::{Filesystem, Loop, Program, Root};
use crate::support::{Sandbox, Test, detach, host, request, sh};
use fsdyno_host::{HostError, MountRequest, Steps};
use std::fs;
use std::path::Path;

pub const TESTS: &[Test] = &[
    Test {
        name: "mount::ext4",
        requires: &[Root, Loop, Filesystem("ext4"), Program("mkfs.ext4")],
        body: ext4,
    },
    Test { name: "mount::xfs", requires: &[Root, Loop, Filesystem("xfs"), Program("mkfs.xfs")], body: xfs },
    Test {
        name: "mount::btrfs",
        requires: &[Root, Loop, Filesystem("btrfs"), Program("mkfs.btrfs")],
        body: btrfs,
    },
    Test {
        name: "mount::options_of_the_mount_itself",
        requires: &[Root, Loop, Filesystem("ext4"), Program("mkfs.ext4")],
        body: attributes,
    },
    Test {
        name: "mount::a_busy_mount_stays",
        requires: &[Root, Loop, Filesystem("ext4"), Program("mkfs.ext4")],
        body: busy,
    },
    Test {
        name: "mount::only_of_the_device_that_is_open",
        requires: &[Root, Loop, Filesystem("ext4"), Program("mkfs.ext4"), Program("wipefs")],
        body: open_device,
    },
    Test { name: "mount::what_cannot_be_mounted_is_named", requires: &[Root, Loop], body: impossible },
];

/// Mounts with `good`, expects these options in force; then each of `bad` alone, expects the option named,
/// these words in the reason, and nothing mounted.
fn options(
    sandbox: &Sandbox,
    mkfs: &str,
    filesystem: &str,
    good: &[&str],
    in_force: &[&str],
    bad: &[(&str, &str)],
) {
    let device = sandbox.device("image", 512);
    sh(&format!("{mkfs} {}", device.display()));
    let target = sandbox.directory("mnt");
    let mut host = host();
    host.mount(&request(filesystem, &device, &target, good)).unwrap();
    let mounts = host.mounts().unwrap();
    let mount = mounts.iter().find(|mount| mount.target == target).unwrap();
    fs::write(target.join("file"), "text").unwrap();
    host.unmount(&target).unwrap();
    assert_eq!((mount.filesystem.as_str(), mount.source.as_str()), (filesystem, device.to_str().unwrap()));
    for option in in_force {
        assert!(mount.options.split(',').any(|found| found == *option), "{option} not in {}", mount.options);
    }
    for (option, words) in bad {
        let result = host.mount(&request(filesystem, &device, &target, &[option]));
        if result.is_ok() {
            host.unmount(&target).unwrap();
        }
        let error = result.unwrap_err();
        let HostError::Mount { option: named, errno, reason, .. } = &error else { panic!("{error}") };
        assert_eq!((named.as_deref(), *errno), (Some(*option), 22), "{error}");
        assert!(reason.contains(words), "{reason}");
    }
    detach(&device);
}

fn ext4(sandbox: &Sandbox) {
    let good = ["data=writeback", "commit=7", "nodelalloc", "barrier=0", "noatime"];
    let in_force = ["data=writeback", "commit=7", "nodelalloc", "nobarrier", "noatime"];
    let unknown = "Unknown parameter";
    let bad = [
        ("data=nonsense", "data"),
        ("nosuchoption", unknown),
        ("commit=abc", "commit"),
        ("logbufs=8", unknown),
    ];
    options(sandbox, "mkfs.ext4 -q", "ext4", &good, &in_force, &bad);
}

/// xfs checks `logbufs` only when it reads the superblock, and says so only in the kernel's log.
fn xfs(sandbox: &Sandbox) {
    let good = ["logbufs=4", "logbsize=128k", "nodiratime"];
    let in_force = ["logbufs=4", "logbsize=128k", "nodiratime", "relatime"];
    options(
        sandbox,
        "mkfs.xfs -q",
        "xfs",
        &good,
        &in_force,
        &[("nobarrier", "nobarrier"), ("logbufs=9", "invalid logbufs value"), ("logbsize=x", "logbsize")],
    );
}

fn btrfs(sandbox: &Sandbox) {
    let good = ["compress=zstd", "nodatasum,commit=9"];
    let in_force = ["nodatasum", "commit=9"];
    options(
        sandbox,
        "mkfs.btrfs -q",
        "btrfs",
        &good,
        &in_force,
        &[("compress=rar", "compress"), ("nosuchoption=1", "Unknown parameter")],
    );
}

fn attributes(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    sh(&format!("mkfs.ext4 -q {}", device.display()));
    let target = sandbox.directory("mnt");
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["defaults"], &["relatime"], &["ro", "noatime"]),
        (&["strictatime"], &[], &["relatime", "noatime"]),
        (&["noatime", "relatime"], &["relatime"], &["noatime"]),
        (
            &["nodiratime", "noatime,nosuid", "nodev", "noexec"],
            &["nodiratime", "noatime", "nosuid", "nodev", "noexec"],
            &["relatime"],
        ),
        (&["ro"], &["ro"], &["rw"]),
    ];
    for (asked, present, absent) in cases {
        host().mount(&request("ext4", &device, &target, asked)).unwrap();
        let mounts = host().mounts().unwrap();
        host().unmount(&target).unwrap();
        let mount = mounts.iter().find(|mount| mount.target == target).unwrap();
        let options: Vec<&str> = mount.options.split(',').collect();
        assert!(present.iter().all(|one| options.contains(one)), "{asked:?}: {options:?}");
        assert!(!absent.iter().any(|one| options.contains(one)), "{asked:?}: {options:?}");
    }
    detach(&device);
}

/// A path that leads elsewhere by now is not mounted, and a mount claims the descriptor that stays open.
fn open_device(sandbox: &Sandbox) {
    let devices = [sandbox.device("one", 64), sandbox.device("two", 64)];
    devices.iter().for_each(|device| drop(sh(&format!("mkfs.ext4 -q {}", device.display()))));
    let [one, two] = &devices;
    let target = sandbox.directory("mnt");
    let mut host = host();
    let identity = host.probe_device(one).unwrap().identity;
    let handle = host.open_device(one, &identity).unwrap();
    assert!(!host.is_claimed(handle).unwrap());
    host.downgrade_device(handle).unwrap();
    host.verify_device(handle, &identity).unwrap();
    assert!(host.mark_device(handle, Path::new("/dev/loop")).is_err(), "it is open for reading only");
    let elsewhere = MountRequest { device: Some(handle), ..request("ext4", two, &target, &[]) };
    let error = host.mount(&elsewhere).unwrap_err();
    assert!(matches!(error, HostError::IdentityChanged { .. }), "{error}");
    let here = MountRequest { device: Some(handle), ..request("ext4", one, &target, &[]) };
    host.mount(&here).unwrap();
    assert!(host.is_claimed(handle).unwrap());
    host.verify_device(handle, &identity).unwrap();
    host.close_device(handle).unwrap();
    host.unmount(&target).unwrap();
    devices.iter().for_each(|device| detach(device));
}

fn busy(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    sh(&format!("mkfs.ext4 -q {}", device.display()));
    let target = sandbox.directory("mnt");
    host().mount(&request("ext4", &device, &target, &[])).unwrap();
    let held = fs::File::create(target.join("held")).unwrap();
    let error = host().unmount(&target).unwrap_err();
    assert_eq!(error.errno(), Some(16), "{error}");
    assert!(host().mounts().unwrap().iter().any(|mount| mount.target == target));
    drop(held);
    host().unmount(&target).unwrap();
    let error = host().unmount(&target).unwrap_err();
    assert_eq!(error.errno(), Some(22), "{error}");
    detach(&device);
}

fn impossible(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    let target = sandbox.directory("mnt");
    let fails = |filesystem: &str, source: &Path, target: &Path| {
        let error = host().mount(&request(filesystem, source, target, &[])).unwrap_err();
        (error.errno(), error.to_string())
    };
    let (errno, text) = fails("nosuchfs", &device, &target);
    assert_eq!(errno, Some(19));
    assert!(text.contains("nosuchfs"), "{text}");
    let (errno, _) = fails("ext4", &device, &target);
    assert_eq!(errno, Some(22), "nothing was formatted");
    let (errno, _) = fails("ext4", &sandbox.path("nothing"), &target);
    assert_eq!(errno, Some(2));
    detach(&device);
}
