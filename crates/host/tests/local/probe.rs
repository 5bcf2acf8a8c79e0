//! The uses of a device that the guards get to see, one per test.

use crate::support::Requirement::{Filesystem, Loop, Program, Root};
use crate::support::{Afterwards, Requirement, Sandbox, Test, attach, binary, detach, host, request, sh};
use fsdyno_host::Steps;
use fsdyno_host::local::LocalHost;
use fsdyno_host::probe::{DeviceProbe, Use};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const EXT4: &[Requirement] = &[Root, Loop, Program("wipefs"), Filesystem("ext4"), Program("mkfs.ext4")];

pub const TESTS: &[Test] = &[
    Test { name: "probe::a_free_device_has_no_uses", requires: &[Root, Loop, Program("wipefs")], body: free },
    Test { name: "probe::what_is_no_block_device", requires: &[], body: no_device },
    Test { name: "probe::mounted", requires: EXT4, body: mounted },
    Test { name: "probe::mounted_in_another_namespace", requires: EXT4, body: other_namespace },
    Test {
        name: "probe::swap",
        requires: &[Root, Loop, Program("wipefs"), Program("mkswap"), Program("swapon")],
        body: swap,
    },
    Test {
        name: "probe::opened_by_another_process",
        requires: &[Root, Loop, Program("wipefs")],
        body: opened,
    },
    Test { name: "probe::a_journal_of_a_mounted_filesystem", requires: EXT4, body: journal },
    Test { name: "probe::aliases", requires: EXT4, body: aliases },
    Test { name: "probe::a_loop_device_over_a_device", requires: EXT4, body: stacked },
    Test {
        name: "probe::btrfs_members",
        requires: &[Root, Loop, Program("wipefs"), Filesystem("btrfs"), Program("mkfs.btrfs")],
        body: members,
    },
    Test {
        name: "probe::partitions",
        requires: &[Root, Loop, Program("wipefs"), Program("partx"), Program("addpart")],
        body: partitions,
    },
    Test {
        name: "probe::write_protection",
        requires: &[Root, Loop, Program("wipefs"), Program("blockdev")],
        body: read_only,
    },
    Test { name: "probe::what_carries_a_protected_path", requires: EXT4, body: carries },
    Test { name: "probe::the_disk_of_the_root_filesystem", requires: &[Root], body: root_disk },
    Test {
        name: "probe::signatures",
        requires: &[
            Root,
            Loop,
            Program("wipefs"),
            Program("mkfs.ext4"),
            Program("mkfs.xfs"),
            Program("mkfs.btrfs"),
            Program("mkswap"),
            Program("cryptsetup"),
            Program("pvcreate"),
        ],
        body: signatures,
    },
];

fn probe(path: &Path) -> DeviceProbe {
    host().probe_device(path).unwrap()
}

fn kinds(probe: &DeviceProbe) -> Vec<&str> {
    probe.signatures.iter().map(|signature| signature.kind.as_str()).collect()
}

fn uses(path: &Path) -> Vec<Use> {
    let probe = probe(path);
    assert!(probe.unknown.is_empty(), "{:?}", probe.unknown);
    probe.uses
}

fn name(device: &Path) -> String {
    device.file_name().unwrap().to_string_lossy().into_owned()
}

/// A program that runs until it is dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Running(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn mount_ext4(sandbox: &Sandbox, device: &Path, directory: &str) -> PathBuf {
    sh(&format!("mkfs.ext4 -q {}", device.display()));
    let target = sandbox.directory(directory);
    host().mount(&request("ext4", device, &target, &[])).unwrap();
    target
}

fn free(sandbox: &Sandbox) {
    let image = sandbox.image("image", 64);
    let device = attach(&image);
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(&device, &link).unwrap();
    let found = probe(&link);
    detach(&device);
    assert_eq!((&found.path, &found.canonical), (&link, &device));
    assert!(
        found.block && found.uses.is_empty() && found.signatures.is_empty() && found.unknown.is_empty(),
        "{found:?}"
    );
    assert_eq!((found.identity.number.0, found.identity.size_bytes), (7, 64 << 20));
    assert_eq!(found.model, image.to_str().unwrap());
}

fn no_device(sandbox: &Sandbox) {
    let file = sandbox.path("file");
    fs::write(&file, "text").unwrap();
    for path in [file.as_path(), Path::new("/dev/null"), Path::new("/")] {
        assert!(!probe(path).block);
    }
    let error = host().probe_device(&sandbox.path("nothing")).unwrap_err();
    assert_eq!(error.errno(), Some(2));
}

fn mounted(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    let target = mount_ext4(sandbox, &device, "mnt");
    let found = uses(&device);
    host().unmount(&target).unwrap();
    detach(&device);
    assert_eq!(found, [Use::Mounted { target: target.display().to_string(), namespace_of_pid: None }]);
}

