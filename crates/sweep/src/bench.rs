//! The plan of `fsdyno bench DIR`: the fileserver workload, or a flow, in a directory as it is, with a first
//! answer in a minute.
//!
//! It formats nothing, changes no settings and needs no root. Sizes depend on the free space beyond the
//! reserve, so that they cannot fill it: a fiftieth for the trees, at most 512 MiB, and half of that for each
//! writer. If that is too little to measure and the minimum would not fit, there is no plan. Three phases of
//! a ramp and a window take 36 s; creating and removing the trees takes the rest of the minute. Every
//! parameter can be set.

use crate::error::PlanError;
use crate::plan::Plan;
use fsdyno_core::reserve::reserve;
use fsdyno_core::workload::Ramp;
use fsdyno_core::{Bytes, Nanos};
use fsdyno_host::{Host, HostError};
use std::path::Path;

/// The share of the free space that the trees use, as a divisor.
const TREE_SHARE: u64 = 50;
/// The largest default for the trees: a disk creates them in a few seconds.
const TREE_SIZE_MAX: Bytes = Bytes(512 * Bytes::MIB);
/// The smallest default for the trees: with less, there are too few files for a window.
const TREE_SIZE_MIN: Bytes = Bytes(16 * Bytes::MIB);
/// The free space that the smallest default needs: trees, three writers, and the same again for rounding up
/// files and metadata.
const FREE_MIN: Bytes = Bytes(64 * Bytes::MIB);
/// The limit of memory where it can be set: less than each of the usual trees, so that a reader who starts
/// again reads from the device.
pub const BENCH_MEMORY: Bytes = Bytes(64 * Bytes::MIB);
const RAMP: Nanos = Nanos::from_secs(4);
const WINDOW: Nanos = Nanos::from_secs(8);
const DRAIN_LIMIT: Nanos = Nanos::from_secs(10);

/// The settings of a bench that a user may choose; the rest depends on the free space.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BenchOptions {
    /// A flow in place of `fileserver`.
    pub flow: Option<String>,
    /// Total size of all trees.
    pub tree_size: Option<Bytes>,
    /// The load before each window.
    pub ramp: Option<Ramp>,
    /// The measured part of each phase.
    pub window: Option<Nanos>,
    /// Limits the memory of the load.
    pub memory: Option<Bytes>,
    /// `NAME=VALUE` for any parameter of the workload, as in a plan.
    pub set: Vec<String>,
    /// The number of other machines that run the load.
    pub clients: Option<u32>,
}

/// Why there is no plan for a bench.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The directory does not exist, or its free space is unknown.
    #[error("cannot use directory '{directory}'")]
    Directory {
        /// The directory.
        directory: String,
        /// The error that the host reported.
        source: Box<HostError>,
    },
    /// The smallest default does not fit.
    #[error(
        "directory '{directory}' has only {} free beyond the reserve; bench needs at least {needed}",
        Bytes(free.0 / Bytes::MIB * Bytes::MIB)
    )]
    NoRoom {
        /// The directory.
        directory: String,
        /// The free space there, without the reserve.
        free: Bytes,
        /// The space that the smallest trees and their writers need, on all machines together.
        needed: Bytes,
    },
    /// Its name cannot be written into a plan.
    #[error("the name of directory '{directory}' is not valid UTF-8")]
    Name {
        /// The directory.
        directory: String,
    },
    /// A parameter was rejected.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The plan that measures a directory once. It is stored with the results like any other.
///
/// # Errors
/// [`BenchError`].
pub fn bench_plan(host: &mut dyn Host, directory: &Path, options: &BenchOptions) -> Result<Plan, BenchError> {
    let display = directory.display().to_string();
    let failed = |error| BenchError::Directory { directory: display.clone(), source: Box::new(error) };
    let absolute = std::path::absolute(directory).unwrap_or(directory.to_path_buf());
    host.list_directory(&absolute).map_err(failed)?;
    let room = host.room(&absolute).map_err(failed)?;
    let free = Bytes(room.free.0.saturating_sub(reserve(room.size).0));
    let machines = u64::from(options.clients.unwrap_or(1));
    let needed = Bytes(FREE_MIN.0.saturating_mul(machines));
    if options.tree_size.is_none() && options.flow.is_none() && free < needed {
        return Err(BenchError::NoRoom { directory: display, free, needed });
    }
    let share = Bytes(free.0 / TREE_SHARE / machines).clamp(TREE_SIZE_MIN, TREE_SIZE_MAX);
    let writer_space = Bytes(share.0 / 2);
    let path = absolute.to_str().ok_or(BenchError::Name { directory: display.clone() })?;
    let memory = options.memory.map(|memory| format!("memory = \"{memory}\"\n")).unwrap_or_default();
    let clients = options.clients.map(|count| format!("\n[clients]\ncount = {count}\n")).unwrap_or_default();
    let quoted = |text: &str| toml::Value::String(text.to_string());
    let (measure, load) = match &options.flow {
        Some(flow) => (String::new(), format!("\"flow\"\nflow = {}", quoted(flow))),
        None => {
            let tree_size = options.tree_size.unwrap_or(share);
            let load =
                format!("\"fileserver\"\ntree_size = \"{tree_size}\"\nwriter_space = \"{writer_space}\"");
            ("measure = \"read-under-write\"\n".to_string(), load)
        }
    };
    let text = format!(
        "name = \"bench\"\n{measure}{memory}\n[device]\ndirectory = {}\n{clients}\n[[workloads]]\nkind = {load}\n\
         ramp = \"{}\"\nwindow = \"{}\"\ndrain_limit = \"{DRAIN_LIMIT}\"\n",
        quoted(path),
        options.ramp.unwrap_or(Ramp::For(RAMP)),
        options.window.unwrap_or(WINDOW),
    );
    // The pages of flows show paths as a plan has them.
    let within = |set: &String| format!("workloads.0.{}", set.strip_prefix("workloads.").unwrap_or(set));
    let overrides: Vec<String> = options.set.iter().map(within).collect();
    Ok(Plan::parse(&text, "bench", &overrides)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_testkit::fake::FakeHost;

    #[test]
    fn a_directory_without_room_is_refused_unless_sizes_are_given() {
        let mut host = FakeHost::new();
        host.space = (Bytes(1044 * Bytes::MIB), Bytes(1 << 40));
        let error = bench_plan(&mut host, Path::new("/tmp"), &BenchOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "directory '/tmp' has only 20M free beyond the reserve; bench needs at least 64M"
        );
        let small = BenchOptions { tree_size: Some(Bytes(Bytes::MIB)), ..BenchOptions::default() };
        assert!(bench_plan(&mut host, Path::new("/tmp"), &small).is_ok());
    }
}
