//! Compares what was read with what was written, and says what it is if it is something else.
//!
//! The comparison covers every byte: the expected content is made again, in the pool of a [`Content`], which
//! takes 16 bytes of stamps for each 512, and compared as a whole. Only if that fails is a sector looked at.

use crate::content::{Content, FileIdentity, SECTOR_BYTES, STAMP};
use crate::wrong::{Problem, SectorVerdict};
use fsdyno_core::workload;
use std::ops::RangeInclusive;

/// The expected content that a reader compares with. Allocates nothing once it exists.
#[derive(Debug)]
pub(crate) struct Comparer {
    content: Content,
}

impl Comparer {
    /// For reads of up to `longest` bytes of what was written with the same content and seed.
    pub(crate) fn new(content: workload::Content, seed: u64, longest: usize) -> Self {
        Comparer { content: Content::new(content, seed, longest) }
    }

    /// Checks that `found` is this version of a file from `position` on.
    ///
    /// # Errors
    /// The first sector that is not.
    #[inline]
    pub(crate) fn check(
        &mut self,
        file: FileIdentity,
        version: u32,
        position: u64,
        found: &[u8],
    ) -> Result<(), Problem> {
        match self.content.is(file.version(version), position, found) {
            true => Ok(()),
            false => Err(self.judge(file, version, position, found)),
        }
    }

    /// The same if the bytes right before were read on their own, and are only compared now.
    ///
    /// # Errors
    /// The first sector that is wrong.
    #[inline]
    pub(crate) fn check_both(
        &mut self,
        file: FileIdentity,
        version: u32,
        position: u64,
        before: &[u8],
        found: &[u8],
    ) -> Result<(), Problem> {
        let begin = position - before.len() as u64;
        let written = file.version(version);
        match self.content.is(written, begin, before) && self.content.is(written, position, found) {
            true => Ok(()),
            false => Err(self.judge(file, version, begin, &[before, found].concat())),
        }
    }

    /// Checks that `found` is some version of a file from `position` on.
    ///
    /// # Errors
    /// The first sector that is not of the same version as the others.
    #[cold]
    pub(crate) fn check_any(
        &mut self,
        file: FileIdentity,
        version: u32,
        position: u64,
        found: &[u8],
    ) -> Result<(), Problem> {
        let into = (position.next_multiple_of(SECTOR_BYTES) - position) as usize;
        let claimed = found.get(into..).and_then(FileIdentity::claimed);
        let version = claimed.and_then(|(claimed, _)| claimed.version_of(file)).unwrap_or(version);
        self.check(file, version, position, found)
    }

    /// Checks that each sector is one of these versions of a file. If a write was in flight during the read,
    /// a sector may be `torn` between two versions, which differ only in their stamps.
    ///
    /// # Errors
    /// The first sector that is not.
    #[cold]
    pub(crate) fn check_among(
        &mut self,
        file: FileIdentity,
        versions: RangeInclusive<u32>,
        torn: bool,
        position: u64,
        found: &[u8],
    ) -> Result<(), Problem> {
        let (mut at, mut rest) = (position, found);
        while !rest.is_empty() {
            let left = SECTOR_BYTES - at % SECTOR_BYTES;
            let (sector, later) = rest.split_at((left as usize).min(rest.len()));
            let claimed = FileIdentity::claimed(sector).and_then(|(claimed, _)| claimed.version_of(file));
            let claimed = claimed.filter(|version| versions.contains(version));
            let version = claimed.unwrap_or(*versions.end());
            if !self.content.is(file.version(version), at, sector) {
                // The stamp, as far as it was read, or as far as nothing says which version it is.
                let stamp = STAMP.saturating_sub((at % SECTOR_BYTES) as usize).min(sector.len());
                let is_part = stamp < STAMP && stamp > 0;
                let body = (at + stamp as u64, &sector[stamp..]);
                let may_be = (torn || is_part) && self.content.is(file, body.0, body.1);
                if !may_be {
                    return Err(self.judge(file, version, at, sector));
                }
            }
            (at, rest) = (at + sector.len() as u64, later);
        }
        Ok(())
    }

