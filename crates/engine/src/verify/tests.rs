use super::*;
use crate::background::Gauge;
use crate::workload::durability::script::Write;
use crate::workload::durability::sector::SECTOR;
use crate::workload::durability::{self, StageLengths};
use fsdyno_core::durability::MARK_BYTES;
use fsdyno_core::result::{VerifiedUnsynced, WrongInside};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SEED: u64 = 11;

fn parameters() -> Durability {
    Durability { promises: 24, unsynced: Nanos::from_millis(200), ..Durability::default() }
}

fn scratch() -> TempDir {
    // Syncing costs nothing in memory.
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// The directory that a run has left, and its marks.
struct Left {
    directory: TempDir,
    marks: Vec<u8>,
}

/// All promises of all kinds, undamaged; each test that changes it puts it back.
static LEFT: LazyLock<Mutex<Left>> = LazyLock::new(|| {
    // A machine that is busy with something else may need longer.
    let mut attempts = (0..8).map(|attempt| Left::after(Duration::from_millis(200 << attempt)));
    Mutex::new(attempts.find(Left::is_complete).expect("all promises"))
});

/// Runs the workload; `note` gets each mark.
fn run(directory: &Path, duration: Duration, note: impl Fn(&[u8]) + Send + Sync + 'static) {
    let (base, script) = (directory.join(base_name(SEED)), Script::new(SEED));
    fs::create_dir(&base).unwrap();
    durability::prepare(&base, script, &Gauge::default()).unwrap();
    let put = Arc::new(move |mark: &[u8]| {
        note(mark);
        Ok(())
    });
    let parameters = Durability { duration: duration.into(), ..parameters() };
    durability::work(&base, StageLengths::of(&parameters), script, put, &Gauge::default()).unwrap();
}

fn count(marks: &[u8]) -> u64 {
    (marks.len() / MARK_BYTES) as u64
}

/// Verifies right after the last mark.
fn judge(directory: &Path, marks: &[u8]) -> Verified {
    let last = marks.last_chunk::<MARK_BYTES>().map(|mark| fsdyno_core::durability::Mark::from_bytes(mark));
    let cut_ns = last.map_or(Nanos(0), |mark| Nanos(mark.unwrap().time_ns.0 + 1));
    verify(directory, &parameters(), SEED, &mut &*marks, count(marks), cut_ns).unwrap()
}

impl Left {
    /// Promises spread over this time.
    fn after(duration: Duration) -> Left {
        let directory = scratch();
        let marks = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&marks);
        run(directory.path(), duration, move |mark| log.lock().unwrap().extend_from_slice(mark));
        let marks = std::mem::take(&mut *marks.lock().unwrap());
        Left { directory, marks }
    }

    fn is_complete(&self) -> bool {
        let promises = self.judge().promises;
        promises.len() == 12 && promises.iter().all(|one| one.made == 24)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(base_name(SEED)).join(path)
    }

    fn judge(&self) -> Verified {
        judge(self.directory.path(), &self.marks)
    }

    /// Returns the verdict after damaging a file.
    fn damaged(&self, path: &str, damage: impl FnOnce(&Path)) -> Verified {
        let path = self.path(path);
        let before = fs::read(&path).ok();
        damage(&path);
        let found = self.judge();
        // A file that has a second name stays the same file.
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if before.is_none() || !is_file {
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
        if let Some(bytes) = before {
            fs::write(&path, bytes).unwrap();
        }
        found
    }
}

/// Returns the only promise of which anything was lost or wrong, with its losses and its wrong data.
fn only(found: &Verified) -> (Promise, Vec<u64>, WrongInside) {
    assert_eq!(found.files.lost + found.names.lost + found.files.wrong.total(), 0, "{found:?}");
    let bad = |one: &&VerifiedPromise| !one.lost.is_empty() || one.wrong.total() > 0;
    let bad: Vec<_> = found.promises.iter().filter(bad).collect();
    assert_eq!(bad.len(), 1, "{found:?}");
    (bad[0].promise, bad[0].lost.clone(), bad[0].wrong)
}

fn is_clean(found: &Verified) -> bool {
    found.promises.iter().all(|one| one.lost.is_empty() && one.wrong.total() == 0)
        && (found.files.lost, found.names.lost, found.files.wrong.total()) == (0, 0, 0)
        && found.found.is_empty()
}

fn written(promise: Promise, number: u64) -> Write {
    Script::new(SEED).writes(promise, number).remove(0)
}

/// Numbers of the promises that a sector of a file belongs to.
fn covering(promise: Promise, file: u64, sector: u64) -> Vec<u64> {
    let covers = |number: &u64| {
        let write = written(promise, *number);
        write.file == file && write.sectors.contains(&sector)
    };
    (0..24).filter(covers).collect()
}

fn content(promise: Promise, write: &Write) -> Vec<u8> {
    let mut bytes = Vec::new();
    Script::new(SEED).fill(Some(promise), write, &mut bytes);
    bytes
}

fn put(path: &Path, sector: u64, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, sector * SECTOR as u64).unwrap();
}

