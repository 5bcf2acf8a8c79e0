//! Counts the user instructions of an operation.

use super::{Bare, Loop, OPERATIONS_PER_FILE, Pairs, STEPS, name_of, names, run};
use fsdyno_core::Role;
use fsdyno_engine::StepIndex;
use fsdyno_engine::meter::{Meter, Object, timed};
use fsdyno_sys::timer::Timer;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags};
use std::fmt::Write as _;
use std::process::Command;

/// The method of counting user instructions.
#[derive(Debug, Clone, Copy)]
enum Count {
    Perf,
    SingleSteps,
}

impl Count {
    /// User instructions of a run with this many files, plus some that do not depend on their number.
    fn of(self, mode: Loop, files: usize) -> Option<f64> {
        match self {
            Count::Perf => by_perf(mode, files),
            Count::SingleSteps => by_steps(mode, files),
        }
    }

    /// User instructions per file: the slope between few and many.
    fn per_file(self, mode: Loop) -> Option<f64> {
        let (few, many) = match self {
            Count::Perf => (2000, 12_000),
            Count::SingleSteps => (10, 60),
        };
        Some((self.of(mode, many)? - self.of(mode, few)?) / (many - few) as f64)
    }
}

fn by_perf(mode: Loop, files: usize) -> Option<f64> {
    let output = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "instructions:u"])
        .arg(std::env::current_exe().ok()?)
        .args(["--count", mode.name(), &files.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().find(|line| line.contains("instructions"))?.split(',').next()?.parse().ok()
}

/// Single-steps through the part of a child between two stops that the child makes itself.
fn by_steps(mode: Loop, files: usize) -> Option<f64> {
    let mut child = Command::new(std::env::current_exe().ok()?)
        .args(["--step", mode.name(), &files.to_string()])
        .spawn()
        .ok()?;
    let pid = Pid::from_raw(child.id() as i32);
    let mut steps = 0_u64;
    let whole = match waitpid(pid, None) {
        Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => loop {
            if ptrace::step(pid, None).is_err() {
                break false;
            }
            match waitpid(pid, None) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => steps += 1,
                Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => break true,
                _ => break false,
            }
        },
        _ => false,
    };
    child.kill().ok()?;
    child.wait().ok()?;
    whole.then_some(steps as f64)
}

/// The code of the child that is single-stepped: the parts, between two stops.
pub fn be_stepped(mode: Loop, files: usize, timer: Timer) {
    let top = tempfile::tempdir_in("/dev/shm").unwrap();
    let directory = rustix::fs::open(top.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let names = names(files);
    let mut meter = Meter::alone(timer, Role::Writer, STEPS, 3_600_000_000_000);
    let steps = if mode == Loop::Engine { STEPS.len() as u32 } else { 0 };
    // As after a long run: the list of the slowest operations is full, and the following ones are not slow
    // enough.
    for step in 0..steps {
        for _ in 0..64 {
            // Longer than a single-stepped operation, even on a busy machine.
            let pause = || {
                std::thread::sleep(std::time::Duration::from_millis(25));
                Ok(())
            };
            let object = Object { directory: b"f", name: c"x" };
            timed(&mut meter, StepIndex(step), object, |()| 0, pause).unwrap();
        }
    }
    ptrace::traceme().unwrap();
    raise(Signal::SIGSTOP).unwrap();
    match mode {
        Loop::Nothing => {
            names.iter().map(name_of).for_each(|name| {
                std::hint::black_box(name);
            });
            Ok(())
        }
        Loop::Plain => run(&mut Bare, &directory, &names, || ()),
        Loop::Timed => {
            let mut pairs = Pairs::default();
            let result = run(&mut pairs, &directory, &names, || ());
            std::hint::black_box(pairs.sums_ns);
            result
        }
        Loop::Engine => run(&mut meter, &directory, &names, || ()),
    }
    .unwrap();
    raise(Signal::SIGSTOP).unwrap();
}

pub fn instruction_table(out: &mut String) {
    let ways = [(Count::Perf, "counted by perf"), (Count::SingleSteps, "counted by single-stepping")];
    let found = ways.into_iter().find_map(|(count, way)| Some((count, way, count.per_file(Loop::Nothing)?)));
    let Some((count, way, nothing)) = found else {
        writeln!(out, "\nuser instructions: neither perf nor ptrace can count them here").unwrap();
        return;
    };
    writeln!(out, "\nuser instructions, {way}, {OPERATIONS_PER_FILE} timed operations per file").unwrap();
    writeln!(out, "{:<10} {:>10} {:>14}", "", "per file", "per operation").unwrap();
    let mut per_file = Vec::new();
    for mode in Loop::MEASURED {
        let Some(count) = count.per_file(mode).map(|count| count - nothing) else { continue };
        writeln!(out, "{:<10} {count:>10.0} {:>14.1}", mode.name(), count / OPERATIONS_PER_FILE as f64)
            .unwrap();
        per_file.push(count);
    }
    if let [_, timed, engine] = per_file[..] {
        writeln!(out, "engine/timed {:.3}", engine / timed).unwrap();
    }
}
