//! The knowledge of a worker of a verified flow about the contents of files.
//!
//! It tracks its own files as a filesystem would: names, the file that each name leads to, and what that file
//! contains ([`Contents`]). Workers that share files also share what they know about them: the versions of
//! blocks ([`Blocks`]), or where files end ([`Ends`]). Each step is noted after its second timestamp.

use super::blocks::{Begun, BlockState, Blocks};
use super::contents::Contents;
use super::ends::{Ends, Reach};
use super::set::{File, Set};
use crate::compare::Comparer;
use crate::content::{Content, FileIdentity};
use crate::wrong::Problem;
use fsdyno_core::workload::flow::Written;
use fsdyno_core::{OwnedFile, Reached};
use std::sync::Arc;

/// A set and one of the worker's names of it.
pub(super) type SetName = [usize; 2];

/// No file.
const NONE: u32 = u32::MAX;

/// The common knowledge of the workers that share the files of a set.
#[derive(Debug)]
pub(super) enum SetKnowledge {
    /// Nothing: contents follow from the seed, or only their owner knows them.
    Nothing,
    Blocks(Blocks),
    Ends(Ends),
}

impl SetKnowledge {
    /// Of a set at the beginning of a flow.
    pub(super) fn of(set: &Set) -> Self {
        let first = |name| File { name, incarnation: 0 };
        match set.written {
            Some(Written::InBlocks(block)) => {
                SetKnowledge::Blocks(Blocks::new(block.0, set.files.count, set.files.size.largest()))
            }
            Some(Written::AtTheEnd) => {
                let names = 0..set.prefilled(0) as u32;
                SetKnowledge::Ends(Ends::new(names.map(|name| set.size(0, first(name)))))
            }
            _ => SetKnowledge::Nothing,
        }
    }
}

/// The knowledge about an open file.
#[derive(Debug, Clone, Copy)]
pub(super) enum FileKnowledge {
    /// Nothing is verified.
    Unknown,
    /// It is as it was made, with this size.
    Made(FileIdentity, u64),
    /// The number of a file of the worker's own.
    Own(u32),
    /// The set, which of its files, and its size.
    Blocks { set: usize, file: u64, identity: FileIdentity, size: u64 },
    /// The set and which of its files.
    End { set: usize, file: u64, identity: FileIdentity },
}

/// The knowledge of one worker.
pub(super) struct Knowledge {
    comparer: Comparer,
    shared: Arc<[SetKnowledge]>,
    /// Per set, which file each of the worker's names leads to; empty for a set that is not its own.
    names: Vec<Vec<u32>>,
    files: Vec<Contents>,
    /// The number of names and open files that lead to each file.
    links: Vec<u32>,
    /// Those that nothing leads to.
    free: Vec<u32>,
    /// The writes of blocks that are in flight, and the states of blocks before a read.
    begun: Vec<Begun>,
    before: Vec<BlockState>,
    reach: Option<Reach>,
}

impl Knowledge {
    /// Returns the knowledge of a worker at the beginning. The worker has at most `handles` files open;
    /// `uses` says whether its steps name a set.
    pub(super) fn new(
        sets: &[Set],
        shared: Arc<[SetKnowledge]>,
        worker: u64,
        handles: usize,
        comparer: Comparer,
        uses: impl Fn(&Set) -> bool,
    ) -> Self {
        let owned = |set: &Set| set.written == Some(Written::ByOwner) && uses(set);
        let counts = sets.iter().map(|set| if owned(set) { set.names(worker) as usize } else { 0 });
        let names: Vec<Vec<u32>> = counts.map(|count| vec![NONE; count]).collect();
        let most = names.iter().map(Vec::len).sum::<usize>() + handles;
        let mut known = Knowledge {
            comparer,
            shared,
            names,
            files: Vec::with_capacity(most),
            links: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            begun: Vec::new(),
            before: Vec::new(),
            reach: None,
        };
        for (index, set) in sets.iter().enumerate().filter(|(_, set)| owned(set)) {
            for name in 0..set.prefilled(worker) as u32 {
                known.names[index][name as usize] = known.files.len() as u32;
                known.files.push(made(set, worker, name));
                known.links.push(1);
            }
        }
        known
    }

