//! `flow`: a load that is data. File sets, and roles of workers that perform a list of steps over and over.
//!
//! A role's steps are compiled once ([`program`]); each worker has an interpreter with everything that it
//! needs ([`worker`]). Which files exist is known without a list of them ([`set`]), or, if they come and go,
//! from a few numbers per name that only one worker has ([`pool`]). What they contain is known in the same
//! way if the flow is verified ([`knowledge`]).

mod blocks;
mod calls;
mod contents;
mod data;
mod ends;
mod knowledge;
mod pass;
mod pool;
mod program;
mod reread;
mod set;
mod signal;
mod worker;

pub use pass::{Performed, ReadyFlow};

use crate::background;
use crate::compare::Comparer;
use crate::content::Content;
use crate::error::{EngineError, OperationFailure};
use crate::meter::Halt;
use crate::pace::Schedule;
use crate::phase::{Job, PhaseLoad, Team};
use crate::plant::{CREATE, DIRECTORY, DIRECTORY_MODE, FILE_MODE, PIECE, verify_room};
use crate::session::{Ledger, Session};
use crate::tree::derive_seed;
use crate::workload::Work;
use blocks::BlockSummary;
use fsdyno_core::result::{PhaseResult, TreeSummary};
use fsdyno_core::workload::parameter::Refusal;
use fsdyno_core::workload::{Flow, FlowRole, Load};
use fsdyno_core::{Operation, Reached, Role, TrialStep, WarningKind};
use knowledge::{Knowledge, SetKnowledge};
use program::Program;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use set::{File, Path, Set};
use signal::Signal;
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use worker::Worker;

/// The word that random choices of workers derive from.
const WORKERS: u64 = 7;
/// The word that contents written by workers derive from.
const CONTENTS: u64 = 8;
/// The most blocks whose contents another process learns: all must fit into a message.
const MOST_BLOCKS: u64 = 1_000_000;
/// The cost of a file in addition to its bytes, for the progress of preparing.
const FILE_COST: u64 = 4096;

impl Work for Flow {
    /// One phase, or one for each number of workers, each with file sets of its own.
    ///
    /// If the filesystem is mounted again in between, a part of the work ends with creating the sets of a
    /// phase, and the next one begins with that phase.
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let base = session.make_base()?;
        let (part, seed) = (session.request.part, session.request.seed);
        let phase_ns = self.timing().each().0;
        let stages = self.stages();
        for (index, (name, flow)) in (0..).zip(&stages) {
            let (prepares, measures) = match part.of {
                1 => (true, true),
                _ => (part.number == index, part.number == index + 1),
            };
            let after_ns = phase_ns * (stages.len() as u64 - u64::from(index) - 1);
            if prepares || measures {
                let common = Common::of(flow, base.clone(), seed)?;
                if prepares {
                    session.reporter.expect(phase_ns + after_ns);
                    if index > 0 {
                        session.remove(flow.files.0.iter().map(|set| base.join(&set.name)).collect())?;
                    }
                    prepare(flow, &common.sets, &common.base, index == 0, session)?;
                }
                if measures {
                    session.reporter.expect(after_ns);
                    measure(name, flow, common, session)?;
                }
            }
        }
        Ok(())
    }

    fn read_again(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        reread::read_again(self, session)
    }
}

/// One phase on file sets that exist.
fn measure(
    name: &str,
    parameters: &Flow,
    common: Common,
    session: &mut Session<'_, '_>,
) -> Result<(), EngineError> {
    let phase_ns = parameters.timing().each().0;
    session.settle(name, phase_ns)?;
    if !parameters.cold().is_empty() {
        session.warm_up(name, phase_ns)?;
    }
    let names = parameters.signals();
    let teams = parameters.roles.0.iter().map(|role| {
        let program = Program::of(parameters, role, &names);
        team(role, program, &common)
    });
    let phase =
        PhaseLoad { name: name.to_string(), span: parameters.timing().into(), teams: teams.collect() };
    let mut idle = Vec::new();
    session.counted_phase(phase, |result| idle = roles_without_iterations(parameters, result))?;
    session.reach(common.reached());
    for role in idle {
        let text = format!(
            "no {role} completed an iteration within the window; make `window` longer, or the iteration shorter"
        );
        session.warn_in(name, WarningKind::NoIterations, text);
    }
    let short = common.short.load(Ordering::Relaxed);
    if short > 0 {
        let text = format!(
            "{short} iterations ended early, because a step that is performed at random found no file; raise \
             `count`, or use a `prefill` nearer to the middle"
        );
        session.warn_in(name, WarningKind::ShortIterations, text);
    }
    Ok(())
}

