//! The contents of files: sectors that say whose they are, so that after a power cut each one can be judged
//! alone.
//!
//! A sector begins with a magic number, the seed, the file, the generation and its number in the file, and
//! ends with a CRC-32 of everything before. What is between them is pseudo-random and derives from the
//! former, so that no filesystem can compress or deduplicate it.

use crate::tree::derive_seed;
use fsdyno_core::durability::DATA;
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// Size of a sector, the smallest piece that a device writes as a whole.
pub(crate) const SECTOR: usize = 512;

const MAGIC: u64 = u64::from_le_bytes(DATA);
/// Magic, seed, file, generation and number.
const HEADER: usize = 40;
/// Where the generation is.
const GENERATION: usize = 24;
/// Where the checksum is.
const CHECK: usize = SECTOR - 4;

/// Where a sector belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SectorAddress {
    /// Of the request.
    pub(crate) seed: u64,
    /// Number of the file, unique among all of the seed.
    pub(crate) file: u64,
    /// Number of the sector in the file.
    pub(crate) sector: u64,
}

/// The verdict on a sector of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromisedSector {
    /// The file ends before it, or it cannot be read.
    Missing,
    /// Zeros.
    Zeros,
    /// Anything that no worker has ever written.
    Garbage,
    /// A sector of another file, another place or another seed.
    Foreign,
    /// The data that a worker has written there, in this generation.
    Written(u64),
}

impl SectorAddress {
    /// Puts what belongs here into a sector.
    pub(crate) fn fill(self, generation: u64, sector: &mut [u8; SECTOR]) {
        let words = [MAGIC, self.seed, self.file, generation, self.sector];
        for (word, bytes) in words.into_iter().zip(sector.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let seed = derive_seed(self.seed, &[self.file, generation, self.sector]);
        SplitMix64::seed_from_u64(seed).fill_bytes(&mut sector[HEADER..CHECK]);
        let check = crc32fast::hash(&sector[..CHECK]);
        sector[CHECK..].copy_from_slice(&check.to_le_bytes());
    }

    /// Judges bytes that were read here. If they are fewer than a sector, the file ends with them.
    pub(crate) fn judge(self, bytes: &[u8]) -> PromisedSector {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        if bytes.is_empty() {
            return PromisedSector::Missing;
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return PromisedSector::Zeros;
        }
        if bytes.len() < SECTOR {
            return self.judge_part(bytes);
        }
        let check = bytes[CHECK..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        if word(0) != MAGIC || check != crc32fast::hash(&bytes[..CHECK]) {
            return PromisedSector::Garbage;
        }
        match (SectorAddress { seed: word(8), file: word(16), sector: word(32) }) == self {
            true => PromisedSector::Written(word(GENERATION)),
            false => PromisedSector::Foreign,
        }
    }

    /// Judges the beginning of a sector.
    fn judge_part(self, bytes: &[u8]) -> PromisedSector {
        let generation = bytes.get(GENERATION..).and_then(|rest| rest.first_chunk());
        let mut whole = [0; SECTOR];
        self.fill(generation.map_or(0, |word| u64::from_le_bytes(*word)), &mut whole);
        let known = if generation.is_some() { bytes.len() } else { bytes.len().min(GENERATION) };
        if bytes[..known] == whole[..known] { PromisedSector::Missing } else { PromisedSector::Garbage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: SectorAddress = SectorAddress { seed: 7, file: 3, sector: 12 };

    fn written(place: SectorAddress, generation: u64) -> [u8; SECTOR] {
        let mut sector = [0; SECTOR];
        place.fill(generation, &mut sector);
        sector
    }

    #[test]
    fn each_kind_of_sector_is_told_from_the_others() {
        assert_eq!(PLACE.judge(&written(PLACE, 5)), PromisedSector::Written(5));
        assert_eq!(PLACE.judge(&[0; SECTOR]), PromisedSector::Zeros);
        assert_eq!(PLACE.judge(&[0xff; SECTOR]), PromisedSector::Garbage);
        assert_eq!(PLACE.judge(&[]), PromisedSector::Missing);
        for other in [
            SectorAddress { seed: 8, ..PLACE },
            SectorAddress { file: 4, ..PLACE },
            SectorAddress { sector: 13, ..PLACE },
        ] {
            assert_eq!(PLACE.judge(&written(other, 5)), PromisedSector::Foreign);
        }
    }

    #[test]
    fn no_byte_may_differ() {
        let right = written(PLACE, 5);
        for at in 0..SECTOR {
            let mut other = right;
            other[at] ^= 1;
            assert_eq!(PLACE.judge(&other), PromisedSector::Garbage, "byte {at}");
        }
        // Two halves of different generations.
        let mut torn = right;
        torn[256..].copy_from_slice(&written(PLACE, 6)[256..]);
        assert_eq!(PLACE.judge(&torn), PromisedSector::Garbage);
    }

    #[test]
    fn the_beginning_of_a_sector_is_short_and_nothing_worse() {
        let right = written(PLACE, 5);
        for length in 0..SECTOR {
            assert_eq!(PLACE.judge(&right[..length]), PromisedSector::Missing, "{length} bytes");
        }
        assert_eq!(PLACE.judge(&[0; 100]), PromisedSector::Zeros);
        assert_eq!(PLACE.judge(&[1; 10]), PromisedSector::Garbage);
        assert_eq!(
            PLACE.judge(&written(SectorAddress { file: 4, ..PLACE }, 5)[..200]),
            PromisedSector::Garbage
        );
    }
}
