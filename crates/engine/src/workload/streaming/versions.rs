//! Which version of a file each of its blocks has.
//!
//! A file that is written over block by block has many versions at once. Which one a block has follows from
//! the seed and the number of blocks that were written, so that a writer keeps nothing but a count; whoever
//! reads later goes through the same choices again.

use crate::compare::Comparer;
use crate::content::FileIdentity;
use crate::wrong::Problem;
use fsdyno_core::Reached;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

/// The number of blocks of one worker that may be written while another write of the same block is in flight,
/// before nothing is known about the order of any.
const MOST_UNORDERED: usize = 1 << 16;

/// The versions of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Versions {
    /// That of everything that was not written over.
    pub(super) first: u32,
    /// The blocks that were written over.
    over: Option<Over>,
}

/// Blocks that were written over.
#[derive(Debug, Clone)]
struct Over {
    block: u64,
    last: Last,
    /// Blocks, ascending, whose last two writes were in flight together: either may have come last.
    unordered: Arc<[u64]>,
}

/// The version of each block.
#[derive(Debug, Clone)]
enum Last {
    /// By its number; 0 if it was not written over.
    Random(Arc<[u32]>),
    /// So many were written in order, around and around a file of so many.
    Around { written: u64, blocks: u64 },
    /// It is not known how far the writer came.
    Unknown,
}

impl Versions {
    /// Those of a file that was written once, as this version.
    pub(super) fn whole(first: u32) -> Self {
        Versions { first, over: None }
    }

    /// Those of a file of so many blocks, after blocks of it were chosen with this seed and written over.
    /// `None`: it is not known how many.
    pub(super) fn random(first: u32, block: u64, blocks: u64, seed: u64, reached: Option<&Reached>) -> Self {
        let Some(Reached::File { blocks: written, unordered, .. }) = reached else {
            return Self::unknown(first, block);
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut last = vec![0; blocks as usize];
        let mut uncertain = Vec::new();
        let mut noted = unordered.iter().copied().peekable();
        for number in 0..*written {
            let at = random.random_range(0..blocks);
            last[at as usize] = over(number);
            if noted.next_if_eq(&number).is_some() {
                uncertain.push((at, over(number)));
            }
        }
        // A later write of its own puts an end to the doubt.
        let doubtful = uncertain.into_iter().filter(|(at, version)| last[*at as usize] == *version);
        let unordered = ascending(doubtful.map(|(at, _)| at));
        Versions { first, over: Some(Over { block, last: Last::Random(last.into()), unordered }) }
    }

    /// Those of a file of so many blocks that was written around and around.
    pub(super) fn around(block: u64, blocks: u64, reached: Option<&Reached>) -> Self {
        let Some(Reached::File { blocks: written, unordered, .. }) = reached else {
            return Self::unknown(0, block);
        };
        let doubtful = unordered.iter().filter(|number| *number + blocks >= *written);
        let unordered = ascending(doubtful.map(|number| number % blocks));
        let last = Last::Around { written: *written, blocks };
        Versions { first: 0, over: Some(Over { block, last, unordered }) }
    }

    fn unknown(first: u32, block: u64) -> Self {
        Versions { first, over: Some(Over { block, last: Last::Unknown, unordered: Arc::default() }) }
    }

    /// Compares what was read from a position on.
    ///
    /// # Errors
    /// The problem with the data read.
    #[inline]
    pub(super) fn check(
        &self,
        comparer: &mut Comparer,
        file: FileIdentity,
        position: u64,
        found: &[u8],
    ) -> Result<(), Problem> {
        let Some(over) = &self.over else { return comparer.check(file, self.first, position, found) };
        let (mut at, mut rest) = (position, found);
        while !rest.is_empty() {
            let number = at / over.block;
            let length = ((number + 1) * over.block - at).min(rest.len() as u64) as usize;
            let (block, later) = rest.split_at(length);
            let version = over.last.version(number).unwrap_or(self.first);
            if let Err(problem) = comparer.check(file, version, at, block) {
                if !over.is_uncertain(number) {
                    return Err(problem);
                }
                comparer.check_any(file, version, at, block)?;
            }
            (at, rest) = (at + length as u64, later);
        }
        Ok(())
    }
}

impl Over {
    fn is_uncertain(&self, block: u64) -> bool {
        matches!(self.last, Last::Unknown) || self.unordered.binary_search(&block).is_ok()
    }
}

impl Last {
    /// The version of a block; `None` if it was not written over.
    #[inline]
    fn version(&self, block: u64) -> Option<u32> {
        match self {
            Last::Random(last) => last.get(block as usize).copied().filter(|version| *version > 0),
            Last::Around { written, blocks } => {
                (written.checked_sub(block + 1)).map(|before| (before / blocks) as u32)
            }
            Last::Unknown => None,
        }
    }
}

/// The version that the write of this number leaves in its block.
#[inline(always)]
pub(super) fn over(number: u64) -> u32 {
    (number + 1) as u32
}

fn ascending(blocks: impl Iterator<Item = u64>) -> Arc<[u64]> {
    let mut blocks: Vec<u64> = blocks.collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.into()
}

/// The progress of a writer.
#[derive(Debug)]
pub(super) struct Drawn {
    /// The number of blocks that the writer has begun to write.
    pub(super) blocks: u64,
    /// Those of them that were begun while another write of the same block was in flight.
    unordered: Vec<u64>,
    /// Where the request of each slot began, and which version it writes.
    slots: Box<[(u64, u32)]>,
}

impl Drawn {
    /// With so many requests in flight at once. What may be noted is allocated now.
    pub(super) fn new(depth: usize, notes: bool) -> Self {
        let unordered = Vec::with_capacity(if notes && depth > 1 { MOST_UNORDERED } else { 0 });
        Drawn { blocks: 0, unordered, slots: vec![(u64::MAX, 0); depth].into_boxed_slice() }
    }

