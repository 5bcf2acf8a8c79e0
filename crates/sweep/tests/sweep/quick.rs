//! The plan of `fsdyno quick`, on a machine in memory.

use fsdyno_core::workload::Ramp;
use fsdyno_core::{Bytes, Nanos, Workload};
use fsdyno_host::guest::NoGuests;
use fsdyno_sweep::{Case, Plan, QUICK, Quick, QuickError, QuickOptions, dry_run, order, quick};
use fsdyno_testkit::fake::FakeHost;
use std::path::Path;

const GIB: u64 = Bytes::GIB;

fn host() -> FakeHost {
    let mut host = FakeHost::new();
    host.add_block("/dev/fake1", (259, 0), Bytes(100 * GIB));
    host.add_directory("/data");
    host.space = (Bytes(100 * GIB), Bytes(200 * GIB));
    host
}

fn asked(host: &mut FakeHost, target: &str, minutes: u64, set: &[&str]) -> Result<Quick, QuickError> {
    asked_of_disks(host, target, minutes, set, &[])
}

fn asked_of_disks(
    host: &mut FakeHost,
    target: &str,
    minutes: u64,
    set: &[&str],
    disks: &[&str],
) -> Result<Quick, QuickError> {
    let before = host.snapshot();
    let [set, disks] = [set, disks].map(|all| all.iter().map(|text| (*text).to_string()).collect::<Vec<_>>());
    let (target, time) = (Path::new(target), Nanos::from_secs(60 * minutes));
    let options = QuickOptions { target, time, set: &set, disks: &disks };
    let quick = quick(host, &mut NoGuests, &options);
    assert_eq!(host.snapshot(), before, "nothing is changed");
    quick
}

#[test]
fn the_text_is_a_plan_with_everything_that_was_chosen() {
    let mut host = host();
    for target in ["/data", "/data/mine.img"] {
        let quick = asked(&mut host, target, 15, &[]).unwrap();
        assert_eq!(Plan::parse(&quick.plan.text, QUICK, &[]).unwrap(), quick.plan);
        assert!(quick.plan.enough.is_some_and(|enough| enough.is_auto()), "until the answer is decided");
        assert!(quick.time <= Nanos::from_secs(15 * 60 * 9 / 10) && quick.time > Nanos::from_secs(10 * 60));
        let run = dry_run(&quick.plan, &mut host, &mut NoGuests);
        assert!(run.time_ns < quick.time && quick.time <= run.time_max_ns, "of 4, 8 and 20 blocks");
        assert_eq!(run.refusals.len(), 0);
        let Workload::Fileserver(load) = &quick.plan.workloads[0] else { panic!("a fileserver") };
        let memory = quick.plan.cases()[0].configuration.memory().unwrap();
        assert_eq!((load.tree_size, memory), (Bytes(GIB), Bytes(64 * Bytes::MIB)));
        assert!(matches!(load.ramp, Ramp::For(_)));
        let all = [&quick.plan.text, &quick.choices().join("\n")].map(|text| text.lines().count());
        assert_eq!(all, [23, 2], "{}", quick.plan.text);
    }
}

#[test]
fn each_disk_that_is_asked_about_has_cases_of_its_own() {
    let (mut host, disks) = (host(), ["sata-7200-today", "ebs-gp3"]);
    host.add_directory("/sys/fs/fuse");
    let quick = asked_of_disks(&mut host, "/data", 60, &[], &disks).unwrap();
    let cases = quick.plan.cases();
    let of = |case: &Case| (case.configuration.name.clone(), case.device.model().unwrap().name.clone());
    let found: Vec<_> = cases.iter().map(of).collect();
    let expected = ["ext4", "xfs", "btrfs"].iter().flat_map(|name| disks.map(|disk| (name, disk)));
    assert_eq!(found, expected.map(|(name, disk)| (name.to_string(), disk.to_string())).collect::<Vec<_>>());
    assert_eq!(cases[1].label, "fileserver on ebs-gp3");
    let slots = order(&quick.plan);
    assert!(cases.iter().all(|case| slots.iter().any(|slot| slot.case == case.index && !slot.sentinel)));
    assert!(quick.choices()[0].contains("modelled: sata-7200-today, ebs-gp3"), "{:?}", quick.choices());
    assert!(!quick.plan.measures_write_rate(), "one rate would be that of the slowest disk");
    let error = asked_of_disks(&mut host, "/dev/fake1", 60, &[], &disks).unwrap_err();
    assert_eq!(error.to_string(), "'/dev/fake1' is a device, and has its own times, not those of a model");
}

#[test]
fn a_small_device_has_small_trees_and_a_long_time_large_ones() {
    let trees = |size: u64, minutes: u64| {
        let mut host = host();
        host.add_block("/dev/fake1", (259, 0), Bytes(size));
        let Workload::Fileserver(load) =
            asked(&mut host, "/dev/fake1", minutes, &[]).unwrap().plan.workloads.remove(0)
        else {
            panic!("a fileserver")
        };
        load.tree_size.0
    };
    assert_eq!(trees(2 * GIB, 600), GIB / 2);
    assert_eq!(trees(5 * GIB, 600), GIB);
    assert_eq!(trees(1000 * GIB, 900), 64 * GIB);
    assert_eq!(trees(1000 * GIB, 4), GIB / 2);
}

#[test]
fn what_is_not_installed_is_left_out_with_the_reason() {
    let mut host = host();
    host.programs.remove("mkfs.xfs");
    let quick = asked(&mut host, "/dev/fake1", 15, &[]).unwrap();
    let choices = quick.choices();
    assert!(choices[0].starts_with("ext4, btrfs on block /dev/fake1, repeated until"), "{choices:?}");
    assert!(choices.last().unwrap().starts_with("not compared: xfs (mkfs.xfs"), "{choices:?}");
    // What the user asks for is not left out: its trials are skipped.
    let quick = asked(&mut host, "/dev/fake1", 15, &["axes.filesystem=[\"xfs\", \"ext4\"]"]).unwrap();
    assert_eq!(quick.plan.cases().len(), 2);
    ["mkfs.ext4", "mke2fs", "mkfs.btrfs"].iter().for_each(|name| drop(host.programs.remove(*name)));
    let error = asked(&mut host, "/dev/fake1", 15, &[]).unwrap_err();
    assert!(error.to_string().starts_with("nothing to compare: ext4 ("), "{error}");
}

#[test]
fn what_cannot_be_used_is_refused_with_the_next_step() {
    let mut host = host();
    host.add_block("/dev/small", (259, 1), Bytes(1024 * Bytes::MIB));
    host.add_file("/data/file", Bytes(1));
    let mut refused = |target: &str, minutes| {
        let error = asked(&mut host, target, minutes, &[]).unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        error.to_string()
    };
    assert_eq!(refused("/dev/small", 15), "'/dev/small' has only 1G; quick needs at least 2G");
    assert_eq!(refused("/dev/absent", 15), "'/dev/absent' does not exist");
    assert_eq!(
        refused("/data/file", 15),
        "'/data/file' exists and is neither a block device nor a directory"
    );
    assert!(refused("/data", 1).starts_with("'quick' does not fit into 1m: "));
    host.space = (Bytes(2 * GIB), Bytes(200 * GIB));
    let error = asked(&mut host, "/data", 15, &[]).unwrap_err().to_string();
    assert_eq!(error, "'/data' has only 0 free beyond the reserve; quick needs at least 2G");
}
