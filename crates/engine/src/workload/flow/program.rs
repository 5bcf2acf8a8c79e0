//! A role's steps, compiled: names become numbers, nested lists a flat one with jumps. The interpreter looks
//! nothing up, and allocates nothing.

use fsdyno_core::Operation;
use fsdyno_core::workload::{Act, Choice, Flags, Flow, FlowRole, FlowStep, StepIndex};
use rustix::fs::OFlags;

/// One entry of a program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Code {
    /// Goes on with the next entry if a random number is below this, else with the one at `otherwise`.
    Maybe { below: u64, otherwise: usize },
    /// Begins to count rounds.
    Begin { counter: usize, times: u32 },
    /// Goes back if rounds are left.
    Again { counter: usize, to: usize },
    /// Performs a step.
    Do(Task),
}

/// A step. `set` and `to` are positions of file sets, `handle` and `from` those of open files, sizes are in
/// bytes; the others say under which operations system calls are recorded.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    Open { set: usize, choose: Choice, handle: usize, flags: OFlags, step: StepIndex },
    Create { set: usize, in_order: bool, handle: usize, flags: OFlags, step: StepIndex },
    ReadWhole { handle: usize, size: usize, seek: StepIndex, read: StepIndex },
    ReadNext { handle: usize, size: usize, seek: StepIndex, read: StepIndex },
    ReadRandom { handle: usize, size: usize, read: StepIndex },
    WriteWhole { handle: usize, size: usize, seek: StepIndex, write: StepIndex },
    Append { handle: usize, low: usize, high: usize, steps: [StepIndex; 3] },
    Overwrite { handle: usize, size: usize, in_order: bool, write: StepIndex },
    Fsync { handle: usize, step: StepIndex },
    Fdatasync { handle: usize, step: StepIndex },
    Close { handle: usize, step: StepIndex },
    FsyncDirectory { set: usize, open: StepIndex, sync: StepIndex, close: StepIndex },
    Rename { set: usize, choose: Choice, to: usize, over: bool, step: StepIndex },
    Link { set: usize, choose: Choice, to: usize, step: StepIndex },
    Unlink { set: usize, choose: Choice, step: StepIndex },
    Stat { set: usize, choose: Choice, step: StepIndex },
    Readdir { set: usize, choose: Choice, open: StepIndex, read: StepIndex, close: StepIndex },
    Setxattr { handle: usize, size: usize, step: StepIndex },
    MmapRead { handle: usize, size: usize, steps: [StepIndex; 3] },
    MmapWrite { handle: usize, size: usize, steps: [StepIndex; 3], sync: Option<StepIndex> },
    CopyFileRange { from: usize, to: usize, step: StepIndex },
    Fallocate { handle: usize, size: u64, step: StepIndex },
    Truncate { handle: usize, size: u64, step: StepIndex },
    Think { time_ns: u64 },
    Post { signal: usize, limit: u64 },
    Await { signal: usize, count: u64 },
}

/// The steps that the workers of a role perform.
#[derive(Debug)]
pub(super) struct Program {
    /// Once.
    pub(super) begin: Vec<Code>,
    /// Over and over.
    pub(super) steps: Vec<Code>,
    /// The operations, by the positions that steps are recorded under.
    pub(super) operations: Vec<Operation>,
    pub(super) counters: usize,
    pub(super) handles: usize,
    /// The largest read, and the largest write.
    pub(super) buffers: (usize, usize),
    /// `true` if the program reads directories.
    pub(super) lists: bool,
    /// `true` if the program must know the sizes of files.
    pub(super) is_sized: bool,
    /// `true` if the program maps files.
    pub(super) maps: bool,
    /// The sets that it names.
    pub(super) sets: Vec<String>,
}

