//! The large file: written and read one byte per call, in chunks, and at random positions.
//!
//! The item is a chunk, even if its bytes are moved one at a time, or a seek, because the original reports
//! latencies of their total time. A chunk that is rewritten counts its bytes once, as in the original.

use super::rewritten::Rewritten;
use super::{close, failure, job, open_base, phase, read_all, write_all};
use crate::compare::Comparer;
use crate::content::{AlignedBuffer, Content, FileIdentity};
use crate::error::OperationFailure;
use crate::meter::{Halt, Meter, Object, timed};
use crate::phase::{Job, PhaseLoad};
use crate::plant::{CREATE, FILE_MODE};
use crate::tree::derive_seed;
use crate::wrong::{Problem, SectorVerdict};
use fsdyno_core::workload::bonnie::large::{CLOSE, FSYNC, LSEEK, READ, WRITE};
use fsdyno_core::workload::bonnie::{READ_BLOCK, READ_CHAR, REWRITE, SEEKS, WRITE_BLOCK, WRITE_CHAR};
use fsdyno_core::workload::{self, Bonnie, PhaseSpec};
use fsdyno_core::{Bytes, Operation};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Its name.
pub(super) const NAME: &CStr = c"large";
pub(super) const FILE: Object<'_> = Object { directory: b"", name: NAME };

/// The words that seeds are derived from, in addition to the seed of the trial.
const WRITTEN: u64 = 10;
const SOUGHT: u64 = 11;

/// The large file and what is done to it.
#[derive(Debug, Clone)]
pub(super) struct Large {
    base: PathBuf,
    seed: u64,
    chunk: usize,
    chunks: u64,
    char_chunks: u64,
    seekers: u32,
    seeks: u64,
    rewrite_share: f64,
    fsync: bool,
    content: workload::Content,
    verify: bool,
}

/// Checks chunks of the file, each of which has one byte that is not as it was written first.
struct Checker {
    comparer: Comparer,
    file: FileIdentity,
}

impl Checker {
    /// Checks a chunk to whose byte something was added once it had been written; any of `added` will do.
    fn check(
        &mut self,
        number: u64,
        bytes: &mut [u8],
        added: impl Iterator<Item = u8> + Clone,
    ) -> Result<(), Halt> {
        let (chunk, dirty) = (bytes.len() as u64, dirty_byte(number, bytes.len()));
        let read = bytes[dirty];
        let mut problem = None;
        for added in added {
            bytes[dirty] = read.wrapping_sub(added);
            match self.comparer.check(self.file, 0, number * chunk, bytes) {
                Ok(()) => return Ok(()),
                Err(found) => problem = problem.or(Some(found)),
            }
        }
        bytes[dirty] = read;
        let as_read = self.comparer.check(self.file, 0, number * chunk, bytes).err();
        match (problem, as_read) {
            // Another sector is there, of which a byte had been changed before it was judged.
            (
                Some(Problem::Sector { number, found: SectorVerdict::Garbage { .. }, .. }),
                Some(other @ Problem::Sector { number: same, found, .. }),
            ) if number == same && !matches!(found, SectorVerdict::Garbage { .. }) => Err(FILE.wrong(other)),
            (problem, as_read) => problem.or(as_read).map_or(Ok(()), |problem| Err(FILE.wrong(problem))),
        }
    }
}

/// The byte of a chunk that changes when the chunk is written back.
fn dirty_byte(number: u64, chunk: usize) -> usize {
    (number % chunk as u64) as usize
}

/// The initial state of the file in a phase.
#[derive(Debug, Clone, Copy)]
enum Opening {
    /// Created; an existing one is removed first.
    Anew,
    /// As the previous phase left it.
    AsItIs,
}

impl Large {
    pub(super) fn new(parameters: &Bonnie, size: Bytes, base: &Path, seed: u64) -> Self {
        let chunk = parameters.chunk.0;
        Large {
            base: base.to_path_buf(),
            seed,
            chunk: chunk as usize,
            chunks: size.0 / chunk,
            char_chunks: parameters.char_size_of(size).0 / chunk,
            seekers: parameters.seekers,
            seeks: parameters.seeks,
            rewrite_share: parameters.rewrite_share,
            fsync: parameters.fsync,
            content: parameters.content,
            verify: parameters.verify,
        }
    }

