//! What a stream costs: fsdyno, which times and records every I/O, against a bare io_uring loop, a plain loop of system
//! calls, fio with its best settings, and dd, on the same file.
//!
//! They take turns, in a new random order each round; ratios are taken within a round, and their median over rounds counts,
//! with its 95 % interval (by order statistics), because absolute rates of a shared machine drift. The file is small where
//! the tools are compared: with a large one most of the time goes into the kernel's cache misses, the same for all; one row
//! shows that, too. Processor time is that of the thread that does the I/O (of the process for dd); what kernel threads do
//! for it is the same for all.
//!
//! As root everything happens on ext4 on a loop device over memory, which goes when this ends, else in a temporary directory.
//! fio needs to be installed. `cargo bench -p fsdyno-engine --bench streaming [-- --rounds N] [-- --only TEXT] [-- --keep]`;
//! `--only` runs what has the text in its name, `--keep` writes the output to
//! `benches/runs/<date>-<kernel>-<host>/streaming.txt`.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

mod keep;

use fsdyno_core::workload::Content;
use fsdyno_engine::StreamingPass;
use fsdyno_sys::bare::Reads;
use fsdyno_sys::timer::Timer;
use keep::keep;
use nix::sys::resource::{UsageWho, getrusage};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const DEPTH: u32 = 32;
const SMALL: u64 = 4096;
const LARGE: u64 = MIB;
const PAGE: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Fsdyno,
    /// Nothing but the system calls.
    Bare,
    /// The same through a ring, where the others make one system call after the other.
    BareRing,
    /// With its best settings.
    Fio,
    /// As it comes: it hands on every request by itself.
    PlainFio,
    Dd,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::Fsdyno => "fsdyno",
            Tool::Bare => "bare",
            Tool::BareRing => "bare ring",
            Tool::Fio => "fio",
            Tool::PlainFio => "fio 1:1",
            Tool::Dd => "dd",
        }
    }
}

/// What all do.
#[derive(Debug, Clone, Copy)]
struct Task {
    name: &'static str,
    random: bool,
    writes: bool,
    direct: bool,
    /// 0: one system call after the other.
    depth: u32,
    /// Completions that each tool waits for before it hands on more.
    batch: u32,
    /// The same of fio with its best settings, where that is something else.
    batch_of_fio: Option<u32>,
    block: u64,
    file_bytes: u64,
    count: u64,
    /// Writes nothing but zeros, as dd does: random bytes cost more on some processors, 10 % on an AMD EPYC.
    zeros: bool,
    tools: &'static [Tool],
    /// What the median ratio of rates should be at least, by tool.
    aims: &'static [(Tool, f64)],
}

const READ: Task = Task {
    name: "",
    random: true,
    writes: false,
    direct: false,
    depth: DEPTH,
    batch: 1,
    // From the page cache all end at once.
    batch_of_fio: Some(DEPTH),
    block: SMALL,
    file_bytes: 16 * MIB,
    count: 800_000,
    zeros: false,
    tools: &[Tool::Fsdyno, Tool::Bare, Tool::Fio],
    aims: &[],
};

/// All tools wait for as many completions. Where that is one, the bare loop hands on each request by itself as soon as there is
/// a place for it, as fio does when it is not told otherwise: quicker than to look at all that ended first.
const DIRECT: Task = Task {
    direct: true,
    batch_of_fio: None,
    file_bytes: 256 * MIB,
    count: 150_000,
    tools: &[Tool::Fsdyno, Tool::Bare, Tool::Fio, Tool::PlainFio],
    aims: &[(Tool::Bare, 1.0), (Tool::Fio, 1.0)],
    ..READ
};

const WRITE: Task =
    Task { random: false, writes: true, depth: 0, block: LARGE, file_bytes: 1024 * MIB, count: 1024, ..READ };

