//! From a plan to stored results: what to run, in what order, and the sequence of each trial.
//!
//! A [`Plan`] names devices, axes and workloads; [`Plan::cases`] multiplies them; [`order`] lays them out in randomised
//! complete blocks; [`dry_run`] tells what that would do, and [`run`] does it. `trial.rs` is the sequence of one trial.
//!
//! This crate measures nothing and builds nothing itself: the engine measures, the testbed builds. It guards nothing
//! either, but begins no trial before the testbed's guards have said yes.

mod bench;
mod cases;
mod device;
mod document;
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
pub use error::{Location, PlanError, PlanProblem, SweepError};
pub use estimate::{DryCase, DryRun, dry_run};
pub use fsdyno_verdict::enough::Enough;
pub use order::{Slot, order};
pub use plan::{Plan, study};
pub use progress::{Position, Progress};
pub use run::{Machines, RunOptions, SweepEnd, SweepOutcome, run};
