//! `streaming` (aiod, aio-stress): large files written and read sequentially, and blocks of them in random
//! order.
//!
//! A stage is a phase. `write` creates every file, one worker each; `read` reads every file, `random-write`
//! and `random-read` access blocks of them, one worker each; in `mixed`, readers cycle through the files
//! while writers cycle through files of their own. The first two last until every file is done, the others
//! for a window. A trial whose first stage is not `write` finds the files created beforehand.
//!
//! Between writing and reading, the published study unmounted and mounted again. The engine does not know
//! about mounts: each stage but the one that creates the files begins a new part of the workload, and a
//! caller that can remount starts one engine for each part. The later engine finds the files that the first
//! one created, and checks that they are complete. If remounting is not possible, everything is written back,
//! the kernel drops every clean page, and each file is declared as not needed (posix_fadvise(2)), which needs
//! no privileges.

mod reread;
mod stream;
mod versions;

use crate::background;
use crate::content::FileIdentity;
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter};
use crate::phase::{Job, PhaseLoad, Team};
use crate::session::{Ledger, Session};
use crate::span::Span;
use crate::tree::derive_seed;
use crate::workload::Work;
use fsdyno_core::protocol::EnginePart;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::units::Nanos;
use fsdyno_core::workload::{Content, IoEngine, Load, Stage, Streaming};
use fsdyno_core::{Operation, Reached, TrialStep, WarningKind};
use fsdyno_sys::ring::Ring;
use fsdyno_sys::timer::Timer;
use rustix::fs::{Advice, Mode, OFlags};
use std::path::{Path, PathBuf};
use std::time::Instant;
use stream::{FileCourse, ReadyStream, Stream};
use versions::Versions;

/// The words that seeds and identities of files derive from.
const FILES: u64 = 3;
const RANDOM: u64 = 4;

impl Work for Streaming {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        if self.io == IoEngine::IoUring {
            // Before anything is created: if it is unavailable later, it is unavailable now.
            Ring::new(1, 4096).map_err(|errno| EngineError::IoUring { errno })?;
        }
        let plan = Plan { parameters: self, base: session.make_base()?, seed: session.request.seed };
        if !session.request.drop_caches && !self.direct && session.request.part.is_first() {
            let text = "before each stage only the cached pages of the files themselves were dropped, not the \
            whole page cache";
            session.warn(WarningKind::CachesNotDropped, text);
        }
        let part = session.request.part;
        let cold = self.cold();
        let own = part.phases(&cold);
        let timing = self.timing();
        let window_ns = timing.each().0;
        // The time of later parts is included, to know when the last phase ends.
        let windows = self.stages[own.start..].iter().filter(|stage| stage.timed()).count() as u64;
        let mut left_ns = window_ns.saturating_mul(windows);
        session.reporter.expect(left_ns);
        match part.is_first() {
            true if self.needs_files() => plan.make_files(session)?,
            true => {}
            false => plan.find_files(session)?,
        }
        for index in own {
            let stage = &self.stages[index];
            let after_ns = if stage.timed() { window_ns } else { 0 };
            left_ns -= after_ns;
            session.reporter.expect(left_ns);
            session.settle(stage.name(), after_ns)?;
            // Opening a file would bring its inode into memory.
            if part == EnginePart::WHOLE {
                plan.forget(session, stage.name(), after_ns)?;
            }
            if cold[index] {
                session.warm_up(stage.name(), after_ns)?;
            }
            let ledger = Ledger::default();
            session.phase(plan.phase(index, &ledger, &session.reached))?;
            session.reach(ledger.take());
        }
        Ok(())
    }

    fn read_again(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        reread::read_again(self, session)
    }
}

/// The resolved parameters.
struct Plan<'a> {
    parameters: &'a Streaming,
    base: PathBuf,
    seed: u64,
}

