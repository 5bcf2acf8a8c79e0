//! `postmark` 1.5 (NetApp, 1997-2001): a pool of small files, transactions on it, and its removal.
//!
//! It follows the original file by file: its generator and the order in which it draws ([`script`]) and the
//! calls that the C library makes for its blocks ([`blocks`]), so that the same parameters give the same
//! system calls on files of the same names and sizes. Differences: names are relative to an open directory;
//! file contents are as configured, no two alike, whereas the original writes the same text into all of them;
//! a failing call ends the run, whereas the original continues; and the clock has nanoseconds.

mod blocks;
mod reread;
mod script;
mod twister;

use crate::background;
use crate::compare::Comparer;
use crate::content::{Content, FileIdentity};
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Meter, Object, timed};
use crate::phase::{Job, PhaseLoad};
use crate::plant::{DIRECTORY, DIRECTORY_MODE, FILE_MODE};
use crate::session::Session;
use crate::span::Span;
use crate::tree::derive_seed;
use crate::workload::Work;
use crate::wrong::Problem;
use fsdyno_core::TrialStep;
use fsdyno_core::result::TreeSummary;
use fsdyno_core::workload::postmark::transaction::{
    CLOSE, CREATE, FSTAT, LSEEK, OPEN_APPEND, OPENAT, READ, UNLINKAT, WRITE,
};
use fsdyno_core::workload::{PhaseSpec, Postmark, StepIndex, postmark};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use script::{Deed, File, Script, Sum, Task};
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The three parts, in the words and roles of the result, each with the operations that it performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PostmarkPhase {
    Create,
    Transactions,
    Delete,
}

const PARTS: [PostmarkPhase; 3] = [PostmarkPhase::Create, PostmarkPhase::Transactions, PostmarkPhase::Delete];

impl PostmarkPhase {
    fn spec(self) -> PhaseSpec {
        match self {
            PostmarkPhase::Create => postmark::CREATE,
            PostmarkPhase::Transactions => postmark::TRANSACTIONS,
            PostmarkPhase::Delete => postmark::DELETE,
        }
    }
}

impl Work for Postmark {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let base = session.make_base()?;
        let foreseen = prepare(self, &base, session)?;
        session.settle(postmark::CREATE.name, 0)?;
        let worker = Worker::new(self, base, session.request.seed);
        let worker = Arc::new(Mutex::new(Some(worker)));
        // Like the original, it does not settle between the parts.
        for (part, sum) in PARTS.into_iter().zip(foreseen) {
            let jobs = vec![job(part, Arc::clone(&worker))];
            let span = Span::whole(operations(&sum, self));
            let phase = PhaseLoad::of(part.spec(), span, jobs);
            session.counted_phase(phase, |result| {
                let sum =
                    at(&worker).as_mut().map(|worker| std::mem::take(&mut worker.sum)).unwrap_or_default();
                for role in &mut result.roles {
                    role.counts = sum.named().map(|(name, count)| (name.to_string(), count)).into();
                }
            })?;
        }
        Ok(())
    }

    fn read_again(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        reread::read_again(self, session)
    }
}

/// Creates the directories and computes what each part will do.
fn prepare(
    parameters: &Postmark,
    base: &Path,
    session: &mut Session<'_, '_>,
) -> Result<[Sum; 3], EngineError> {
    let begin = Instant::now();
    let subdirectories = if parameters.subdirectories > 1 { parameters.subdirectories } else { 0 };
    let work = {
        let (parameters, base) = (parameters.clone(), base.to_path_buf());
        move |gauge: &background::Gauge| -> Result<[Sum; 3], EngineError> {
            let foreseen = foresee(&parameters, gauge)?;
            let parent = rustix::fs::open(&base, DIRECTORY, Mode::empty())
                .map_err(EngineError::system("open the directory", &base))?;
            for name in (0..subdirectories).map(|number| format!("s{number}")) {
                if gauge.cancelled() {
                    break;
                }
                rustix::fs::mkdirat(&parent, &name, DIRECTORY_MODE).map_err(|errno| {
                    let failure = OperationFailure { operation: None, path: name.clone(), errno };
                    EngineError::operation("prepare", failure)
                })?;
                gauge.advance(1);
            }
            Ok(foreseen)
        }
    };
    let whole = parameters.number as f64 + parameters.transactions as f64 + f64::from(subdirectories);
    let reporter = &mut *session.reporter;
    let foreseen = background::run("prepare", session.bounds, work, |gauge| {
        reporter.tell(TrialStep::Prepare, "", gauge.done() as f64 / whole, 0);
        true
    })??;
    let trees = TreeSummary { files: 0, directories: subdirectories.into(), bytes: 0 };
    session.prepared(begin.elapsed().into(), trees);
    Ok(foreseen)
}

