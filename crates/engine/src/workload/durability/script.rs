//! The actions of workers, as a function of seed, promise and number: the workers perform them, and the
//! verifier looks for them, so that the two cannot disagree.

use super::sector::{SECTOR, SectorAddress};
use crate::tree::derive_seed;
use fsdyno_core::durability::Promise;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::Range;

/// The word that everything here derives from, together with the seed.
const SCRIPT: u64 = u64::from_le_bytes(*b"promises");
/// The directory of work that nothing syncs, and its number in place of that of a promise.
const UNSYNCED: (&str, u64) = ("unsynced", 255);
/// The number of records that a file gets before the next one begins.
const RECORDS: u64 = 16;
/// The number of files that are overwritten in turn.
const OVERWRITTEN: u64 = 4;
/// Their length in sectors: 64 to 256 KiB.
const OVERWRITTEN_SECTORS: Range<u64> = 128..513;
/// The number of files that are replaced in turn.
const REPLACED: u64 = 8;
/// The number of files that one syncfs(2) is for.
const TOGETHER: Range<u64> = 2..6;
/// Length in sectors of a file that nothing syncs: 2 to 16 KiB.
const UNSYNCED_SECTORS: Range<u64> = 4..33;
/// Sectors in a block of most filesystems.
const BLOCK: u64 = 8;
/// Distinguishes draws of prepared files from those of numbers.
const PREPARED: u64 = 1 << 48;

/// All that the workers do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    seed: u64,
}

/// Sectors of a file that are written as one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    /// The file, numbered in its directory.
    pub(crate) file: u64,
    /// Which sectors.
    pub(crate) sectors: Range<u64>,
    /// The version of the file, or of these sectors.
    pub(crate) generation: u64,
}

/// A piece of work that nothing syncs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unsynced {
    /// A new directory.
    Directory,
    /// A new file.
    File(Write),
}

/// The directory of a promise, or of work that nothing syncs.
pub(crate) fn directory(promise: Option<Promise>) -> &'static str {
    promise.map_or(UNSYNCED.0, Promise::name)
}

/// The name of a file.
pub(crate) fn name(file: u64) -> String {
    file.to_string()
}

/// The second name of a file: a link, what it is renamed to, or its next version.
pub(crate) fn second_name(promise: Promise, file: u64) -> String {
    let suffix = match promise {
        Promise::Link => "link",
        Promise::Rename => "renamed",
        _ => "new",
    };
    format!("{file}.{suffix}")
}

impl Script {
    pub(crate) fn new(seed: u64) -> Self {
        Script { seed }
    }

    /// Returns the address that is stored in a sector.
    pub(crate) fn place(&self, promise: Option<Promise>, file: u64, sector: u64) -> SectorAddress {
        SectorAddress { seed: self.seed, file: number_of(promise) << 56 | file, sector }
    }

    /// Puts the content of a write into a buffer, which becomes as long as the write.
    pub(crate) fn fill(&self, promise: Option<Promise>, write: &Write, buffer: &mut Vec<u8>) {
        buffer.resize((write.sectors.end - write.sectors.start) as usize * SECTOR, 0);
        for (number, sector) in write.sectors.clone().zip(buffer.as_chunks_mut().0) {
            self.place(promise, write.file, number).fill(write.generation, sector);
        }
    }

    /// Returns the number of files that exist, written and synced, before the first promise.
    pub(crate) fn prepared(&self, promise: Promise) -> u64 {
        match promise {
            Promise::Overwrite | Promise::Msync => OVERWRITTEN,
            Promise::Replace | Promise::ReplaceUnsynced => REPLACED,
            _ => 0,
        }
    }

    /// One of these files.
    pub(crate) fn prepared_file(&self, promise: Promise, file: u64) -> Write {
        let mut random = self.random(Some(promise), PREPARED + file);
        let length = match promise {
            Promise::Overwrite | Promise::Msync => random.random_range(OVERWRITTEN_SECTORS),
            _ => length(&mut random),
        };
        Write { file, sectors: 0..length, generation: 0 }
    }

    /// Returns the writes for the promise of this number: in most cases, one piece.
    pub(crate) fn writes(&self, promise: Promise, number: u64) -> Vec<Write> {
        let mut random = self.random(Some(promise), number);
        let whole = |file, random: &mut _| Write { file, sectors: 0..length(random), generation: 0 };
        match promise {
            Promise::Append | Promise::DsyncAppend => vec![self.record(promise, number)],
            Promise::Overwrite | Promise::Msync => {
                let file = number % OVERWRITTEN;
                let size = self.prepared_file(promise, file).sectors.end;
                let length = length(&mut random).min(size);
                let begin = random.random_range(0..=size - length);
                vec![Write { file, sectors: begin..begin + length, generation: number + 1 }]
            }
            Promise::Replace | Promise::ReplaceUnsynced => {
                vec![Write { generation: number + 1, ..whole(number % REPLACED, &mut random) }]
            }
            Promise::Syncfs => {
                let files = random.random_range(TOGETHER);
                (0..files).map(|file| whole(number * TOGETHER.end + file, &mut random)).collect()
            }
            Promise::Create | Promise::CreateFile | Promise::Link | Promise::Rename | Promise::Unlink => {
                vec![whole(number, &mut random)]
            }
        }
    }

