//! Settings on a fake machine: which ones a plan may change, and that each is exactly what it was when they
//! are undone.

use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::Steps;
use fsdyno_testbed::undo::{self, UndoJournal};
use fsdyno_testbed::{Confirmation, Testbed, TestbedError, build, contradictions, guard, unmet};
use fsdyno_testkit::fake::FakeHost;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";

fn devices() -> Devices {
    let data = DeviceSpec::image("/data/d.img", Bytes(Bytes::GIB));
    Devices { data, journals: Default::default() }
}

fn with_sysctl(key: &str, value: &str) -> Configuration {
    let settings = [(format!("sysctl.{key}"), value.to_string())].into();
    Configuration { name: "tuned".to_string(), filesystem: "ext4".to_string(), settings }
}

fn verify(
    host: &mut FakeHost,
    configuration: &Configuration,
    allowed: &[&str],
) -> Result<Testbed, TestbedError> {
    let sysctls = allowed.iter().map(ToString::to_string).collect();
    let confirmation = Confirmation { sysctls, ..Confirmation::default() };
    Testbed::verify(host, &devices(), std::slice::from_ref(configuration), Bytes(0), &confirmation)
}

/// A trial up to its mount.
fn mount(
    host: &mut FakeHost,
    journal: &mut UndoJournal,
    configuration: &Configuration,
) -> Result<(), TestbedError> {
    let testbed = verify(host, configuration, &[])?;
    let stack = build(host, journal, &testbed, configuration, 42, &AtomicBool::default())?;
    stack.format(host)?.mount(host, journal).map(drop)
}

#[test]
fn a_setting_comes_back_byte_for_byte() {
    for before in ["3\n", "3", "3 \t[x]  y \n", " 3\t4\n"] {
        let mut host = FakeHost::new();
        host.write_setting(PAGE_CLUSTER, before);
        let start = host.snapshot();
        let mut journal = UndoJournal::in_memory();
        mount(&mut host, &mut journal, &with_sysctl("vm.page-cluster", "7")).unwrap();
        assert_eq!(host.read_text(Path::new(PAGE_CLUSTER)).unwrap().trim(), "7");
        let report = journal.undo_all(&mut host);
        assert_eq!((report.left, report.foreign), (Vec::new(), Vec::new()));
        assert_eq!(host.snapshot(), start, "{before:?}");
    }
}

#[test]
fn what_cannot_be_written_back_is_not_changed() {
    for before in ["", &"x".repeat(5000)] {
        let mut host = FakeHost::new();
        host.write_setting(PAGE_CLUSTER, before);
        let configuration = with_sysctl("vm.page-cluster", "7");
        let reasons = unmet(&mut host, &configuration, &devices());
        assert!(
            reasons.iter().any(|reason| reason.contains("could not be restored afterwards")),
            "{reasons:?}"
        );
        let start = host.snapshot();
        let mut journal = UndoJournal::in_memory();
        let error = mount(&mut host, &mut journal, &configuration).unwrap_err();
        assert!(
            matches!(&error, TestbedError::Unmet { unmet } if unmet[0].contains("is not changed")),
            "{error:?}"
        );
        assert_eq!(journal.undo_all(&mut host).left, [""; 0]);
        assert_eq!(host.snapshot(), start);
    }
}

#[test]
fn a_sysctl_that_is_not_known_needs_permission() {
    let configuration = with_sysctl("kernel.core_pattern", "|/tmp/x");
    let mut host = FakeHost::new();
    host.write_setting("/proc/sys/kernel/core_pattern", "core\n");
    let Err(TestbedError::Refused { refusals }) =
        verify(&mut host, &configuration, &["kernel.core_pipe_limit"])
    else {
        panic!("not refused");
    };
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0].device, Path::new("kernel.core_pattern"));
    assert!(refusals[0].hint.contains("--allow-sysctl kernel.core_pattern"), "{}", refusals[0].hint);
    let foreseen = guard::foresee(&mut host, &devices(), std::slice::from_ref(&configuration), Bytes(0));
    assert_eq!(foreseen, refusals);
    assert!(verify(&mut host, &configuration, &["kernel.core_pattern"]).is_ok());
    assert!(verify(&mut host, &with_sysctl("vm.swappiness", "1"), &[]).is_ok());
    assert!(verify(&mut host, &with_sysctl("kernel.core_pattern", "default"), &[]).is_ok());
}

#[test]
fn a_key_that_leaves_proc_sys_goes_nowhere_however_it_came() {
    for key in ["/data/precious", "../../data/precious", "vm/dirty_ratio", "vm..dirty_ratio"] {
        let mut host = FakeHost::new();
        host.write_setting("/data/precious", "mine\n");
        let start = host.snapshot();
        let configuration = with_sysctl(key, "x");
        assert!(!contradictions(&configuration, &devices()).is_empty(), "{key}");
        assert!(mount(&mut host, &mut UndoJournal::in_memory(), &configuration).is_err(), "{key}");
        assert_eq!(host.snapshot(), start, "{key}");
    }
}

#[test]
fn the_fake_machine_writes_no_other_file_either() {
    let mut host = FakeHost::new();
    for path in
        ["/data/precious", "/proc/sysrq-trigger", "/proc/sys/vm/../../sysrq-trigger", "/sys/power/state"]
    {
        host.write_setting(path, "mine\n");
        let error = Steps::change_setting(&mut host, Path::new(path), "x").unwrap_err();
        assert!(error.to_string().contains("use as a setting"), "{error}");
        assert_eq!(host.read_text(Path::new(path)).unwrap(), "mine\n");
    }
}

/// A journal with this line, whose process is gone.
fn left_journal(directory: &Path, line: &str) {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    // No process has number 0.
    let header = format!(r#"{{"fsdyno_undo_journal":1,"boot_id":"{}","pid":0}}"#, boot.trim());
    std::fs::write(directory.join("0.journal"), format!("{header}\n{line}\n")).expect("a journal");
}

#[test]
fn journals_of_older_versions_are_obeyed_within_the_same_limits() {
    let entry = |path: &str| format!(r#"{{"undo":"write_setting","path":"{path}","old":"60","new":"10"}}"#);
    let directory = tempfile::tempdir().unwrap();
    let mut host = FakeHost::new();
    host.write_setting("/proc/sys/vm/swappiness", "10\n");
    left_journal(directory.path(), &entry("/proc/sys/vm/swappiness"));
    assert_eq!(undo::restore(&mut host, directory.path()).unwrap().report.left, [""; 0]);
    assert_eq!(host.read_text(Path::new("/proc/sys/vm/swappiness")).unwrap().trim(), "60");

    let queue = "/sys/dev/block/7:0/queue/read_ahead_kb";
    host.write_setting(queue, "10\n");
    left_journal(directory.path(), &entry(queue));
    assert_eq!(undo::restore(&mut host, directory.path()).unwrap().report.left, [""; 0]);
    assert_eq!(host.read_text(Path::new(queue)).unwrap().trim(), "60");

    host.write_setting("/data/precious", "10\n");
    left_journal(directory.path(), &entry("/data/precious"));
    let report = undo::restore(&mut host, directory.path()).unwrap().report;
    assert!(report.left.len() == 1 && report.undone.is_empty(), "{report:?}");
    assert_eq!(host.read_text(Path::new("/data/precious")).unwrap(), "10\n");
}
