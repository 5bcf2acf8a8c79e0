//! Which devices carry a trial: those that the filesystem knows, then those below, each once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices, Warning, WarningKind};
use fsdyno_testbed::undo::UndoJournal;
use fsdyno_testbed::{Confirmation, Testbed, build};
use fsdyno_testkit::fake::FakeHost;
use std::sync::atomic::AtomicBool;

/// The carriers of a trial on these devices.
fn carriers(host: &mut FakeHost, data: DeviceSpec, journal: Option<DeviceSpec>) -> Vec<String> {
    mounted(host, data, journal).0
}

/// The carriers of a trial on these devices, and what it warns of.
fn mounted(
    host: &mut FakeHost,
    data: DeviceSpec,
    journal: Option<DeviceSpec>,
) -> (Vec<String>, Option<Warning>) {
    let state = tempfile::tempdir().unwrap();
    let settings = journal.iter().map(|_| ("journal".to_string(), "external:log".to_string()));
    let filesystem = if matches!(data, DeviceSpec::Directory { .. }) { "existing" } else { "ext4" };
    let configuration = Configuration {
        name: filesystem.to_string(),
        filesystem: filesystem.to_string(),
        settings: settings.collect(),
    };
    let journals = journal.into_iter().map(|journal| ("log".to_string(), journal)).collect();
    let devices = Devices { data, journals };
    let confirmation = Confirmation { destroy: vec!["/dev/fake1".into()], ..Confirmation::default() };
    let configurations = std::slice::from_ref(&configuration);
    let testbed = Testbed::verify(host, &devices, configurations, Bytes(0), &confirmation).unwrap();
    let mut undo = UndoJournal::create(host, state.path()).unwrap();
    let stack = build(host, &mut undo, &testbed, &configuration, 42, &AtomicBool::default()).unwrap();
    let mounted = stack.format(host).unwrap().mount(host, &mut undo).unwrap();
    let found = (mounted.carriers(host), mounted.shared_journal(host));
    undo.undo_all(host);
    undo.close().unwrap();
    found
}

fn image(path: &str) -> DeviceSpec {
    DeviceSpec::image(path, Bytes(4 * Bytes::GIB))
}

/// The fake host keeps its files on 0:42, a partition of `sda`.
fn machine() -> FakeHost {
    let mut host = FakeHost::new();
    for (path, text) in [
        ("/sys/dev/block/7:0/uevent", "MAJOR=7\nMINOR=0\nDEVNAME=loop0\nDEVTYPE=disk\n"),
        ("/sys/dev/block/7:1/uevent", "MAJOR=7\nMINOR=1\nDEVNAME=loop1\nDEVTYPE=disk\n"),
        ("/sys/dev/block/0:42/uevent", "MAJOR=8\nMINOR=1\nDEVNAME=sda1\nDEVTYPE=partition\n"),
        ("/sys/class/block/sda1/partition", "1\n"),
        ("/sys/class/block/sda1/../uevent", "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\n"),
    ] {
        host.write_setting(path, text);
    }
    host
}

#[test]
fn an_image_stands_on_a_partition_and_that_on_a_disk() {
    assert_eq!(carriers(&mut machine(), image("/data/fs.img"), None), ["loop0", "sda1", "sda"]);
}

#[test]
fn a_journal_of_its_own_stands_beside_the_filesystem_and_their_disk_stands_once() {
    let names = carriers(&mut machine(), image("/data/fs.img"), Some(image("/data/log.img")));
    assert_eq!(names, ["loop0", "loop1", "sda1", "sda"]);
}

#[test]
fn a_journal_on_the_disk_with_the_data_is_told() {
    let log = || Some(image("/data/log.img"));
    let (_, warning) = mounted(&mut machine(), image("/data/fs.img"), log());
    let warning = warning.unwrap();
    assert_eq!(warning.kind, WarningKind::JournalOnSameDisk);
    assert_eq!(warning.text, "the journal and the data are both on 'sda'");
    assert_eq!(mounted(&mut machine(), image("/data/fs.img"), None).1, None);
    let mut host = machine();
    host.add_block("/dev/fake1", (8, 16), Bytes(8 * Bytes::GIB));
    host.write_setting("/sys/dev/block/8:16/uevent", "DEVNAME=sdb\nDEVTYPE=disk\n");
    let other = DeviceSpec::block("/dev/fake1");
    assert_eq!(mounted(&mut host, other, log()).1, None);
}

#[test]
fn a_mapped_device_stands_on_its_members() {
    let mut host = machine();
    host.add_block("/dev/fake1", (253, 0), Bytes(8 * Bytes::GIB));
    host.write_setting("/sys/dev/block/253:0/uevent", "DEVNAME=dm-0\nDEVTYPE=disk\n");
    for member in ["sda", "sdb"] {
        host.write_setting(format!("/sys/class/block/dm-0/slaves/{member}/uevent"), "");
    }
    let device = DeviceSpec::block("/dev/fake1");
    assert_eq!(carriers(&mut host, device, None), ["dm-0", "sda", "sdb"]);
}

#[test]
fn a_directory_stands_on_the_device_of_its_filesystem() {
    let directory = || DeviceSpec::Directory { path: "/data".into() };
    assert_eq!(carriers(&mut machine(), directory(), None), ["sda1", "sda"]);
    // The machine may tell nothing at all.
    assert_eq!(carriers(&mut FakeHost::new(), directory(), None), Vec::<String>::new());
}