/// Returns the work that the parts will do, which depends only on the parameters. A pool that would run out
/// of files, which ends the original without a report, is rejected before anything is created.
fn foresee(parameters: &Postmark, gauge: &background::Gauge) -> Result<[Sum; 3], EngineError> {
    let mut script = Script::new(parameters);
    let [mut create, mut transactions, mut delete] = [Sum::default(); 3];
    for _ in 0..parameters.number {
        script.create().into_iter().for_each(|task| create.add(task));
        gauge.advance(1);
    }
    for count in 0..parameters.transactions {
        let Some(tasks) = script.transaction() else {
            let expected = format!(
                "at most {count} with these parameters, because then no files are left in the pool; a larger \
                 'number' or 'bias_create' also helps"
            );
            return Err(EngineError::Parameter { parameter: "transactions", expected });
        };
        tasks.into_iter().flatten().for_each(|task| transactions.add(task));
        gauge.advance(1);
        if gauge.cancelled() {
            break;
        }
    }
    let mut place = 0;
    while let Some(task) = script.delete_next(&mut place) {
        delete.add(task);
    }
    Ok([create, transactions, delete])
}

/// About how many system calls a part makes.
fn operations(sum: &Sum, parameters: &Postmark) -> u64 {
    let block = |block: u64| if parameters.buffering { 4096 } else { block };
    let calls = |files: u64, bytes: u64, size: u64| 3 * files + bytes / size + files / 2;
    calls(sum.created + sum.appended, sum.bytes_written, block(parameters.write.0))
        + calls(sum.read, sum.bytes_read, block(parameters.read.0))
        + sum.deleted
}

/// The only worker, which goes from part to part. It is taken while it works.
type OnlyWorker = Arc<Mutex<Option<Worker>>>;

fn at(shared: &OnlyWorker) -> std::sync::MutexGuard<'_, Option<Worker>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn job(part: PostmarkPhase, shared: OnlyWorker) -> Job {
    Box::new(move |lineup| {
        let Some(mut worker) = at(&shared).take() else { return Halt::Over };
        let directory = match rustix::fs::open(&worker.base, DIRECTORY, Mode::empty()) {
            Ok(directory) => directory,
            Err(errno) => {
                let path = worker.base.display().to_string();
                return Halt::Failed(OperationFailure { operation: None, path, errno });
            }
        };
        let mut meter = lineup.start();
        let halt = match worker.perform(part, &mut meter, &directory) {
            Ok(()) => Halt::Over,
            Err(halt) => halt,
        };
        *at(&shared) = Some(worker);
        halt
    })
}

/// Longest name, with its end: `s999999/4294967295`.
const NAME: usize = 24;

struct Worker {
    base: PathBuf,
    number: u32,
    transactions: u32,
    script: Script,
    content: Content,
    /// The expected content, for comparison with what is read.
    expected: Option<Comparer>,
    data: Vec<u8>,
    /// For the content of files.
    seed: u64,
    buffering: bool,
    read: u64,
    write: u64,
    /// The work that was done in the part.
    sum: Sum,
}

impl Worker {
    fn new(parameters: &Postmark, base: PathBuf, seed: u64) -> Self {
        let longest = |block: u64| block.max(blocks::BUFSIZ) as usize;
        Worker {
            base,
            number: parameters.number,
            transactions: parameters.transactions,
            script: Script::new(parameters),
            content: Content::new(parameters.content, seed, longest(parameters.write.0)),
            expected: parameters
                .verify
                .then(|| Comparer::new(parameters.content, seed, longest(parameters.read.0))),
            data: vec![0; longest(parameters.read.0)],
            seed: derive_seed(seed, &[u64::from_le_bytes(*b"postmark")]),
            buffering: parameters.buffering,
            read: parameters.read.0,
            write: parameters.write.0,
            sum: Sum::default(),
        }
    }

    /// Performs one part until it ends.
    fn perform(&mut self, part: PostmarkPhase, meter: &mut Meter, directory: &OwnedFd) -> Result<(), Halt> {
        match part {
            PostmarkPhase::Create => {
                for _ in 0..self.number {
                    let task = self.script.create();
                    self.task(meter, directory, task)?;
                    meter.item();
                }
            }
            PostmarkPhase::Transactions => {
                for _ in 0..self.transactions {
                    for task in self.script.transaction().unwrap_or_default() {
                        self.task(meter, directory, task)?;
                    }
                    meter.item();
                }
            }
            PostmarkPhase::Delete => {
                let mut place = 0;
                while let Some(task) = self.script.delete_next(&mut place) {
                    delete(meter, postmark::removal::UNLINKAT, directory, task.file)?;
                    self.sum.add(task);
                    meter.item();
                }
            }
        }
        Ok(())
    }

    fn task(&mut self, meter: &mut Meter, directory: &OwnedFd, task: Option<Task>) -> Result<(), Halt> {
        let Some(task) = task else { return Ok(()) };
        match task.deed {
            Deed::Create => self.create(meter, directory, task.file)?,
            Deed::Read => self.read(meter, directory, task.file)?,
            Deed::Append(bytes) => self.append(meter, directory, task.file, bytes)?,
            Deed::Delete => delete(meter, UNLINKAT, directory, task.file)?,
        }
        self.sum.add(task);
        Ok(())
    }