    /// The size that a reader must find.
    fn verified_size(&self) -> Option<u64> {
        self.verify.then_some(self.chunks * self.chunk as u64)
    }

    fn checker(&self) -> Option<Checker> {
        let comparer = || Comparer::new(self.content, self.seed, self.chunk);
        self.verify.then(|| Checker { comparer: comparer(), file: self.identity() })
    }

    /// The phases in their order.
    pub(super) fn phases(&self) -> Vec<PhaseLoad> {
        let characters = self.char_chunks * self.chunk as u64;
        let alone = |test: PhaseSpec, operations: u64, job: Job| phase(test, operations, vec![job]);
        let mut phases = vec![
            alone(WRITE_BLOCK, self.chunks, self.write_blocks()),
            alone(REWRITE, 3 * self.chunks, self.rewrite()),
            alone(READ_BLOCK, self.chunks, self.read_blocks()),
            self.seek(),
        ];
        if characters > 0 {
            phases.insert(2, alone(READ_CHAR, characters, self.read_bytes()));
            phases.insert(0, alone(WRITE_CHAR, characters, self.write_bytes()));
        }
        phases
    }

    fn write_bytes(&self) -> Job {
        let (chunk, chunks, file) = (self.chunk, self.char_chunks, self.identity());
        let mut content = Content::new(self.content, self.seed, chunk);
        self.on_the_file(Opening::Anew, move |meter, descriptor, _| {
            for number in 0..chunks {
                let bytes = content.bytes(file, number * chunk as u64, chunk);
                let begin = meter.begin_item();
                for byte in bytes.chunks_exact(1) {
                    write_all(meter, WRITE, FILE, descriptor, byte)?;
                }
                meter.item_since(begin);
            }
            Ok(())
        })
    }

    fn write_blocks(&self) -> Job {
        let (chunk, chunks, file) = (self.chunk, self.chunks, self.identity());
        let mut content = Content::new(self.content, self.seed, chunk);
        self.on_the_file(Opening::Anew, move |meter, descriptor, _| {
            for number in 0..chunks {
                let bytes = content.bytes(file, number * chunk as u64, chunk);
                let begin = meter.begin_item();
                write_all(meter, WRITE, FILE, descriptor, bytes)?;
                meter.item_since(begin);
            }
            Ok(())
        })
    }

    fn rewrite(&self) -> Job {
        let (mut buffer, chunks) = (AlignedBuffer::new(self.chunk), self.chunks);
        let size = self.verified_size();
        self.on_the_file(Opening::AsItIs, move |meter, descriptor, checker| {
            let bytes = buffer.as_mut_slice();
            let back = SeekFrom::Current(-(bytes.len() as i64));
            for number in 0..chunks {
                let dirty = dirty_byte(number, bytes.len());
                let begin = meter.begin_item();
                read_all(meter, READ, FILE, descriptor, bytes, |_| 0, size)?;
                bytes[dirty] = bytes[dirty].wrapping_add(1);
                timed(meter, LSEEK, FILE, |_| 0, || rustix::fs::seek(descriptor, back))?;
                write_all(meter, WRITE, FILE, descriptor, bytes)?;
                meter.item_since(begin);
                if let Some(checker) = checker {
                    checker.check(number, bytes, [1].into_iter())?;
                }
            }
            Ok(())
        })
    }

    fn read_bytes(&self) -> Job {
        let (mut buffer, chunks) = (AlignedBuffer::new(self.chunk), self.char_chunks);
        let size = self.verified_size();
        self.on_the_file(Opening::AsItIs, move |meter, descriptor, checker| {
            let bytes = buffer.as_mut_slice();
            for number in 0..chunks {
                let begin = meter.begin_item();
                for byte in bytes.chunks_exact_mut(1) {
                    read_all(meter, READ, FILE, descriptor, byte, |read| *read as u64, size)?;
                }
                meter.item_since(begin);
                if let Some(checker) = checker {
                    checker.check(number, bytes, [1].into_iter())?;
                }
            }
            Ok(())
        })
    }

