//! From a plan to stored results: what to run, in what order, and the sequence of each trial.
//!
//! A [`Plan`] names devices, axes and workloads; [`Plan::cases`] multiplies them; [`order`] arranges them in
//! randomised complete blocks; [`dry_run`] shows what would happen, and [`run`] does it. `trial.rs` is the
//! sequence of one trial.
//!
//! This crate neither measures nor builds: the engine measures, the testbed builds. It guards nothing itself
//! either, but starts no trial before the testbed's guards have passed.

mod bench;
mod cases;
mod confounder;
mod device;
mod document;
mod enough;
mod error;
mod estimate;
mod file;
mod ground;
mod guest;
mod order;
mod overhead;
mod plan;
mod progress;
mod raw;
mod resume;
mod run;
mod trial;
mod watch;
mod workload;

pub use bench::{BenchError, BenchOptions, bench_plan};
pub use cases::Case;
pub use enough::Enough;
pub use error::{Location, PlanError, PlanProblem, SweepError};
pub use estimate::{DryCase, DryRun, dry_run};
pub use order::{Slot, order};
pub use plan::{Plan, study};
pub use progress::{Position, Progress};
pub use run::{Machines, RunOptions, SweepEnd, SweepOutcome, run};
