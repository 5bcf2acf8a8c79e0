//! From a plan to stored results: what to run, in what order, and the sequence of each trial.
//!
//! A [`Plan`] names devices, axes and workloads; [`Plan::cases`] multiplies them; [`order`] arranges them in
//! randomised complete blocks; [`dry_run`] shows what would happen, and [`run`] does it. `trial/mod.rs` is
//! the sequence of one trial.
//!
//! This crate neither measures nor builds: the engine measures, the testbed builds. It guards nothing itself
//! either, but starts no trial before the testbed's guards have passed.

mod asked;
mod bench;
mod dry_case;
mod error;
mod estimate;
mod filled;
mod fit;
mod fixes;
mod fleet;
mod flows;
mod foreseen;
mod guest_request;
mod options;
mod order;
mod pace;
mod plan;
mod preparations;
mod progress;
mod quick;
mod race;
mod recorded;
mod resume;
mod room;
mod run;
mod runner;
mod scratch;
mod sizes;
mod space;
mod sweep_error;
mod time_limit;
mod trial;

pub use asked::Asked;
pub use bench::{BENCH_MEMORY, BenchError, BenchOptions, bench_plan};
pub use dry_case::DryCase;
pub use error::{Location, PlanError, PlanProblem};
pub use estimate::{DryRun, dry_run};
pub use fit::{Fit, FitError, fit};
pub use fixes::{Fix, fixes};
pub use fleet::{FleetMember, run_fleet};
pub use flows::{FLOWS, ShippedFlow};
pub use fsdyno_verdict::enough::{Enough, Until};
pub use options::{Machines, MoreBlocks, MoreBlocksError, RunOptions};
pub use order::{Slot, order};
pub use pace::nominal_time;
pub use plan::{
    Case, FleetPlan, Hooks, Key, KeyTable, MAX_PLAN_BYTES, Plan, PlanCommand, Reuse, Rules, Slowest,
    closed_loop_name, key_tables, race_budget, study,
};
pub use progress::{Position, SweepEvent};
pub use quick::{QUICK, Quick, QuickError, QuickOptions, quick};
pub use race::{ForeseenRace, ForeseenRound};
pub use resume::{interrupted, unfinished};
pub use run::{SweepEnd, SweepOutcome, run, verify_privileges};
pub use sweep_error::{Differs, SweepError};
pub use trial::durability::{ShownState, show_state};
