//! The refusals, requirements and warnings of a trial before it writes.

use crate::lab::{Case, DISK, IMAGE, Lab, block, case, configuration, devices, image, machine};
use fsdyno_core::{Bytes, WarningKind};
use fsdyno_host::probe::{Signature, UNKNOWN_DATA, Use};
use fsdyno_testbed::{TestbedError, UndoJournal};
use std::path::Path;

#[test]
fn one_device_by_two_names_is_refused() {
    let mut lab = Lab::new();
    lab.host.add_block("/dev/disk/by-id/fake2", (259, 0), Bytes(8 * Bytes::GIB));
    let case = Case {
        name: "a journal on the data device",
        devices: devices(block(DISK), &[("disk", block("/dev/disk/by-id/fake2"))]),
        configuration: configuration("ext4", &[("journal", "external")]),
    };
    let error = lab.verify(&case).unwrap_err().to_string();
    assert!(error.contains("is the same device as '/dev/disk/by-id/fake2'"), "{error}");
}

#[test]
fn images_are_given_to_guests_and_never_to_read_only_devices() {
    let mut lab = Lab::new();
    let case = case("ext4, internal journal");
    let testbed = lab.verify(&case).unwrap();
    let mut journal = UndoJournal::in_memory();
    let specs = [&case.devices.data];
    let made = fsdyno_testbed::guest::make(&mut lab.host, &mut journal, &specs).unwrap();
    assert_eq!((made.len(), lab.host.open_devices()), (1, 0), "the guest has it, and nobody else");
    journal.undo_all(&mut lab.host);
    lab.host.read_only_loops.insert("/dev/loop0".into());
    let refused = lab.build(&testbed, &case).unwrap_err().failure();
    assert!(refused.message.contains("read-only") && refused.hint.is_some(), "{refused:?}");
    lab.undo();
    assert_eq!(lab.host.snapshot(), lab.before);
}

#[test]
fn an_image_that_appeared_meanwhile_is_not_overwritten() {
    let mut lab = Lab::new();
    let case = case("ext4, internal journal");
    let testbed = lab.verify(&case).unwrap();
    lab.host.add_file(IMAGE, Bytes(7));
    let before = lab.host.snapshot();
    let error = lab.build(&testbed, &case).unwrap_err();
    assert!(matches!(error, TestbedError::Refused { .. }), "{error:?}");
    lab.undo();
    assert_eq!(lab.host.snapshot(), before);
}

#[test]
fn a_block_device_is_guarded_again_before_each_trial() {
    let mut lab = Lab::new();
    let case = case("btrfs, block device");
    let testbed = lab.verify(&case).unwrap();
    lab.host.blocks.get_mut(Path::new(DISK)).unwrap().uses.push(Use::Swap);
    let error = lab.build(&testbed, &case).unwrap_err();
    assert!(error.to_string().contains("swap"), "{error}");
    lab.host.blocks.get_mut(Path::new(DISK)).unwrap().uses.clear();
    lab.host.blocks.get_mut(Path::new(DISK)).unwrap().identity.diskseq = Some(2);
    let error = lab.build(&testbed, &case).unwrap_err();
    assert!(error.failure().message.contains("no longer the device"), "{error:?}");
    assert_eq!(lab.host.commands.iter().filter(|line| line.starts_with("mkfs.btrfs -f")).count(), 0);
}

/// Whatever fsdyno has left there, a filesystem that it did not create needs its own confirmation.
#[test]
fn a_filesystem_that_somebody_created_between_two_trials_is_not_overwritten() {
    let mut lab = Lab::new();
    let case = case("btrfs, block device");
    let testbed = lab.verify(&case).unwrap();
    lab.build(&testbed, &case).unwrap().format(&mut lab.host).unwrap();
    lab.undo();
    let unknown = Signature::new(UNKNOWN_DATA);
    lab.host.blocks.get_mut(Path::new(DISK)).unwrap().signatures.push(unknown);
    lab.build(&testbed, &case).unwrap();
    lab.undo();
    lab.host.blocks.get_mut(Path::new(DISK)).unwrap().signatures.push(Signature::new("xfs"));
    let error = lab.build(&testbed, &case).unwrap_err();
    let TestbedError::Refused { refusals } = error else { panic!("{error:?}") };
    assert!(refusals.iter().any(|refusal| refusal.reason.contains("xfs")), "{refusals:?}");
}

#[test]
fn a_device_that_is_taken_before_the_lock_is_refused() {
    let mut lab = Lab::new();
    let case = case("btrfs, block device");
    let testbed = lab.verify(&case).unwrap();
    let mounted = Use::Mounted { target: "/precious".into(), namespace_of_pid: None };
    lab.host.taken_meanwhile.insert(DISK.into(), mounted);
    let error = lab.build(&testbed, &case).unwrap_err();
    assert!(error.to_string().contains("is mounted on '/precious'"), "{error}");
    assert!(!lab.host.marks.contains(Path::new(DISK)));
    assert!(!lab.host.commands.iter().any(|line| line.starts_with("mkfs.btrfs -f")));
}

