//! Parameters of `bonnie` (bonnie++ 2.00), and the names of its phases.
//!
//! Each parameter has its own key. `options`, the original's command line, is a [`Shorthand`] that sets them.
//! The rules of [`Load::check`] and the default size are the original's (its `main` and `BonTimer`).

mod options;

pub(crate) use options::command_line;

use super::measures::{Figure, OwnMeasure};
use super::parameter::{Refusal, Shorthand, parameters};
use super::steps::{PhaseSpec, steps};
use super::{Content, Load, Rereads, Timing};
use crate::operation::{Operation, Role};
use crate::units::Bytes;

parameters! {
    /// One large file, written, rewritten and read in chunks and at random; then many small files, created,
    /// examined and removed. Sizes in bytes.
    Bonnie {
        size: Option<Bytes> = None, "size of the large file in whole MiB; by default twice the memory, \
            rounded as in bonnie++; 0 skips its phases";
        chunk: Bytes = Bytes(8 * Bytes::KIB), "bytes per `read` and `write` of the large file; a power of \
            two";
        char_size: Bytes = Bytes(3 * Bytes::MIB), "how much of the large file to write and read one byte per \
            call; 0 skips these two phases";
        ram: Option<Bytes> = None, "memory size; `size` must be at least twice this; by default the \
            machine's memory, and then a smaller `size` only causes a warning; 0 disables the check";
        seekers: u32 = 5, "workers that perform the random seeks";
        seeks: u64 = 8192, "total number of random seeks";
        rewrite_share: f64 = 0.1, "share of the seeks that write the chunk back, from 0 to 1";
        files: u64 = 16 * FILE_UNIT, "number of small files, a multiple of 1024; 0 skips their phases";
        max_size: Bytes = Bytes(0), "size of the largest small file";
        min_size: Bytes = Bytes(0), "size of the smallest small file; sizes are distributed uniformly in \
            between";
        directories: u32 = 1, "number of directories to spread the small files over";
        file_chunk: Bytes = Bytes(8 * Bytes::KIB), "bytes per `read` and `write` of the small files; a power \
            of two";
        fsync: bool = false, "`true`: call `fsync` for every file created or removed and for its directory, \
            and after every seek that writes";
        content: Content = Content::Random, "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`; bonnie++ \
            itself writes almost nothing but zeros";
        verify: bool = false, "`true`: compare every byte that is read with what was written, and look at the \
            end, after unmounting and mounting, whether everything is gone";
    }
}

/// Small files are counted in units of this.
pub const FILE_UNIT: u64 = 1024;
/// The largest number of small files: their numbers have ten hexadecimal digits.
const MAX_FILES: u64 = 1 << 40;
/// The largest number of directories: their names have five digits.
const MAX_DIRECTORIES: u32 = 99_999;
/// Size of the large file if the memory size is unknown.
const SMALLEST_DEFAULT_MIB: u64 = 300;
/// Memory size that estimates assume as long as the size depends on a machine that has not been examined.
const ASSUMED_MEMORY: Bytes = Bytes(16 * Bytes::GIB);
/// Moving one byte per call takes about as long as moving this many bytes at once.
const BYTES_PER_CALL: u64 = 200;
/// Cost of creating or removing a name, in bytes moved.
const BYTES_PER_NAME: u64 = 4096;

steps! {
    /// The operations on the large file.
    large { READ = Read, WRITE = Write, LSEEK = Lseek, FSYNC = Fsync, CLOSE = Close }
    /// The operations on the small files.
    small {
        READDIR = Readdir,
        STATX = Statx,
        OPENAT = Openat,
        READ = Read,
        CREATE = Create,
        WRITE = Write,
        FSYNC = Fsync,
        CLOSE = Close,
        UNLINKAT = Unlinkat,
        RMDIR = Rmdir,
        SYNCFS = Syncfs,
    }
}

/// A test of the large file.
const fn of_large(name: &'static str, role: Role) -> PhaseSpec {
    PhaseSpec { name, role, steps: large::STEPS }
}

/// A test of the small files.
const fn of_small(name: &'static str, role: Role) -> PhaseSpec {
    PhaseSpec { name, role, steps: small::STEPS }
}

/// The tests, in the order in which they run and appear in tables.
pub const TESTS: [PhaseSpec; 12] = [
    WRITE_CHAR,
    WRITE_BLOCK,
    REWRITE,
    READ_CHAR,
    READ_BLOCK,
    SEEKS,
    SEQ_CREATE,
    SEQ_STAT,
    SEQ_DELETE,
    RANDOM_CREATE,
    RANDOM_STAT,
    RANDOM_DELETE,
];

