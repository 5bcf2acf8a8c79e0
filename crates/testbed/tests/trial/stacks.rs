//! Trials on arrays, logical volumes and delayed disks.

use crate::lab::{DISK, Lab, case, cases, confirmation, machine};
use fsdyno_core::{Bytes, DeviceSpec};
use fsdyno_host::probe::Use;
use fsdyno_host::{Command, DeviceHandle, Steps};
use fsdyno_testbed::{Testbed, TestbedError};
use std::path::Path;
use std::sync::atomic::Ordering;

#[test]
fn every_disk_of_a_stack_is_confirmed_and_guarded_by_itself() {
    let mut host = machine();
    let case = case("ext4 on raid5");
    let configurations = std::slice::from_ref(&case.configuration);
    let mut confirmation = confirmation();
    confirmation.destroy.retain(|path| path != Path::new("/dev/fake3"));
    host.blocks.get_mut(Path::new("/dev/fake2")).unwrap().uses.push(Use::Swap);
    let error =
        Testbed::verify(&mut host, &case.devices, configurations, Bytes(0), &confirmation).unwrap_err();
    let TestbedError::Refused { refusals } = error else { panic!("{error}") };
    let said: Vec<String> =
        refusals.iter().map(|refusal| format!("{} {}", refusal.device.display(), refusal.reason)).collect();
    assert_eq!(said.len(), 2, "{said:#?}");
    assert!(said[0].starts_with("/dev/fake2 is in use as swap"), "{said:#?}");
    assert!(said[1].starts_with("/dev/fake3 is not confirmed"), "{said:#?}");
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
