//! Parameters of `streaming` (aiod, aio-stress).

use super::measures::{Figure, OwnFigure, OwnMeasure, PhaseSelector};
use super::parameter::{Refusal, parameters, words};
use super::steps::steps;
use super::{Content, Load, Need, Ramp, Rereads, Timing};
use crate::operation::{Operation, Role};
use crate::units::{Bytes, Nanos};

words! {
    /// The way in which requests reach the kernel.
    IoEngine, "I/O engine" {
        /// One system call each.
        Sync = "sync",
        /// Many at once through a ring, with registered buffers and files.
        IoUring = "io_uring",
    }
}

words! {
    /// A part of the workload.
    Stage, "stage" {
        /// Every file is written once, sequentially.
        Write = "write",
        /// Every file is read once, sequentially.
        Read = "read",
        /// Blocks of the files are written in random order until the window ends.
        RandomWrite = "random-write",
        /// Blocks of the files are read in random order until the window ends.
        RandomRead = "random-read",
        /// Readers read some files sequentially while writers write others, until the window ends.
        Mixed = "mixed",
    }
}

parameters! {
    /// Large files accessed sequentially, and blocks of them in random order. Sizes in bytes, times in
    /// nanoseconds.
    Streaming {
        file_size: Bytes = Bytes(4 * Bytes::GIB), "size of each file; a percentage such as `50%` is relative \
            to the device";
        streams: u32 = 1, "number of files, each with its own worker";
        bs: Bytes = Bytes(4 * Bytes::MIB), "size of each sequential read and write, those of `mixed` too";
        random_bs: Bytes = Bytes(4 * Bytes::KIB), "size of each read and write in `random-read` and `random-write`";
        direct: bool = false, "`true`: use `O_DIRECT`";
        io: IoEngine = IoEngine::Sync, "`sync`, or `io_uring` with registered buffers and files";
        iodepth: u32 = 32, "requests that each worker keeps in flight, with `io_uring`";
        batch: u32 = 1, "requests that must complete before a worker collects them and submits new ones, \
            with `io_uring`; latencies include the wait for the last request of the batch; limited to the \
            number in flight";
        stages: Vec<Stage> = vec![Stage::Write, Stage::Read], "stages to run, in this order: `write`, \
            `read`, `random-write`, `random-read`, `mixed`";
        readers: u32 = 1, "number of readers in the stage `mixed`";
        writers: u32 = 1, "number of writers in the stage `mixed`";
        fsync: bool = true, "whether the stage `write` syncs each file at its end, within the measured time";
        ramp: Ramp = Ramp::secs(5), "duration of the load before each window, or `until-throttled`: until \
            the device keeps up with the writers; `steady` takes its place; for stages that have a window";
        window: Nanos = Nanos::from_secs(30), "length of the measured part of the random and mixed stages";
        drain_limit: Nanos = Nanos::from_secs(30), "how long to wait for requests in flight at the end of \
            the window";
        content: Content = Content::Random, "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`";
        verify: bool = false, "`true`: compare every byte that is read with what was written, and at the end, \
            after unmounting and mounting, read everything again; a wrong byte fails the trial";
    }
}

steps! {
    /// Reading sequentially.
    read { MOVE = Read }
    /// Reading at random positions.
    pread { MOVE = Pread }
    /// Reading through a ring.
    uring_read { MOVE = UringRead }
    /// Writing sequentially.
    write { MOVE = Write, SYNC = Fsync }
    /// Writing at random positions.
    pwrite { MOVE = Pwrite, SYNC = Fsync }
    /// Writing through a ring.
    uring_write { MOVE = UringWrite, SYNC = Fsync }
}

/// The unit of verification.
const SECTOR: u64 = 512;

/// The maximum memory for the buffers of one worker.
const MAX_BUFFERS: Bytes = Bytes(Bytes::GIB);

impl Stage {
    /// Returns whether the stage lasts for a given time, rather than until its work is done.
    pub fn timed(self) -> bool {
        matches!(self, Stage::RandomRead | Stage::RandomWrite | Stage::Mixed)
    }