    fn read_blocks(&self) -> Job {
        let (mut buffer, chunks) = (AlignedBuffer::new(self.chunk), self.chunks);
        let size = self.verified_size();
        self.on_the_file(Opening::AsItIs, move |meter, descriptor, checker| {
            for number in 0..chunks {
                let begin = meter.begin_item();
                let bytes = buffer.as_mut_slice();
                read_all(meter, READ, FILE, descriptor, bytes, |read| *read as u64, size)?;
                meter.item_since(begin);
                if let Some(checker) = checker {
                    checker.check(number, bytes, [1].into_iter())?;
                }
            }
            Ok(())
        })
    }

    /// The seekers, who take one seek after the other from a common counter.
    fn seek(&self) -> PhaseLoad {
        let next = Arc::new(AtomicU64::new(0));
        let rewritten = Arc::new(Rewritten::default());
        let jobs =
            (0..self.seekers).map(|_| self.seeker(Arc::clone(&next), Arc::clone(&rewritten))).collect();
        // Some seeks write, and then there are two more operations.
        let operations = self.seeks as f64 * (2.0 + 2.0 * self.rewrite_share);
        phase(SEEKS, operations as u64, jobs)
    }

    fn seeker(&self, next: Arc<AtomicU64>, rewritten: Arc<Rewritten>) -> Job {
        let mut buffer = AlignedBuffer::new(self.chunk);
        let large = self.clone();
        self.on_the_file(Opening::AsItIs, move |meter, descriptor, checker| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= large.seeks {
                    return Ok(());
                }
                let goal = large.goal(number);
                let bytes = buffer.as_mut_slice();
                let Some(checker) = checker else {
                    large.one_seek(meter, descriptor, bytes, goal, || ())?;
                    continue;
                };
                if goal.rewrites {
                    rewritten.begin(goal.chunk);
                }
                let own = u8::from(goal.rewrites);
                let least = rewritten.at_least(goal.chunk);
                let mut taken = least..=least;
                large.one_seek(meter, descriptor, bytes, goal, || {
                    taken = least..=rewritten.at_most(goal.chunk) - u64::from(own);
                })?;
                if goal.rewrites {
                    rewritten.end(goal.chunk);
                }
                // More than all values of a byte are as good as all.
                let added = taken.take(256).map(|taken| 1_u8.wrapping_sub(taken as u8).wrapping_sub(own));
                checker.check(goal.chunk, bytes, added)?;
            }
        })
    }

    fn one_seek(
        &self,
        meter: &mut Meter,
        descriptor: &OwnedFd,
        bytes: &mut [u8],
        Goal { chunk, rewrites }: Goal,
        has_read: impl FnOnce(),
    ) -> Result<(), Halt> {
        let place = SeekFrom::Start(chunk * self.chunk as u64);
        let begin = meter.begin_item();
        timed(meter, LSEEK, FILE, |_| 0, || rustix::fs::seek(descriptor, place))?;
        read_all(meter, READ, FILE, descriptor, bytes, |read| *read as u64, self.verified_size())?;
        has_read();
        if rewrites {
            let dirty = dirty_byte(chunk, bytes.len());
            bytes[dirty] = bytes[dirty].wrapping_sub(1);
            timed(meter, LSEEK, FILE, |_| 0, || rustix::fs::seek(descriptor, place))?;
            write_all(meter, WRITE, FILE, descriptor, bytes)?;
            if self.fsync {
                timed(meter, FSYNC, FILE, |()| 0, || rustix::fs::fsync(descriptor))?;
            }
        }
        meter.item_since(begin);
        Ok(())
    }

    /// Where a seek goes: all chunks are equally likely.
    fn goal(&self, number: u64) -> Goal {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(derive_seed(self.seed, &[SOUGHT, number]));
        let chunk = random.random_range(0..self.chunks);
        Goal { chunk, rewrites: random.random_bool(self.rewrite_share) }
    }

    /// A worker that opens the file, works on it, and syncs and closes it before it ends. The original counts
    /// that time as well, so that not all of the work is left to the page cache.
    fn on_the_file(
        &self,
        opening: Opening,
        mut work: impl FnMut(&mut Meter, &OwnedFd, &mut Option<Checker>) -> Result<(), Halt> + Send + 'static,
    ) -> Job {
        let large = self.clone();
        job(
            move || {
                // Each has a pool of data to compare with, and there may be many seekers: only those of this
                // phase exist.
                let checker = if matches!(opening, Opening::AsItIs) { large.checker() } else { None };
                Ok((Some(open(&large.base, opening)?), checker))
            },
            move |meter, (descriptor, checker): &mut (Option<OwnedFd>, Option<Checker>)| {
                let Some(descriptor) = descriptor.take() else { return Ok(()) };
                work(meter, &descriptor, checker)?;
                timed(meter, FSYNC, FILE, |()| 0, || rustix::fs::fsync(&descriptor))?;
                close(meter, CLOSE, FILE, descriptor)
            },
        )
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity::new(derive_seed(self.seed, &[WRITTEN]), 0)
    }
}

