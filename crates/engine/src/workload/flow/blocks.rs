//! Which versions each block of a file may have that several workers write over and read.
//!
//! Each write gives a block its next version. Once all writes of a block have ended, it has the version of
//! the last one; if two were in flight at once, either may have come last. Meanwhile a reader may find the
//! version before, a new one, or parts of both. So each block has a word with the first and the last
//! version that a reader may find, which workers change without a lock.

use crate::compare::Comparer;
use crate::content::FileIdentity;
use crate::tree::derive_seed;
use crate::wrong::Problem;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a word, after the last version that was begun (32): how many writes are in flight, and two
/// distances from the last version: to the first version that may be there, and to the first of the writes
/// that were in flight together.
const FLIGHTS: u32 = 14;
const BACK: u32 = 9;
/// A distance that is too long to count.
const FAR: u32 = (1 << BACK) - 1;
const _: () = assert!(32 + FLIGHTS + 2 * BACK == 64);

/// The state of a block at one moment, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockState {
    /// The version of the last write that has begun.
    last: u32,
    flights: u32,
    behind: u32,
    together: u32,
}

impl BlockState {
    fn of(word: u64) -> Self {
        let bits = |at: u32, count: u32| (word >> at) as u32 & (u32::MAX >> (32 - count));
        BlockState {
            last: word as u32,
            flights: bits(32, FLIGHTS),
            behind: bits(32 + FLIGHTS, BACK),
            together: bits(32 + FLIGHTS + BACK, BACK),
        }
    }

    fn word(self) -> u64 {
        u64::from(self.last)
            | u64::from(self.flights) << 32
            | u64::from(self.behind) << (32 + FLIGHTS)
            | u64::from(self.together) << (32 + FLIGHTS + BACK)
    }

    /// The first version that may be there.
    fn first(self) -> u32 {
        earlier(self.last, self.behind)
    }

    /// The first and the last version that may be there, as another process reported them.
    pub(super) fn quiet(first: u32, last: u32) -> Self {
        BlockState { last, flights: 0, behind: (last.saturating_sub(first)).min(FAR), together: 0 }
    }

    /// A block about which nothing is known.
    fn any() -> Self {
        BlockState { last: u32::MAX, flights: 0, behind: FAR, together: 0 }
    }

    /// A block with a write that never ended.
    pub(super) fn torn(last: u32) -> Self {
        BlockState { last, flights: 1, behind: FAR, together: FAR }
    }
}

fn earlier(last: u32, behind: u32) -> u32 {
    if behind == FAR { 0 } else { last.saturating_sub(behind) }
}

/// The seed that a sample of blocks derives from.
const SAMPLE: u64 = 13;

/// The facts about blocks that another process has to know ([`Reached::Blocks`]).
///
/// [`Reached::Blocks`]: fsdyno_core::Reached::Blocks
#[derive(Debug)]
pub(super) struct BlockSummary {
    pub(super) versions: Vec<(u64, u32, u32)>,
    pub(super) all: bool,
    pub(super) torn: Vec<u64>,
}

/// A write of a block that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) version: u32,
    /// When it has ended, no version before this one is there any more.
    first: u32,
}

/// The blocks of the files of a set.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Bytes of each.
    pub(super) block: u64,
    /// The number of blocks of each file.
    each: u64,
    words: Box<[AtomicU64]>,
}