const TASKS: &[Task] = &[
    Task {
        name: "random 4 KiB reads, page cache, depth 32, file of 16 MiB",
        aims: &[(Tool::Bare, 0.95), (Tool::Fio, 1.2)],
        ..READ
    },
    Task { name: "random 4 KiB reads, page cache, depth 32, file of 1 GiB", file_bytes: 1024 * MIB, ..READ },
    Task {
        name: "random 4 KiB reads, page cache, one at a time",
        depth: 0,
        count: 500_000,
        tools: &[Tool::Fsdyno, Tool::Bare, Tool::BareRing, Tool::Fio],
        // A plain loop, which reads no clock, is beside them to show what the two readings cost.
        aims: &[(Tool::BareRing, 1.0), (Tool::Fio, 1.0)],
        ..READ
    },
    Task { name: "random 4 KiB reads, O_DIRECT, depth 32, waiting for one", ..DIRECT },
    Task { name: "random 4 KiB reads, O_DIRECT, depth 32, in batches of 8", batch: 8, ..DIRECT },
    Task { name: "random 4 KiB reads, O_DIRECT, depth 32, in batches of 16", batch: 16, ..DIRECT },
    Task { name: "random 4 KiB reads, O_DIRECT, depth 32, in batches of 32", batch: 32, ..DIRECT },
    Task {
        name: "sequential 1 MiB reads, page cache, one at a time",
        random: false,
        depth: 0,
        block: LARGE,
        file_bytes: 1024 * MIB,
        count: 4096,
        tools: &[Tool::Fsdyno, Tool::Bare, Tool::Fio, Tool::Dd],
        aims: &[(Tool::Dd, 1.0)],
        ..READ
    },
    Task {
        name: "sequential 1 MiB writes of zeros, page cache, one at a time",
        zeros: true,
        tools: &[Tool::Fsdyno, Tool::Bare, Tool::Fio, Tool::Dd],
        aims: &[(Tool::Dd, 1.0)],
        ..WRITE
    },
    Task { name: "sequential 1 MiB writes of random bytes, page cache, one at a time", ..WRITE },
];

/// What one run took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    seconds: f64,
    cpu_seconds: f64,
}

/// The positions of a task, the same for every tool of ours.
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

/// What one of our own loops takes on its thread, without what makes it ready: fio and dd leave that out, too.
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

/// Runs one of our own loops on a thread of its own.
fn ours(work: impl FnOnce(&mut Stopwatch) + Send) -> Cost {
    let run = || {
        let mut stopwatch = Stopwatch(Cost { seconds: 0.0, cpu_seconds: 0.0 });
        work(&mut stopwatch);
        stopwatch.0
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

fn bare(task: Task, path: &Path) -> Cost {
    let file = open(task, path);
    let mut positions = Positions::new(task);
    let length = task.block as usize;
    let one_by_one = |stopwatch: &mut Stopwatch, positions: &mut Positions| {
        // On a page boundary, as the buffers of all others are: copying is quicker so.
        let mut memory = vec![0; length + PAGE];
        let begin = memory.as_ptr().align_offset(PAGE);
        let buffer = &mut memory[begin..][..length];
        // Zeros are written, too: memory that nobody has touched is not there yet.
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
            // What comes from the page cache is done when it is handed on: then one call for all is quickest.
            let (want, each) = (task.batch as usize, task.direct && task.batch == 1);
            let reads = Reads { depth, want, each, length, count: task.count };
            let ready = reads.ready(file.as_fd()).unwrap();
            stopwatch.time(|| ready.run(|| positions.next())).unwrap();
        }
    })
}