/// The note that a reader of figures per character needs (bonnie++ 2.00, README-2.00).
pub const PER_CHARACTER: &str = "per character: one system call for each byte, as in bonnie++ since 1.92; \
    earlier versions used the C library's buffered putc and getc, so figures from before then cannot be \
    compared with these";

/// Writing the large file one byte per call.
pub const WRITE_CHAR: PhaseSpec = of_large("write per character", Role::Writer);
/// Writing it in chunks.
pub const WRITE_BLOCK: PhaseSpec = of_large("write block", Role::Writer);
/// Reading each chunk, changing it, and writing it back.
pub const REWRITE: PhaseSpec = of_large("rewrite", Role::Rewriter);
/// Reading the large file one byte per call.
pub const READ_CHAR: PhaseSpec = of_large("read per character", Role::Reader);
/// Reading it in chunks.
pub const READ_BLOCK: PhaseSpec = of_large("read block", Role::Reader);
/// Reading chunks at random positions, and writing some of them back.
pub const SEEKS: PhaseSpec = of_large("random seeks", Role::Seeker);
/// Creating the small files, in order of their names.
pub const SEQ_CREATE: PhaseSpec = of_small("create sequential", Role::Creator);
/// Examining and reading them in directory order.
pub const SEQ_STAT: PhaseSpec = of_small("stat sequential", Role::Examiner);
/// Removing them in directory order.
pub const SEQ_DELETE: PhaseSpec = of_small("delete sequential", Role::Deleter);
/// Creating them again, in random order of their names.
pub const RANDOM_CREATE: PhaseSpec = of_small("create random", Role::Creator);
/// Examining and reading them in random order.
pub const RANDOM_STAT: PhaseSpec = of_small("stat random", Role::Examiner);
/// Removing them in another random order.
pub const RANDOM_DELETE: PhaseSpec = of_small("delete random", Role::Deleter);

impl Bonnie {
    /// Size of the large file on a machine with this memory.
    ///
    /// By default twice the memory, at least 300 MiB, rounded up to whole GiB if it is less than half a GiB
    /// short of that.
    pub fn size_on(&self, memory: Bytes) -> Bytes {
        if let Some(size) = self.size {
            return size;
        }
        let memory = self.ram.unwrap_or(memory);
        let mib = (memory.0 / Bytes::MIB * 2).max(SMALLEST_DEFAULT_MIB);
        let rounded = if mib % 1024 > 512 && memory > Bytes(0) { mib.next_multiple_of(1024) } else { mib };
        Bytes(rounded * Bytes::MIB)
    }

    /// Returns whether there is a large file.
    pub(crate) fn has_large_file(&self) -> bool {
        self.size != Some(Bytes(0))
    }

    /// Returns the part of a large file of this size that is moved one byte per call.
    pub fn char_size_of(&self, size: Bytes) -> Bytes {
        self.char_size.min(size)
    }

    /// Bytes in all small files, on average.
    fn bytes_in_files(&self) -> u64 {
        let mean = (self.min_size.0.saturating_add(self.max_size.0)) / 2;
        self.files.saturating_mul(mean)
    }
}

impl Load for Bonnie {
    fn check(&self) -> Result<(), Refusal> {
        let whole = self.size.is_none_or(|size| size.0.is_multiple_of(Bytes::MIB));
        Refusal::unless(whole, "size", "a multiple of 1 MiB")?;
        let anything = self.has_large_file() || self.files > 0;
        Refusal::unless(anything, "size", "greater than zero if there are no small files")?;
        check_chunk("chunk", self.chunk)?;
        check_chunk("file_chunk", self.file_chunk)?;
        let whole = self.char_size.0.is_multiple_of(self.chunk.0);
        Refusal::unless(whole, "char_size", format!("a multiple of the chunk size, {}", self.chunk))?;
        if let (Some(size), Some(ram)) = (self.size, self.ram)
            && size > Bytes(0)
        {
            let expected = format!("at least twice `ram` ({ram})");
            Refusal::unless(size.0 / 2 >= ram.0, "size", expected)?;
        }
        super::check_workers("seekers", self.seekers)?;
        Refusal::unless(self.seeks > 0, "seeks", "at least 1")?;
        Refusal::unless((0.0..=1.0).contains(&self.rewrite_share), "rewrite_share", "a number from 0 to 1")?;
        let sensible = self.files.is_multiple_of(FILE_UNIT) && self.files <= MAX_FILES;
        Refusal::unless(sensible, "files", format!("a multiple of {FILE_UNIT} and at most {MAX_FILES}"))?;
        Refusal::unless(self.max_size >= self.min_size, "max_size", "at least `min_size`")?;
        Refusal::unless(
            (1..=MAX_DIRECTORIES).contains(&self.directories),
            "directories",
            format!("a whole number from 1 to {MAX_DIRECTORIES}"),
        )?;
        super::check_content(&self.content)?;
        super::check_verify(self.verify, &self.content)
    }