fn other_namespace(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    sh(&format!("mkfs.ext4 -q {}", device.display()));
    let target = sandbox.directory("mnt");
    let mounted = sandbox.path("mounted");
    let script = "mount -t ext4 $0 $1 && : > $2 && exec sleep 1000";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .args([&device, &target, &mounted]);
    let other = Running::start(&mut command);
    while !mounted.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let found = uses(&device);
    let pid = other.0.id();
    drop(other);
    detach(&device);
    let expected = Use::Mounted { target: target.display().to_string(), namespace_of_pid: Some(pid) };
    assert_eq!(found, [expected]);
}

fn swap(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    sh(&format!("mkswap -q {0} && swapon {0}", device.display()));
    let undo = Afterwards(format!("swapoff {}", device.display()));
    let found = uses(&device);
    drop(undo);
    detach(&device);
    assert_eq!(found, [Use::Swap, Use::Carries { what: "swap".to_string() }]);
}

fn opened(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    let other = Running::start(Command::new("sleep").arg("1000").stdin(fs::File::open(&device).unwrap()));
    let found = uses(&device);
    let pid = other.0.id();
    drop(other);
    assert_eq!(found, [Use::OpenedBy { pid, command: "sleep".to_string() }]);
    assert!(uses(&device).is_empty());
    // One that goes away by itself, as udev does, is waited for.
    let mut short = Command::new("sleep").arg("0.1").stdin(fs::File::open(&device).unwrap()).spawn().unwrap();
    let found = uses(&device);
    short.wait().unwrap();
    assert_eq!(found, []);
    detach(&device);
}

/// No file of the kernel's names such a device; only the exclusive claim shows.
fn journal(sandbox: &Sandbox) {
    let (data, journal) = (sandbox.device("data", 64), sandbox.device("journal", 64));
    let (d, j) = (data.display(), journal.display());
    sh(&format!("mke2fs -q -b 4096 -O journal_dev {j} && mkfs.ext4 -q -b 4096 -J device={j} {d}"));
    let target = sandbox.directory("mnt");
    host().mount(&request("ext4", &data, &target, &[])).unwrap();
    let found = uses(&journal);
    host().unmount(&target).unwrap();
    detach(&data);
    detach(&journal);
    assert!(matches!(found.as_slice(), [Use::Holder { .. }]), "{found:?}");
}

fn aliases(sandbox: &Sandbox) {
    let image = sandbox.image("image", 64);
    let (one, two) = (attach(&image), attach(&image));
    let attached = uses(&one);
    let target = mount_ext4(sandbox, &two, "mnt");
    let mounted = uses(&one);
    host().unmount(&target).unwrap();
    detach(&two);
    let other = Running::start(Command::new("sleep").arg("1000").stdin(fs::File::open(&image).unwrap()));
    let image_open = uses(&one);
    let pid = other.0.id();
    drop(other);
    detach(&one);
    let alias = |name: &str, how: &str| Use::Alias { name: name.to_string(), how: how.to_string() };
    assert_eq!(attached, [alias(&name(&two), "attached")]);
    assert_eq!(mounted, [alias(&name(&two), &format!("mounted at '{}'", target.display()))]);
    let opened = format!("opened by process {pid} (sleep)");
    assert_eq!(image_open, [alias(image.to_str().unwrap(), &opened)]);
}

fn stacked(sandbox: &Sandbox) {
    let lower = sandbox.device("image", 64);
    let upper = attach(&lower);
    let below = uses(&lower);
    let free = uses(&upper);
    let target = mount_ext4(sandbox, &lower, "mnt");
    let over_mounted = uses(&upper);
    host().unmount(&target).unwrap();
    detach(&upper);
    detach(&lower);
    let alias = |name: &str, how: &str| Use::Alias { name: name.to_string(), how: how.to_string() };
    assert_eq!(below, [alias(&name(&upper), "attached")]);
    assert_eq!(free, [alias(&name(&lower), "attached")]);
    assert_eq!(over_mounted, [alias(&name(&lower), &format!("mounted at '{}'", target.display()))]);
}

fn members(sandbox: &Sandbox) {
    let (one, two) = (sandbox.device("one", 256), sandbox.device("two", 256));
    sh(&format!("mkfs.btrfs -q -d single -m raid1 {} {}", one.display(), two.display()));
    let target = sandbox.directory("mnt");
    sh(&format!("btrfs device scan {} {}", one.display(), two.display()));
    host().mount(&request("btrfs", &one, &target, &[])).unwrap();
    let found = (uses(&one), uses(&two));
    let mut host_with_store =
        LocalHost::new(binary(), vec![("the store".to_string(), target.join("results.db"))]);
    let carried = host_with_store.probe_device(&two).unwrap().uses;
    host().unmount(&target).unwrap();
    sh(&format!("btrfs device scan --forget {}", one.display()));
    detach(&one);
    detach(&two);
    let is_member = |one: &Use| matches!(one, Use::Member { filesystem, .. } if filesystem == "btrfs");
    assert!(matches!(&found.0[0], Use::Mounted { .. }), "{found:?}");
    assert!(found.0.iter().any(is_member) && found.1.iter().any(is_member), "{found:?}");
    assert!(carried.contains(&Use::Carries { what: "the store".to_string() }), "{carried:?}");
}