/// What a worker of the workload does, its loop and its content.
fn fsdyno(task: Task, path: &Path, timer: Timer) -> Cost {
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

/// fio, as quick as its settings make it: no timestamps but at the ends, no map of blocks, all of the queue at once.
fn fio(task: Task, path: &Path, batches: bool) -> Option<Cost> {
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
    // The rate is computed from microseconds, where the run time is printed in milliseconds.
    let seconds = task.count as f64 / number(&part["iops"]);
    let share = (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0;
    Some(Cost { seconds, cpu_seconds: share * seconds })
}

/// dd, by its own clock; it goes through the file once, and writes zeros.
fn dd(task: Task, path: &Path) -> Cost {
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

/// Interleaved rounds; `[round][tool]`.
fn rounds(task: Task, path: &Path, count: usize, timer: Timer) -> Vec<Vec<Cost>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let tools = usable(task);
    let once = |tool| match tool {
        Tool::Fsdyno => fsdyno(task, path, timer),
        Tool::Bare => bare(task, path),
        Tool::BareRing => bare(Task { depth: 1, ..task }, path),
        Tool::Fio => fio(task, path, true).unwrap(),
        Tool::PlainFio => fio(task, path, false).unwrap(),
        Tool::Dd => dd(task, path),
    };
    // Once for nothing, so that everything is in memory.
    for tool in &tools {
        once(*tool);
    }
    (0..count)
        .map(|_| {
            let mut order: Vec<usize> = (0..tools.len()).collect();
            order.shuffle(&mut random);
            let mut costs = vec![Cost { seconds: 0.0, cpu_seconds: 0.0 }; tools.len()];
            for index in order {
                // What one has written must not be written back on the time of the next.
                rustix::fs::syncfs(std::fs::File::open(path).unwrap()).unwrap();
                costs[index] = once(tools[index]);
            }
            costs
        })
        .collect()
}

fn usable(task: Task) -> Vec<Tool> {
    let fio = Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success());
    task.tools.iter().copied().filter(|tool| !matches!(tool, Tool::Fio | Tool::PlainFio) || fio).collect()
}

/// The median and its 95 % interval: the order statistics between which it lies with at least that probability.
fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let mut rank = 0;
    // Probability that at most `rank` of n fair coins fall on one side.
    let mut term = 0.5_f64.powi(n as i32);
    let mut tail = term;
    while tail <= 0.025 {
        rank += 1;
        term *= (n - rank + 1) as f64 / rank as f64;
        tail += term;
    }
    let low = rank.saturating_sub(1);
    let middle = (values[(n - 1) / 2] + values[n / 2]) / 2.0;
    (middle, values[low], values[n - 1 - low])
}

fn table(out: &mut String, task: Task, rounds: &[Vec<Cost>]) {
    let tools = usable(task);
    let large = task.block >= LARGE;
    let (unit, cpu_unit) = if large { ("GB/s", "CPU us per MiB") } else { ("1000/s", "CPU ns per I/O") };
    writeln!(out, "\n{}, {} interleaved rounds of {}", task.name, rounds.len(), task.count).unwrap();
    writeln!(
        out,
        "{:<8} {unit:>10} {cpu_unit:>15}   {:<38} {:<20}",
        "", "fsdyno's rate over its rate", "fsdyno's CPU over its"
    )
    .unwrap();
    for (index, tool) in tools.iter().enumerate() {
        let column = |of: &dyn Fn(&[Cost]) -> f64| median(rounds.iter().map(|round| of(round)).collect());
        let rate = |cost: &Cost| match large {
            true => (task.count * task.block) as f64 / cost.seconds / 1e9,
            false => task.count as f64 / cost.seconds / 1e3,
        };
        let scale = if large { 1e6 } else { 1e9 };
        let cpu = column(&|round| round[index].cpu_seconds * scale / task.count as f64).0;
        write!(out, "{:<8} {:>10.1} {cpu:>15.0}", tool.name(), column(&|round| rate(&round[index])).0)
            .unwrap();
        if *tool != Tool::Fsdyno {
            let ratio = column(&|round| round[index].seconds / round[0].seconds);
            let (aim, verdict) = verdict(task, *tool, ratio);
            let cpu = column(&|round| round[0].cpu_seconds / round[index].cpu_seconds);
            let rates = format!("{:.3} ({:.3}-{:.3}){aim}{verdict}", ratio.0, ratio.1, ratio.2);
            write!(out, "   {rates:<38} {:.3} ({:.3}-{:.3})", cpu.0, cpu.1, cpu.2).unwrap();
        }
        writeln!(out).unwrap();
    }
}

/// Below this share of an aim a median is no noise, however wide its interval.
const NEAR: f64 = 0.95;

/// The aim and what came of it: missed when the whole interval is below; when only the median is, it is within noise if it
/// is near, and else nothing can be said.
fn verdict(task: Task, tool: Tool, (middle, _, high): (f64, f64, f64)) -> (String, &'static str) {
    let Some((_, aim)) = task.aims.iter().find(|(of, _)| *of == tool) else { return Default::default() };
    let verdict = match () {
        () if middle >= *aim => "reached",
        () if high < *aim => "MISSED",
        () if middle >= *aim * NEAR => "within noise",
        () => "UNCLEAR",
    };
    (format!(" aim {aim}: "), verdict)
}

/// Where the file lies: ext4 on a loop device, unmounted at the end, or a temporary directory.
struct Ground {
    directory: tempfile::TempDir,
    mounted: Option<Mounted>,
}

struct Mounted {
    point: PathBuf,
    scheduler: Scheduler,
}

