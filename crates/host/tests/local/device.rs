//! Open devices: identity, locks, and tools on the descriptor.

use crate::support::Requirement::{Loop, Program, Root};
use crate::support::{Afterwards, Sandbox, Test, attach, detach, host, sh};
use fsdyno_host::local::LocalHost;
use fsdyno_host::probe::DeviceIdentity;
use fsdyno_host::{Command, DeviceHandle, HostError, Steps};
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::path::{Path, PathBuf};

pub const TESTS: &[Test] = &[
    Test {
        name: "device::one_that_was_attached_anew_is_refused",
        requires: &[Root, Loop, Program("wipefs")],
        body: attached_anew,
    },
    Test {
        name: "device::one_that_changes_while_open_is_refused",
        requires: &[Root, Loop, Program("wipefs")],
        body: changed,
    },
    Test {
        name: "device::the_lock_excludes_others_and_others_exclude_us",
        requires: &[Root, Loop, Program("wipefs")],
        body: locked,
    },
    Test {
        name: "device::a_partition_locks_its_disk",
        requires: &[Root, Loop, Program("addpart")],
        body: partition_locked,
    },
    Test {
        name: "device::mkfs_works_on_the_descriptor",
        requires: &[
            Root,
            Loop,
            Program("wipefs"),
            Program("mkfs.ext4"),
            Program("mkfs.xfs"),
            Program("mkfs.btrfs"),
        ],
        body: mkfs,
    },
    Test {
        name: "device::no_other_program_gets_the_descriptor",
        requires: &[Root, Loop, Program("wipefs")],
        body: not_inherited,
    },
];

fn identity(device: &Path) -> DeviceIdentity {
    let probe = host().probe_device(device).unwrap();
    assert!(probe.identity.diskseq.is_some(), "{probe:?}");
    probe.identity
}

fn attached_anew(sandbox: &Sandbox) {
    let image = sandbox.image("image", 64);
    let device = attach(&image);
    let before = identity(&device);
    detach(&device);
    let again = attach(&image);
    let mut host = host();
    let error = host.open_device(&again, &before).unwrap_err();
    assert!(matches!(error, HostError::IdentityChanged { .. }), "{error}");
    let handle = host.open_device(&again, &identity(&again)).unwrap();
    host.close_device(handle).unwrap();
    detach(&again);
    let error = host.verify_device(handle, &before).unwrap_err();
    assert_eq!(error.errno(), Some(9), "{error}");
}

/// The size is asked again on the same descriptor.
fn changed(sandbox: &Sandbox) {
    let image = sandbox.image("image", 64);
    let device = attach(&image);
    let expected = identity(&device);
    let mut host = host();
    let handle = host.open_device(&device, &expected).unwrap();
    host.verify_device(handle, &expected).unwrap();
    fs::File::options().write(true).open(&image).unwrap().set_len(128 << 20).unwrap();
    sh(&format!("losetup --set-capacity {}", device.display()));
    let error = host.verify_device(handle, &expected).unwrap_err();
    assert!(error.to_string().contains("67108864 and is 134217728"), "{error}");
    host.close_device(handle).unwrap();
    detach(&device);
}

fn locked(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    let expected = identity(&device);
    let mut ours = host();
    let handle = ours.open_device(&device, &expected).unwrap();
    let error = host().open_device(&device, &expected).unwrap_err();
    assert_eq!(error.errno(), Some(11), "{error}");
    ours.close_device(handle).unwrap();
    let other = fs::File::open(&device).unwrap();
    flock(&other, FlockOperation::LockShared).unwrap();
    let error = ours.open_device(&device, &expected).unwrap_err();
    assert_eq!(error.errno(), Some(11), "{error}");
    flock(&other, FlockOperation::Unlock).unwrap();
    let handle = ours.open_device(&device, &expected).unwrap();
    ours.close_device(handle).unwrap();
    drop(other);
    detach(&device);
}

/// udev looks at no lock but that of the whole disk, whichever partition it is about.
fn partition_locked(sandbox: &Sandbox) {
    let disk = sandbox.device("image", 64);
    let node = disk.display();
    let undo = Afterwards(format!("delpart {node} 1; delpart {node} 2"));
    sh(&format!("addpart {node} 1 2048 32768; addpart {node} 2 65536 32768"));
    let [one, two] = [1, 2].map(|number| PathBuf::from(format!("{node}p{number}")));
    let mut ours = host();
    let open = |host: &mut LocalHost, device: &Path| host.open_device(device, &identity(device));
    let handles = [&one, &two].map(|partition| open(&mut ours, partition).unwrap());
    let udev = fs::File::open(&disk).unwrap();
    let locked = |file: &fs::File| flock(file, FlockOperation::NonBlockingLockShared).is_err();
    assert!(locked(&udev), "both of one disk");
    ours.close_device(handles[0]).unwrap();
    assert!(locked(&udev), "the other one is open");
    ours.downgrade_device(handles[1]).unwrap();
    assert!(!locked(&udev), "it can be mounted");
    let error = open(&mut ours, &one).unwrap_err();
    assert_eq!(error.errno(), Some(11), "{error}");
    ours.close_device(handles[1]).unwrap();
    drop(udev);
    let handle = open(&mut ours, &one).unwrap();
    ours.close_device(handle).unwrap();
    drop(undo);
    detach(&disk);
}

fn mkfs(sandbox: &Sandbox) {
    let device = sandbox.device("image", 512);
    let expected = identity(&device);
    let commands = [
        ("ext4", "mkfs.ext4", ["-q", "-F"]),
        ("xfs", "mkfs.xfs", ["-q", "-f"]),
        ("btrfs", "mkfs.btrfs", ["-q", "-f"]),
    ];
    for (filesystem, program, arguments) in commands {
        let mut host = host();
        let handle = host.open_device(&device, &expected).unwrap();
        let command = Command::new(program).args(arguments).device("", handle, &device);
        let output = host.run(&command).unwrap();
        assert_eq!(output.status, 0, "{}: {}", command.line(), output.stderr);
        host.verify_device(handle, &expected).unwrap();
        host.close_device(handle).unwrap();
        assert_eq!(host.probe_device(&device).unwrap().signatures[0].kind, filesystem);
    }
    detach(&device);
}

fn not_inherited(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    let mut host = host();
    let handle = host.open_device(&device, &identity(&device)).unwrap();
    let links = |host: &mut LocalHost, with: Option<DeviceHandle>| {
        let mut command = Command::new("sh").args(["-c", "readlink /proc/self/fd/*", "sh"]);
        if let Some(handle) = with {
            command = command.device("", handle, &device);
        }
        host.run(&command).unwrap().stdout
    };
    let node = device.to_str().unwrap();
    assert!(!links(&mut host, None).contains(node));
    assert!(links(&mut host, Some(handle)).contains(node));
    assert!(!links(&mut host, None).contains(node));
    host.close_device(handle).unwrap();
    detach(&device);
}
