//! Power cuts in guests: the disk is recorded outside, so that guests may be lost to it, and so that nothing
//! is left of it however fsdyno ends.

use crate::durability::assert_not_shown;
use crate::guests::{GUEST, fsdyno, opened, qemu, request, trials};
use crate::support::{PATIENCE, Requirement, Sandbox, describe, wait_until};
use fsdyno_core::Bytes;
use fsdyno_core::durability::RecorderRequest;
use fsdyno_host::guest::{GuestProgram, Guests};
use fsdyno_host::local::LocalHost;
use fsdyno_host::{Command as Step, Grant, Host, MountRequest};
use fsdyno_recorder::{Kind, RecordedLog};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

const RECORDING: &[Requirement] = &[Requirement::All(GUEST), Requirement::Fuse];

tests! {
    jfs_loses_what_it_acknowledged_and_a_lost_guest_is_replaced:
        &[Requirement::All(RECORDING), Requirement::Soak];
    nothing_is_left_of_a_killed_recording: RECORDING;
    qemu_logs_the_same_disks: RECORDING;
}

/// Begins to cut power on JFS, which Debian's 6.1 has.
fn begin(sandbox: &Sandbox) -> Child {
    let text = format!(
        "name = \"cuts\"\nrepetitions = 1\nseed = 5\n[device]\nimage = \"{}\"\nsize = \"1G\"\n\
         [[configurations]]\nname = \"jfs\"\nfilesystem = \"jfs\"\nkernel = \"debian:6.1\"\n\
         [[workloads]]\nkind = \"durability\"\nsize = \"320M\"\nmodels = [\"completed\", \"flushed\"]\n\
         cuts = 8\npromises = 8\nduration = \"2s\"\nunsynced = \"200ms\"\n",
        sandbox.path("disk.img").display()
    );
    sandbox.write("plan.toml", &text);
    let mut running = fsdyno(sandbox, &["durability", "plan.toml"]);
    running.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    running.spawn().expect("run fsdyno")
}

/// Waits until the log has this file.
fn wait_for_file(sandbox: &Sandbox, name: &str) {
    wait_until(&format!("there is {name}"), || logs(sandbox).iter().any(|log| log.join(name).exists()));
}

fn logs(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(sandbox.path("")).expect("the sandbox").flatten();
    let is_log = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("fsdyno-");
    entries.filter(is_log).map(|entry| entry.path()).collect()
}

fn jfs_loses_what_it_acknowledged_and_a_lost_guest_is_replaced() {
    let sandbox = Sandbox::new();
    let running = begin(&sandbox);
    // It is made for the first state.
    wait_for_file(&sandbox, "overlay");
    let parent = running.id().to_string();
    let killed = Command::new("pkill").args(["-9", "-P", &parent, "-f", "qemu-system"]).status();
    assert!(killed.expect("pkill").success(), "no guest runs");
    let ended = running.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{}", describe(&ended));
    let [trial] = &trials(&sandbox)[..] else { panic!("one trial") };
    let models = trial["durability"]["models"].as_array().expect("models");
    let sum = |what: &str| models.iter().map(|model| model[what].as_u64().expect("a count")).sum::<u64>();
    assert_eq!((sum("states"), sum("hung")), (16, 1), "{models:?}");
    let kinds: Vec<&Value> =
        trial["warnings"].as_array().expect("warnings").iter().map(|warning| &warning["kind"]).collect();
    assert!(kinds.iter().any(|kind| *kind == "guest-lost"), "{kinds:?}");
    // JFS flushes nothing when it syncs (fs/jfs/file.c), so only what was written long before survives.
    let flushed = models.iter().find(|model| model["model"] == "flushed").expect("the model");
    let promises = flushed["promises"].as_array().expect("promises");
    let sum = |what: &str| promises.iter().map(|one| one[what].as_u64().expect("a count")).sum::<u64>();
    let (made, lost) = (sum("made"), sum("lost"));
    assert!(made > 20 && lost * 10 > made * 9, "{lost} of {made}");
    let restored = sandbox.run(&["restore"]);
    assert!(describe(&restored).contains("nothing to restore"), "{}", describe(&restored));
    assert!(logs(&sandbox).is_empty(), "{:?}", logs(&sandbox));
}