    /// Checks that each byte is as it was written, or zero.
    ///
    /// # Errors
    /// The first sector of which neither is true.
    #[cold]
    pub(crate) fn check_or_zeros(
        &mut self,
        file: FileIdentity,
        position: u64,
        found: &[u8],
    ) -> Result<(), Problem> {
        let expected = self.content.bytes(file, position, found.len());
        match expected.iter().zip(found).position(|(one, other)| one != other && *other != 0) {
            None => Ok(()),
            Some(at) => {
                let begin = ((position + at as u64) / SECTOR_BYTES * SECTOR_BYTES).max(position);
                Err(self.judge(file, 0, begin, &found[(begin - position) as usize..]))
            }
        }
    }

    /// Checks that there is nothing but zeros from `position` of a file on.
    ///
    /// # Errors
    /// The first byte that is not.
    pub(crate) fn check_zeros(
        &mut self,
        file: FileIdentity,
        position: u64,
        found: &[u8],
    ) -> Result<(), Problem> {
        let Some(at) = found.iter().position(|byte| *byte != 0) else { return Ok(()) };
        let offset = position + at as u64;
        let number = offset / SECTOR_BYTES;
        let begin = ((number * SECTOR_BYTES).max(position) - position) as usize;
        let until = (((number + 1) * SECTOR_BYTES - position) as usize).min(found.len());
        let sector = &found[begin..until];
        let bits = sector.iter().map(|byte| byte.count_ones()).sum();
        // Of the same place, it is still another one than the hole that belongs there.
        let found = match self.origin(file, 0, number, sector) {
            Some(SectorVerdict::Version { .. }) => SectorVerdict::Misplaced(number),
            Some(found) => found,
            None => SectorVerdict::Garbage { bits },
        };
        Err(Problem::Hole { offset, found })
    }

    /// Returns the problem with the first sector that is wrong.
    #[cold]
    fn judge(&mut self, file: FileIdentity, version: u32, position: u64, found: &[u8]) -> Problem {
        let expected = self.content.bytes(file.version(version), position, found.len());
        let wrong = expected.iter().zip(found).position(|(one, other)| one != other).unwrap_or(0);
        let offset = position + wrong as u64;
        let number = offset / SECTOR_BYTES;
        // The part of the sector that was read.
        let begin = (number * SECTOR_BYTES).max(position);
        let from = (begin - position) as usize;
        let until = ((number + 1) * SECTOR_BYTES - position).min(found.len() as u64) as usize;
        let sector = &found[from..until];
        let differ = |(one, other): (&u8, &u8)| (one ^ other).count_ones();
        let bits = expected[from..until].iter().zip(sector).map(differ).sum();
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let (offset, found) = if is_zero(sector) {
            (begin, SectorVerdict::Zeros)
        } else if bits > u8::BITS && is_zero(&found[wrong..until]) {
            // Where a file once ended, or a block of another size.
            (offset, SectorVerdict::Zeros)
        } else {
            match self.origin(file, version, number, sector) {
                Some(found) => (begin, found),
                None => (offset, SectorVerdict::Garbage { bits }),
            }
        };
        Problem::Sector { offset, number, found }
    }

