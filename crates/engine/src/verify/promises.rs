//! One kind of promise: which of them were kept.

use super::file::{Name, Reader, Sectors};
use super::notes::Notes;
use super::record::Counts;
use crate::workload::durability::script::{self, Write};
use crate::workload::durability::sector::{PromisedSector, SECTOR};
use fsdyno_core::durability::Promise;
use fsdyno_core::result::WrongInside;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// A look at the directory of one promise.
pub(super) struct PromiseLook<'r> {
    pub(super) promise: Promise,
    pub(super) counts: Counts,
    pub(super) reader: &'r mut Reader,
    pub(super) notes: &'r mut Notes,
    /// The generation that each sector of a file must have.
    needed: Vec<Option<u64>>,
    /// Numbers of promises that were not kept, some of them repeatedly.
    pub(super) lost: Vec<u64>,
    pub(super) wrong: WrongInside,
}

impl<'r> PromiseLook<'r> {
    pub(super) fn new(
        promise: Promise,
        counts: Counts,
        reader: &'r mut Reader,
        notes: &'r mut Notes,
    ) -> Self {
        PromiseLook {
            promise,
            counts,
            reader,
            notes,
            needed: Vec::new(),
            lost: Vec::new(),
            wrong: WrongInside::default(),
        }
    }

    /// The numbers of promises that were not kept, and what is wrong.
    pub(super) fn found(self) -> (Vec<u64>, WrongInside) {
        (self.lost, self.wrong)
    }

    /// The directory is not there, or cannot be opened: nothing was kept, not even that a file is gone.
    pub(super) fn at_nothing(&mut self, errno: Errno) {
        let (promise, acknowledged) = (self.promise.name(), self.counts.acknowledged);
        self.lost.extend(0..acknowledged);
        if acknowledged > 0 {
            self.notes.add(|| match errno {
                Errno::NOENT => format!("{promise}: the directory is missing"),
                _ => format!("{promise}: the directory cannot be opened: {errno}"),
            });
        }
    }

    /// The directory is there.
    pub(super) fn at(&mut self, directory: &OwnedFd) {
        match self.promise {
            Promise::Link | Promise::Rename | Promise::Unlink => self.names(directory),
            Promise::Replace | Promise::ReplaceUnsynced => self.versions(directory),
            _ => self.contents(directory),
        }
    }

    /// Promises about what is in files.
    fn contents(&mut self, directory: &OwnedFd) {
        let (promise, script) = (self.promise, self.reader.script);
        let mut files: BTreeMap<u64, Vec<(u64, Write)>> = BTreeMap::new();
        for file in 0..script.prepared(promise) {
            files.entry(file).or_default();
        }
        for number in 0..self.counts.begun {
            for write in script.writes(promise, number) {
                files.entry(write.file).or_default().push((number, write));
            }
        }
        for (file, writes) in files {
            let prepared = (file < script.prepared(promise)).then(|| script.prepared_file(promise, file));
            let ends = writes.iter().map(|(_, write)| write).chain(&prepared).map(|write| write.sectors.end);
            let length = ends.max().unwrap_or(0);
            self.content(directory, &script::name(file), file, length, &writes);
        }
    }

    /// A file that these promises have written to, each with its number; returns what its name is.
    pub(super) fn content(
        &mut self,
        directory: &OwnedFd,
        name: &str,
        file: u64,
        length: u64,
        writes: &[(u64, Write)],
    ) -> Name {
        let looked = self.reader.read(directory, name, Some(self.promise), file, length);
        let found = &self.reader.found;
        let most = writes.iter().map(|(_, write)| write.generation).max().unwrap_or(0);
        let acknowledged = self.counts.acknowledged;
        let kept = writes.iter().filter(|(number, _)| *number < acknowledged);
        self.needed.clear();
        self.needed.resize(found.len(), None);
        for (number, Write { sectors, generation, .. }) in kept {
            let sectors = sectors.start as usize..sectors.end as usize;
            let holds = |found: &PromisedSector| matches!(found, PromisedSector::Written(of) if (*generation..=most).contains(of));
            if !found[sectors.clone()].iter().all(holds) {
                self.lost.push(*number);
            }
            self.needed[sectors].iter_mut().for_each(|needed| *needed = (*needed).max(Some(*generation)));
        }
        let mut sectors = Sectors::default();
        for (found, needed) in found.iter().zip(&self.needed) {
            sectors.count(*found, *needed, most);
        }
        let is_settled = !writes.is_empty() && writes.iter().all(|(number, _)| *number < acknowledged);
        if is_settled && found.last() == Some(&PromisedSector::Zeros) {
            // Longer than anybody has made it.
            sectors.zeros += 1;
        }
        self.add(name, &sectors);
        looked
    }

