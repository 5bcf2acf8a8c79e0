//! Promises about names of files that were synced before.

use super::file::Name;
use super::promises::PromiseLook;
use crate::workload::durability::script::{self, Write};
use fsdyno_core::durability::Promise;
use rustix::fd::OwnedFd;

impl PromiseLook<'_> {
    /// A file for each promise: linked, renamed or removed.
    pub(super) fn names(&mut self, directory: &OwnedFd) {
        let script = self.reader.script;
        for number in 0..self.counts.begun {
            for write in script.writes(self.promise, number) {
                let is_acknowledged = number < self.counts.acknowledged;
                match self.promise {
                    Promise::Unlink => self.removed(directory, number, &write, is_acknowledged),
                    _ => self.named(directory, number, write, is_acknowledged),
                }
            }
        }
    }

    /// A file that has a second name, or that has it instead of its first one.
    fn named(&mut self, directory: &OwnedFd, number: u64, write: Write, is_acknowledged: bool) {
        let (file, length) = (write.file, write.sectors.end);
        let (first, second) = (script::name(file), script::second_name(self.promise, file));
        let looked = self.content(directory, &second, file, length, &[(number, write)]);
        if !looked.is_file() {
            self.unclaimed(directory, &first, file, length, 0);
        }
        if !is_acknowledged {
            return;
        }
        let looked = Name::look(directory, &first);
        let (is_kept, problem) = match self.promise {
            Promise::Link => {
                (Self::is_long_enough(looked, length), "the first name is missing, or the file is short")
            }
            _ => (looked == Name::Absent, "the old name still exists"),
        };
        if !is_kept {
            self.lose(number, &first, problem);
        }
    }

    /// A file that is gone, or may be.
    fn removed(&mut self, directory: &OwnedFd, number: u64, write: &Write, is_acknowledged: bool) {
        let name = script::name(write.file);
        let looked = self.unclaimed(directory, &name, write.file, write.sectors.end, 0);
        if is_acknowledged && looked != Name::Absent {
            self.lose(number, &name, "the removed file still exists");
        }
    }

    fn lose(&mut self, number: u64, name: &str, problem: &str) {
        self.lost.push(number);
        let promise = self.promise.name();
        self.notes.add(|| format!("{promise}/{name}: {problem}"));
    }
}
