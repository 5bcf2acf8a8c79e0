//! The scope of a confirmation, what needs none, and what happens between the guards and the first write.

use crate::support::guarded::{
    BTRFS, LOOP, LVM, Loop, NAMESPACE, ask, block, confirming, host, overwrite, refused, succeed, tool,
};
use crate::support::{Requirement, Sandbox, describe};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::Steps;
use fsdyno_host::probe::SCRATCH_MARK;
use fsdyno_testbed::GuardRefusal;
use fsdyno_testbed::{Confirmation, Testbed, UndoJournal, build};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

const UUID: &str = "124c21d8-1d18-475f-8d22-575ba5543d62";
const ALL: &[Requirement] = &[
    Requirement::Root,
    Requirement::Loop,
    Requirement::Program("mkfs.btrfs"),
    Requirement::Program("mkfs.xfs"),
    Requirement::Filesystem("btrfs"),
    Requirement::Filesystem("xfs"),
];

tests! {
    a_kind_alone_confirms_nothing: &[][..];
    what_would_be_lost_is_shown: LOOP;
    the_volume_group_that_would_be_lost: LVM;
    what_fsdyno_left_needs_no_confirmation: ALL;
    data_without_a_signature: LVM;
    a_device_that_fstab_names: NAMESPACE;
    a_device_claimed_after_the_guards: BTRFS;
    images_without_room: &[][..];
}

fn reasons(refusals: &[GuardRefusal]) -> Vec<&str> {
    refusals.iter().map(|refusal| refusal.reason.as_str()).collect()
}

fn a_kind_alone_confirms_nothing() {
    let sandbox = Sandbox::new();
    let plan = sandbox.write(
        "plan.toml",
        "[device]\nblock = \"/dev/nowhere\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\nkind = \"null\"\n",
    );
    let plan = plan.display().to_string();
    for (word, hint) in [
        ("ext4", "--overwrite /dev/nowhere=ext4"),
        ("=xfs", "--overwrite /dev/nowhere=xfs"),
        ("/dev/sdq", "--overwrite /dev/sdq=ext4"),
    ] {
        let output = sandbox.run(&["sweep", &plan, "--destroy", "/dev/nowhere", "--overwrite", word]);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(hint), "{}", describe(&output));
    }
}

fn what_would_be_lost_is_shown() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    tool("mkfs.ext4", &["-q", "-F", "-L", "backup", "-U", UUID, "-M", "/srv/backup"], &device.node);
    let expected =
        format!("signature of ext4 (label 'backup', UUID '{UUID}', last mounted on '/srv/backup')");
    refused(&sandbox, &block(&device.node), &expected, &[&device.image]);
    let refusals = ask(&sandbox, &block(&device.node), &confirming(&device.node));
    let hint = format!("--overwrite {}=ext4", device.node.display());
    assert!(refusals[0].hint.contains(&hint), "{refusals:#?}");
    let other = Confirmation {
        overwrite: vec![overwrite(Path::new("/dev/null"), "ext4")],
        ..confirming(&device.node)
    };
    assert_eq!(ask(&sandbox, &block(&device.node), &other).len(), 1, "only another device is confirmed");
    let link = sandbox.path("by-id");
    std::os::unix::fs::symlink(&device.node, &link).expect("a link");
    let by_link = Confirmation { overwrite: vec![overwrite(&link, "ext4")], ..confirming(&link) };
    assert_eq!(ask(&sandbox, &block(&device.node), &by_link), [], "confirmed under another name");
}

fn the_volume_group_that_would_be_lost() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    let config =
        format!("devices{{filter=[\"a|^{}$|\",\"r|.*|\"] use_devicesfile=0}}", device.node.display());
    succeed(
        Command::new("lvm")
            .args(["vgcreate", "--config", &config, "--yes", "precious"])
            .arg(&device.node)
            .env("LVM_SYSTEM_DIR", ""),
    );
    let refusals = ask(&sandbox, &block(&device.node), &confirming(&device.node));
    assert!(refusals[0].reason.contains("LVM2_member (label 'precious', UUID"), "{refusals:#?}");
}

