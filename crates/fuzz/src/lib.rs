//! The fuzz targets of fsdyno: for each kind of input that may come from a stranger or from a broken machine,
//! a function that takes any bytes and does with them what fsdyno would do.
//!
//! `fuzz/`, a separate workspace, runs these functions under libFuzzer; the test suite runs them on the
//! inputs in `fuzz/corpus`. A function panics if the product does, or if one of its own assertions fails. No
//! crate of the product imports this one.

mod conversation;
mod engine;
mod guest;
mod imports;
mod journal;
mod machine;
mod models;
mod plans;
mod sample;
mod show;
mod stored;

/// A kind of input.
pub struct FuzzTarget {
    /// Its name, also that of its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the target on any bytes.
    pub run: fn(&[u8]),
    /// The size of the longest input to try, in bytes: room for one of everything. Longer inputs only take
    /// longer.
    pub longest: usize,
    /// Files and directories with real inputs, relative to the root of the repository.
    pub seeds: &'static [&'static str],
}

/// Every kind of input.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "plan", run: plans::plan, longest: 4096, seeds: &["plans"] },
    FuzzTarget {
        name: "fsopbench",
        run: imports::fsopbench,
        longest: 3072,
        seeds: &["crates/report/published/fsopbench-2009"],
    },
    FuzzTarget { name: "disk-model", run: models::model, longest: 8192, seeds: &["disks"] },
    FuzzTarget { name: "fio", run: imports::fio, longest: 8192, seeds: &[] },
    FuzzTarget { name: "bonnie-csv", run: imports::bonnie, longest: 1024, seeds: &[] },
    FuzzTarget {
        name: "reports",
        run: imports::reports,
        longest: 4096,
        seeds: &[
            "crates/formats/captured/mdtest",
            "crates/formats/captured/ior",
            "crates/formats/captured/elbencho",
            "crates/formats/captured/iozone",
            "crates/formats/captured/sysbench",
        ],
    },
    FuzzTarget { name: "table", run: imports::table, longest: 1024, seeds: &[] },
    FuzzTarget { name: "engine-lines", run: engine::lines, longest: 8192, seeds: &[] },
    FuzzTarget { name: "guest-lines", run: guest::lines, longest: 8192, seeds: &[] },
    FuzzTarget { name: "journal", run: journal::journal, longest: 4096, seeds: &[] },
    FuzzTarget { name: "stored", run: stored::stored, longest: 8192, seeds: &[] },
];

/// Finds a target by name.
pub fn find(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Distributes inputs evenly over checks that are too slow to run for each of them. The same input always
/// gets the same number (FNV-1a).
fn lot(data: &[u8], of: u64) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    data.iter().fold(0xcbf2_9ce4_8422_2325, step) % of
}
