//! The tasks: what runs, with which tools, and the aims.

use crate::tools::has_fio;

const MIB: u64 = 1 << 20;
const DEPTH: u32 = 32;
const SMALL: u64 = 4096;
pub const LARGE: u64 = MIB;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Fsdyno,
    /// A loop of system calls and nothing else.
    Bare,
    /// The same with another way to hand on: the first free slot alone, then groups of four.
    BareGroups,
    /// The same with another way to hand on: all free slots in one submission instead of one each.
    BareTogether,
    /// The same through a ring, in tasks in which the others make one system call at a time.
    BareRing,
    /// With its best settings.
    Fio,
    /// With default settings: it submits every request separately.
    PlainFio,
    Dd,
}

impl Tool {
    pub fn name(self) -> &'static str {
        match self {
            Tool::Fsdyno => "fsdyno",
            Tool::Bare => "bare",
            Tool::BareGroups => "bare 1+4",
            Tool::BareTogether => "bare all",
            Tool::BareRing => "bare ring",
            Tool::Fio => "fio",
            Tool::PlainFio => "fio 1:1",
            Tool::Dd => "dd",
        }
    }
}

/// The task that every tool performs.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    pub name: &'static str,
    pub random: bool,
    pub writes: bool,
    pub direct: bool,
    /// 0: one system call after the other.
    pub depth: u32,
    /// Completions that each tool waits for before it submits more.
    pub batch: u32,
    /// The same for fio with its best settings, if it differs.
    pub batch_of_fio: Option<u32>,
    pub block: u64,
    pub file_bytes: u64,
    pub count: u64,
    /// Writes nothing but zeros, as dd does: random bytes cost more on some processors, 10 % on an AMD EPYC.
    pub zeros: bool,
    pub tools: &'static [Tool],
    /// The minimum for the median ratio of rates, by tool.
    pub aims: &'static [(Tool, f64)],
    /// Groups of tools that do the same work in different ways, with the minimum for the lowest of the median
    /// ratios, that to the best of them.
    pub aims_at_best: &'static [(&'static str, &'static [Tool], f64)],
}

impl Task {
    /// The tools that are available.
    pub fn usable(&self) -> Vec<Tool> {
        let fio = has_fio();
        self.tools.iter().copied().filter(|tool| !matches!(tool, Tool::Fio | Tool::PlainFio) || fio).collect()
    }
}

const READ: Task = Task {
    name: "",
    random: true,
    writes: false,
    direct: false,
    depth: DEPTH,
    batch: 1,
    // In the page cache all requests complete at once.
    batch_of_fio: Some(DEPTH),
    block: SMALL,
    file_bytes: 16 * MIB,
    count: 800_000,
    zeros: false,
    tools: &[Tool::Fsdyno, Tool::Bare, Tool::Fio],
    aims: &[],
    aims_at_best: &[],
};

/// All tools but plain fio wait for the same number of completions. How freed slots are handed on decides
/// the rate, and which way is faster depends on how quickly a waiting thread wakes up: so each tool has every
/// way that it knows, and the fastest one of them counts.
const DIRECT: Task = Task {
    direct: true,
    batch_of_fio: None,
    file_bytes: 256 * MIB,
    count: 150_000,
    tools: &[Tool::Fsdyno, Tool::Bare, Tool::BareGroups, Tool::BareTogether, Tool::Fio, Tool::PlainFio],
    aims_at_best: &[("best bare", BARE, 1.0), ("best fio", &[Tool::Fio], 1.0)],
    ..READ
};

const BARE: &[Tool] = &[Tool::Bare, Tool::BareGroups, Tool::BareTogether];
const FIO: &[Tool] = &[Tool::Fio, Tool::PlainFio];

const WRITE: Task =
    Task { random: false, writes: true, depth: 0, block: LARGE, file_bytes: 1024 * MIB, count: 1024, ..READ };

pub const TASKS: &[Task] = &[
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
        // A plain loop, which reads no clock, runs as well, to show the cost of the two readings.
        aims: &[(Tool::BareRing, 1.0), (Tool::Fio, 1.0)],
        ..READ
    },
    Task {
        name: "random 4 KiB reads, O_DIRECT, depth 32, waiting for one",
        // Plain fio waits for one as well.
        aims_at_best: &[("best bare", BARE, 1.0), ("best fio", FIO, 1.0)],
        ..DIRECT
    },
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