    /// The measures of its rates, the one that ranks first.
    pub const fn measures(self) -> &'static [&'static str] {
        match self {
            Stage::Write => &["streaming-write"],
            Stage::Read => &["streaming-read"],
            Stage::RandomWrite => &["streaming-random-write"],
            Stage::RandomRead => &["streaming-random-read"],
            Stage::Mixed => &["streaming-mixed-read", "streaming-mixed-write"],
        }
    }
}

impl Streaming {
    /// The size of each file: with direct I/O, a multiple of the alignment.
    pub fn file_bytes(&self) -> u64 {
        let multiple = if self.direct { super::DIRECT_ALIGNMENT } else { 1 };
        self.file_size.0 / multiple * multiple
    }

    /// Returns whether the files have to be created before the first stage.
    pub fn needs_files(&self) -> bool {
        self.stages.first() != Some(&Stage::Write)
    }

    /// Bytes of all files of the streams.
    fn all_bytes(&self) -> u64 {
        self.file_bytes().saturating_mul(self.streams.into())
    }
}

impl Load for Streaming {
    fn check(&self) -> Result<(), Refusal> {
        super::check_workers("streams", self.streams)?;
        super::check_workers("iodepth", self.iodepth)?;
        super::check_workers("batch", self.batch)?;
        super::check_workers("readers", self.readers)?;
        super::check_workers("writers", self.writers)?;
        super::check_io_size("bs", self.bs, self.direct)?;
        super::check_io_size("random_bs", self.random_bs, self.direct)?;
        Refusal::unless(self.file_bytes() >= self.bs.0, "file_size", "at least one block (`bs`)")?;
        let holds = self.file_bytes() >= self.random_bs.0;
        Refusal::unless(holds, "random_bs", "at most the file size (`file_size`)")?;
        let distinct = self.stages.iter().enumerate().all(|(at, stage)| !self.stages[..at].contains(stage));
        Refusal::unless(
            distinct && !self.stages.is_empty(),
            "stages",
            "a list of at least one stage, without repetitions",
        )?;
        Refusal::unless(self.window > Nanos(0), "window", "greater than zero")?;
        let largest = self.bs.max(self.random_bs).0;
        let fits = self.io == IoEngine::Sync || largest * u64::from(self.iodepth) <= MAX_BUFFERS.0;
        Refusal::unless(
            fits,
            "iodepth",
            format!("small enough that as many blocks (`bs`) fit into {MAX_BUFFERS}"),
        )?;
        super::check_content(&self.content)?;
        super::check_verify(self.verify, &self.content)?;
        // The sectors of a block tell when it was written, so they must not belong to two.
        let whole = |size: Bytes| !self.verify || size.0.is_multiple_of(SECTOR);
        Refusal::unless(whole(self.random_bs), "random_bs", "a multiple of 512 with `verify`")?;
        Refusal::unless(whole(self.bs), "bs", "a multiple of 512 with `verify`")
    }

    fn prepares(&self) -> Bytes {
        Bytes(if self.needs_files() { self.all_bytes() } else { 0 })
    }

    /// Blocks in random order hit as large a share of the files as is cached, which must not be more than a
    /// fifth. A mixed stage begins each file anew, which is gone by then if it is twice as large.
    fn rereads(&self) -> Option<Rereads> {
        let common = Rereads {
            parameter: "file_size",
            value: self.file_size,
            one_takes: None,
            what: "the file of each stream",
            size: Bytes(self.file_bytes()),
            times: 2,
            share: [1, 1],
            direct: self.direct,
        };
        let mixed = self.stages.contains(&Stage::Mixed).then(|| common.clone());
        let random = self.stages.contains(&Stage::RandomRead).then(|| Rereads {
            times: 5,
            what: "all files together",
            size: Bytes(self.all_bytes()),
            share: [self.streams.into(), 1],
            ..common
        });
        mixed.into_iter().chain(random).min_by_key(Rereads::most_cached)
    }