/// A partition table of the DOS kind with one partition of 32 MiB at 1 MiB.
fn write_partition_table(device: &Path) {
    let mut sector = [0_u8; 512];
    sector[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    fs::write(device, sector).unwrap();
}

fn partitions(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    write_partition_table(&device);
    sh(&format!("partx --add {}", device.display()));
    let partition = PathBuf::from(format!("{}p1", device.display()));
    let undo = Afterwards(format!("partx --delete {}", device.display()));
    let (whole, part) = (probe(&device), probe(&partition));
    sh(&format!("addpart {} 2 81920 8192", device.display()));
    let sibling = PathBuf::from(format!("{}p2", device.display()));
    let other = Running::start(Command::new("sleep").arg("1000").stdin(fs::File::open(&sibling).unwrap()));
    let (beside, pid) = (probe(&partition), other.0.id());
    drop(other);
    drop(undo);
    detach(&device);
    assert_eq!(kinds(&whole), ["dos"]);
    assert_eq!(whole.uses, [Use::Partition { name: name(&partition) }]);
    assert_eq!(part.uses, []);
    let place = part.identity.partition.expect("a place on a disk");
    assert_eq!((place.disk, place.start_bytes), (whole.identity.number, 1 << 20));
    assert_eq!(part.identity.diskseq, whole.identity.diskseq);
    assert_eq!((part.identity.size_bytes, part.model), (32 << 20, whole.model));
    assert_eq!((part.sector_bytes, part.shared_with), (512, Vec::<String>::new()));
    let opened = format!("'{}', which is opened by process {pid} (sleep)", name(&sibling));
    assert_eq!((beside.uses, beside.shared_with), (Vec::new(), vec![opened]));
}

fn read_only(sandbox: &Sandbox) {
    let device = sandbox.device("image", 64);
    sh(&format!("blockdev --setro {}", device.display()));
    let undo = Afterwards(format!("blockdev --setrw {}", device.display()));
    let found = uses(&device);
    drop(undo);
    detach(&device);
    assert_eq!(found, [Use::ReadOnly]);
}

/// A store in a filesystem on a loop device whose image lies in a filesystem on a loop device.
fn carries(sandbox: &Sandbox) {
    let outer = sandbox.device("outer", 128);
    let below = mount_ext4(sandbox, &outer, "below");
    let image = below.join("inner");
    host().create_image(&image, fsdyno_core::Bytes(64 << 20)).unwrap();
    let inner = attach(&image);
    let above = mount_ext4(sandbox, &inner, "above");
    let store = ("the store".to_string(), above.join("not/yet/results.db"));
    let mut host_with_store = LocalHost::new(binary(), vec![store]);
    let found = [&outer, &inner].map(|device| host_with_store.probe_device(device).unwrap().uses);
    host().unmount(&above).unwrap();
    detach(&inner);
    host().unmount(&below).unwrap();
    let afterwards = host_with_store.probe_device(&outer).unwrap().uses;
    detach(&outer);
    for uses in found {
        assert!(uses.contains(&Use::Carries { what: "the store".to_string() }), "{uses:?}");
    }
    assert!(afterwards.is_empty(), "{afterwards:?}");
}

/// Only looks. Where the root filesystem has no device node, there is nothing to look at.
fn root_disk(_: &Sandbox) {
    let mounts = host().mounts().unwrap();
    let root = mounts.iter().rfind(|mount| mount.target == Path::new("/")).unwrap();
    let Ok(node) = fs::canonicalize(&root.source) else {
        eprintln!("the root filesystem '{}' has no device node here", root.source);
        return;
    };
    let uses = probe(&node).uses;
    assert!(uses.contains(&Use::Carries { what: "/".to_string() }), "{uses:?}");
}

fn signatures(sandbox: &Sandbox) {
    let cases = [
        ("ext4", "mkfs.ext4 -q -F"),
        ("xfs", "mkfs.xfs -q -f"),
        ("btrfs", "mkfs.btrfs -q -f"),
        ("swap", "mkswap -q"),
        ("crypto_LUKS", "echo secret | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000"),
        ("LVM2_member", "pvcreate -q -y"),
    ];
    for (signature, make) in cases {
        let device = sandbox.device(signature, 512);
        sh(&format!("{make} {}", device.display()));
        let found = probe(&device);
        detach(&device);
        assert_eq!(kinds(&found), [signature]);
    }
    let device = sandbox.device("dos", 64);
    write_partition_table(&device);
    let found = probe(&device);
    detach(&device);
    assert_eq!(kinds(&found), ["dos"]);
}
