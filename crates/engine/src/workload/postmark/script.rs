//! The actions of postmark, file by file, without performing them: the choices of the original, drawn in its
//! order.
//!
//! The pool is a table with room for twice the initial number of files; each action affects a file that is
//! drawn from the table until a place with a file is hit. So only size, number and directory of a file are
//! stored, and that is all the memory that a run needs: 12 bytes for each place in the table.

use super::twister::Twister;
use fsdyno_core::workload::Postmark;
use std::io::Write;

/// A place in the table; size 0 means free.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    size_bytes: u32,
    number: u32,
    directory: u32,
}

/// A file as it is before something is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct File {
    /// Its name: files are numbered from 1.
    pub(super) number: u32,
    pub(super) directory: Option<u32>,
    pub(super) size_bytes: u64,
}

/// An action on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Creates it with its size.
    Create,
    /// Reads all of it.
    Read,
    /// Appends this many bytes.
    Append(u64),
    Delete,
}

/// One action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) deed: Deed,
    pub(super) file: File,
}

/// The whole run, action by action.
#[derive(Debug, Clone)]
pub(super) struct Script {
    random: Twister,
    table: Box<[Slot]>,
    /// Where the next file goes, as long as that place is free.
    next: usize,
    /// There is no free place before this one.
    full_below: usize,
    /// The number of files created so far, and the number of those deleted.
    created: u32,
    deleted: u32,
    low: u32,
    high: u32,
    directories: u32,
    bias_read: i32,
    bias_create: i32,
}

impl Script {
    pub(super) fn new(parameters: &Postmark) -> Self {
        let (low, high) = (parameters.size.low.0 as u32, parameters.size.high.0 as u32);
        let mut random = Twister::new(parameters.seed);
        // The text that the original writes, in a buffer of twice the largest size: 95 printable characters.
        for _ in 0..2 * high {
            random.below(95);
        }
        Script {
            random,
            table: vec![Slot::default(); 2 * parameters.number as usize].into_boxed_slice(),
            next: 0,
            full_below: 0,
            created: 0,
            deleted: 0,
            low,
            high,
            directories: if parameters.subdirectories > 1 { parameters.subdirectories } else { 0 },
            bias_read: parameters.bias_read,
            bias_create: parameters.bias_create,
        }
    }

    /// A new file; `None` if the table is full.
    pub(super) fn create(&mut self) -> Option<Task> {
        let slot = self.free()?;
        let directory = self.random.below(self.directories);
        self.created += 1;
        let size_bytes = self.low + self.random.below(self.high - self.low);
        self.table[slot] = Slot { size_bytes, number: self.created, directory };
        Some(self.task(Deed::Create, slot))
    }

    /// The effect of one transaction on data and on names; `None` if no file is left.
    pub(super) fn transaction(&mut self) -> Option<[Option<Task>; 2]> {
        if self.created == self.deleted {
            return None;
        }
        let data = (self.bias_read != -1).then(|| {
            let reads = self.dice() < self.bias_read;
            let slot = self.used();
            if reads { Some(self.task(Deed::Read, slot)) } else { self.append(slot) }
        });
        let names = (self.bias_create != -1).then(|| {
            if self.dice() < self.bias_create {
                return self.create();
            }
            let slot = self.used();
            self.delete(slot)
        });
        Some([data.flatten(), names.flatten()])
    }

    /// The next of the remaining files, from this place in the table on; `place` moves past it.
    pub(super) fn delete_next(&mut self, place: &mut usize) -> Option<Task> {
        let found = self.table[*place..].iter().position(|slot| slot.size_bytes > 0)? + *place;
        *place = found + 1;
        self.delete(found)
    }

    fn dice(&mut self) -> i32 {
        self.random.below(10) as i32
    }

    /// The place that follows the last one taken, or else the first free one.
    fn free(&mut self) -> Option<usize> {
        let is_free = |slot: &Slot| slot.size_bytes == 0;
        let slot = if self.table.get(self.next).is_some_and(is_free) {
            self.next
        } else {
            let slot = self.full_below + self.table[self.full_below..].iter().position(is_free)?;
            self.full_below = slot + 1;
            slot
        };
        self.next = slot + 1;
        Some(slot)
    }

    fn used(&mut self) -> usize {
        loop {
            let slot = self.random.below(self.table.len() as u32) as usize;
            if self.table[slot].size_bytes > 0 {
                return slot;
            }
        }
    }

    /// A file of the largest size is left as it is, and the transaction does nothing to data.
    fn append(&mut self, slot: usize) -> Option<Task> {
        let room = self.high.checked_sub(self.table[slot].size_bytes).filter(|room| *room > 0)?;
        let bytes = self.random.below(room) + 1;
        let task = self.task(Deed::Append(bytes.into()), slot);
        self.table[slot].size_bytes += bytes;
        Some(task)
    }

    fn delete(&mut self, slot: usize) -> Option<Task> {
        let task = self.task(Deed::Delete, slot);
        self.table[slot].size_bytes = 0;
        self.full_below = self.full_below.min(slot);
        self.deleted += 1;
        Some(task)
    }