fn nothing_is_left_of_a_killed_recording() {
    let sandbox = Sandbox::new();
    let mut running = begin(&sandbox);
    let parent = running.id().to_string();
    let boots = || Command::new("pgrep").args(["-P", &parent, "-f", "qemu-system"]).output();
    wait_until("a guest runs", || boots().expect("pgrep").status.success());
    let mounts = fs::read_to_string("/proc/mounts").expect("the mounts");
    let shown = mounts.lines().filter_map(|line| line.strip_prefix("fsdyno-recorder ")?.split(' ').next());
    running.kill().expect("kill it");
    running.wait().expect("it is gone");
    let restored = sandbox.run(&["restore"]);
    assert!(restored.status.success(), "{}", describe(&restored));
    let text = describe(&restored).to_string();
    // Whether the recorder had time to unmount itself is its own affair.
    let own: Vec<&str> = shown.filter(|shown| text.contains(&format!("removed '{shown}'"))).collect();
    assert_eq!(own.len(), 1, "{text}\n{mounts}");
    assert!(!Path::new(own[0]).exists(), "{text}");
    assert_not_shown(&text);
    assert!(logs(&sandbox).is_empty(), "{:?}", logs(&sandbox));
}

const SECTOR: usize = 512;
const DISK: Bytes = Bytes(256 << 20);

/// A disk by the sectors that were written to it, with a sum over all of them.
#[derive(Default)]
struct Sectors {
    of: HashMap<u64, u64>,
    sum: u64,
}

impl Sectors {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        for (number, sector) in (at / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            let hash = match sector.iter().all(|byte| *byte == 0) {
                true => 0,
                false => {
                    let mut hasher = DefaultHasher::new();
                    (number, sector).hash(&mut hasher);
                    hasher.finish()
                }
            };
            self.sum ^= self.of.insert(number, hash).unwrap_or(0) ^ hash;
        }
    }
}

/// Only the disks that differ from the one before: not every layer passes on a flush of nothing.
fn said(mut sums: Vec<u64>) -> Vec<u64> {
    sums.dedup();
    sums.retain(|sum| *sum != 0);
    sums
}

/// The disk at each flush that follows a change, from the log of QEMU's `blklogwrites`: a sector with the
/// number of entries, and for each entry a sector that describes it, and its data.
fn at_flushes_of_qemu(log: &Path) -> Vec<u64> {
    const FLUSH: u64 = 1;
    const DISCARD: u64 = 4;
    let log = fs::read(log).expect("QEMU's log");
    let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().expect("eight bytes"));
    assert_eq!((word(0), word(8)), (0x006a_7366_7773_6872, 1), "its magic and version");
    let (mut disk, mut sums, mut at) = (Sectors::default(), Vec::new(), SECTOR);
    for _ in 0..word(16) {
        let (sector, count, flags) = (word(at), word(at + 8), word(at + 16));
        at += SECTOR;
        let length = count as usize * SECTOR;
        if flags & DISCARD != 0 {
            disk.put(sector * SECTOR as u64, &vec![0; length]);
        } else {
            disk.put(sector * SECTOR as u64, &log[at..at + length]);
            at += length;
        }
        if flags & FLUSH != 0 {
            sums.push(disk.sum);
        }
    }
    said(sums)
}

/// The same from the recorder's log.
fn at_flushes_of_recorder(directory: &Path) -> Vec<u64> {
    let log = RecordedLog::open(directory, DISK).expect("the recorder's log");
    let (mut disk, mut sums) = (Sectors::default(), Vec::new());
    let each = |_, entry: fsdyno_recorder::Entry| {
        match entry.kind {
            Kind::Write => disk.put(entry.offset, &log.read(&entry)?),
            Kind::Zeros => disk.put(entry.offset, &vec![0; entry.length as usize]),
            Kind::Flush { .. } => sums.push(disk.sum),
            Kind::Mark => {}
        }
        Ok(())
    };
    log.for_each(0..log.count(), each).expect("every entry");
    said(sums)
}

