//! Images under attack: another user who can write where an image is created swaps the image, its directory
//! and links.

use crate::support::{NOBODY, Requirement, Sandbox, unmount};
use fsdyno_core::device::Image;
use fsdyno_core::{Bytes, Configuration, DeviceSpec, Devices};
use fsdyno_host::Host;
use fsdyno_host::local::LocalHost;
use fsdyno_host::probe::LoopInfo;
use fsdyno_testbed::undo::{self, UndoJournal};
use fsdyno_testbed::{Confirmation, Testbed, TestbedError, build};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, RenameFlags, inotify, renameat_with};
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{PipeReader, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;

const ROUNDS: usize = 500;
const SIZE: Bytes = Bytes(64 * Bytes::MIB);
const NAME: &str = "disk.img";
/// Events of a build: the image is created, opened, sized, and moved to its name.
const MOMENTS: usize = 5;

const ROOT: Requirement = Requirement::All(&[Requirement::Root, Requirement::Loop]);

tests! {
    another_user_cannot_have_another_file_attached: &[ROOT];
    a_file_that_got_the_inode_of_an_image_stays_attached: &[
        ROOT,
        Requirement::Filesystem("ext4"),
        Requirement::Program("mkfs.ext4"),
    ];
}

/// An action at the moment when something happens to this name.
type Swap = fn(&Field, &str) -> rustix::io::Result<()>;

const SWAPS: &[Swap] = &[
    // A link in place of the directory, to a directory of root's.
    |field, _| {
        rename(&field.place, &field.theirs.join("away"))?;
        link(&field.decoys, &field.place)
    },
    // Another directory in its place.
    |field, _| exchange(&field.place, &field.own_decoys),
    // A link in place of the image, to a file of root's.
    |field, name| {
        rename(&field.place.join(name), &field.place.join("away"))?;
        link(&field.decoys.join(NAME), &field.place.join(name))
    },
    // Another file in its place.
    |field, name| exchange(&field.place.join(name), &field.own_decoys.join(NAME)),
    // A link takes the name that the image will get.
    |field, _| link(&field.decoys.join(NAME), &field.place.join(NAME)),
    // The image is removed.
    |field, name| rustix::fs::unlink(field.place.join(name)),
];

fn rename(from: &Path, to: &Path) -> rustix::io::Result<()> {
    rustix::fs::rename(from, to)
}

fn link(to: &Path, at: &Path) -> rustix::io::Result<()> {
    rustix::fs::symlink(to, at)
}

fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)
}

/// The directories in which it happens.
struct Field {
    /// The adversary's directory, with that of the image and one with the adversary's own decoy.
    theirs: PathBuf,
    place: PathBuf,
    own_decoys: PathBuf,
    /// Root's directory, with a decoy that has the image's name.
    decoys: PathBuf,
}

impl Field {
    fn new(sandbox: &Sandbox) -> Self {
        let theirs = sandbox.path("theirs");
        let field = Field {
            place: theirs.join("place"),
            own_decoys: theirs.join("decoys"),
            theirs,
            decoys: sandbox.path("decoys"),
        };
        fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).expect("readable by all");
        fs::create_dir(&field.decoys).expect("a directory");
        fs::write(field.decoys.join(NAME), decoy()).expect("a decoy");
        field.set_up();
        field
    }

    /// Restores the state before a round.
    fn set_up(&self) {
        let _ = fs::remove_dir_all(&self.theirs);
        for directory in [&self.theirs, &self.place, &self.own_decoys] {
            fs::create_dir(directory).expect("a directory");
            chown(directory, Some(NOBODY), Some(NOBODY)).expect("give it away");
        }
        let own = self.own_decoys.join(NAME);
        fs::write(&own, decoy()).expect("a decoy");
        chown(own, Some(NOBODY), Some(NOBODY)).expect("give it away");
    }

    /// The inodes of the decoys.
    fn inodes(&self) -> BTreeSet<u64> {
        [&self.decoys, &self.own_decoys].map(|directory| inode(&directory.join(NAME))).into()
    }

    /// Checks that every decoy is unchanged, wherever it is by now, and that no file was added to root's
    /// directory.
    fn assert_untouched(&self, what: &str) {
        let places = [&self.decoys, &self.own_decoys, &self.place];
        let files = places.map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
        let contents: Vec<Vec<u8>> = files
            .into_iter()
            .flatten()
            .filter(|file| file.file_type().is_ok_and(|kind| kind.is_file()))
            .filter(|file| file.metadata().is_ok_and(|found| found.len() == decoy().len() as u64))
            .map(|file| fs::read(file.path()).expect("a decoy"))
            .collect();
        assert!(
            contents.iter().filter(|found| **found == decoy()).count() >= 2,
            "{what}: a decoy was written to"
        );
        assert_eq!(
            fs::read_dir(&self.decoys).expect("decoys").count(),
            1,
            "{what}: a file was added to root's directory"
        );
    }
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).expect("a file").ino()
}

