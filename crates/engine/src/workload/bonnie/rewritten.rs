//! The number of times that seekers wrote back each chunk of the large file, as far as that is certain.
//!
//! A seeker that writes reads the chunk, takes 1 from one of its bytes, and writes it back, as in the
//! original. Two of them at once may both begin with the same content, and then one of the changes is lost;
//! so what a reader may find is a range.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The chunks that were written back; the others never were.
#[derive(Debug, Default)]
pub(super) struct Rewritten(Mutex<HashMap<u64, Changes>>);

/// The amount taken from the byte of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Changes {
    /// At least, since the last moment when nobody was writing.
    low: u64,
    /// At most: as often as somebody began.
    high: u64,
    /// The number of seekers that are between reading and having written.
    writing: u32,
}

impl Rewritten {
    /// Returns the least amount that a read that begins now finds taken.
    pub(super) fn at_least(&self, chunk: u64) -> u64 {
        self.lock().get(&chunk).map_or(0, |changes| changes.low)
    }

    /// Returns the greatest amount that a read that has ended may have found taken.
    pub(super) fn at_most(&self, chunk: u64) -> u64 {
        self.lock().get(&chunk).map_or(0, |changes| changes.high)
    }

    /// A seeker begins to read what it is going to change and write.
    pub(super) fn begin(&self, chunk: u64) {
        let mut all = self.lock();
        let changes = all.entry(chunk).or_default();
        changes.high += 1;
        changes.writing += 1;
    }

    /// It has written it. The last of those that did so at once had read `low` or more taken.
    pub(super) fn end(&self, chunk: u64) {
        if let Some(changes) = self.lock().get_mut(&chunk) {
            changes.writing -= 1;
            if changes.writing == 0 {
                changes.low += 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Changes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(rewritten: &Rewritten, chunk: u64) -> [u64; 2] {
        [rewritten.at_least(chunk), rewritten.at_most(chunk)]
    }

    #[test]
    fn one_after_the_other_leaves_no_doubt() {
        let rewritten = Rewritten::default();
        assert_eq!(range(&rewritten, 7), [0, 0]);
        for times in 1..=3 {
            rewritten.begin(7);
            rewritten.end(7);
            assert_eq!(range(&rewritten, 7), [times; 2]);
        }
        assert_eq!(range(&rewritten, 8), [0, 0]);
    }

    #[test]
    fn of_two_at_once_one_may_be_lost() {
        let rewritten = Rewritten::default();
        rewritten.begin(7);
        rewritten.begin(7);
        assert_eq!(range(&rewritten, 7), [0, 2]);
        rewritten.end(7);
        assert_eq!(range(&rewritten, 7), [0, 2], "the other may write over it");
        rewritten.end(7);
        assert_eq!(range(&rewritten, 7), [1, 2]);
    }
}