    /// The block drawn last is written as this version, by the request of a slot.
    #[inline]
    pub(super) fn begin(&mut self, slot: usize, position: u64, version: u32) {
        let is_doubtful = self.unordered.capacity() > 0
            && self.unordered.len() < MOST_UNORDERED
            && self.slots.iter().enumerate().any(|(other, (at, _))| other != slot && *at == position);
        if is_doubtful {
            self.unordered.push(self.blocks - 1);
        }
        self.slots[slot] = (position, version);
    }

    /// Returns the progress of the writer in a file, for whoever reads the file later; `None` if the writer
    /// has lost count.
    pub(super) fn reached(self, file: &str) -> Option<Reached> {
        let Drawn { blocks, unordered, .. } = self;
        (unordered.len() < MOST_UNORDERED).then(|| Reached::File {
            file: file.to_string(),
            blocks,
            unordered,
        })
    }

    /// The version that the request of a slot writes.
    #[inline(always)]
    pub(super) fn version(&self, slot: usize) -> u32 {
        self.slots[slot].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::wrong::SectorVerdict;
    use fsdyno_core::workload;

    const BLOCK: usize = 1024;
    const BLOCKS: u64 = 8;
    const KIND: workload::Content = workload::Content::Random;

    fn file() -> FileIdentity {
        FileIdentity::new(4, 2)
    }

    fn reached(blocks: u64, unordered: &[u64]) -> Reached {
        Reached::File { file: "stream-0".to_string(), blocks, unordered: unordered.to_vec() }
    }

    /// A file as a writer leaves it that stops after so many blocks, without the write of number `lost`.
    fn disk(written: u64, lost: Option<u64>) -> Vec<u8> {
        let mut content = Content::new(KIND, 1, BLOCK);
        let mut disk: Vec<u8> = (0..BLOCKS)
            .flat_map(|block| content.bytes(file(), block * BLOCK as u64, BLOCK).to_vec())
            .collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(77);
        for number in 0..written {
            let at = random.random_range(0..BLOCKS) * BLOCK as u64;
            if lost != Some(number) {
                let bytes = content.bytes(file().version(over(number)), at, BLOCK);
                disk[at as usize..][..BLOCK].copy_from_slice(bytes);
            }
        }
        disk
    }

    fn check(versions: &Versions, disk: &[u8]) -> Result<(), Problem> {
        let mut comparer = Comparer::new(KIND, 1, disk.len());
        // In pieces that do not end where blocks do, too.
        versions.check(&mut comparer, file(), 512, &disk[512..])?;
        versions.check(&mut comparer, file(), 0, disk)
    }

    #[test]
    fn the_last_write_of_each_block_is_known_from_their_number() {
        for written in [0, 1, 5, 40] {
            let versions = Versions::random(0, BLOCK as u64, BLOCKS, 77, Some(&reached(written, &[])));
            assert_eq!(check(&versions, &disk(written, None)), Ok(()));
        }
    }

    #[test]
    fn a_lost_write_is_old_data_unless_a_later_one_covers_it() {
        let written = 40;
        let versions = |unordered: &[u64]| {
            Versions::random(0, BLOCK as u64, BLOCKS, 77, Some(&reached(written, unordered)))
        };
        let mut lost_for_good = 0;
        for lost in 0..written {
            let disk = disk(written, Some(lost));
            match check(&versions(&[]), &disk) {
                Ok(()) => {}
                Err(Problem::Sector { found: SectorVerdict::Version { expected, found }, .. }) => {
                    assert_eq!(expected, over(lost));
                    assert!(found < expected);
                    lost_for_good += 1;
                    // Whoever does not know which came last accepts both.
                    assert_eq!(check(&versions(&[lost]), &disk), Ok(()));
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(lost_for_good, BLOCKS, "each block has one last write");
    }

    #[test]
    fn rounds_are_counted_by_block() {
        let versions = Versions::around(BLOCK as u64, BLOCKS, Some(&reached(19, &[])));
        let mut content = Content::new(KIND, 1, BLOCK);
        let mut disk = |version: fn(u64) -> u32| -> Vec<u8> {
            let block =
                |block| content.bytes(file().version(version(block)), block * BLOCK as u64, BLOCK).to_vec();
            (0..BLOCKS).flat_map(block).collect()
        };
        assert_eq!(check(&versions, &disk(|block| if block < 3 { 2 } else { 1 })), Ok(()));
        assert!(check(&versions, &disk(|_| 1)).is_err());
    }

    #[test]
    fn without_a_count_any_version_passes_but_no_other_file() {
        let versions = Versions::random(0, BLOCK as u64, BLOCKS, 77, None);
        assert_eq!(check(&versions, &disk(40, None)), Ok(()));
        let mut other = disk(40, None);
        let foreign = Content::new(KIND, 1, 512).bytes(FileIdentity::new(4, 3), 512, 512).to_vec();
        other[512..1024].copy_from_slice(&foreign);
        assert!(check(&versions, &other).is_err());
    }

    #[test]
    fn two_writes_of_a_block_in_flight_are_noted() {
        let mut drawn = Drawn::new(2, true);
        for (slot, position) in [(0, 0), (1, 512), (0, 512), (1, 0)] {
            drawn.blocks += 1;
            drawn.begin(slot, position, over(drawn.blocks - 1));
        }
        assert_eq!(drawn.version(1), 4);
        assert_eq!(drawn.reached("stream-0"), Some(reached(4, &[2])));
    }
}
