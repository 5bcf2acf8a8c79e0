//! The cost of the interpreter of flows: the same steps on tmpfs as a flow, and in a loop written by hand
//! that times and records each of them with the same instruments.
//!
//! And the cost of verifying it: the same flow with `verify`, which checks 4 KiB of every 10 operations and
//! follows what becomes of its files.
//!
//! They take turns within one run, in a new random order each round. Ratios are taken within a round, and
//! the result is their median over all rounds, with the smallest and the largest. All choose files at random
//! and write from a pool of a mebibyte, in a thread of their own, and all buffers begin on a page: what a
//! system call takes depends on all of that. Where copying is slow because both sides begin at the same
//! offset in a page, as on some processors, it is slow for all.
//!
//! `cargo bench -p fsdyno-engine --bench flow [-- --rounds N] [-- --keep]`; `--keep` writes the output to
//! `benches/runs/<date>-<kernel>-<host>/flow.txt`.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

#[path = "../keep/mod.rs"]
mod keep;

use fsdyno_core::workload::flow::{FileSets, FlowRoles};
use fsdyno_core::workload::{Act, Choice, Flags, Flow, SizeRange};
use fsdyno_core::{Bytes, Operation, Role};
use fsdyno_engine::meter::{Halt, Meter, Object, timed};
use fsdyno_engine::{ReadyFlow, StepIndex};
use fsdyno_sys::timer::Timer;
use fsdyno_testkit::{file_set, flow_role};
use keep::keep;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, StatxFlags};
use std::ffi::CString;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

const ITERATIONS: u64 = 20_000;
const FILES: u64 = 1000;
const SIZE: usize = 4096;
/// Bytes that writes are taken from.
const POOL: usize = 1 << 20;
/// Timed operations in an iteration.
const OPERATIONS: u64 = 10;
const STEPS: [Operation; 7] = [
    Operation::Unlinkat,
    Operation::Create,
    Operation::Lseek,
    Operation::Write,
    Operation::Close,
    Operation::Openat,
    Operation::Read,
];

/// unlink, create, append, close; open, read whole, close; stat.
fn flow(verify: bool) -> Flow {
    let (set, handle) = (|| "mail".to_string(), || "file".to_string());
    let (choose, flags, size) = (Choice::Uniform, Flags::default(), Bytes(SIZE as u64));
    let acts = vec![
        Act::Unlink { set: set(), choose },
        Act::Create { set: set(), in_order: false, handle: handle(), flags },
        Act::Append { handle: handle(), size: SizeRange { low: size, high: size } },
        Act::Close { handle: handle() },
        Act::Open { set: set(), choose, handle: handle(), flags },
        Act::ReadWhole { handle: handle(), buffer: size },
        Act::Close { handle: handle() },
        Act::Stat { set: set(), choose },
    ];
    let files = file_set(&set(), FILES + 1, size.0, 1.0);
    let role = flow_role(Role::Client, 1, acts);
    Flow { files: FileSets(vec![files]), roles: FlowRoles(vec![role]), verify, ..Flow::default() }
}

fn by_flow(place: &Path, verify: bool) -> Duration {
    let (flow, directory) = (flow(verify), tempfile::tempdir_in(place).unwrap());
    let ready = ReadyFlow::prepare(&flow, directory.path(), 42).unwrap();
    ready.perform(&|_| ITERATIONS).unwrap().1
}

/// The same with names and contents made beforehand.
fn by_hand(place: &Path) -> Duration {
    std::thread::scope(|scope| scope.spawn(|| alone(place)).join()).unwrap()
}

