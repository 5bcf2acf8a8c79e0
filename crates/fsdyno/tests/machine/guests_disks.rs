//! Disks that a plan names, in a guest that acts as the machine itself. This tests what cannot be done with
//! the disks of this machine, whose kernel may also be unable to read partition tables.

use crate::guests::{GUEST, qemu, request, started};
use fsdyno_core::{Failure, Outcome, TrialRecord};
use fsdyno_host::guest::{Guest, GuestProgram};
use fsdyno_host::probe::{SCRATCH_MARK, Use};
use fsdyno_host::{Command, Grant, Host};
use fsdyno_store::Store;
use fsdyno_sweep::{Asked, Machines, Plan, RunOptions, SweepEnd, SweepOutcome, run};
use fsdyno_testbed::Confirmation;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const PLAN: &str = r#"
name = "named"
repetitions = 2
watchdog = "30s"
telemetry = false
[device]
block = "BLOCK"
[axes]
filesystem = "ext4"
[[workloads]]
kind = "commit-log"
writers = 1
ramp = 0
window = "WINDOW"
"#;

const PROGRAMS: &[(&str, &str)] = &[
    ("busybox", "busybox"),
    ("e2fsck", "e2fsprogs"),
    ("dumpe2fs", "e2fsprogs"),
    ("mke2fs", "e2fsprogs"),
    ("blkid", "util-linux"),
];

/// Where a partition table begins.
const TABLE_AT: u64 = 446;
/// Sectors in a MiB.
const MIB: u32 = 2048;
const PLACES: [(u32, u32); 3] = [(MIB, 16 * MIB), (16 * MIB, 16 * MIB), (32 * MIB, 16 * MIB)];

/// The links that udev makes for virtio disks with serial numbers (60-persistent-storage.rules).
const LINK: &str = "busybox mkdir -p /dev/disk/by-id && for disk in /sys/block/vd?; do name=${disk##*/}; \
                    busybox ln -s ../../$name /dev/disk/by-id/virtio-$(busybox cat $disk/serial) || exit 1; \
                    done";

/// Removes the first disk from the machine once a file is on a filesystem of a trial, in the background.
const UNPLUG: &str = "exec > /dev/null 2>&1; (until busybox find /run/fsdyno-* -type f | busybox grep -q .; do \
    busybox sleep 0.1; done; echo 1 > /sys/block/vda/device/../remove) &";

tests! {
    by_id_with_partitions_that_overlap_and_gone_in_mid_trial: GUEST;
}

/// All in one guest, because booting takes longer than each of them.
fn by_id_with_partitions_that_overlap_and_gone_in_mid_trial() {
    let directory = tempfile::tempdir().expect("a directory");
    let disks = ["a", "b", "c"].map(|name| directory.path().join(name));
    for disk in &disks {
        File::create(disk).and_then(|file| file.set_len(64 << 20)).expect("a sparse file");
    }
    let table = File::options().write(true).open(&disks[2]).expect("the third");
    table.write_all_at(&table_of(PLACES), TABLE_AT).expect("its table");
    let mut request = request("6.1", disks.to_vec());
    let program = |(name, package): &(&str, &str)| GuestProgram {
        name: name.to_string(),
        package: package.to_string(),
    };
    request.programs.extend(PROGRAMS.iter().map(program));
    let mut guest = started(&request);
    // The engine that measures the tool's cost works in the directory of the journals, a path of this
    // machine.
    shell(&mut *guest, &format!("busybox mkdir -p {}", directory.path().display()));
    shell(&mut *guest, LINK);
    partitions_that_overlap_are_refused(&mut *guest);
    disks_are_named_by_id(&mut *guest, directory.path());
    shell(&mut *guest, UNPLUG);
    one_that_disappears_fails_its_trials(&mut *guest, directory.path());
}

fn shell(guest: &mut dyn Guest, script: &str) {
    let command = Command::new("busybox").args(["sh", "-c", script]).may_change([Grant::Tree("/".into())]);
    let output = guest.run(&command).expect("busybox");
    assert_eq!(output.status, 0, "{output:?}");
}

