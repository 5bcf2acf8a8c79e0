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
/// the machine, and one that somebody has open cannot be detached or partitioned. They begin when all of
/// those have ended.
pub(super) static MACHINE: Lane = Lane::of(1);
/// Tests on images of their own spend half of their time waiting for devices.
pub(super) static IMAGES: Lane = Lane::of(2);
/// Tests in guests run beside all of them, one at a time: each keeps a processor busy, and with two of them
/// on two processors the tests that use the machine, which take the longest, would wait.
pub(super) static GUESTS: Lane = Lane::of(1);
/// Tests that use nothing which the machine has once.
pub(super) static APART: Lane = Lane::of(1);
/// Tests on disks that are files of fsdyno's own below `/run` run beside all of them, one at a time. A new
/// mount namespace keeps what is mounted, and would hold these disks; one whose process is dead disturbs
/// mkfs.btrfs. Whoever makes either waits until all of these have ended.
pub(super) static RECORDED: Lane = Lane::of(1);

pub(super) static ON_IMAGES: Group = Group::new();
pub(super) static ON_RECORDED_DISKS: Group = Group::new();

/// Tests that others wait for.
pub(super) struct Group {
    /// The number of these tests that have not ended.
    left: Mutex<usize>,
    ended: Condvar,
}

/// A test of a group that will run, is running, or was filtered out.
pub(super) struct Member(&'static Group);

impl Group {
    const fn new() -> Self {
        Group { left: Mutex::new(0), ended: Condvar::new() }
    }

    pub fn member(&'static self) -> Member {
        *self.left.lock().expect(UNHARMED) += 1;
        Member(self)
    }

    /// Waits until all of them have ended.
    pub fn wait_for_all(&self) {
        let left = self.left.lock().expect(UNHARMED);
        drop(self.ended.wait_while(left, |left| *left > 0).expect(UNHARMED));
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        *self.0.left.lock().expect(UNHARMED) -= 1;
        self.0.ended.notify_all();
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