    fn writes(&self) -> Bytes {
        let files = if self.needs_files() { 0 } else { self.all_bytes() };
        let mixed = if self.stages.contains(&Stage::Mixed) { self.writers } else { 0 };
        Bytes(files.saturating_add(self.file_bytes().saturating_mul(mixed.into())))
    }

    fn moves(&self) -> Bytes {
        let whole = self.stages.iter().filter(|stage| !stage.timed()).count() as u64;
        Bytes(self.all_bytes().saturating_mul(whole))
    }

    fn without_effect(&self) -> Vec<(&'static [&'static str], &'static str)> {
        let has = |stages: &[Stage]| stages.iter().any(|stage| self.stages.contains(stage));
        let rules: [(bool, &'static [&'static str], &'static str); 5] = [
            (self.io == IoEngine::IoUring, &["iodepth", "batch"], "io = \"io_uring\""),
            (
                has(&[Stage::RandomRead, Stage::RandomWrite]),
                &["random_bs"],
                "the stage \"random-read\" or \"random-write\"",
            ),
            (has(&[Stage::Mixed]), &["readers", "writers"], "the stage \"mixed\""),
            (has(&[Stage::Write]), &["fsync"], "the stage \"write\""),
            (
                self.timing().windows > 0,
                &["ramp", "window", "drain_limit"],
                "a stage of a given length: \"random-read\", \"random-write\" or \"mixed\"",
            ),
        ];
        super::unmet_needs(rules)
    }

    fn verifies(&self) -> bool {
        self.verify
    }

    fn follows(&self) -> Nanos {
        let all = Bytes(self.prepares().0.saturating_add(self.writes().0));
        if self.verify { super::reread_time(all) } else { Nanos(0) }
    }

    fn in_words(&self) -> Vec<String> {
        super::verified_in_words(self.verify, "every file")
    }

    fn memory(&self) -> Bytes {
        let depth = if self.io == IoEngine::IoUring { self.iodepth } else { 1 };
        let of =
            |workers: u32, block: Bytes| block.0.saturating_mul(depth.into()).saturating_mul(workers.into());
        let stages = self.stages.iter().map(|stage| match stage {
            Stage::Write | Stage::Read => of(self.streams, self.bs),
            Stage::RandomRead | Stage::RandomWrite => of(self.streams, self.random_bs),
            Stage::Mixed => of(self.readers.saturating_add(self.writers), self.bs),
        });
        // Which write of a block was the last one, 4 bytes each.
        let random = self.verify && self.stages.contains(&Stage::RandomWrite);
        let last = if random { self.all_bytes() / self.random_bs.0.max(1) * 4 } else { 0 };
        Bytes(stages.max().unwrap_or(0).saturating_add(last))
    }

    fn timing(&self) -> Timing {
        let windows = self.stages.iter().filter(|stage| stage.timed()).count() as u32;
        let Streaming { ramp, window, drain_limit, .. } = *self;
        Timing { windows, ramp, window, drain_limit }
    }

    fn cold(&self) -> Vec<bool> {
        let creates = usize::from(!self.needs_files());
        (0..self.stages.len()).map(|stage| stage >= creates).collect()
    }

    fn title(&self) -> String {
        let direct = if self.direct { ", O_DIRECT" } else { "" };
        let io = match self.io {
            IoEngine::Sync => String::new(),
            IoEngine::IoUring if self.batch == 1 => format!(", io_uring depth {}", self.iodepth),
            IoEngine::IoUring => format!(", io_uring depth {} in batches of {}", self.iodepth, self.batch),
        };
        let files = super::plural(self.streams, "file");
        let random =
            match self.stages.iter().any(|stage| matches!(stage, Stage::RandomRead | Stage::RandomWrite)) {
                true => format!(", random bs {}", self.random_bs),
                false => String::new(),
            };
        format!("streaming, {files} of {}, bs {}{random}{direct}{io}", self.file_size, self.bs)
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &[
            "file_size = '48M'\ndirect = true\nio = 'io_uring'\niodepth = 8\n\
             stages = ['write', 'read', 'random-read', 'random-write']\nramp = '200ms'\n\
             window = '600ms'",
            "file_size = '48M'\nbs = '64k'\nstages = ['write', 'read', 'mixed']\nramp = '200ms'\n\
             window = '600ms'",
        ]
    }

    fn default_measure(&self) -> &'static str {
        self.stages.first().map_or("streaming-write", |stage| stage.measures()[0])
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        let rate = |name, help, stage: Stage, role| {
            OwnMeasure::new(
                name,
                help,
                OwnFigure::Role(PhaseSelector::named(stage.name()), role, Figure::Rate),
            )
        };
        // Such a stage writes until its window ends, and then leaves its data in memory.
        let durable_rate = |name, help, stage: Stage| {
            let phase = PhaseSelector::named(stage.name());
            OwnMeasure::new(name, help, OwnFigure::Role(phase, Role::Writer, Figure::DurableRate))
        };
        vec![
            rate(
                "streaming-write",
                "bytes per second of all streams writing sequentially",
                Stage::Write,
                Role::Writer,
            ),
            rate(
                "streaming-read",
                "bytes per second of all streams reading sequentially",
                Stage::Read,
                Role::Reader,
            ),
            durable_rate(
                "streaming-random-write",
                "bytes per second of all streams writing at random positions, until everything is on the \
                 device",
                Stage::RandomWrite,
            ),
            rate(
                "streaming-random-read",
                "bytes per second of all streams reading at random positions",
                Stage::RandomRead,
                Role::Reader,
            ),
            durable_rate(
                "streaming-mixed-write",
                "bytes per second of the streams that write while others read, until everything is on the \
                 device",
                Stage::Mixed,
            ),
            rate(
                "streaming-mixed-read",
                "bytes per second of the streams that read while others write",
                Stage::Mixed,
                Role::Reader,
            ),
        ]
    }

    fn guards(&self) -> Vec<String> {
        let of_stages = self.stages.iter().flat_map(|stage| stage.measures()).map(|name| name.to_string());
        of_stages.chain(self.latency()).collect()
    }

    fn latency(&self) -> Option<String> {
        let ring = self.io == IoEngine::IoUring;
        let stage = self.stages.first().copied().unwrap_or(Stage::Write);
        let (role, operation) = match stage {
            Stage::Read | Stage::Mixed => {
                (Role::Reader, if ring { Operation::UringRead } else { Operation::Read })
            }
            Stage::RandomRead => (Role::Reader, if ring { Operation::UringRead } else { Operation::Pread }),
            Stage::RandomWrite => {
                (Role::Writer, if ring { Operation::UringWrite } else { Operation::Pwrite })
            }
            Stage::Write => (Role::Writer, if ring { Operation::UringWrite } else { Operation::Write }),
        };
        Some(format!("{}/{role}/{operation}/p99.9", stage.name()))
    }

    fn needs(&self) -> &'static [Need] {
        match self.io {
            IoEngine::Sync => &[],
            IoEngine::IoUring => &[Need::IoUring],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_largest_stage() {
        let buffers = |parameters: Streaming| parameters.memory();
        let (bs, streams) = (Bytes(Bytes::MIB), 3);
        let plain = || Streaming { bs, streams, ..Streaming::default() };
        assert_eq!(buffers(plain()), Bytes(3 * Bytes::MIB));
        let ring = || Streaming { io: IoEngine::IoUring, iodepth: 8, ..plain() };
        assert_eq!(buffers(ring()), Bytes(24 * Bytes::MIB));
        let stages = vec![Stage::RandomRead, Stage::Mixed];
        assert_eq!(buffers(Streaming { stages, readers: 4, writers: 1, ..ring() }), Bytes(40 * Bytes::MIB));
    }

    #[test]
    fn parameters_that_others_make_idle_are_named() {
        let idle = |parameters: Streaming| -> Vec<String> {
            let warnings = crate::Workload::Streaming(parameters).idle_parameters();
            warnings.into_iter().map(|warning| warning.text).collect()
        };
        let stages = vec![Stage::Write, Stage::RandomRead];
        assert_eq!(
            idle(Streaming { iodepth: 64, stages: stages.clone(), ..Streaming::default() }),
            ["'iodepth' of workload 'streaming' has no effect: it needs io = \"io_uring\""]
        );
        let ring = Streaming { iodepth: 64, io: IoEngine::IoUring, stages, ..Streaming::default() };
        assert_eq!(idle(ring), [""; 0]);
        let mixed = Streaming { readers: 3, window: Nanos::from_secs(1), ..Streaming::default() };
        let texts = idle(mixed).join("; ");
        assert!(texts.contains("'readers'") && texts.contains("'window'"), "{texts}");
        assert_eq!(idle(Streaming::default()), [""; 0], "nobody has set what is idle by default");
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Streaming| parameters.check().unwrap_err().parameter;
        let good = Streaming::default;
        assert_eq!(good().check(), Ok(()));
        assert_eq!(refused(Streaming { streams: 0, ..good() }), "streams");
        assert_eq!(refused(Streaming { batch: 0, ..good() }), "batch");
        assert_eq!(refused(Streaming { bs: Bytes(5000), direct: true, ..good() }), "bs");
        assert_eq!(refused(Streaming { random_bs: Bytes(512), direct: true, ..good() }), "random_bs");
        assert_eq!(refused(Streaming { file_size: Bytes(1), ..good() }), "file_size");
        assert_eq!(refused(Streaming { stages: vec![], ..good() }), "stages");
        assert_eq!(refused(Streaming { stages: vec![Stage::Read, Stage::Read], ..good() }), "stages");
        let deep = Streaming { bs: Bytes(64 * Bytes::MIB), iodepth: 17, ..good() };
        assert_eq!(deep.check(), Ok(()));
        assert_eq!(refused(Streaming { io: IoEngine::IoUring, ..deep }), "iodepth");
        let (bs, random_bs) = (Bytes(4096), Bytes(Bytes::MIB));
        assert_eq!(refused(Streaming { file_size: Bytes(8192), bs, random_bs, ..good() }), "random_bs");
    }

    #[test]
    fn space_and_work_follow_from_the_stages() {
        let gib = |n: u64| Bytes(n * Bytes::GIB);
        let streaming = |stages: &[Stage]| Streaming {
            file_size: gib(1),
            streams: 3,
            writers: 2,
            stages: stages.to_vec(),
            ..Streaming::default()
        };
        let plain = streaming(&[Stage::Write, Stage::Read]);
        assert_eq!((plain.prepares(), plain.writes(), plain.moves()), (gib(0), gib(3), gib(6)));
        assert_eq!(plain.timing().windows, 0);
        let later = streaming(&[Stage::RandomRead, Stage::Mixed]);
        assert_eq!((later.prepares(), later.writes(), later.moves()), (gib(3), gib(2), gib(0)));
        assert_eq!(later.timing().windows, 2);
    }

    #[test]
    fn only_the_stage_that_creates_the_files_does_not_begin_cold() {
        use Stage::{RandomRead, Read, Write};
        let parts = |stages: &[Stage]| {
            let streaming = Streaming { stages: stages.to_vec(), ..Streaming::default() };
            (streaming.cold(), streaming.parts())
        };
        assert_eq!(parts(&[Write, Read]), (vec![false, true], 2));
        assert_eq!(parts(&[Write]), (vec![false], 1));
        // The first part creates the files.
        assert_eq!(parts(&[RandomRead, Write]), (vec![true, true], 3));
    }

    #[test]
    fn direct_io_uses_whole_blocks() {
        let odd = Streaming { file_size: Bytes(10_000_000), ..Streaming::default() };
        assert_eq!(odd.file_bytes(), 10_000_000);
        assert_eq!(Streaming { direct: true, ..odd }.file_bytes(), 9_998_336);
    }
}