    /// Notes that a file was opened by its name, and returns the knowledge about it.
    pub(super) fn opened(
        &mut self,
        [set, name]: SetName,
        of: &Set,
        worker: u64,
        file: File,
    ) -> FileKnowledge {
        let identity = || of.identity(worker, file);
        match of.written {
            None => FileKnowledge::Unknown,
            Some(Written::Never) => FileKnowledge::Made(identity(), of.size(worker, file)),
            Some(Written::ByOwner) => {
                let own = self.names[set][name];
                self.links[own as usize] += 1;
                FileKnowledge::Own(own)
            }
            Some(Written::InBlocks(_)) => {
                let (number, size) = (of.position(worker, file.name), of.size(worker, file));
                FileKnowledge::Blocks { set, file: number, identity: identity(), size }
            }
            Some(Written::AtTheEnd) => {
                FileKnowledge::End { set, file: of.position(worker, file.name), identity: identity() }
            }
        }
    }

    /// A name leads to a new file.
    pub(super) fn created(&mut self, [set, name]: SetName, identity: FileIdentity) {
        let own = match self.free.pop() {
            Some(own) => {
                self.files[own as usize].reuse(identity);
                self.links[own as usize] = 1;
                own
            }
            None => {
                self.files.push(Contents::made(identity, 0));
                self.links.push(1);
                self.files.len() as u32 - 1
            }
        };
        self.names[set][name] = own;
    }

    /// An open file was closed.
    pub(super) fn closed(&mut self, kept: FileKnowledge) {
        if let FileKnowledge::Own(own) = kept {
            self.released(own);
        }
    }

    /// A name was removed.
    pub(super) fn unlinked(&mut self, [set, name]: SetName) {
        let own = std::mem::replace(&mut self.names[set][name], NONE);
        self.released(own);
    }

    /// A name leads to where another one led.
    pub(super) fn renamed(&mut self, [set, name]: SetName, [to, target]: SetName) {
        let own = std::mem::replace(&mut self.names[set][name], NONE);
        let before = std::mem::replace(&mut self.names[to][target], own);
        self.released(before);
    }

    /// A second name leads to the file of the first.
    pub(super) fn linked(&mut self, [set, name]: SetName, [to, target]: SetName) {
        let own = self.names[set][name];
        self.links[own as usize] += 1;
        self.names[to][target] = own;
    }

    fn released(&mut self, own: u32) {
        let Some(links) = self.links.get_mut(own as usize) else { return };
        *links -= 1;
        if *links == 0 {
            self.free.push(own);
        }
    }

    /// Returns the size of a file of the worker's own.
    pub(super) fn size(&self, kept: FileKnowledge) -> Option<u64> {
        match kept {
            FileKnowledge::Own(own) => Some(self.files[own as usize].size()),
            _ => None,
        }
    }

    /// Returns the number of bytes of a file of the worker's own that come after a position.
    pub(super) fn room(&self, kept: FileKnowledge, position: u64) -> u64 {
        self.size(kept).map_or(u64::MAX, |size| size.saturating_sub(position))
    }

    /// The version that a step writes from a position on.
    pub(super) fn version(&mut self, kept: FileKnowledge, position: u64) -> u32 {
        match kept {
            FileKnowledge::Own(own) => self.files[own as usize].next_version(position),
            _ => 0,
        }
    }