impl Plan<'_> {
    /// The seed of the blocks that a stage chooses.
    fn random_seed(&self, stage: Stage, stream: u32) -> u64 {
        derive_seed(self.seed, &[RANDOM, stage as u64, u64::from(stream)])
    }

    /// The version of the files that a stage `write` writes.
    fn written_by(&self, index: usize) -> u32 {
        // Later than whatever was written over before.
        if index == 0 { 0 } else { u32::MAX }
    }

    /// The versions of a file before the stage of this index.
    fn versions(&self, stream: u32, index: usize, reached: &[Reached]) -> Versions {
        let (mut first, mut versions) = (0, Versions::default());
        for (at, stage) in self.parameters.stages[..index].iter().enumerate() {
            match stage {
                Stage::Write => {
                    first = self.written_by(at);
                    versions = Versions::whole(first);
                }
                Stage::RandomWrite => {
                    let (block, seed) = (self.parameters.random_bs.0, self.random_seed(*stage, stream));
                    let blocks = self.parameters.file_bytes() / block;
                    let reached = reached_in(reached, &file_name(stream));
                    versions = Versions::random(first, block, blocks, seed, reached);
                }
                Stage::Read | Stage::RandomRead | Stage::Mixed => {}
            }
        }
        versions
    }

    fn phase(&self, index: usize, ledger: &Ledger, reached: &[Reached]) -> PhaseLoad {
        let stage = self.parameters.stages[index];
        let Streaming { streams, readers, writers, fsync, verify, .. } = *self.parameters;
        let random = |stream: u32| FileCourse::Random { seed: self.random_seed(stage, stream), count: None };
        let each = |writes, course: &dyn Fn(u32) -> FileCourse| -> Vec<Stream> {
            (0..streams)
                .map(|stream| self.stream(&file_name(stream), stream, writes, course(stream)))
                .collect()
        };
        let streams: Vec<Stream> = match stage {
            Stage::Write => {
                let files = each(true, &|_| FileCourse::Once);
                let version = self.written_by(index);
                files.into_iter().map(|stream| Stream { fsync, version, ..stream }).collect()
            }
            Stage::Read => each(false, &|_| FileCourse::Once),
            Stage::RandomWrite => each(true, &random),
            Stage::RandomRead => each(false, &random),
            Stage::Mixed => {
                let new = (0..writers).map(|writer| {
                    self.stream(&mixed_name(writer), streams + writer, true, FileCourse::Around)
                });
                let old = (0..readers).map(|reader| {
                    let stream = reader % streams;
                    self.stream(&file_name(stream), stream, false, FileCourse::Around)
                });
                new.chain(old).collect()
            }
        };
        let checked = |stream: Stream| {
            // What is written once follows from the parameters.
            let (expects, notes) = (verify && !stream.writes, verify && stream.writes && stage.timed());
            Stream {
                expects: expects.then(|| self.versions(stream.number, index, reached)),
                ledger: notes.then(|| ledger.clone()),
                ..stream
            }
        };
        let streams: Vec<Stream> = streams.into_iter().map(checked).collect();
        let operations = streams.iter().filter_map(Stream::operations).sum();
        let span = if stage.timed() { self.parameters.timing().into() } else { Span::whole(operations) };
        PhaseLoad { name: stage.name().to_string(), span, teams: self.teams(streams) }
    }

    /// A worker for each stream, those of one role together.
    fn teams(&self, streams: Vec<Stream>) -> Vec<Team> {
        let mut teams: Vec<Team> = Vec::new();
        for stream in streams {
            let (role, steps, base) = (stream.role(), stream.steps(), self.base.clone());
            let job: Job = Box::new(move |lineup| match stream.open(&base) {
                Ok(ready) => ready.run(&mut lineup.start()),
                Err(failure) => Halt::Failed(failure),
            });
            match teams.iter_mut().find(|team| team.role == role) {
                Some(team) => team.jobs.push(job),
                None => teams.push(Team::new(role, steps, vec![job])),
            }
        }
        teams
    }

    /// The stream of this number on a file.
    fn stream(&self, name: &str, number: u32, writes: bool, course: FileCourse) -> Stream {
        let Streaming { bs, random_bs, direct, io, iodepth, batch, content, .. } = *self.parameters;
        let block = if matches!(course, FileCourse::Random { .. }) { random_bs } else { bs };
        Stream {
            name: name.to_string(),
            number,
            writes,
            course,
            file_bytes: self.parameters.file_bytes(),
            block: block.0 as usize,
            direct,
            depth: (io == IoEngine::IoUring).then_some(iodepth),
            batch,
            fsync: false,
            content,
            seed: self.seed,
            identity: FileIdentity::new(derive_seed(self.seed, &[FILES]), number.into()),
            version: 0,
            expects: None,
            ledger: None,
        }
    }

    /// Creates the files without timing, as the stage `write` would.
    fn make_files(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let (begin, base) = (Instant::now(), self.base.clone());
        let (count, file_bytes) = (self.parameters.streams, self.parameters.file_bytes());
        let streams: Vec<Stream> = (0..count)
            .map(|number| self.stream(&file_name(number), number, true, FileCourse::Once))
            .collect();
        let work = move |gauge: &background::Gauge| -> Result<(), EngineError> {
            streams.iter().try_for_each(|stream| {
                stream
                    .make(&base, || gauge.cancelled(), |bytes| gauge.advance(bytes))
                    .map_err(|failure| EngineError::operation("prepare", failure))
            })
        };
        let whole = file_bytes * u64::from(count);
        let reporter = &mut *session.reporter;
        background::run("prepare", session.bounds, work, |gauge| {
            reporter.tell(TrialStep::Prepare, "", gauge.done() as f64 / whole as f64, 0);
            true
        })??;
        let trees = TreeSummary { files: count.into(), directories: 0, bytes: whole };
        session.prepared(Nanos::from(begin.elapsed()), trees);
        Ok(())
    }

    /// Checks that the files are as an earlier part created them.
    fn find_files(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let (base, streams, expected_bytes) =
            (self.base.clone(), self.parameters.streams, self.parameters.file_bytes());
        let work = move |_: &background::Gauge| {
            (0..streams).map(|stream| base.join(file_name(stream))).try_for_each(|path| {
                let found = rustix::fs::lstat(&path).map_err(EngineError::system("find the file", &path))?;
                match found.st_size as u64 {
                    found_bytes if found_bytes == expected_bytes => Ok(()),
                    found_bytes => Err(EngineError::Changed { path, found_bytes, expected_bytes }),
                }
            })
        };
        let reporter = &mut *session.reporter;
        background::run("settle", session.bounds, work, |_| {
            reporter.tell(TrialStep::Settle, "", 0.0, 0);
            true
        })?
    }

    /// Makes the kernel drop the cached pages of the files, which have already been written back.
    fn forget(&self, session: &mut Session<'_, '_>, stage: &str, after_ns: u64) -> Result<(), EngineError> {
        let (base, streams) = (self.base.clone(), self.parameters.streams);
        let work = move |_: &background::Gauge| {
            for path in (0..streams).map(|stream| base.join(file_name(stream))) {
                let Ok(file) = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                else {
                    // Not created yet.
                    continue;
                };
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
                    .map_err(EngineError::system("drop the cached pages of", &path))?;
            }
            Ok(())
        };
        let reporter = &mut *session.reporter;
        background::run("settle", session.bounds, work, |_| {
            reporter.tell(TrialStep::Settle, stage, 0.5, after_ns);
            true
        })?
    }
}