/// The roles in the foreground whose rate of iterations is 0.
fn roles_without_iterations(flow: &Flow, result: &PhaseResult) -> Vec<Role> {
    let foreground = |role: Role| flow.roles.0.iter().any(|one| one.role == role && !one.background);
    let idle = result.roles.iter().filter(|role| role.rates.items_per_s == 0.0);
    idle.map(|role| role.role).filter(|role| foreground(*role)).collect()
}

/// The workers of a role.
fn team(role: &FlowRole, program: Program, common: &Common) -> Team {
    let program = Arc::new(program);
    // A record refers to its operations as long as a worker may hang in the kernel, which is longer than
    // anything here. An engine has one flow, so this happens once for each of its roles.
    let steps: &'static [Operation] = Vec::leak(program.operations.clone());
    let job = |number: u32| -> Job {
        let hired = Hired {
            program: Arc::clone(&program),
            common: common.clone(),
            number: number.into(),
            is_background: role.background,
            role: role.role,
        };
        Box::new(move |lineup| {
            let ledger = hired.common.ledger.clone();
            let mut worker = match hired.prepare() {
                Ok(worker) => worker,
                Err(failure) => return Halt::Failed(failure),
            };
            let halt = worker.run(lineup.start());
            // Nobody knows what a failed call did.
            if matches!(halt, Halt::Over) {
                worker.summary().into_iter().for_each(|reached| ledger.note(reached));
            }
            halt
        })
    };
    let schedule = role.rate.map(|rate| Arc::new(Schedule::new(rate, common.seed, role.role as u64)));
    Team { schedule, ..Team::new(role.role, steps, (0..role.workers).map(job).collect()) }
}

/// The state that all workers of all roles have in common.
#[derive(Clone)]
struct Common {
    sets: Arc<[Set]>,
    signals: Arc<[Signal]>,
    base: PathBuf,
    seed: u64,
    short: Arc<AtomicU64>,
    content: fsdyno_core::workload::Content,
    /// The common knowledge of workers about the contents of each set.
    shared: Arc<[SetKnowledge]>,
    /// Where each notes what it has left.
    ledger: Ledger,
}

impl Common {
    fn of(parameters: &Flow, base: PathBuf, seed: u64) -> Result<Self, EngineError> {
        let set = |(index, files)| Set::new(parameters, files, index, seed);
        let sets: Result<Arc<[Set]>, Refusal> = parameters.files.0.iter().enumerate().map(set).collect();
        let sets = sets?;
        Ok(Common {
            shared: sets.iter().map(SetKnowledge::of).collect(),
            ledger: Ledger::default(),
            sets,
            signals: parameters.signals().iter().map(|_| Signal::default()).collect(),
            base,
            seed,
            short: Arc::default(),
            content: parameters.content,
        })
    }

    /// Returns the state in which the workers have left the files.
    fn reached(&self) -> Vec<Reached> {
        let sets = self.sets.len() as u64;
        let of_set = |(set, shared): (&Set, &SetKnowledge)| {
            let set = set.files.name.clone();
            match shared {
                SetKnowledge::Nothing => None,
                SetKnowledge::Blocks(blocks) => {
                    let BlockSummary { versions, all, torn } = blocks.summary(MOST_BLOCKS / sets);
                    Some(Reached::Blocks { set, versions, all, torn })
                }
                SetKnowledge::Ends(ends) => Some(Reached::Ends { set, files: ends.summary() }),
            }
        };
        let together = self.sets.iter().zip(self.shared.iter()).filter_map(of_set);
        self.ledger.take().into_iter().chain(together).collect()
    }
}

/// The parts that a worker is created from, in its own thread.
struct Hired {
    program: Arc<Program>,
    common: Common,
    number: u64,
    is_background: bool,
    role: Role,
}

impl Hired {
    fn prepare(self) -> Result<Worker, OperationFailure> {
        let Common { sets, signals, base, seed, short, content, shared, .. } = self.common;
        let failed = |path: &str, errno| {
            let path = format!("{path} of {} {}", self.role, self.number);
            OperationFailure { operation: None, path, errno }
        };
        let open = |set: &Set| {
            let path = base.join(&set.files.name);
            rustix::fs::open(&path, DIRECTORY, Mode::empty()).map_err(|errno| failed(&set.files.name, errno))
        };
        let directories: Result<Vec<OwnedFd>, OperationFailure> = sets.iter().map(open).collect();
        let directories = directories?;
        let [choices, contents] =
            [WORKERS, CONTENTS].map(|what| derive_seed(seed, &[what, self.role as u64, self.number]));
        let (read, longest) = self.program.buffers;
        let verifies = sets.iter().any(|set| set.written.is_some());
        let known = verifies.then(|| {
            let comparer = Comparer::new(content, seed, read);
            let uses = |set: &Set| self.program.sets.contains(&set.files.name);
            Knowledge::new(&sets, shared, self.number, self.program.handles, comparer, uses)
        });
        // Whoever reads what is verified makes it again.
        let pool = if verifies { seed } else { contents };
        let content = (longest > 0).then(|| Content::new(content, pool, longest));
        let random = Xoshiro256PlusPlus::seed_from_u64(choices);
        let mut worker = Worker::new(self.program, sets, directories, self.number, random, contents, content)
            .map_err(|errno| failed("the buffers", errno))?;
        worker.is_background = self.is_background;
        (worker.short, worker.signals, worker.known) = (short, signals, known.map(Box::new));
        Ok(worker)
    }
}

