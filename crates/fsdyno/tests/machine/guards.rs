//! Every guard on real devices: refused with the reason, exit code 3, and not one byte written.
//!
//! Each test creates a device that must not be touched, names it and confirms it. The guards are asked first,
//! so that a broken guard is found before a sweep starts. Then the binary runs a plan that names the device,
//! and the hash of the device is compared with the one from before.

use crate::support::guarded::{
    BTRFS, LOOP, LVM, Loop, Mount, NAMESPACE, PARTX, Partitions, Process, Swap, ask, block, confirming, ext4,
    hash, host, overwrite, partition_table, refused, refused_with, succeed, tool, write_at,
};
use crate::support::{Requirement, Sandbox};
use fsdyno_core::device::Block;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::Steps;
use fsdyno_testbed::guard::identity_text;
use fsdyno_testbed::{Confirmation, Testbed};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

const SWAP: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("swapon")];
const XFS: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("mkfs.xfs")];
const LUKS: &[Requirement] = &[Requirement::Root, Requirement::Loop, Requirement::Program("cryptsetup")];

tests! {
    a_device_that_is_not_confirmed: LOOP;
    a_mounted_device: LOOP => mounted;
    a_device_mounted_in_another_namespace: NAMESPACE;
    a_device_in_use_as_swap: SWAP => swap;
    a_device_held_open_by_another_process: LOOP;
    a_descriptor_that_fsdyno_was_started_with_is_named: LOOP;
    a_second_loop_device_over_a_mounted_file: LOOP;
    a_member_of_a_mounted_btrfs: BTRFS;
    a_signature_of_ext4: LOOP => || { signature("ext4", 64, |d| tool("mkfs.ext4", &["-q", "-F"], d)) };
    a_signature_of_xfs: XFS => || signature("xfs", 300, |d| tool("mkfs.xfs", &["-q"], d));
    a_signature_of_btrfs: BTRFS => || { signature("btrfs", 128, |d| tool("mkfs.btrfs", &["-q"], d)) };
    a_signature_of_swap: LOOP => || signature("swap", 64, |d| tool("mkswap", &[], d));
    a_signature_of_lvm: LVM => || { signature("LVM2_member", 64, |d| tool("pvcreate", &["-q", "-y"], d)) };
    a_signature_of_luks: LUKS => || signature("crypto_LUKS", 64, luks);
    a_signature_of_md: LOOP => || signature("linux_raid_member", 64, md_superblock);
    a_partition_table: LOOP => || signature("dos", 64, partition_table);
    a_disk_with_partitions: PARTX;
    a_device_that_is_too_small: LOOP;
    another_device_than_the_plan_pins: LOOP;
    another_device_than_the_guards_saw: LOOP;
    the_disk_of_the_root_filesystem: LOOP;
    a_symlink_to_the_disk_of_the_root_filesystem: LOOP;
    a_device_that_carries_the_store: LOOP;
    an_image_path_that_exists: LOOP;
    a_path_that_is_not_a_device: LOOP;
}

// The guards, one by one.

fn a_device_that_is_not_confirmed() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let none = Confirmation::default();
    refused_with(&sandbox, &block(&device.node), &none, "not confirmed", &[&device.image]);
    assert!(
        ask(&sandbox, &block(&device.node), &confirming(&device.node)).is_empty(),
        "confirmed, it may be used"
    );
}

fn mounted() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let _mount = Mount::new(&sandbox, &device.node);
    refused(&sandbox, &block(&device.node), "is mounted on", &[&device.image]);
}

fn a_device_mounted_in_another_namespace() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let directory = sandbox.path("hidden");
    fs::create_dir(&directory).expect("a directory");
    let script = format!(
        "mount -o noatime {} {} && echo ready && read nothing; umount {1}",
        device.node.display(),
        directory.display()
    );
    let process = Process::shell(&["unshare", "-m", "--propagation", "private"], &script);
    refused(&sandbox, &block(&device.node), "mount namespace", &[&device.image]);
    drop(process);
}

fn swap() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    tool("mkswap", &["-q"], &device.node);
    let _swap = Swap::new(&device.node);
    // No hash, because the kernel itself may write there.
    refused(&sandbox, &block(&device.node), "is in use as swap", &[]);
}

fn a_device_held_open_by_another_process() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let script = format!("exec 9<{}; echo ready; read nothing", device.node.display());
    let process = Process::shell(&[], &script);
    refused(&sandbox, &block(&device.node), "held open by process", &[&device.image]);
    drop(process);
}

