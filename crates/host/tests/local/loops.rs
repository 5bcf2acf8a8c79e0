//! Attaching and detaching.

use crate::support::Requirement::{Filesystem, Loop, Program, Root};
use crate::support::{Sandbox, Test, attach, detach, host, request, sh};
use fsdyno_host::{Host, LoopOptions};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub const TESTS: &[Test] = &[
    Test {
        name: "loops::attached_as_asked_and_gone_after",
        requires: &[Root, Loop],
        body: attached_as_asked,
    },
    Test {
        name: "loops::an_option_that_is_not_in_force_is_an_error",
        requires: &[Root, Loop, Filesystem("ext4"), Program("mkfs.ext4")],
        body: not_in_force,
    },
    Test { name: "loops::one_that_is_open_stays_attached", requires: &[Root, Loop], body: open_stays },
    Test {
        name: "loops::one_that_is_mounted_stays_attached",
        requires: &[Root, Loop, Filesystem("ext4"), Program("mkfs.ext4")],
        body: mounted_stays,
    },
    Test { name: "loops::a_short_opener_is_waited_for", requires: &[Root, Loop], body: short_opener },
    Test { name: "loops::a_free_device_cannot_be_detached", requires: &[Root, Loop], body: free_device },
];

fn sysfs(device: &Path, file: &str) -> String {
    let name = device.file_name().unwrap().to_str().unwrap();
    fs::read_to_string(format!("/sys/block/{name}/{file}")).unwrap_or_default().trim().to_string()
}

fn attached_as_asked(sandbox: &Sandbox) {
    let image = sandbox.image("image", 64);
    let mut host = host();
    for (direct_io, block_size) in [(false, 512), (true, 4096)] {
        let device = host.attach_loop(&image, &LoopOptions { direct_io, block_size }).unwrap();
        let found = host.loops().unwrap().into_iter().find(|one| one.device == device).unwrap();
        assert_eq!(found.backing_inode, fs::metadata(&image).unwrap().ino());
        assert_eq!(host.file_identity(&image).unwrap().unwrap().device, found.backing_device);
        assert_eq!(found.backing_path, image.to_str().unwrap());
        assert_eq!(sysfs(&device, "loop/dio"), if direct_io { "1" } else { "0" });
        assert_eq!(sysfs(&device, "queue/logical_block_size"), block_size.to_string());
        assert_eq!(
            (sysfs(&device, "loop/autoclear"), sysfs(&device, "loop/partscan")),
            ("0".into(), "0".into())
        );
        host.detach_loop(&device).unwrap();
        assert!(host.loops().unwrap().iter().all(|one| one.device != device));
    }
}

/// A file on a filesystem over 4 KiB sectors cannot be read directly in units of 512 bytes.
fn not_in_force(sandbox: &Sandbox) {
    let mut host = host();
    let outer = sandbox.image("outer", 64);
    let outer = host.attach_loop(&outer, &LoopOptions { direct_io: false, block_size: 4096 }).unwrap();
    sh(&format!("mkfs.ext4 -q {}", outer.display()));
    let target = sandbox.directory("mnt");
    host.mount(&request("ext4", &outer, &target, &[])).unwrap();
    let inner = target.join("inner");
    host.create_image(&inner, fsdyno_core::Bytes(1 << 20)).unwrap();
    let error = host.attach_loop(&inner, &LoopOptions { direct_io: true, block_size: 512 }).unwrap_err();
    let attached = host.loops().unwrap().into_iter().any(|one| one.backing_path.ends_with("inner"));
    host.unmount(&target).unwrap();
    host.detach_loop(&outer).unwrap();
    assert!(!attached, "{error}");
    assert!(error.to_string().contains("inner"), "{error}");
}

fn open_stays(sandbox: &Sandbox) {
    let device = sandbox.device("image", 16);
    let held = fs::File::open(&device).unwrap();
    let error = host().detach_loop(&device).unwrap_err();
    assert_eq!(error.errno(), Some(16), "{error}");
    assert_eq!(sysfs(&device, "loop/autoclear"), "0");
    drop(held);
    assert_ne!(sysfs(&device, "loop/backing_file"), "", "detached by a close that came later");
    detach(&device);
}

fn mounted_stays(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    sh(&format!("mkfs.ext4 -q {}", device.display()));
    let target = sandbox.directory("mnt");
    host().mount(&request("ext4", &device, &target, &[])).unwrap();
    let error = host().detach_loop(&device).unwrap_err();
    host().unmount(&target).unwrap();
    assert_eq!(error.errno(), Some(16), "{error}");
    assert_ne!(sysfs(&device, "loop/backing_file"), "", "detached by the unmount");
    detach(&device);
}

fn short_opener(sandbox: &Sandbox) {
    let device = sandbox.device("image", 16);
    let held = fs::File::open(&device).unwrap();
    let letting_go = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(held);
    });
    detach(&device);
    letting_go.join().unwrap();
    assert_eq!(sysfs(&device, "loop/backing_file"), "");
}

fn free_device(sandbox: &Sandbox) {
    let image = sandbox.image("image", 16);
    let device = attach(&image);
    detach(&device);
    // Others may attach the same number at this moment: then it is busy with theirs or free again, and stays as it was.
    let before = sysfs(&device, "loop/backing_file");
    if before.is_empty() {
        let error = host().detach_loop(&device).unwrap_err();
        assert!(matches!(error.errno(), Some(6 | 2)), "{error}");
    }
    let error =
        host().attach_loop(&sandbox.path("missing"), &LoopOptions { direct_io: false, block_size: 512 });
    assert_eq!(error.unwrap_err().errno(), Some(2));
}