/// Smaller than an image, so that the two cannot be confused.
fn decoy() -> Vec<u8> {
    b"decoy of 16 byte".repeat(4096)
}

/// Another user, who watches a directory and makes one swap at the n-th event in it.
struct Adversary {
    events: OwnedFd,
    stop: PipeReader,
    moment: usize,
    swap: Swap,
}

impl Adversary {
    /// Returns whether the swap succeeded.
    fn lurk(self, field: &Field) -> bool {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_res_gid(group, group, group).expect("another group");
        set_thread_res_uid(user, user, user).expect("another user");
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut seen = 0;
        loop {
            let mut polled =
                [PollFd::new(&self.events, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            poll(&mut polled, None).expect("an event");
            if polled[0].revents().is_empty() {
                return false;
            }
            let mut events = inotify::Reader::new(&self.events, &mut buffer);
            loop {
                let event = events.next().expect("an event");
                let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                if let Some(name) = name {
                    if seen == self.moment {
                        return (self.swap)(field, &name).is_ok();
                    }
                    seen += 1;
                }
                if events.is_buffer_empty() {
                    break;
                }
            }
        }
    }
}

/// The trial of these tests, on an image at this path.
fn trial(host: &mut dyn Host, image: &Path) -> (Testbed, Configuration) {
    let data = DeviceSpec::Image(Image { direct_io: false, ..Image::new(image, SIZE) });
    let devices = Devices { data, journals: Default::default() };
    let configuration =
        Configuration { name: String::new(), filesystem: "ext2".to_string(), settings: Default::default() };
    let all = std::slice::from_ref(&configuration);
    let testbed = Testbed::verify(host, &devices, all, Bytes(0), &Confirmation::default());
    (testbed.expect("nothing is in the way"), configuration)
}

fn host() -> LocalHost {
    LocalHost::new(env!("CARGO_BIN_EXE_fsdyno").into(), Vec::new())
}

/// The loop devices over files in the sandbox, as the kernel reports them.
fn attached(host: &mut dyn Host, sandbox: &Sandbox) -> Vec<LoopInfo> {
    let base = sandbox.path("").display().to_string();
    let all = host.loops().expect("the loop devices");
    all.into_iter().filter(|one| one.backing_path.starts_with(base.trim_end_matches('/'))).collect()
}

fn another_user_cannot_have_another_file_attached() {
    let sandbox = Sandbox::new();
    let field = Field::new(&sandbox);
    let mut host = host();
    let (testbed, configuration) = trial(&mut host, &field.place.join(NAME));
    let (mut swapped, mut ours, mut refused) = (0, 0, 0);
    for round in 0..ROUNDS {
        field.set_up();
        let decoys = field.inodes();
        let what = format!("round {round}, swap {}", round % SWAPS.len());
        let events = inotify::init(inotify::CreateFlags::CLOEXEC).expect("inotify");
        inotify::add_watch(&events, &field.place, inotify::WatchFlags::ALL_EVENTS).expect("a watch");
        let (stop, running) = std::io::pipe().expect("a pipe");
        let (swap, moment) = (SWAPS[round % SWAPS.len()], round / SWAPS.len() % MOMENTS);
        let adversary = Adversary { events, stop, moment, swap };
        let mut journal = UndoJournal::in_memory();
        let result = thread::scope(|scope| {
            let adversary = scope.spawn(|| adversary.lurk(&field));
            let host: &mut dyn Host = &mut host;
            let result = build(host, &mut journal, &testbed, &configuration, 42, &AtomicBool::default());
            drop(running);
            swapped += usize::from(adversary.join().expect("no panic"));
            result
        });
        let found = attached(&mut host, &sandbox);
        match result {
            Ok(_) => {
                let [one] = &found[..] else { panic!("{what}: {found:?}") };
                assert!(!decoys.contains(&one.backing_inode), "{what}: {found:?}");
                File::options()
                    .write(true)
                    .open(&one.device)
                    .and_then(|mut node| node.write_all(&[1; 4096]))
                    .expect(&what);
                ours += 1;
            }
            Err(TestbedError::Host { .. } | TestbedError::Refused { .. }) => refused += 1,
            Err(error) => panic!("{what}: {error}"),
        }
        let report = journal.undo_all(&mut host);
        assert_eq!(report.left, [""; 0], "{what}");
        assert!(attached(&mut host, &sandbox).is_empty(), "{what}");
        field.assert_untouched(&what);
    }
    eprintln!("{swapped} swaps in {ROUNDS} rounds: {ours} attached, {refused} refused");
    assert_eq!(ours + refused, ROUNDS);
    assert!(
        swapped > ROUNDS / 2 && ours > 0 && refused > 0,
        "{swapped} swaps, {ours} attached, {refused} refused"
    );
}

/// After a crash, the file of an image is removed. Another file gets its inode, and somebody attaches it.
fn a_file_that_got_the_inode_of_an_image_stays_attached() {
    let sandbox = Sandbox::new();
    let mounted = Mounted::new(&sandbox);
    let image = mounted.0.join(NAME);
    let state = sandbox.path("undo");
    let mut host = host();
    let (testbed, configuration) = trial(&mut host, &image);
    let mut journal = UndoJournal::create(&mut host, &state).expect("a journal");
    build(&mut host, &mut journal, &testbed, &configuration, 42, &AtomicBool::default()).expect("a trial");
    let number = inode(&image);
    let path = journal.path().expect("a file").to_path_buf();
    let text = fs::read(&path).expect("a journal");
    let report = journal.undo_all(&mut host);
    assert_eq!(
        (report.left, report.undone.len()),
        (Vec::<String>::new(), 2),
        "the image and its loop device"
    );
    journal.close().expect("an end");
    fs::write(&path, text).expect("the journal of a process that is gone");

    let theirs = mounted.0.join("theirs");
    File::create(&theirs).and_then(|file| file.set_len(SIZE.0)).expect("another file");
    assert_eq!(inode(&theirs), number, "ext4 reuses the inode of a removed file");
    let node = sh(&format!("losetup --find --show {}", theirs.display()));
    let restored = undo::restore(&mut host, &state).expect("restore");
    let still = attached(&mut host, &sandbox);
    sh(&format!("losetup --detach {node}"));
    assert_eq!(restored.report.left, [""; 0]);
    assert!(still.iter().any(|one| one.device == Path::new(&node)), "{restored:?}");
    assert!(theirs.exists());
}

/// A small ext4 for one test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(sandbox: &Sandbox) -> Self {
        let (image, target) = (sandbox.path("ext4"), sandbox.path("mnt"));
        File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("an image");
        fs::create_dir(&target).expect("a directory");
        sh(&format!("mkfs.ext4 -q -F {0} && mount -o loop {0} {1}", image.display(), target.display()));
        Mounted(target)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.0);
    }
}

fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().expect("run sh");
    assert!(output.status.success(), "'{script}': {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}