fn a_descriptor_that_fsdyno_was_started_with_is_named() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let node = device.node.display();
    let plan = format!(
        "[device]\nblock = \"{node}\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\nkind = \"null\"\n"
    );
    sandbox.write("plan.toml", &plan);
    let plan_with = |descriptor: &str| {
        let fsdyno = sandbox.fsdyno(&["plan", "plan.toml"]);
        let script = format!("exec \"$@\" {descriptor}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(fsdyno.get_program()).args(fsdyno.get_args());
        shell.env("XDG_STATE_HOME", sandbox.path("state")).current_dir(sandbox.path(""));
        let output = shell.output().expect("run sh");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = plan_with(&format!("7<{node}"));
    let reason = "is held open by fsdyno itself, which was started with it as descriptor 7\n  hint: ";
    assert!(code == Some(3) && said.contains(reason) && said.contains("add 7<&- to"), "{said}");
    let (code, said) = plan_with(&format!("7<{node} 7<&-"));
    assert!(code == Some(0) && !said.contains("held open"), "{said}");
}

fn a_second_loop_device_over_a_mounted_file() {
    let sandbox = Sandbox::new();
    let first = Loop::new(&sandbox, "image", 64);
    ext4(&first.node);
    let _mount = Mount::new(&sandbox, &first.node);
    let second = Loop::over(&first.image);
    refused(&sandbox, &block(&second.node), "holds the same bytes as", &[&first.image]);
}

fn a_member_of_a_mounted_btrfs() {
    let sandbox = Sandbox::new();
    let first = Loop::new(&sandbox, "first", 128);
    let second = Loop::new(&sandbox, "second", 128);
    let nodes = [&first.node, &second.node];
    succeed(Command::new("mkfs.btrfs").args(["-q", "-f", "-d", "single", "-m", "raid1"]).args(nodes));
    // Read-only, because when two processes call sync() at once, btrfs may commit an empty transaction after
    // the first of them has returned.
    let _mount = Mount::with("ro", &sandbox, &first.node);
    refused(&sandbox, &block(&second.node), "member of the mounted btrfs", &[&second.image]);
}

/// A signature is refused unless its kind is confirmed, and then the device may be used.
fn signature(kind: &'static str, mib: u64, make: fn(&Path)) {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", mib);
    make(&device.node);
    refused(&sandbox, &block(&device.node), &format!("signature of {kind}"), &[&device.image]);
    let confirmed =
        Confirmation { overwrite: vec![overwrite(&device.node, kind)], ..confirming(&device.node) };
    assert_eq!(ask(&sandbox, &block(&device.node), &confirmed), [], "confirmed by its kind");
}

fn luks(device: &Path) {
    let script =
        "echo secret | cryptsetup luksFormat --batch-mode --type luks1 --pbkdf-force-iterations 1000 $0 -";
    succeed(Command::new("sh").args(["-c", script]).arg(device));
}

/// Version 1.2 (md(4)): magic, version, identifier, name, level 1, size, two members, data at sector 2048,
/// superblock at sector 8.
fn md_superblock(device: &Path) {
    let mut superblock = [0_u8; 256];
    for (offset, value) in [
        (0, 0xa92b_4efc_u32),
        (4, 1),
        (72, 1),
        (80, 1000),
        (92, 2),
        (128, 2048),
        (136, 100_000),
        (144, 8),
        (220, 2),
    ] {
        superblock[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    superblock[16..32].copy_from_slice(b"0123456789abcdef");
    superblock[32..36].copy_from_slice(b"host");
    write_at(device, 4096, &superblock);
}

fn a_disk_with_partitions() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let _partitions = Partitions::new(&device.node);
    let confirmation =
        Confirmation { overwrite: vec![overwrite(&device.node, "dos")], ..confirming(&device.node) };
    let refusals = ask(&sandbox, &block(&device.node), &confirmation);
    assert!(refusals.iter().any(|refusal| refusal.reason.contains("has the partition")), "{refusals:#?}");
    refused(&sandbox, &block(&device.node), "has the partition", &[&device.image]);
}

fn a_device_that_is_too_small() {
    let sandbox = Sandbox::new();
    // Large enough for ext4, but not for the trees.
    let device = Loop::new(&sandbox, "image", 12);
    refused(&sandbox, &block(&device.node), "the plan's trees and writers need", &[&device.image]);
}

fn another_device_than_the_plan_pins() {
    let sandbox = Sandbox::new();
    let planned = Loop::new(&sandbox, "planned", 64);
    let probe = host(&sandbox).probe_device(&planned.node).expect("probe");
    let pinned = DeviceSpec::Block(Block {
        identity: Some(identity_text(&probe.identity)),
        ..Block::new(&planned.node)
    });
    assert_eq!(
        ask(&sandbox, &pinned, &confirming(&planned.node)),
        [],
        "the one that was planned may be used"
    );
    let node = planned.node.clone();
    drop(planned);
    let other = sandbox.path("other");
    File::create(&other).and_then(|file| file.set_len(64 * Bytes::MIB)).expect("an image");
    succeed(Command::new("losetup").arg(&node).arg(&other));
    let swapped = Loop { image: other, node };
    refused(&sandbox, &pinned, "not the device that the plan pins", &[&swapped.image]);
}

fn another_device_than_the_guards_saw() {
    let sandbox = Sandbox::new();
    let first = Loop::new(&sandbox, "first", 64);
    let spec = block(&first.node);
    let devices = Devices { data: spec.clone(), journals: BTreeMap::new() };
    let configuration =
        Configuration { name: "ext4".into(), filesystem: "ext4".into(), settings: BTreeMap::new() };
    let mut host = host(&sandbox);
    let configurations = std::slice::from_ref(&configuration);
    let testbed = Testbed::verify(&mut host, &devices, configurations, Bytes(0), &confirming(&first.node))
        .expect("verified");
    let node = first.node.clone();
    drop(first);
    let other = sandbox.path("other");
    File::create(&other).and_then(|file| file.set_len(64 * Bytes::MIB)).expect("an image");
    succeed(Command::new("losetup").arg(&node).arg(&other));
    let swapped = Loop { image: other, node };
    let before = hash(&swapped.image);
    let mut journal =
        fsdyno_testbed::UndoJournal::create(&mut host, &sandbox.path("undo")).expect("a journal");
    let error =
        fsdyno_testbed::build(&mut host, &mut journal, &testbed, &configuration, 1, &AtomicBool::default())
            .expect_err("swapped");
    assert!(error.failure().message.contains("no longer the device"), "{error:?}");
    assert_eq!(hash(&swapped.image), before);
    assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
}

/// The node of the disk under `/`, if there is one.
fn disk_under_root() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let line = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/")).expect("a root");
    let fields: Vec<&str> = line.split(' ').collect();
    let source = fields.iter().skip_while(|field| **field != "-").nth(2).expect("a source");
    let link = fs::read_link(format!("/sys/dev/block/{}", fields[2])).unwrap_or_default();
    let name = link.file_name().map(|name| Path::new("/dev").join(name));
    name.unwrap_or_else(|| PathBuf::from(source))
}

/// Only asked, never run: if this guard failed, the sweep would destroy the machine.
fn asked_to_destroy_root(sandbox: &Sandbox, path: &Path) {
    let refusals = ask(sandbox, &block(path), &confirming(path));
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.starts_with("carries /,")), "{reasons:#?}");
    assert!(reasons.iter().any(|reason| reason.contains("mounted on '/'")), "{reasons:#?}");
}