fn cut_to(path: &Path, sectors: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(sectors * SECTOR as u64).unwrap();
}

const NONE: WrongInside = WrongInside { zeros: 0, garbage: 0, old: 0, foreign: 0 };
const ZEROS: WrongInside = WrongInside { zeros: 1, ..NONE };
const GARBAGE: WrongInside = WrongInside { garbage: 1, ..NONE };
const OLD: WrongInside = WrongInside { old: 1, ..NONE };
const FOREIGN: WrongInside = WrongInside { foreign: 1, ..NONE };

#[test]
fn nothing_is_lost_without_a_cut() {
    let left = LEFT.lock().unwrap();
    let begin = Instant::now();
    let found = left.judge();
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(is_clean(&found), "{found:?}");
    assert_eq!(found.promises.len(), 12);
    assert!(found.promises.iter().all(|one| one.made == 24));
    assert!(found.files.made > 3 && found.names.made >= found.files.made);
    let made: u64 = found.survival.iter().map(|bin| bin.made).sum();
    let survived: u64 = found.survival.iter().map(|bin| bin.survived).sum();
    assert_eq!((made, survived), (found.files.made + found.names.made, made));
}

#[test]
fn nothing_is_lost_at_any_mark_of_a_run() {
    let directory = scratch();
    let place = directory.path().to_path_buf();
    let (turns, turn) = (Mutex::new((Vec::new(), false)), Condvar::new());
    run(directory.path(), Duration::from_millis(200), move |mark| {
        let mark_read = fsdyno_core::durability::Mark::from_bytes(mark).unwrap();
        let begins = mark_read.moment == fsdyno_core::durability::Moment::Begun;
        // One at a time, so that nothing changes during a look.
        let state = turns.lock().unwrap();
        let mut state = turn.wait_while(state, |state| begins && state.1).unwrap();
        state.0.extend_from_slice(mark);
        if count(&state.0).is_multiple_of(23) {
            let found = judge(&place, &state.0);
            assert!(is_clean(&found), "{mark_read:?}: {found:?}");
        }
        state.1 = begins;
        turn.notify_all();
    });
}

#[test]
fn missing_files_are_lost() {
    let left = LEFT.lock().unwrap();
    for promise in [Promise::Create, Promise::CreateFile] {
        let found = left.damaged(&format!("{}/3", promise.name()), |path| fs::remove_file(path).unwrap());
        assert_eq!(only(&found), (promise, vec![3], NONE));
        assert_eq!(found.found, [format!("{}/3: all acknowledged sectors are missing", promise.name())]);
    }
    let file = Script::new(SEED).writes(Promise::Syncfs, 5).pop().unwrap().file;
    let found = left.damaged(&format!("syncfs/{file}"), |path| fs::remove_file(path).unwrap());
    assert_eq!(only(&found), (Promise::Syncfs, vec![5], NONE));
    let found = left.damaged("append/1", |path| fs::remove_file(path).unwrap());
    assert_eq!(only(&found), (Promise::Append, (16..24).collect(), NONE));
    let found = left.damaged("replace/2", |path| fs::remove_file(path).unwrap());
    assert_eq!(only(&found), (Promise::Replace, vec![2, 10, 18], NONE));
    let found = left.damaged("replace-unsynced/2", |path| fs::remove_file(path).unwrap());
    assert_eq!(only(&found), (Promise::ReplaceUnsynced, vec![18], NONE));
}

#[test]
fn short_files_are_lost_from_there_on() {
    let left = LEFT.lock().unwrap();
    for promise in [Promise::Append, Promise::DsyncAppend] {
        let tenth = written(promise, 10).sectors;
        let found = left.damaged(&format!("{}/0", promise.name()), |path| cut_to(path, tenth.end - 1));
        assert_eq!(only(&found), (promise, (10..16).collect(), NONE));
        assert!(found.found[0].contains("acknowledged sectors are missing"), "{:?}", found.found);
    }
    let found = left.damaged("replace-unsynced/0", |path| cut_to(path, 0));
    assert_eq!(only(&found), (Promise::ReplaceUnsynced, vec![16], NONE));
}

