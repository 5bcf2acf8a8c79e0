//! The cost of timing: the same small-file operations on tmpfs in a plain loop, in a loop that reads the
//! clock before and after each system call and adds up the difference, and through the engine with everything
//! recorded.
//!
//! The three take turns within one run, in a new random order each round. Ratios are taken within a round,
//! and the result is their median over all rounds, because absolute times of a shared machine drift.
//! `perf stat` counts user instructions over runs with few and with many files, so that start and end cancel
//! out. If the processor's counters are not available, as in most virtual machines, the benchmark
//! single-steps itself (`ptrace`) and counts the steps. That is exact except for string instructions, of
//! which each repetition counts. Both are nearly free of noise.
//!
//! `cargo bench -p fsdyno-engine --bench overhead [-- --rounds N] [-- --keep]`; `--keep` writes the output to
//! `benches/runs/<date>-<kernel>-<host>/overhead.txt`.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

mod instructions;
#[path = "../keep/mod.rs"]
mod keep;

use fsdyno_core::{Operation, Role};
use fsdyno_engine::StepIndex;
use fsdyno_engine::meter::{Halt, Meter, Object, timed};
use fsdyno_sys::timer::Timer;
use instructions::{be_stepped, instruction_table};
use keep::keep;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CStr;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Barrier};

const FILES: usize = 10_000;
const FILE_BYTES: usize = 4096;

/// The parts of one run, in their order, and the timed operations per file in each.
const PARTS: [(&str, u64); 5] =
    [("mkdir", 1), ("create+write+close", 3), ("stat", 1), ("open+read+close", 3), ("unlink", 1)];
const OPERATIONS_PER_FILE: u64 = 9;

const STEPS: &[Operation] = &[
    Operation::Mkdirat,
    Operation::Openat,
    Operation::WriteFirstByte,
    Operation::Close,
    Operation::Statx,
    Operation::ReadFirstByte,
    Operation::Unlinkat,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loop {
    /// Names only: the cost of the benchmark itself.
    Nothing,
    Plain,
    Timed,
    Engine,
}

impl Loop {
    const MEASURED: [Loop; 3] = [Loop::Plain, Loop::Timed, Loop::Engine];

    fn named(name: &str) -> Self {
        let all = [Loop::Nothing, Loop::Plain, Loop::Timed, Loop::Engine];
        all.into_iter().find(|mode| mode.name() == name).unwrap()
    }

    fn name(self) -> &'static str {
        match self {
            Loop::Nothing => "nothing",
            Loop::Plain => "plain",
            Loop::Timed => "timed",
            Loop::Engine => "engine",
        }
    }
}

