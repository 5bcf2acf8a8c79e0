//! Which tests wait for each other.

use std::sync::{Condvar, Mutex};

const UNHARMED: &str = "a panic never leaves a test";

/// Tests that wait for each other, in the order of their turns.
pub(super) struct Lane {
    /// The number of tests that have come, and the number that may have begun.
    turns: Mutex<(usize, usize)>,
    ended: Condvar,
}

/// Tests that use the machine's own devices run one at a time, so that every change found afterwards was made
/// by that test. Nor could those with images of their own run beside them: mkfs.btrfs opens every device of
/// the machine, and one that somebody has open cannot be detached or partitioned.
pub(super) static MACHINE: Lane = Lane::of(1);
/// The others run beside them, one at a time: those in guests keep a processor busy, and with two of them on
/// two processors the tests that use the machine, which take the longest, would wait.
pub(super) static APART: Lane = Lane::of(1);
/// Tests on disks that are files of fsdyno's own below `/run` run beside all of them, one at a time. A new
/// mount namespace keeps what is mounted, and would hold these disks; one whose process is dead disturbs
/// mkfs.btrfs. Whoever makes either waits until all of these have ended.
pub(super) static RECORDED: Lane = Lane::of(1);
/// The number of these tests that have not ended.
static RECORDED_LEFT: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// A test on recorded disks that will run, is running, or was filtered out.
pub(super) struct Recorded;

impl Recorded {
    pub fn new() -> Self {
        *RECORDED_LEFT.0.lock().expect(UNHARMED) += 1;
        Recorded
    }

    /// Waits until all of them have ended.
    pub fn wait_for_all() {
        let left = RECORDED_LEFT.0.lock().expect(UNHARMED);
        drop(RECORDED_LEFT.1.wait_while(left, |left| *left > 0).expect(UNHARMED));
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        *RECORDED_LEFT.0.lock().expect(UNHARMED) -= 1;
        RECORDED_LEFT.1.notify_all();
    }
}

impl Lane {
    const fn of(at_once: usize) -> Self {
        Lane { turns: Mutex::new((0, at_once)), ended: Condvar::new() }
    }

    /// Waits for its turn, and runs.
    pub fn run<T>(&self, run: impl FnOnce() -> T) -> T {
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
