//! Which tests run beside each other, and how long each takes.

use super::machine::{guarded, on_own_images_now};
use super::{Requirement, Test};
use libtest_mimic::Failed;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Tests that wait for each other, in the order of their turns.
struct Lane {
    /// How many have come, and how many may have begun.
    turns: Mutex<(usize, usize)>,
    ended: Condvar,
}

/// Tests that use the machine's own devices run one at a time, so that every change found afterwards was made
/// by that test.
static MACHINE: Lane = Lane::of(1);
/// Tests whose loop devices have images of their own run beside those, one at a time: such devices can be
/// told from others, so that what a test leaves is still known to be its own.
static BESIDE: Lane = Lane::of(1);
/// Tests that use nothing of the machine run beside all of these. They mostly wait, too.
static APART: Lane = Lane::of(2);
/// Tests on disks that are files of fsdyno's own below `/run` run beside all of them, one at a time.
static RECORDED: Lane = Lane::of(1);

impl Lane {
    const fn of(at_once: usize) -> Self {
        Lane { turns: Mutex::new((0, at_once)), ended: Condvar::new() }
    }

    /// Waits for its turn, and runs.
    fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        let mut turns = self.turns.lock().expect(UNHARMED);
        let own = turns.0;
        turns.0 += 1;
        drop(self.ended.wait_while(turns, |turns| own >= turns.1).expect(UNHARMED));
        let result = run();
        self.turns.lock().expect(UNHARMED).1 += 1;
        self.ended.notify_all();
        result
    }
}

const UNHARMED: &str = "a panic never leaves a test";

/// Where a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Its disks are files that fsdyno shows below `/run`.
    Recorded,
    /// It uses nothing of the machine that others use, except that it may mount FUSE filesystems.
    Apart,
    /// Its loop devices have images of its own ([`on_own_images`]).
    Beside,
    /// On the machine's own devices.
    Machine,
}

impl Place {
    fn lane(self) -> &'static Lane {
        match self {
            Place::Recorded => &RECORDED,
            Place::Apart => &APART,
            Place::Beside => &BESIDE,
            Place::Machine => &MACHINE,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Place::Recorded => "on recorded disks",
            Place::Apart => "apart",
            Place::Beside => "on images of their own",
            Place::Machine => "on the machine's own devices",
        }
    }
}

impl Test {
    pub(super) fn place(&self) -> Place {
        let shares = self.needs(Requirement::Loop) || self.needs(Requirement::IoUring);
        let elsewhere = self.emulates() || self.needs(Requirement::Fuse) || !self.needs(Requirement::Root);
        match () {
            () if self.needs(Requirement::Recorder) => Place::Recorded,
            () if self.needs(Requirement::OwnImages) => Place::Beside,
            () if elsewhere && !shares => Place::Apart,
            () => Place::Machine,
        }
    }

    /// Whether it disturbs those on recorded disks or on images of their own. A new mount namespace keeps
    /// what is mounted, and would hold these disks; a recorded one whose process is dead disturbs mkfs.btrfs.
    pub(super) fn disturbs(&self) -> bool {
        self.needs(Requirement::Program("unshare")) || self.needs(Requirement::DyingRecorder)
    }

    /// Whether it boots virtual machines, which keep a processor busy.
    fn emulates(&self) -> bool {
        self.needs(Requirement::Program("qemu-system-x86_64"))
    }

    pub(super) fn run(&self) -> Result<(), Failed> {
        let place = self.place();
        let among = match self.needs(Requirement::Quiet) {
            true => "that need the machine for themselves",
            false => place.in_words(),
        };
        let body = || {
            timed(self.shown(), among, || match place {
                Place::Machine => guarded(self.body),
                Place::Beside => on_own_images(self.body),
                _ if self.emulates() => yielding(|| outcome(catch_unwind(self.body))),
                _ => outcome(catch_unwind(self.body)),
            })
        };
        match self.disturbs() && place != Place::Recorded {
            true => RECORDED.run(|| BESIDE.run(|| place.lane().run(body))),
            false => place.lane().run(body),
        }
    }
}

thread_local! {
    static ON_OWN_IMAGES: Cell<bool> = const { Cell::new(false) };
}

/// How the directories of a test on images of its own are called.
pub(super) const OWN_IMAGES: &str = "fsdyno-beside-";

/// The beginning of the names of this test's directories.
pub(super) fn prefix() -> &'static str {
    if ON_OWN_IMAGES.get() { OWN_IMAGES } else { "fsdyno-test-" }
}

fn on_own_images(body: fn()) -> Result<(), Failed> {
    let before = on_own_images_now();
    ON_OWN_IMAGES.set(true);
    let result = catch_unwind(body);
    ON_OWN_IMAGES.set(false);
    outcome(result)?;
    match &on_own_images_now() - &before {
        left if left.is_empty() => Ok(()),
        left => {
            let left: Vec<String> = left.into_iter().collect();
            Err(format!("the test left something behind:\n{}", left.join("\n")).into())
        }
    }
}

/// Runs this and whatever it starts with a lower priority: the tests on the machine's own devices decide how
/// long the suite takes, and emulated processors take whatever they can get.
fn yielding<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let lowered = scope.spawn(|| {
            // Without it, the suite takes longer.
            let _ = rustix::process::nice(5);
            run()
        });
        lowered.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The result of a test that may have panicked.
pub(super) fn outcome(result: std::thread::Result<()>) -> Result<(), Failed> {
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default().into()
    })
}

/// The duration of each test with its lane, to find out which ones slow the suite down.
static TOOK: Mutex<Vec<(Duration, &str, &str)>> = Mutex::new(Vec::new());
const SLOWEST: usize = 12;

fn timed(
    name: &'static str,
    lane: &'static str,
    run: impl FnOnce() -> Result<(), Failed>,
) -> Result<(), Failed> {
    let begin = Instant::now();
    let result = run();
    TOOK.lock().expect("no thread has panicked").push((begin.elapsed(), name, lane));
    result
}

pub(super) fn print_slowest() {
    let mut took = std::mem::take(&mut *TOOK.lock().expect("no thread has panicked"));
    took.sort_unstable();
    for (took, name, _) in took.iter().rev().take(SLOWEST) {
        eprintln!("{:6.1} s {name}", took.as_secs_f64());
    }
    let mut lanes: BTreeMap<&str, Duration> = BTreeMap::new();
    for (took, _, lane) in &took {
        *lanes.entry(lane).or_default() += *took;
    }
    for (lane, took) in lanes {
        eprintln!("{:6.1} s one after the other: tests {lane}", took.as_secs_f64());
    }
}