    fn verifies(&self) -> bool {
        self.verify
    }

    fn in_words(&self) -> Vec<String> {
        super::verified_and_gone_in_words(self.verify)
    }

    fn without_effect(&self) -> Vec<(&'static [&'static str], &'static str)> {
        let has_sizes = self.files > 0 && self.max_size > Bytes(0);
        super::unmet_needs([
            (
                self.has_large_file(),
                &["chunk", "char_size", "ram", "seekers", "seeks", "rewrite_share"][..],
                "a large file, which `size = 0` excludes",
            ),
            (
                self.files > 0,
                &["max_size", "min_size", "directories"],
                "small files, which `files = 0` excludes",
            ),
            (has_sizes, &["file_chunk"], "small files that are not empty: `files` and `max_size`"),
        ])
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    /// It is read after it was written, and blocks of it after it was read.
    fn rereads(&self) -> Option<Rereads> {
        let size = self.size.filter(|size| *size > Bytes(0))?;
        let (parameter, what) = ("size", "the large file");
        Some(Rereads {
            parameter,
            value: size,
            one_takes: None,
            what,
            size,
            times: 2,
            share: [1, 1],
            direct: false,
        })
    }

    /// The large file is removed before the small files are created.
    fn writes(&self) -> Bytes {
        let file = self.max_size.0.next_multiple_of(BYTES_PER_NAME) + BYTES_PER_NAME;
        Bytes(self.size.map_or(u64::MAX, |size| size.0).max(self.files.saturating_mul(file)))
    }

    /// The small files may all be of the smallest size.
    fn least_space(&self) -> Bytes {
        self.size.unwrap_or_default()
    }

    fn moves(&self) -> Bytes {
        self.moves_within(None)
    }

    /// Written once, rewritten (which counts twice), read once; both orders of small files written and read.
    fn moves_within(&self, memory: Option<Bytes>) -> Bytes {
        let size = self.size_on(memory.unwrap_or(ASSUMED_MEMORY));
        let characters = self.char_size_of(size).0.saturating_mul(2 * BYTES_PER_CALL);
        let chunks = self.seeks.saturating_mul(self.chunk.0).saturating_add(size.0.saturating_mul(4));
        let large = if self.has_large_file() { characters.saturating_add(chunks) } else { 0 };
        let names = self.files.saturating_mul(6 * BYTES_PER_NAME);
        Bytes(large.saturating_add(self.bytes_in_files().saturating_mul(4)).saturating_add(names))
    }

    fn timing(&self) -> Timing {
        Timing::default()
    }

    fn title(&self) -> String {
        let large = match self.size {
            Some(Bytes(0)) => None,
            Some(size) => Some(format!("{size} in chunks of {}", self.chunk)),
            None => Some(format!("twice the memory in chunks of {}", self.chunk)),
        };
        let sizes = match (self.min_size, self.max_size) {
            (_, Bytes(0)) => "empty files".to_string(),
            (min, max) if min == max => format!("files of {max}"),
            (min, max) => format!("files of {min} to {max}"),
        };
        let small = match (self.files, self.directories) {
            (0, _) => None,
            (files, 1) => Some(format!("{files} {sizes}")),
            (files, directories) => Some(format!("{files} {sizes} in {directories} directories")),
        };
        let parts: Vec<String> = ["bonnie".to_string()].into_iter().chain(large).chain(small).collect();
        parts.join(", ")
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &["size = '16M'\nchar_size = '1M'\nram = 0\nseeks = 1000\nfiles = 1024\nmax_size = 4096"]
    }

    fn shorthand(&self) -> Option<Shorthand> {
        Some(options::SHORTHAND)
    }

