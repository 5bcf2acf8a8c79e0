//! Attaching and detaching.

use crate::support::Requirement::{Filesystem, Loop, Program, Root};
use crate::support::{Sandbox, Test, attach, attached, detach, host, request, sh};
use fsdyno_core::Bytes;
use fsdyno_host::{AttachedLoop, HostError, LoopOptions, Steps};
use std::fs;
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
    Test {
        name: "loops::one_that_was_attached_anew_is_left_alone",
        requires: &[Root, Loop],
        body: attached_anew,
    },
    Test {
        name: "loops::one_that_has_lost_its_discards_gets_them_back",
        requires: &[Root, Loop],
        body: lost_discards,
    },
    Test { name: "loops::a_short_opener_is_waited_for", requires: &[Root, Loop], body: short_opener },
    Test { name: "loops::a_free_device_cannot_be_detached", requires: &[Root, Loop], body: free_device },
];

fn sysfs(device: &Path, file: &str) -> String {
    let name = device.file_name().unwrap().to_str().unwrap();
    fs::read_to_string(format!("/sys/block/{name}/{file}")).unwrap_or_default().trim().to_string()
}

fn attached_as_asked(sandbox: &Sandbox) {
    let path = sandbox.path("image");
    let mut host = host();
    let image = host.create_image(&path, Bytes(64 << 20)).unwrap();
    for (direct_io, block_size) in [(false, 512), (true, 4096)] {
        let options = LoopOptions { direct_io, block_size };
        let AttachedLoop { node, identity, read_only } = host.attach_loop(image.handle, &options).unwrap();
        let found = attached(&node).unwrap();
        assert_eq!(
            (found.backing_device, found.backing_inode),
            (image.identity.device, image.identity.inode)
        );
        assert_eq!((found.diskseq, found.backing_path.as_str()), (identity.diskseq, path.to_str().unwrap()));
        assert_eq!(host.probe_device(&node).unwrap().identity, identity);
        assert!(!read_only);
        assert_eq!(sysfs(&node, "loop/dio"), if direct_io { "1" } else { "0" });
        assert_eq!(sysfs(&node, "queue/logical_block_size"), block_size.to_string());
        assert_eq!((sysfs(&node, "loop/autoclear"), sysfs(&node, "loop/partscan")), ("0".into(), "0".into()));
        let device = host.open_device(&node, &identity).unwrap();
        host.verify_device(device, &identity).unwrap();
        host.close_device(device).unwrap();
        host.detach_loop(&found).unwrap();
        assert_eq!(attached(&node), None);
    }
}

/// A file on a filesystem over 4 KiB sectors cannot be read directly in units of 512 bytes.
fn not_in_force(sandbox: &Sandbox) {
    let mut host = host();
    let outer = host.create_image(&sandbox.path("outer"), Bytes(64 << 20)).unwrap();
    let outer =
        host.attach_loop(outer.handle, &LoopOptions { direct_io: false, block_size: 4096 }).unwrap().node;
    sh(&format!("mkfs.ext4 -q {}", outer.display()));
    let target = sandbox.directory("mnt");
    host.mount(&request("ext4", &outer, &target, &[])).unwrap();
    let inner = host.create_image(&target.join("inner"), Bytes(1 << 20)).unwrap();
    let error =
        host.attach_loop(inner.handle, &LoopOptions { direct_io: true, block_size: 512 }).unwrap_err();
    let left = host.loops().unwrap().into_iter().any(|one| one.backing_path.ends_with("inner"));
    host.close_image(inner.handle).unwrap();
    host.unmount(&target).unwrap();
    detach(&outer);
    assert!(!left, "{error}");
    assert!(error.to_string().contains("inner"), "{error}");
}

/// Whoever switched discards off, as images that are kept need it, was killed before it could undo that.
fn lost_discards(sandbox: &Sandbox) {
    const LIMIT: &str = "queue/discard_max_bytes";
    let mut host = host();
    let first = sandbox.image("first", 16);
    let node = attach(&first);
    let name = node.file_name().unwrap().to_str().unwrap();
    let could = sysfs(&node, LIMIT) != "0";
    fs::write(format!("/sys/block/{name}/{LIMIT}"), "0").unwrap();
    sh(&format!("losetup -d {}", node.display()));
    let image = host.create_image(&sandbox.path("next"), Bytes(16 << 20)).unwrap();
    let options = LoopOptions { direct_io: true, block_size: 512 };
    let next = host.attach_loop(image.handle, &options).unwrap();
    assert_eq!(next.node, node, "the kernel gives the free one with the lowest number");
    let can = sysfs(&node, LIMIT) != "0";
    let found = attached(&node).unwrap();
    host.detach_loop(&found).unwrap();
    assert_eq!(can, could);
}

/// Somebody detaches ours and attaches something to the same number, another file or the same one.
fn attached_anew(sandbox: &Sandbox) {
    let (image, other) = (sandbox.image("image", 16), sandbox.image("other", 16));
    for next in [&other, &image] {
        let device = attach(&image);
        let before = attached(&device).unwrap();
        sh(&format!("losetup --detach {0} && losetup {0} {1}", device.display(), next.display()));
        let error = host().detach_loop(&before).unwrap_err();
        let now = attached(&device).unwrap();
        detach(&device);
        assert!(
            matches!(&error, HostError::Replaced { path, .. } if *path == device.to_string_lossy()),
            "{error}"
        );
        assert_eq!(now.backing_path, next.to_string_lossy());
        assert_ne!(now.diskseq, before.diskseq, "{error}");
    }
}

fn open_stays(sandbox: &Sandbox) {
    let device = sandbox.device("image", 16);
    let held = fs::File::open(&device).unwrap();
    let error = host().detach_loop(&attached(&device).unwrap()).unwrap_err();
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
    let error = host().detach_loop(&attached(&device).unwrap()).unwrap_err();
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
    let before = attached(&device).unwrap();
    detach(&device);
    let error = host().detach_loop(&before).unwrap_err();
    // Others may attach the same number at this moment.
    let foreign = matches!(error, HostError::Replaced { .. });
    assert!(foreign || matches!(error.errno(), Some(6 | 2)), "{error}");
}