#[test]
fn zeros_are_wrong_and_lost() {
    let left = LEFT.lock().unwrap();
    for promise in
        [Promise::Overwrite, Promise::Msync, Promise::Create, Promise::Append, Promise::DsyncAppend]
    {
        let one = written(promise, 7);
        let sector = one.sectors.start;
        let path = format!("{}/{}", promise.name(), one.file);
        let found = left.damaged(&path, |path| put(path, sector, &[0; SECTOR]));
        assert_eq!(only(&found), (promise, covering(promise, one.file, sector), ZEROS));
        assert_eq!(found.found, [format!("{path}: 1 sector of zeros")]);
    }
    let found = left.damaged("replace-unsynced/0", |path| put(path, 0, &[0; SECTOR]));
    assert_eq!(only(&found), (Promise::ReplaceUnsynced, vec![16], ZEROS));
}

#[test]
fn zeros_behind_the_end_are_wrong_but_nothing_is_lost() {
    let left = LEFT.lock().unwrap();
    let end = written(Promise::Create, 2).sectors.end;
    let found = left.damaged("create/2", |path| cut_to(path, end + 8));
    assert_eq!(only(&found), (Promise::Create, vec![], ZEROS));
}

#[test]
fn data_of_other_files_and_places_is_foreign() {
    let left = LEFT.lock().unwrap();
    let other = content(Promise::Create, &written(Promise::Create, 5));
    let found = left.damaged("create/4", |path| put(path, 0, &other[..SECTOR]));
    assert_eq!(only(&found), (Promise::Create, vec![4], FOREIGN));
    let one = written(Promise::Overwrite, 3);
    let bytes = content(Promise::Overwrite, &Write { sectors: 0..1, ..one });
    let path = format!("overwrite/{}", written(Promise::Overwrite, 3).file);
    let found = left.damaged(&path, |path| put(path, 1, &bytes));
    assert_eq!(only(&found).2, FOREIGN);
}

#[test]
fn earlier_versions_are_old() {
    let left = LEFT.lock().unwrap();
    for promise in [Promise::Overwrite, Promise::Msync] {
        let one = written(promise, 9);
        let sector = one.sectors.start;
        let before = Write { sectors: sector..sector + 1, generation: 0, ..one };
        let path = format!("{}/{}", promise.name(), before.file);
        let found = left.damaged(&path, |path| put(path, sector, &content(promise, &before)));
        assert_eq!(only(&found), (promise, covering(promise, before.file, sector), OLD));
    }
    let script = Script::new(SEED);
    let back_to = |promise, file, generation| {
        let version = script.version(promise, file, generation);
        let path = format!("{}/{file}", promise.name());
        left.damaged(&path, |path| fs::write(path, content(promise, &version)).unwrap())
    };
    assert_eq!(only(&back_to(Promise::Replace, 3, 0)), (Promise::Replace, vec![3, 11, 19], OLD));
    assert_eq!(only(&back_to(Promise::Replace, 3, 12)), (Promise::Replace, vec![19], OLD));
    // Any whole version will do if nothing was synced.
    assert!(is_clean(&back_to(Promise::ReplaceUnsynced, 3, 0)));
    assert!(is_clean(&back_to(Promise::ReplaceUnsynced, 3, 4)));
    assert!(!is_clean(&back_to(Promise::ReplaceUnsynced, 3, 5)), "that is a version of another file");
}

#[test]
fn what_nobody_has_written_yet_is_garbage() {
    let left = LEFT.lock().unwrap();
    let one = written(Promise::Overwrite, 9);
    let later = Write { generation: 1000, ..one };
    let path = format!("overwrite/{}", later.file);
    let found =
        left.damaged(&path, |path| put(path, later.sectors.start, &content(Promise::Overwrite, &later)));
    assert_eq!(only(&found).2, GARBAGE);
}

#[test]
fn names_that_are_missing_or_come_back_are_lost() {
    let left = LEFT.lock().unwrap();
    for (path, promise) in
        [("link/6.link", Promise::Link), ("link/6", Promise::Link), ("rename/6.renamed", Promise::Rename)]
    {
        let found = left.damaged(path, |path| fs::remove_file(path).unwrap());
        assert_eq!(only(&found), (promise, vec![6], NONE), "{path}");
    }
    for promise in [Promise::Rename, Promise::Unlink] {
        let bytes = content(promise, &written(promise, 6));
        let path = format!("{}/6", promise.name());
        let found = left.damaged(&path, |path| fs::write(path, &bytes).unwrap());
        assert_eq!(only(&found), (promise, vec![6], NONE));
    }
    let found = left.damaged("unlink/6", |path| fs::write(path, [7; 600]).unwrap());
    assert_eq!(only(&found), (Promise::Unlink, vec![6], GARBAGE));
}