/// Two recordings of one disk, at two places below the guest: whatever a cut after a flush leaves is the same
/// disk in both, so that everything found on it is the same.
fn qemu_logs_the_same_disks() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let (log, shown) = (path("log"), path("shown"));
    fs::create_dir(&log).and_then(|()| fs::create_dir(&shown)).expect("directories");
    let mut host = LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new());
    let mut recorder = host.start_recorder().expect("a recorder");
    let begin = RecorderRequest::Begin {
        directory: log.clone(),
        mountpoint: shown.clone(),
        complete: None,
        parts: 1,
        shared: true,
    };
    recorder.ask(&begin, PATIENCE).expect("it begins");
    let disk = shown.join("disk");
    File::create(&disk).and_then(|disk| disk.set_len(DISK.0)).expect("a disk");
    let disks = opened(std::slice::from_ref(&disk));
    File::create_new(path("theirs")).expect("a file");
    let theirs = opened(&[path("theirs")]).pop().expect("it");
    let dd = GuestProgram { name: "dd".to_string(), package: "coreutils".to_string() };
    let mut request = request("6.1", vec![disk.clone()]);
    request.programs.push(dd);
    // Programs are confined to what a step grants, and mkfs has a disk by its path here.
    let mut qemu = qemu().with_kernel_words("lsm=yama").with_log(theirs);
    let guest = qemu.start(&request, &disks, &AtomicBool::new(false));
    let mut guest = guest.unwrap_or_else(|not| panic!("{}\n{}", not.error, not.last_words));
    let mut run = |step: Step| {
        let ran = guest.run(&step).expect("it runs");
        assert_eq!(ran.status, 0, "{ran:?}");
    };
    // A write of the kernel's own in the background may be in flight at a flush, and then the two methods may
    // differ about it: QEMU logs it when it has completed. So inode tables are not left to the kernel, the
    // journal commits only when something syncs, and nothing is written back because it has become old, which
    // it does on a busy machine.
    let now = "lazy_itable_init=0,lazy_journal_init=0";
    run(Step::new("mkfs.ext4").args(["-q", "-E", now, "/dev/vda"]));
    let writeback = Path::new("/proc/sys/vm/dirty_writeback_centisecs");
    guest.change_setting(writeback, "0").expect("it is written");
    let mounted = Path::new("/tmp/fs");
    guest.create_directory(mounted).expect("a directory");
    let mount = MountRequest {
        filesystem: "ext4".to_string(),
        source: "/dev/vda".into(),
        device: None,
        options: vec!["commit=600".to_string()],
        target: mounted.into(),
    };
    guest.mount(&mount).expect("it mounts");
    for number in 1..40 {
        // Something other than zeros, in a file of its own, which is synced.
        let words = ["if=/fsdyno".to_string(), format!("of=/tmp/fs/{number}"), format!("bs={number}k")];
        let step = Step::new("dd").args(words).args(["count=3", "conv=fsync", "status=none"]);
        let step = step.may_change(Some(Grant::Tree(mounted.into())));
        let ran = guest.run(&step).expect("dd runs");
        assert_eq!(ran.status, 0, "{ran:?}");
    }
    // Unmounting flushes while it writes what is still in memory of the disk, unless that is nothing.
    let write_all = ["if=/dev/null", "of=/dev/vda", "conv=notrunc,fsync", "status=none"];
    let written = guest.run(&Step::new("dd").args(write_all)).expect("dd runs");
    assert_eq!(written.status, 0, "{written:?}");
    guest.unmount(mounted).expect("it unmounts");
    drop((guest, disks));
    fs::remove_file(&disk).expect("remove it");
    drop(recorder);
    // On a busy machine it may have been killed before it had unmounted itself; the undo journal of a trial
    // does it then.
    let _ = rustix::mount::unmount(&shown, rustix::mount::UnmountFlags::DETACH);
    let (own, theirs) = (at_flushes_of_recorder(&log), at_flushes_of_qemu(&path("theirs")));
    assert!(own.len() > 40, "{} flushes", own.len());
    let differs = own.iter().zip(&theirs).position(|(own, theirs)| own != theirs);
    let around = |flushes: &[u64]| {
        let at = differs.unwrap_or_default();
        flushes.get(at.saturating_sub(2)..(at + 3).min(flushes.len())).map(<[u64]>::to_vec)
    };
    let said = format!("own {:x?}, theirs {:x?}", around(&own), around(&theirs));
    assert_eq!((own.len(), differs), (theirs.len(), None), "{said}");
}