impl Program {
    /// The program of a role of a flow that has been checked; with the names of the counters of all roles.
    pub(super) fn of(flow: &Flow, role: &FlowRole, signals: &[String]) -> Self {
        let mut compiler =
            Compiler { flow, role, signals, operations: role.operations(), handles: Vec::new(), counters: 0 };
        let begin = compiler.list(&role.begin);
        let steps = compiler.list(&role.steps);
        let (read, write) = flow.buffers(role);
        let operations = compiler.operations;
        Program {
            begin,
            steps,
            counters: compiler.counters,
            handles: compiler.handles.len(),
            buffers: (read as usize, write as usize),
            lists: operations.contains(&Operation::Readdir),
            is_sized: role.all_steps().into_iter().any(|step| {
                matches!(
                    step.act,
                    Act::WriteWhole { .. }
                        | Act::ReadRandom { .. }
                        | Act::Overwrite { .. }
                        | Act::MmapRead { .. }
                        | Act::MmapWrite { .. }
                )
            }),
            maps: operations.contains(&Operation::Mmap),
            sets: flow.files.0.iter().map(|set| set.name.clone()).filter(|name| role.uses(name)).collect(),
            operations,
        }
    }
}

struct Compiler<'a> {
    flow: &'a Flow,
    role: &'a FlowRole,
    signals: &'a [String],
    operations: Vec<Operation>,
    handles: Vec<&'a str>,
    counters: usize,
}

impl<'a> Compiler<'a> {
    fn list(&mut self, steps: &'a [FlowStep]) -> Vec<Code> {
        let mut codes = Vec::new();
        self.add(steps, &mut codes);
        codes
    }

    fn add(&mut self, steps: &'a [FlowStep], codes: &mut Vec<Code>) {
        for FlowStep { act, probability } in steps {
            let maybe = codes.len();
            if *probability < 1.0 {
                codes.push(Code::Maybe { below: (probability * u64::MAX as f64) as u64, otherwise: 0 });
            }
            self.compile(act, codes);
            let after = codes.len();
            if let Some(Code::Maybe { otherwise, .. }) = codes.get_mut(maybe) {
                *otherwise = after;
            }
        }
    }

    fn set(&self, name: &str) -> usize {
        self.flow.files.0.iter().position(|set| set.name == name).unwrap_or(0)
    }

    fn signal(&self, name: &str) -> usize {
        self.signals.iter().position(|known| known == name).unwrap_or(0)
    }

    fn handle(&mut self, name: &'a str) -> usize {
        let found = self.handles.iter().position(|known| *known == name);
        found.unwrap_or_else(|| {
            self.handles.push(name);
            self.handles.len() - 1
        })
    }

    fn step(&self, operation: Operation) -> StepIndex {
        StepIndex(self.operations.iter().position(|known| *known == operation).unwrap_or(0) as u32)
    }

