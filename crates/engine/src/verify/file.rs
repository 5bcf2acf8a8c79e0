//! One file: what its sectors are, and what they should be.

use crate::workload::durability::script::Script;
use crate::workload::durability::sector::{PromisedSector, SECTOR};
use fsdyno_core::durability::Promise;
use fsdyno_core::result::WrongInside;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The type is known before, but if it were a FIFO after all, opening it must not wait.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The object that a name refers to, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// There is none.
    Absent,
    /// A file with this many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// Something else, or the kernel does not say.
    Odd,
}

impl Name {
    /// Looks at a name without following links.
    pub(super) fn look(directory: &OwnedFd, name: &str) -> Name {
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Name::Absent,
            Err(_) => Name::Odd,
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Name::File(u64::try_from(found.st_size).unwrap_or(0)),
                FileType::Directory => Name::Directory,
                _ => Name::Odd,
            },
        }
    }

    pub(super) fn is_file(self) -> bool {
        matches!(self, Name::File(_))
    }
}

/// Reads files, one after the other.
pub(super) struct Reader {
    pub(super) script: Script,
    buffer: Vec<u8>,
    /// The sectors of the last file, as far as any worker has written them, and one more.
    pub(super) found: Vec<PromisedSector>,
}

impl Reader {
    pub(super) fn new(script: Script) -> Self {
        Reader { script, buffer: Vec::new(), found: Vec::new() }
    }

    /// Reads a file that has at most this many sectors, and one more. What cannot be read is missing.
    pub(super) fn read(
        &mut self,
        directory: &OwnedFd,
        name: &str,
        promise: Option<Promise>,
        file: u64,
        sectors: u64,
    ) -> Name {
        let looked = Name::look(directory, name);
        let limit = sectors as usize + 1;
        let length = if looked.is_file() { self.read_bytes(directory, name, limit * SECTOR) } else { 0 };
        self.found.clear();
        let (script, bytes) = (self.script, &self.buffer[..length]);
        let judged = (0..).zip(bytes.chunks(SECTOR));
        self.found.extend(judged.map(|(number, bytes)| script.place(promise, file, number).judge(bytes)));
        self.found.resize(limit, PromisedSector::Missing);
        looked
    }

    /// Fills the buffer with the beginning of a file; returns how many bytes.
    fn read_bytes(&mut self, directory: &OwnedFd, name: &str, limit: usize) -> usize {
        if self.buffer.len() < limit {
            self.buffer.resize(limit, 0);
        }
        let Ok(file) = rustix::fs::openat(directory, name, READ, Mode::empty()) else { return 0 };
        let mut length = 0;
        while length < limit {
            match rustix::io::pread(&file, &mut self.buffer[length..limit], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        length
    }
}

/// The sectors of a file by what is wrong with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sectors {
    /// Those that must be there.
    pub(super) needed: u64,
    /// Those of them that are not.
    pub(super) missing: u64,
    pub(super) zeros: u64,
    pub(super) garbage: u64,
    pub(super) old: u64,
    pub(super) foreign: u64,
}

impl Sectors {
    /// Counts a sector that must have at least generation `needed`, if anything, and at most `most`.
    pub(super) fn count(&mut self, found: PromisedSector, needed: Option<u64>, most: u64) {
        self.needed += u64::from(needed.is_some());
        match (found, needed) {
            (PromisedSector::Missing, Some(_)) => self.missing += 1,
            (PromisedSector::Zeros, Some(_)) => self.zeros += 1,
            (PromisedSector::Garbage, _) => self.garbage += 1,
            (PromisedSector::Foreign, _) => self.foreign += 1,
            // Nobody has written it yet.
            (PromisedSector::Written(generation), _) if generation > most => self.garbage += 1,
            (PromisedSector::Written(generation), Some(needed)) if generation < needed => self.old += 1,
            _ => {}
        }
    }

    /// Returns the number of sectors that are not as they should be.
    pub(super) fn bad(&self) -> u64 {
        self.missing + self.zeros + self.garbage + self.old + self.foreign
    }

    /// The file counts once for each kind.
    pub(super) fn wrong(&self) -> WrongInside {
        let once = |count: u64| u64::from(count > 0);
        WrongInside {
            zeros: once(self.zeros),
            garbage: once(self.garbage),
            old: once(self.old),
            foreign: once(self.foreign),
        }
    }
}