/// A device that has no scheduler until it gets its own back. A loop device keeps the one that somebody else gave it, also
/// when it is attached again, and bfq costs seven times what is compared here.
struct Scheduler {
    setting: PathBuf,
    before: String,
}

impl Scheduler {
    fn none(point: &Path) -> Self {
        let device = rustix::fs::stat(point).unwrap().st_dev;
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let setting = Path::new("/sys/dev/block").join(number).join("queue/scheduler");
        let in_force = || {
            let text = std::fs::read_to_string(&setting).unwrap();
            let (_, rest) = text.split_once('[').unwrap();
            rest.split(']').next().unwrap().to_string()
        };
        let before = in_force();
        std::fs::write(&setting, "none").unwrap();
        assert_eq!(in_force(), "none");
        Scheduler { setting, before }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let restored = std::fs::write(&self.setting, &self.before);
        assert!(restored.is_ok(), "'{}' was {}", self.setting.display(), self.before);
    }
}

impl Ground {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        if rustix::process::geteuid().is_root() && memory.is_dir() {
            let directory = tempfile::tempdir_in(memory).unwrap();
            let (image, point) = (directory.path().join("image"), directory.path().join("mounted"));
            std::fs::File::create(&image).unwrap().set_len(3 << 30).unwrap();
            std::fs::create_dir(&point).unwrap();
            let run = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
            let lazy = "lazy_itable_init=0,lazy_journal_init=0";
            if run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", lazy]).arg(&image))
                && run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point))
            {
                // The loop device has it open; so it goes with the mount.
                std::fs::remove_file(&image).unwrap();
                let scheduler = Scheduler::none(&point);
                return Ground { directory, mounted: Some(Mounted { point, scheduler }) };
            }
        }
        Ground { directory: tempfile::tempdir_in("/var/tmp").unwrap(), mounted: None }
    }

    fn describe(&self) -> &'static str {
        match self.mounted {
            Some(_) => "ext4 on a loop device over memory, scheduler none",
            None => "a temporary directory",
        }
    }

    /// A file of this length, full of random bytes.
    fn file(&self, bytes: u64) -> PathBuf {
        let path = self.mounted.as_ref().map_or(self.directory.path(), |mounted| &mounted.point).join("file");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut block = vec![0; LARGE as usize];
        let mut file = std::fs::File::create(&path).unwrap();
        for _ in 0..bytes / LARGE {
            random.fill(&mut block[..]);
            std::io::Write::write_all(&mut file, &block).unwrap();
        }
        file.sync_all().unwrap();
        path
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(Mounted { point, scheduler }) = self.mounted.take() {
            // While the device is there to be asked.
            drop(scheduler);
            // The kernel lets go of what a ring had open some time after the ring has ended.
            let umount =
                || Command::new("umount").arg(&point).output().is_ok_and(|output| output.status.success());
            let unmounted = (0..250).any(|attempt| {
                std::thread::sleep(Duration::from_millis(if attempt == 0 { 0 } else { 20 }));
                umount()
            });
            assert!(unmounted, "'{}' stays mounted", point.display());
        }
    }
}

fn machine(ground: &Ground) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let fio = Command::new("fio").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let fio = String::from_utf8_lossy(&fio);
    format!(
        "kernel {}, {} x {}, load before the run {}, {}\n{}\n",
        read("/proc/sys/kernel/osrelease").trim(),
        std::thread::available_parallelism().map_or(1, usize::from),
        model.trim_start_matches(['\t', ':', ' ']),
        read("/proc/loadavg").split(' ').next().unwrap_or(""),
        if fio.is_empty() { "no fio" } else { fio.trim() },
        ground.describe(),
    )
}

/// Goes on, as root, in a mount namespace of its own: what is mounted there ends with this process, however that ends.
fn alone() {
    const WITHIN: &str = "--within";
    if rustix::process::geteuid().is_root() && std::env::args().all(|argument| argument != WITHIN) {
        let error = Command::new("unshare").arg("--mount").args(std::env::args_os()).arg(WITHIN).exec();
        panic!("unshare: {error}");
    }
}

fn main() {
    alone();
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| arguments.iter().position(|a| a == flag).and_then(|at| arguments.get(at + 1));
    let count = after("--rounds").map_or(31, |text| text.parse().unwrap());
    let timer = Timer::calibrate();
    let ground = Ground::new();
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