/// Sweeps a disk named by its link, confirmed by its serial number.
fn sweep(
    guest: &mut dyn Guest,
    directory: &Path,
    serial: &str,
    window: &str,
) -> (SweepOutcome, Vec<TrialRecord>) {
    let plan = PLAN.replace("BLOCK", &link(serial)).replace("WINDOW", window);
    let plan = Plan::parse(&plan, "plan.toml", &[]).expect("a plan");
    let confirmation = Confirmation { destroy: vec![serial.into()], ..Confirmation::default() };
    let options = RunOptions {
        known: &[],
        state_dir: directory,
        keep: &[],
        confirmation: &confirmation,
        interrupt: &AtomicBool::new(false),
        hurry: &AtomicBool::new(false),
        asked: &Asked::default(),
        resume: None,
        more: None,
    };
    let mut store = Store::open(&directory.join(format!("{serial}.db"))).expect("a store");
    let host: &mut dyn Host = guest;
    let mut machines = Machines { host, guests: &mut qemu() };
    let outcome = run(&plan, &mut machines, &mut store, &options, &mut |_| {}).expect("a sweep");
    let trials = store.trials(outcome.sweep).expect("its trials");
    (outcome, trials)
}

fn link(serial: &str) -> String {
    format!("/dev/disk/by-id/virtio-{serial}")
}

/// The kernel accepts a table as it is: the first two partitions share a MiB, and the third overlaps neither.
fn partitions_that_overlap_are_refused(guest: &mut dyn Guest) {
    let mut uses = |name: &str| guest.probe_device(&Path::new("/dev").join(name)).expect("a probe").uses;
    let overlaps =
        |name: &str| Use::Alias { name: name.to_string(), how: "a partition that overlaps it".to_string() };
    assert_eq!((uses("vdc1"), uses("vdc2")), (vec![overlaps("vdc2")], vec![overlaps("vdc1")]));
    assert_eq!(uses("vdc3"), []);
}

/// The end of a boot sector of the DOS kind, with Linux partitions given by start and length in sectors.
fn table_of(places: [(u32, u32); 3]) -> [u8; 66] {
    let mut table = [0_u8; 66];
    for (entry, (start, length)) in table.chunks_exact_mut(16).zip(places) {
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&length.to_le_bytes());
    }
    table[64..].copy_from_slice(&[0x55, 0xaa]);
    table
}

fn disks_are_named_by_id(guest: &mut dyn Guest, directory: &Path) {
    let (outcome, trials) = sweep(guest, directory, "fsdyno1", "300ms");
    assert_eq!((outcome.end, outcome.measured), (SweepEnd::Finished, 2), "{trials:#?}");
    assert_eq!(outcome.left, [""; 0]);
    for trial in &trials {
        let device = &trial.environment.devices[0];
        assert_eq!((device.path.as_str(), device.serial.as_deref()), ("/dev/vdb", Some("fsdyno1")));
    }
    let left = guest.probe_device(Path::new(&link("fsdyno1"))).expect("a probe").signatures;
    let kinds: Vec<&str> = left.iter().map(|signature| signature.kind.as_str()).collect();
    assert_eq!(kinds, [SCRATCH_MARK]);
}

fn one_that_disappears_fails_its_trials(guest: &mut dyn Guest, directory: &Path) {
    let (outcome, trials) = sweep(guest, directory, "fsdyno0", "1h");
    let errors: Vec<&Failure> = trials
        .iter()
        .map(|trial| match &trial.outcome {
            Outcome::Failed { error } => error,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((outcome.end, outcome.failed), (SweepEnd::Finished, 2), "{errors:#?}");
    assert_eq!(outcome.left, [""; 0], "nothing is left to undo");
    // The kernel decides what an application is told whose disk is gone, and at which call.
    assert!(errors[0].operation.is_some() && errors[0].errno.is_some(), "{errors:#?}");
    assert!(errors[1].message.contains(&format!("find '{}'", link("fsdyno0"))), "{errors:#?}");
    let disks = guest.list_directory(Path::new("/sys/block")).expect("disks");
    assert!(!disks.contains(&"vda".to_string()), "{disks:?}");
    let mounts = guest.mounts().expect("mounts");
    assert!(mounts.iter().all(|mount| !mount.target.starts_with("/run/fsdyno-")), "{mounts:#?}");
}
