//! From a plan to stored results: what to run, in what order, and the sequence of each trial.
//!
//! A [`Plan`] names devices, axes and workloads; [`Plan::cases`] multiplies them; [`order`] lays them out in randomised
//! complete blocks; [`dry_run`] tells what that would do. This crate measures nothing and builds nothing itself.

mod cases;
mod document;
mod error;
mod order;
mod plan;
mod raw;

pub use cases::Case;
pub use error::{Location, PlanError, PlanProblem};
pub use order::{Slot, order};
pub use plan::{EXISTING, MAX_CASES, MAX_TRIALS, Plan};