fn the_disk_of_the_root_filesystem() {
    asked_to_destroy_root(&Sandbox::new(), &disk_under_root());
}

fn a_symlink_to_the_disk_of_the_root_filesystem() {
    let sandbox = Sandbox::new();
    let link = sandbox.path("harmless");
    std::os::unix::fs::symlink(disk_under_root(), &link).expect("a link");
    asked_to_destroy_root(&sandbox, &link);
}

fn a_device_that_carries_the_store() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    ext4(&device.node);
    let mount = Mount::new(&sandbox, &device.node);
    std::os::unix::fs::symlink(&mount.0, sandbox.path("state")).expect("a link");
    let refusals = ask(&sandbox, &block(&device.node), &confirming(&device.node));
    assert!(refusals.iter().any(|refusal| refusal.reason == "carries the store"), "{refusals:#?}");
}

fn an_image_path_that_exists() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("precious", "a file of the user");
    let image = DeviceSpec::image(path.clone(), Bytes(64 * Bytes::MIB));
    refused(&sandbox, &image, "already exists", &[&path]);
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(sandbox.path("nowhere"), &link).expect("a link");
    let image = DeviceSpec::image(link, Bytes(64 * Bytes::MIB));
    refused(&sandbox, &image, "already exists", &[]);
    assert!(!sandbox.path("nowhere").exists(), "nothing was created through the link");
}

fn a_path_that_is_not_a_device() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("file", "a file of the user");
    refused(&sandbox, &block(&file), "not a block device", &[&file]);
    refused(&sandbox, &block(Path::new("/dev/null")), "not a block device", &[]);
    refused(&sandbox, &block(&sandbox.path("nothing")), "could not be examined", &[]);
}