    fn create(&mut self, meter: &mut Meter, directory: &OwnedFd, file: File) -> Result<(), Halt> {
        let mut name = [0; NAME];
        let object = object(file, &mut name);
        let flags = if self.buffering { OFlags::WRONLY | OFlags::TRUNC } else { OFlags::RDWR };
        let flags = flags | OFlags::CREATE | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(directory, object.name, flags, FILE_MODE);
        let descriptor = timed(meter, CREATE, object, |_| 0, open)?;
        self.fill(meter, object, descriptor, file, 0, file.size_bytes)
    }

    fn append(&mut self, meter: &mut Meter, directory: &OwnedFd, file: File, bytes: u64) -> Result<(), Halt> {
        let mut name = [0; NAME];
        let object = object(file, &mut name);
        let flags = if self.buffering { OFlags::WRONLY | OFlags::CREATE } else { OFlags::RDWR };
        let flags = flags | OFlags::APPEND | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(directory, object.name, flags, FILE_MODE);
        let descriptor = timed(meter, OPEN_APPEND, object, |_| 0, open)?;
        if self.buffering {
            timed(meter, LSEEK, object, |_| 0, || rustix::fs::seek(&descriptor, SeekFrom::End(0)))?;
        }
        self.fill(meter, object, descriptor, file, file.size_bytes, bytes)
    }

    /// Writes and closes.
    fn fill(
        &mut self,
        meter: &mut Meter,
        object: Object<'_>,
        descriptor: OwnedFd,
        file: File,
        from: u64,
        bytes: u64,
    ) -> Result<(), Halt> {
        let buffer = self.buffer(meter, object, &descriptor)?;
        let identity = FileIdentity::new(self.seed, file.number.into());
        let content = &mut self.content;
        let mut position = from;
        let mut put = |piece: u64| -> Result<(), Halt> {
            let end = position + piece;
            loop {
                let length = end - position;
                let data = content.bytes(identity, position, length as usize);
                let write = || match rustix::io::write(&descriptor, data) {
                    // No progress without an error would loop forever.
                    Ok(0) if length > 0 => Err(Errno::IO),
                    other => other,
                };
                position += timed(meter, WRITE, object, |written| *written as u64, write)? as u64;
                if position == end {
                    return Ok(());
                }
            }
        };
        match buffer {
            Some(buffer) => blocks::write_buffered(bytes, self.write, buffer, &mut put)?,
            None => blocks::write_raw(bytes, self.write, &mut put)?,
        }
        timed(meter, CLOSE, object, |()| 0, || fsdyno_sys::thread::close(descriptor))
    }

    fn read(&mut self, meter: &mut Meter, directory: &OwnedFd, file: File) -> Result<(), Halt> {
        let mut name = [0; NAME];
        let object = object(file, &mut name);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(directory, object.name, flags, Mode::empty());
        let descriptor = timed(meter, OPENAT, object, |_| 0, open)?;
        let buffer = self.buffer(meter, object, &descriptor)?;
        let identity = FileIdentity::new(self.seed, file.number.into());
        let (data, expected, size) = (&mut self.data, &mut self.expected, file.size_bytes);
        let mut position = 0;
        let mut get = |piece: u64| -> Result<u64, Halt> {
            let piece = &mut data[..piece as usize];
            let read = || rustix::io::read(&descriptor, &mut *piece);
            let read = timed(meter, READ, object, |read| *read as u64, read)?;
            if let Some(comparer) = expected {
                let checked = comparer.check(identity, 0, position, &piece[..read]);
                checked.map_err(|problem| object.wrong(problem))?;
            }
            position += read as u64;
            Ok(read as u64)
        };
        match buffer {
            Some(buffer) => blocks::read_buffered(size, self.read, buffer, &mut get)?,
            None => blocks::read_raw(size, self.read, &mut get)?,
        }
        if self.expected.is_some() && position != size {
            return Err(object.wrong(Problem::Size { expected: size, found: position }));
        }
        timed(meter, CLOSE, object, |()| 0, || fsdyno_sys::thread::close(descriptor))
    }

    /// Size of the stream's buffer, for which the C library queries the file at its first use; `None` without
    /// one.
    fn buffer(
        &self,
        meter: &mut Meter,
        object: Object<'_>,
        descriptor: &OwnedFd,
    ) -> Result<Option<u64>, Halt> {
        if !self.buffering {
            return Ok(None);
        }
        let attributes = timed(meter, FSTAT, object, |_| 0, || rustix::fs::fstat(descriptor))?;
        Ok(Some(blocks::buffer_size(attributes.st_blksize)))
    }
}

fn delete(meter: &mut Meter, step: StepIndex, directory: &OwnedFd, file: File) -> Result<(), Halt> {
    let mut name = [0; NAME];
    let object = object(file, &mut name);
    timed(meter, step, object, |()| 0, || rustix::fs::unlinkat(directory, object.name, AtFlags::empty()))
}

/// Where a file is; its name is written into the buffer.
fn object(file: File, buffer: &mut [u8; NAME]) -> Object<'_> {
    file.name_into(buffer);
    Object { directory: b"", name: CStr::from_bytes_until_nul(buffer).unwrap_or_default() }
}