/// One sweep after another on the same disks, each with new guards.
fn what_fsdyno_left_needs_no_confirmation() {
    let sandbox = Sandbox::new();
    let (data, log) = (Loop::new(&sandbox, "data", 512), Loop::new(&sandbox, "log", 64));
    let devices = Devices {
        data: block(&data.node),
        journals: BTreeMap::from([("log".to_string(), block(&log.node))]),
    };
    let confirmation =
        Confirmation { destroy: vec![data.node.clone(), log.node.clone()], ..Confirmation::default() };
    let mut host = host(&sandbox);
    let trials = [("ext4", "external"), ("xfs", "external"), ("btrfs", "internal"), ("xfs", "internal")];
    for (index, (filesystem, journal)) in trials.into_iter().enumerate() {
        let settings = BTreeMap::from([("journal".to_string(), journal.to_string())]);
        let configuration =
            Configuration { name: String::new(), filesystem: filesystem.to_string(), settings };
        let configurations = std::slice::from_ref(&configuration);
        let testbed = Testbed::verify(&mut host, &devices, configurations, Bytes(0), &confirmation)
            .unwrap_or_else(|error| panic!("{filesystem}, {journal} journal: {error}"));
        let mut journal = UndoJournal::in_memory();
        let seed = 42 + index as u64;
        let stack = build(&mut host, &mut journal, &testbed, &configuration, seed, &AtomicBool::default())
            .expect("built");
        let mounted =
            stack.format(&mut host).and_then(|made| made.mount(&mut host, &mut journal)).expect("mounted");
        fs::write(mounted.directory().join("file"), vec![1; 1 << 20]).expect("a file");
        mounted.unmount(&mut host, &mut journal).expect("unmounted");
        assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
    }
    let signatures = host.probe_device(&data.node).expect("a probe").signatures;
    assert!(
        signatures.iter().all(|one| one.kind == SCRATCH_MARK),
        "a sweep leaves only the mark of a scratch disk: {signatures:?}"
    );
    // A foreign filesystem on the same disk is not ours to overwrite.
    tool("mkfs.ext4", &["-q", "-F"], &data.node);
    refused_for(&sandbox, &data, "signature of ext4");
}

fn refused_for(sandbox: &Sandbox, device: &Loop, word: &str) {
    let refusals = ask(sandbox, &block(&device.node), &confirming(&device.node));
    assert!(reasons(&refusals).iter().any(|reason| reason.contains(word)), "{refusals:#?}");
}

/// A physical volume whose label was overwritten: libblkid finds nothing, but all data is still there.
fn data_without_a_signature() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    tool("pvcreate", &["-q", "-y"], &device.node);
    let mut file = OpenOptions::new().write(true).open(&device.node).expect("open the device");
    file.seek(SeekFrom::Start(512)).and_then(|_| file.write_all(&[0; 512])).expect("damage the label");
    file.sync_all().expect("sync");
    drop(file);
    refused(&sandbox, &block(&device.node), "data without a known signature", &[&device.image]);
    let confirmed =
        Confirmation { overwrite: vec![overwrite(&device.node, "unknown-data")], ..confirming(&device.node) };
    assert_eq!(ask(&sandbox, &block(&device.node), &confirmed), []);
}

/// The fstab is ours, and only fsdyno sees it.
fn a_device_that_fstab_names() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 64);
    tool("mkfs.ext4", &["-q", "-F", "-U", UUID], &device.node);
    let table = sandbox.write("fstab", &format!("UUID={UUID} /srv/backup ext4 noauto 0 2\n"));
    let plan = sandbox.write(
        "plan.toml",
        &format!(
            "[device]\nblock = \"{}\"\n[axes]\nfilesystem = \"ext4\"\n[[workloads]]\nkind = \"null\"\n",
            device.node.display()
        ),
    );
    let script = "mount --bind \"$0\" /etc/fstab && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script])
        .arg(&table)
        .args([env!("CARGO_BIN_EXE_fsdyno"), "plan"])
        .arg(&plan)
        .env("XDG_STATE_HOME", sandbox.path("state"))
        .output()
        .expect("run fsdyno");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("is named in /etc/fstab, for '/srv/backup'"), "{}", describe(&output));
}

/// mkfs.btrfs would check this itself; here it is not even started.
fn a_device_claimed_after_the_guards() {
    let sandbox = Sandbox::new();
    let device = Loop::new(&sandbox, "image", 128);
    let devices = Devices { data: block(&device.node), journals: BTreeMap::new() };
    let configuration =
        Configuration { name: String::new(), filesystem: "btrfs".into(), settings: BTreeMap::new() };
    let mut host = host(&sandbox);
    let configurations = std::slice::from_ref(&configuration);
    let testbed = Testbed::verify(&mut host, &devices, configurations, Bytes(0), &confirming(&device.node))
        .expect("verified");
    let mut journal = UndoJournal::in_memory();
    let stack =
        build(&mut host, &mut journal, &testbed, &configuration, 42, &AtomicBool::default()).expect("built");
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let claim = rustix::fs::open(&device.node, flags, Mode::empty()).expect("an exclusive open");
    let error = stack.format(&mut host).expect_err("claimed by another opener");
    assert!(error.to_string().contains("has since been claimed by"), "{error}");
    drop(claim);
    assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
    assert_eq!(host.probe_device(&device.node).expect("a probe").signatures, [], "nothing was written");
}

fn images_without_room() {
    let sandbox = Sandbox::new();
    let image = |name: &str| DeviceSpec::image(sandbox.path(name), Bytes(512 << 40));
    refused(&sandbox, &image("huge.img"), "can grow to 512T, but of the", &[]);
    assert!(!sandbox.path("huge.img").exists());
}