/// Creates the directories of the sets, and the files that are there at the beginning.
fn prepare(
    parameters: &Flow,
    sets: &Arc<[Set]>,
    base: &path::Path,
    is_first: bool,
    session: &mut Session<'_, '_>,
) -> Result<(), EngineError> {
    let begin = Instant::now();
    let whole = parameters.prepares().0;
    verify_room(base, whole, sets.first().map_or("", |set| &set.files.name))?;
    let files: u64 = parameters.files.0.iter().map(|set| parameters.prefilled(set)).sum();
    let cost = whole + FILE_COST * files;
    let (seed, content) = (session.request.seed, parameters.content);
    let (sets, base) = (Arc::clone(sets), base.to_path_buf());
    let work = move |gauge: &background::Gauge| -> Result<TreeSummary, EngineError> {
        let mut content = Content::new(content, seed, PIECE);
        let mut summary = TreeSummary::default();
        for set in sets.iter() {
            make(set, &base, &mut content, gauge, &mut summary)
                .map_err(|failure| EngineError::operation("prepare", failure))?;
        }
        Ok(summary)
    };
    let reporter = &mut *session.reporter;
    let trees = background::run("prepare", session.bounds, work, |gauge| {
        reporter.tell(TrialStep::Prepare, "", gauge.done() as f64 / cost.max(1) as f64, 0);
        true
    })??;
    if is_first {
        session.prepared(begin.elapsed().into(), trees);
    }
    Ok(())
}

/// Creates one set.
fn make(
    set: &Set,
    base: &path::Path,
    content: &mut Content,
    gauge: &background::Gauge,
    summary: &mut TreeSummary,
) -> Result<(), OperationFailure> {
    let name = &set.files.name;
    let failed = |path: &Path, errno| {
        let path = format!("{name}/{}", path.as_c_str().to_string_lossy());
        OperationFailure { operation: None, path, errno }
    };
    let mut path = Path::new();
    let top = base.join(name);
    let made = rustix::fs::mkdirat(CWD, &top, DIRECTORY_MODE);
    made.map_err(|errno| failed(&path, errno))?;
    let top = rustix::fs::open(&top, DIRECTORY, Mode::empty()).map_err(|errno| failed(&path, errno))?;
    summary.directories += 1;
    for worker in 0..if set.files.private { set.sharers } else { 1 } {
        for directory in 0..set.directories() {
            set.directory(worker, directory, &mut path);
            summary.directories += make_directories(&top, &path).map_err(|errno| failed(&path, errno))?;
        }
    }
    for worker in 0..set.sharers {
        for name in 0..set.prefilled(worker) as u32 {
            if gauge.cancelled() {
                return Ok(());
            }
            let file = File { name, incarnation: 0 };
            set.path(worker, name, &mut path);
            let size = set.size(worker, file);
            write(&top, &path, set, worker, file, content, gauge).map_err(|errno| failed(&path, errno))?;
            summary.files += 1;
            summary.bytes += size;
        }
    }
    Ok(())
}

/// Creates each directory of a path that ends in a slash; returns how many did not exist.
fn make_directories(top: &OwnedFd, path: &Path) -> Result<u64, Errno> {
    let path = path.as_c_str().to_bytes();
    let mut made = 0;
    for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        match rustix::fs::mkdirat(top, &path[..end], DIRECTORY_MODE) {
            Ok(()) => made += 1,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(made)
}

/// Creates a file with its contents.
fn write(
    top: &OwnedFd,
    path: &Path,
    set: &Set,
    worker: u64,
    file: File,
    content: &mut Content,
    gauge: &background::Gauge,
) -> Result<(), Errno> {
    let descriptor = rustix::fs::openat(top, path.as_c_str(), CREATE, FILE_MODE)?;
    let (identity, size) = (set.identity(worker, file), set.size(worker, file));
    let mut position = 0;
    while position < size && !gauge.cancelled() {
        let length = (size - position).min(PIECE as u64) as usize;
        match rustix::io::write(&descriptor, content.bytes(identity, position, length))? {
            0 => return Err(Errno::IO),
            written => position += written as u64,
        }
        gauge.advance(length as u64);
    }
    gauge.advance(FILE_COST);
    fsdyno_sys::thread::close(descriptor)
}