/// The file of a writer in the stage `mixed`.
fn mixed_name(writer: u32) -> String {
    format!("mixed-{writer}")
}

fn reached_in<'a>(reached: &'a [Reached], wanted: &str) -> Option<&'a Reached> {
    reached.iter().find(|reached| matches!(reached, Reached::File { file, .. } if file == wanted))
}

fn file_name(stream: u32) -> String {
    format!("stream-{stream}")
}

/// The name of a pass in errors.
const PASS: &str = "1 pass";

/// A way to go through a file once, outside any phase.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// `true` if it writes instead of reading.
    pub writes: bool,
    /// `true` if it bypasses the page cache.
    pub direct: bool,
    /// Requests in flight at once, in a ring; `None`: one system call at a time.
    pub depth: Option<u32>,
    /// The number of requests to wait for each time.
    pub batch: u32,
    /// Bytes of each request.
    pub block: usize,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// This many blocks at random positions, chosen by this seed; `None`: all, sequentially.
    pub random: Option<(u64, u64)>,
    /// The content that it writes.
    pub content: Content,
}

impl Pass {
    /// Opens the file and prepares everything, as a worker does before its phase begins.
    ///
    /// # Errors
    /// The first system call that failed.
    pub fn open(self, file: &Path, timer: Timer) -> Result<ReadyPass, EngineError> {
        let Pass { writes, direct, depth, batch, block, file_bytes, random, content } = self;
        let stream = Stream {
            name: file.to_string_lossy().into_owned(),
            number: 0,
            writes,
            course: match random {
                Some((seed, count)) => FileCourse::Random { seed, count: Some(count) },
                None => FileCourse::Once,
            },
            file_bytes,
            block,
            direct,
            depth,
            batch,
            fsync: false,
            content,
            seed: 0,
            identity: FileIdentity::new(0, 0),
            version: 0,
            expects: None,
            ledger: None,
        };
        let meter = Meter::alone(timer, stream.role(), stream.steps(), u64::MAX);
        let ready = stream.open(Path::new("")).map_err(ReadyPass::failed)?;
        Ok(ReadyPass { ready, meter })
    }
}

/// A [`Pass`] that can start at once, on the thread that opened it.
#[derive(Debug)]
pub struct ReadyPass {
    ready: ReadyStream,
    meter: Meter,
}

impl ReadyPass {
    /// Goes through the file, and returns how often each operation was performed.
    ///
    /// # Errors
    /// The first system call that failed.
    pub fn run(self) -> Result<Vec<(Operation, u64)>, EngineError> {
        let ReadyPass { ready, mut meter } = self;
        match ready.run(&mut meter) {
            Halt::Over => Ok(meter.counts()),
            halt => Err(halt.error(PASS)),
        }
    }

    fn failed(failure: OperationFailure) -> EngineError {
        EngineError::operation(PASS, failure)
    }
}