    /// Adds what is wrong with a file.
    pub(super) fn add(&mut self, name: &str, sectors: &Sectors) {
        self.wrong = self.wrong.plus(&sectors.wrong());
        let promise = self.promise.name();
        self.notes.add_sectors(|| format!("{promise}/{name}"), sectors);
    }

    /// Files of which each promise replaces the whole.
    fn versions(&mut self, directory: &OwnedFd) {
        let script = self.reader.script;
        let files = script.prepared(self.promise);
        let mut begun: BTreeMap<u64, Vec<u64>> = (0..files).map(|file| (file, vec![0])).collect();
        for number in 0..self.counts.begun {
            for write in script.writes(self.promise, number) {
                begun.entry(write.file).or_default().push(write.generation);
            }
        }
        for (file, begun) in begun {
            let length = begun.iter().map(|generation| self.length(file, *generation)).max().unwrap_or(0);
            self.version(directory, file, &begun, length);
            // A new version that has not replaced the old one.
            let new = script::second_name(self.promise, file);
            if Name::look(directory, &new) != Name::Absent {
                self.unclaimed(directory, &new, file, length, begun.last().copied().unwrap_or(0));
            }
        }
    }

    fn length(&self, file: u64, generation: u64) -> u64 {
        self.reader.script.version(self.promise, file, generation).sectors.end
    }

    /// A file that must be one of these generations as a whole: if they were synced, at least the last one
    /// that was acknowledged; otherwise any.
    fn version(&mut self, directory: &OwnedFd, file: u64, begun: &[u64], longest: u64) {
        let name = script::name(file);
        let (is_synced, most) = (self.promise == Promise::Replace, begun.last().copied().unwrap_or(0));
        self.reader.read(directory, &name, Some(self.promise), file, longest);
        let is_acknowledged = |generation: &u64| (1..=self.counts.acknowledged).contains(generation);
        let acknowledged: Vec<u64> = begun.iter().copied().filter(is_acknowledged).collect();
        let last = acknowledged.last().copied();
        let written = |found: &PromisedSector| match found {
            PromisedSector::Written(generation) if begun.contains(generation) => Some(*generation),
            _ => None,
        };
        // If nothing in it says which one it is, it should be the last.
        let version = self.reader.found.iter().find_map(written).unwrap_or(last.unwrap_or(most));
        let must_be_whole = last.is_some() || (!is_synced && most > 0);
        let mut sectors = self.sectors_of(file, version, must_be_whole, most);
        let is_whole = sectors.bad() == 0;
        let is_kept = |generation: u64| is_whole && (!is_synced || version >= generation);
        // Nothing was promised of the versions before the last one, unless they were synced.
        let first = if is_synced { 0 } else { acknowledged.len().saturating_sub(1) };
        let lost = acknowledged[first..].iter().filter(|generation| !is_kept(**generation));
        self.lost.extend(lost.map(|generation| generation - 1));
        if is_synced && last.is_some_and(|last| version < last) {
            sectors.old = sectors.old.max(sectors.needed);
        }
        self.add(&name, &sectors);
    }

    /// The sectors of a file that is this version, or should be.
    fn sectors_of(&self, file: u64, version: u64, must_be_whole: bool, most: u64) -> Sectors {
        let length = self.length(file, version) as usize;
        let mut sectors = Sectors::default();
        for (number, found) in self.reader.found.iter().enumerate() {
            let needed = (must_be_whole && number < length).then_some(version);
            match *found {
                // Part of another version, or behind the end of this one.
                PromisedSector::Written(other)
                    if must_be_whole && other <= most && (other != version || number >= length) =>
                {
                    sectors.needed += u64::from(needed.is_some());
                    sectors.old += 1;
                }
                PromisedSector::Zeros if must_be_whole && number >= length => sectors.zeros += 1,
                found => sectors.count(found, needed, most),
            }
        }
        sectors
    }

    /// A file that may or may not exist, and whose content nobody relies on. Only what no worker has written
    /// there is wrong.
    pub(super) fn unclaimed(
        &mut self,
        directory: &OwnedFd,
        name: &str,
        file: u64,
        length: u64,
        most: u64,
    ) -> Name {
        let looked = self.reader.read(directory, name, Some(self.promise), file, length);
        let mut sectors = Sectors::default();
        self.reader.found.iter().for_each(|found| sectors.count(*found, None, most));
        self.add(name, &sectors);
        looked
    }

    /// Returns whether a file is at least as long as the data written to it.
    pub(super) fn is_long_enough(name: Name, length: u64) -> bool {
        matches!(name, Name::File(bytes) if bytes >= length * SECTOR as u64)
    }
}
