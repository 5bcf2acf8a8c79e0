//! Whole trials on a fake machine: what they do, and that whatever goes wrong, at whatever step, undoing
//! leaves the machine as it was.

use fsdyno_core::device::{Bitmap, Delay, Delayed, Lvm, Md, RaidLevel};
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Nanos, WarningKind};
use fsdyno_host::fake::{FakeHost, Fault, Machine};
use fsdyno_host::probe::{Signature, Use};
use fsdyno_host::{Command, DeviceHandle, Host, HostError, LoopOptions};
use fsdyno_testbed::undo::{self, RestoreReport, UndoJournal, UndoReport};
use fsdyno_testbed::{Confirmation, Mounted, Stack, Testbed, TestbedError, build};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const IMAGE: &str = "/data/fsdyno.img";
const DISK: &str = "/dev/fake1";

/// A trial to run in every way: its devices and settings.
struct Case {
    name: &'static str,
    devices: Devices,
    configuration: Configuration,
}

fn configuration(filesystem: &str, settings: &[(&str, &str)]) -> Configuration {
    Configuration {
        name: filesystem.to_string(),
        filesystem: filesystem.to_string(),
        settings: settings.iter().map(|(axis, level)| (axis.to_string(), level.to_string())).collect(),
    }
}

fn image(path: &str, size: u64) -> DeviceSpec {
    DeviceSpec::Image { path: path.into(), size: Bytes(size), direct_io: true }
}

fn devices(data: DeviceSpec, journals: &[(&str, DeviceSpec)]) -> Devices {
    let journals = journals.iter().map(|(name, spec)| (name.to_string(), spec.clone())).collect();
    Devices { data, journals }
}

fn block(path: &str) -> DeviceSpec {
    DeviceSpec::Block { path: path.into(), identity: None }
}

fn slow(disk: DeviceSpec) -> DeviceSpec {
    let delay = Delay { read: Nanos::from_millis(5), ..Delay::default() };
    DeviceSpec::Delayed(Delayed { delay, disk: Box::new(disk) })
}

fn md(level: RaidLevel, disks: Vec<DeviceSpec>) -> DeviceSpec {
    DeviceSpec::Md(Md { level, chunk: None, bitmap: Bitmap::None, disks })
}

const TUNED: &[(&str, &str)] = &[
    ("scheduler", "bfq"),
    ("nr_requests", "64"),
    ("readahead", "1M"),
    ("sysctl.vm.dirty_bytes", "1048576"),
    ("sysctl.vm.swappiness", "10"),
];

fn cases() -> Vec<Case> {
    let external = [TUNED, &[("journal", "external:disk")]].concat();
    vec![
        Case {
            name: "ext4, internal journal, image",
            devices: devices(image(IMAGE, 4 * Bytes::GIB), &[]),
            configuration: configuration("ext4", TUNED),
        },
        Case {
            name: "xfs, log on a second image",
            devices: devices(
                image(IMAGE, 4 * Bytes::GIB),
                &[("disk", image("/data/journal.img", 128 * Bytes::MIB))],
            ),
            configuration: configuration("xfs", &external),
        },
        Case {
            name: "ext4, journal on a second image",
            devices: devices(
                image(IMAGE, 4 * Bytes::GIB),
                &[("disk", image("/data/journal.img", 128 * Bytes::MIB))],
            ),
            configuration: configuration("ext4", &external),
        },
        Case {
            name: "btrfs, block device",
            devices: devices(block(DISK), &[]),
            configuration: configuration("btrfs", TUNED),
        },
        Case {
            name: "xfs on a mirror of an image and a slow one",
            devices: devices(
                md(
                    RaidLevel::Raid1,
                    vec![image(IMAGE, 4 * Bytes::GIB), slow(image("/data/slow.img", 4 * Bytes::GIB))],
                ),
                &[],
            ),
            configuration: configuration("xfs", TUNED),
        },
        Case {
            name: "ext4 on raid5 of block devices, its journal on a slow one",
            devices: devices(
                md(RaidLevel::Raid5, [DISK, "/dev/fake2", "/dev/fake3"].map(block).to_vec()),
                &[("disk", slow(image("/data/journal.img", 128 * Bytes::MIB)))],
            ),
            configuration: configuration("ext4", &external),
        },
        Case {
            name: "ext4 on a striped volume of block devices, one of them slow",
            devices: devices(
                DeviceSpec::Lvm(Lvm {
                    stripes: 2,
                    stripe_size: Some(Bytes(128 * Bytes::KIB)),
                    disks: vec![block(DISK), slow(block("/dev/fake2"))],
                }),
                &[],
            ),
            configuration: configuration("ext4", TUNED),
        },
        Case {
            name: "a directory",
            devices: devices(DeviceSpec::Directory { path: "/data".into() }, &[]),
            configuration: configuration("existing", &[("sysctl.vm.dirty_ratio", "5")]),
        },
    ]
}