    fn default_measure(&self) -> &'static str {
        if self.has_large_file() { "bonnie-write-block" } else { "bonnie-seq-create" }
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        let rate = |name, help, phase| OwnMeasure::of_phase(name, help, phase, Figure::Rate);
        let items = |name, help, phase| OwnMeasure::of_phase(name, help, phase, Figure::ItemRate);
        vec![
            rate("bonnie-write-char", "bytes per second written one at a time", WRITE_CHAR),
            rate("bonnie-write-block", "bytes per second written in chunks", WRITE_BLOCK),
            rate("bonnie-rewrite", "bytes per second read, changed and written back", REWRITE),
            rate("bonnie-read-char", "bytes per second read one at a time", READ_CHAR),
            rate("bonnie-read-block", "bytes per second read in chunks", READ_BLOCK),
            items("bonnie-seeks", "random seeks per second", SEEKS),
            items("bonnie-seq-create", "files per second created in order of their names", SEQ_CREATE),
            items("bonnie-seq-stat", "files per second examined and read in directory order", SEQ_STAT),
            items("bonnie-seq-delete", "files per second removed in directory order", SEQ_DELETE),
            items("bonnie-random-create", "files per second created in random order", RANDOM_CREATE),
            items("bonnie-random-stat", "files per second examined and read in random order", RANDOM_STAT),
            items("bonnie-random-delete", "files per second removed in random order", RANDOM_DELETE),
        ]
    }

    fn throughput(&self) -> &'static str {
        if self.has_large_file() { "throughput" } else { "bonnie-seq-create" }
    }

    fn latency(&self) -> Option<String> {
        let (test, operation) =
            if self.has_large_file() { (SEEKS, Operation::Read) } else { (SEQ_CREATE, Operation::Create) };
        Some(test.p999(operation))
    }
}

fn check_chunk(parameter: &'static str, chunk: Bytes) -> Result<(), Refusal> {
    let sensible = chunk.0.is_power_of_two() && (256..=Bytes::MIB).contains(&chunk.0);
    Refusal::unless(sensible, parameter, "a power of two from 256 to 1M")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = Bytes::MIB;

    #[test]
    fn the_default_size_is_the_same_as_in_the_original() {
        let size = |memory: u64| Bonnie::default().size_on(Bytes(memory * MIB)).0 / MIB;
        // As its `main` computes it from `-r`.
        assert_eq!([100, 248, 700, 1024, 7974].map(size), [300, 496, 1400, 2048, 16384]);
        let given = Bonnie { ram: Some(Bytes(0)), ..Bonnie::default() };
        assert_eq!(given.size_on(Bytes(64 << 30)), Bytes(300 * MIB));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Bonnie| parameters.check().unwrap_err().parameter;
        let good = Bonnie::default;
        assert!(good().check().is_ok());
        assert_eq!(refused(Bonnie { size: Some(Bytes(MIB + 1)), ..good() }), "size");
        assert_eq!(refused(Bonnie { size: Some(Bytes(0)), files: 0, ..good() }), "size");
        let (size, ram) = (Some(Bytes(64 * MIB)), Some(Bytes(33 * MIB)));
        assert_eq!(refused(Bonnie { size, ram, ..good() }), "size");
        assert_eq!(refused(Bonnie { chunk: Bytes(3000), ..good() }), "chunk");
        assert_eq!(refused(Bonnie { file_chunk: Bytes(128), ..good() }), "file_chunk");
        assert_eq!(refused(Bonnie { char_size: Bytes(1000), ..good() }), "char_size");
        assert_eq!(refused(Bonnie { seekers: 0, ..good() }), "seekers");
        assert_eq!(refused(Bonnie { seeks: 0, ..good() }), "seeks");
        assert_eq!(refused(Bonnie { rewrite_share: 10.0, ..good() }), "rewrite_share");
        assert_eq!(refused(Bonnie { files: 1000, ..good() }), "files");
        assert_eq!(refused(Bonnie { min_size: Bytes(5), ..good() }), "max_size");
        assert_eq!(refused(Bonnie { directories: 0, ..good() }), "directories");
        assert_eq!(refused(Bonnie { content: Content::Compressible(2.0), ..good() }), "content");
    }

    #[test]
    fn the_large_file_and_the_small_ones_share_the_space() {
        let size = Some(Bytes(64 * MIB));
        assert_eq!(Bonnie { size, ..Bonnie::default() }.writes(), Bytes(64 * MIB));
        let small = Bonnie { size, max_size: Bytes(100_000), ..Bonnie::default() };
        assert!(small.writes().0 > 16384 * 100_000);
        assert_eq!(Bonnie::default().writes(), Bytes(u64::MAX));
    }

    #[test]
    fn titles_say_what_is_done() {
        let title = |parameters: Bonnie| parameters.title();
        assert_eq!(title(Bonnie::default()), "bonnie, twice the memory in chunks of 8k, 16384 empty files");
        let (min_size, max_size) = (Bytes(64), Bytes(100_000));
        let parameters =
            Bonnie { size: Some(Bytes(0)), min_size, max_size, directories: 3, ..Bonnie::default() };
        assert_eq!(title(parameters), "bonnie, 16384 files of 64 to 100000 in 3 directories");
    }
}
