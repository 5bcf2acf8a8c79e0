//! Emulated guests that resume from a snapshot of one that has booted.

use crate::guests::{GUEST, cache, opened, request};
use fsdyno_guest::Qemu;
use fsdyno_host::guest::{Guest, GuestProgram, GuestRequest, Guests};
use fsdyno_host::{Command, Grant};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

tests! {
    a_resumed_guest_is_one_of_its_own: GUEST;
    a_guest_boots_where_a_snapshot_is_of_no_use: GUEST;
}

/// A cache of its own with the kernels that others have downloaded, and a disk.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("cache")).expect("a cache");
        symlink(cache().join("fsdyno/packages"), directory.path().join("cache/packages")).expect("a link");
        let disk = directory.path().join("disk");
        fs::File::create(disk).and_then(|file| file.set_len(64 << 20)).expect("a sparse file");
        Place { directory }
    }

    fn request(&self) -> GuestRequest {
        request("6.1", vec![self.directory.path().join("disk")])
    }

    fn start(&self, request: &GuestRequest) -> Box<dyn Guest> {
        Qemu::new(env!("CARGO_BIN_EXE_fsdyno").into(), self.directory.path().join("cache"))
            .emulating()
            .start(request, &opened(&request.disks), &AtomicBool::new(false))
            .unwrap_or_else(|not| panic!("{}\n{}", not.error, not.last_words))
    }

    fn snapshots(&self) -> Vec<PathBuf> {
        let boots = fs::read_dir(self.directory.path().join("cache/kept")).into_iter().flatten().flatten();
        let files = boots.flat_map(|boot| fs::read_dir(boot.path()).expect("files").flatten());
        let snapshots = files.filter(|file| file.file_name().to_string_lossy().starts_with("snapshot-"));
        snapshots.map(|file| file.path()).collect()
    }
}

fn is_resumed(guest: &dyn Guest) -> bool {
    guest.facts().description.ends_with("resumed from a snapshot")
}

fn read(guest: &mut dyn Guest, path: &str) -> String {
    guest.read_text(Path::new(path)).expect("text").trim().to_string()
}

/// Nothing that is random is the same in two of them, and both know what time it is; what one has written is
/// not on the disk of the other.
fn a_resumed_guest_is_one_of_its_own() {
    const RANDOM: [&str; 2] = ["/proc/sys/kernel/random/uuid", "/proc/sys/kernel/random/boot_id"];
    let place = Place::new();
    let mut asked = place.request();
    asked.programs.push(GuestProgram { name: "date".to_string(), package: "coreutils".to_string() });
    let mut random = BTreeSet::new();
    for number in 0..2 {
        let mut guest = place.start(&asked);
        assert!(is_resumed(guest.as_ref()), "{}", guest.facts().description);
        random.extend(RANDOM.map(|path| read(guest.as_mut(), path)));
        let said = guest.run(&Command::new("date").args(["+%s"])).expect("a date");
        let said = Duration::from_secs(said.stdout.trim().parse().expect("seconds"));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        assert!(now.abs_diff(said) < Duration::from_secs(60), "{now:?} {said:?}");
        let node = guest.disks().remove(0);
        assert_eq!(guest.probe_device(&node).expect("a probe").signatures.len(), number, "as on the disk");
        let mkfs =
            Command::new("mkfs.ext4").args(["-q", "-F", "/dev/vda"]).may_change([Grant::File(node.clone())]);
        assert_eq!(guest.run(&mkfs).expect("mkfs runs").status, 0);
        assert_eq!(guest.probe_device(&node).expect("a probe").size().0, 64 << 20);
        random.insert(
            guest.probe_device(&node).expect("a probe").signatures[0].uuid.clone().unwrap_or_default(),
        );
    }
    assert_eq!(random.len(), 6, "{random:?}");
    assert_eq!(place.snapshots().len(), 1);
}

/// One that is damaged is forgotten; whoever wants none gets none.
fn a_guest_boots_where_a_snapshot_is_of_no_use() {
    let place = Place::new();
    let asked = place.request();
    drop(place.start(&asked));
    let [snapshot] = &place.snapshots()[..] else { panic!("{:?}", place.snapshots()) };
    fs::File::options().write(true).open(snapshot).and_then(|file| file.set_len(1 << 20)).expect("cut");
    let mut guest = place.start(&asked);
    assert!(is_resumed(guest.as_ref()), "it was made anew: {}", guest.facts().description);
    assert!(read(guest.as_mut(), "/proc/sys/kernel/osrelease").starts_with("6.1."));
    drop(guest);
    assert!(fs::metadata(snapshot).expect("a snapshot").len() > 1 << 20);
    let mut without = asked.clone();
    without.shape.snapshot = false;
    assert!(!is_resumed(place.start(&without).as_ref()));
    // One that is as it was kept, but that QEMU cannot go on from.
    let mut content = fs::read(snapshot).expect("a snapshot");
    let (end, seal) = (content.len() - 16, content.len() - 4);
    content[end - (256 << 10)..end].fill(0xa5);
    let mut sum = crc32fast::Hasher::new();
    sum.update(snapshot.file_name().expect("a name").as_encoded_bytes());
    sum.update(&content[..end]);
    content[seal..].copy_from_slice(&sum.finalize().to_le_bytes());
    fs::write(snapshot, content).expect("written");
    let mut guest = place.start(&asked);
    assert!(!is_resumed(guest.as_ref()), "{}", guest.facts().description);
    assert!(read(guest.as_mut(), "/proc/sys/kernel/osrelease").starts_with("6.1."));
    assert_eq!(place.snapshots(), [""; 0].map(PathBuf::from));
}