    /// A file that no step writes to is opened for reading only, as programs do.
    fn flags(&self, name: &str, Flags { direct, dsync, append }: Flags) -> OFlags {
        let writes = self.role.all_steps().into_iter().any(|step| match &step.act {
            Act::WriteWhole { handle, .. }
            | Act::Append { handle, .. }
            | Act::Overwrite { handle, .. }
            | Act::Fallocate { handle, .. }
            | Act::Truncate { handle, .. }
            | Act::MmapWrite { handle, .. } => handle == name,
            Act::CopyFileRange { to, .. } => to == name,
            _ => false,
        });
        let given = [(direct, OFlags::DIRECT), (dsync, OFlags::DSYNC), (append, OFlags::APPEND)];
        let given = given.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag);
        let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        given.fold(access | OFlags::NOFOLLOW | OFlags::CLOEXEC, OFlags::union)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each act")]
    fn compile(&mut self, act: &'a Act, codes: &mut Vec<Code>) {
        use Operation as O;
        let task = match act {
            Act::Repeat { times, steps } => {
                let counter = self.counters;
                self.counters += 1;
                codes.push(Code::Begin { counter, times: *times });
                let to = codes.len();
                self.add(steps, codes);
                return codes.push(Code::Again { counter, to });
            }
            Act::Open { set, choose, handle, flags } => Task::Open {
                set: self.set(set),
                choose: *choose,
                flags: self.flags(handle, *flags),
                handle: self.handle(handle),
                step: self.step(O::Openat),
            },
            Act::Create { set, in_order, handle, flags } => Task::Create {
                set: self.set(set),
                in_order: *in_order,
                flags: self.flags(handle, *flags) | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
                handle: self.handle(handle),
                step: self.step(O::Create),
            },
            Act::ReadWhole { handle, buffer } => {
                let (handle, seek, read) = (self.handle(handle), self.step(O::Lseek), self.step(O::Read));
                Task::ReadWhole { handle, size: buffer.0 as usize, seek, read }
            }
            Act::ReadNext { handle, size } => {
                let (handle, seek, read) = (self.handle(handle), self.step(O::Lseek), self.step(O::Read));
                Task::ReadNext { handle, size: size.0 as usize, seek, read }
            }
            Act::ReadRandom { handle, size } => Task::ReadRandom {
                handle: self.handle(handle),
                size: size.0 as usize,
                read: self.step(O::Pread),
            },
            Act::WriteWhole { handle, buffer } => {
                let (handle, seek, write) = (self.handle(handle), self.step(O::Lseek), self.step(O::Write));
                Task::WriteWhole { handle, size: buffer.0 as usize, seek, write }
            }
            Act::Append { handle, size } => Task::Append {
                handle: self.handle(handle),
                low: size.low.0 as usize,
                high: size.high.0 as usize,
                steps: [O::Lseek, O::Write, O::Ftruncate].map(|one| self.step(one)),
            },
            Act::Overwrite { handle, size, in_order } => Task::Overwrite {
                handle: self.handle(handle),
                size: size.0 as usize,
                in_order: *in_order,
                write: self.step(O::Pwrite),
            },
            Act::Fsync { handle } => Task::Fsync { handle: self.handle(handle), step: self.step(O::Fsync) },
            Act::Fdatasync { handle } => {
                Task::Fdatasync { handle: self.handle(handle), step: self.step(O::Fdatasync) }
            }
            Act::Close { handle } => Task::Close { handle: self.handle(handle), step: self.step(O::Close) },
            Act::FsyncDirectory { set } => Task::FsyncDirectory {
                set: self.set(set),
                open: self.step(O::Openat),
                sync: self.step(O::FsyncDirectory),
                close: self.step(O::Close),
            },
            Act::Rename { set, choose, to, over } => Task::Rename {
                set: self.set(set),
                choose: *choose,
                to: self.set(to),
                over: *over,
                step: self.step(O::Renameat),
            },
            Act::Link { set, choose, to } => Task::Link {
                set: self.set(set),
                choose: *choose,
                to: self.set(to),
                step: self.step(O::Linkat),
            },
            Act::Unlink { set, choose } => {
                Task::Unlink { set: self.set(set), choose: *choose, step: self.step(O::Unlinkat) }
            }
            Act::Stat { set, choose } => {
                Task::Stat { set: self.set(set), choose: *choose, step: self.step(O::Statx) }
            }
            Act::Readdir { set, choose } => Task::Readdir {
                set: self.set(set),
                choose: *choose,
                open: self.step(O::Openat),
                read: self.step(O::Readdir),
                close: self.step(O::Close),
            },
            Act::Setxattr { handle, size } => Task::Setxattr {
                handle: self.handle(handle),
                size: size.0 as usize,
                step: self.step(O::Fsetxattr),
            },
            Act::MmapRead { handle, size } => Task::MmapRead {
                handle: self.handle(handle),
                size: size.0 as usize,
                steps: [O::Mmap, O::MappedRead, O::Munmap].map(|one| self.step(one)),
            },
            Act::MmapWrite { handle, size, sync } => Task::MmapWrite {
                handle: self.handle(handle),
                size: size.0 as usize,
                steps: [O::Mmap, O::MappedWrite, O::Munmap].map(|one| self.step(one)),
                sync: sync.then(|| self.step(O::Msync)),
            },
            Act::CopyFileRange { from, to } => Task::CopyFileRange {
                from: self.handle(from),
                to: self.handle(to),
                step: self.step(O::CopyFileRange),
            },
            Act::Fallocate { handle, size } => {
                Task::Fallocate { handle: self.handle(handle), size: size.0, step: self.step(O::Fallocate) }
            }
            Act::Truncate { handle, size } => {
                Task::Truncate { handle: self.handle(handle), size: size.0, step: self.step(O::Ftruncate) }
            }
            Act::Think { time } => Task::Think { time_ns: time.0 },
            Act::Post { signal, limit } => Task::Post { signal: self.signal(signal), limit: *limit },
            Act::Await { signal, count } => Task::Await { signal: self.signal(signal), count: *count },
        };
        codes.push(Code::Do(task));
    }
}