/// The case whose name begins so.
fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name.starts_with(name)).expect("a case of this name")
}

fn machine() -> FakeHost {
    let mut host = FakeHost::new();
    for (index, path) in [DISK, "/dev/fake2", "/dev/fake3"].into_iter().enumerate() {
        host.add_block(path, (259, index as u32), Bytes(8 * Bytes::GIB));
        // The files that name a device are there before and after.
        host.write_setting(format!("/sys/dev/block/259:{index}/uevent"), "DEVTYPE=disk\n");
    }
    host.add_file("/data/precious", Bytes(1));
    // A depth that is none of the kernel's own, so that it shows whether it comes back.
    host.write_setting("/sys/dev/block/259:0/queue/nr_requests", "99\n");
    host
}

fn confirmation() -> Confirmation {
    Confirmation {
        destroy: [DISK, "/dev/fake2", "/dev/fake3"].map(Into::into).to_vec(),
        ..Confirmation::default()
    }
}

/// A fake machine, and the journal of a trial on it.
struct Lab {
    host: FakeHost,
    /// The machine before the trial.
    before: Machine,
    journal: UndoJournal,
    interrupt: AtomicBool,
    directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let mut host = machine();
        // In memory where there is such a place: hundreds of journals are synced here.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a temporary directory");
        let journal = UndoJournal::create(&mut host, directory.path()).expect("a journal");
        Lab { before: host.snapshot(), host, journal, interrupt: AtomicBool::default(), directory }
    }

    fn verify(&mut self, case: &Case) -> Result<Testbed, TestbedError> {
        let configurations = std::slice::from_ref(&case.configuration);
        Testbed::verify(&mut self.host, &case.devices, configurations, Bytes(0), &confirmation())
    }

    fn build(&mut self, testbed: &Testbed, case: &Case) -> Result<Stack, TestbedError> {
        build(&mut self.host, &mut self.journal, testbed, &case.configuration, 42, &self.interrupt)
    }

    /// A trial from guards to mount.
    fn mount(&mut self, case: &Case) -> Result<Mounted, TestbedError> {
        let testbed = self.verify(case)?;
        let stack = self.build(&testbed, case)?;
        let Lab { host, journal, .. } = self;
        stack.format(host)?.mount(host, journal)
    }

    /// A trial from guards to check, without taking it down.
    fn run(&mut self, case: &Case) -> Result<(), TestbedError> {
        let mounted = self.mount(case)?;
        let Lab { host, journal, .. } = self;
        mounted.environment(host);
        mounted.carriers(host);
        let mounted = mounted.unmount(host, journal)?.mount_again(host, journal)?;
        let unmounted = mounted.unmount(host, journal)?;
        unmounted.check(host, journal)?;
        Ok(())
    }

    fn undo(&mut self) -> UndoReport {
        self.journal.undo_all(&mut self.host)
    }

    /// The process is gone, its locks and open devices with it; the machine is not.
    fn end_process(&mut self) {
        self.journal = UndoJournal::in_memory();
        self.host.revive();
    }

    /// The process is gone and the machine was started again: the journal is of another boot.
    fn reboot(&mut self) {
        let path = self.journal.path().expect("a file").to_path_buf();
        self.end_process();
        let text = std::fs::read_to_string(&path).expect("a journal");
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
        assert!(text.contains(boot.trim()));
        std::fs::write(&path, text.replace(boot.trim(), "another-boot")).expect("write it");
    }

    fn restore(&mut self) -> RestoreReport {
        undo::restore(&mut self.host, self.directory.path()).expect("restore")
    }
}

/// Runs a body for each item, many at once: most of the time they wait for something that is to be busy no
/// longer.
fn at_once<T: Send>(items: impl Iterator<Item = T>, body: impl Fn(T) + Sync) {
    const MOST: usize = 32;
    // Neighbours wait alike, so each goes to another thread.
    let mut shares: Vec<Vec<T>> = (0..MOST).map(|_| Vec::new()).collect();
    items.enumerate().for_each(|(index, item)| shares[index % MOST].push(item));
    std::thread::scope(|scope| {
        for share in shares {
            let body = &body;
            scope.spawn(move || share.into_iter().for_each(body));
        }
    });
}