impl Blocks {
    /// The blocks of this many files of at most this size.
    pub(super) fn new(block: u64, files: u64, largest: u64) -> Self {
        let each = largest.div_ceil(block);
        Blocks { block, each, words: (0..files * each).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The number of the block at a position of a file, counted over all files.
    #[inline]
    pub(super) fn number(&self, file: u64, position: u64) -> usize {
        (file * self.each + position / self.block) as usize
    }

    /// A write of a block begins.
    #[inline]
    pub(super) fn begin(&self, block: usize) -> Begun {
        let next = |BlockState { last, flights, behind, together }: BlockState| BlockState {
            last: last.wrapping_add(1),
            flights: flights + 1,
            behind: (behind + 1).min(FAR),
            together: if flights == 0 { 0 } else { (together + 1).min(FAR) },
        };
        let BlockState { last, together, .. } = self.change(block, next);
        Begun { version: last, first: earlier(last, together) }
    }

    /// It has ended; `whole`: all of its bytes were written.
    #[inline]
    pub(super) fn end(&self, block: usize, begun: Begun, whole: bool) {
        let next = |state: BlockState| BlockState {
            flights: state.flights - 1,
            behind: match whole {
                true => state.behind.min(state.last.wrapping_sub(begun.first).min(FAR)),
                false => state.behind,
            },
            ..state
        };
        self.change(block, next);
    }

    fn change(&self, block: usize, next: impl Fn(BlockState) -> BlockState) -> BlockState {
        let word = &self.words[block];
        let mut known = word.load(Ordering::Acquire);
        loop {
            let changed = next(BlockState::of(known));
            match word.compare_exchange_weak(known, changed.word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return changed,
                Err(other) => known = other,
            }
        }
    }

    /// Returns the state of a block now.
    #[inline]
    pub(super) fn state(&self, block: usize) -> BlockState {
        BlockState::of(self.words[block].load(Ordering::Acquire))
    }

    /// Compares what was read of a file from a position on. `before` are the states of the blocks before it
    /// was read.
    ///
    /// # Errors
    /// The problem with the data read.
    pub(super) fn check(
        &self,
        comparer: &mut Comparer,
        (identity, file): (FileIdentity, u64),
        position: u64,
        found: &[u8],
        before: impl Iterator<Item = BlockState>,
    ) -> Result<(), Problem> {
        let (mut at, mut rest) = (position, found);
        for before in before {
            let number = self.number(file, at);
            let length = self.block - at % self.block;
            let (piece, later) = rest.split_at(length.min(rest.len() as u64) as usize);
            let after = self.state(number);
            // Nothing was in flight, and only one version could be there.
            if before == after && after.flights == 0 && after.behind == 0 {
                comparer.check(identity, after.last, at, piece)?;
            } else {
                let torn = before != after || after.flights > 0;
                comparer.check_among(identity, before.first()..=after.last, torn, at, piece)?;
            }
            (at, rest) = (at + piece.len() as u64, later);
        }
        Ok(())
    }

    /// Returns the facts that another process has to know: for each block that was written over, its distance
    /// from the one before and the first and last version that it may have; and the blocks with a write that
    /// never ended. If more than `most` were written over, about that many of them are reported, and nothing
    /// about the others.
    pub(super) fn summary(&self, most: u64) -> BlockSummary {
        let states = || (0..self.words.len()).map(|number| self.state(number));
        let written = states().filter(|state| state.last > 0).count() as u64;
        let below = (most as f64 / written.max(1) as f64 * u64::MAX as f64) as u64;
        let all = written <= most;
        let is_told = |number: usize| all || derive_seed(SAMPLE, &[number as u64]) <= below;
        let (mut versions, mut torn, mut before) = (Vec::new(), Vec::new(), 0);
        for (number, state) in states().enumerate() {
            if state.last > 0 && is_told(number) {
                versions.push((number as u64 - before, state.first(), state.last));
                before = number as u64;
            }
            if state.flights > 0 {
                torn.push(number as u64);
            }
        }
        BlockSummary { versions, all, torn }
    }

    /// Takes over what another process reported ([`BlockSummary`]).
    pub(super) fn take_over(&self, versions: &[(u64, u32, u32)], all: bool, torn: &[u64]) {
        if !all {
            self.words.iter().for_each(|word| word.store(BlockState::any().word(), Ordering::Release));
        }
        let mut number = 0;
        let set = |number: u64, state: BlockState| {
            if let Some(word) = self.words.get(number as usize) {
                word.store(state.word(), Ordering::Release);
            }
        };
        for (distance, first, last) in versions {
            number += distance;
            set(number, BlockState::quiet(*first, *last));
        }
        for number in torn {
            let last = self.words.get(*number as usize).map_or(0, |_| self.state(*number as usize).last);
            set(*number, BlockState::torn(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first_and_last(blocks: &Blocks) -> (u32, u32) {
        (blocks.state(0).first(), blocks.state(0).last)
    }

    #[test]
    fn a_write_alone_leaves_its_version_and_no_other() {
        let blocks = Blocks::new(512, 1, 512);
        for version in 1..2000 {
            let before = blocks.state(0);
            let begun = blocks.begin(0);
            assert_eq!(begun.version, version);
            assert_eq!(first_and_last(&blocks), (version - 1, version));
            assert_ne!(blocks.state(0), before);
            blocks.end(0, begun, true);
            assert_eq!(first_and_last(&blocks), (version, version));
        }
    }

    #[test]
    fn a_write_that_is_cut_short_may_have_left_what_was_there() {
        let blocks = Blocks::new(512, 1, 512);
        let begun = blocks.begin(0);
        blocks.end(0, begun, false);
        assert_eq!(first_and_last(&blocks), (0, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Writes begin and end in any order; at some moment between, each makes the block its version. What
        /// the block has then is always among what it may have, and when a write has ended that was alone,
        /// it is known exactly.
        #[test]
        fn what_is_there_may_be_there(steps in prop::collection::vec((0..3_u8, any::<prop::sample::Index>()), 1..1500)) {
            let blocks = Blocks::new(512, 1, 512);
            let mut flying: Vec<(Begun, bool, bool)> = Vec::new();
            let mut there = 0;
            for (step, which) in steps {
                match step {
                    0 if flying.len() < 6 => {
                        let alone = flying.is_empty();
                        flying.iter_mut().for_each(|(_, _, alone)| *alone = false);
                        flying.push((blocks.begin(0), false, alone));
                    }
                    1 if !flying.is_empty() => {
                        let index = which.index(flying.len());
                        let (begun, arrived, _) = &mut flying[index];
                        if !*arrived {
                            (there, *arrived) = (begun.version, true);
                        }
                    }
                    2 if !flying.is_empty() => {
                        let index = which.index(flying.len());
                        let (begun, arrived, alone) = flying.swap_remove(index);
                        if !arrived {
                            there = begun.version;
                        }
                        blocks.end(0, begun, true);
                        if alone {
                            prop_assert_eq!(first_and_last(&blocks), (there, there));
                        }
                    }
                    _ => {}
                }
                let (first, last) = first_and_last(&blocks);
                prop_assert!((first..=last).contains(&there), "{} not in {}..={}", there, first, last);
                prop_assert_eq!(blocks.state(0).flights as usize, flying.len());
            }
            let other = Blocks::new(512, 1, 512);
            let summary = blocks.summary(9);
            other.take_over(&summary.versions, summary.all, &summary.torn);
            let (first, last) = first_and_last(&other);
            prop_assert!((first..=last).contains(&there));
        }
    }

    #[test]
    fn what_another_process_takes_over_is_the_same() {
        let blocks = Blocks::new(512, 3, 1024);
        for number in [1, 1, 5, 3] {
            let begun = blocks.begin(number);
            blocks.end(number, begun, true);
        }
        let _ = blocks.begin(4);
        let summary = blocks.summary(4);
        assert_eq!((summary.versions.len(), summary.all, &summary.torn[..]), (4, true, &[4][..]));
        let other = Blocks::new(512, 3, 1024);
        other.take_over(&summary.versions, summary.all, &summary.torn);
        for number in [0, 1, 2, 3, 5] {
            assert_eq!(other.state(number), BlockState { together: 0, ..blocks.state(number) }, "{number}");
        }
        assert_eq!(other.state(4).flights, 1);
        assert_eq!((blocks.number(1, 0), blocks.number(2, 600)), (2, 5));
    }

    /// Of too many blocks, some are known, and any version of the others passes.
    #[test]
    fn too_many_blocks_are_told_as_a_sample() {
        let blocks = Blocks::new(512, 1, 512 * 4000);
        for number in 0..3000 {
            blocks.end(number, blocks.begin(number), true);
        }
        let summary = blocks.summary(600);
        assert!(!summary.all && (400..800).contains(&summary.versions.len()), "{}", summary.versions.len());
        let other = Blocks::new(512, 1, 512 * 4000);
        other.take_over(&summary.versions, summary.all, &summary.torn);
        let known = (0..4000).filter(|number| other.state(*number) == blocks.state(*number)).count();
        assert_eq!(known, summary.versions.len());
        assert!((0..4000).all(|number| other.state(number).first() <= 1 && other.state(number).last >= 1));
    }
}
