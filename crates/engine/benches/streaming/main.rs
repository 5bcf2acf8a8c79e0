//! The cost of a stream: fsdyno, which times and records every I/O, compared with a bare io_uring loop, a
//! plain loop of system calls, fio with its best settings, and dd, on the same file.
//!
//! They take turns, in a new random order each round. Ratios are taken within a round, and the result is
//! their median over all rounds, with its 95 % interval (by order statistics), because absolute rates of a
//! shared machine drift. The tools are compared on a small file: with a large one, most of the time goes into
//! cache misses of the kernel, which are the same for all; one row shows that as well. Processor time is that
//! of the thread that does the I/O (of the process for dd); the work of kernel threads is the same for all.
//!
//! As root, everything runs on ext4 on a loop device over memory, which is removed at the end, otherwise in a
//! temporary directory. fio must be installed.
//!
//! `cargo bench -p fsdyno-engine --bench streaming [-- --rounds N] [-- --only TEXT] [-- --keep]`;
//! `--only` runs the tasks with this text in their names, `--keep` writes the output to
//! `benches/runs/<date>-<kernel>-<host>/streaming.txt`.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

#[path = "../keep/mod.rs"]
mod keep;
mod table;
mod task;
mod test_directory;
mod tools;

use fsdyno_sys::bare::HandOn;
use fsdyno_sys::timer::Timer;
use keep::keep;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;
use table::table;
use task::{TASKS, Task, Tool};
use test_directory::{TestDirectory, alone, machine};
use tools::{Cost, bare, dd, fio, fsdyno};

fn main() {
    alone();
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
    let count = after("--rounds").map_or(31, |text| text.parse().unwrap());
    let timer = Timer::calibrate();
    let ground = TestDirectory::new();
    let mut out = machine(&ground);
    print!("{out}");
    let only = after("--only").map_or("", String::as_str);
    for task in TASKS.iter().filter(|task| task.name.contains(only)) {
        let path = ground.file(task.file_bytes);
        let begin = out.len();
        table(&mut out, *task, &rounds(*task, &path, count, timer));
        print!("{}", &out[begin..]);
    }
    if arguments.iter().any(|argument| argument == "--keep") {
        println!("kept in {}", keep("streaming.txt", &out).unwrap().display());
    }
}

/// Interleaved rounds; `[round][tool]`.
fn rounds(task: Task, path: &Path, count: usize, timer: Timer) -> Vec<Vec<Cost>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let tools = task.usable();
    let once = |tool| match tool {
        Tool::Fsdyno => fsdyno(task, path, timer),
        // Requests from the page cache complete on submission, so one call for all is fastest.
        Tool::Bare => bare(task, path, if task.direct { HandOn::Each } else { HandOn::Together }),
        Tool::BareGroups => bare(task, path, HandOn::Groups(4)),
        Tool::BareTogether => bare(task, path, HandOn::Together),
        Tool::BareRing => bare(Task { depth: 1, ..task }, path, HandOn::Together),
        Tool::Fio => fio(task, path, true).unwrap(),
        Tool::PlainFio => fio(task, path, false).unwrap(),
        Tool::Dd => dd(task, path),
    };
    // One run that does not count, so that everything is in memory.
    for tool in &tools {
        once(*tool);
    }
    (0..count)
        .map(|_| {
            let mut order: Vec<usize> = (0..tools.len()).collect();
            order.shuffle(&mut random);
            let mut costs = vec![Cost { seconds: 0.0, cpu_seconds: 0.0 }; tools.len()];
            for index in order {
                // Writeback of one tool's data must not slow down the next one.
                rustix::fs::syncfs(std::fs::File::open(path).unwrap()).unwrap();
                costs[index] = once(tools[index]);
            }
            costs
        })
        .collect()
}