/// The number of steps of a trial with everything undone.
fn steps(case: &Case) -> usize {
    let mut lab = Lab::new();
    lab.run(case).unwrap_or_else(|error| panic!("{}: {error:?}", case.name));
    let report = lab.undo();
    assert_eq!(report.left, [""; 0], "{}", case.name);
    assert_eq!(lab.host.snapshot(), lab.before, "{}", case.name);
    assert_eq!(lab.host.open_devices(), 0, "{}", case.name);
    lab.journal.close().expect("remove the journal");
    assert_eq!(std::fs::read_dir(lab.directory.path()).expect("list it").count(), 0, "the journal is gone");
    lab.host.log().len()
}

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    let all = cases();
    let each = all.iter().flat_map(|case| (0..steps(case)).map(move |step| (case, step)));
    at_once(each, |(case, step)| {
        let mut lab = Lab::new();
        lab.host.fail_at(step);
        let result = lab.run(case);
        let first = lab.undo();
        let what = format!("{}, step {step} '{}' ({result:?})", case.name, lab.host.log()[step]);
        // Where undoing itself was hit, it says so, and doing it again finishes it.
        let hit_undoing = !first.left.is_empty();
        if hit_undoing {
            let second = lab.undo();
            assert_eq!(second.left, [""; 0], "{what}");
        }
        assert_eq!(lab.host.snapshot(), lab.before, "{what}");
        assert_eq!(lab.host.open_devices(), 0, "{what}");
    });
}

#[test]
fn a_crash_at_any_step_is_restored_from_the_journal() {
    for case in cases() {
        let steps = steps(&case);
        let faults = (0..steps).flat_map(|step| [(step, Fault::CrashBefore), (step, Fault::CrashAfter)]);
        at_once(faults, |(step, fault)| {
            let mut lab = Lab::new();
            lab.host.fault_at(step, fault);
            let result = lab.run(&case);
            lab.undo();
            lab.end_process();
            let restored = lab.restore();
            let what =
                format!("{}, step {step} '{}' {fault:?} ({result:?})", case.name, lab.host.log()[step]);
            assert_eq!(restored.report.left, [""; 0], "{what}");
            assert_eq!(lab.host.snapshot(), lab.before, "{what}");
            assert_eq!(lab.restore().journals, 0, "restored once, nothing is left: {what}");
        });
    }
}

#[test]
fn a_crash_while_restoring_is_restored_again() {
    let all: Vec<Case> = cases().into_iter().skip(2).filter(|case| case.name != "a directory").collect();
    at_once(all.iter().flat_map(|case| (0..60).map(move |step| (case, step))), |(case, step)| {
        let mut lab = Lab::new();
        lab.mount(case).unwrap();
        lab.end_process();
        lab.host.crash_at(step, step % 2 == 0);
        lab.restore();
        lab.host.revive();
        let report = lab.restore().report;
        assert_eq!(report.left, [""; 0], "crash at step {step} of restore");
        assert_eq!(lab.host.snapshot(), lab.before, "crash at step {step} of restore");
    });
}

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
fn the_journal_of_a_running_sweep_is_left_alone() {
    let mut lab = Lab::new();
    lab.run(&case("ext4, internal journal")).unwrap();
    let in_use = lab.host.snapshot();
    let report = lab.restore();
    assert_eq!((report.running, report.journals), (1, 0));
    assert_eq!(lab.host.snapshot(), in_use);
}

#[test]
fn after_a_reboot_only_files_are_undone() {
    let mut lab = Lab::new();
    lab.run(&case("ext4, internal journal")).unwrap();
    lab.reboot();
    let log_before = lab.host.log().len();
    assert_eq!(lab.restore().report.left, [""; 0]);
    let steps = &lab.host.log()[log_before..];
    assert!(!steps.iter().any(|step| step.starts_with("detach") || step.starts_with("write")), "{steps:?}");
    assert_eq!(lab.host.snapshot().files, lab.before.files);
}