    fn task(&self, deed: Deed, slot: usize) -> Task {
        let Slot { size_bytes, number, directory } = self.table[slot];
        let directory = (self.directories > 0).then_some(directory);
        Task { deed, file: File { number, directory, size_bytes: size_bytes.into() } }
    }
}

impl File {
    /// Writes its name, with its end, as the original forms it: `17`, or `s3/17`.
    pub(super) fn name_into(self, mut buffer: &mut [u8]) {
        // The buffer has room for two numbers of ten digits.
        let _ = match self.directory {
            Some(directory) => write!(buffer, "s{directory}/{}\0", self.number),
            None => write!(buffer, "{}\0", self.number),
        };
    }
}

/// The totals of a run, or of a part of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) created: u64,
    pub(super) read: u64,
    pub(super) appended: u64,
    pub(super) deleted: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
}

impl Sum {
    pub(super) fn add(&mut self, task: Task) {
        match task.deed {
            Deed::Create => {
                self.created += 1;
                self.bytes_written += task.file.size_bytes;
            }
            Deed::Read => {
                self.read += 1;
                self.bytes_read += task.file.size_bytes;
            }
            Deed::Append(bytes) => {
                self.appended += 1;
                self.bytes_written += bytes;
            }
            Deed::Delete => self.deleted += 1,
        }
    }

    /// By their names in results.
    pub(super) fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("created", self.created),
            ("read", self.read),
            ("appended", self.appended),
            ("deleted", self.deleted),
            ("bytes read", self.bytes_read),
            ("bytes written", self.bytes_written),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;
    use fsdyno_core::workload::SizeRange;

    /// The whole run: its totals, the files that were deleted at the end, and whether it got that far.
    fn run(parameters: &Postmark) -> (Sum, u64, bool) {
        let mut script = Script::new(parameters);
        let (mut sum, mut complete) = (Sum::default(), true);
        (0..parameters.number).for_each(|_| sum.add(script.create().unwrap()));
        for _ in 0..parameters.transactions {
            match script.transaction() {
                Some(tasks) => tasks.into_iter().flatten().for_each(|task| sum.add(task)),
                None => {
                    complete = false;
                    break;
                }
            }
        }
        let (before, mut place) = (sum.deleted, 0);
        while let Some(task) = script.delete_next(&mut place) {
            sum.add(task);
        }
        (sum, sum.deleted - before, complete)
    }

    fn size(low: u64, high: u64) -> SizeRange {
        SizeRange { low: Bytes(low), high: Bytes(high) }
    }

    /// Checks the totals that the original counts. Its own sums of bytes lose digits; these do not.
    #[test]
    fn a_run_has_the_totals_of_the_original() {
        let p = |number, transactions| Postmark { number, transactions, ..Postmark::default() };
        let cases = [
            (p(500, 500), [764, 243, 257, 764, 1_430_770, 4_662_068], 528, true),
            (p(1000, 2000), [1981, 989, 1010, 1981, 6_073_504, 12_496_948], 962, true),
            (
                Postmark { subdirectories: 10, seed: 7, ..p(100, 3000) },
                [1641, 1498, 1496, 1641, 10_243_196, 11_147_773],
                182,
                true,
            ),
            (
                // The table is full after 50 more.
                Postmark { bias_read: 10, bias_create: 10, ..p(50, 400) },
                [100, 400, 0, 100, 2_341_334, 592_297],
                100,
                true,
            ),
            (
                Postmark { bias_read: -1, bias_create: 8, ..p(50, 400) },
                [180, 0, 0, 180, 0, 996_762],
                99,
                true,
            ),
            (
                Postmark { bias_read: 0, bias_create: -1, size: size(100, 5000), ..p(50, 400) },
                [50, 0, 314, 50, 0, 247_838],
                50,
                true,
            ),
            (
                // It runs out of files.
                Postmark { size: size(700, 700), ..p(5, 400) },
                [60, 68, 0, 60, 47_600, 42_000],
                0,
                false,
            ),
            (Postmark { bias_create: 0, ..p(20, 400) }, [20, 12, 8, 20, 66_438, 131_411], 0, false),
            (
                Postmark { bias_create: 7, seed: 2_147_483_647, ..p(30, 5000) },
                [1579, 2471, 2449, 1579, 18_094_009, 11_769_853],
                58,
                true,
            ),
        ];
        for (parameters, counts, alone, complete) in cases {
            let [created, read, appended, deleted, bytes_read, bytes_written] = counts;
            let expected = Sum { created, read, appended, deleted, bytes_read, bytes_written };
            assert_eq!(run(&parameters), (expected, alone, complete), "{parameters:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_original() {
        let name = |directory, number| {
            let mut buffer = [0; 24];
            File { number, directory, size_bytes: 1 }.name_into(&mut buffer);
            std::ffi::CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap().to_string()
        };
        assert_eq!(name(None, 1), "1");
        assert_eq!(name(Some(999_999), u32::MAX), "s999999/4294967295");
    }
}