/// The instrumentation around each system call.
trait Instrument {
    fn call<T>(
        &mut self,
        step: u32,
        object: Object<'_>,
        bytes: impl FnOnce(&T) -> u64,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno>;
}

struct Bare;

impl Instrument for Bare {
    #[inline(always)]
    fn call<T>(
        &mut self,
        _: u32,
        _: Object<'_>,
        _: impl FnOnce(&T) -> u64,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        call()
    }
}

/// One pair of readings of `CLOCK_MONOTONIC` per call, and a sum per operation.
#[derive(Default)]
struct Pairs {
    sums_ns: [u64; STEPS.len()],
}

#[inline(always)]
fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Instrument for Pairs {
    #[inline(always)]
    fn call<T>(
        &mut self,
        step: u32,
        _: Object<'_>,
        _: impl FnOnce(&T) -> u64,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let start = clock_ns(ClockId::Monotonic);
        let result = call();
        self.sums_ns[step as usize] += clock_ns(ClockId::Monotonic) - start;
        result
    }
}

impl Instrument for Meter {
    #[inline(always)]
    fn call<T>(
        &mut self,
        step: u32,
        object: Object<'_>,
        bytes: impl FnOnce(&T) -> u64,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        timed(self, StepIndex(step), object, bytes, call).map_err(|halt| match halt {
            Halt::Failed(failure) | Halt::Late(failure) => failure.errno,
            Halt::Over | Halt::Wrong(_) => Errno::TIMEDOUT,
        })
    }
}

/// Names of files and directories: nine bytes and an end.
fn names(files: usize) -> Vec<[u8; 10]> {
    (0..files)
        .map(|file| {
            let mut name = *b"f00000000\0";
            let mut rest = file;
            for byte in name[1..9].iter_mut().rev() {
                *byte += (rest % 10) as u8;
                rest /= 10;
            }
            name
        })
        .collect()
}

fn name_of(bytes: &[u8; 10]) -> &CStr {
    CStr::from_bytes_with_nul(bytes).unwrap()
}

/// All parts one after the other, with `between` before each and at the end. The directories and the work on
/// them are the same for every instrument.
fn run(
    instrument: &mut impl Instrument,
    top: &OwnedFd,
    names: &[[u8; 10]],
    mut between: impl FnMut(),
) -> Result<(), Errno> {
    let open = |name| rustix::fs::openat(top, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    rustix::fs::mkdirat(top, c"d", Mode::RWXU)?;
    rustix::fs::mkdirat(top, c"f", Mode::RWXU)?;
    let (directories, files) = (open(c"d")?, open(c"f")?);
    let mut data = [7; FILE_BYTES];
    let object = |name| Object { directory: b"f", name };
    between();
    for name in names.iter().map(name_of) {
        instrument.call(0, object(name), |()| 0, || rustix::fs::mkdirat(&directories, name, Mode::RWXU))?;
    }
    between();
    for name in names.iter().map(name_of) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = instrument.call(
            1,
            object(name),
            |_| 0,
            || rustix::fs::openat(&files, name, flags, Mode::RUSR),
        )?;
        instrument.call(2, object(name), |written| *written as u64, || rustix::io::write(&file, &data))?;
        instrument.call(3, object(name), |()| 0, || fsdyno_sys::thread::close(file))?;
    }
    between();
    for name in names.iter().map(name_of) {
        let look = || rustix::fs::statx(&files, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
        std::hint::black_box(instrument.call(4, object(name), |_| 0, look)?);
    }
    between();
    for name in names.iter().map(name_of) {
        let open = || rustix::fs::openat(&files, name, OFlags::RDONLY, Mode::empty());
        let file = instrument.call(1, object(name), |_| 0, open)?;
        instrument.call(5, object(name), |read| *read as u64, || rustix::io::read(&file, &mut data))?;
        instrument.call(3, object(name), |()| 0, || fsdyno_sys::thread::close(file))?;
    }
    between();
    for name in names.iter().map(name_of) {
        let remove = || rustix::fs::unlinkat(&files, name, AtFlags::empty());
        instrument.call(6, object(name), |()| 0, remove)?;
    }
    between();
    Ok(())
}

/// Runs one worker in a directory of its own. Returns wall clock and processor time at each boundary of the
/// parts.
fn worker(mode: Loop, top: &Path, files: usize, timer: Timer, barrier: &Barrier) -> Vec<(u64, u64)> {
    fsdyno_sys::thread::unshare_files().unwrap();
    let names = names(files);
    if mode == Loop::Nothing {
        std::hint::black_box(names);
        return Vec::new();
    }
    let directory = rustix::fs::open(top, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let mut times = Vec::with_capacity(PARTS.len() + 1);
    let between = || {
        // The clock is read before and after waiting for the others: the wait belongs to no part.
        let end = (clock_ns(ClockId::Monotonic), clock_ns(ClockId::ThreadCPUTime));
        barrier.wait();
        times.push((end, (clock_ns(ClockId::Monotonic), clock_ns(ClockId::ThreadCPUTime))));
    };
    match mode {
        Loop::Nothing | Loop::Plain => run(&mut Bare, &directory, &names, between),
        Loop::Timed => {
            let mut pairs = Pairs::default();
            let result = run(&mut pairs, &directory, &names, between);
            std::hint::black_box(pairs.sums_ns);
            result
        }
        Loop::Engine => {
            let mut meter = Meter::alone(timer, Role::Writer, STEPS, 600_000_000_000);
            let result = run(&mut meter, &directory, &names, between);
            assert_eq!(
                meter.counts().iter().map(|row| row.1).sum::<u64>(),
                OPERATIONS_PER_FILE * files as u64
            );
            result
        }
    }
    .unwrap();
    times.windows(2).map(|pair| (pair[1].0.0 - pair[0].1.0, pair[1].0.1 - pair[0].1.1)).collect()
}

/// Runs all workers. Returns, per part, the longest wall-clock time and the processor time of all, in
/// nanoseconds.
fn once(mode: Loop, workers: usize, files: usize, timer: Timer) -> Vec<(u64, u64)> {
    let top = tempfile::tempdir_in("/dev/shm").unwrap();
    let barrier = Arc::new(Barrier::new(workers));
    let threads: Vec<_> = (0..workers)
        .map(|index| {
            let (directory, barrier) = (top.path().join(index.to_string()), Arc::clone(&barrier));
            std::fs::create_dir(&directory).unwrap();
            std::thread::spawn(move || worker(mode, &directory, files, timer, &barrier))
        })
        .collect();
    let times: Vec<Vec<(u64, u64)>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    (0..times[0].len())
        .map(|part| {
            let of_part = || times.iter().map(|worker| worker[part]);
            (of_part().map(|t| t.0).max().unwrap_or(0), of_part().map(|t| t.1).sum())
        })
        .collect()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Interleaved rounds; `[round][mode][part]` of wall-clock and processor time.
fn rounds(rounds: usize, workers: usize, timer: Timer) -> Vec<[Vec<(u64, u64)>; 3]> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    (0..rounds)
        .map(|_| {
            let mut order = [0, 1, 2];
            order.shuffle(&mut random);
            let mut results = [const { Vec::new() }; 3];
            for mode in order {
                results[mode] = once(Loop::MEASURED[mode], workers, FILES, timer);
            }
            results
        })
        .collect()
}

fn table(out: &mut String, workers: usize, rounds: &[[Vec<(u64, u64)>; 3]]) {
    let s = if workers == 1 { "" } else { "s" };
    writeln!(out, "\n{workers} worker{s}, {} files each, {} interleaved rounds", FILES, rounds.len())
        .unwrap();
    writeln!(
        out,
        "{:<20} {:>10} {:>10} {:>10}   {:>12} {:>12} {:>12} {:>12}",
        "1000 files/s",
        "plain",
        "timed",
        "engine",
        "engine/plain",
        "engine/timed",
        "  (quartiles)",
        "CPU e/t"
    )
    .unwrap();
    let parts = (0..PARTS.len()).map(|part| (PARTS[part].0, part..part + 1));
    for (name, range) in parts.chain([("all", 0..PARTS.len())]) {
        let time = |round: &[Vec<(u64, u64)>; 3], mode: usize, of: fn(&(u64, u64)) -> u64| {
            round[mode][range.clone()].iter().map(of).sum::<u64>() as f64
        };
        let rate = |mode| {
            let mut rates: Vec<f64> = rounds
                .iter()
                .map(|round| (workers * FILES) as f64 * 1e6 / time(round, mode, |t| t.0))
                .collect();
            median(&mut rates)
        };
        let ratios = |by: usize, of: fn(&(u64, u64)) -> u64| -> Vec<f64> {
            let mut ratios: Vec<f64> =
                rounds.iter().map(|round| time(round, 2, of) / time(round, by, of)).collect();
            ratios.sort_by(f64::total_cmp);
            ratios
        };
        let mut by_timed = ratios(1, |t| t.0);
        let quartiles = (by_timed[by_timed.len() / 4], by_timed[by_timed.len() * 3 / 4]);
        writeln!(
            out,
            "{name:<20} {:>10.1} {:>10.1} {:>10.1}   {:>12.3} {:>12.3}  ({:.3}-{:.3}) {:>12.3}",
            rate(0),
            rate(1),
            rate(2),
            median(&mut ratios(0, |t| t.0)),
            median(&mut by_timed),
            quartiles.0,
            quartiles.1,
            median(&mut ratios(1, |t| t.1)),
        )
        .unwrap();
    }
    writeln!(
        out,
        "(ratios of time: above 1 the engine is slower; CPU e/t: processor time, engine over timed)"
    )
    .unwrap();
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches(['\t', ':', ' ']);
    let load = read("/proc/loadavg");
    format!(
        "kernel {}, {} x {model}, clocksource {}, load before the run {}\n",
        read("/proc/sys/kernel/osrelease").trim(),
        std::thread::available_parallelism().map_or(1, usize::from),
        read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim(),
        load.split(' ').next().unwrap_or(""),
    )
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| arguments.iter().position(|a| a == flag).map(|at| &arguments[at + 1..]);
    let timer = Timer::calibrate();
    if let Some([mode, files, ..]) = after("--count") {
        once(Loop::named(mode), 1, files.parse().unwrap(), timer);
        return;
    }
    if let Some([mode, files, ..]) = after("--step") {
        be_stepped(Loop::named(mode), files.parse().unwrap(), timer);
        return;
    }
    let count = after("--rounds").and_then(|rest| rest.first()).map_or(40, |text| text.parse().unwrap());
    let mut out = machine();
    writeln!(out, "timer {}, {:.1} ns per reading", timer.source().name(), timer.read_ns()).unwrap();
    for workers in [1, 2] {
        let null = fsdyno_engine::null_overhead_ns(timer, workers).unwrap();
        writeln!(out, "null workload, {workers} worker(s): {null:.1} ns per operation").unwrap();
    }
    for workers in [1, 2] {
        table(&mut out, workers, &rounds(count, workers, timer));
    }
    instruction_table(&mut out);
    print!("{out}");
    if arguments.iter().any(|argument| argument == "--keep") {
        let path = keep("overhead.txt", &out).unwrap();
        println!("kept in {}", path.display());
    }
}
