//! Journals that must not be replayed: each is moved aside or left, reported, and does not get in the way.

use fsdyno_core::Bytes;
use fsdyno_host::{MountRequest, Steps};
use fsdyno_testbed::undo::{RestoreReport, restore, restore_within};
use fsdyno_testkit::fake::FakeHost;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ID: &str = "0123456789abcdef0123456789abcdef";

/// A directory with a good journal, which removes one file, and one other.
struct Lab {
    host: FakeHost,
    directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let mut lab = Lab { host: FakeHost::new(), directory: tempfile::tempdir().expect("a directory") };
        let ours = PathBuf::from(format!("/data/.fsdyno-{ID}"));
        lab.host.create_image(&ours, Bytes(1)).expect("a file");
        lab.host.add_file("/data/precious", Bytes(1));
        lab.host.write_setting("/proc/sys/kernel/core_pattern", "core\n");
        // Its name is the last in the order in which journals are taken up.
        lab.write("z.journal", &[&header(1), &removal(&format!("/data/.fsdyno-{ID}"))]);
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, lines: &[&str]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).expect("a file");
        path
    }

    /// Restores; the good journal must be done whatever there is beside it, and nothing else touched.
    fn restore(&mut self) -> RestoreReport {
        let before = self.host.snapshot();
        let report = restore(&mut self.host, self.directory.path()).expect("a report");
        let mut after = self.host.snapshot();
        let done = Path::new("/data").join(format!(".fsdyno-{ID}"));
        assert!(!after.files.contains_key(&done) && !self.path("z.journal").exists(), "{report:?}");
        after.files.insert(done.clone(), before.files[&done].clone());
        assert_eq!(after, before, "{report:?}");
        report
    }
}

fn header(version: u32) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    format!("{{\"fsdyno_undo_journal\":{version},\"boot_id\":{:?},\"pid\":4194303}}", boot.trim())
}

fn removal(path: &str) -> String {
    format!("{{\"undo\":\"remove_file\",\"path\":\"{path}\",\"identity\":null}}")
}

#[test]
fn a_journal_that_makes_no_sense_is_put_aside() {
    let unreadable = [
        vec!["not json".to_string()],
        vec![String::new()],
        vec!["{}".to_string()],
        vec![header(1), "{\"undo\":\"format_disk\"}".to_string()],
        vec![header(1), removal("/data/precious")],
        vec![header(1), removal(&format!("/data/.fsdyno-{ID}")), removal("/data/precious")],
        vec![
            header(1),
            "{\"undo\":\"write_setting\",\"path\":\"/etc/passwd\",\"old\":\"x\",\"new\":null}".to_string(),
        ],
        vec![header(1), "{\"undo\":\"unmount\",\"target\":\"/home\"}".to_string()],
        vec![header(1), "{\"undo\":\"remove_tree\",\"path\":\"/home\"}".to_string()],
    ];
    for lines in unreadable {
        let mut lab = Lab::new();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let journal = lab.write("a.journal", &lines);
        let bytes = fs::read(&journal).unwrap();
        let report = lab.restore();
        let aside = lab.path("a.bad");
        assert_eq!((report.journals, &report.aside), (1, &vec![aside.clone()]), "{lines:?}");
        assert!(report.report.left[0].contains("a.journal") && !journal.exists(), "{report:?}");
        assert_eq!(fs::read(&aside).unwrap(), bytes, "what it says is kept for a person");
        let again = restore(&mut lab.host, lab.directory.path()).unwrap();
        assert_eq!((again.journals, again.report.left.len(), again.aside), (0, 0, vec![aside]));
    }
}

#[test]
fn bytes_that_are_no_text_are_put_aside_and_a_second_one_keeps_the_first() {
    let mut lab = Lab::new();
    fs::write(lab.path("a.journal"), [0xff, 0xfe, 0, b'\n']).unwrap();
    fs::write(lab.path("a.bad"), "an earlier one").unwrap();
    let report = lab.restore();
    assert_eq!(report.aside.len(), 2, "{report:?}");
    assert_eq!(fs::read_to_string(lab.path("a.bad")).unwrap(), "an earlier one");
}

#[test]
fn a_journal_of_a_newer_fsdyno_stays_and_is_named() {
    let mut lab = Lab::new();
    let newer = lab.write("a.journal", &[&header(9), "{\"undo\":\"something new\"}"]);
    let report = lab.restore();
    let said = &report.report.left[0];
    assert!(said.contains("newer fsdyno (format version 9") && said.contains("a.journal"), "{said}");
    assert!(newer.exists() && report.aside.is_empty());
}

#[test]
fn what_is_no_file_of_our_own_is_put_aside() {
    let elsewhere = tempfile::tempdir().unwrap();
    let hostile = elsewhere.path().join("hostile");
    fs::write(&hostile, format!("{}\n{}\n", header(1), removal(&format!("/tmp/.fsdyno-{ID}")))).unwrap();
    type Make<'a> = &'a dyn Fn(&Path);
    let make: [(&str, Make<'_>); 4] = [
        ("a link", &|path| symlink(&hostile, path).unwrap()),
        ("a second hard link", &|path| fs::hard_link(&hostile, path).unwrap()),
        ("a directory", &|path| fs::create_dir(path).unwrap()),
        ("writable by all", &|path| {
            fs::copy(&hostile, path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
        }),
    ];
    for (what, make) in make {
        let mut lab = Lab::new();
        make(&lab.path("a.journal"));
        let report = lab.restore();
        assert_eq!(report.aside.len(), 1, "{what}: {report:?}");
        assert!(fs::symlink_metadata(lab.path("a.journal")).is_err(), "{what}");
    }
}

#[test]
fn who_has_no_patience_does_not_wait_for_what_is_busy() {
    let mut lab = Lab::new();
    let target = PathBuf::from(format!("/run/fsdyno-{ID}"));
    lab.host.create_directory(&target).unwrap();
    lab.host.add_block("/dev/sdb", (8, 16), Bytes(1 << 30));
    let request = MountRequest {
        filesystem: "ext4".into(),
        source: "/dev/sdb".into(),
        device: None,
        options: Vec::new(),
        target: target.clone(),
    };
    lab.host.as_somebody_else(|host| host.mount(&request)).unwrap();
    let entry = format!("{{\"undo\":\"remove_directory\",\"path\":\"{}\"}}", target.display());
    lab.write("a.journal", &[&header(1), &entry]);
    let start = Instant::now();
    let report = restore_within(&mut lab.host, lab.directory.path(), Duration::ZERO).unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let [left] = &report.report.left[..] else { panic!("{report:?}") };
    assert!(left.starts_with(&format!("directory '{}'", target.display())), "{left}");
}