    /// A write begins; returns what it has to write.
    #[inline]
    pub(super) fn begin<'c>(
        &mut self,
        kept: FileKnowledge,
        content: &'c mut Content,
        version: u32,
        position: u64,
        length: usize,
    ) -> &'c [u8] {
        let file = match kept {
            FileKnowledge::Unknown => return &[],
            FileKnowledge::Made(file, _) => file,
            FileKnowledge::Own(own) => self.files[own as usize].file(),
            FileKnowledge::Blocks { set, file, identity, .. } => {
                let SetKnowledge::Blocks(blocks) = &self.shared[set] else { return &[] };
                let first = blocks.number(file, position);
                let numbers = first..first + length / blocks.block as usize;
                self.begun.clear();
                self.begun.extend(numbers.map(|block| blocks.begin(block)));
                let versions = self.begun.iter().map(|begun| begun.version);
                return content.blocks(identity, position, blocks.block as usize, versions);
            }
            FileKnowledge::End { set, file, identity } => {
                if let SetKnowledge::Ends(ends) = &self.shared[set] {
                    ends.begin(file, position + length as u64);
                }
                identity
            }
        };
        content.bytes(file.version(version), position, length)
    }

    /// It has ended; so many bytes were written.
    #[inline]
    pub(super) fn wrote(&mut self, kept: FileKnowledge, version: u32, position: u64, written: u64) {
        match kept {
            FileKnowledge::Unknown | FileKnowledge::Made(..) => {}
            FileKnowledge::Own(own) => self.files[own as usize].wrote(position, written, version),
            FileKnowledge::Blocks { set, file, .. } => {
                let SetKnowledge::Blocks(blocks) = &self.shared[set] else { return };
                let (first, whole) = (blocks.number(file, position), (written / blocks.block) as usize);
                for (number, begun) in self.begun.drain(..).enumerate() {
                    blocks.end(first + number, begun, number < whole);
                }
            }
            FileKnowledge::End { set, file, .. } => {
                if let SetKnowledge::Ends(ends) = &self.shared[set] {
                    ends.end(file, position + written);
                }
            }
        }
    }

    /// A file is about to be emptied by one of many.
    pub(super) fn empties(&mut self, kept: FileKnowledge) {
        if let FileKnowledge::End { set, file, .. } = kept
            && let SetKnowledge::Ends(ends) = &self.shared[set]
        {
            ends.empty(file);
        }
    }

    /// The size of a file was set.
    pub(super) fn resized(&mut self, kept: FileKnowledge, size: u64) {
        if let FileKnowledge::Own(own) = kept {
            self.files[own as usize].resize(size);
        }
    }

    /// A file has at least this size.
    pub(super) fn extended(&mut self, kept: FileKnowledge, size: u64) {
        if let FileKnowledge::Own(own) = kept {
            self.files[own as usize].extend(size);
        }
    }

    /// A part of a file was copied to the same position of another one.
    pub(super) fn copied(&mut self, [from, to]: [FileKnowledge; 2], position: u64, length: u64) {
        let FileKnowledge::Own(to) = to else { return };
        match from {
            FileKnowledge::Made(file, size) => {
                self.files[to as usize].copied(position, length, &Contents::made(file, size));
            }
            FileKnowledge::Own(from) => {
                if let Ok([source, target]) = self.files.get_disjoint_mut([from as usize, to as usize]) {
                    target.copied(position, length, source);
                }
            }
            _ => {}
        }
    }

    /// A read of a length begins.
    #[inline]
    pub(super) fn look(&mut self, kept: FileKnowledge, position: u64, length: usize) {
        match kept {
            FileKnowledge::Unknown | FileKnowledge::Made(..) | FileKnowledge::Own(_) => {}
            FileKnowledge::Blocks { set, file, size, .. } => {
                let SetKnowledge::Blocks(blocks) = &self.shared[set] else { return };
                let end = (position + length as u64).min(size);
                self.before.clear();
                if position < end {
                    let numbers = blocks.number(file, position)..=blocks.number(file, end - 1);
                    self.before.extend(numbers.map(|block| blocks.state(block)));
                }
            }
            FileKnowledge::End { set, file, .. } => {
                if let SetKnowledge::Ends(ends) = &self.shared[set] {
                    self.reach = Some(ends.reach(file));
                }
            }
        }
    }

    /// Compares what it returned.
    ///
    /// # Errors
    /// The problem with the data read.
    #[inline]
    pub(super) fn check(
        &mut self,
        kept: FileKnowledge,
        position: u64,
        length: usize,
        found: &[u8],
    ) -> Result<(), Problem> {
        let whole = |size: u64| {
            let wanted = size.saturating_sub(position).min(length as u64);
            match found.len() as u64 == wanted {
                true => Ok(()),
                false => Err(Problem::Size { expected: size, found: position + found.len() as u64 }),
            }
        };
        match kept {
            FileKnowledge::Unknown => Ok(()),
            FileKnowledge::Made(file, size) => {
                whole(size)?;
                self.comparer.check(file, 0, position, found)
            }
            FileKnowledge::Own(own) => {
                let contents = &self.files[own as usize];
                whole(contents.size())?;
                contents.check(&mut self.comparer, position, found)
            }
            FileKnowledge::Blocks { set, file, identity, size } => {
                whole(size)?;
                let SetKnowledge::Blocks(blocks) = &self.shared[set] else { return Ok(()) };
                let before = self.before.iter().copied();
                blocks.check(&mut self.comparer, (identity, file), position, found, before)
            }
            FileKnowledge::End { set, file, identity } => {
                let SetKnowledge::Ends(ends) = &self.shared[set] else { return Ok(()) };
                let now = ends.reach(file);
                let before = self.reach.take().unwrap_or(now);
                now.check(before, &mut self.comparer, identity, (position, length), found)
            }
        }
    }

    /// Returns the final state of the worker's own files, if they belong to the sample.
    pub(super) fn summary(&self, sets: &[Set], worker: u64, sample: Sample) -> Vec<Reached> {
        let of_set = |(set, names): (&Set, &Vec<u32>)| {
            let mut room = MOST_PARTS / set.sharers;
            let prefilled = set.prefilled(worker) as u32;
            let (mut files, mut gone) = (Vec::new(), Vec::new());
            for (name, own) in (0_u32..).zip(names).filter(|(name, _)| sample.has(set, worker, *name)) {
                let was_made = name < prefilled;
                match self.files.get(*own as usize) {
                    None if was_made => gone.push(name),
                    None => {}
                    Some(contents) => {
                        let parts = contents.parts();
                        if !was_made || parts != made(set, worker, name).parts() {
                            let parts = Some(parts).filter(|parts| {
                                room = room.saturating_sub(parts.len() as u64);
                                room > 0
                            });
                            files.push(OwnedFile { name, parts });
                        }
                    }
                }
            }
            Reached::Owned { set: set.files.name.clone(), worker, files, gone }
        };
        sets.iter().zip(&self.names).filter(|(_, names)| !names.is_empty()).map(of_set).collect()
    }
}

