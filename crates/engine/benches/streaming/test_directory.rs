//! Where the benchmark runs.

use crate::task::LARGE;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// If root, continues in a new mount namespace, so that the mounts there end with this process, however it
/// ends.
pub fn alone() {
    const WITHIN: &str = "--within";
    if rustix::process::geteuid().is_root() && std::env::args().all(|argument| argument != WITHIN) {
        let error = Command::new("unshare").arg("--mount").args(std::env::args_os()).arg(WITHIN).exec();
        panic!("unshare: {error}");
    }
}

/// Where the file is: ext4 on a loop device, unmounted at the end, or a temporary directory.
pub struct TestDirectory {
    directory: tempfile::TempDir,
    mounted: Option<Mounted>,
}

struct Mounted {
    point: PathBuf,
    scheduler: Scheduler,
}

/// A device with scheduler `none` until its own is restored. A loop device keeps the scheduler that somebody
/// else has set, even if it is attached again, and bfq costs seven times what is compared here.
struct Scheduler {
    setting: PathBuf,
    before: String,
}

impl Scheduler {
    fn none(point: &Path) -> Self {
        let device = rustix::fs::stat(point).unwrap().st_dev;
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let setting = Path::new("/sys/dev/block").join(number).join("queue/scheduler");
        let in_force = || {
            let text = std::fs::read_to_string(&setting).unwrap();
            let (_, rest) = text.split_once('[').unwrap();
            rest.split(']').next().unwrap().to_string()
        };
        let before = in_force();
        std::fs::write(&setting, "none").unwrap();
        assert_eq!(in_force(), "none");
        Scheduler { setting, before }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let restored = std::fs::write(&self.setting, &self.before);
        assert!(restored.is_ok(), "'{}' was {}", self.setting.display(), self.before);
    }
}

impl TestDirectory {
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        if rustix::process::geteuid().is_root() && memory.is_dir() {
            let directory = tempfile::tempdir_in(memory).unwrap();
            let (image, point) = (directory.path().join("image"), directory.path().join("mounted"));
            std::fs::File::create(&image).unwrap().set_len(3 << 30).unwrap();
            std::fs::create_dir(&point).unwrap();
            let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
            let lazy = "lazy_itable_init=0,lazy_journal_init=0";
            if run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", lazy]).arg(&image))
                && run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point))
            {
                // The loop device holds it open, so it disappears with the mount.
                std::fs::remove_file(&image).unwrap();
                let scheduler = Scheduler::none(&point);
                return TestDirectory { directory, mounted: Some(Mounted { point, scheduler }) };
            }
        }
        TestDirectory { directory: tempfile::tempdir_in("/var/tmp").unwrap(), mounted: None }
    }

    fn describe(&self) -> &'static str {
        match self.mounted {
            Some(_) => "ext4 on a loop device over memory, scheduler none",
            None => "a temporary directory",
        }
    }

    /// A file of this length, full of random bytes.
    pub fn file(&self, bytes: u64) -> PathBuf {
        let path = self.mounted.as_ref().map_or(self.directory.path(), |mounted| &mounted.point).join("file");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut block = vec![0; LARGE as usize];
        let mut file = std::fs::File::create(&path).unwrap();
        for _ in 0..bytes / LARGE {
            random.fill(&mut block[..]);
            std::io::Write::write_all(&mut file, &block).unwrap();
        }
        file.sync_all().unwrap();
        path
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        if let Some(Mounted { point, scheduler }) = self.mounted.take() {
            // While the device still exists.
            drop(scheduler);
            // The kernel releases what a ring had open some time after the ring has ended.
            let umount =
                || Command::new("umount").arg(&point).output().is_ok_and(|output| output.status.success());
            let unmounted = (0..250).any(|attempt| {
                std::thread::sleep(Duration::from_millis(if attempt == 0 { 0 } else { 20 }));
                umount()
            });
            assert!(unmounted, "'{}' is still mounted", point.display());
        }
    }
}

pub fn machine(ground: &TestDirectory) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let fio = Command::new("fio").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let fio = String::from_utf8_lossy(&fio);
    format!(
        "kernel {}, {} x {}, load before the run {}, {}\n{}\n",
        read("/proc/sys/kernel/osrelease").trim(),
        std::thread::available_parallelism().map_or(1, usize::from),
        model.trim_start_matches(['\t', ':', ' ']),
        read("/proc/loadavg").split(' ').next().unwrap_or(""),
        if fio.is_empty() { "no fio" } else { fio.trim() },
        ground.describe(),
    )
}