#[test]
fn a_line_torn_by_the_crash_is_no_line() {
    let mut lab = Lab::new();
    lab.run(&case("ext4, internal journal")).unwrap();
    let path = lab.journal.path().unwrap().to_path_buf();
    lab.end_process();
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(br#"{"undo":"remove_file","path":"/data/prec"#);
    std::fs::write(&path, text).unwrap();
    assert_eq!(lab.restore().report.left, [""; 0]);
    assert!(lab.host.snapshot().files.contains_key(Path::new("/data/precious")));
}

#[test]
fn a_file_that_took_the_place_of_ours_stays() {
    let mut lab = Lab::new();
    lab.run(&case("ext4, internal journal")).unwrap();
    let attached = lab.host.loops().unwrap().remove(0);
    lab.host.detach_loop(&attached).unwrap();
    let ours = lab.host.file_identity(Path::new(IMAGE)).unwrap().unwrap();
    lab.host.remove_file(Path::new(IMAGE), &ours).unwrap();
    lab.host.add_file(IMAGE, Bytes(5));
    let report = lab.undo();
    assert_eq!(report.foreign.len(), 1, "{report:?}");
    assert!(lab.host.snapshot().files.contains_key(Path::new(IMAGE)));
}

#[test]
fn a_loop_device_that_somebody_else_attached_anew_stays() {
    let mut lab = Lab::new();
    let case = case("ext4, internal journal");
    let testbed = lab.verify(&case).unwrap();
    lab.build(&testbed, &case).unwrap();
    let ours = lab.host.loops().unwrap().remove(0);
    // Its agent is given up, and what that had open with it; then the device goes to somebody else.
    lab.host.revive();
    lab.host.detach_loop(&ours).unwrap();
    let theirs = lab.host.create_image(Path::new("/data/theirs"), Bytes(9)).unwrap();
    let options = LoopOptions { direct_io: false, block_size: 512 };
    assert_eq!(lab.host.attach_loop(theirs.handle, &options).unwrap().node, ours.device);
    let error = lab.host.detach_loop(&ours).unwrap_err();
    assert!(matches!(error, HostError::Replaced { .. }), "{error}");
    let report = lab.undo();
    assert_eq!((report.left, report.foreign), (Vec::<String>::new(), Vec::<String>::new()));
    assert_eq!(lab.host.loops().unwrap()[0].backing_inode, theirs.identity.inode);
    assert!(!lab.host.snapshot().files.contains_key(Path::new(IMAGE)));
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
fn a_setting_that_somebody_else_changed_stays() {
    let mut lab = Lab::new();
    lab.run(&case("ext4, internal journal")).unwrap();
    lab.host.write_setting("/proc/sys/vm/swappiness", "33\n");
    let report = lab.undo();
    assert!(report.foreign.iter().any(|line| line.contains("swappiness")), "{report:?}");
    assert_eq!(lab.host.read_text(Path::new("/proc/sys/vm/swappiness")).unwrap(), "33\n");
}

#[test]
fn undoing_waits_for_an_engine_that_is_still_dying() {
    let mut lab = Lab::new();
    lab.mount(&case("ext4, internal journal")).unwrap();
    lab.host.busy_unmounts = 3;
    assert_eq!(lab.undo().left, [""; 0]);
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
fn signatures_of_the_sweep_itself_need_no_confirmation() {
    let mut lab = Lab::new();
    let case = case("btrfs, block device");
    let testbed = lab.verify(&case).unwrap();
    let stack = lab.build(&testbed, &case).unwrap();
    stack.format(&mut lab.host).unwrap();
    lab.undo();
    lab.host.blocks.get_mut(Path::new(DISK)).unwrap().signatures.push(Signature::new("btrfs"));
    lab.build(&testbed, &case).unwrap();
    lab.undo();
    let refused = lab.verify(&case);
    assert!(refused.unwrap_err().to_string().contains("signature of btrfs"), "another sweep asks again");
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

#[test]
fn every_disk_of_a_stack_is_confirmed_and_guarded_by_itself() {
    let mut host = machine();
    let case = case("ext4 on raid5");
    let configurations = std::slice::from_ref(&case.configuration);
    let mut confirmation = confirmation();
    confirmation.destroy.pop();
    host.blocks.get_mut(Path::new("/dev/fake2")).unwrap().uses.push(Use::Swap);
    let error =
        Testbed::verify(&mut host, &case.devices, configurations, Bytes(0), &confirmation).unwrap_err();
    let TestbedError::Refused { refusals } = error else { panic!("{error}") };
    let told: Vec<String> =
        refusals.iter().map(|refusal| format!("{} {}", refusal.device.display(), refusal.reason)).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].starts_with("/dev/fake2 is in use as swap"), "{told:#?}");
    assert!(told[1].starts_with("/dev/fake3 is not confirmed"), "{told:#?}");
    assert!(!host.commands.iter().any(|line| line.starts_with("mdadm --create")));
}

#[test]
fn an_array_that_is_busy_is_waited_for_until_somebody_interrupts() {
    let mut lab = Lab::new();
    lab.host.arrays_stay_busy = true;
    lab.interrupt.store(true, Ordering::Relaxed);
    let error = lab.run(&case("ext4 on raid5")).unwrap_err();
    assert!(matches!(error, TestbedError::Interrupted { .. }), "{error}");
    assert_eq!(lab.undo().left, [""; 0]);
    assert_eq!(lab.host.snapshot(), lab.before);
}

#[test]
fn an_array_of_somebody_else_on_the_same_disks_stays() {
    let mut lab = Lab::new();
    lab.run(&case("ext4 on raid5")).unwrap();
    lab.end_process();
    // Whoever looked after the crash has stopped our array, and made another one of the same disks.
    let mdadm = |words: &[&str]| Command::new("mdadm").args(words.iter().copied());
    let disks = [DISK, "/dev/fake2", "/dev/fake3"];
    let stopped = lab.host.as_somebody_else(|host| host.run(&mdadm(&["--stop", "/dev/md127"])));
    assert_eq!(stopped.unwrap().status, 0);
    let create = mdadm(&["--create", "/dev/md/precious", "--uuid=another"]);
    let create =
        disks.iter().fold(create, |create, disk| create.device("", DeviceHandle(0), Path::new(disk)));
    let created = lab.host.as_somebody_else(|host| host.run(&create));
    assert_eq!(created.unwrap().status, 0);
    let (layers, labels) = (lab.host.snapshot().layers, lab.host.snapshot().labels);
    assert_eq!((layers.len(), labels.len()), (2, 3), "{layers:#?} {labels:#?}");
    assert_eq!(lab.restore().report.left, [""; 0]);
    let after = lab.host.snapshot();
    assert_eq!(after.labels, labels, "they are not ours");
    assert_eq!(after.layers.keys().collect::<Vec<_>>(), [Path::new("/dev/md127")]);
}

#[test]
fn what_a_stack_writes_on_disks_is_cleared_after_a_reboot_too() {
    let mut lab = Lab::new();
    lab.run(&case("ext4 on a striped volume")).unwrap();
    assert_eq!(lab.host.snapshot().labels.len(), 2);
    lab.reboot();
    assert_eq!(lab.restore().report.left, [""; 0]);
    let after = lab.host.snapshot();
    assert_eq!((after.labels, after.layers), (lab.before.labels, lab.before.layers));
}

#[test]
fn a_disk_that_is_missing_after_a_reboot_is_waited_for() {
    let mut lab = Lab::new();
    lab.run(&case("ext4 on a striped volume")).unwrap();
    lab.reboot();
    let disk = lab.host.blocks.remove(Path::new(DISK)).unwrap();
    let left = lab.restore().report.left;
    assert!(left.len() == 1 && left[0].contains(DISK), "{left:?}");
    lab.host.blocks.insert(DISK.into(), disk);
    assert_eq!(lab.restore().report.left, [""; 0]);
    assert_eq!(lab.host.snapshot().labels, lab.before.labels);
}

#[test]
fn an_array_that_udev_brings_up_again_is_stopped_again() {
    for case in cases().into_iter().filter(|case| matches!(case.devices.data, DeviceSpec::Md(_))) {
        let mut lab = Lab::new();
        lab.run(&case).unwrap();
        lab.host.reassemblies = 1;
        assert_eq!(lab.undo().left, [""; 0], "{}", case.name);
        assert_eq!((lab.host.snapshot(), lab.host.reassemblies), (lab.before, 0), "{}", case.name);
    }
}

#[test]
fn a_layer_that_is_not_as_asked_is_not_measured() {
    let mut lab = Lab::new();
    lab.host.write_setting("/sys/block/md127/md/level", "raid4\n");
    let error = lab.run(&case("ext4 on raid5")).unwrap_err();
    assert!(matches!(&error, TestbedError::Unmet { unmet } if unmet[0].contains("raid4")), "{error:?}");
    assert_eq!(lab.undo().left, [""; 0]);
    assert_eq!(lab.host.snapshot().layers, lab.before.layers);
}
