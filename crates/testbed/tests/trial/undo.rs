//! Whatever goes wrong, at whatever step, undoing leaves the machine as it was.

use crate::lab::{Case, IMAGE, Lab, at_once, case, cases, steps};
use fsdyno_core::Bytes;
use fsdyno_host::{HostError, LoopOptions, Steps};
use fsdyno_testbed::UndoAction;
use fsdyno_testkit::fake::Fault;
use std::path::Path;

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
fn what_somebody_mounted_over_ours_stays_and_so_does_all_that_is_below_it() {
    for name in ["ext4, internal journal", "btrfs, block device", "xfs on a mirror"] {
        let mut lab = Lab::new();
        let mounted = lab.mount(&case(name)).unwrap();
        let ours = lab.host.snapshot();
        let target = mounted.directory().display().to_string();
        lab.host.add_mounts(&format!("90 1 0:77 / {target} rw - tmpfs theirs rw"));
        let with_theirs = lab.host.snapshot();
        lab.end_process();
        let restored = lab.restore().report;
        assert!(
            restored.left.iter().any(|line| line.contains("tmpfs of 'theirs' was mounted over it")),
            "{name}: {restored:?}"
        );
        assert_eq!(lab.host.snapshot().mounts, with_theirs.mounts, "{name}");
        assert_eq!(lab.host.snapshot().files, ours.files, "{name}");

        lab.host.unmount(Path::new(&target)).unwrap();
        assert_eq!(lab.restore().report.left, [""; 0], "{name}");
        assert_eq!(lab.host.snapshot(), lab.before, "{name}");
    }
}

#[test]
fn what_somebody_mounted_where_ours_was_is_theirs() {
    let mut lab = Lab::new();
    let mounted = lab.mount(&case("ext4, internal journal")).unwrap();
    let target = mounted.directory().to_path_buf();
    let unmounted = mounted.unmount(&mut lab.host, &mut lab.journal).unwrap();
    lab.host.add_mounts(&format!("90 1 0:77 / {} rw - ext4 /dev/fake2 rw", target.display()));
    let report = lab.undo();
    assert!(report.foreign.iter().any(|line| line.contains("ext4 of '/dev/fake2'")), "{report:?}");
    assert!(lab.host.mounts().unwrap().iter().any(|mount| mount.target == target));
    drop(unmounted);
}

/// Journals of before 0.2 do not say what was mounted.
#[test]
fn an_old_journal_unmounts_what_is_alone_in_its_place() {
    let mut lab = Lab::new();
    let mounted = lab.mount(&case("ext4, internal journal")).unwrap();
    let target = mounted.directory().display().to_string();
    let path = lab.journal.path().unwrap().to_path_buf();
    lab.end_process();
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, mounted) = text.split_once(r#","mounted":{"#).unwrap();
    let (_, after) = mounted.split_once('}').unwrap();
    std::fs::write(&path, format!("{before}{after}")).unwrap();

    lab.host.add_mounts(&format!("90 1 0:77 / {target} rw - tmpfs theirs rw"));
    let restored = lab.restore().report;
    assert!(restored.left.iter().any(|line| line.contains("tmpfs of 'theirs'")), "{restored:?}");
    lab.host.unmount(Path::new(&target)).unwrap();
    assert_eq!(lab.restore().report.left, [""; 0]);
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

/// The kernel reads `0x21` as 33. Until the value was seen to be in force as written, what is there instead
/// is fsdyno's doing.
#[test]
fn a_setting_that_was_not_taken_as_written_comes_back() {
    let swappiness = Path::new("/proc/sys/vm/swappiness");
    let mut lab = Lab::new();
    let before = lab.host.read_text(swappiness).unwrap();
    let write = UndoAction::WriteSetting {
        path: swappiness.to_path_buf(),
        old: before.clone(),
        new: Some("0x21".to_string()),
    };
    lab.journal.append(&[write]).unwrap();
    lab.host.write_setting(swappiness, "33\n");
    let report = lab.undo();
    assert!(report.foreign.is_empty() && report.undone.len() == 1, "{report:?}");
    assert_eq!(lab.host.read_text(swappiness).unwrap(), before);
}

#[test]
fn undoing_waits_for_an_engine_that_is_still_dying() {
    let mut lab = Lab::new();
    lab.mount(&case("ext4, internal journal")).unwrap();
    lab.host.busy_unmounts = 3;
    assert_eq!(lab.undo().left, [""; 0]);
    assert_eq!(lab.host.snapshot(), lab.before);
}