#[test]
fn unsynced_work_may_be_lost_but_not_be_wrong() {
    let left = LEFT.lock().unwrap();
    let no_promise = |found: &Verified| found.promises.iter().all(|one| one.lost.is_empty());
    let found = left.damaged("unsynced/1", |path| cut_to(path, 0));
    let script::Unsynced::File(write) = Script::new(SEED).unsynced(1) else { panic!("a file") };
    let VerifiedUnsynced { lost, lost_bytes, lost_ns, wrong, .. } = found.files;
    assert_eq!((lost, lost_bytes, wrong), (1, write.sectors.end * SECTOR as u64, NONE));
    assert!(lost_ns > Nanos::from_millis(100) && no_promise(&found) && found.found.is_empty());
    let bin = found.survival.iter().find(|bin| bin.survived < bin.made).unwrap();
    assert!(bin.up_to_ns >= lost_ns && bin.up_to_ns.0 / 2 < lost_ns.0);
    let found = left.damaged("unsynced/3", |path| put(path, 1, &[0; SECTOR]));
    assert_eq!((found.files.lost, found.files.wrong), (1, ZEROS));
    assert_eq!(found.found, ["unsynced/3: 1 sector of zeros"]);
    let path = left.path("unsynced/2");
    fs::remove_dir(&path).unwrap();
    let found = left.judge();
    fs::create_dir(&path).unwrap();
    assert_eq!((found.names.lost, found.files.lost), (1, 0));
}

#[test]
fn what_is_no_file_is_lost_and_nothing_waits_for_it() {
    let left = LEFT.lock().unwrap();
    let decoy = left.path("decoy");
    fs::write(&decoy, content(Promise::Create, &written(Promise::Create, 3))).unwrap();
    let fifo = |path: &Path| {
        let mode = Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    let link = |path: &Path| std::os::unix::fs::symlink(&decoy, path).unwrap();
    let directory = |path: &Path| fs::create_dir(path).unwrap();
    for make in [&fifo as &dyn Fn(&Path), &link, &directory] {
        let found = left.damaged("create/3", |path| {
            fs::remove_file(path).unwrap();
            make(path);
        });
        assert_eq!(only(&found), (Promise::Create, vec![3], NONE));
    }
    fs::remove_file(&decoy).unwrap();
    let found = left.damaged("create/3", |path| cut_to(path, (i64::MAX as u64 >> 9) - 1024));
    assert_eq!(only(&found), (Promise::Create, vec![], ZEROS));
}

#[test]
fn without_the_directory_everything_acknowledged_is_lost() {
    let left = LEFT.lock().unwrap();
    let empty = scratch();
    let found = judge(empty.path(), &left.marks);
    assert!(found.promises.iter().all(|one| one.lost.len() == 24 && one.wrong == NONE));
    assert_eq!((found.files.lost, found.names.lost), (found.files.made, found.names.made));
    assert_eq!(found.found.len(), 8);
    assert_eq!(found.found[0], "create: the directory is missing");
    assert_eq!(judge(empty.path(), &[]), Verified::default());
    let missing = empty.path().join("missing");
    let error = verify(&missing, &parameters(), SEED, &mut &[][..], 0, Nanos(0)).unwrap_err();
    assert!(matches!(error, VerifyError::Open { .. }));
}

/// The files below a directory, relative to it, in order.
fn files(left: &Left) -> Vec<String> {
    let mut files = Vec::new();
    for promise in Promise::ALL {
        for entry in fs::read_dir(left.path(promise.name())).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            // The second name is another one of the same file.
            if promise != Promise::Link || name.ends_with(".link") {
                files.push(format!("{}/{name}", promise.name()));
            }
        }
    }
    files.sort();
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is(file: prop::sample::Index, at: prop::sample::Index, bit in 0..8_u8) {
        let left = LEFT.lock().unwrap();
        let files = files(&left);
        let path = &files[file.index(files.len())];
        let mut bytes = fs::read(left.path(path)).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // In place, because some have a second name.
        let found = left.damaged(path, |path| put(path, (at / SECTOR) as u64, &bytes[at / SECTOR * SECTOR..]));
        let (promise, _, wrong) = only(&found);
        prop_assert!(path.starts_with(promise.name()));
        prop_assert_eq!(wrong, GARBAGE);
    }

    #[test]
    fn marks_of_any_content_are_refused_or_read(marks: Vec<u8>, count in 0..3_u64) {
        let directory = LEFT.lock().unwrap().directory.path().to_path_buf();
        let _ = verify(&directory, &parameters(), SEED, &mut &*marks, count, Nanos(0));
    }
}