/// A file as it is made before the load.
pub(super) fn made(set: &Set, worker: u64, name: u32) -> Contents {
    let file = File { name, incarnation: 0 };
    Contents::made(set.identity(worker, file), set.size(worker, file))
}

/// The most parts of files of a set that another process learns of.
const MOST_PARTS: u64 = 300_000;

/// The word that the sample derives from.
const SAMPLE: u64 = 12;

/// Which of the files with an owner are remembered and read again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// A file belongs to it if a number that follows from its name is not greater.
    below: u64,
}

impl Sample {
    /// The most files in the sample: the report about them to another process must fit into a message, which
    /// has at most 32 MiB.
    const MOST: u64 = 200_000;

    /// Of the files of these sets.
    pub(super) fn of(sets: &[Set]) -> Self {
        let owned = sets.iter().filter(|set| set.written == Some(Written::ByOwner));
        let all: u64 = owned.map(|set| set.files.count).sum();
        let share = Self::MOST as f64 / all.max(1) as f64;
        Sample { below: (share * u64::MAX as f64) as u64 }
    }

    pub(super) fn has(self, set: &Set, worker: u64, name: u32) -> bool {
        let draw = || set.derive(&[SAMPLE, set.position(worker, name)]);
        self.below == u64::MAX || draw() <= self.below
    }
}