    /// The version of a file that is replaced, in this generation.
    pub(crate) fn version(&self, promise: Promise, file: u64, generation: u64) -> Write {
        let written = |number| self.writes(promise, number).pop();
        let written = generation.checked_sub(1).and_then(written);
        written.unwrap_or_else(|| self.prepared_file(promise, file))
    }

    /// The work of this number that nothing syncs.
    pub(crate) fn unsynced(&self, number: u64) -> Unsynced {
        if number.is_multiple_of(2) {
            return Unsynced::Directory;
        }
        let length = self.random(None, number).random_range(UNSYNCED_SECTORS);
        Unsynced::File(Write { file: number, sectors: 0..length, generation: 0 })
    }

    /// A record behind those that the same file already has.
    fn record(&self, promise: Promise, number: u64) -> Write {
        let length = |number| {
            let length = length(&mut self.random(Some(promise), number));
            // A record shares its last block with the next one.
            if length.is_multiple_of(BLOCK) { length - 1 } else { length }
        };
        let file = number / RECORDS;
        let begin = (file * RECORDS..number).map(length).sum();
        Write { file, sectors: begin..begin + length(number), generation: 0 }
    }

    fn random(&self, promise: Option<Promise>, number: u64) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(derive_seed(self.seed, &[SCRIPT, number_of(promise), number]))
    }
}

fn number_of(promise: Option<Promise>) -> u64 {
    promise.map_or(UNSYNCED.1, |promise| u64::from(promise.number()))
}

/// A length in sectors, from 512 bytes to 128 KiB, most of them small: 9 KiB on average.
fn length(random: &mut Xoshiro256PlusPlus) -> u64 {
    let exponent = random.random_range(0..8_u32).min(random.random_range(0..8));
    (1 << exponent) + random.random_range(0..=1 << exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Every sector of the first promises, with its content.
    fn sectors(script: &Script, promise: Promise, numbers: Range<u64>) -> Vec<(u64, u64, u64)> {
        let writes = numbers.flat_map(|number| script.writes(promise, number));
        writes.flat_map(|one| one.sectors.map(move |sector| (one.file, sector, one.generation))).collect()
    }

    proptest! {
        #[test]
        fn the_script_depends_on_nothing_but_the_seed(seed: u64) {
            for promise in Promise::ALL {
                let again = |number| Script::new(seed).writes(promise, number);
                let script = Script::new(seed);
                // In any order.
                let all: Vec<_> = (0..40).rev().map(|number| script.writes(promise, number)).collect();
                for (writes, number) in all.into_iter().zip((0..40).rev()) {
                    prop_assert_eq!(writes, again(number));
                }
            }
        }

        #[test]
        fn nothing_is_written_twice(seed: u64) {
            let script = Script::new(seed);
            let mut seen = HashMap::new();
            for promise in Promise::ALL {
                for (file, sector, generation) in sectors(&script, promise, 0..40) {
                    let place = script.place(Some(promise), file, sector);
                    let before = seen.insert((place.file, place.sector, generation), promise);
                    prop_assert_eq!(before, None);
                }
            }
        }

        #[test]
        fn sizes_are_within_their_limits(seed: u64) {
            let script = Script::new(seed);
            for promise in Promise::ALL {
                for number in 0..40 {
                    for one in script.writes(promise, number) {
                        let length = one.sectors.end - one.sectors.start;
                        prop_assert!((1..=256).contains(&length), "{:?}", one);
                        if matches!(promise, Promise::Overwrite | Promise::Msync) {
                            let prepared = script.prepared_file(promise, one.file).sectors.end;
                            prop_assert!((128..=512).contains(&prepared) && one.sectors.end <= prepared);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn records_follow_each_other_and_share_blocks() {
        let script = Script::new(1);
        for promise in [Promise::Append, Promise::DsyncAppend] {
            let mut end = 0;
            for number in 0..64 {
                let one = script.writes(promise, number).remove(0);
                assert_eq!(one.file, number / 16);
                assert_eq!(one.sectors.start, if number % 16 == 0 { 0 } else { end });
                end = one.sectors.end;
                assert_ne!((end - one.sectors.start) % 8, 0);
            }
        }
    }

    #[test]
    fn most_are_small() {
        let script = Script::new(1);
        let length = |number| script.writes(Promise::Create, number)[0].sectors.end;
        let lengths: Vec<u64> = (0..2000).map(length).collect();
        assert!(lengths.iter().filter(|length| **length <= 8).count() > 800);
        assert!((15..20).contains(&(lengths.iter().sum::<u64>() / 2000)));
        assert_eq!(lengths.iter().min(), Some(&1));
    }

    #[test]
    fn names_of_versions_are_those_of_their_numbers() {
        let script = Script::new(3);
        assert_eq!(script.version(Promise::Replace, 2, 0), script.prepared_file(Promise::Replace, 2));
        assert_eq!(script.version(Promise::Replace, 2, 11), script.writes(Promise::Replace, 10)[0]);
        assert_eq!(script.writes(Promise::Replace, 10)[0].file, 2);
        assert_eq!(directory(None), "unsynced");
        assert_eq!(second_name(Promise::Link, 3), "3.link");
    }
}