/// Where a seek goes, and whether it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Goal {
    chunk: u64,
    rewrites: bool,
}

fn open(base: &Path, opening: Opening) -> Result<OwnedFd, OperationFailure> {
    let directory = open_base(base).map_err(failure(Operation::Openat, FILE))?;
    match opening {
        Opening::Anew => {
            match rustix::fs::unlinkat(&directory, NAME, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failure(Operation::Unlinkat, FILE)(errno)),
            }
            let flags = (CREATE - OFlags::WRONLY) | OFlags::RDWR;
            rustix::fs::openat(&directory, NAME, flags, FILE_MODE).map_err(failure(Operation::Create, FILE))
        }
        Opening::AsItIs => {
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&directory, NAME, flags, Mode::empty())
                .map_err(failure(Operation::Openat, FILE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(parameters: Bonnie) -> Large {
        Large::new(&parameters, Bytes(64 << 20), Path::new("/"), 7)
    }

    #[test]
    fn seeks_go_everywhere_and_some_write() {
        let large = large(Bonnie::default());
        let goals: Vec<Goal> = (0..20_000).map(|number| large.goal(number)).collect();
        assert_eq!(large.chunks, 8192);
        let mut by_eighth = [0; 8];
        goals.iter().for_each(|goal| by_eighth[(goal.chunk / 1024) as usize] += 1);
        assert!(by_eighth.iter().all(|seeks| (2300..2700).contains(seeks)), "{by_eighth:?}");
        let rewrites = goals.iter().filter(|goal| goal.rewrites).count();
        assert!((1850..2150).contains(&rewrites), "{rewrites}");
        assert_eq!(goals[17], large.goal(17));
    }

    #[test]
    fn a_rewrite_share_of_0_or_1_is_exact() {
        for (rewrite_share, expected) in [(0.0, 0), (1.0, 500)] {
            let large = large(Bonnie { rewrite_share, ..Bonnie::default() });
            assert_eq!((0..500).filter(|number| large.goal(*number).rewrites).count(), expected);
        }
    }

    #[test]
    fn phases_have_the_original_order() {
        let names = |parameters: Bonnie| -> Vec<String> {
            large(parameters).phases().into_iter().map(|phase| phase.name).collect()
        };
        let all = [
            "write per character",
            "write block",
            "rewrite",
            "read per character",
            "read block",
            "random seeks",
        ];
        assert_eq!(names(Bonnie::default()), all);
        let fast = Bonnie { char_size: Bytes(0), ..Bonnie::default() };
        assert_eq!(names(fast), ["write block", "rewrite", "read block", "random seeks"]);
    }
}