fn alone(place: &Path) -> Duration {
    let directory = tempfile::tempdir_in(place).unwrap();
    let top: OwnedFd = rustix::fs::open(directory.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    let names: Vec<CString> = (0..=FILES).map(|number| CString::new(format!("f{number}")).unwrap()).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let (mut pool, mut buffer) = (vec![0; POOL + 2 * SIZE], vec![0; 2 * SIZE]);
    let (pool, buffer) = (on_a_page(&mut pool), &mut on_a_page(&mut buffer)[..SIZE]);
    random.fill(&mut *pool);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    for name in &names {
        let file = rustix::fs::openat(&top, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&file, &pool[..SIZE]).unwrap();
    }
    let steps: &'static [Operation] = Vec::leak([STEPS.as_slice(), &[Operation::Statx]].concat());
    let mut meter = Meter::alone(Timer::calibrate(), Role::Client, steps, u64::MAX);
    let begin = Instant::now();
    let mut iterations = 0..ITERATIONS;
    let ended = iterations.try_for_each(|_| {
        let mut any = || &names[random.random_range(0..names.len())];
        let files = [any(), any(), any()];
        let begin = random.random_range(0..POOL / SIZE) * SIZE;
        one(&mut meter, &top, files, &pool[begin..begin + SIZE], buffer)
    });
    assert!(ended.is_ok(), "{ended:?}");
    begin.elapsed()
}

/// The part of a buffer that begins on a page.
fn on_a_page(bytes: &mut [u8]) -> &mut [u8] {
    let begin = bytes.as_ptr().align_offset(SIZE);
    &mut bytes[begin..]
}

fn one(
    meter: &mut Meter,
    top: &OwnedFd,
    [replaced, read, looked_at]: [&CString; 3],
    bytes: &[u8],
    buffer: &mut [u8],
) -> Result<(), Halt> {
    const NONE: AtFlags = AtFlags::empty();
    let step = |index: u32| StepIndex(index);
    let object = |name| Object { directory: b"mail", name };
    let count = |moved: &usize| *moved as u64;
    let create = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
    timed(meter, step(0), object(replaced), |()| 0, || rustix::fs::unlinkat(top, replaced, NONE))?;
    let file =
        timed(meter, step(1), object(replaced), |_| 0, || rustix::fs::openat(top, replaced, create, mode))?;
    timed(meter, step(2), object(replaced), |_| 0, || rustix::fs::seek(&file, SeekFrom::End(0)))?;
    timed(meter, step(3), object(replaced), count, || rustix::io::write(&file, bytes))?;
    timed(meter, step(4), object(replaced), |()| 0, || fsdyno_sys::thread::close(file))?;
    let open = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = timed(meter, step(5), object(read), |_| 0, || rustix::fs::openat(top, read, open, mode))?;
    while timed(meter, step(6), object(read), count, || rustix::io::read(&file, &mut *buffer))? > 0 {}
    timed(meter, step(4), object(read), |()| 0, || fsdyno_sys::thread::close(file))?;
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    timed(
        meter,
        step(7),
        object(looked_at),
        |_| 0,
        || rustix::fs::statx(top, looked_at, flags, StatxFlags::BASIC_STATS),
    )?;
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().skip_while(|word| *word != name).nth(1).cloned();
    let rounds: usize = after("--rounds").map_or(20, |rounds| rounds.parse().unwrap());
    let place = Path::new("/dev/shm");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut ratios, mut times) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..rounds {
        let mut order = [0, 1, 2];
        order.shuffle(&mut random);
        let mut took = [0.0; 3];
        for which in order {
            let time = if which == 0 { by_hand(place) } else { by_flow(place, which == 2) };
            took[which] = time.as_nanos() as f64 / (ITERATIONS * OPERATIONS) as f64;
            times[which].push(took[which]);
        }
        ratios[0].push(took[1] / took[0]);
        ratios[1].push(took[2] / took[1]);
    }
    let mut text = String::new();
    let [hand, flow, verified] = times.each_mut().map(|times| median(times));
    writeln!(text, "{rounds} rounds of {ITERATIONS} iterations of {OPERATIONS} operations, on tmpfs")
        .unwrap();
    writeln!(text, "by hand    {hand:8.0} ns per operation").unwrap();
    writeln!(text, "as a flow  {flow:8.0} ns per operation").unwrap();
    writeln!(text, "verified   {verified:8.0} ns per operation").unwrap();
    for (name, ratios) in ["flow / hand", "verified / flow"].iter().zip(&mut ratios) {
        let ratio = median(ratios);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        writeln!(text, "{name:<16} {ratio:8.3} (median; {least:.3} to {most:.3})").unwrap();
    }
    print!("{text}");
    if arguments.iter().any(|word| word == "--keep") {
        let path = keep("flow.txt", &text).unwrap();
        println!("kept in {}", path.display());
    }
}