#[test]
fn a_device_that_is_claimed_is_not_formatted() {
    for name in ["btrfs, block device", "ext4, internal journal, image", "ext4 on raid5"] {
        let mut lab = Lab::new();
        let case = case(name);
        let testbed = lab.verify(&case).unwrap();
        let claimed = if name.contains("image") { "/dev/loop0" } else { DISK };
        lab.host.claimed.insert(claimed.into());
        let stack = lab.build(&testbed, &case);
        let error = stack.and_then(|stack| stack.format(&mut lab.host)).unwrap_err();
        assert!(error.to_string().contains("has since been claimed"), "{name}: {error}");
        let written = ["mkfs.btrfs -f", "mkfs.ext4 -F", "mdadm --create"];
        let written = |line: &String| written.iter().any(|word| line.starts_with(word));
        assert!(!lab.host.commands.iter().any(written), "{name}: {:?}", lab.host.commands);
        assert!(lab.host.marks.is_empty(), "{name}");
    }
}

#[test]
fn a_mount_of_something_else_is_seen() {
    for name in ["btrfs, block device", "xfs, log on a second image"] {
        let mut lab = Lab::new();
        lab.host.mounts_claim_nothing = true;
        let error = lab.mount(&case(name)).unwrap_err();
        assert!(matches!(error, TestbedError::WrongMount { .. }), "{name}: {error}");
        assert_eq!(lab.undo().left, [""; 0], "{name}");
        assert_eq!(lab.host.snapshot(), lab.before, "{name}");
    }
}

#[test]
fn a_named_disk_bears_our_mark_before_its_first_filesystem_and_after_its_stack() {
    let mut lab = Lab::new();
    lab.run(&case("btrfs, block device")).unwrap();
    assert_eq!(lab.host.marks, [DISK.into()].into());
    let mut lab = Lab::new();
    lab.run(&case("ext4 on raid5")).unwrap();
    assert!(lab.host.marks.is_empty(), "the array is still there");
    assert_eq!(lab.undo().left, [""; 0]);
    assert_eq!(lab.host.marks, [DISK, "/dev/fake2", "/dev/fake3"].map(Into::into).into());
    let mut lab = Lab::new();
    lab.run(&case("ext4, internal journal, image")).unwrap();
    assert!(lab.host.marks.is_empty(), "images go with their trial");
}

#[test]
fn a_scheduler_that_is_not_offered_makes_the_case_unmet() {
    let mut lab = Lab::new();
    let case = Case {
        name: "unknown scheduler",
        devices: devices(image(IMAGE, Bytes::GIB), &[]),
        configuration: configuration("ext4", &[("scheduler", "cfq")]),
    };
    let error = lab.run(&case).unwrap_err();
    assert!(matches!(&error, TestbedError::Unmet { unmet } if unmet[0].contains("cfq")), "{error:?}");
    lab.undo();
    assert_eq!(lab.host.snapshot(), lab.before);
    let unmet = fsdyno_testbed::unmet(&mut lab.host, &case.configuration, &case.devices);
    assert!(unmet[0].contains("scheduler cfq"), "{unmet:?}");
}

#[test]
fn what_is_not_in_force_is_a_warning() {
    let mut lab = Lab::new();
    lab.host.mount_hides.push("data=journal".to_string());
    let mounted = lab.mount(&Case {
        name: "a mode that does not show",
        devices: devices(image(IMAGE, Bytes::GIB), &[]),
        configuration: configuration("ext4", &[("data", "journal"), ("barrier", "0")]),
    });
    let mounted = mounted.unwrap();
    let kinds: Vec<WarningKind> = mounted.warnings().iter().map(|warning| warning.kind).collect();
    assert!(kinds.contains(&WarningKind::OptionNotInForce) && kinds.contains(&WarningKind::Durability));
    assert!(mounted.built().mkfs_command.starts_with("mkfs.ext4 -F -U "));
    assert!(mounted.built().mount_command.contains("barrier=0,data=journal"));
    lab.undo();
}

#[test]
fn everything_that_is_missing_is_told_at_once() {
    let mut host = machine();
    host.programs.remove("mkfs.xfs");
    host.write_setting("/proc/filesystems", "nodev\tproc\n");
    let devices = devices(image(IMAGE, 100 * Bytes::MIB), &[]);
    let configuration = configuration(
        "xfs",
        &[("barrier", "0"), ("lazy_count", "0"), ("scheduler", "cfq"), ("sysctl.vm.nonsense", "1")],
    );
    let unmet = fsdyno_testbed::unmet(&mut host, &configuration, &devices);
    for word in [
        "mkfs.xfs",
        "does not support xfs",
        "scheduler cfq",
        "vm.nonsense",
        "nobarrier",
        "lazy_count = 1",
        "at least 300M",
    ] {
        assert!(unmet.iter().any(|line| line.contains(word)), "{word} in {unmet:#?}");
    }
}