    /// Where a sector comes from, if it is exactly one that was written somewhere.
    fn origin(
        &mut self,
        file: FileIdentity,
        version: u32,
        number: u64,
        sector: &[u8],
    ) -> Option<SectorVerdict> {
        let (claimed, claimed_number) = FileIdentity::claimed(sector)?;
        if !self.content.is(claimed, claimed_number * SECTOR_BYTES, sector) {
            return None;
        }
        Some(match claimed.version_of(file) {
            Some(found) if claimed_number == number => SectorVerdict::Version { expected: version, found },
            Some(_) => SectorVerdict::Misplaced(claimed_number),
            None => SectorVerdict::Foreign(claimed_number),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [workload::Content; 3] = [
        workload::Content::Random,
        workload::Content::Compressible(0.5),
        workload::Content::Compressible(1.0),
    ];
    const LENGTH: usize = 16 * 512 + 100;

    fn file(index: u64) -> FileIdentity {
        FileIdentity::new(9, index)
    }

    fn written(kind: workload::Content, file: FileIdentity, position: u64) -> Vec<u8> {
        Content::new(kind, 1, LENGTH).bytes(file, position, LENGTH).to_vec()
    }

    fn found(kind: workload::Content, version: u32, position: u64, bytes: &[u8]) -> Option<Problem> {
        Comparer::new(kind, 1, LENGTH).check(file(3), version, position, bytes).err()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Checks that written data is accepted, from any position and in any piece.
        #[test]
        fn what_was_written_passes(
            kind in 0..3_usize, version in any::<u32>(), position in 0..5_000_000_u64, length in 0..LENGTH,
        ) {
            let bytes = written(KINDS[kind], file(3).version(version), position);
            prop_assert_eq!(found(KINDS[kind], version, position, &bytes[..length]), None);
        }

        /// Any bit that flips is found, and is nothing but garbage: no stamp turns into that of another
        /// sector.
        #[test]
        fn a_flipped_bit_is_garbage_at_its_byte(
            kind in 0..3_usize, version in 0..9_u32, position in 0..5_000_000_u64, byte in 0..LENGTH,
            bit in 0..8_u32,
        ) {
            let mut bytes = written(KINDS[kind], file(3).version(version), position);
            bytes[byte] ^= 1 << bit;
            let offset = position + byte as u64;
            let garbage = Problem::Sector { offset, number: offset / 512, found: SectorVerdict::Garbage { bits: 1 } };
            prop_assert_eq!(found(KINDS[kind], version, position, &bytes), Some(garbage));
        }

        /// A sector in the place of another one, of the same file or not, says where it belongs.
        #[test]
        fn a_swapped_sector_says_where_it_belongs(
            kind in 0..3_usize, begin in 0..9_999_u64, to in 0..16_usize, from in 0..1_000_000_u64,
            other in 0..9_u64, version in 0..9_u32,
        ) {
            let position = begin * 512;
            let number = begin + to as u64;
            prop_assume!(from != number);
            let mut bytes = written(KINDS[kind], file(3).version(version), position);
            let sector = written(KINDS[kind], file(other), from * 512);
            bytes[to * 512..][..512].copy_from_slice(&sector[..512]);
            let what = if other == 3 { SectorVerdict::Misplaced(from) } else { SectorVerdict::Foreign(from) };
            let problem = Problem::Sector { offset: number * 512, number, found: what };
            prop_assert_eq!(found(KINDS[kind], version, position, &bytes), Some(problem));
        }

        /// A write that never arrived leaves the version before it.
        #[test]
        fn a_lost_write_is_old_data(
            kind in 0..3_usize, begin in 0..9_999_u64, to in 0..16_usize, old in 0..99_u32, newer in 1..99_u32,
        ) {
            let (position, expected) = (begin * 512, old + newer);
            let mut bytes = written(KINDS[kind], file(3).version(expected), position);
            let before = written(KINDS[kind], file(3).version(old), position);
            bytes[to * 512..][..512].copy_from_slice(&before[to * 512..][..512]);
            let number = begin + to as u64;
            let what = SectorVerdict::Version { expected, found: old };
            let problem = Problem::Sector { offset: number * 512, number, found: what };
            prop_assert_eq!(found(KINDS[kind], expected, position, &bytes), Some(problem));
            prop_assert!(problem.to_string().contains("old data"));
        }

        #[test]
        fn a_hole_is_zeros(kind in 0..3_usize, begin in 0..9_999_u64, to in 0..16_usize) {
            let mut bytes = written(KINDS[kind], file(3), begin * 512);
            bytes[to * 512..][..512].fill(0);
            let number = begin + to as u64;
            let problem = Problem::Sector { offset: number * 512, number, found: SectorVerdict::Zeros };
            prop_assert_eq!(found(KINDS[kind], 0, begin * 512, &bytes), Some(problem));
        }
    }

    /// As where a file once ended, within a sector.
    #[test]
    fn zeros_may_begin_within_a_sector() {
        let mut bytes = written(workload::Content::Random, file(3), 0);
        bytes[700..1024].fill(0);
        let problem = Problem::Sector { offset: 700, number: 1, found: SectorVerdict::Zeros };
        assert_eq!(found(workload::Content::Random, 0, 0, &bytes), Some(problem));
    }

    #[test]
    fn any_version_passes_where_two_writes_were_in_flight_but_not_two_at_once() {
        let kind = workload::Content::Random;
        let mut comparer = Comparer::new(kind, 1, LENGTH);
        let (one, two) = (written(kind, file(3).version(1), 0), written(kind, file(3).version(2), 0));
        for bytes in [&one, &two] {
            assert_eq!(comparer.check_any(file(3), 7, 0, bytes), Ok(()));
            assert_eq!(comparer.check_any(file(3), 7, 100, &bytes[100..]), Ok(()));
        }
        let torn = [&one[..1024], &two[1024..]].concat();
        let what = SectorVerdict::Version { expected: 1, found: 2 };
        let problem = Problem::Sector { offset: 1024, number: 2, found: what };
        assert_eq!(comparer.check_any(file(3), 7, 0, &torn), Err(problem));
    }

    #[test]
    fn a_sector_has_one_of_the_versions_it_may_have_or_is_torn_while_it_is_written() {
        let kind = workload::Content::Random;
        let mut comparer = Comparer::new(kind, 1, LENGTH);
        let of = |version| written(kind, file(3).version(version), 0);
        let mixed = [&of(4)[..512], &of(5)[512..1024], &of(6)[1024..]].concat();
        assert_eq!(comparer.check_among(file(3), 4..=6, false, 0, &mixed), Ok(()));
        // From the middle of a stamp on, and up to there.
        assert_eq!(comparer.check_among(file(3), 4..=6, false, 7, &mixed[7..1029]), Ok(()));
        let old = comparer.check_among(file(3), 5..=6, false, 0, &mixed);
        let what = SectorVerdict::Version { expected: 6, found: 4 };
        assert_eq!(old, Err(Problem::Sector { offset: 0, number: 0, found: what }));
        let mut torn = mixed.clone();
        torn[..8].copy_from_slice(&of(6)[..8]);
        assert!(comparer.check_among(file(3), 4..=6, false, 0, &torn).is_err());
        assert_eq!(comparer.check_among(file(3), 4..=6, true, 0, &torn), Ok(()));
        torn[600] ^= 1;
        let garbage = Problem::Sector { offset: 600, number: 1, found: SectorVerdict::Garbage { bits: 1 } };
        assert_eq!(comparer.check_among(file(3), 4..=6, true, 0, &torn), Err(garbage));
        let other = written(kind, file(4), 0);
        assert!(comparer.check_among(file(3), 0..=9, true, 0, &other).is_err());
    }

    #[test]
    fn a_hole_has_nothing_but_zeros() {
        let kind = workload::Content::Random;
        let mut comparer = Comparer::new(kind, 1, LENGTH);
        assert_eq!(comparer.check_zeros(file(3), 100, &[0; 3000]), Ok(()));
        let mut found = [0; 4096];
        found[1024..1536].copy_from_slice(&written(kind, file(3), 0)[1024..1536]);
        let mut hole = |found: &[u8]| comparer.check_zeros(file(3), 0, found).unwrap_err().to_string();
        assert_eq!(hole(&found), "at offset 1024: expected a hole of zeros, found sector 2 of this file");
        found[1024..1536].fill(0);
        found[4000] = 1;
        assert_eq!(hole(&found), "at offset 4000: expected a hole of zeros, found garbage: 1 bit differs");
        let half = [&[0; 300], &written(kind, file(3), 0)[300..1000]].concat();
        assert_eq!(comparer.check_or_zeros(file(3), 0, &half), Ok(()));
        assert_eq!(comparer.check_or_zeros(file(3), 100, &half[100..]), Ok(()));
        let foreign = [&half[..512], &written(kind, file(4), 512)[..512]].concat();
        let problem = comparer.check_or_zeros(file(3), 0, &foreign).unwrap_err();
        assert_eq!(problem, Problem::Sector { offset: 512, number: 1, found: SectorVerdict::Foreign(1) });
    }

    #[test]
    fn identities_follow_names() {
        use crate::content::path_seed;
        let top = path_seed(1, c"tree-0");
        assert_ne!(FileIdentity::named(top, c"a"), FileIdentity::named(top, c"b"));
        assert_ne!(FileIdentity::named(top, c"a"), FileIdentity::named(path_seed(top, c"d"), c"a"));
        let file = FileIdentity::named(top, c"a");
        assert_eq!(file.version(5).version_of(file), Some(5));
        assert_eq!(FileIdentity::named(top, c"b").version(5).version_of(file), None);
    }
}
