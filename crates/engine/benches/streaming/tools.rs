//! The tools. Each runs a task once and returns its cost.

use crate::task::Task;
use fsdyno_core::workload::Content;
use fsdyno_engine::StreamingPass;
use fsdyno_sys::bare::{HandOn, Reads};
use fsdyno_sys::timer::Timer;
use nix::sys::resource::{UsageWho, getrusage};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;

const PAGE: usize = 4096;

/// The time and processor time that one run took.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// The positions of a task, the same for each of our own loops.
struct Positions {
    task: Task,
    random: Xoshiro256PlusPlus,
    next: u64,
}

impl Positions {
    fn new(task: Task) -> Self {
        Positions { task, random: Xoshiro256PlusPlus::seed_from_u64(1), next: 0 }
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        let Task { random, block, file_bytes, .. } = self.task;
        if random {
            return self.random.random_range(0..file_bytes / block) * block;
        }
        let position = self.next;
        self.next = if position + block < file_bytes { position + block } else { 0 };
        position
    }
}

fn open(task: Task, file: &Path) -> OwnedFd {
    let access = if task.writes { OFlags::WRONLY } else { OFlags::RDONLY };
    let direct = if task.direct { OFlags::DIRECT } else { OFlags::empty() };
    rustix::fs::open(file, access | direct, Mode::empty()).unwrap()
}

/// The cost of one of our own loops on its thread, without its preparation, which fio and dd also leave out.
struct Stopwatch(Cost);

impl Stopwatch {
    fn time<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let clock = |clock| {
            let now = clock_gettime(clock);
            now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
        };
        let begin = (clock(ClockId::Monotonic), clock(ClockId::ThreadCPUTime));
        let result = run();
        self.0.seconds += clock(ClockId::Monotonic) - begin.0;
        self.0.cpu_seconds += clock(ClockId::ThreadCPUTime) - begin.1;
        result
    }
}

/// Runs one of our own loops on a separate thread.
fn ours(work: impl FnOnce(&mut Stopwatch) + Send) -> Cost {
    let run = || {
        let mut stopwatch = Stopwatch(Cost { seconds: 0.0, cpu_seconds: 0.0 });
        work(&mut stopwatch);
        stopwatch.0
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

pub fn bare(task: Task, path: &Path, hand_on: HandOn) -> Cost {
    let file = open(task, path);
    let mut positions = Positions::new(task);
    let length = task.block as usize;
    let one_by_one = |stopwatch: &mut Stopwatch, positions: &mut Positions| {
        // On a page boundary, like the buffers of all others, because that makes copying faster.
        let mut memory = vec![0; length + PAGE];
        let begin = memory.as_ptr().align_offset(PAGE);
        let buffer = &mut memory[begin..][..length];
        // Zeros are written as well, because untouched memory has no pages yet.
        let content = if task.zeros { 0..=0 } else { 0..=u8::MAX };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        buffer.fill_with(|| random.random_range(content.clone()));
        stopwatch.time(|| {
            for _ in 0..task.count {
                let position = positions.next();
                let moved = if task.writes {
                    rustix::io::pwrite(&file, buffer, position)
                } else {
                    rustix::io::pread(&file, &mut buffer[..], position)
                };
                assert_eq!(moved, Ok(length));
            }
        });
    };
    ours(|stopwatch| match task.depth {
        0 => one_by_one(stopwatch, &mut positions),
        depth => {
            let reads = Reads { depth, want: task.batch as usize, hand_on, length, count: task.count };
            let ready = reads.ready(file.as_fd()).unwrap();
            stopwatch.time(|| ready.run(|| positions.next())).unwrap();
        }
    })
}

/// The loop and the content of a worker of the workload.
pub fn fsdyno(task: Task, path: &Path, timer: Timer) -> Cost {
    let Task { writes, direct, depth, batch, block, file_bytes, count, .. } = task;
    let pass = StreamingPass {
        writes,
        direct,
        depth: (depth > 0).then_some(depth),
        batch,
        block: block as usize,
        file_bytes,
        random: task.random.then_some((1, count)),
        content: if task.zeros { Content::Zeros } else { Content::Random },
    };
    let per_pass = if task.random { count } else { file_bytes / block };
    ours(|stopwatch| {
        for _ in 0..count / per_pass {
            let ready = pass.open(path, timer).unwrap();
            let counts = stopwatch.time(|| ready.run()).unwrap();
            assert_eq!(counts.iter().map(|row| row.1).sum::<u64>(), per_pass);
        }
    })
}

/// fio as fast as its settings allow: no timestamps except at the ends, no block map, the whole queue at
/// once.
pub fn fio(task: Task, path: &Path, batches: bool) -> Option<Cost> {
    let rw = match (task.random, task.writes) {
        (true, false) => "randread",
        (true, true) => "randwrite",
        (false, false) => "read",
        (false, true) => "write",
    };
    let mut command = Command::new("fio");
    command
        .args(["--name=x", "--output-format=json", "--invalidate=0", "--gtod_reduce=1", "--thread"])
        .args(["--norandommap", "--random_generator=lfsr", "--clocksource=cpu", "--overwrite=1"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--rw={rw}"))
        .arg(format!("--bs={}", task.block))
        .arg(format!("--size={}", task.file_bytes))
        .arg(format!("--io_size={}", task.count * task.block))
        .arg(format!("--direct={}", u8::from(task.direct)))
        .arg(format!("--zero_buffers={}", u8::from(task.zeros)));
    match task.depth {
        0 => command.arg("--ioengine=psync"),
        depth => command
            .args(["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1"])
            .arg(format!("--iodepth={depth}")),
    };
    if task.depth > 0 && batches {
        let depth = task.depth;
        command
            .arg(format!("--iodepth_batch_submit={depth}"))
            .arg(format!("--iodepth_batch_complete_max={depth}"))
            .arg(format!("--iodepth_batch_complete_min={}", task.batch_of_fio.unwrap_or(task.batch)));
    }
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let job = &report["jobs"][0];
    let part = &job[if task.writes { "write" } else { "read" }];
    assert_eq!(part["total_ios"].as_u64(), Some(task.count));
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    // The rate is computed from microseconds, whereas the run time is printed in milliseconds.
    let seconds = task.count as f64 / number(&part["iops"]);
    let share = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0;
    Some(Cost { seconds, cpu_seconds: share * seconds })
}

/// dd, by its own clock; it goes through the file once, and writes zeros.
pub fn dd(task: Task, path: &Path) -> Cost {
    let cpu = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    };
    let begin = cpu();
    let blocks = task.file_bytes / task.block;
    let mut seconds = 0.0;
    for _ in 0..task.count / blocks {
        let mut command = Command::new("dd");
        command.env("LC_ALL", "C").arg(format!("bs={}", task.block)).arg(format!("count={blocks}"));
        if task.writes {
            command.arg("if=/dev/zero").arg(format!("of={}", path.display())).arg("conv=notrunc");
        } else {
            command.arg(format!("if={}", path.display())).arg("of=/dev/null");
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let (_, rest) = text.split_once("copied, ").unwrap();
        seconds += rest.split_once(" s").unwrap().0.parse::<f64>().unwrap();
    }
    Cost { seconds, cpu_seconds: cpu() - begin }
}

pub fn has_fio() -> bool {
    Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success())
}
